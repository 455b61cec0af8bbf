#!/usr/bin/env bash
# Runs unit-test programs (cmocka), as many at a time as there are processors, and prints one line for each, the output of
# those that fail, and the totals.
# Usage: tests/unit/run.sh PROGRAM...
# THREADED=FOLDER leaves there a file of the name of each program that starts a thread, with the names of the tests that do.
# ONLY=FOLDER, such a one: of a program that has a file there only these tests are run.
set -uo pipefail
. "$(dirname "$0")/../in_order.sh"

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Sum of the numbers in cmocka's closing lines of one kind: "[  PASSED  ] 12 test(s)."
count() { # KIND LOG
	sed -n "s/^\[ *$1 *\] \([0-9][0-9]*\) test(s).*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

watch=()
if [ -n "${THREADED:-}${ONLY:-}" ]; then
	[ -z "${THREADED:-}" ] || mkdir -p "$THREADED"
	cc -shared -fPIC -o "$work/threads.so" "$(dirname "$0")/threads.c" -ldl || exit
	watch=(env LD_PRELOAD="$work/threads.so")
	export THREADED=${THREADED:-} ONLY=${ONLY:-}
fi

run_program() {
	local program=$1 name log status p f s
	name=$(basename "$program")
	log=$(mktemp -p "$work")
	LOCKSTEP_THREADED=${THREADED:+$THREADED/$name} LOCKSTEP_ONLY=${ONLY:+$ONLY/$name} timeout "${TEST_SECONDS:-1200}" "${watch[@]}" "$program" > "$log" 2>&1
	status=$?
	times > "$log.times"
	p=$(count PASSED "$log") f=$(count FAILED "$log") s=$(count SKIPPED "$log")
	# A crash, a time-out or a sanitizer's report ends a program without, or in spite of, its closing lines.
	if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
	if [ $((p + f + s)) -eq 0 ]; then f=1; echo "no test ran in $program" >> "$log"; fi
	printf 'passed %d\nfailed %d\nskipped %d\n' "$p" "$f" "$s" > "$log.counts"
	if [ "$f" -gt 0 ]; then
		echo "FAIL $program: $p passed, $f failed, $s skipped, exit status $status"
		grep -v '^\[ RUN  \|^\[       OK' "$log" | tail -n 60 | sed 's/^/    /'
	else
		echo "ok   $program: $p passed, $s skipped ($(seconds_of "$log.times") s of processors)"
		[ "$s" -eq 0 ] || sed -n 's/^\[  SKIPPED \] \([a-zA-Z_].*\)/     skipped: \1/p' "$log" | sort -u
	fi
}

in_order "$work" run_program "$@"
failed=$(total failed "$work"/*.counts)
# A program whose runner was ended leaves no counts.
lost=$(($# - $(find "$work" -name '*.counts' | wc -l)))
failed=$((failed + lost))
echo "unit tests: $(total passed "$work"/*.counts) passed, $failed failed, $(total skipped "$work"/*.counts) skipped"
[ $failed -eq 0 ]
