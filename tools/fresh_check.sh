#!/usr/bin/env bash
# Does a clone work on a machine that has nothing? Makes a minimal Debian (debootstrap: minbase and git), clones the commit that is
# checked out into it, with nothing beside it, and runs ./demo and ./check there. Says how long each took and its last line.
# ./check has neither pseudo-terminals (devpts) nor, once tools/setup.sh and what npm fetches are there, a network: what needs one of
# them is skipped, visibly, or fails here. So one run holds both.
# Usage: tools/fresh_check.sh [demo|check|COMMAND]...    demo and check, if nothing is said; COMMAND is run as ./check is, such as
#                                                    "tests/cli/run.sh build/release/lockstep tests/cli/output.test"
#        takes root, a network, some 8 GiB below TMPDIR
#   FRESH_PTS=yes      with devpts
#   FRESH_NETWORK=yes  ./check with the network, too; tools/setup.sh is then run by it
#   FRESH_SUITE   the Debian (bookworm)
#   FRESH_MIRROR  where it comes from; if not said, the apt sources of this machine, with their proxy
# Of this machine it sees: names (resolv.conf, hosts), apt's sources and how it fetches, certificates, proxies, npm's settings.
# Logs, those of ./check among them: build/fresh/. All else is removed at the end, however that comes; mounts are seen by none but it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
logs=$PWD/build/fresh suite=${FRESH_SUITE:-bookworm}

fail() {
	echo "fresh-check: $*" >&2
	exit 2
}

# ---- inside: a mount and a process namespace of its own; $root is the new Debian ----

# Lines "URI RELEASE COMPONENT" of this machine's apt sources that are of the suite, its updates and its fixes.
sources() {
	if [ -n "${FRESH_MIRROR:-}" ]; then
		echo "$FRESH_MIRROR $suite main"
	else
		apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
			awk -v suite="$suite" '$3 == "main" && ($2 == suite || $2 == suite "-updates" || $2 == suite "-security")' | sort -u
	fi
}

# copy PATH...: to the same places of the new Debian, where this machine has them.
copy() {
	local path
	for path in "$@"; do
		[ -e "$path" ] || continue
		mkdir -p "$root$(dirname "$path")"
		cp -rL "$path" "$root$(dirname "$path")/"
	done
}

make_debian() {
	local mirror proxy=
	mirror=$(sources | awk -v suite="$suite" '$2 == suite { print $1; exit }')
	[ -n "$mirror" ] || fail "apt has no sources of Debian $suite here; name a mirror in FRESH_MIRROR"
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	http_proxy=${http_proxy:-$proxy} debootstrap --variant=minbase --include=git "$suite" "$root" "$mirror" > "$logs/debootstrap.log" 2>&1 || {
		tail -n 5 "$logs/debootstrap.log" >&2
		fail "debootstrap failed; see $logs/debootstrap.log"
	}
	sources | sed 's/^/deb /' > "$root/etc/apt/sources.list"
	# How apt fetches: proxies, retries, dates; not what calls programs of this machine.
	apt-config dump | grep '^Acquire::' | grep -v 'Auto-Detect\|::IndexTargets' > "$root/etc/apt/apt.conf.d/90fetch"
	copy /etc/resolv.conf /etc/hosts /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/apt/keyrings /etc/apt/trusted.gpg /etc/apt/trusted.gpg.d \
		/etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates /etc/npmrc /root/.npmrc
	rm -rf "$root/dev/pts" "$root/dev/shm"
	mkdir -p "$root"/{proc,sys,dev/pts,dev/shm}
	mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" &&
		{ [ -z "${FRESH_PTS:-}" ] || mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"; } &&
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || fail "could not mount what a Debian needs"
}

namespace=()
# From here on programs have a network of their own, with nothing in it but lo. What they would fetch is there.
leave_network() {
	in_clone tools/setup.sh check --yes && in_clone make -s charts && in_clone tests/browser/run.sh --fetch || return
	namespace=(unshare --net)
}

# lo is up as soon as a socket says so (SIOCSIFFLAGS: up, loopback, running); a minimal Debian has no other program for that.
with_lo='import fcntl, os, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x49))
os.execvp("sh", ["sh", "-c", sys.argv[1]])'

# A program in the new Debian: of the environment it has what leads to a network, and the settings of ./check.
inside() {
	local name words=()
	for name in {http,https,no,ftp}_proxy {HTTP,HTTPS,NO}_PROXY CHECK_JOBS TEST_JOBS STAGE_SECONDS TEST_SECONDS; do
		[ -z "${!name:-}" ] || words+=("$name=${!name}")
	done
	for name in NODE_EXTRA_CA_CERTS SSL_CERT_FILE; do
		[ "${!name:-}" != /etc/ssl/certs/ca-certificates.crt ] || words+=("$name=${!name}")
	done
	"${namespace[@]}" chroot "$root" /usr/bin/env -i HOME=/root USER=root SHELL=/bin/bash TERM=dumb \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${words[@]}" "$@" < /dev/null
}

in_clone() { inside sh -c 'cd /root/project/lockstep && exec "$@"' sh "$@"; }

if [ "${1:-}" = --inside ]; then
	root=$2
	shift 2
	begin=$SECONDS bad=0
	make_debian
	git bundle create --quiet "$root/tmp/lockstep.bundle" HEAD || fail "this is no git tree; a clone is made of a commit"
	inside git -c advice.detachedHead=false clone --quiet /tmp/lockstep.bundle /root/project/lockstep || fail "git clone failed"
	rm "$root/tmp/lockstep.bundle"
	echo "fresh-check: a Debian $(cat "$root/etc/debian_version") of $(inside dpkg-query -W | wc -l) packages, $((SECONDS - begin)) s; commit $(in_clone git rev-parse --short=12 HEAD)"
	for name in "$@"; do
		begin=$SECONDS status=0 log=${name//[\/ ]/-}
		log=$logs/${log:0:60}.log
		if [ "$name" = demo ]; then
			in_clone ./demo > "$log" 2>&1 || status=$?
		elif [ -n "${FRESH_NETWORK:-}" ]; then
			in_clone sh -c "./$name" > "$log" 2>&1 || status=$?
		else
			[ ${#namespace[@]} -gt 0 ] || leave_network > "$logs/setup.log" 2>&1 || fail "setup failed; see $logs/setup.log"
			in_clone python3 -c "$with_lo" "./$name" > "$log" 2>&1 || status=$?
		fi
		[ $status -eq 0 ] || bad=1
		[ ! -d "$root/root/project/lockstep/build/check" ] || cp -r "$root/root/project/lockstep/build/check" "$logs/"
		if [ "$name" = check ]; then
			sed -nE 's/^ *(skip|skipped:) /skip /p' "$log" | sort | uniq -c
			grep -E '^(FAIL|failed:) ' "$log"
		fi
		echo "fresh-check: ./$name: $((SECONDS - begin)) s, exit status $status: $(tail -n 1 "$log")"
	done
	echo "fresh-check: $(du -shx "$root" | cut -f 1) of files at the end"
	exit $bad
fi

# ---- outside ----

[ $# -gt 0 ] || set -- demo check
for word in "$@"; do
	[ -x "${word%% *}" ] || fail "there is no program '${word%% *}' here; usage: tools/fresh_check.sh [demo|check|COMMAND]..."
done
[ "$(id -u)" -eq 0 ] || fail "takes root: debootstrap makes devices, and a Debian is mounted and entered"
for tool in apt-get unshare git; do command -v $tool > /dev/null || fail "$tool is missing"; done
command -v debootstrap > /dev/null || apt-get install -y -q --no-install-recommends debootstrap > /dev/null 2>&1 ||
	{ apt-get update -q && apt-get install -y -q --no-install-recommends debootstrap; } > /dev/null || fail "debootstrap could not be installed"
git diff --quiet HEAD || echo "fresh-check: changes that are not committed are left out" >&2
rm -rf "$logs"
mkdir -p "$logs"
root=$(mktemp -d "${TMPDIR:-/tmp}/fresh.XXXXXX") child=
chmod 755 "$root"

# The namespaces end with their first process: with them all processes inside and all mounts.
clean() {
	[ -z "$child" ] || { kill -KILL "$child" && wait "$child"; } 2> /dev/null
	for _ in 1 2 3 4 5; do
		rm -rf --one-file-system "$root" 2> /dev/null
		[ -e "$root" ] || return
		sleep 1
	done
	echo "fresh-check: could not remove $root" >&2
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
unshare --mount --pid --fork --kill-child --mount-proc "tools/$(basename "$0")" --inside "$root" "$@" &
child=$!
wait "$child"
status=$?
child=
exit $status
