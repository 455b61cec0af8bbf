#!/usr/bin/env bash
# library.sh BUILD: liblockstep-lang.a needs base, system, io, graph, view/table and libraries of the machine alone. Every symbol that it leaves
# undefined and that liblockstep defines must be defined in those rooms (or be embedded data).
set -euo pipefail
build=$1
need=$(nm "$build/liblockstep-lang.a" | awk '$1 == "U" {print $2}' | sort -u)
own=$(find "$build/lang" -path "$build/lang/tune" -prune -o -name '*.o' -print0 | xargs -0 nm | awk 'NF == 3 && $2 ~ /[TDRBV]/ {print $3}' | sort -u)
below=$(find "$build/src/base" "$build/src/system" "$build/src/io" "$build/src/graph" "$build/src/view/table" -maxdepth 1 -name '*.o' -print0 | xargs -0 nm "$build/data.o" | awk 'NF == 3 && $2 ~ /[TDRBV]/ {print $3}' | sort -u)
whole=$(nm "$build/liblockstep.a" | awk 'NF == 3 && $2 ~ /[TDRBV]/ {print $3}' | sort -u)
foreign=$(comm -12 <(printf '%s\n' "$need") <(printf '%s\n' "$whole") | comm -23 - <(printf '%s\n%s\n' "$own" "$below" | sort -u))
if [ -n "$foreign" ]; then
	printf 'liblockstep-lang.a needs what is not in base, system, io, graph or view/table:\n%s\n' "$foreign" >&2
	exit 1
fi
echo "liblockstep-lang.a: needs base, system, io, graph and view/table alone"
