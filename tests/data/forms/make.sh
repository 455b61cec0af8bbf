#!/usr/bin/env bash
# make.sh LOCKSTEP: writes the files of a release, as its program does, into a new folder of its version beside this script. They are
# never written anew: tests/cli/forms.test reads those of every release. Takes unshare, which gives the recording a host's name.
set -euo pipefail
lockstep=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../..
to=$here/$("$lockstep" --version | sed -n '1s/^lockstep \([0-9.]*\).*/\1/p')
mkdir "$to"
cp "$here/cluster.json" "$to" # written by hand
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'name,rows,dim,pooling,count\nuser,1000000,64,2,3\nitem,50000,32,10,4\n' > "$to/tables.csv"
"$lockstep" predict --model llama3.2-1b --gpu a100-sxm-80 --gpus 4 --tp 2 --gbs 8 --seq 2048 --graph "$to/graph.json.gz" > /dev/null
"$lockstep" calibrate runs "$root/tests/data/runs_small.csv" --source invented --date 2026-11-28 -f "$to/calibration.csv"
"$lockstep" shard "$to/tables.csv" --gpu a100-sxm-80 --gpus 4 --plan "$to/plan.json" > /dev/null
"$lockstep" replay "$root/tests/data/trace_small.json" --overheads-out "$to/overheads.csv" > /dev/null
"$lockstep" compile tune "$root/examples/lang/sgd.lk" --sizes dp=2,N=1000 --gpu h100-sxm --wisdom "$to/wisdom.txt" > /dev/null
"$lockstep" jobs --draw 3 --gpu h100-sxm --gpus 8 --write "$to/jobs.csv" > /dev/null
"$lockstep" predict --model llama3.2-1b --gpu a100-sxm-80 --gpus 4 --tp 2 --gbs 8 --seq 2048 -o json > "$to/answer.json"
for i in $(seq 12); do head -c 2000 /dev/zero > "step$i"; done
env -i PATH=/usr/bin:/bin HOME=/ unshare --uts bash -c 'hostname node1; exec "$@"' - \
	"$lockstep" record --out "$to/recording" --program cat --step-marker open:step -- cat step* > /dev/null 2>&1
(cd "$to" && "$lockstep" stalls --recording recording -o json > stalls.json)
rm step* # what a recording names need not be there
python3 "$root/tests/cli/forms.py" "$lockstep" "$here" --answers "$to"
