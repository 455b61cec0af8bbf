#!/usr/bin/env bash
# Times every bench/NAME.sh with hyperfine: LOCKSTEP names the release program, the current folder is the repository.
# Tables go to build/bench/NAME.md and NAME.json. On a shared machine read the minimum, not the mean.
# Usage: bench/run.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."

command -v hyperfine >/dev/null || { echo "bench/run.sh: hyperfine is missing; run 'apt-get install hyperfine'" >&2; exit 1; }
make --no-print-directory -j2 MODE=release all
export LOCKSTEP=$PWD/build/release/lockstep LC_ALL=C
mkdir -p build/bench

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	for file in bench/*.sh; do
		[ "$file" = bench/run.sh ] || names+=("$(basename "$file" .sh)")
	done
fi
for name in "${names[@]}"; do
	[ -x "bench/$name.sh" ] || { echo "bench/run.sh: no program bench/$name.sh" >&2; exit 1; }
	hyperfine --shell=none --warmup 1 --min-runs 5 --command-name "$name" \
		--export-markdown "build/bench/$name.md" --export-json "build/bench/$name.json" "bench/$name.sh"
done
