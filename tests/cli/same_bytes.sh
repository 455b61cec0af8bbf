#!/bin/sh
# same_bytes.py in a folder of its own. Usage: tests/cli/same_bytes.sh QUESTIONS FIRST PROGRAM...
set -eu
script=$(realpath "$(dirname "$0")/same_bytes.py") questions=$1 first=$2
shift 2
for program; do
	shift
	set -- "$@" "$(realpath "$program")"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
PYTHONDONTWRITEBYTECODE=1 python3 "$script" --questions "$questions" --first "$first" "$@"
