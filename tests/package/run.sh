#!/usr/bin/env bash
# What is installed and packed: `make install` into a folder and out of it again, the library's symbols, comments of the public headers, the C
# examples with the shared library and the archive, the tarball, a release, the Debian packages.
# With LOCKSTEP_LONG=1 also: the tarball builds and passes its unit tests without git, the packages are installed in a fresh Debian
# (root and mmdebstrap; skipped without).
# Usage: tests/package/run.sh
set -uo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
version=$(sed -n 's/^VERSION := //p' Makefile) soversion=$(sed -n 's/^SOVERSION := //p' Makefile)
build=build/release
quiet_make="make --no-print-directory -s"

# check NAME COMMAND...: a test; what it wrote is shown if it fails.
check() {
	local name=$1
	shift
	if "$@" > "$work/log" 2>&1; then
		passed=$((passed + 1))
		echo "ok   $name"
	else
		failed=$((failed + 1))
		echo "FAIL $name"
		tail -n "${LOG_LINES:-30}" "$work/log" | sed 's/^/    /'
	fi
}

skip() {
	skipped=$((skipped + 1))
	echo "skip $1: $2"
}

# same EXPECTED-FILE ACTUAL-FILE
same() {
	diff -u "$1" "$2"
}

# ---- make install ----

tree=$work/tree
list() { (cd "$1" && find . ! -type d | sort); }

installs() {
	$quiet_make install DESTDIR="$tree" PREFIX=/opt/lockstep || return
	local file
	for file in bin/lockstep lib/liblockstep.a lib/liblockstep.so lib/liblockstep.so.$soversion lib/lockstep/liblockstep-probe.so \
		lib/pkgconfig/lockstep.pc include/lockstep/predict.h share/man/man1/lockstep-predict.1; do
		[ -e "$tree/opt/lockstep/$file" ] || { echo "no $file"; return 1; }
	done
	"$tree/opt/lockstep/bin/lockstep" --version
}

# What is loaded into recorded programs is found where it is installed, and lies in no folder that programs are linked with.
records() {
	local found nccl out=$work/recorded
	"$tree/opt/lockstep/bin/lockstep" record --out "$out" --program cat -- cat README.md > /dev/null 2> "$work/said" || { cat "$work/said"; return 1; }
	ls "$out"/*.lkrec || return
	for nccl in shim plugin; do
		"$tree/opt/lockstep/bin/lockstep" record --out "$out-$nccl" --nccl $nccl -- env > "$out-$nccl.env" 2> "$work/said" || { cat "$work/said"; return 1; }
		grep -E "^(LD_LIBRARY_PATH|NCCL_PROFILER_PLUGIN)=$tree/opt/lockstep/lib/lockstep/" "$out-$nccl.env" || return
	done
	found=$(cd "$tree/opt/lockstep/lib" && ls -- *.so* | grep -v '^liblockstep\.so')
	[ -z "$found" ] || { echo "among the libraries: $found"; return 1; }
}

# A page for every verb, a header for every header.
complete() {
	local verb
	for verb in $("$build/lockstep" --verbs); do
		[ -e "$tree/opt/lockstep/share/man/man1/lockstep-$verb.1" ] || { echo "no man page of $verb"; return 1; }
	done
	same <(ls include/lockstep) <(ls "$tree/opt/lockstep/include/lockstep")
}

uninstalls() {
	cp -a "$tree" "$work/emptied"
	$quiet_make uninstall DESTDIR="$work/emptied" PREFIX=/opt/lockstep || return
	same /dev/null <(list "$work/emptied")
}

# What hardening-check reads, of everything that is installed and run or loaded: position-independent, relocations read-only
# and bound at the start, no executable stack, no relocated code, guarded and touched stacks, checked buffers, jumps that land
# on marks. Linkers drop the mark of a whole file where the system's start files have none, so marks are looked for in the code.
hardened() {
	local prefix=$tree/opt/lockstep
	hardened_files "$prefix" "$prefix"/bin/* "$prefix"/lib/*.so.*.* "$prefix"/lib/lockstep/*.so "$prefix"/lib/lockstep/*/*.so.*
}

# hardened_files PREFIX FILE...
hardened_files() {
	local prefix=$1 file name dynamic headers symbols code wrong=0
	shift
	for file; do
		[ -L "$file" ] && continue
		[ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
		name=${file#"$prefix"/}
		headers=$(readelf -lhW "$file") dynamic=$(readelf -dW "$file") symbols=$(nm -D --undefined-only "$file")
		lacks() { echo "$name: no $1"; wrong=1; }
		grep -q 'Type: *DYN' <<< "$headers" || lacks "position-independent code"
		grep -q GNU_RELRO <<< "$headers" || lacks "read-only relocations"
		grep -q 'GNU_STACK.* RW ' <<< "$headers" || lacks "stack without execution"
		grep -q BIND_NOW <<< "$dynamic" || lacks "binding at the start"
		! grep -q TEXTREL <<< "$dynamic" || lacks "code without relocations"
		case $name in
		bin/*) grep -q 'FLAGS_1.*PIE' <<< "$dynamic" || lacks "position-independent program" ;;
		esac
		if grep -q NEEDED <<< "$dynamic"; then # a static program has no list of them
			grep -q '__stack_chk_fail' <<< "$symbols" || lacks "stack guards"
			grep -q '_chk@\|_chk$' <<< "$(grep -v __stack_chk <<< "$symbols")" || lacks "checked buffers"
		fi
		[ "$(uname -m)" = x86_64 ] || continue
		code=$(objdump -d --no-show-raw-insn "$file" | awk '/endbr64/ { marks++ } /or[ql] *\$0x0,/ { probes++ } END { print marks + 0, probes + 0 }')
		[ "${code% *}" -ge 8 ] || lacks "marks of jumps" # the start files bring up to 5
		case $name in bin/lockstep-mpi-pairs | lib/lockstep/lockstep-nccl/*) continue ;; esac # they have no large stack
		[ "${code#* }" -gt 0 ] || lacks "stacks touched page by page"
	done
	return $wrong
}

# ---- the C examples, built with what was installed ----

# examples FOLDER [STATIC=1]
examples() {
	local folder=$work/$1
	shift
	mkdir -p "$folder"
	PKG_CONFIG_PATH=$tree/opt/lockstep/lib/pkgconfig make --no-print-directory -s -C examples/library OUT="$folder" \
		PKG_CONFIG="pkg-config --define-prefix" CFLAGS="-O1 -Werror" "$@"
}

# run EXPECTED-STATUS PATTERN PROGRAM WORD...: in a folder of its own
run() {
	local expected=$1 pattern=$2 status=0
	shift 2
	(cd "$work" && LD_LIBRARY_PATH=$tree/opt/lockstep/lib "$@") > "$work/out" 2>&1 || status=$?
	cat "$work/out"
	[ "$status" -eq "$expected" ] || { echo "exit status $status, expected $expected"; return 1; }
	grep -qE "$pattern" "$work/out" || { echo "nothing like: $pattern"; return 1; }
}

answers() {
	local trace=$PWD/tests/data/trace_small.json folder=$work/$1
	run 0 '^[0-9.]+ s a step .* MFU [0-9.]+ %' "$folder/predict" llama3.1-8b h100-sxm 16 2 &&
		run 1 'would fit with' "$folder/predict" llama3.1-70b h100-sxm 16 1 &&
		run 2 'predict: .*did you mean llama3.1-8b' "$folder/predict" llama3.1-8bb h100-sxm 16 &&
		run 0 '^   128 +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$' "$folder/sweep" llama3.1-8b h100-sxm &&
		run 1 'launch: host launches too late' "$folder/explain" "$trace" && grep -q '^1,launch,' "$work/stalls.csv" &&
		run 0 '^torchrun|^[A-Z_]*=.* torchrun ' "$folder/plan" llama3.1-8b h100-sxm 16,32
}

shared() { LD_LIBRARY_PATH=$tree/opt/lockstep/lib ldd "$work/shared/predict" | grep "liblockstep.so.$soversion => $tree"; }
alone() { ! ldd "$work/static/predict" | grep liblockstep; }

# ---- CMake: what is installed, and the sources as a part of another program's build ----

# cmake_builds NAME HOW: a program that finds the library by the lines HOW
cmake_builds() {
	mkdir -p "$work/$1"
	printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(app LANGUAGES C)' "$2" "add_executable(app $PWD/examples/library/predict.c)" \
		'target_link_libraries(app PRIVATE lockstep::lockstep)' > "$work/$1/CMakeLists.txt"
	(unset MAKEFLAGS MAKELEVEL && cmake -S "$work/$1" -B "$work/$1/build" && cmake --build "$work/$1/build") || return
	"$work/$1/build/app" llama3.1-8b h100-sxm 16 2
}
cmake_finds() {
	local prefix="set(CMAKE_PREFIX_PATH $tree/opt/lockstep)"
	cmake_builds found "$prefix
find_package(lockstep $version REQUIRED)" && ldd "$work/found/build/app" | grep "liblockstep.so.$soversion => $tree" || return
	! cmake_builds newer "$prefix
find_package(lockstep 1 REQUIRED)" || { echo "version $version was taken for 1"; return 1; }
}
cmake_adds() {
	cmake_builds added "set(LOCKSTEP_BUILD $PWD/$build)
add_subdirectory($PWD lockstep)" && ldd "$work/added/build/app" | grep "liblockstep.so.$soversion => $PWD/$build"
}

# ---- make dist ----

packs_twice() {
	tools/dist.sh "$version" "$work/dist1" && tools/dist.sh "$version" "$work/dist2" &&
		cmp "$work/dist1/lockstep-$version.tar.gz" "$work/dist2/lockstep-$version.tar.gz"
}

unpacks() {
	mkdir -p "$work/source"
	tar -xzf "$work/dist1/lockstep-$version.tar.gz" -C "$work/source" || return
	same <(git ls-tree -r --name-only HEAD | sort) <(cd "$work/source/lockstep-$version" && find . -type f -o -type l | sed 's|^\./||' | sort) || return
	[ "$(cd "$work/source/lockstep-$version" && tools/commit.sh)" = "$(git rev-parse HEAD | cut -c1-12)" ] ||
		{ echo "the tarball does not know its commit"; return 1; }
}

# Without git, and without the repository around it; the tests' big grids are looked at elsewhere.
builds_from_tarball() {
	(cd "$work/source/lockstep-$version" && unset LOCKSTEP_LONG && export GIT_DIR=/nowhere &&
		$quiet_make -j"$(nproc)" all unit-programs && $quiet_make unit && build/release/lockstep --version)
}

# ---- make release: the tarball, its bill of materials, its Containerfile; the wheel ----

portable=$build/portable
releases_twice() {
	local folder
	$quiet_make portable || return
	$quiet_make install DESTDIR="$work/prefix" PREFIX= || return
	for folder in release1 release2; do SOURCE_DATE_EPOCH=1700000000 tools/release.sh "$version" "$(uname -m)" "$work/prefix" "$portable" "$work/$folder" || return; done
	diff -r "$work/release1" "$work/release2"
}

# In a folder that is all there is: no libc, no loader, no shell.
needs_nothing() {
	local root=$work/alone name
	name=lockstep-$version-linux-$(uname -m)
	mkdir -p "$root/usr/local" "$root/tmp"
	tar -xzf "$work/release1/$name.tar.gz" --strip-components=1 -C "$root/usr/local" || return
	! readelf -lW "$root/usr/local/bin/lockstep" | grep INTERP || return
	! readelf -dW "$root/usr/local/bin/lockstep" | grep NEEDED || return
	local job=(predict --model gpt2 --gpu a100-sxm-80 --gpus 8 --gbs 64 -o json) in_root=(chroot "$root")
	local program=/usr/local/bin/lockstep place=
	[ "$(id -u)" -eq 0 ] || in_root=(env) place=$root program=$root$program
	"${in_root[@]}" "$program" --version && "${in_root[@]}" "$program" "${job[@]}" > "$work/out" || return
	"$build/lockstep" "${job[@]}" | same - "$work/out" || return
	# What others load: SQLite, and the refusal by name of what is not in it.
	rm -f "$root/usr/local/lib/lockstep/lockstep-dynamic"
	"${in_root[@]}" "$program" predict --model gpt2 --gpu a100-sxm-80 --gpus 8,16 --gbs 64 -o sqlite --file "$place/tmp/answer.db" || return
	[ "$(head -c 15 "$root/tmp/answer.db")" = "SQLite format 3" ] || return
	run 2 'PNG: this program is static and cannot load librsvg; ' "${in_root[@]}" "$program" predict --model gpt2 --gpu a100-sxm-80 \
		--gpus 8 --gbs 64 --charts "$place/tmp/chart.png" || return
	"${in_root[@]}" "$program" doctor > "$work/out" # without /proc it does not find its recorder: status 1
	grep -q 'libmicrohttpd.* part of this program' "$work/out" && grep -q 'librsvg.* this program is static' "$work/out"
}

# The Containerfile builds from the tarball alone, without a base image or a network; its program runs in the container.
in_container() {
	local container buildah=(buildah --root "$work/images" --runroot "$work/containers" --storage-driver vfs)
	"${buildah[@]}" bud --isolation chroot --build-arg "MACHINE=$(uname -m)" -t lockstep "$work/release1" || return
	container=$("${buildah[@]}" from lockstep) || return
	"${buildah[@]}" run --isolation chroot "$container" -- lockstep predict --model gpt2 --gpu a100-sxm-80 --gpus 8 --gbs 64 -o json > "$work/out" || return
	"$build/lockstep" predict --model gpt2 --gpu a100-sxm-80 --gpus 8 --gbs 64 -o json | same - "$work/out" || return
	"${buildah[@]}" rm "$container" && "${buildah[@]}" rmi lockstep
}

# The rest needs glibc as it was in 2012, and nothing else: no file takes a newer version of a symbol, nor another library.
floor=$(sed -n 's/^FLOOR := //p' packaging.mk)
floor_is_held() {
	local file found newest wrong=0 prefix=$work/alone/usr/local
	mkdir -p "$prefix"
	tar -xzf "$work/release1/lockstep-$version-linux-$(uname -m).tar.gz" --strip-components=1 -C "$prefix" || return
	found=$(find "$prefix/lib" -type f \( -name '*.so*' -o -name lockstep-dynamic \))
	[ "$(wc -l <<< "$found")" -eq 6 ] || { echo "other files than six: $found"; return 1; }
	for file in $found; do
		newest=$(readelf -WV "$file" | grep -o 'GLIBC_[A-Z0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -1)
		[ "$(printf '%s\n' "$newest" "$floor" | sort -V | tail -1)" = "$floor" ] || { echo "$file takes GLIBC_$newest"; wrong=1; }
		! readelf -dW "$file" | grep NEEDED | grep -v -e 'lib\(c\|m\|dl\|pthread\)\.so' -e ld-linux || { echo "of $file"; wrong=1; }
	done
	return $wrong
}

# The files of a release are what is given out: hardened as the build is.
release_is_hardened() {
	hardened_files "$work/alone/usr/local" "$work"/alone/usr/local/bin/* $(find "$work/alone/usr/local/lib" -type f \( -name '*.so*' -o -name lockstep-dynamic \))
}

# The static program hands what needs libraries of the machine to the dynamic one, which says what it found of them; it records.
hands_over() {
	local prefix=$work/alone/usr/local
	"$prefix/bin/lockstep" doctor > "$work/out" 2>&1
	grep -q 'libsqlite3.* part of this program' "$work/out" && ! grep -q 'this program is static' "$work/out" || { cat "$work/out"; return 1; }
	"$prefix/bin/lockstep" record --out "$work/static-recorded" --program cat -- cat README.md > /dev/null 2> "$work/out" || { cat "$work/out"; return 1; }
	ls "$work/static-recorded"/*.lkrec
}

# The C examples with the unpacked tarball, as pkg-config says: its shared library, and its archive with the libraries of this machine.
links_unpacked() {
	local lib=$work/alone/usr/local/lib kind
	for kind in shared static; do
		mkdir -p "$work/unpacked-$kind" || return
		PKG_CONFIG_PATH=$lib/pkgconfig make --no-print-directory -s -C examples/library OUT="$work/unpacked-$kind" CFLAGS="-O1 -Werror" \
			STATIC=$([ $kind = shared ] || echo 1) || return
		(cd "$work" && LD_LIBRARY_PATH=$lib "$work/unpacked-$kind/predict" llama3.1-8b h100-sxm 16 2) > "$work/out" || return
		grep -q 's a step' "$work/out" || return
	done
}

# Every archive that the linker took is of one of the packages, and no package is of anything else; the tarball has the licence of each.
bill_of_materials() {
	local licence=$work/alone/usr/local/share/doc/lockstep/copyright
	grep -q 'Lesser General Public' "$licence/libmicrohttpd-dev" && grep -q zlib "$licence/zlib1g-dev" || return
	python3 - "$work/release1/lockstep-$version-linux-$(uname -m).spdx.json" $portable/*.linked <<-'PYTHON'
		import json, os, re, sys
		bill = json.load(open(sys.argv[1]))
		assert bill["spdxVersion"] == "SPDX-2.3" and bill["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
		said = " ".join(p.get("sourceInfo", "") for p in bill["packages"])
		taken = {os.path.basename(f) for path in sys.argv[2:] for line in open(path) for f in re.findall(r"^\(?(/[^()]*/lib(?:z|zstd|expat|yaml|sqlite3|microhttpd|c)\.a)", line)}
		assert len(taken) == 7 and all(f in said for f in taken), (taken, said)
		ids = [p["SPDXID"] for p in bill["packages"]]
		assert len(set(ids)) == len(ids) and {r["relatedSpdxElement"] for r in bill["relationships"]} == set(ids)
	PYTHON
}

# ---- make deb ----

debs=$work/debs
packages() { (cd "$debs" && ls -- *.deb | sed 's/_.*//'); }

packs_debs() {
	local multiarch
	multiarch=$(${CC:-gcc} -print-multiarch)
	$quiet_make install DESTDIR="$work/usr" PREFIX=/usr LIBDIR="/usr/lib/$multiarch" || return
	DEB_COMPRESS='-Zgzip -z1' tools/deb.sh "$work/usr" "$version" "$soversion" "$debs" || return
	same <(printf '%s\n' liblockstep-dev "liblockstep$soversion" lockstep; [ ! -e $build/lockstep-mpi ] || echo lockstep-mpi) <(packages | sort)
}

# Every file of the installed tree is in one package, as it was or compressed.
every_file_once() {
	local deb
	for deb in "$debs"/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -t; done | grep -v '/$' | sed 's|^\./|./|; s|\.1\.gz$|.1|' |
		grep -v /share/doc/ | sed 's|/zsh/vendor-completions/|/zsh/site-functions/|' | sort > "$work/packed"
	same <(list "$work/usr") "$work/packed"
}

# The packages laid on top of one another run from where they lie, and need no package for their own libraries.
runs_unpacked() {
	local deb root=$work/root
	for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$root" || return; done
	"$root/usr/bin/lockstep" predict --model gpt2 --gpu a100-sxm-80 --gpus 8 --gbs 64 > "$work/out" || return
	"$root/usr/bin/lockstep" record --out "$work/recording" --program cat -- cat README.md > /dev/null 2> "$work/out" ||
		{ cat "$work/out"; return 1; }
	dpkg-deb -f "$debs/lockstep_${version}_$(dpkg --print-architecture).deb" Depends | tee "$work/out"
	! grep liblockstep "$work/out" && grep -q libc6 "$work/out"
}

in_root() { unshare --mount --pid --fork --kill-child chroot "$work/debian" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
all_files() { (cd "$work/debian" && find . -xdev ! -path './var/cache/*' ! -path './var/lib/dpkg/*' ! -path './var/lib/apt/*' ! -path './var/log/*' ! -path './proc/*' ! -path './run/*' ! -path './tmp/*' ! -type d | sort); }

# A Debian without lockstep: install, run, remove; nothing stays.
lives_in_debian() {
	mmdebstrap --variant=apt --skip=cleanup/apt/lists "${DEBIAN_SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}" "$work/debian" || return
	all_files > "$work/before"
	in_root dpkg-query -W -f '${Package}\n' | sort > "$work/packages-before"
	cp "$debs"/*.deb "$work/debian/tmp/"
	in_root sh -c 'apt-get install -y -q --no-install-recommends /tmp/*.deb' || return
	in_root lockstep --version && in_root lockstep predict --model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --gbs 64 -o json > "$work/out" || return
	grep -q step_time_s "$work/out" || return
	in_root lockstep record --out /tmp/recording --program cat -- cat /etc/passwd || return
	in_root sh -c 'ldconfig -p | grep liblockstep.so' || return
	local added
	added=$(in_root dpkg-query -W -f '${Package}\n' | sort | comm -13 "$work/packages-before" -)
	in_root apt-get purge -y -q $added || return
	all_files > "$work/after"
	# Caches that tools of the system keep are not ours.
	same <(grep -v 'ld.so.cache\|/var/lib/\|/etc/' "$work/before") <(grep -v 'ld.so.cache\|/var/lib/\|/etc/' "$work/after")
}

# ----

check "install" installs
check "install: everything that there is" complete
if command -v objdump > /dev/null; then
	check "install: hardened" hardened
else
	skip "install: hardened" "binutils are not installed"
fi
check "install: record finds its libraries" records
check "uninstall leaves nothing" uninstalls
if command -v abidiff > /dev/null; then
	check "binary interface of the shared library" tools/abi.sh "$build/liblockstep.so.$version"
else
	skip "binary interface of the shared library" "abigail-tools are not installed"
fi
check "comments of the public headers" tools/api_docs.py --check
check "examples, shared" examples shared
check "examples, static" examples static STATIC=1
check "examples: which library" shared
check "examples: no library" alone
check "examples run, shared" answers shared
check "examples run, static" answers static
if command -v cmake > /dev/null; then
	check "CMake: find_package" cmake_finds
	check "CMake: add_subdirectory" cmake_adds
else
	skip "CMake" "no cmake"
fi
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
	check "tarball, twice the same" packs_twice
	check "tarball: every file, its commit" unpacks
else
	skip "tarball" "this is no git tree"
fi
if command -v dpkg-query readelf > /dev/null; then
	check "release, twice the same" releases_twice
	check "release: the program needs nothing" needs_nothing
	if [ "$(id -u)" -eq 0 ] && command -v buildah > /dev/null; then
		check "release: the container" in_container
	else
		skip "release: the container" "takes root and buildah"
	fi
	check "release: the libraries need glibc $floor and nothing else" floor_is_held
	check "release: hardened" release_is_hardened
	check "release: what needs the machine's libraries is handed over" hands_over
	check "release: C programs link with the tarball" links_unpacked
	check "release: bill of materials" bill_of_materials
else
	skip "release" "dpkg and binutils are not installed"
fi
if command -v dpkg-deb dpkg-shlibdeps > /dev/null; then
	check "Debian packages" packs_debs
	check "Debian packages: every file in one" every_file_once
	check "Debian packages: run where they are unpacked" runs_unpacked
else
	skip "Debian packages" "dpkg-dev is not installed"
fi
if [ -n "${LOCKSTEP_LONG:-}" ]; then
	[ ! -d "$work/source" ] || check "tarball: builds and passes its unit tests without git" builds_from_tarball
	if [ "$(id -u)" -eq 0 ] && command -v mmdebstrap > /dev/null; then
		check "Debian packages: installed, run and removed in a fresh Debian" lives_in_debian
	else
		skip "Debian packages in a fresh Debian" "takes root and mmdebstrap"
	fi
fi
echo "packages: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
