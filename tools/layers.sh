#!/usr/bin/env bash
# The may-include table: which folders the files of a folder may name in #include "FOLDER/file.h". A line `-- HOUSE` says where the
# folders below it lie: src/ is the core, lang/ the compiler, lib/ has libraries of their own, study/ tables and what is fitted to them.
# A folder always
# includes itself, and include/lockstep/ may be included from everywhere. Rows are in order: a folder names only folders
# above it, so there are no circles. Siblings are named too: explain includes whatif because its row says so.
# Folders that may include base sort with lk_sort (base/sort.h): the qsort of a C library is not stable everywhere.
# Tests may include anything and are not looked at. Prints file:line of each violation; exit status 1 if there is one.
# With --table it prints the table alone, for tools/circles.py, which holds symbols of object files against it.
set -euo pipefail
cd "$(dirname "$0")/.."

table='
-- src
base:
system:           base
io:               base system
view/table:       base system io
options:          base io
options/rows:     options
hw:               base system io
measured:         base system io
noise:            base io
graph:            base system io hw
graph/edit:       base graph
cost/calibration: base system io
model/network:    base hw graph
model/read:       base io model/network
model/layout:     base hw model/network
model/build:      base graph model/network model/layout
model/dlrm:       base graph model/network
-- lib
shell:            base
pickle:           base io
oom:              base
-- src
launch/reading:   base io model/read model/layout shell
launch/launchers: base model/layout launch/reading
launch/megatron:  base model/read model/layout launch/reading
launch/script:    base launch/reading launch/launchers launch/megatron
launch/config:    base io model/read model/layout shell launch/megatron launch/script
launch/frameworks:base io model/read model/layout launch/config
launch:           base io hw measured model/read model/layout launch/reading launch/launchers launch/megatron launch/script launch/frameworks
launch/emit:      base model/read model/layout launch launch/config launch/frameworks
trace/capture:    base system io graph
trace/kineto:     base system io trace/capture
trace/read:       base system io hw graph trace/capture trace/kineto
trace/align:      base graph trace/capture trace/read
trace/lift:       base system io graph trace/capture trace/align
-- lang
lang/types:       base
lang/rewrite:     base lang/types
lang/syntax:      base lang/types lang/rewrite
lang/run:         base io lang/types
lang/steps:       base graph lang/types lang/rewrite lang/run
lang/emit:        base system io lang/rewrite lang/run lang/steps
lang/compile:     base system io view/table graph lang/types lang/rewrite lang/syntax lang/run lang/steps lang/emit
-- src
cost/topology:    base hw
cost/collective:  base io hw cost/calibration cost/topology
cost/kernel:      base hw graph cost/calibration cost/collective
cost:             base system graph cost/calibration cost/collective cost/kernel
sim/memory:       base graph
sim:              base system graph cost
run:              base system io
rollout:          base io hw model/network cost/calibration cost/collective cost/kernel
step:             base system io options graph/edit cost/calibration model/read model/layout model/build model/dlrm launch launch/emit trace/read trace/lift cost sim sim/memory rollout noise
replay:           base trace/read trace/align trace/lift step
whatif:           base options hw graph/edit cost/calibration step replay
explain:          base system io options hw trace/capture trace/read trace/align trace/lift cost/collective cost/kernel step whatif measured noise
diff:             base trace/read options explain
postmortem:       base system io options pickle oom trace/read
-- lib
rendezvous:       base
-- src
record:           base system io options trace/read rendezvous
compose:          base system hw graph trace/read cost/collective step
plan:             base system io options hw cost/topology cost/calibration model/layout model/build launch/emit cost sim step
shard:            base system io options cost/calibration model/network model/read model/dlrm cost/kernel cost sim step
predict:          base system io options cost/calibration model/layout launch launch/emit sim sim/memory rollout step whatif plan shard measured run noise
versus:           base graph trace/read trace/align sim step explain diff predict
plan/post:        base system options cost/calibration predict
rent:             base system io options hw cost/calibration step predict run
stalls:           base system io options hw trace/read cost/collective step explain record predict rent
doctor:           base system io hw cost/calibration record rent
jobs:             base system io hw
-- lang
lang/tune:        base system io view/table cost/calibration lang/rewrite lang/syntax lang/run lang/steps lang/emit lang/compile cost/collective cost sim sim/memory step whatif
-- study
tables:           base system io hw model/network model/read model/layout launch cost/collective cost/kernel cost rollout step
-- src
collective:       base hw cost/collective cost tables
-- study
fit:              base system io cost/calibration cost/collective cost/kernel cost rollout step tables
calibrate/host:   base system io hw
validate:         base io options hw cost/calibration model/network model/read model/layout cost/collective cost/kernel cost sim rollout step plan shard predict tables fit run noise
calibrate:        base io options cost/calibration rollout tables fit calibrate/host validate
-- src
view/timeline:    base system io trace/read sim step explain predict view/table
view/text:        base system io hw model/read lang/compile whatif predict explain rent lang/tune calibrate view/table view/timeline
view/report:      base system io predict view/table view/timeline view/text
verbs:            base system io options measured
view/reply:       base system io model/layout view/text verbs
serve:            base system io options verbs
mcp:              base system io options verbs
cli:              base/check.h base/heap.h system/clock.h system/memory.h io/json.h options verbs/verbs.h serve/serve.h mcp/mcp.h
mpi:              base system cli
-- lib
recorder:         io/recording.h
recorder/overlay: recorder
recorder/files:   recorder recorder/overlay
recorder/mpi:     recorder
recorder/emulate: recorder/mpi
recorder/gpu:     recorder
recorder/start:   recorder recorder/files recorder/overlay recorder/mpi recorder/emulate recorder/gpu
'

[ "${1:-}" != --table ] || { echo "$table"; exit; }

find src lang lib study include/lockstep -name '*.[ch]' -print0 | sort -z | xargs -0 -r awk -v table="$table" '
BEGIN {
	rows = split(table, row, "\n")
	for (i = 1; i <= rows; i++) {
		words = split(row[i], word, /[: ]+/)
		if (words == 0) continue
		if (word[1] == "--") {
			house = word[2]
			continue
		}
		known[word[1]] = 1
		place[word[1]] = house == "lang" ? word[1] : house "/" word[1]
		for (j = 2; j <= words; j++) {
			if (word[j] == "") continue
			if (word[j] !~ /\.h$/ && !(word[j] in known)) misplaced(word[1], word[j])
			may[word[1], word[j]] = 1
		}
	}
}
function misplaced(folder, target) {
	printf "tools/layers.sh: the row of %s names %s, which is not above it\n", folder, target
	bad++
}
function complain(text) {
	printf "%s:%d: %s\n", FILENAME, FNR, text
	bad++
}
FNR == 1 {
	folder = FILENAME
	sub(/\/[^\/]*$/, "", folder)
	public = folder == "include/lockstep"
	path = folder
	sub(/^(src|lib|study)\//, "", folder)
	files++
	if (folder in known && place[folder] != path) complain("the table in tools/layers.sh has " folder " in " place[folder])
	if (!public && !(folder in known)) complain("folder " folder " has no row in tools/layers.sh; add one")
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, quoted, "\"")
	path = quoted[2]
	target = path
	if (!sub(/\/[^\/]*$/, "", target) || target ~ /^\./)
		complain("\"" path "\" does not name its folder; write \"FOLDER/" path "\"")
	else if (target != "lockstep" && (public || (target != folder && !((folder, target) in may) && !((folder, path) in may))))
		complain(folder " may not include " target " (\"" path "\"); see the table in tools/layers.sh")
}
/(^|[^A-Za-z0-9_])qsort(_r)?[ \t]*\(/ && (folder == "base" || (folder, "base") in may) {
	complain("qsort puts equal elements in an order of its own; use lk_sort (base/sort.h)")
}
END {
	printf "layers: %d files, %d violations\n", files, bad
	exit bad > 0
}'
