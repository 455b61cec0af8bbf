#!/usr/bin/env bash
# Runs the fuzz targets that were built into FOLDER, one program per target.
# Usage: tests/fuzz/run.sh replay FOLDER                   each on its seeds, tests/fuzz/corpus/TARGET/ and tests/data/TARGET/
#        tests/fuzz/run.sh fuzz FOLDER SECONDS [TARGET]    libFuzzer; new inputs and crashes stay under build/fuzz/
set -uo pipefail
cd "$(dirname "$0")/../.."

how=$1 folder=$2 seconds=${3:-60} only=${4:-}
passed=0 failed=0
for source in tests/fuzz/fuzz_*.c; do
	[ -e "$source" ] || continue
	target=$(basename "$source" .c)
	target=${target#fuzz_}
	[ -z "$only" ] || [ "$only" = "$target" ] || continue
	seeds=()
	for seed in tests/fuzz/corpus/$target tests/data/$target; do
		[ -d $seed ] && seeds+=($seed)
	done
	if [ "$how" = replay ]; then
		line=$("$folder/$target" "$target" "${seeds[@]}")
		echo "$line"
		[[ $line =~ ^fuzz\ $target:\ ([0-9]+)\ passed,\ ([0-9]+)\ failed ]] || BASH_REMATCH=("" 0 1)
		passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
		continue
	fi
	mkdir -p "build/fuzz/corpus/$target" build/fuzz/crashes
	if "$folder/$target" -max_total_time="$seconds" -timeout=120 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="build/fuzz/crashes/$target-" "build/fuzz/corpus/$target" "${seeds[@]}" \
		> "build/fuzz/$target.log" 2>&1; then
		passed=$((passed + 1))
		echo "ok   $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$target.log") inputs"
	else
		failed=$((failed + 1))
		echo "FAIL $target: see build/fuzz/$target.log; the input is in build/fuzz/crashes/"
		grep -m 5 -E 'ERROR|SUMMARY|runtime error|^artifact_prefix' "build/fuzz/$target.log" | sed 's/^/    /'
	fi
done
echo "fuzz targets: $passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
