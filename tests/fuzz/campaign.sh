#!/usr/bin/env bash
# A campaign that goes on where it stopped: every fuzz target in turn, the one with the fewest executions first.
# Usage: tests/fuzz/campaign.sh FOLDER STATE SECONDS [TARGET]    the fuzzers, what is kept, how long all together
# STATE keeps corpus/TARGET/, crashes/ and executions.csv (target, executions, seconds, findings). Seeds are the corpus of the
# tests and every public file at hand (LOCKSTEP_DATA, ../shared/data) whose ending suits the target, the first 64 KiB of it;
# those that reach something new are merged into STATE's corpus once. Words of the reader (tests/fuzz/dictionary.sh) are put in.
set -uo pipefail
cd "$(dirname "$0")/../.."

folder=$1 state=$2 seconds=$3 only=${4:-}
# Stacks of allocations take a tenth of the time, freed memory that is kept a quarter.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=4:quarantine_size_mb=16}
slice=${FUZZ_SLICE:-60} goal=100000000
data=$(realpath -m "${LOCKSTEP_DATA:-../shared/data}")
mkdir -p "$state/corpus" "$state/crashes" "$state/merged"
touch "$state/executions.csv"

# Endings of public files that a target reads.
suits() {
	case $1 in
	kineto | explain | trace_kind | rocprof) echo 'json.gz json' ;;
	works) echo 'et json.gz' ;;
	xplane | nsys) echo 'pb sqlite' ;;
	config | deepspeed | json | graph | cluster | dlrm) echo 'json' ;;
	yaml | config_file) echo 'yaml yml toml json' ;;
	launch) echo 'sh' ;;
	csv | runs | ops | models | slowdown | throughput | inference | post | memory_table | kernel_table | jobs | offers | shard | hierarchy) echo 'csv csv.gz' ;;
	nccl_log | nccl_info) echo 'log txt' ;;
	*) ;;
	esac
}

# Once, as they do not change: what of them reaches code that nothing else reaches.
public_seeds() { # TARGET CORPUS
	local target=$1 corpus=$2 ending file n=0 to
	[ -d "$data" ] && [ ! -e "$state/merged/$target" ] || return 0
	to=$(mktemp -d)
	for ending in $(suits "$target"); do
		while IFS= read -r file; do
			n=$((n + 1))
			case $file in
			*.gz) gzip -dc "$file" 2> /dev/null | head -c 65536 > "$to/$n" ;;
			*) head -c 65536 "$file" > "$to/$n" ;;
			esac
		done < <(find "$data" -type f -name "*.$ending" | sort)
	done
	[ $n -eq 0 ] || "$folder/$target" -merge=1 -timeout=120 -rss_limit_mb=2048 -max_len=65536 \
		-artifact_prefix="$state/crashes/$target-" "$corpus" "$to" > "$state/$target.merge.log" 2>&1
	touch "$state/merged/$target"
	rm -r "$to"
}

count_of() { # TARGET COLUMN
	awk -F, -v target="$1" -v column="$2" '$1 == target { value = $column } END { print value + 0 }' "$state/executions.csv"
}

# Adds to a target's line.
count() { # TARGET EXECUTIONS SECONDS FINDINGS
	awk -F, -v OFS=, -v target="$1" -v runs="$2" -v time="$3" -v found="$4" '
		$1 == target { $2 += runs; $3 += time; $4 += found; seen = 1 }
		{ print }
		END { if (!seen) print target, runs, time, found }' "$state/executions.csv" | sort > "$state/executions.new" &&
		mv "$state/executions.new" "$state/executions.csv"
}

targets() {
	for source in tests/fuzz/fuzz_*.c; do
		local target=$(basename "$source" .c)
		target=${target#fuzz_}
		[ -z "$only" ] || [ "$only" = "$target" ] || continue
		printf '%s %s\n' "$(count_of "$target" 2)" "$target"
	done
}

findings=0 end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
	read -r done target < <(targets | sort -n)
	[ -n "${target:-}" ] || { echo "no target is called $only" >&2; exit 2; }
	[ "$done" -lt $goal ] || break
	corpus=$state/corpus/$target
	mkdir -p "$corpus"
	public_seeds "$target" "$corpus"
	folders=("$corpus")
	for seed in "tests/fuzz/corpus/$target" "tests/data/$target"; do
		[ -d "$seed" ] && folders+=("$seed")
	done
	dictionary=()
	tests/fuzz/dictionary.sh "$target" > "$state/$target.dict"
	[ ! -s "$state/$target.dict" ] || dictionary=(-dict="$state/$target.dict")
	# Starting threads takes longer than most inputs do: three slices of four have one processor, and so one thread.
	alone=()
	if [ $((RANDOM % 4)) -ne 0 ] && command -v taskset > /dev/null; then
		processors=($(taskset -cp $$ | sed 's/.*: //; s/,/ /g; s/\([0-9]*\)-\([0-9]*\)/{\1..\2}/g'))
		processors=($(eval echo "${processors[@]}"))
		alone=(taskset -c "${processors[RANDOM % ${#processors[@]}]}")
	fi
	time=$((end - SECONDS < slice ? end - SECONDS : slice)) found=0 began=$SECONDS
	# Most slices take short inputs, of which a second has hundreds of times as many.
	longest=$((RANDOM % 4 ? 4096 : 65536))
	"${alone[@]}" "$folder/$target" -max_total_time="$time" -timeout=120 -rss_limit_mb=2048 -max_len=$longest -print_final_stats=1 \
		"${dictionary[@]}" -artifact_prefix="$state/crashes/$target-" "${folders[@]}" > "$state/$target.log" 2>&1 || found=1
	time=$((SECONDS - began))
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$state/$target.log" | tail -n 1)
	count "$target" "${runs:-0}" "$time" $found
	findings=$((findings + found))
	if [ $found -eq 0 ]; then
		echo "ok   $target: ${runs:-0} executions, $(count_of "$target" 2) in all"
	else
		echo "FAIL $target: see $state/$target.log; the input is in $state/crashes/"
		grep -m 5 -E 'ERROR|SUMMARY|runtime error|^artifact_prefix' "$state/$target.log" | sed 's/^/    /'
	fi
done
echo "executions of each target so far, fewest first (the goal is $goal):"
sort -t, -k2,2n "$state/executions.csv" | awk -F, '{ printf "  %-14s %12d in %7d s, %d %s\n", $1, $2, $3, $4, $4 == 1 ? "finding" : "findings" }'
[ $findings -eq 0 ]
