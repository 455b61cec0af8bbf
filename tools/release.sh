#!/usr/bin/env bash
# The tarball of a release, its bill of materials (SPDX 2.3) and its Containerfile, the same bytes for the same commit and tools:
# lockstep-VERSION-linux-MACHINE.tar.gz holds an installed tree whose program, libraries and recorder are those of PORTABLE: the program
# needs nothing, the others glibc alone, of an old version.
# lockstep-mpi is not in it: it is of one MPI library.
# STRIP is the strip of the machine, LIBRARIES a folder of tools/cross_libraries.sh whose libraries were linked.
# Usage: tools/release.sh VERSION MACHINE TREE PORTABLE FOLDER
set -euo pipefail
version=$1 machine=$2 tree=$(realpath "$3") portable=$(realpath "$4")
mkdir -p "$5"
out=$(realpath "$5")
cd "$(dirname "$0")/.."
export LC_ALL=C SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
name=lockstep-$version-linux-$machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -a "$tree" "$work/$name"
rm -f "$work/$name"/bin/lockstep-mpi* "$work/$name"/share/man/man1/lockstep-mpi*
cp "$portable/lockstep" "$work/$name/bin/"
cp "$portable"/liblockstep.so.*[0-9] "$work/$name/lib/"
cp -a "$portable"/lockstep-dynamic "$portable"/*.so "$portable/lockstep-nccl" "$work/$name/lib/lockstep/"
cp -r LICENSE README.md CHANGELOG.md docs "$work/$name/"
mkdir "$work/$name/examples"
cp -r examples/library examples/traces "$work/$name/examples/"
# The archive is of the same objects as the program. pkg-config finds the tree wherever it is unpacked, and asks for no package
# of the libraries that the shared library holds.
replaced=$(find "$portable/io" -name '*.o' 2>/dev/null || true)
[ -z "$replaced" ] || ar -rD "$work/$name/lib/liblockstep.a" $replaced
sed -i -e 's|^prefix=.*|prefix=${pcfiledir}/../..|' -e '/^Requires.private:/d' -e 's|^Libs.private: |&-lz -lzstd -lexpat -lyaml |' "$work/$name/lib/pkgconfig/lockstep.pc"
[ ! -e "$portable/io/inflate.o" ] || sed -i 's| -lisal||' "$work/$name/lib/pkgconfig/lockstep.pc"
find "$work/$name" -type f \( -path '*/bin/*' -o -name '*.so*' -o -name lockstep-dynamic \) -exec "${STRIP:-strip}" --strip-unneeded {} +
find "$work/$name" -name '*.a' -exec "${STRIP:-strip}" --strip-debug --enable-deterministic-archives {} +
python3 tools/sbom.py --copyrights "$work/$name/share/doc/lockstep/copyright" "$version" "$SOURCE_DATE_EPOCH" "$portable"/*.linked > "$out/$name.spdx.json"
chmod -R u=rwX,go=rX "$work/$name"
tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n > "$out/$name.tar.gz"
sed "s/@VERSION@/$version/" tools/Containerfile.in > "$out/Containerfile"
echo "release: $out/$name.tar.gz, $(wc -c < "$out/$name.tar.gz") bytes"
