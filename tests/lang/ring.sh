#!/usr/bin/env bash
# Rings and overlaps of generated C+MPI: data/target/mpi_ring.h against the definition of what it stands for, and
# generated programs against the interpreter, on several numbers of ranks, uneven slices, with sanitizers.
# LOCKSTEP_TURN, which ./check sets by the commit, and LOCKSTEP_PARTS take a part of the tests.
# Usage: tests/lang/ring.sh PROGRAM [RANKS...]; without mpicc and mpirun it is skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/in_order.sh
program=${1:-build/release/lockstep}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 1 2 3 4
all=("$@")
if ! mpicc -E -include mpi.h -x c /dev/null > /dev/null 2>&1 || ! command -v mpirun > /dev/null; then
	echo "skip rings: there is no mpicc with its headers, or no mpirun"
	echo "lang-ring: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_pml=ob1 PMIX_MCA_gds=hash # no search for networks, which takes half of the start
if command -v clang > /dev/null; then export OMPI_CC=clang; fi # builds sanitized programs in a fifth of gcc's time
# MPI libraries keep memory until the end of the process: leaks are not looked for.
export ASAN_OPTIONS=detect_leaks=0
run="mpirun --oversubscribe --bind-to none"
flags='-std=c11 -O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Wshadow -Werror'
bad() {
	echo "FAILED: $*"
	echo "failed 1" >> "$folder/counts"
}
good() { echo "passed 1" >> "$folder/counts"; }

# RANKS SEED FLAGS: the runtime alone.
ring() {
	local ranks=$1 seed=$2
	shift 2
	mpicc $flags -D_GNU_SOURCE "$@" -o "$folder/ring" tests/lang/ring.c
	if timeout 900 $run -np "$ranks" "$folder/ring" 100 "$seed"; then good; else bad "ring on $ranks ranks: $*"; fi
}

# FILE PROGRAM SIZES RANKS AND FLAGS: all schedules; @ stands for the ranks, of each of two groups where there is an axis pp.
hold() {
	local file=tests/lang/$1.lk name=$2 numbers=() more=() word ranks sizes schedule dump=$folder/dump groups=1
	if [[ $3 == pp=* ]]; then groups=2; fi
	for word in ${*:4}; do
		if [[ $word =~ ^[0-9]+$ ]]; then numbers+=("$word"); else more+=("$word"); fi
	done
	"$program" compile emit "$file" --program "$name" --out "$folder/p.c"
	mpicc $flags "${more[@]}" -o "$folder/p" "$folder/p.c" -lm
	for ranks in "${numbers[@]}"; do
		sizes=${3//@/$ranks}
		rm -rf "$dump" && mkdir "$dump"
		timeout 900 $run -np "$((ranks * groups))" "$folder/p" --sizes "$sizes" --seed 3 --dump "$dump" 2> "$folder/errors" ||
			{ bad "$name on $ranks ranks: $(grep -m1 -E 'ERROR|error|refused' "$folder/errors")"; continue; }
		for schedule in $(ls "$dump" | sed 's/\.[0-9]*$//' | sort -u); do
			if "$program" compile run "$file" --program "$name" --schedule "$schedule" --seed 3 --sizes "$sizes" --compare "$dump" > "$folder/said"
			then good
			else bad "$name, $schedule, $ranks ranks: $(grep -m1 -B1 DIFFERS "$folder/said" || cat "$folder/said")"; fi
		done
	done
}

# One of the tests below, in a folder of its own.
test_of() {
	folder=$(mktemp -d -p "$work")
	$1
	if [ ! -e "$folder/counts" ]; then bad "$1: nothing was compared"; fi
}

tests=()
for ranks in "${all[@]}"; do tests+=("ring $ranks $ranks"); done
# Overlaps have chunks of a few elements.
small="-DRT_FLOW_BYTES=16 -DRT_FLOW_ROWS=2 -DRT_PANEL=2"
tests+=(
	"ring 3 7 -DRT_RING_FAR -DRT_RING_EAGER=100"
	"hold rings lists dp=@,N=3:170:1:1000:2:64 $*"
	"hold rings dims dp=@,A=5,B=7,C=9 $*"
	"hold rings wide dp=@,N=70001 $*"
	"hold rings ends dp=@,N=1003 $*"
	"hold rings rows tp=@,M=70,K=23,N=31 $*"
	"hold rings batches tp=@,E=5,M=9,K=4,N=6 $*"
	"hold rings columns tp=@,M=70,K=23,N=31 $*"
	"hold rings handover pp=2,tp=@,B=3,S=50,H=12 1 2"
	"hold rings turns tp=@,M=12,K=8 $*"
	"hold flows experts ep=@,E=7,C=23,H=5,F=6 $small $*"
	"hold flows right tp=@,M=11,K=13,N=17 $small $*"
	"hold flows turned tp=@,M=13,K=9,N=11 $small $*"
	"hold flows reduced tp=@,A=3,M=11,K=7,N=9 $small $*"
	"hold flows round cp=@,T=23,D=5 $small $*"
	"hold flows tensors dp=@,N=3:170:1:50 $small $*"
	"hold flows side dp=@,M=13,K=7 $small $*"
	"hold flows hand pp=2,tp=@,k=0,B=3,S=11,H=5 $small 1 2"
	"hold flows turned tp=@,M=13,K=9,N=11 $small -DRT_FIRST_WAY=1 3"
	"hold rings rows tp=@,M=70,K=23,N=31 $small -DRT_FIRST_WAY=1 3"
	"hold rings columns tp=@,M=70,K=23,N=31 $small -DRT_FIRST_WAY=1 3"
	"hold flows experts ep=@,E=7,C=23,H=5,F=6 $small -DRT_RING_FAR -DRT_RING_EAGER=10 3")
if [ -n "${LOCKSTEP_TURN:-}" ] && [ -z "${LOCKSTEP_LONG:-}" ]; then
	mapfile -t tests < <(printf '%s\n' "${tests[@]}" | awk -v turn="$LOCKSTEP_TURN" -v parts="${LOCKSTEP_PARTS:-1}" 'NR % parts == turn % parts')
fi
in_order "$work" test_of "${tests[@]}"
passed=$(total passed "$work"/*/counts) failed=$(total failed "$work"/*/counts)
echo "lang-ring: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
