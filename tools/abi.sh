#!/bin/sh
# What programs that are linked with the shared library rely on: its name, the symbols that it exports, the sizes of the structs
# in the public headers. tools/abi.txt holds what it was; docs/reference/versions.md says what may change when.
# Usage: tools/abi.sh liblockstep.so.X.Y.Z [--write]    compares, or writes the list anew (make api)
set -eu
library=$(realpath "$1")
cd "$(dirname "$0")/.."
list=tools/abi.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

{
	echo "soname $(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"
	nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print "symbol " $3 }' | LC_ALL=C sort
} > "$work/now"
if readelf -hW "$library" | grep -q 'Class: *ELF64'; then
	{
		for header in include/lockstep/*.h; do echo "#include \"lockstep/$(basename "$header")\""; done
		echo 'int main(void) {'
		sed -n 's/^} \(lk_[a-z0-9_]*\);.*/\1/p' include/lockstep/*.h | LC_ALL=C sort |
			awk '{ printf "\tprintf(\"size %s %%zu\\n\", sizeof(%s));\n", $1, $1 }'
		echo '}'
	} > "$work/sizes.c"
	"${CC:-cc}" -std=c11 -Iinclude -o "$work/sizes" "$work/sizes.c"
	"$work/sizes" >> "$work/now"
fi

if [ "${2:-}" = --write ]; then
	[ ! -e $list ] || gone=$(comm -23 "$list" "$work/now" 2>/dev/null || true)
	cp "$work/now" $list
	[ -z "${gone:-}" ] || printf 'abi: these changed or went; programs that were linked before break unless SOVERSION is raised:\n%s\n' "$gone"
	echo "abi: wrote $list, $(grep -c ^symbol $list) symbols, $(grep -c ^size $list) structs"
	exit 0
fi

bad=0
while read -r kind name rest; do
	now=$(grep "^$kind $name\( \|\$\)" "$work/now" || true)
	[ "$kind $name${rest:+ $rest}" != "$now" ] || continue
	case $kind in
	symbol) echo "abi: $name is exported no more" ;;
	size) echo "abi: $name has another size: $rest bytes in $list, now ${now##* }" ;;
	*) echo "abi: the library is called ${now:-something else}, $list says $name" ;;
	esac
	bad=$((bad + 1))
done < $list
[ $bad -eq 0 ] || echo "abi: restore it, or raise SOVERSION in the Makefile if that version was released (docs/reference/versions.md); then make api"
new=$(cut -d' ' -f1,2 "$work/now" | while read -r kind name; do grep -q "^$kind $name\( \|\$\)" $list || echo "$name"; done)
[ -z "$new" ] || { echo "abi: not in $list yet:" $new "; run make api"; bad=$((bad + 1)); }
echo "abi: $(grep -c ^symbol $list) symbols, $(grep -c ^size $list) structs, $bad problems"
[ $bad -eq 0 ]
