#!/usr/bin/env bash
# Tests of the Python package: its wheel is installed without a network into a clean environment, which is then moved; the tests
# run there, and those of arrays and of capture once more where the system's NumPy and PyTorch are seen.
# Usage: python/tests/run.sh PYTHON WHEEL PROGRAM
set -euo pipefail
python=$1 wheel=$(realpath "$2") program=$(realpath "$3") here=$(cd "$(dirname "$0")" && pwd)
unset PYTHONPATH PYTHONHOME LOCKSTEP_LIBRARY
export LOCKSTEP_CHECKS=abort LOCKSTEP_PROGRAM=$program LOCKSTEP_ROOT=${here%/python/tests} LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$wheel" "$work/"
# Its tag is that of the oldest glibc that packaging.mk promises.
floor=$(sed -n 's/^FLOOR := //p' "$LOCKSTEP_ROOT/packaging.mk")
[[ $wheel == *-manylinux_${floor/./_}_$(uname -m)*.whl ]] || { echo "python: the wheel's tag is not of glibc $floor: ${wheel##*/}"; exit 1; }
environment() { # NAME [OPTION]: an environment with the wheel in it, moved to where it was not made
	"$python" -m venv --without-pip ${2:-} "$work/made-$1"
	"$python" -m pip --quiet --disable-pip-version-check --python "$work/made-$1/bin/python" install --no-index --no-deps "$work"/*.whl
	mv "$work/made-$1" "$work/$1"
}
environment clean
environment arrays --system-site-packages
rm "$work"/*.whl

status=0 passed=0 failed=0 skipped=0
suite() { # ENVIRONMENT PATTERN
	local log=$work/log ran bad skip
	(cd "$work" && "$work/$1/bin/python" -m unittest discover -s "$here" -p "$2") >"$log" 2>&1 || status=1
	ran=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$log")
	bad=$(awk -F '[=,)]' '/^FAILED \(/ { for (i = 1; i < NF; i++) if ($i ~ /(failures|errors)$/) n += $(i + 1) } END { print n + 0 }' "$log")
	skip=$(sed -n 's/.*skipped=\([0-9]*\).*/\1/p' "$log")
	skip=${skip:-0} ran=${ran:-0}
	[ "$status" -eq 0 ] || cat "$log"
	passed=$((passed + ran - bad - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
}
suite clean 'test_*.py'
suite arrays 'test_arrays.py'
suite arrays 'test_capture*.py' # with PyTorch, where the system has it
[ $status -eq 0 ] || [ $failed -gt 0 ] || failed=1
echo "python: $passed passed, $failed failed, $skipped skipped"
exit $status
