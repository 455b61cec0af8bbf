#!/usr/bin/env bash
# Documents that must keep up with the source: docs/ARCHITECTURE.md names every .c file of src/ once, in the table of its
# folder, and no file that is not there; relative links of all documents lead to a file, and to an anchor of it.
# Prints what is wrong; exit status 1 if anything is.
set -euo pipefail
cd "$(dirname "$0")/.."

# Files named in the first columns of the tables under "### FOLDER: ...", as FOLDER/FILE.
named() {
	awk -F'|' '
	/^#/ { folder = "" }
	/^### [a-z\/]+: / { folder = substr($0, 5); sub(/:.*/, "", folder) }
	folder != "" && /^\|/ {
		cell = $2
		while (match(cell, /`[^`]+\.c`/)) {
			print folder "/" substr(cell, RSTART + 1, RLENGTH - 2)
			cell = substr(cell, RSTART + RLENGTH)
		}
	}' docs/ARCHITECTURE.md | sort
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

sources=$(cd src && find . -name '*.c' | sed 's|^\./||' | sort)
tables=$(named)
while read -r file; do complain "docs/ARCHITECTURE.md: src/$file is not in the table of its folder"; done \
	< <(comm -23 <(echo "$sources") <(uniq <<< "$tables") | grep .)
while read -r file; do complain "docs/ARCHITECTURE.md: there is no src/$file"; done \
	< <(comm -13 <(echo "$sources") <(uniq <<< "$tables") | grep .)
while read -r file; do complain "docs/ARCHITECTURE.md: src/$file is named more than once"; done \
	< <(uniq -d <<< "$tables" | grep .)

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

echo "documents: $(wc -l <<< "$sources") files of src/, $count links, $bad problems"
[ $bad -eq 0 ]
