#!/bin/sh
# What programs that are linked with the shared library rely on: its name, the symbols that it exports, and what the public headers say
# of them: parameters, members of structs with their places and types, values of enums. tools/abi.xml.gz is what it was, as abidw of
# libabigail describes it; docs/reference/versions.md says what may change when. Takes Debian's abigail-tools.
# Usage: tools/abi.sh liblockstep.so.X.Y.Z [--write]    compares, or writes the description anew (make api)
set -eu
library=$(realpath "$1")
cd "$(dirname "$0")/.."
kept=tools/abi.xml.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v abidiff > /dev/null || { echo "abi: abidiff is not installed; run 'apt-get install abigail-tools'" >&2; exit 2; }
if ! readelf -hW "$library" | grep -q 'Class: *ELF64'; then
	echo "abi: the description is of 64-bit systems; nothing was compared"
	exit 0
fi

# The library itself knows no types (-g1). What is described is one that is made of its symbols and the headers: a pointer to each symbol,
# and for each number that headers name an array of so many elements. A symbol that no header declares does not compile.
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort > "$work/symbols"
for header in include/lockstep/*.h; do echo "#include \"lockstep/$(basename "$header")\""; done > "$work/interface.c"
"${CC:-cc}" -E -P -std=gnu11 -Iinclude "$work/interface.c" | tr '\n' ' ' | grep -o '\<enum\>[^{};]*{[^}]*}' | sed 's/.*{//' | tr ',' '\n' |
	grep -o '\<LK_[A-Z0-9_]*' | LC_ALL=C sort -u > "$work/numbers"
sed 's/.*/__typeof__(\&&) pointer_to_&;/' "$work/symbols" >> "$work/interface.c"
sed 's/.*/char value_of_&[& + 2];/' "$work/numbers" >> "$work/interface.c"
"${CC:-cc}" -std=gnu11 -O0 -g -fPIC -shared -Iinclude -o "$work/interface.so" "$work/interface.c" \
	-Wl,-soname,"$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"
abidw --headers-dir include/lockstep --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs --no-architecture \
	--out-file "$work/now.xml" "$work/interface.so"

count="$(wc -l < "$work/symbols") symbols, $(wc -l < "$work/numbers") numbers"
gzip -dc $kept > "$work/kept.xml" 2> /dev/null || : > "$work/kept.xml"
differs=0
# A name that changes in its place is harmless to programs that are linked, and not to those that are compiled: --harmless.
abidiff --harmless --no-architecture "$work/kept.xml" "$work/now.xml" > "$work/report" 2>&1 || differs=$?
if [ "${2:-}" = --write ]; then
	cat "$work/report"
	gzip -9n < "$work/now.xml" > $kept
	echo "abi: wrote $kept, $count"
	exit 0
fi
if [ $differs -ne 0 ]; then
	cat "$work/report"
	echo "abi: that is not what $kept says; restore it, or raise SOVERSION in the Makefile if that version was released"
	echo "abi: (docs/reference/versions.md); then, or if it is an addition, make api"
fi
echo "abi: $count, $([ $differs -eq 0 ] && echo "as described" || echo "not as described")"
[ $differs -eq 0 ]
