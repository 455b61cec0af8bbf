#!/usr/bin/env bash
# Measures the release program against the bars of docs/FIGURES.md and prints one table: time of whole processes, peaks of
# memory, speed of the engines, accuracy. On a shared machine read the best and the processor time, not the mean.
# Usage: bench/run.sh [--markdown | --write] [FIGURE...]
#   --markdown   the table as Markdown, as docs/FIGURES.md holds it, on standard output
#   --write      puts that in place of the table in docs/FIGURES.md
#   FIGURE       1 to 7; without one, all
# LOCKSTEP_DATA (default ../shared/data) holds measured/llm_runs.csv for figure 6. hyperfine and valgrind are used where they
# are installed, for a second clock and for counts of instructions; nothing needs them.
set -euo pipefail
cd "$(dirname "$0")/.."

form=text
case ${1:-} in
--markdown) form=markdown; shift ;;
--write) form=write; shift ;;
-*) echo "usage: bench/run.sh [--markdown | --write] [FIGURE...]" >&2; exit 2 ;;
esac
chosen=" ${*:-1 2 3 4 5 6 7} "
export LC_ALL=C
program=build/release/lockstep
work=build/bench
job="--model gpt3-175b --gpu h800-sxm --tp 8 --mbs 1 --seq 2048"
every="--ranks all --exact"

make --no-print-directory -s -j2 MODE=release all >&2
mkdir -p $work
: > $work/rows
: > $work/commands
"${CC:-gcc}" -std=c11 -O2 -D_GNU_SOURCE -o $work/measure bench/measure.c

# --- one row ---------------------------------------------------------------------------------------------------------
# row FIGURE WHAT BEST BAR HOLDS [MEAN [CPU [INSTRUCTIONS]]]: tab-separated in $work/rows, and what was done on standard error.
row() {
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5" "${6:--}" "${7:--}" "${8:--}" >> $work/rows
	printf '%-4s %-58s %-12s %-10s %s\n' "$1" "$2" "$3" "$4" "$5" >&2
}

skip() {
	row "$1" "$2" "skipped" "$3" "$4"
}

command_of() {
	printf '%s\t%s\n' "$1" "$2" >> $work/commands
}

# below|above VALUE BAR
below() { awk -v x="$1" -v bar="$2" 'BEGIN { print x < bar ? "yes" : "NO" }'; }
above() { awk -v x="$1" -v bar="$2" 'BEGIN { print x > bar ? "yes" : "NO" }'; }
span() { awk -v x="$1" 'BEGIN { if (x < 1) printf "%.1f ms", 1000 * x; else printf "%.2f s", x }'; }
mebi() { awk -v x="$1" 'BEGIN { printf "%.0f MiB", x / 1048576 }'; }
millions() { awk -v x="$1" 'BEGIN { printf "%.1f M/s", x / 1e6 }'; }
percent() { awk -v x="$1" 'BEGIN { printf "%.1f %%", 100 * x }'; }

# instructions COMMAND...: how many the process runs, in millions, where callgrind is.
instructions() {
	command -v valgrind > /dev/null || { echo -; return; }
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 > /dev/null |
		sed -n 's/.*Collected : \([0-9]*\).*/\1/p' | awk '{ printf "%.1f M", $1 / 1e6; n++ } END { if (!n) print "-" }'
}

# measure OPTIONS -- COMMAND...: sets runs, wall, mean, cpu, peak. 1 is a status like 0: it does not fit.
measure() {
	local status
	read -r runs wall mean cpu peak status < <($work/measure "$@" || echo "0 0 0 0 0 2")
	[ "$status" -le 1 ] || { echo "bench/run.sh: failed with status $status: $*" >&2; exit 1; }
}

# --- kinds of figures ------------------------------------------------------------------------------------------------
# whole FIGURE WHAT BAR_S WORDS...: a whole process that ends at once.
whole() {
	local figure=$1 what=$2 bar=$3
	shift 3
	measure -r 20 -R 200 -s 4 $program "$@"
	row "$figure" "$what" "$(span "$wall")" "< $(span "$bar")" "$(below "$wall" "$bar")" "$(span "$mean")" "$(span "$cpu")" \
		"$(instructions $program "$@")"
	command_of "$figure" "lockstep $*"
	command -v hyperfine > /dev/null || return 0
	hyperfine --shell=none --warmup 3 --min-runs 20 --style none --ignore-failure --export-csv $work/hyperfine.csv \
		"$program $*" > /dev/null 2>&1
	wall=$(awk -F, 'NR == 2 { print $7 }' $work/hyperfine.csv) mean=$(awk -F, 'NR == 2 { print $2 }' $work/hyperfine.csv)
	row "$figure" "$what, by hyperfine -N" "$(span "$wall")" "< $(span "$bar")" "$(below "$wall" "$bar")" "$(span "$mean")"
}

# Best operations per second of the runs in a file of JSON lines.
speed() {
	sed -n 's/.*"operations":\([0-9]*\).*"simulation_s":\([-+0-9.e]*\).*/\1 \2/p' "$1" |
		awk '$2 > 0 && $1 / $2 > best { best = $1 / $2 } END { printf "%.0f\n", best }'
}

# large FIGURE WHAT BAR_S BAR_BYTES BAR_SPEED WORDS...: time and memory of a large simulation, speed of the engine inside it.
large() {
	local figure=$1 what=$2 bar=$3 bytes=$4 speed=$5
	shift 5
	measure -r 3 -R 20 -s 3 -o $work/large.jsonl $program "$@" -o jsonl
	row "$figure" "$what" "$(span "$wall")" "< $(span "$bar")" "$(below "$wall" "$bar")" "$(span "$mean")" "$(span "$cpu")"
	row "$figure" "$what, peak memory" "$(mebi "$peak")" "< $(mebi "$bytes")" "$(below "$peak" "$bytes")"
	command_of "$figure" "lockstep $* -o jsonl"
	local best
	best=$(speed $work/large.jsonl)
	printf '%s\t%s\t%s\t%s\n' "$what" "$(millions "$best")" "> $(millions "$speed")" "$(above "$best" "$speed")" >> $work/speeds
}

# --- figures ---------------------------------------------------------------------------------------------------------
wanted() { [[ $chosen == *" $1 "* ]]; }

figure_1() {
	# shellcheck disable=SC2086 # words of a command
	whole 1 "predict, 96 GPUs" 0.020 predict $job --gpus 96 --pp 12 --gbs 96
}

figure_2() {
	# shellcheck disable=SC2086
	large 2a "every rank of 1024, precedence" 0.5 314572800 100e6 predict $job --gpus 1024 --pp 16 --gbs 1024 $every --no-contention
	# shellcheck disable=SC2086
	large 2b "every rank of 1024, contention" 3 314572800 10e6 predict $job --gpus 1024 --pp 16 --gbs 1024 $every
}

figure_3() {
	# shellcheck disable=SC2086
	large 3a "every rank of 8192, precedence" 5 1073741824 100e6 predict $job --gpus 8192 --pp 16 --gbs 8192 $every --no-contention
	# shellcheck disable=SC2086
	large 3b "every rank of 8192, contention" 25 1073741824 10e6 predict $job --gpus 8192 --pp 16 --gbs 8192 $every
}

figure_4() {
	# shellcheck disable=SC2086
	whole 4 "predict, 131072 GPUs" 0.050 predict $job --gpus 131072 --pp 16 --gbs 131072
}

# Operations per second inside the runs of figures 2 and 3.
figure_5() {
	local what best bar holds
	if [ ! -s $work/speeds ]; then
		skip 5 "operations per second" "-" "needs figure 2 or 3"
		return
	fi
	while IFS=$'\t' read -r what best bar holds; do row 5 "$what, operations" "$best" "$bar" "$holds"; done < $work/speeds
	command_of 5 "the commands of 2 and 3: operations / simulation_s of their output"
}

figure_6() {
	local runs_csv=${LOCKSTEP_DATA:-../shared/data}/measured/llm_runs.csv error macro
	command_of 6 "lockstep validate \$LOCKSTEP_DATA/measured/llm_runs.csv -o json"
	if [ ! -r "$runs_csv" ]; then
		skip 6 "validate llm_runs.csv" "-" "no LOCKSTEP_DATA"
		return
	fi
	measure -r 3 -R 10 -s 3 -o $work/validate.jsonl $program validate "$runs_csv" -o jsonl
	row 6 "validate llm_runs.csv" "$(span "$wall")" "< 5 s" "$(below "$wall" 5)" "$(span "$mean")" "$(span "$cpu")"
	$program validate "$runs_csv" -o json > $work/validate.json
	error=$(first geomean_error) macro=$(first macro_geomean_error)
	row 6 "geomean_error" "$(percent "$error")" "< 15 %" "$(below "$error" 0.15)"
	row 6 "macro_geomean_error" "$(percent "$macro")" "< 20 %" "$(below "$macro" 0.20)"
}

# The first number of a key in the validation: that of the summary over all rows.
first() {
	grep -o "\"$1\": *[-+0-9.e]*" $work/validate.json | head -n 1 | sed 's/.*: *//'
}

# The engines alone, without reading a request and building its graph.
figure_7() {
	local line rate bar
	if [ ! -r bench/engine.c ]; then
		skip 7 "engines alone" "-" "no bench/engine.c"
		return
	fi
	"${CC:-gcc}" -std=c11 -O2 -D_GNU_SOURCE -Iinclude -Isrc -o $work/engine bench/engine.c build/release/liblockstep.a \
		-lz -lzstd -lsqlite3 -lm -lpthread
	for mode in sweep events; do
		bar=$([ $mode = sweep ] && echo 100e6 || echo 10e6)
		line=$($work/engine 1024 $mode | tail -n 1)
		rate=$(sed -n 's/.* \([0-9.]*\) M\/s.*/\1e6/p' <<< "$line")
		row 7 "engine alone, 1024 ranks, $mode" "$(millions "$rate")" "> $(millions "$bar")" "$(above "$rate" "$bar")"
	done
	command_of 7 "build/bench/engine 1024 sweep; build/bench/engine 1024 events"
}

# --- the table -------------------------------------------------------------------------------------------------------
machine() {
	awk -F: -v cores="$(nproc)" '/^cpu MHz/ && !clock { clock = $2 }
		END { printf "%d cores", cores; if (clock) printf " at %.1f GHz", clock / 1000; print "" }' /proc/cpuinfo
}

verdict() {
	awk -F'\t' '$5 == "yes" { yes++ } $5 == "NO" { no++ } END { printf "%d of %d bars hold\n", yes, yes + no }' $work/rows
}

as_text() {
	{
		printf 'figure\twhat\tbest\tbar\tholds\tmean\tprocessor\tinstructions\n'
		cat $work/rows
	} | awk -F'\t' '{ printf "%-6s  %-48s  %10s  %11s  %-5s  %10s  %10s  %12s\n", $1, $2, $3, $4, $5, $6, $7, $8 }'
	printf '\n%s; %s\n' "$(machine)" "$(verdict)"
}

as_markdown() {
	printf 'Measured on %s, %s; %s.\n\n' "$(date -u +%Y-%m-%d)" "$(machine)" "$(verdict)"
	printf '| figure | what | best | bar | holds | mean | processor | instructions |\n|---|---|--:|--:|---|--:|--:|--:|\n'
	awk -F'\t' '{ printf "|"; for (i = 1; i <= NF; i++) printf " %s |", $i; print "" }' $work/rows
	printf '\n| figure | command |\n|---|---|\n'
	awk -F'\t' '{ printf "| %s | `%s` |\n", $1, $2 }' $work/commands
}

: > $work/speeds
for number in 1 2 3 4 5 6 7; do
	if wanted $number; then figure_$number; fi
done
echo >&2
case $form in
text) as_text ;;
markdown) as_markdown ;;
write)
	as_markdown > $work/figures.md
	awk -v table=$work/figures.md '
		/^<!-- table end/ { skipping = 0 }
		!skipping { print }
		/^<!-- table begin/ { skipping = 1; while ((getline line < table) > 0) print line }' docs/FIGURES.md > $work/FIGURES.md
	cat $work/FIGURES.md > docs/FIGURES.md
	;;
esac
