#!/usr/bin/env bash
# What recording adds to a step of examples/train: runs without, without again, and with, in turn; medians of the steps'
# mean times, the difference of pairs with its spread (A/B) and that between equal runs (A/A).
# Usage: bench/record_overhead.sh LOCKSTEP [PAIRS] [STEPS]     (20 pairs of 300 steps if not said)
set -euo pipefail
lockstep=$(realpath "${1:?usage: bench/record_overhead.sh LOCKSTEP [PAIRS] [STEPS]}")
pairs=${2:-20} steps=${3:-300}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
make -s -C "$root/examples/train" OUT="$work"
mpirun=(mpirun -n 2 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca btl self,vader)
train=(./train --data data.bin --dp 2 --model transformer --steps "$steps" --quiet)
"${mpirun[@]}" ./train --data data.bin --write-data 2000 --dp 2 --steps 1 --quiet >first

mean() { sed -n 's/.*mean \([0-9.]*\) ms.*/\1/p'; }
for i in $(seq "$pairs"); do
	a=$("${mpirun[@]}" "${train[@]}" | mean)
	b=$("${mpirun[@]}" "${train[@]}" | mean)
	c=$("$lockstep" record --out "r$i" -- "${mpirun[@]}" "${train[@]}" 2>said | mean)
	rm -r "r$i"
	echo "$a $b $c"
done >times
grep -h '^overhead' said
awk '
function median(list, n,    i, j, t) {
	for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
	return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
function show(name, list, n,    m, i, away) {
	m = median(list, n)
	for (i = 1; i <= n; i++) away[i] = list[i] > m ? list[i] - m : m - list[i]
	printf "%-28s median %+6.2f %%, half of the pairs within %.2f %% of it\n", name, 100 * m, 100 * median(away, n)
}
{ n++; first[n] = $1; aa[n] = $2 / $1 - 1; ab[n] = 2 * $3 / ($1 + $2) - 1 }
END {
	printf "%d pairs; a step without recording %.3f ms (median)\n", n, median(first, n)
	show("equal runs (A/A)", aa, n)
	show("recorded against without", ab, n)
}' times
