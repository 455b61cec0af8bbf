#!/usr/bin/env bash
# Debian's packages of another architecture, unpacked into FOLDER with a package database of its own: what a cross compiler links.
# They come from the sources of packages that this machine has; nothing is installed on it.
# Usage: tools/cross_libraries.sh ARCHITECTURE FOLDER PACKAGE...
set -euo pipefail
architecture=$1
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
stamp=$folder/.packages
[ "$(cat "$stamp" 2>/dev/null)" != "$architecture $*" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/state/lists/partial "$work"/cache/archives/partial "$work"/packages "$folder"/var/lib/dpkg/{info,updates}
touch "$work/status" "$folder"/var/lib/dpkg/{status,available}
cat > "$work/apt.conf" <<END
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
END
export APT_CONFIG=$work/apt.conf
apt-get -qq update
(cd "$work/packages" && apt-get -qq download "$@")
dpkg --root="$folder" --log=/dev/null --force-not-root,architecture,depends,script-chrootless --unpack "$work"/packages/*.deb > /dev/null
echo "$architecture $*" > "$stamp"
