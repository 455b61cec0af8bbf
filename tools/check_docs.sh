#!/usr/bin/env bash
# Documents that must keep up with the source: docs/ARCHITECTURE.md has a row for each folder of the four houses, names no file that is
# not there, and stays a tour (20 KB); relative links of all documents lead to a file, and to an anchor of it; the root holds no stray files.
# Prints what is wrong; exit status 1 if anything is.
set -euo pipefail
cd "$(dirname "$0")/.."

tour=docs/ARCHITECTURE.md

# Folders in the first column of the table of rooms.
rooms() {
	awk -F'|' '/^## / { inside = /Rooms/ } inside && /^\| `/ { print $2 }' $tour | grep -o '`[^`]*`' | tr -d '`' | sort
}

# Paths of C files that the tour names.
named() {
	grep -oE '`[a-z_0-9]+(/[a-z_0-9]+)+\.[ch]`' $tour | tr -d '`' | sort -u
}

# "FILE:LINE TARGET" of every relative link.
links() {
	awk '
	/^    / || /^```/ { if (/^```/) code = !code; next }
	code { next }
	{
		line = $0
		while (match(line, /\]\([^)]+\)/)) {
			target = substr(line, RSTART + 2, RLENGTH - 3)
			if (target !~ /^[a-z]+:/) print FILENAME ":" FNR, target
			line = substr(line, RSTART + RLENGTH)
		}
	}' "$@"
}

# Headings as GitHub makes anchors of them, and anchors that are written out.
anchors() {
	grep -oE '<a (id|name)="[^"]+"' "$1" | sed 's/.*="//; s/"$//' || true
	sed -n 's/^#\{1,6\} //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

bad=0
complain() {
	echo "$1"
	bad=$((bad + 1))
}

houses=(src lang lib study)
folders=$(find "${houses[@]}" -name '*.[ch]' -printf '%h\n' | sed -E 's#^(src|lib|study)/##' | sort -u)
while read -r folder; do complain "$tour: $folder has no row in the table of rooms"; done \
	< <(comm -23 <(echo "$folders") <(rooms | uniq) | grep .)
while read -r folder; do complain "$tour: there is no folder $folder"; done \
	< <(comm -13 <(echo "$folders") <(rooms | uniq) | grep .)
while read -r folder; do complain "$tour: $folder has more than one row"; done < <(rooms | uniq -d | grep .)
while read -r file; do
	[ -e "$file" ] || [ -e "src/$file" ] || [ -e "lib/$file" ] || [ -e "study/$file" ] || complain "$tour: there is no $file"
done < <(named)
size=$(wc -c < $tour)
[ "$size" -le 20480 ] || complain "$tour: $size bytes; a tour has at most 20480"

# C files that comments and documents name, by path or by name alone; those of other projects are listed here.
others='adam\.[ch]|bench_main\.c|graph\.cc|landlock\.h|mman\.h|sysexits\.h|topo\.h|your\.c'
known=$(mktemp)
trap 'rm -f "$known"' EXIT
find . \( -name '*.[ch]' -o -name '*.cu' \) -not -path './.git/*' -printf '%f\n' | sort -u > "$known"
while IFS=: read -r file line name; do
	grep -xE "$others" <<< "$name" >/dev/null || complain "$file:$line: there is no $name"
done < <(grep -nHoE '^( ?\*|/\*|\s*/\*).*' $(find "${houses[@]}" include -name '*.[ch]') | awk -F: '{
		file = $1; line = $2; text = $0; sub(/^[^:]*:[^:]*:/, "", text)
		while (match(text, /[a-z_0-9]+\.[ch]([^a-z0-9_]|$)/)) {
			before = RSTART > 1 ? substr(text, RSTART - 1, 1) : " "; name = substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH); sub(/[^a-z]$/, "", name)
			if (before !~ /[A-Za-z0-9_."*<-]/) print file ":" line ":" name
		}
	}' | awk -F: 'NR == FNR { known[$0] = 1; next } !($3 in known)' "$known" - | sort -u)
while IFS=: read -r file name; do
	[ -e "$name" ] || complain "$file: there is no $name"
done < <(find docs README.md CONTRIBUTING.md -name '*.md' -exec grep -oHE '`(src|lang|lib|study)/[a-z_0-9/]+\.[ch]`' {} + | tr -d '`' | sort -u)

mapfile -t documents < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' | sed 's|^\./||' | sort)
count=0
while read -r place target; do
	from=${place%:*} path=${target%%#*}
	[ -n "$path" ] && file=$(dirname "$from")/$path || file=$from
	count=$((count + 1))
	if [ ! -e "$file" ]; then
		complain "$place: the link leads to $target, which is not there"
	elif [[ $target == *#* ]] && ! anchors "$file" | grep -xF -- "${target#*#}" >/dev/null; then
		complain "$place: $file has no anchor #${target#*#}"
	fi
done < <(links "${documents[@]}" | grep .)

# What a tool or a test left at the root is not of the sources.
at_root='\.[a-z-]+|CHANGELOG\.md|CITATION\.cff|CMakeLists\.txt|CONTRIBUTING\.md|LICENSE|Makefile|README\.md|SECURITY\.md|check|demo|mkdocs\.yml|packaging\.mk'
while read -r file; do
	complain "$file: the root holds none of these: remove it, or name it in $0"
done < <(git ls-files 2>/dev/null | grep -v / | grep -vxE "$at_root")

echo "documents: $(wc -l <<< "$folders") folders, $count links, $bad problems"
[ $bad -eq 0 ]
