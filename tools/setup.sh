#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing, and nothing where all are there. At a terminal it names them and
# asks first.
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

packages=(gcc make pkg-config zlib1g-dev libzstd-dev libsqlite3-dev libexpat1-dev libyaml-dev libmicrohttpd-dev)
# Where Debian has it; without it zlib unpacks gzip.
case $(uname -m) in x86_64 | aarch64) packages+=(libisal-dev) ;; esac
check_only='' yes=''
for word in "$@"; do
	case $word in
	build) ;;
	check) packages+=(libcmocka-dev clang libclang-rt-dev python3 clang-format cppcheck libopenmpi-dev openmpi-bin gfortran libopenblas-dev python3-torch
		python3-venv python3-pip python3-numpy python3-yaml protobuf-compiler dpkg-dev abigail-tools mandoc groff-base zsh fish locales chromium)
		command -v node >/dev/null || packages+=(nodejs)
		command -v npm >/dev/null || packages+=(npm) ;;
	site) packages+=(mkdocs) ;;
	--check-only) check_only=1 ;;
	--yes) yes=1 ;;
	*) fail "unknown word '$word'; usage: tools/setup.sh [build|check|site] [--check-only] [--yes]" ;;
	esac
done

command -v dpkg-query >/dev/null ||
	fail "this is no Debian or Ubuntu; install what stands for these packages and run make: ${packages[*]}"

# An absent package makes dpkg-query fail, but it lists the others all the same.
present=" $( (dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${packages[@]}" 2>/dev/null || true) |
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
