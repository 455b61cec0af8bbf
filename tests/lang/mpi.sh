#!/usr/bin/env bash
# Emitted C and MPI against the interpreter: every program and schedule of examples/lang (with two more, drawn of those that
# the tuner finds legal), with the address and undefined sanitizers on 3 ranks and on 4, sizes that do not divide and slices
# without an element included; tests/lang/conformance and tests/lang/operations sanitized on 3 and 4; without warnings from
# gcc and clang. Optimized on 2 ranks: the few examples that covering.sh names.
# What each rank holds is compared by `lockstep compile run --compare`. The programs of against_numpy.lk and against_numpy_steps.lk
# run on 1, 2 and 4 ranks, built without sanitizers, and are compared with NumPy by against_numpy.py.
# With LOCKSTEP_LONG=1 on 1, 2, 3 and 4 ranks both ways, all examples optimized, the others compiled with the warnings of an
# optimizer, and with all that the tuner finds, up to 200 a program.
# LOCKSTEP_TURN, which ./check sets by the commit, and LOCKSTEP_PARTS take a part of the programs.
# Usage: tests/lang/mpi.sh LOCKSTEP [FILE.lk...]; the last line counts comparisons.
set -euo pipefail
cd "$(dirname "$0")/../.."

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_pml=ob1 PMIX_MCA_gds=hash # no search for networks, which takes half of the start
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export ASAN_OPTIONS=detect_leaks=0 # MPI's own
drawn=2 limit=900 sanitized_on=3 optimized_on=2
if [ -n "${LOCKSTEP_LONG:-}" ]; then drawn=200 limit=3000 sanitized_on="1 2 3" optimized_on="1 2 3 4"; fi
flags=(-std=c11 -Wall -Wextra -Werror)

# "dp, tp" and a number of ranks as --sizes: axes of fixed size keep theirs. Nothing where that is impossible.
mesh() {
	local axes=${1// /} ranks=$2 first second
	IFS=, read -r first second <<< "$axes"
	if [[ $first == *=* && $second == *=* ]]; then
		[ $((${first#*=} * ${second#*=})) -ne "$ranks" ] || echo "$axes"
		return
	fi
	if [[ $first == *=* && -n $second ]]; then
		[ $((ranks % ${first#*=})) -eq 0 ] && echo "$first,$second=$((ranks / ${first#*=}))"
		return
	fi
	if [ -z "$second" ]; then
		if [[ $first == *=* ]]; then [ "${first#*=}" -eq "$ranks" ] && echo "$first"; else echo "$first=$ranks"; fi
	elif [ "$ranks" -eq 1 ]; then echo "$first=1,$second=1"
	elif [ $((ranks % 2)) -eq 0 ]; then echo "$first=2,$second=$((ranks / 2))"
	else echo "$first=1,$second=$ranks"
	fi
}

# Sizes of the program's dims: prime numbers, or small ones, that some ranks get nothing of.
dims() {
	local file=$1 program=$2 i=0 line name numbers=(37 11 5 7 13 3 2 3 2 3) lists=37:1:500:12
	if [ "$3" = small ]; then numbers=(3 2 3 1 2 3 2 3 2 3) lists=3:1:7; fi
	if [ "$3" = many ]; then numbers=(3 700 64); fi
	sed -n "/^program $program(/,/^}/s/^[ \t]*dim //p" "$file" | while read -r line; do
		if [[ $line == *" of "* ]]; then
			for name in $(echo "${line%% of *}" | tr -d ,); do printf ',%s=%s' "$name" $lists; done
			continue
		fi
		for name in $(echo "$line" | tr -d ,); do printf ',%s=%s' "$name" "${numbers[i]}"; i=$((i + 1)); done
	done
}

# The sizes, as the interpreter takes them; without the dims where their conditions do not hold.
sizes_of() {
	local axes=$3 kind=$4 text
	for text in "$axes$(dims "$1" "$2" "$kind")" "$axes"; do
		"$lockstep" compile run "$1" --program "$2" --sizes "$text" -o json 2> /dev/null | sed -n 's/^ *"sizes": "\(.*\)",$/\1/p' | grep . && return
	done
	return 1
}

# Whether a run ended by a signal in the thread of Open MPI's PMIx, which may outlive its library in MPI_Finalize (open-mpi/ompi
# issue 10117): no frame of the trace is the program's. What ranks have written counts all the same. Generated programs have no
# threads, and call nothing of MPI after MPI_Finalize.
ended_by_pmix() { # log executable
	grep -q 'Signal: ' "$1" && grep -Eq '\[ *[0-9]+\] .*(pmix|PMIX)' "$1" && ! grep -Eq "\[ *[0-9]+\] .*$(basename "$2")[(]" "$1" &&
		echo "note: $(basename "$2"): a thread of PMIx ended a run in MPI_Finalize"
}

compare() { # file program executable ranks kind
	local axes sizes dump=$work/$2.$4.$5 schedule
	axes=$(mesh "$(sed -n "s/^program $2(mesh \([^)]*\)).*/\1/p" "$1")" "$4") || return 0
	sizes=$(sizes_of "$1" "$2" "$axes" "$5") || { echo "skip $2 on $4 ranks"; return 0; }
	rm -rf "$dump" && mkdir "$dump"
	if ! timeout $limit mpirun -n "$4" "$3" --sizes "$sizes" --seed "$4" --dump "$dump" > "$dump.log" 2>&1 && ! ended_by_pmix "$dump.log" "$3"; then
		echo "FAIL $2 on $4 ranks, $sizes"
		head -n 20 "$dump.log"
		return 0
	fi
	for schedule in $("$3" --list); do
		if [ ! -e "$dump/$schedule.0" ]; then
			echo "skip $2 $schedule on $4 ranks: $(sed -n "s/.*: $schedule is left out: //p" "$dump.log")"
		elif "$lockstep" compile run "$1" --program "$2" --schedule "$schedule" --sizes "$sizes" --seed "$4" --compare "$dump" > "$dump.out" 2>&1; then
			echo "pass"
		else
			echo "FAIL $2 $schedule on $4 ranks, $sizes"
			cat "$dump.out"
		fi
	done
}

# The file with more schedules, drawn of those that the tuner finds legal.
with_drawn() { # file program
	local sizes i=0 directives
	cat "$1"
	sizes=$(sizes_of "$1" "$2" "$(mesh "$(sed -n "s/^program $2(mesh \([^)]*\)).*/\1/p" "$1")" 4)" large) || return 0
	"$lockstep" compile tune "$1" --program "$2" --sizes "$sizes" --gpu h100-sxm --programs 400 --top 400 -o json |
		sed -n 's/^ *"schedule": "\(.*;.*\)",\{0,1\}$/\1/p' | sort -u | awk 'BEGIN { srand(8) } { print rand() "\t" $0 }' | sort | head -n $drawn | cut -f 2 |
		while read -r directives; do i=$((i + 1)) && printf 'schedule drawn%d for %s { %s }\n' $i "$2" "$directives"; done
}

# clang without optimization builds it in a fifth of gcc's time, and drops no access that could be seen to be wrong.
sanitized() { # FILE.c without its ending
	local compiler=gcc
	if command -v clang > /dev/null; then compiler=clang; fi
	OMPI_CC=$compiler mpicc "${flags[@]}" -O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -o "$1.san" "$1.c" -lm
}

# On 1, 2 and 4 ranks, with the sizes that its first line names; what they hold is for against_numpy.py.
numpy_program() { # file program
	local file=$1 base=$work/$2 compiler=gcc ranks axes dump
	if command -v clang > /dev/null; then compiler=clang; fi
	"$lockstep" compile emit "$file" --program "$2" --schedule all --out "$base.c" || return 1
	OMPI_CC=$compiler mpicc "${flags[@]}" -O0 -o "$base" "$base.c" -lm || return 1
	for ranks in 1 2 4; do
		dump=$work/$2.$ranks axes=$(mesh "$(sed -n "s/^program $2(mesh \([^)]*\)).*/\1/p" "$file")" $ranks)
		[ -n "$axes" ] || continue # an axis of fixed size
		mkdir "$dump"
		printf '%s\n' "$axes" "$(sed -n "s/^program $2(.*# //p" "$file")" > "$dump/sizes"
		if ! timeout $limit mpirun -n $ranks "$base" --sizes "$(paste -sd, "$dump/sizes")" --seed 11 --dump "$dump" > "$dump.log" 2>&1 &&
			! ended_by_pmix "$dump.log" "$base"; then
			cat "$dump.log"
			return 1
		fi
	done
}

program() { # file program
	local base=$work/$2 file=$1 ranks
	if [[ $1 == examples/* ]]; then with_drawn "$1" "$2" > "$base.lk" && file=$base.lk; fi
	"$lockstep" compile emit "$file" --program "$2" --schedule all --target mpi --out "$base.c"
	"$lockstep" compile emit "$file" --program "$2" --schedule all --target mpi --header --out "$base.h"
	mpicc "${flags[@]}" -fsyntax-only -x c "$base.h"
	sanitized "$base"
	for ranks in $([[ $1 == examples/* ]] && echo $sanitized_on || echo 3); do compare "$file" "$2" "$base.san" $ranks large; done
	compare "$file" "$2" "$base.san" 4 small
	# So many sums that some are zero by the order of their additions alone.
	if [ "$2" = tp_out ]; then compare "$file" "$2" "$base.san" 4 many; fi
	if [[ $1 == examples/* ]]; then
		clang "${flags[@]}" $(mpicc -showme:compile) -DLOCKSTEP_NO_MAIN -fsyntax-only "$base.c"
	fi
	if grep -qx "$2" "$work/../optimized"; then
		mpicc "${flags[@]}" -O2 -o "$base" "$base.c" -lm
		for ranks in $optimized_on; do compare "$file" "$2" "$base" $ranks large; done
	elif [ -n "${LOCKSTEP_LONG:-}" ]; then mpicc "${flags[@]}" -O1 -S -o /dev/null "$base.c"
	else mpicc "${flags[@]}" -fsyntax-only "$base.c"
	fi
	rm -f "$base" "$base.san"
}

if [ "$1" = --program ]; then # one program, for xargs below
	lockstep=$2 work=$3
	export OMPI_MCA_orte_tmpdir_base=$work/$5.mpi # of its own: tests/in_order.sh
	mkdir "$OMPI_MCA_orte_tmpdir_base"
	if [[ $4 == tests/lang/against_numpy* ]]; then numpy_program "$4" "$5"; else program "$4" "$5"; fi > "$work/$5.result" 2>&1 || echo "FAIL $5" >> "$work/$5.result"
	exit 0
fi

lockstep=$(realpath "$1")
shift
if ! mpicc -E -include mpi.h -x c /dev/null > /dev/null 2>&1 || ! command -v mpirun > /dev/null; then
	echo "no mpicc with its headers or no mpirun here; tools/setup.sh check installs them"
	echo "lang-mpi: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
[ $# -gt 0 ] || set -- examples/lang/*.lk tests/lang/conformance/*.lk tests/lang/operations/*.lk tests/lang/against_numpy*.lk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tests/lang/covering.sh "$lockstep" mpi $(printf '%s\n' "$@" | grep '^examples/') > "$work/optimized"
for file in "$@"; do
	mkdir -p "$work/$(basename "$(dirname "$file")")-$(basename "$file" .lk)"
	sed -n 's/^program \([A-Za-z0-9_]*\)(.*/\1/p' "$file" |
		while read -r name; do echo "$work/$(basename "$(dirname "$file")")-$(basename "$file" .lk) $file $name"; done
done | awk -v turn="${LOCKSTEP_TURN:-}" -v all="${LOCKSTEP_LONG:-}" -v parts="${LOCKSTEP_PARTS:-1}" 'turn == "" || all || NR % parts == turn % parts' > "$work/list"
while read -r folder file name; do printf '%s\0%s\0%s\0' "$folder" "$file" "$name"; done < "$work/list" |
	xargs -0 -n 3 -P "${TEST_JOBS:-$(($(nproc) + 1))}" bash -c 'tests/lang/mpi.sh --program "$0" "$1" "$2" "$3"' "$lockstep"
python3=$(for each in python3 /usr/bin/python3; do "$each" -c "import numpy" 2> /dev/null && echo "$each" && break; done)
if ls -d "$work"/lang-against_numpy*/*.[124] > /dev/null 2>&1; then
	if [ -n "$python3" ]; then "$python3" tests/lang/against_numpy.py "$work"/lang-against_numpy*/*.[124] || true
	else echo "skip against_numpy*.lk: no python3 here has NumPy"
	fi > "$work/compared" 2>&1
	if grep -q '^Traceback' "$work/compared"; then echo "FAIL against_numpy.py" >> "$work/compared"; fi
	mkdir -p "$work/numpy" && mv "$work/compared" "$work/numpy/compared.result"
fi
cat "$work"/*/*.result > "$work/all"
grep -v '^pass$' "$work/all" || true
passed=$(grep -c '^pass$' "$work/all" || true) failed=$(grep -c '^FAIL' "$work/all" || true) skipped=$(grep -c '^skip' "$work/all" || true)
echo "lang-mpi: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
