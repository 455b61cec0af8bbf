#!/usr/bin/env bash
# Runs the command-line tests; tests/cli/README.md describes their form.
# Usage: tests/cli/run.sh [--update] PROGRAM [FILE.test...]
set -uo pipefail
. "$(dirname "$0")/../in_order.sh"

# Of the slow files one of LOCKSTEP_PARTS, by turns from commit to commit; those that the last commit changed, and those whose script takes
# its part by the turn itself, always.
this_turn() { # FILE...
	local file turn=$((LOCKSTEP_TURN)) changed
	changed=$(cd "$root" && git diff --name-only HEAD~1 -- tests/cli 2> /dev/null)
	for file; do
		if [ $((turn++ % ${LOCKSTEP_PARTS:-1})) -eq 0 ] || [[ $changed == *"$(basename "$file" .test)".* ]] ||
			grep -qsE "LOCKSTEP_TURN|^from turn import" "${file%.test}.py"; then
			echo "$file"
		fi
	done
}

update=
[ "${1:-}" = --update ] && { update=1; shift; }
[ $# -ge 1 ] || { echo "usage: tests/cli/run.sh [--update] PROGRAM [FILE.test...]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "$1")
shift
if [ $# -eq 0 ]; then # the slow ones first, which say in their second line that the quick check leaves them out
	mapfile -t slow < <(grep -l LOCKSTEP_QUICK "$root"/tests/cli/*.test)
	mapfile -t others < <(grep -L LOCKSTEP_QUICK "$root"/tests/cli/*.test)
	[ -z "${LOCKSTEP_TURN:-}" ] || mapfile -t slow < <(this_turn "${slow[@]}")
	set -- "${slow[@]}" "${others[@]}"
fi
for file; do [ -r "$file" ] || { echo "tests/cli/run.sh: $file cannot be read" >&2; exit 2; }; done
[ -x "$program" ] || { echo "tests/cli/run.sh: $program is not there; run make first" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A link: whatever the path of the checkout is, how long and with which signs, tests and what programs print of it are the same.
ROOT=$work/root
ln -s "$root" "$ROOT"
mkdir "$work/bin"
built=$(dirname "$program")
if [[ $built == *[\ :]* ]]; then # from there the dynamic linker loads no recorder, which the program says: it is installed elsewhere
	mkdir "$work/built"
	cp -r "$program" "$built"/*.so "$built"/lockstep-nccl "$built"/lockstep-mpi* "$work/built" 2>/dev/null
	built=$work/built program=$built/$(basename "$program")
fi
ln -s "$program" "$work/bin/lockstep"
[ -x "$built/lockstep-mpi" ] && ln -s "$built/lockstep-mpi" "$work/bin/"
cat > "$work/bin/unfold" <<'EOF'
#!/usr/bin/awk -f
# A report's lines that go on in the next one, as one.
NR > 1 && (/^          ?[^ ]/ || /^           [^ ]/ || (/^    [^ ]/ && list)) { sub(/^ +/, " "); line = line $0; next }
NR > 1 { print line }
{ line = $0; list = /^  - / }
END { if (NR) print line }
EOF
chmod +x "$work/bin/unfold"
data=$(cd "$root" && realpath -m "${LOCKSTEP_DATA:-../shared/data}")
ln -s "$data" "$work/data"
export LOCKSTEP_CHECKS=abort # an answer whose own check fails ends the program (base/check.h)
export ROOT LOCKSTEP_DATA=$work/data PATH=$work/bin:$PATH LC_ALL=C TZ=UTC NO_COLOR=1 COLUMNS=100
unset PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME # what one person has set
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# Compares expected lines (file 1) with actual lines (file 2). The lines between two "..." are matched as far left as
# possible, which finds a match wherever there is one.
matcher='
function same(pattern, line) {
	if (pattern ~ /^~ /) return line ~ substr(pattern, 3)
	if (pattern ~ /^\\/) return line == substr(pattern, 2)
	return line == pattern
}
function block_at(first, last, at,    k) {
	if (at + last - first > actual) return 0
	for (k = first; k <= last; k++) if (!same(want[k], got[at + k - first])) return 0
	return 1
}
FILENAME == ARGV[1] { want[++wanted] = $0; next }
{ got[++actual] = $0 }
END {
	while (wanted && want[wanted] == "") wanted--
	while (actual && got[actual] == "") actual--
	i = at = 1
	while (i <= wanted) {
		anywhere = 0
		while (i <= wanted && want[i] == "...") { anywhere = 1; i++ }
		last = i
		while (last <= wanted && want[last] != "...") last++
		last--
		if (i > wanted) exit 0
		if (last == wanted && anywhere) at = actual - (last - i) > at ? actual - (last - i) : at
		while (anywhere && at <= actual && !block_at(i, last, at)) at++
		if (!block_at(i, last, at)) exit 1
		at += last - i + 1
		i = last + 1
	}
	exit at <= actual
}'

# Runs $command; the expectations are $status and $block/{out,err}. Leaves what happened in $got_status and $block/got.*.
# A test has hundreds of commands: what the shell can do itself starts no process here.
run_block() {
	(cd "$scratch" && HOME=$scratch exec timeout "${TEST_SECONDS:-600}" bash -c "$command" \
		> "$block/got.out.raw" 2> "$block/got.err.raw" < /dev/null)
	got_status=$?
	for stream in out err; do
		: > "$block/got.$stream"
		[ ! -s "$block/got.$stream.raw" ] ||
			sed -e "s|$ROOT|\$ROOT|g" -e "s|$root|\$ROOT|g" -e "s|$scratch|.|g" "$block/got.$stream.raw" > "$block/got.$stream"
	done
	[ "$status" = "$got_status" ] && says_no_null && matches out && matches err
}

# "%s" of nothing, which no line of a report or an error may show.
says_no_null() {
	[[ "$(< "$block/got.err")" != *'(null)'* ]] && ! grep -qF '(null)' "$block/got.out"
}

matches() { # out or err
	[ ! -s "$block/$1" ] && [ ! -s "$block/got.$1" ] || awk "$matcher" "$block/$1" "$block/got.$1"
}

show_failure() {
	echo "FAIL $name:$line: ${command%%$'\n'*}"
	[ "$status" = "$got_status" ] || echo "    exit status $got_status, expected $status"
	says_no_null || echo "    the output has (null)"
	for stream in out err; do
		matches $stream ||
			diff -U2 --label "expected $stream" --label "actual $stream" "$block/$stream" "$block/got.$stream" |
			head -n "${DIFF_LINES:-60}" | sed 's/^/    /'
	done
}

# The expectation that the last run would have met, in the form of the file.
write_expectation() {
	[ "$got_status" = 0 ] || echo "! $got_status"
	sed 's/^/2> /' "$block/got.err"
	sed -E 's/^([#?$>!~\\]|2>|\.\.\.$)/\\\1/' "$block/got.out"
	echo
}

# Closes the block that is being read: runs it and counts.
finish_block() {
	[ -n "$open" ] || return 0
	open=
	if run_block; then
		passed=$((passed + 1))
		printf '%s' "$block_text" >> "$new"
	elif [ -n "$update" ]; then
		passed=$((passed + 1))
		printf '%s' "$block_head" >> "$new"
		write_expectation >> "$new"
	else
		failed=$((failed + 1))
		show_failure
	fi
}

open_block() {
	command=$1 status=0
	: > "$block/out"
	: > "$block/err"
	block_head=$text$'\n' block_text=$text$'\n'
	open=1 in_command=1 line=$number
}

# One line behind a "$ ".
expect() {
	block_text+=$text$'\n'
	case $text in
	'> '*) [ -n "$in_command" ] && { command+=$'\n'${text:2} block_head+=$text$'\n'; return; } ;;
	'! '*) status=${text:2} ;;
	'2> '*) printf '%s\n' "${text:3}" >> "$block/err" ;;
	'2>~ '*) printf '~ %s\n' "${text:4}" >> "$block/err" ;;
	'2>...') echo '...' >> "$block/err" ;;
	'2>') echo >> "$block/err" ;;
	*) printf '%s\n' "$text" >> "$block/out" ;;
	esac
	in_command=
}

# Runs the blocks of a file, in a folder of its own; run in a process of its own, for files run side by side.
run_file() {
	local file=$1 passed=0 failed=0 skipped=0 number=0 skip='' open='' text line in_command
	local command status got_status block_head block_text
	name=$(basename "$file")
	home=$(mktemp -d -p "$work")
	block=$home/block scratch=$home/scratch new=$home/new
	mkdir "$block" "$scratch"
	: > "$new"
	while IFS= read -r text || [ -n "$text" ]; do
		number=$((number + 1))
		if [ -n "$skip" ]; then
			printf '%s\n' "$text" >> "$new"
			case $text in '$ '*) skipped=$((skipped + 1)) ;; esac
			continue
		fi
		case $text in
		'$ '*) finish_block; open_block "${text:2}" ;;
		'# '* | '#') finish_block; printf '%s\n' "$text" >> "$new" ;;
		'? '*)
			finish_block
			printf '%s\n' "$text" >> "$new"
			(cd "$scratch" && bash -c "${text:2}") > /dev/null 2>&1 || { skip=1; echo "skip $name from line $number: ${text:2}"; } ;;
		*) if [ -n "$open" ]; then expect; else printf '%s\n' "$text" >> "$new"; fi ;;
		esac
	done < "$file"
	finish_block
	if [ -n "$update" ] && ! cmp -s "$new" "$file"; then
		sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' "$new" > "$file"
		echo "wrote $name"
	fi
	times > "$home.times"
	[ -n "$skip" ] || echo "done $name: $((passed + failed)) commands ($(seconds_of "$home.times") s of processors)"
	printf 'passed %d\nfailed %d\nskipped %d\n' $passed $failed $skipped > "$home.counts"
	rm -rf "$home"
}

in_order "$work" run_file "$@"
# A file whose runner was ended leaves no counts.
lost=$(($# - $(find "$work" -maxdepth 1 -name '*.counts' | wc -l)))
failed=$(($(total failed "$work"/*.counts) + lost))
echo "command-line tests: $(total passed "$work"/*.counts) passed, $failed failed, $(total skipped "$work"/*.counts) skipped"
[ $failed -eq 0 ]
