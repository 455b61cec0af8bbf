#!/usr/bin/env bash
# Rings and overlaps of generated C+MPI: data/target/mpi_ring.h against the definition of what it stands for, and
# generated programs against the interpreter, on several numbers of ranks, uneven slices, with sanitizers.
# Usage: tests/lang/ring.sh PROGRAM [RANKS...]; without mpicc and mpirun it is skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/release/lockstep}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 1 2 3 4
for tool in mpicc mpirun; do
	command -v $tool > /dev/null || { echo "skip rings: there is no $tool"; echo "lang-ring: 0 passed, 0 failed, 1 skipped"; exit 0; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1
# MPI libraries keep memory until the end of the process: leaks are not looked for.
export ASAN_OPTIONS=detect_leaks=0
run="mpirun --oversubscribe --bind-to none"
flags='-std=c11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Wshadow -Werror -Wno-format-truncation'
failed=0
bad() {
	echo "FAILED: $*"
	failed=$((failed + 1))
}

mpicc $flags -D_GNU_SOURCE -o "$work/ring" tests/lang/ring.c
for ranks in "$@"; do
	timeout 120 $run -np "$ranks" "$work/ring" 100 "$ranks" || bad "ring on $ranks ranks"
done
mpicc $flags -D_GNU_SOURCE -DRT_RING_FAR -DRT_RING_EAGER=100 -o "$work/far" tests/lang/ring.c
timeout 120 $run -np 3 "$work/far" 100 7 || bad "ring between hosts"

# FILE PROGRAM SIZES: all schedules; @ stands for the ranks.
held=0
hold() {
	local ranks sizes schedule
	"$program" compile emit "$1" --program "$2" --out "$work/p.c"
	mpicc ${as:-$flags} -o "$work/p" "$work/p.c" -lm
	for ranks in "$@"; do
		[[ $ranks =~ ^[0-9]+$ ]] || continue
		sizes=${3//@/$ranks}
		rm -rf "$work/dump" && mkdir "$work/dump"
		timeout 120 $run -np "$(($ranks * ${groups:-1}))" "$work/p" --sizes "$sizes" --seed 3 --dump "$work/dump" 2> "$work/errors" ||
			{ bad "$2 on $ranks ranks: $(grep -m1 -E 'ERROR|error|refused' "$work/errors")"; continue; }
		for schedule in $(ls "$work/dump" | sed 's/\.[0-9]*$//' | sort -u); do
			"$program" compile run "$1" --program "$2" --schedule "$schedule" --seed 3 --sizes "$sizes" --compare "$work/dump" \
				> "$work/said" || { bad "$2, $schedule, $ranks ranks: $(grep -m1 -B1 DIFFERS "$work/said" || cat "$work/said")"; }
			held=$((held + 1))
		done
	done
}

programs=tests/lang/rings.lk
hold $programs lists dp=@,N=3:170:1:1000:2:64 "$@"
hold $programs dims dp=@,A=5,B=7,C=9 "$@"
hold $programs wide dp=@,N=70001 "$@"
hold $programs ends dp=@,N=1003 "$@"
hold $programs rows tp=@,M=70,K=23,N=31 "$@"
hold $programs batches tp=@,E=5,M=9,K=4,N=6 "$@"
hold $programs columns tp=@,M=70,K=23,N=31 "$@"
groups=2 hold $programs handover pp=2,tp=@,B=3,S=50,H=12 1 2
hold $programs turns tp=@,M=12,K=8 "$@"

# Overlaps of other kinds, with chunks of a few elements. Without optimization: they are compiled sooner than they run.
programs=tests/lang/flows.lk
as="${flags/-O1/-O0} -DRT_FLOW_BYTES=16 -DRT_FLOW_ROWS=2 -DRT_PANEL=2"
hold $programs experts ep=@,E=7,C=23,H=5,F=6 "$@"
hold $programs right tp=@,M=11,K=13,N=17 "$@"
hold $programs turned tp=@,M=13,K=9,N=11 "$@"
hold $programs reduced tp=@,A=3,M=11,K=7,N=9 "$@"
hold $programs round cp=@,T=23,D=5 "$@"
hold $programs tensors dp=@,N=3:170:1:50 "$@"
hold $programs side dp=@,M=13,K=7 "$@"
groups=2 hold $programs hand pp=2,tp=@,k=0,B=3,S=11,H=5 1 2
as="$as -DRT_FIRST_WAY=1"
hold $programs turned tp=@,M=13,K=9,N=11 3
hold tests/lang/rings.lk rows tp=@,M=70,K=23,N=31 3
hold tests/lang/rings.lk columns tp=@,M=70,K=23,N=31 3
as="${as/-DRT_FIRST_WAY=1} -DRT_RING_FAR -DRT_RING_EAGER=10" hold $programs experts ep=@,E=7,C=23,H=5,F=6 3
echo "lang-ring: $((held - failed)) passed, $failed failed, 0 skipped"
[ $failed = 0 ]
