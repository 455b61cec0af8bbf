#!/usr/bin/env bash
# The CUDA target on one GPU: gpu.sh LOCKSTEP. Where nvidia-smi finds none it says so and ends with 0.
#
# Every program and schedule is built by nvcc with virtual ranks on device 0 and the stand-in for NCCL (virtual/nccl.h), and
# run with fused steps by collectives (T2) and by kernels that reach the others' memory, in one cooperative launch (T1);
# results are compared with the interpreter; memcheck and racecheck of compute-sanitizer watch. Then the times of Adam's
# schedules at 2^24 elements: virtual ranks share one device and its memory, so that the times compare kernels and passes
# over memory, and say nothing of a network.
# Last line: "lang-gpu: N passed, N failed, N skipped".
set -uo pipefail
lockstep=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
export PATH="$PATH:/usr/local/cuda/bin" CUDA_DEVICE_MAX_CONNECTIONS=32
if ! nvidia-smi -L > /dev/null 2>&1; then
	echo "no GPU: nvidia-smi finds none"
	echo "lang-gpu: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
nvidia-smi -L
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
file_of() { # PROGRAM
	if [ -f "$root/examples/lang/$1.lk" ]; then echo "$root/examples/lang/$1.lk"; else echo "$root/tests/cuda/programs/$1.lk"; fi
}
check() { # WHAT COMMAND...
	local what=$1
	shift
	if "$@" > "$dir/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $what: $(grep -m 1 -E 'ERROR|error|:' "$dir/log")"; fi
}
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
build() { # PROGRAM
	"$lockstep" compile emit --target cuda "$(file_of "$1")" > "$dir/$1.cu" &&
		nvcc -O2 -lineinfo -gencode "arch=compute_$arch,code=sm_$arch" -DLOCKSTEP_VIRTUAL -DRT_NO_DEVICE_API -I"$root/tests/cuda/virtual" \
			-o "$dir/$1" "$dir/$1.cu" -lcublasLt
}
while read -r name sizes; do
	check "build $name" build "$name"
	[ -x "$dir/$name" ] || continue
	for size in $sizes; do
		for backend in host pointers; do
			for schedule in $("$dir/$name" --list); do
				# What the interpreter refuses with these sizes is not run.
				"$lockstep" compile run "$(file_of "$name")" --schedule "$schedule" --sizes "$size" > /dev/null 2>&1 || continue
				run=("$dir/$name" --sizes "$size" --seed 5 --schedule "$schedule" --backend "$backend")
				mkdir -p "$dir/dump"
				check "run $backend $name $size $schedule" timeout 120 "${run[@]}" --dump "$dir/dump"
				check "compare $backend $name $size $schedule" "$lockstep" compile run "$(file_of "$name")" --schedule "$schedule" \
					--sizes "$size" --seed 5 --compare "$dir/dump"
				rm -r "$dir/dump"
				for tool in memcheck racecheck; do
					check "$tool $backend $name $size $schedule" timeout 300 compute-sanitizer --tool $tool --error-exitcode 1 "${run[@]}"
				done
			done
		done
	done
done < <(grep -v '^#' "$root/tests/cuda/sizes.txt" | grep -E "${LANG_CUDA_ONLY:-.}")
if [ -x "$dir/adam" ]; then
	echo "seconds on one GPU, 4 virtual ranks, 2^24 elements (no network, one memory):"
	for backend in host pointers; do "$dir/adam" --sizes dp=4,N=16777216 --repeat 20 --backend $backend; done
fi
echo "lang-gpu: $passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
