#!/usr/bin/env bash
# Recording on GPUs: gpu.sh LOCKSTEP. Where nvidia-smi finds none it says so and ends with 0.
#
# Builds examples/train_gpu by nvcc, trains it on as many GPUs as there are (up to 4), unrecorded and recorded by each way,
# in each mode, and as rank 5 of 1024 on one GPU; compares losses, looks for steps and for times on the device, and prints
# the step time with and without recording. Last line: "record-gpu: N passed, N failed, N skipped".
set -uo pipefail
lockstep=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
export PATH="$PATH:/usr/local/cuda/bin"
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU')
if [ "$gpus" = 0 ]; then
	echo "no GPU: nvidia-smi finds none"
	echo "record-gpu: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
nvidia-smi -L
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
passed=0 failed=0 skipped=0
check() { # WHAT COMMAND...
	local what=$1
	shift
	if "$@" > log 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $what: $(tail -1 log)"; fi
}
loss() { sed -n 's/.*loss //p' "$1"; }
same() { # the loss, a number
	[[ $(loss "$1") =~ ^[0-9.]+$ ]] && [ "$(loss "$1")" = "$(loss "$2")" ]
}
make -s -C "$root/examples/train_gpu" OUT="$dir" || { echo "record-gpu: 0 passed, 1 failed, 0 skipped"; exit 1; }
cp "$root/examples/train_gpu/run.sh" .
n=$((gpus < 4 ? gpus : 4))
train=(./run.sh "$n" ./train --steps 50 --dim 512 --hidden 2048 --batch 256)
"${train[@]}" > plain || echo "FAIL the program itself"
ways="preload plugin"
if [ "$n" = 1 ]; then
	echo "skip plugin: of one rank alone NCCL tells its profiler nothing"
	ways=preload skipped=1
fi
for way in $ways; do
	check "record --nccl $way" "$lockstep" record --out "$way" --nccl "$way" --program train -- "${train[@]}"
	cp log "said-$way"
	check "$way: the same loss" same plain "said-$way"
	check "$way: 50 steps" grep -q ': 50 steps' "said-$way"
	check "$way: explain" sh -c "'$lockstep' explain $way | grep -q 'share of GPU '"
done
check "record --cuda cupti" "$lockstep" record --out each --cuda cupti --program train -- "${train[@]}"
cp log said-cupti
check "cupti: each kernel" sh -c "'$lockstep' explain each | grep -E '^ .* matmul'"
check "record --cuda calls" "$lockstep" record --out calls --cuda calls --program train -- "${train[@]}"
cp log said-calls
check "null" "$lockstep" record --out null --mode null --program train -- "${train[@]}"
check "delay" "$lockstep" record --out late --delay 2000 --program train -- "${train[@]}"
head -c 128 /dev/zero > id
check "as rank 5 of 1024" "$lockstep" record --out posed --as-rank 5 --world 1024 -- ./train --id id --tp 2 --steps 50
check "as rank: explain" "$lockstep" explain posed
check "as rank: compose" "$lockstep" compose posed --cluster "128 node * 8 h100-sxm"
echo "plain:    $(grep "done" plain)"
echo "events:   $(grep "done" said-preload)"
echo "calls:    $(grep "done" said-calls)"
echo "cupti:    $(grep "done" said-cupti)"
[ "$n" = 1 ] || echo "plugin:   $(grep "done" said-plugin)"
echo "record-gpu: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
