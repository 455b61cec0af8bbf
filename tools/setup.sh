#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages of tools/packages.txt that are missing, and nothing where all are there. At a terminal it names
# them and asks first.
# Usage: tools/setup.sh [build|check|site] [--check-only] [--yes]
#   build  what it takes to build lockstep (the default)
#   check  that, and what the tests, the fuzzers and the lint take
#   site   what `make site` takes
#   --check-only  installs nothing; exit status 1 where something is missing
#   --yes         installs without asking, as where there is no terminal
set -euo pipefail

fail() {
	echo "setup.sh: $*" >&2
	exit 1
}

uses=' build ' check_only='' yes=''
for word in "$@"; do
	case $word in
	build | check | site) uses+="$word " ;;
	--check-only) check_only=1 ;;
	--yes) yes=1 ;;
	*) fail "unknown word '$word'; usage: tools/setup.sh [build|check|site] [--check-only] [--yes]" ;;
	esac
done

# A package whose programs are all here counts as installed, wherever they come from.
are_here() {
	local program
	[ $# -gt 0 ] || return
	for program in "$@"; do command -v "$program" >/dev/null || return; done
}
packages=() here=()
while read -r use package programs; do
	[[ $use != *:* || ,${use#*:}, == *",$(uname -m),"* ]] || continue
	[[ $uses == *" ${use%%:*} "* ]] || continue
	packages+=("$package")
	# shellcheck disable=SC2086
	! are_here $programs || here+=("$package")
done < "$(dirname "$0")/packages.txt"

command -v dpkg-query >/dev/null ||
	fail "this is no Debian or Ubuntu; install what stands for these packages and run make: ${packages[*]}"

# An absent package makes dpkg-query fail, but it lists the others all the same.
present=" ${here[*]} $( (dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${packages[@]}" 2>/dev/null || true) |
	sed -n 's/^[ih]i *//p' | tr '\n' ' ')"
missing=()
for package in "${packages[@]}"; do
	[[ $present == *" $package "* ]] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
	echo "setup: all ${#packages[@]} packages are installed"
	exit 0
fi
[ -z "$check_only" ] || fail "missing: ${missing[*]}; run tools/setup.sh"

root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || fail "missing: ${missing[*]}; run 'apt-get install ${missing[*]}' as root"
	root=(sudo)
fi
if [ -z "$yes" ] && [ -t 0 ] && [ -t 2 ]; then
	printf 'setup: apt-get will install %s\nGo on? [y/N] ' "${missing[*]}" >&2
	read -r answer || answer=
	case $answer in [yY]*) ;; *) fail "nothing was installed; say y, or run it with --yes" ;; esac
fi
echo "setup: installing ${missing[*]}"
install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends)
"${install[@]}" "${missing[@]}" >/dev/null 2>&1 ||
	{ "${root[@]}" apt-get update -q >/dev/null && "${install[@]}" "${missing[@]}" >/dev/null; } ||
	fail "could not install ${missing[*]}; look at the message of apt-get above, or install them by hand"
