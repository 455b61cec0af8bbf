#!/usr/bin/env bash
# Predictions of `lockstep compose` against runs: examples/train on two hosts that are network namespaces of this machine
# (bench/lang_hosts.sh), data, tensor and pipeline parallel. Predicted from recordings of single processes (record --ranks)
# and from `calibrate host --mpi` in the same namespaces. Rounds: calibrate, record and compose each layout, then run each
# layout; a machine that others use too is in the same state for all of them. Nothing of a run goes into a prediction.
# Prints a line for each rate and layout: median of the predictions, median of the runs, error, and the spread of runs among
# themselves (median of every other run against that of the rest). Needs root, ip, tc, Open MPI, OpenBLAS.
# Usage: bench/compose_hosts.sh [RATE...], as tc has them; 1gbit 5gbit if not said. RUNS=5 STEPS=24 CALIBRATE=12 (seconds)
set -euo pipefail
cd "$(dirname "$0")/.."
lockstep=$PWD/build/release/lockstep hosts=$PWD/bench/lang_hosts.sh
[ -x "$lockstep" ] && [ -x "$PWD/build/release/lockstep-mpi-pairs" ] || { echo "bench/compose_hosts.sh: make all mpi" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
runs=${RUNS:-5} steps=${STEPS:-24}
[ $# -gt 0 ] || set -- 1gbit 5gbit

export OPENBLAS_NUM_THREADS=1
# A bucket of tokens that is small beside the messages, 16 KiB for each gigabit: what it lets through at once would hide the
# limit; a smaller one the kernel's timers could not refill in time.
burst() { case $1 in *gbit) echo $((16 * ${1%gbit}))kb ;; *) echo 16kb ;; esac; }
make -s -C examples/train OUT="$folder"
shape="--data $folder/data.bin --layers 4 --dim 256 --hidden 1024 --seq 16 --batch 32 --steps $steps"
"$folder/train" $shape --write-data 512 --steps 0 > /dev/null
layouts="dp tp pp"
options() { case $1 in dp) echo "--dp 2" ;; tp) echo "--tp 2" ;; pp) echo "--pp 2 --micro 4" ;; esac; }
# Of the trainer's own step timer; the first steps warm up.
median() {
	awk '$1 == "step" && $2 > 2 { print $5 }' "$1" | sort -n |
		awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'
}
quietly() { "$@" > "$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }; }

predict() { # LAYOUT RATE
	rm -rf "$folder/alone"
	quietly "$lockstep" record --out "$folder/alone" --world 2 --ranks 0,1 -- "$folder/train" $shape $(options $1) --quiet
	# both ranks are on one machine, whatever the hosts are called, and have a core each
	"$lockstep" compose "$folder/alone" --cluster "$folder/$2.json" --shared 2 --memory-bound 0 -o json >> "$folder/$1.$2.predicted"
}

for rate; do
	export BURST=$(burst "$rate")
	for round in $(seq "$runs"); do
		quietly "$lockstep" calibrate host --seconds "${CALIBRATE:-12}" --mpi "$hosts $rate 1" -o json --file "$folder/$rate.json"
		for layout in $layouts; do predict $layout "$rate"; done
		for layout in $layouts; do
			"$hosts" "$rate" 1 "$folder/train" $shape $(options $layout) > "$folder/run" 2> "$folder/said" ||
				{ cat "$folder/said" >&2; exit 1; }
			median "$folder/run" >> "$folder/$layout.$rate.runs"
		done
	done
	for layout in $layouts; do
		python3 - "$layout" "$rate" "$folder/$layout.$rate.predicted" "$folder/$layout.$rate.runs" <<'END'
import json, statistics as s, sys
layout, rate, predicted, runs = sys.argv[1:]
decoder, text, all = json.JSONDecoder(), open(predicted).read().strip(), []
while text:
    one, end = decoder.raw_decode(text)
    all.append(one)
    text = text[end:].strip()
p, m = [1e3 * one["step_s"] for one in all], [float(line) for line in open(runs)]
of = lambda part: 1e3 * s.median(one["parts"][part] for one in all)
spread = abs(s.median(m[::2]) / s.median(m[1::2]) - 1) if len(m) > 1 else float("nan")
print(f"{rate} {layout}: predicted {s.median(p):.1f} ms ({min(p):.1f} to {max(p):.1f}), measured {s.median(m):.1f} ms "
      f"({min(m):.1f} to {max(m):.1f}), error {100 * (s.median(p) / s.median(m) - 1):+.1f} %, A/A {100 * spread:.1f} %; "
      f"own {of('own_s'):.1f} transfer {of('transfer_s'):.1f} wait {of('wait_s'):.1f}")
END
	done
done
