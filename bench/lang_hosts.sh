#!/usr/bin/env bash
# Runs an MPI program on two hosts that are network namespaces of this machine, joined by a link of a given rate
# (veth, tbf). Namespaces, devices and files are its own, and gone at the end. Needs root, ip, tc and Open MPI.
# Usage: bench/lang_hosts.sh RATE RANKS_PER_HOST PROGRAM [ARGUMENT...], RATE as tc has it: 1gbit, 5gbit
# BURST=256kb: bytes that the link lets through at once after a pause, as tc has it.
set -euo pipefail
[ $# -ge 3 ] || { echo "usage: bench/lang_hosts.sh RATE RANKS_PER_HOST PROGRAM [ARGUMENT...]" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "bench/lang_hosts.sh: skipped, namespaces need root" >&2; exit 77; }
for tool in ip tc mpirun unshare; do
	command -v $tool > /dev/null || { echo "bench/lang_hosts.sh: skipped, no $tool" >&2; exit 77; }
done

rate=$1 each=$2 && shift 2
id=$$
a=lka$id b=lkb$id
folder=$(mktemp -d)
clean() {
	ip netns del $a 2> /dev/null || true
	ip netns del $b 2> /dev/null || true
	rm -rf "$folder"
}
trap clean EXIT

ip netns add $a
ip netns add $b
ip link add va$id type veth peer name vb$id
ip link set va$id netns $a
ip link set vb$id netns $b
host() { # NAMESPACE DEVICE ADDRESS
	ip -n "$1" addr add "$3/24" dev "$2"
	ip -n "$1" link set "$2" up
	ip -n "$1" link set lo up
	ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$rate" burst "${BURST:-256kb}" latency 50ms
}
host $a va$id 10.77.0.1
host $b vb$id 10.77.0.2

# What mpirun starts on the other host is started in its namespace, under another name, for Open MPI tells hosts by name.
cat > "$folder/agent.sh" << END
#!/bin/sh
shift
exec ip netns exec $b unshare --uts sh -c "hostname $b && \$*"
END
chmod 700 "$folder/agent.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1
ip netns exec $a unshare --uts sh -c "hostname $a && exec \"\$@\"" mpirun \
	mpirun --host 10.77.0.1:"$each",10.77.0.2:"$each" --mca plm_rsh_agent "$folder/agent.sh" \
	--mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
	--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "$@"
