#!/usr/bin/env bash
# web_charts.sh: fetches the package that draws curves in HTML reports, once, into a folder that tools/embed.sh compiles in.
# Without npm or without a network the folder stays empty, which is no error: curves are then plain SVG. A file .without-npm tells
# the Makefile to try again once npm is there.
#
#     tools/web_charts.sh build/charts       writes build/charts/web/charts/{uplot.js,uplot.css,LICENSE,VERSION}
set -euo pipefail

name=uplot
version=1.6.32
# What the registry states of the package (dist.integrity); a file with another hash is not used.
integrity=sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==

[ $# -eq 1 ] || { echo "usage: tools/web_charts.sh FOLDER" >&2; exit 2; }
out=$1/web/charts
mkdir -p "$1"
# Builds of several modes may come here at the same time; the first one fetches for all.
exec 9>"$1/lock"
command -v flock >/dev/null && flock 9
[ "$(cat "$out/VERSION" 2>/dev/null)" != "uPlot $version (MIT)" ] || exit 0
work=$(mktemp -d "$1/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

plain() {
	echo "charts: plain SVG ($1); make charts tries again"
	rm -rf "$out"
	mkdir -p "$out"
	exit 0
}

rm -f "$1/.without-npm"
command -v npm >/dev/null || { : > "$1/.without-npm"; plain "npm is not installed"; }
(cd "$work" && timeout 60 npm pack --silent --no-audit --no-fund --fetch-retries=0 --fetch-timeout=15000 "$name@$version") \
	>/dev/null 2>&1 || plain "$name $version could not be fetched"
file=$work/$name-$version.tgz
[ -f "$file" ] || plain "$name $version could not be fetched"
found=sha512-$(sha512sum "$file" | cut -d' ' -f1 | tr a-f A-F | basenc -d --base16 | base64 -w0)
[ "$found" = "$integrity" ] || plain "$name $version is not the file that was pinned: $found"
tar -xzf "$file" -C "$work" package/dist/uPlot.iife.min.js package/dist/uPlot.min.css package/LICENSE

mkdir "$work/charts"
cp "$work/package/dist/uPlot.iife.min.js" "$work/charts/uplot.js"
cp "$work/package/dist/uPlot.min.css" "$work/charts/uplot.css"
cp "$work/package/LICENSE" "$work/charts/LICENSE"
printf 'uPlot %s (MIT)' "$version" > "$work/charts/VERSION"
mkdir -p "$1/web"
rm -rf "$out"
mv -T "$work/charts" "$out"
