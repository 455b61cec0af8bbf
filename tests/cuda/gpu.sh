#!/usr/bin/env bash
# The CUDA target on one GPU: gpu.sh LOCKSTEP. Where nvidia-smi finds none it says so and ends with 0.
#
# Every program is built by nvcc with virtual ranks on device 0 and the stand-in for NCCL (virtual/nccl.h), and every
# schedule run with fused steps by collectives (T2) and by kernels that reach the others' memory, in one cooperative launch
# (T1); results are compared with the interpreter. On the smallest number of ranks above one, memcheck, racecheck and
# synccheck of compute-sanitizer watch all schedules (racecheck sees hazards in shared memory alone; what ranks do to each
# other's memory is seen by the comparison, and by the thread sanitizer in run.sh). Then the times of Adam's schedules at
# 2^24 elements: virtual ranks share one device and its memory, so that they compare kernels and passes over memory, and say
# nothing of a network.
#
# LANG_CUDA_ONLY=REGEX: some programs; LANG_GPU_LOGS=DIR: logs of what failed (build/check/gpu).
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
passed=0 failed=0 skipped=0
tools="memcheck racecheck synccheck"
command -v compute-sanitizer > /dev/null || { echo "skip memory and race checks: there is no compute-sanitizer"; tools='' skipped=1; }

file_of() { # PROGRAM
	if [ -f "$root/examples/lang/$1.lk" ]; then echo "$root/examples/lang/$1.lk"; else echo "$root/tests/cuda/programs/$1.lk"; fi
}
# Standard input is the list of programs: nothing that runs may read it.
check() { # WHAT COMMAND...
	local what=$1 log
	shift
	if "$@" > "$dir/log" 2>&1 < /dev/null; then passed=$((passed + 1)); return; fi
	failed=$((failed + 1))
	log=$logs/$(tr -c 'A-Za-z0-9\n' - <<< "$what").log
	cp "$dir/log" "$log"
	echo "FAIL $what: $(grep -m 1 -E 'ERROR|error|WARNING' "$dir/log") ($log)"
	return 1
}
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
build() { # PROGRAM
	"$lockstep" compile emit --target cuda "$(file_of "$1")" > "$dir/$1.cu" &&
		nvcc -O2 -lineinfo -gencode "arch=compute_$arch,code=sm_$arch" -DLOCKSTEP_VIRTUAL -DRT_NO_DEVICE_API -I"$root/tests/cuda/virtual" \
			-o "$dir/$1" "$dir/$1.cu" -lcublasLt
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
# What the interpreter refuses with these sizes is not run.
legal() { # PROGRAM SIZES
	local schedule
	for schedule in $("$dir/$1" --list); do
		"$lockstep" compile run "$(file_of "$1")" --schedule "$schedule" --sizes "$2" > /dev/null 2>&1 && echo "$schedule"
	done
}
compare() { # PROGRAM SIZES BACKEND
	local schedule
	for schedule in $(legal "$1" "$2"); do
		mkdir -p "$dir/dump"
		check "run $3 $1 $2 $schedule" timeout 120 "$dir/$1" --sizes "$2" --seed 5 --schedule "$schedule" --backend "$3" --dump "$dir/dump" &&
			check "compare $3 $1 $2 $schedule" "$lockstep" compile run "$(file_of "$1")" --schedule "$schedule" --sizes "$2" \
				--seed 5 --compare "$dir/dump"
		rm -r "$dir/dump"
	done
}
watch() { # PROGRAM SIZES BACKEND
	local schedule tool
	for schedule in $(legal "$1" "$2"); do
		for tool in $tools; do
			check "$tool $3 $1 $2 $schedule" timeout 300 compute-sanitizer --tool $tool --error-exitcode 1 \
				"$dir/$1" --sizes "$2" --seed 5 --schedule "$schedule" --backend "$3"
		done
	done
}
while read -r name sizes; do
	check "build $name" build "$name" || continue
	few=$(for size in $sizes; do echo "$(ranks_of "$name" "$size") $size"; done | sort -n | awk '$1 > 1 { print $2; exit }')
	for backend in host pointers; do
		for size in $sizes; do compare "$name" "$size" $backend; done
		if [ -n "$few" ]; then watch "$name" "$few" $backend; fi
	done
done < <(grep -v '^#' "$root/tests/cuda/sizes.txt" | grep -E "${LANG_CUDA_ONLY:-.}")

# The first schedule of the program is its plain one.
if [ -x "$dir/adam" ]; then
	echo "Adam on one GPU, 4 virtual ranks, 2^24 elements: no network, one memory"
	for backend in host pointers; do
		"$dir/adam" --sizes dp=4,N=16777216 --repeat 20 --backend $backend < /dev/null
	done | tee "$dir/times" | python3 -c '
import json, statistics, sys
plain = {}
for run in map(json.loads, sys.stdin):
    median = statistics.median(run["seconds"][2:])
    first = plain.setdefault(run["backend"], median)
    print("%-9s %-10s %8.3f ms  %5.2f of the first" % (run["backend"], run["schedule"], 1e3 * median, median / first))'
fi
echo "lang-gpu: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
