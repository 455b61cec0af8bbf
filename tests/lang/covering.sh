#!/usr/bin/env bash
# Of programs, the few whose schedules call, taken together, every function of the runtime that one of them calls: first the one
# that calls most, then the one that calls most of what none before it does, until nothing is left. What takes long to compile
# is compiled for these in ./check; with LOCKSTEP_LONG=1 for all.
# Usage: tests/lang/covering.sh LOCKSTEP mpi|cuda FILE.lk...; prints names, FILE without folder and ending.
set -euo pipefail
lockstep=$1 target=$2
shift 2
for file in "$@"; do
	name=$(basename "$file" .lk)
	"$lockstep" compile emit "$file" --schedule all --target "$target" |
		sed -n '/^\/\* ---- schedule/,$p' | grep -oE '\<(rt|RT|MPI|nccl)_?[A-Za-z0-9_]*[(<]' | sort -u | sed "s/^/$name /"
done | if [ -n "${LOCKSTEP_LONG:-}" ]; then cut -d' ' -f1 | uniq; else awk '
	{ calls[$1, $2] = 1; programs[$1]; left[$2] }
	END {
		for (;;) {
			most = 0
			for (p in programs) {
				n = 0
				for (f in left) n += (p, f) in calls
				if (n > most || n && n == most && p < best) { most = n; best = p }
			}
			if (!most) exit
			print best
			for (f in left) if ((best, f) in calls) delete left[f]
		}
	}'; fi
