#!/usr/bin/env bash
# Tests of pages in Debian's Chromium, driven by playwright-core, which npm installs into build/browser at the version and
# hash of package-lock.json. Skipped, visibly, where Chromium, Node or the package is not there.
# With LOCKSTEP_PICTURES=1 the tests leave pictures of the pages in build/browser/pictures.
# Usage: tests/browser/run.sh PROGRAM [words of test names]
#        tests/browser/run.sh PROGRAM --run SCRIPT [arguments]    another script with the same installation
#        tests/browser/run.sh --fetch                             the installation alone, while there is a network
set -uo pipefail
cd "$(dirname "$0")/../.."

skip() {
	echo "skip browser tests: $1"
	echo "browser tests: 0 passed, 0 failed, 1 skipped"
	exit 0
}

fetch() {
	mkdir -p build/browser
	! cmp -s tests/browser/package-lock.json build/browser/installed.json || return 0
	cp tests/browser/package.json tests/browser/package-lock.json build/browser/
	(cd build/browser && npm ci --no-audit --no-fund --ignore-scripts --fetch-retries=1 --fetch-timeout=30000) > build/browser/npm.log 2>&1 ||
		skip "playwright-core could not be installed; see build/browser/npm.log"
	cp tests/browser/package-lock.json build/browser/installed.json
}

if [ "${1:-}" = --fetch ]; then
	fetch
	exit
fi
export LOCKSTEP_CHECKS=abort LOCKSTEP=$1 CHROMIUM=${CHROMIUM:-$(command -v chromium)}
shift
said=$("$LOCKSTEP" serve --listen nowhere 2>&1)
[[ $said != *"built without"* ]] || skip "$said"
[ -n "$CHROMIUM" ] || skip "chromium is not installed"
command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is not installed"
[ "$(node -p 'parseInt(process.versions.node) >= 18')" = true ] || skip "node is older than 18"
fetch
if [ "${1:-}" = --run ]; then
	shift
	exec node "$@"
fi
exec timeout "${TEST_SECONDS:-1200}" node tests/browser/run.mjs "$@"
