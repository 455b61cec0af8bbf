#!/usr/bin/env bash
# The may-include table: which folders of src/ a folder may name in #include "FOLDER/file.h". Every row is written out;
# include/lockstep/ may be included from everywhere. Tests may include anything and are not looked at.
# Prints file:line of each violation; exit status 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

table='
base:     base
hw:       base hw
graph:    base hw graph
model:    base hw graph model
trace:    base hw graph trace
lang:     base hw graph lang
measure:  base hw measure
cost:     base hw graph cost
sim:      base hw graph cost sim
ask:      base hw graph model trace lang cost sim ask
plan:     base hw graph model trace lang cost sim ask plan
accuracy: base hw graph model trace lang measure cost sim ask plan accuracy
view:     base hw graph model trace lang measure cost sim ask plan accuracy view
cli:      cli serve/serve.h
mpi:      base cli mpi
serve:    base hw/data.h serve
probe:    probe base/recording.h
lockstep:
'

find src include/lockstep -name '*.[ch]' -print0 | sort -z | xargs -0 -r awk -v table="$table" '
BEGIN {
	rows = split(table, row, "\n")
	for (i = 1; i <= rows; i++) {
		words = split(row[i], word, /[: ]+/)
		if (words == 0) continue
		known[word[1]] = 1
		for (j = 2; j <= words; j++) may[word[1], word[j]] = 1
	}
}
function complain(text) {
	printf "%s:%d: %s\n", FILENAME, FNR, text
	bad++
}
FNR == 1 {
	parts = split(FILENAME, part, "/")
	folder = part[2]
	files++
	if (!(folder in known)) complain("folder " folder " has no row in tools/layers.sh; add one")
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, quoted, "\"")
	path = quoted[2]
	slash = index(path, "/")
	target = slash ? substr(path, 1, slash - 1) : ""
	if (slash == 0 || target ~ /^\./) complain("\"" path "\" does not name its layer; write \"FOLDER/" path "\"")
	else if (target != "lockstep" && !((folder, target) in may) && !((folder, path) in may))
		complain(folder " may not include " target " (\"" path "\"); see the table in tools/layers.sh")
}
END {
	printf "layers: %d files, %d violations\n", files, bad
	exit bad > 0
}'
