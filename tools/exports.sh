#!/bin/sh
# Writes the linker's version script for the shared library: every function and every table that the given public headers
# declare is exported, everything else stays inside. Usage: tools/exports.sh include/lockstep/*.h > OUT.map
set -eu
text=$(for header in "$@"; do printf '#include "%s"\n' "${header#include/}"; done |
	"${CC:-cc}" -E -P -std=c11 -D_GNU_SOURCE -Iinclude -xc -)
functions=$(echo "$text" | grep -v '^typedef' | grep -o '\<lk_[a-z0-9_]*(' | tr -d '(')
# a declaration may go over several lines
tables=$(echo "$text" | tr '\n\t' '  ' | tr ';' '\n' | sed 's/^ *//; s/  */ /g' | sed -n 's/^extern const \(lk_verb \|char \*const \)//p' | grep -o '\<lk_[a-z0-9_]*')
names=$(printf '%s\n' $functions $tables | LC_ALL=C sort -u)
[ -n "$functions" ] || { echo "exports.sh: the headers declare no lk_ function: $*" >&2; exit 1; }
printf 'LOCKSTEP_%s {\nglobal:\n' "${SOVERSION:-0}"
printf '\t%s;\n' $names
printf 'local:\n\t*;\n};\n'
