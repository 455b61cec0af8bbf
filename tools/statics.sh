#!/usr/bin/env bash
# Every object of static storage that the library can write: nothing of what one request brings may reach another. What the
# objects hold and the table does not is refused, and so is a row that nothing has. Usage: tools/statics.sh BUILD
#
# The preload library (lib/recorder/) lives in a recorded process and has that process' state; it is not looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

table='
# file                 objects                  why nothing of a request stays
system/context         default_context carried  what callers set up for all requests that they make without a context; the state of a thread, set back when its request ends
io/sqlite              lk_sqlite once           functions of a library of the machine
model/read/presets     all                      the presets that are compiled in, as parsed: the same in every context
serve/http_library     lk_mhd once              functions of a library of the machine
cli/search             ending stop_signal       the program: what a signal handler ends
cli/common             json_errors              the program: whether its command line asks for JSON
'

# An object whose source is gone is of an older tree.
objects=$(find "$1/src" "$1/lang" "$1/lib" "$1/study" -name '*.o' ! -path '*/recorder/*' | LC_ALL=C sort |
	while read -r object; do source=${object#"$1/"}; [ ! -e "${source%.o}.c" ] || echo "$object"; done)
[ -n "$objects" ] || { echo "tools/statics.sh: no objects in $1; run make first" >&2; exit 2; }
printf '%s\n' $objects | xargs objdump -t | awk -v table="$table" -v root="$1/" '
BEGIN {
	rows = split(table, row, "\n")
	for (i = 1; i <= rows; i++) {
		if (row[i] ~ /^(#|$)/) continue
		words = split(row[i], word, / +/)
		for (j = 2; j <= words && row[i] ~ ("^" word[1] " +([a-z_0-9]+ )*" word[j] "( |$)"); j++) known[word[1] " " word[j]] = 0
	}
}
/file format/ {
	file = $1
	sub(/:$/, "", file)
	sub("^.*" root, "", file)
	path = file
	sub(/\.o$/, "", path)
	file = path
	sub(/^(src|lib|study)\//, "", file)
}
$0 ~ / (\.(data|bss|tdata|tbss)|\*COM\*)(\.[^ \t]*)?\t/ && $0 !~ /\.data\.rel\.ro/ && $NF !~ /^\./ {
	name = $NF
	sub(/\.[0-9]+$/, "", name)
	found++
	if ((file " " name) in known) known[file " " name]++
	else {
		printf "%s: %s can be written: pass it, or say in tools/statics.sh why nothing of a request stays in it\n", path ".c", name
		bad++
	}
}
END {
	for (key in known) if (!known[key]) {
		printf "tools/statics.sh: no object %s\n", key
		bad++
	}
	printf "statics: %d objects that can be written, %d violations\n", found, bad
	exit bad > 0
}'
