#!/usr/bin/env bash
# The CUDA target on one GPU: gpu.sh LOCKSTEP. Where nvidia-smi finds none it says so and ends with 0.
#
# Every program is built by nvcc with virtual ranks on device 0 and the stand-in for NCCL (virtual/nccl.h), and every
# schedule run with fused steps by collectives (T2) and by kernels that reach the others' memory, in one cooperative launch
# (T1); results are compared with the interpreter. Then the times of Adam's schedules at 2^24 elements, with nothing beside
# them: virtual ranks share one device and its memory, so that they compare kernels and passes over memory, and say nothing of
# a network. Last, on the smallest number of ranks above one, memcheck, racecheck and synccheck of compute-sanitizer watch all
# schedules (racecheck sees hazards in shared memory alone; what ranks do to each other's memory is seen by the comparison,
# and by the thread sanitizer in run.sh).
#
# Builds take all processors; LANG_GPU_JOBS programs (8) run on the GPU at a time. LANG_CUDA_ONLY=REGEX: some programs;
# LANG_GPU_TOOLS: which tools watch; LANG_GPU_LOGS=DIR: logs of what failed (build/check/gpu). LANG_GPU_BUILT=DIR: programs
# that were built elsewhere, by their names; those that are not there are built here.
# Last line: "lang-gpu: N passed, N failed, N skipped".
set -uo pipefail
lockstep=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
export PATH="$PATH:/usr/local/cuda/bin" CUDA_DEVICE_MAX_CONNECTIONS=32
for tool in nvidia-smi nvcc; do
	command -v $tool > /dev/null && { [ $tool != nvidia-smi ] || nvidia-smi -L; } 2> /dev/null && continue
	echo "no GPU that programs can be built for and run on: $tool does not say so"
	echo "lang-gpu: 0 passed, 0 failed, 1 skipped"
	exit 0
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
logs=${LANG_GPU_LOGS:-$root/build/check/gpu}
mkdir -p "$logs"
jobs=${LANG_GPU_JOBS:-8}
tools=${LANG_GPU_TOOLS-memcheck racecheck synccheck}
[ -z "$tools" ] || command -v compute-sanitizer > /dev/null || { echo "skip memory and race checks: there is no compute-sanitizer" | tee "$dir/results.0"; tools=''; }
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
export lockstep root dir logs tools arch

file_of() { # PROGRAM
	local folder
	for folder in examples/lang tests/cuda/programs tests/lang/operations; do
		[ -f "$root/$folder/$1.lk" ] && echo "$root/$folder/$1.lk" && return
	done
}
check() { # WHAT COMMAND...
	local what=$1 log
	shift
	log=$logs/$(tr -c 'A-Za-z0-9\n' - <<< "$what").log
	if "$@" > "$log" 2>&1 < /dev/null; then
		rm "$log"
		echo "pass $what" >> "$dir/results.$BASHPID"
		return
	fi
	echo "FAIL $what: $(grep -m 1 -E 'ERROR|error|WARNING|:' "$log") ($log)" | tee -a "$dir/results.$BASHPID"
	return 1
}
build_one() { # PROGRAM
	"$lockstep" compile emit --target cuda "$(file_of "$1")" > "$dir/$1.cu" &&
		nvcc -O2 -lineinfo -gencode "arch=compute_$arch,code=sm_$arch" -DLOCKSTEP_VIRTUAL -DRT_NO_DEVICE_API -I"$root/tests/cuda/virtual" \
			-o "$dir/$1" "$dir/$1.cu" -lcublasLt
}
build() { # PROGRAM
	SECONDS=0
	[ ! -x "${LANG_GPU_BUILT:-}/$1" ] || { cp "$LANG_GPU_BUILT/$1" "$dir/$1" && return; }
	check "build $1" build_one "$1" && echo "$SECONDS $1" >> "$dir/built.$BASHPID"
}
# Product of the axes in "dp=2,tp=3,N=5": those of the program's mesh.
ranks_of() { # PROGRAM SIZES
	local axes axis ranks=1 n
	axes=$(sed -n "s/^program $1(mesh \([^)]*\)).*/\1/p" "$(file_of "$1")" | tr -d ' ')
	for axis in ${axes//,/ }; do
		n=$(tr , '\n' <<< "$2" | sed -n "s/^${axis%%=*}=//p")
		ranks=$((ranks * ${n:-1}))
	done
	echo $ranks
}
# The schedules that the interpreter runs with these sizes.
legal() { # PROGRAM SIZES
	local schedule
	for schedule in $("$dir/$1" --list); do
		"$lockstep" compile run "$(file_of "$1")" --schedule "$schedule" --sizes "$2" > /dev/null 2>&1 && echo "$schedule"
	done
}
# All schedules in one process; where these sizes suit not all, each in its own.
compare() { # PROGRAM SIZES BACKEND
	local schedule legal dump
	legal=$(legal "$1" "$2") dump=$(mktemp -d -p "$dir")
	local run=(timeout 120 "$dir/$1" --sizes "$2" --seed 5 --backend "$3" --dump "$dump")
	if [ "$legal" = "$("$dir/$1" --list)" ]; then
		check "run $3 $1 $2" "${run[@]}" || return
	else
		for schedule in $legal; do check "run $3 $1 $2 $schedule" "${run[@]}" --schedule "$schedule"; done
	fi
	for schedule in $legal; do
		check "compare $3 $1 $2 $schedule" "$lockstep" compile run "$(file_of "$1")" --schedule "$schedule" --sizes "$2" --seed 5 --compare "$dump"
	done
	rm -r "$dump"
}
watch() { # PROGRAM SIZES BACKEND TOOL [SCHEDULE]
	check "$4 $3 $1 $2 ${5:-}" timeout 300 compute-sanitizer --tool "$4" --error-exitcode 1 \
		"$dir/$1" --sizes "$2" --seed 5 --backend "$3" ${5:+--schedule "$5"}
}
export -f file_of check build_one build ranks_of legal compare watch

began=$SECONDS
sizes=$(grep -v '^#' "$root/tests/cuda/sizes.txt" | grep -E "${LANG_CUDA_ONLY:-.}")
# shellcheck disable=SC2016 # the inner shell expands it
cut -d ' ' -f 1 <<< "$sizes" | xargs -r -P "$(nproc)" -I '{}' bash -c 'build "$1"' build '{}'
phase() { echo "$1: $((SECONDS - began)) s; $(count pass) passed, $(count FAIL) failed so far"; }
count() { cat "$dir"/results.* 2> /dev/null | grep -c "^$1 "; }
phase "built (longest: $(cat "$dir"/built.* 2> /dev/null | sort -rn | head -n 3 | tr '\n' ','))"
while read -r name rest; do
	[ -x "$dir/$name" ] && for size in $rest; do printf '%s %s host\n%s %s pointers\n' "$name" "$size" "$name" "$size"; done
done <<< "$sizes" | xargs -r -P "$jobs" -L 1 bash -c 'compare "$@"' compare
phase "run and compared"

# The first schedule of the program is its plain one.
if [ -x "$dir/adam" ]; then
	echo "Adam on one GPU, 4 virtual ranks, 2^24 elements: no network, one memory"
	for backend in host pointers; do
		"$dir/adam" --sizes dp=4,N=16777216 --repeat 20 --backend $backend < /dev/null
	done | python3 -c '
import json, statistics, sys
plain = {}
for run in map(json.loads, sys.stdin):
    median = statistics.median(run["seconds"][2:])
    first = plain.setdefault(run["backend"], median)
    print("%-9s %-10s %8.3f ms  %5.2f of the first" % (run["backend"], run["schedule"], 1e3 * median, median / first))'
fi
while read -r name rest; do
	if [ ! -x "$dir/$name" ] || [ -z "$tools" ]; then continue; fi
	few=$(for size in $rest; do echo "$(ranks_of "$name" "$size") $size"; done | sort -n | awk '$1 > 1 { print $2; exit }')
	[ -n "$few" ] || continue
	legal=$(legal "$name" "$few")
	[ "$legal" != "$("$dir/$name" --list)" ] || legal=
	for backend in host pointers; do
		for tool in $tools; do
			if [ -z "$legal" ]; then echo "$name $few $backend $tool"; else sed "s/^/$name $few $backend $tool /" <<< "$legal"; fi
		done
	done
done <<< "$sizes" | xargs -r -P "$jobs" -L 1 bash -c 'watch "$@"' watch
phase "watched by $tools"

failed=$(count FAIL)
echo "lang-gpu: $(count pass) passed, $failed failed, $(count skip) skipped"
[ "$failed" -eq 0 ]
