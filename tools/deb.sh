#!/usr/bin/env bash
# Debian packages of an installed tree: what `make install PREFIX=/usr LIBDIR=/usr/lib/MULTIARCH DESTDIR=TREE` made.
#
#   lockstep         the program, what it loads into recorded programs, man pages, completions, documents, examples
#   lockstep-mpi     the program over an MPI cluster (where mpicc was there): it alone needs an MPI library
#   liblockstepN     the shared library of soname N; several can be installed beside one another
#   liblockstep-dev  headers, the archive, files for pkg-config and CMake, the C examples
#
# The program is linked with the archive, so `lockstep` does not need `liblockstepN`. Files go to packages by the patterns below;
# one that no pattern takes is an error. Same tree and same commit, same bytes.
# Usage: tools/deb.sh TREE VERSION SOVERSION FOLDER
set -euo pipefail
tree=$(realpath "$1") version=$2 soversion=$3
mkdir -p "$4"
out=$(realpath "$4")
cd "$(dirname "$0")/.."
export LC_ALL=C SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
umask 022

fail() {
	echo "deb: $*" >&2
	exit 1
}
for tool in dpkg-deb dpkg-shlibdeps strip; do
	command -v $tool >/dev/null || fail "$tool is missing; apt-get install dpkg-dev"
done
arch=$(dpkg --print-architecture)
library=liblockstep$soversion maintainer='the authors of lockstep <lockstep@example.org>'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The first pattern that a path meets says which package it goes to.
package_of() {
	case $1 in
	usr/bin/lockstep-mpi | usr/bin/lockstep-mpi-pairs | usr/share/man/man1/lockstep-mpi*) echo lockstep-mpi ;;
	usr/lib/*/liblockstep.so.*) echo "$library" ;;
	usr/lib/*/liblockstep.so | usr/lib/*/liblockstep.a | usr/lib/*/pkgconfig/* | usr/lib/*/cmake/* | usr/include/*) echo liblockstep-dev ;;
	usr/lib/*/lockstep/*) echo lockstep ;;
	usr/bin/* | usr/share/*) echo lockstep ;;
	*) fail "no package takes /$1; add a pattern to tools/deb.sh" ;;
	esac
}

put() { # FILE PACKAGE PATH: a copy that is no file of the tree
	mkdir -p "$work/$2/$(dirname "$3")"
	cp -r "$1" "$work/$2/$3"
}

split() {
	local path package
	while read -r path; do
		package=$(package_of "$path")
		mkdir -p "$work/$package/$(dirname "$path")"
		cp -P "$tree/$path" "$work/$package/$path"
	done < <(cd "$tree" && find . \( -type f -o -type l \) | sed 's|^\./||' | sort)
}

documents() {
	local package doc
	for package in "${packages[@]}"; do
		doc=usr/share/doc/$package
		mkdir -p "$work/$package/$doc"
		cat > "$work/$package/$doc/copyright" <<-COPYRIGHT
			Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
			Upstream-Name: lockstep

			Files: *
			Copyright: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y) the authors of lockstep
			License: Apache-2.0
			 On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.
		COPYRIGHT
		printf 'lockstep (%s) unstable; urgency=medium\n\n  * CHANGELOG.md in the package lockstep says what is new.\n\n -- %s  %s\n' \
			"$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$work/$package/$doc/changelog.gz"
	done
	put CHANGELOG.md lockstep usr/share/doc/lockstep/CHANGELOG.md
	put README.md lockstep usr/share/doc/lockstep/README.md
	put docs lockstep usr/share/doc/lockstep/docs
	put examples lockstep usr/share/doc/lockstep/examples
	rm -rf "$work/lockstep/usr/share/doc/lockstep/examples/library"
	put examples/library liblockstep-dev usr/share/doc/liblockstep-dev/examples
	find "${packages[@]/#/$work/}" -name .gitignore -delete
}

# Binaries lose what the debugger alone reads; text that is read with `man` is compressed.
finish() {
	find "$work/lockstep"* "$work/$library" -path '*/usr/bin/*' -type f -exec strip --strip-all {} +
	find "${packages[@]/#/$work/}" -name '*.so*' -type f -exec strip --strip-unneeded {} + -exec chmod 644 {} +
	find "${packages[@]/#/$work/}" -name '*.a' -type f -exec strip --strip-debug --enable-deterministic-archives {} +
	find "${packages[@]/#/$work/}" -path '*/man1/*.1' -type f -exec gzip -9n {} +
	# Debian's zsh looks for packages' completions elsewhere.
	mkdir -p "$work/lockstep/usr/share/zsh/vendor-completions"
	mv "$work"/lockstep/usr/share/zsh/site-functions/* "$work/lockstep/usr/share/zsh/vendor-completions/"
	rmdir "$work/lockstep/usr/share/zsh/site-functions"
	find "${packages[@]/#/$work/}" -type d -exec chmod 755 {} + -o -type f -perm /111 -exec chmod 755 {} + \
		-o -type f -exec chmod 644 {} +
}

# Packages whose libraries a package's binaries need, with versions. Those that they load by themselves (system/library.h) are
# named by a file that links them.
needs() {
	local files name loaded=()
	mapfile -t files < <(find "$work/$1" -type f \( -path '*/usr/bin/*' -o -name '*.so*' \) | sort)
	[ ${#files[@]} -gt 0 ] || return 0
	mkdir -p "$work/shlibs/debian"
	for name in sqlite3 microhttpd; do
		grep -qF "lib$name.so." "${files[@]}" && loaded+=("-l$name")
	done
	if [ ${#loaded[@]} -gt 0 ]; then
		${CC:-gcc} -shared -Wl,--no-as-needed -o "$work/shlibs/loaded.so" -x c /dev/null "${loaded[@]}"
		files+=("$work/shlibs/loaded.so")
	fi
	printf 'Source: lockstep\n\nPackage: %s\nArchitecture: any\n' "$1" > "$work/shlibs/debian/control"
	(cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info "${files[@]/#/-e}" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

# control PACKAGE SECTION DEPENDS RECOMMENDS MULTIARCH SUMMARY TEXT
control() {
	local folder=$work/$1 field
	mkdir -p "$folder/DEBIAN"
	(cd "$folder" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$folder/DEBIAN/md5sums"
	{
		printf 'Package: %s\nSource: lockstep\nVersion: %s\nArchitecture: %s\n' "$1" "$version" "$arch"
		printf 'Maintainer: %s\nInstalled-Size: %s\n' "$maintainer" "$(du -k -s "$folder/usr" | cut -f1)"
		for field in "Depends:$3" "Recommends:$4" "Multi-Arch:$5"; do [ -z "${field#*:}" ] || echo "${field%%:*}: ${field#*:}"; done
		printf 'Section: %s\nPriority: optional\nDescription: %s\n%s\n' "$2" "$6" "$(fold -s -w 76 <<< "$7" | sed 's/^/ /; s/ *$//')"
	} > "$folder/DEBIAN/control"
}

split
packages=()
for folder in "$work"/*; do packages+=("$(basename "$folder")"); done
documents
finish
about="lockstep predicts how long a step of distributed deep-learning training takes and how much memory it needs, and says from traces \
why a run is slow."
printf 'activate-noawait ldconfig\n' > "$work/triggers"
for package in "${packages[@]}"; do
	depends=$(needs "$package")
	case $package in
	lockstep) control "$package" science "$depends" "" "" "predicts distributed deep-learning training" \
		"$about This is the program, and the libraries that lockstep record loads into the programs that it records." ;;
	lockstep-mpi) control "$package" science "$depends" "lockstep (= $version)" "" "lockstep over an MPI cluster" \
		"$about This package divides searches for layouts, sweeps and validation over the processes of an MPI job." ;;
	"$library")
		control "$package" libs "$depends" "" same "predicts distributed deep-learning training - library" \
			"$about This is the shared library."
		mkdir -p "$work/$package/DEBIAN"
		cp "$work/triggers" "$work/$package/DEBIAN/triggers"
		printf 'liblockstep %s %s (>= %s)\n' "$soversion" "$library" "$version" > "$work/$package/DEBIAN/shlibs" ;;
	liblockstep-dev) control "$package" libdevel \
		"$library (= $version), zlib1g-dev, libzstd-dev, libexpat1-dev, libyaml-dev$(grep -q isal "$work"/liblockstep-dev/usr/lib/*/pkgconfig/lockstep.pc && echo ', libisal-dev')" \
		"" same "predicts distributed deep-learning training - development" \
		"$about These are the headers and the archive of its C library, with examples." ;;
	*) fail "package $package has no description" ;;
	esac
	find "$work/$package" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group ${DEB_COMPRESS:--Zxz} --build "$work/$package" "$out/${package}_${version}_$arch.deb" >/dev/null
	echo "deb: $out/${package}_${version}_$arch.deb, $(wc -c < "$out/${package}_${version}_$arch.deb") bytes"
done
