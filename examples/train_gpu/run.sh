#!/bin/sh
# run.sh RANKS PROGRAM [OPTION...]: starts a process a rank on this machine, as torchrun does, and waits for them.
ranks=$1; shift
id=$(mktemp -d)
trap 'rm -rf "$id"' EXIT
rank=0
pids=
while [ $rank -lt "$ranks" ]; do
	RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks "$@" --id "$id/nccl" &
	pids="$pids $!"
	rank=$((rank + 1))
done
status=0
for pid in $pids; do wait "$pid" || status=$?; done
exit $status
