#!/bin/sh
# Writes the linker's version script for the shared library: every function that the given public headers declare is
# exported, everything else stays inside. Usage: tools/exports.sh include/lockstep/*.h > OUT.map
set -eu
names=$(for header in "$@"; do printf '#include "%s"\n' "${header#include/}"; done |
	"${CC:-cc}" -E -P -std=c11 -D_GNU_SOURCE -Iinclude -xc - |
	grep -o '\<lk_[a-z0-9_]*(' | tr -d '(' | sort -u)
[ -n "$names" ] || { echo "exports.sh: the headers declare no lk_ function: $*" >&2; exit 1; }
printf 'LOCKSTEP_0 {\nglobal:\n'
printf '\t%s;\n' $names
printf 'local:\n\t*;\n};\n'
