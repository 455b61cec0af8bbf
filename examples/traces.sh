#!/usr/bin/env bash
# Asks everything of a run that was profiled: why it is slow, how far a simulation of it is off, what changes would be worth.
# Usage: examples/traces.sh TRACES [FOLDER]
#   TRACES   a trace, or a folder with one of each rank
#   FOLDER   where the reports go; default: reports
# LOCKSTEP names the program where it is not in the path.
set -euo pipefail

traces=${1:?give a trace, or a folder with one of each rank}
out=${2:-reports}
lockstep=${LOCKSTEP:-lockstep}
mkdir -p "$out"

"$lockstep" explain "$traces" --trace "$out/merged.pftrace" -f "$out/explain.txt"
"$lockstep" explain "$traces" -o sqlite -f "$out/explain.sqlite"
"$lockstep" replay "$traces" --overheads-out "$out/overheads.csv" --graph "$out/step.json.gz" -f "$out/replay.txt"
"$lockstep" whatif "$traces" --set launch=graphs --set host=0.5x --set gpu=h100-sxm -f "$out/whatif.txt"

sed -n '1,/^$/p' "$out/explain.txt"
echo "reports are in $out/; open https://ui.perfetto.dev and drop $out/merged.pftrace there"
