#!/usr/bin/env bash
# The CUDA target without a GPU: run.sh LOCKSTEP. Every program of examples/lang and programs/ is emitted, and those that
# ../lang/covering.sh names (all with LOCKSTEP_LONG=1) are
#   - compiled and linked by nvcc, where it is found (one for sm_80, one for sm_90; all for both with LOCKSTEP_LONG=1),
#   - built for the CPU with the address and undefined sanitizers (some with the thread sanitizer too; what is looked at in
#     every access to memory but its alignment only with LOCKSTEP_LONG=1) and run on virtual
#     ranks (the last sizes of sizes.txt; all with LOCKSTEP_LONG=1), every schedule, fused steps by collectives (T2) and by
#     kernels that reach the others' memory (T1); what every rank holds then is compared with the interpreter.
# LOCKSTEP_TURN=N, which ./check sets by the commit, takes one of LOCKSTEP_PARTS of the latter, one of the programs with the thread sanitizer, and one of those
# that nvcc compiles.
# Last line: "lang-cuda: N passed, N failed, N skipped".
set -uo pipefail
lockstep=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export lockstep root dir
export PATH="$PATH:/usr/local/cuda/bin"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1

pass() { echo "pass $*" >> "$dir/results.$BASHPID"; }
fail() { echo "FAIL $*" | tee -a "$dir/results.$BASHPID"; }
skip() { echo "skip $*" | tee -a "$dir/results.$BASHPID"; }

file_of() { # PROGRAM
	local folder
	for folder in examples/lang tests/cuda/programs tests/lang/operations; do
		[ -f "$root/$folder/$1.lk" ] && echo "$root/$folder/$1.lk" && return
	done
}

# One schedule's dump against the interpreter.
compare() { # PROGRAM SIZES SCHEDULE DUMPS WHAT
	if "$lockstep" compile run "$(file_of "$1")" --schedule "$3" --sizes "$2" --seed 5 --compare "$4" > "$4/log" 2>&1
	then pass "$5 $1 $2 $3"
	else fail "$5 $1 $2 $3: $(tail -n 1 "$4/log")"; fi
}

# All schedules in one process; where these sizes suit not all, each in a process of its own. A schedule that the
# interpreter refuses with the same sizes is no failure.
run() { # PROGRAM EXECUTABLE SIZES BACKEND WHAT
	local dump log schedule
	dump=$(mktemp -d -p "$dir") log=$(mktemp -p "$dir")
	if timeout 900 "$2" --sizes "$3" --seed 5 --dump "$dump" --backend "$4" > "$log" 2>&1; then
		for schedule in $("$2" --list); do compare "$1" "$3" "$schedule" "$dump" "$5 $4"; done
		return
	fi
	for schedule in $("$2" --list); do
		if timeout 900 "$2" --sizes "$3" --seed 5 --dump "$dump" --backend "$4" --schedule "$schedule" > "$log" 2>&1; then
			compare "$1" "$3" "$schedule" "$dump" "$5 $4"
		elif "$lockstep" compile run "$(file_of "$1")" --schedule "$schedule" --sizes "$3" > /dev/null 2>&1; then
			fail "$5 $4 $1 $3 $schedule: $(grep -m 1 -E 'ERROR|error|WARNING|:' "$log")"
		fi
	done
}

# A wrong dump must be found, or the comparison is worth nothing.
control() { # EXECUTABLE
	local dump
	dump=$(mktemp -d -p "$dir")
	"$1" --sizes dp=2,N=9 --seed 5 --schedule plain --dump "$dump" > /dev/null
	printf '\177' | dd of="$dump/plain.1" bs=1 seek=30 conv=notrunc status=none
	if "$lockstep" compile run "$root/examples/lang/sgd.lk" --schedule plain --sizes dp=2,N=9 --seed 5 --compare "$dump" > /dev/null 2>&1
	then fail "a changed dump is not found"
	else pass "a changed dump is found"; fi
}

# Called from another program, with its memory.
library() { # COMPILER FLAGS
	"$lockstep" compile emit --target cuda --header "$root/examples/lang/sgd.lk" > "$dir/sgd.h"
	if "$root/tests/cuda/build.sh" "$dir/sgd.cu" "$dir/library" -DLOCKSTEP_NO_MAIN \
		-I"$dir" "$@" "$root/tests/cuda/library.cc" 2> "$dir/library.log" && timeout 900 "$dir/library" 2>> "$dir/library.log"
	then pass "called from another program"
	else fail "called from another program: $(grep -m 1 -E 'error|ERROR|:' "$dir/library.log")"; fi
}

# Bad arguments: one line, exit status 2.
refused() { # EXECUTABLE ARGUMENT...
	local text status
	text=$("$@" 2>&1) && status=0 || status=$?
	if [ "$status" = 2 ] && [ "$(wc -l <<< "$text")" = 1 ]; then pass "refused: ${*:2}"; else fail "not refused ($status): ${*:2}: $text"; fi
}

program() { # PROGRAM SIZES...
	local name=$1 sizes backend
	shift
	"$lockstep" compile emit --target cuda "$(file_of "$name")" > "$dir/$name.cu" || { fail "emit $name"; return; }
	pass "emit $name"
	[ -n "${LOCKSTEP_LONG:-}" ] || set -- "${@: -1}"
	if grep -qx "$name" "$dir/sanitized"; then
		# shellcheck disable=SC2086
		CXX=$compiler "$root/tests/cuda/build.sh" "$dir/$name.cu" "$dir/$name" $safe $common -Werror 2> "$dir/$name.log" ||
			{ fail "build $name: $(grep -m 1 error "$dir/$name.log")"; return; }
		pass "build $name"
		for sizes in "$@"; do
			for backend in host pointers; do run "$name" "$dir/$name" "$sizes" $backend "${common:+address,undefined}"; done
		done
	fi
	case $name in
	sgd)
		control "$dir/$name"
		# shellcheck disable=SC2086
		CXX=$compiler library $safe
		refused "$dir/$name" --sizes dp=2
		refused "$dir/$name" --sizes dp=99,N=5
		refused "$dir/$name" --sizes dp=2,N=99999999999999999999
		refused "$dir/$name" --sizes dp=2,N=9 --schedule none
		refused "$dir/$name" --sizes dp=2,N=9 --backend none
		refused "$dir/$name" --nothing ;;
	adam | tp_out | chunks)
		grep -qx "$name" "$dir/threads" || return 0
		CXX=$compiler "$root/tests/cuda/build.sh" "$dir/$name.cu" "$dir/$name.tsan" -O0 -g1 -fsanitize=thread 2> "$dir/$name.log" ||
			{ fail "build $name, thread sanitizer: $(grep -m 1 error "$dir/$name.log")"; return; }
		for backend in host pointers; do run "$name" "$dir/$name.tsan" "${@: -1}" $backend thread; done ;;
	esac
}

# clang with sanitizers, g++ without; for clang, what programs include is compiled once (common.h), which halves the time.
prepare() {
	compiler=g++ safe=-O0 common=
	command -v clang++ > /dev/null || return 0
	compiler=clang++
	safe="-O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fsanitize-ignorelist=$root/tests/cuda/ignored.txt"
	[ -n "${LOCKSTEP_LONG:-}" ] || safe="$safe -fno-sanitize=null,object-size,pointer-overflow,vptr"
	# shellcheck disable=SC2086
	if CXX=$compiler "$root/tests/cuda/build.sh" "$root/tests/cuda/common.h" "$dir/common.pch" $safe -Werror -x c++-header \
		-fpch-instantiate-templates -fpch-codegen && $compiler $safe -c -o "$dir/common.o" "$dir/common.pch"
	then common="-include-pch $dir/common.pch -Wl,$dir/common.o"
	else fail "build common.h"; fi
}

gpu_build() { # PROGRAM ARCHITECTURE...
	local number code=()
	for number in "${@:2}"; do code+=(-gencode "arch=compute_$number,code=sm_$number"); done
	"$lockstep" compile emit --target cuda "$(file_of "$1")" > "$dir/$1.nv.cu" || { fail "emit $1"; return; }
	if nvcc "${code[@]}" -o "$dir/$1.nv" "$dir/$1.nv.cu" -lnccl -lcublasLt \
		> "$dir/$1.nv.log" 2>&1 && ! grep -q warning "$dir/$1.nv.log"
	then pass "nvcc $1"
	else fail "nvcc $1: $(grep -m 1 -E 'error|warning' "$dir/$1.nv.log")"; fi
}

one() { # "cpu PROGRAM SIZES..." or "nvcc PROGRAM ARCHITECTURE..."
	# shellcheck disable=SC2086
	set -- $1
	if [ "$1" = nvcc ]; then gpu_build "${@:2}"; else shift; program "$@"; fi
}
export -f file_of pass fail skip compare run control library refused program gpu_build one

# Of N lines one, by LOCKSTEP_TURN; all without it.
by_turns() { # N
	awk -v turn="${LOCKSTEP_TURN:-}" -v all="${LOCKSTEP_LONG:-}" -v parts="$1" 'turn == "" || all || NR % parts == turn % parts'
}

jobs() {
	if ! command -v nvcc > /dev/null; then :
	elif [ -n "${LOCKSTEP_LONG:-}" ]; then basename -s .lk "$root"/examples/lang/*.lk "$root"/tests/cuda/programs/*.lk | sed 's/.*/nvcc & 80 90/'
	else printf 'nvcc adam 90\nnvcc chunks 80\n' | by_turns 2
	fi
	grep -v '^#' "$root/tests/cuda/sizes.txt" | sed 's/^/cpu /'
}
prepare
export compiler safe common
command -v nvcc > /dev/null || skip "nvcc is not installed: not compiled for a GPU"
for file in "$root"/examples/lang/*.lk "$root"/tests/cuda/programs/*.lk; do
	grep -q "^$(basename -s .lk "$file") " "$root/tests/cuda/sizes.txt" || fail "$(basename "$file") has no sizes in tests/cuda/sizes.txt"
done
sed -n 's/^\([a-z][a-z0-9_]*\) .*/\1/p' "$root/tests/cuda/sizes.txt" | while read -r name; do file_of "$name"; done |
	xargs "$root/tests/lang/covering.sh" "$lockstep" cuda |
	by_turns "${LOCKSTEP_PARTS:-3}" > "$dir/sanitized"
printf '%s\n' adam tp_out chunks | by_turns 3 > "$dir/threads"
echo sgd >> "$dir/sanitized" # with which arguments, a changed dump and another program's calls are tested
jobs | grep -E "${LANG_CUDA_ONLY:-.}" | tr '\n' '\0' | xargs -0 -P "${LANG_CUDA_JOBS:-2}" -n 1 bash -c 'one "$0"'
cat "$dir"/results.* > "$dir/all"
count() { grep -c "^$1" "$dir/all"; }
echo "lang-cuda: $(count pass) passed, $(count FAIL) failed, $(count skip) skipped"
[ "$(count FAIL)" -eq 0 ]
