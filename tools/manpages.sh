#!/bin/sh
# Man pages and shell completions, written by the program from its option tables.
# Usage: tools/manpages.sh "COMMAND" FOLDER
set -eu
program=$1
out=$2
rm -rf "$out"
mkdir -p "$out"
$program --man > "$out/lockstep.1"
for verb in $($program --verbs); do
	$program --man "$verb" > "$out/lockstep-$verb.1"
done
for other in lockstep-mpi lockstep-mpi-pairs; do
	$program --man "$other" > "$out/$other.1"
done
for shell in bash zsh fish; do
	$program --completion "$shell" > "$out/lockstep.$shell"
done
