#!/bin/sh
# lookup_counted.sh PROGRAM ARGUMENT...: bench-lookup under callgrind: cycles that are counted, in caches that are simulated (1 MiB of
# 8 ways, 8 MiB of 16), in place of times. The program must not need more than AVX2: make bench-lookup-counted builds it. callgrind
# warns of a last cache that it has found: that is the machine's, which is not the one simulated.
set -e
command -v valgrind >/dev/null || { echo "lookup_counted: there is no valgrind; apt-get install valgrind, then build the program again" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LOOKUP_COUNTS=$folder/counts OMP_NUM_THREADS=1 valgrind -q --tool=callgrind --instr-atstart=no --cache-sim=yes --I1=32768,8,64 \
	--D1=1048576,8,64 --LL=8388608,16,64 --callgrind-out-file="$folder/counts" "$@"
