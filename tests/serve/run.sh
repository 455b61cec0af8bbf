#!/usr/bin/env bash
# Tests of `lockstep serve`: a client in Python against servers on loopback. Skipped where the program has no server.
# Usage: tests/serve/run.sh PROGRAM [unittest arguments]
set -uo pipefail
cd "$(dirname "$0")/../.."

export LOCKSTEP_CHECKS=abort LOCKSTEP=$1 PYTHONDONTWRITEBYTECODE=1
shift
said=$("$LOCKSTEP" serve --listen nowhere 2>&1)
if [[ $said == *"built without"* ]]; then
	echo "skip serve: $said"
	echo "serve: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
exec python3 tests/serve/run.py "$@"
