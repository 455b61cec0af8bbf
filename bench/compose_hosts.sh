#!/usr/bin/env bash
# Predictions of `lockstep compose` against runs: examples/train on two hosts that are network namespaces of this machine
# (bench/lang_hosts.sh), data, tensor and pipeline parallel. Predicted from recordings of single processes (record --ranks)
# and from `calibrate host --mpi` in the same namespaces; the runs come afterwards, interleaved, and are seen by nobody
# before. Prints a line for each layout: predicted, median of the runs, error, and the spread of the runs among
# themselves (medians of every other run against those of the rest). Needs root, ip, tc, Open MPI, OpenBLAS.
# Usage: bench/compose_hosts.sh [RATE...], as tc has them; 1gbit 5gbit if not said. RUNS=5 STEPS=24
set -euo pipefail
cd "$(dirname "$0")/.."
lockstep=$PWD/build/release/lockstep hosts=$PWD/bench/lang_hosts.sh
[ -x "$lockstep" ] && [ -x "$PWD/build/release/lockstep-mpi-pairs" ] || { echo "bench/compose_hosts.sh: make all mpi" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
runs=${RUNS:-5} steps=${STEPS:-24}
[ $# -gt 0 ] || set -- 1gbit 5gbit

# A bucket of tokens that is small beside the messages: what it lets through at once would hide the limit.
export BURST=${BURST:-16kb} OPENBLAS_NUM_THREADS=1
make -s -C examples/train OUT="$folder"
shape="--data $folder/data.bin --layers 4 --dim 256 --hidden 1024 --seq 16 --batch 32 --steps $steps"
"$folder/train" $shape --write-data 512 --steps 0 > /dev/null
layouts="dp tp pp"
options() { case $1 in dp) echo "--dp 2" ;; tp) echo "--tp 2" ;; pp) echo "--pp 2 --micro 4" ;; esac; }
# Of the trainer's own step timer; the first steps warm up.
median() { awk '$1 == "step" && $2 > 2 { print $5 }' "$1" | sort -n | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }

for layout in $layouts; do
	"$lockstep" record --out "$folder/$layout" --world 2 --ranks 0,1 -- "$folder/train" $shape $(options $layout) --quiet \
		> "$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }
done
for rate; do
	"$lockstep" calibrate host --seconds 30 --mpi "$hosts $rate 1" -o json --file "$folder/$rate.json" > "$folder/said" 2>&1 ||
		{ cat "$folder/said" >&2; exit 1; }
	for layout in $layouts; do
		# both ranks are on one machine of two cores, whatever the hosts are called
		"$lockstep" compose "$folder/$layout" --cluster "$folder/$rate.json" --shared 2 --memory-bound 0 -o json \
			> "$folder/$layout.$rate.json"
	done
	for run in $(seq "$runs"); do
		for layout in $layouts; do
			"$hosts" "$rate" 1 "$folder/train" $shape $(options $layout) > "$folder/run" 2> "$folder/said" ||
				{ cat "$folder/said" >&2; exit 1; }
			median "$folder/run" >> "$folder/$layout.$rate.runs"
		done
	done
	for layout in $layouts; do
		python3 - "$layout" "$rate" "$folder/$layout.$rate.json" "$folder/$layout.$rate.runs" <<'END'
import json, statistics as s, sys
layout, rate, predicted, runs = sys.argv[1:]
x, m = json.load(open(predicted)), [float(line) for line in open(runs)]
step, measured = 1e3 * x["step_s"], s.median(m)
spread = abs(s.median(m[::2]) / s.median(m[1::2]) - 1) if len(m) > 1 else float("nan")
print(f"{rate} {layout}: predicted {step:.1f} ms ({1e3 * x['step_low_s']:.1f} to {1e3 * x['step_high_s']:.1f}), measured {measured:.1f} ms "
      f"({min(m):.1f} to {max(m):.1f}), error {100 * (step / measured - 1):+.1f} %, A/A {100 * spread:.1f} %, "
      f"own {1e3 * x['parts']['own_s']:.1f} transfer {1e3 * x['parts']['transfer_s']:.1f} wait {1e3 * x['parts']['wait_s']:.1f}")
END
	done
done
