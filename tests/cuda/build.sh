#!/bin/sh
# Builds generated CUDA source for the CPU: build.sh FILE.cu OUT [COMPILER FLAGS]. Blocks are small, for their threads are
# host threads where a kernel has barriers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$1 out=$2
shift 2
exec ${CXX:-g++} -std=c++17 -x c++ -pthread -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -DLOCKSTEP_VIRTUAL -DRT_NO_DEVICE_API \
	-DRT_THREADS=4 -DRT_RING_BLOCKS=2 -I"$here/shim" -I"$here/virtual" "$@" -o "$out" "$source"
