#!/usr/bin/env bash
# Builds and runs the unit tests that a change concerns: those that changed themselves, and those that include a header of
# a folder in which a file changed since the last run that passed.
# Usage: tests/unit/quick.sh BUILD   (build/release)
set -euo pipefail
shopt -s extglob
build=$1
since=$build/quick.passed
now=$(mktemp)
trap 'rm -f "$now"' EXIT

newer=()
[ ! -e "$since" ] || newer=(-newer "$since")
mapfile -t folders < <(find src lang lib study include -name '*.[ch]' "${newer[@]}" -printf '%h\n' | sort -u)
mapfile -t changed < <(find tests/unit -name 'test_*.c' "${newer[@]}" -printf '%f\n' | sed 's/\.c$//')

programs=()
for source in tests/unit/test_*.c; do
	name=$(basename "$source" .c)
	known=$build/tests/unit/$name.d
	concerned=$([[ " ${changed[*]} " == *" $name "* || ! -e $known ]] && echo yes || true)
	for folder in "${folders[@]}"; do
		[ -n "$concerned" ] || ! grep -q "#include \"${folder#@(src|lib|study)/}/[^/\"]*\"" "$source" || concerned=yes
	done
	[ -z "$concerned" ] || programs+=("$build/unit/$name")
done
if [ ${#programs[@]} -eq 0 ]; then
	echo "quick: nothing changed since the last run that passed"
	exit 0
fi
echo "quick: ${#programs[@]} test programs for changes in ${folders[*]}"
make --no-print-directory -s -j"$(nproc)" MODE="$(basename "$build")" "${programs[@]}"
tests/unit/run.sh "${programs[@]}"
touch -r "$now" "$since"
