#!/usr/bin/env bash
# Measures the release program against the bars of docs/notes/figures.md and prints one table: time of whole processes, peaks
# of memory, speed of the engines, accuracy. On a shared machine read the best and the processor time, not the mean.
# Usage: bench/run.sh [--markdown | --write] [FIGURE...]
#   --markdown   the table as Markdown
#   --write      the page docs/notes/speed.md
#   FIGURE       1 to 9; without one, all. Figure 5 comes out of the runs of 2 and 3.
# LOCKSTEP_DATA (default ../shared/data) holds measured/llm_runs.csv for figure 6. hyperfine and valgrind are used where
# they are installed, for a second clock and for counts of instructions; nothing needs them.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
	echo "usage: bench/run.sh [--markdown | --write] [FIGURE...], figures 1 to 9" >&2
	exit 2
}

form='text'
case ${1:-} in
--markdown | --write) form=${1#--} && shift ;;
-*) usage ;;
esac
[ $# -gt 0 ] || set -- 1 2 3 4 5 6 7 8 9
for figure in "$@"; do [[ $figure == [1-9] ]] || usage; done

export LC_ALL=C
program=build/release/lockstep
work=build/bench
data=${LOCKSTEP_DATA:-../shared/data}
cc=${CC:-gcc}

read -r load _ < /proc/loadavg # of others: before anything runs here
make --no-print-directory -s -j2 MODE=release all >&2
mkdir -p $work
: > $work/rows
: > $work/commands
: > $work/speeds
$cc -std=c11 -O2 -D_GNU_SOURCE -o $work/measure bench/measure.c

# --- rows ------------------------------------------------------------------------------------------------------------
# row FIGURE WHAT BEST BAR HOLDS [MEAN [PROCESSOR [INSTRUCTIONS]]]
row() {
	printf '%s\n' "$1	$2	$3	$4	$5	${6:--}	${7:--}	${8:--}" >> $work/rows
}

command_of() {
	printf '%s\t%s\n' "$1" "$2" >> $work/commands
}

below() { awk -v x="$1" -v bar="$2" 'BEGIN { print (x < bar ? "yes" : "NO") }'; }
above() { awk -v x="$1" -v bar="$2" 'BEGIN { print (x > bar ? "yes" : "NO") }'; }
span() { awk -v x="$1" 'BEGIN { if (x < 0.1) printf "%.1f ms", 1000 * x; else printf "%.2f s", x }'; }
mebi() { awk -v x="$1" 'BEGIN { printf "%.0f MiB", x / 1048576 }'; }
millions() { awk -v x="$1" 'BEGIN { printf "%.1f M/s", x / 1e6 }'; }
percent() { awk -v x="$1" 'BEGIN { printf "%.1f %%", 100 * x }'; }

# Sets wall, mean, cpu (s), peak (bytes) of a command; words before it are options of bench/measure.c. Status 1 is an
# answer: the job does not fit.
measure() {
	local status
	read -r _ wall mean cpu peak status < <($work/measure "$@" || echo "0 0 0 0 0 2")
	[ "$status" -le 1 ] || { echo "bench/run.sh: exit status $status: $*" >&2; exit 1; }
}

# Instructions that a command runs, where callgrind can count them.
instructions() {
	command -v valgrind > /dev/null || return 0
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 > /dev/null |
		sed -n 's/.*Collected : \([0-9]*\).*/\1/p' | awk '{ printf "%.1f M", $1 / 1e6 }'
}

# --- kinds of figures ------------------------------------------------------------------------------------------------
# The job of figures 1 to 5 on GPUS in PP stages, one sequence of 2048 tokens per GPU: sets words.
job() {
	words=(predict --model gpt3-175b --gpu h800-sxm --gpus "$1" --tp 8 --pp "$2" --mbs 1 --gbs "$1" --seq 2048 "${@:3}")
}

# whole FIGURE WHAT BAR: the whole process of words, s.
whole() {
	measure -r 20 -R 300 -s 4 $program "${words[@]}"
	row "$1" "$2" "$(span "$wall")" "< $(span "$3")" "$(below "$wall" "$3")" "$(span "$mean")" "$(span "$cpu")" \
		"$(instructions $program "${words[@]}")"
	command_of "$1" "lockstep ${words[*]}"
	command -v hyperfine > /dev/null || return 0
	hyperfine --shell=none --warmup 3 --min-runs 20 --style none --ignore-failure --export-csv $work/hyperfine.csv \
		"$program ${words[*]}" > /dev/null 2>&1
	IFS=, read -r _ mean _ _ _ _ wall _ < <(tail -n 1 $work/hyperfine.csv)
	row "$1" "$2, by hyperfine -N" "$(span "$wall")" "< $(span "$3")" "$(below "$wall" "$3")" "$(span "$mean")"
}

# Best rate of three runs of words, operations per second: those of the JSON, in the time that -v says.
rate_of() {
	for _ in 1 2 3; do
		$program "${words[@]}" -o jsonl -v 2>&1 | sed -n 's/.*"operations":\([0-9]*\).*/\1/p; s/^lockstep: simulated in \([0-9.]*\) s$/\1/p' |
			sort -rn | paste -s
	done | awk '$2 > 0 && $1 / $2 > best { best = $1 / $2 } END { printf "%.0f\n", best }'
}

# large FIGURE WHAT BAR BAR_BYTES BAR_RATE: time and memory of words, and for figure 5 the operations that they account for a
# second: ranks that cannot differ are simulated once. Figure 7 is the engine's own speed.
large() {
	local rate
	measure -r 3 -R 20 -s 3 -o $work/large.jsonl $program "${words[@]}" -o jsonl
	row "$1" "$2" "$(span "$wall")" "< $(span "$3")" "$(below "$wall" "$3")" "$(span "$mean")" "$(span "$cpu")"
	row "$1" "$2, peak memory" "$(mebi "$peak")" "< $(mebi "$4")" "$(below "$peak" "$4")"
	command_of "$1" "lockstep ${words[*]} -o jsonl"
	rate=$(rate_of)
	printf '%s\n' "$2, operations accounted for	$(millions "$rate")	> $(millions "$5")	$(above "$rate" "$5")" >> $work/speeds
}

# --- figures ---------------------------------------------------------------------------------------------------------
figure_1() {
	job 96 12
	whole 1 "predict, 96 GPUs" 0.006
}

figure_2() {
	job 1024 16 --ranks all --exact --no-contention
	large 2 "1024 ranks, precedence" 0.5 314572800 100e6
	job 1024 16 --ranks all --exact
	large 2 "1024 ranks, contention" 0.3 314572800 10e6
}

figure_3() {
	job 8192 16 --ranks all --exact --no-contention
	large 3 "8192 ranks, precedence" 5 1073741824 100e6
	job 8192 16 --ranks all --exact
	large 3 "8192 ranks, contention" 2.5 1073741824 10e6
}

figure_4() {
	job 131072 16
	whole 4 "predict, 131072 GPUs" 0.030
	words=(predict --model gpt3-175b --gpu h800-sxm --gpus 128 --tp 8 --pp 16 --mbs 1 --gbs 4096 --seq 2048)
	whole 4 "predict, 4096 micro-batches" 0.030
}

figure_5() {
	local what rate bar holds
	[ -s $work/speeds ] || row 5 "operations per second: ask for figure 2 or 3" skipped - -
	while IFS=$'\t' read -r what rate bar holds; do row 5 "$what" "$rate" "$bar" "$holds"; done < $work/speeds
	command_of 5 "operations in the output of 2 and 3, in the time that -v says"
}

# The first number of a key in the validation is that of the sum over all rows.
first() {
	grep -o "\"$1\": *[-+0-9.e]*" $work/validate.json | head -n 1 | sed 's/.*: *//'
}

figure_6() {
	local runs=$data/measured/llm_runs.csv error macro
	# shellcheck disable=SC2016 # the reader's variable
	command_of 6 'lockstep validate $LOCKSTEP_DATA/measured/llm_runs.csv -o json'
	if [ ! -r "$runs" ]; then
		row 6 "validate llm_runs.csv: LOCKSTEP_DATA has none" skipped - -
		return
	fi
	measure -r 3 -R 10 -s 3 $program validate "$runs" -o json
	row 6 "validate llm_runs.csv" "$(span "$wall")" "< 5 s" "$(below "$wall" 5)" "$(span "$mean")" "$(span "$cpu")"
	$program validate "$runs" -o json > $work/validate.json
	error=$(first geomean_error) macro=$(first macro_geomean_error)
	row 6 "geomean_error" "$(percent "$error")" "< 15 %" "$(below "$error" 0.15)"
	row 6 "macro_geomean_error" "$(percent "$macro")" "< 20 %" "$(below "$macro" 0.20)"
}

# engine MODE WHAT BAR: the engine without a request to read and a model to build; bench/engine.c runs it three times.
engine() {
	local rate
	rate=$($work/engine 1024 "$1" | sed -n 's/.* \([0-9.]*\) M\/s.*/\1e6/p')
	row 7 "$2" "$(millions "$rate")" "> $(millions "$3")" "$(above "$rate" "$3")"
	command_of 7 "$work/engine 1024 $1"
}

figure_7() {
	$cc -std=c11 -O2 -D_GNU_SOURCE -Iinclude -Isrc -o $work/engine bench/engine.c build/release/liblockstep.a -lm
	engine sweep "engine alone, 1024 ranks, precedence" 100e6
	engine events "engine alone, 1024 ranks, contention" 10e6
}

# A seed of figure 9 is a simulation of all ranks: 100 of them in 20 s on two cores are 0.4 s of each.
figure_9() {
	job 1024 16 --jitter 0.02
	measure -r 3 -R 20 -s 3 $program "${words[@]}"
	row 9 "1024 ranks, contention, jitter: a seed" "$(span "$cpu")" "< 0.40 s" "$(below "$cpu" 0.4)" "$(span "$mean")" "$(span "$cpu")"
	command_of 9 "lockstep ${words[*]}"
}

# reading WHAT BAR FILE INSTRUCTIONS: JSON read per second of processor time, for the bar is one of a core. Sets peak and
# events.
reading() {
	local best
	measure -r 5 -R 15 -s 10 $work/read_trace "$3"
	read -r events bytes _ < <($work/read_trace "$3")
	best=$(awk -v b="$bytes" -v s="$cpu" 'BEGIN { printf "%.0f", b / s }')
	row 8 "$1" "$(rate "$best" 1)" "> $(rate "$2" 1)" "$(above "$best" "$2")" "$(rate "$bytes" "$mean")" "$(span "$cpu")" \
		"${4:--}"
	command_of 8 "$work/read_trace $3"
}
rate() { awk -v b="$1" -v s="$2" 'BEGIN { printf "%.0f MB/s", b / s / 1e6 }'; }

# Instructions per byte of JSON, counted on a smaller trace of the same kind.
per_byte() {
	command -v valgrind > /dev/null || return 0
	$work/make_trace -s 20M -r 8 -k 1 > $work/small.json
	valgrind --tool=callgrind --callgrind-out-file=/dev/null $work/read_trace $work/small.json 2>&1 > /dev/null |
		sed -n 's/.*Collected : \([0-9]*\).*/\1/p' | awk -v b="$(stat -c %s $work/small.json)" '{ printf "%.1f a byte", $1 / b }'
}

# LOCKSTEP_TRACE_SIZE is what make_trace -s takes.
figure_8() {
	local libs='-lz -lzstd -lexpat -lm -lpthread -ldl' size=${LOCKSTEP_TRACE_SIZE:-1G} events bytes each
	[ "$(nm build/release/liblockstep.a 2> /dev/null | grep -c ' U isal_inflate$')" = 0 ] || libs="-lisal $libs"
	$cc -std=c11 -O2 -D_GNU_SOURCE -o $work/make_trace bench/make_trace.c
	# shellcheck disable=SC2086 # several words
	$cc -std=c11 -O2 -D_GNU_SOURCE -Iinclude -Isrc -o $work/read_trace bench/read_trace.c build/release/liblockstep.a $libs
	command_of 8 "$work/make_trace -s $size -r 8 -k 1 > $work/rank1.json"
	$work/make_trace -s "$size" -r 8 -k 1 > $work/rank1.json
	reading "trace of $size, plain JSON" 500e6 $work/rank1.json "$(per_byte)"
	each=$(awk -v p="$peak" -v n="$events" 'BEGIN { printf "%.0f", p / n }')
	row 8 "trace of $size, peak memory per event" "$each bytes" "< 100 bytes" "$(below "$each" 100)"
	gzip -6 < $work/rank1.json > $work/rank1.json.gz
	rm $work/rank1.json
	reading "trace of $size, JSON out of gzip" 300e6 $work/rank1.json.gz
	rm $work/rank1.json.gz
}

# --- the table -------------------------------------------------------------------------------------------------------
machine() {
	awk -F': *' -v cores="$(nproc)" '/^cpu MHz/ && !clock { clock = $2 } /^model name/ { kind = $2 }
		END { printf "%d cores", cores; if (kind) printf " of %s", kind; if (clock) printf " at %.1f GHz", clock / 1000 }' /proc/cpuinfo
}

verdict() {
	awk -F'\t' '$5 == "yes" { yes++ } $5 == "NO" { no++ } END { printf "%d of %d bars hold", yes, yes + no }' $work/rows
}

as_text() {
	printf 'figure\twhat\tbest\tbar\tholds\tmean\tprocessor\tinstructions\n' | cat - $work/rows |
		awk -F'\t' '{ printf "%-6s  %-46s  %10s  %11s  %-5s  %9s  %9s  %12s\n", $1, $2, $3, $4, $5, $6, $7, $8 }'
	printf '\n%s; %s\n' "$(machine)" "$(verdict)"
}

as_markdown() {
	printf 'Measured on %s, %s, load average %s before; %s.\n\n' "$(date -u +%Y-%m-%d)" "$(machine)" "$load" "$(verdict)"
	printf '| figure | what | best | bar | holds | mean | processor | instructions |\n|---|---|--:|--:|---|--:|--:|--:|\n'
	awk -F'\t' '{ printf "|"; for (i = 1; i <= NF; i++) printf " %s |", $i; print "" }' $work/rows
	printf '\n| figure | command |\n|---|---|\n'
	awk -F'\t' '{ printf "| %s | `%s` |\n", $1, $2 }' $work/commands
}

write() {
	{
		printf '# Speed of the program, measured\n\n`bench/run.sh --write` writes this page. [figures](figures.md) says what is measured, and how.\n\n'
		as_markdown
	} > $work/speed.md
	cp $work/speed.md docs/notes/speed.md
}

for figure in "$@"; do
	echo "bench: figure $figure" >&2
	"figure_$figure"
done
case $form in
text) as_text ;;
markdown) as_markdown ;;
write) write ;;
esac
