#!/bin/sh
# The sources of the commit that is checked out as a tarball, the same bytes every time: lockstep-VERSION.tar.gz.
# Usage: tools/dist.sh VERSION FOLDER
set -eu
version=$1
out=$2
cd "$(dirname "$0")/.."
fail() {
	echo "dist: $*" >&2
	exit 1
}
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || fail "this is no git tree; the sources are packed from a commit"
git diff --quiet HEAD || echo "dist: changes that are not committed are left out" >&2
mkdir -p "$out"
# Times are the commit's, names are sorted, gzip -n writes no time of its own.
git archive --format=tar --prefix="lockstep-$version/" HEAD > "$out/dist.tar"
gzip -9 -n < "$out/dist.tar" > "$out/lockstep-$version.tar.gz.new"
rm "$out/dist.tar"
mv "$out/lockstep-$version.tar.gz.new" "$out/lockstep-$version.tar.gz"
echo "dist: $out/lockstep-$version.tar.gz, $(wc -c < "$out/lockstep-$version.tar.gz") bytes"
