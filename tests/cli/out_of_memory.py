#!/usr/bin/env python3
"""Memory that runs out gives the same answer or none: exit status 2 and "out of memory", never other numbers.
Usage: out_of_memory.py PROGRAM [POINTS]; in the current folder. Each command is run with its n-th allocation failing, for so many n
(80) over all of them, and with so much address space, from the least that it starts with."""
import os, re, resource, subprocess, sys

program, points = os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 80
SHIM = r"""
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static atomic_long count;
static long at = -1;
static int fails(void) {
	if (at < 0) at = getenv("FAIL_AT") ? atol(getenv("FAIL_AT")) : 0;
	if (++count != at) return 0;
	errno = ENOMEM;
	return 1;
}
void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
__attribute__((destructor)) static void tell(void) {
	if (getenv("FAIL_COUNT")) dprintf(2, "%ld allocations\n", count);
}
"""
with open("fail.c", "w") as file:
    file.write(SHIM)
subprocess.run(["cc", "-shared", "-fPIC", "-o", "fail.so", "fail.c"], check=True)
with open("tables.csv", "w") as file:
    file.write("name,rows,dim,pooling,count\nuser,1000000,64,2,3\nitem,50000,32,10,4\n")

JOB = "--model gpt2-xl --gpu a100-sxm-80 --gpus 8"
COMMANDS = [f"predict {JOB} --dp 8", f"predict {JOB} --gbs 64 -o json", f"predict {JOB},16 --dp 8", f"plan {JOB} --gbs 64 --threads 1",
            "predict --model dlrm-ddp --gpu v100-sxm-32 --gpus 4 -o md", "collective --gpu h100-sxm --gpus 64 -b 1M -e 16M -o json",
            "shard tables.csv --gpu a100-sxm-80 --gpus 4 --graph step.json -o json", "whatif step.json --gpu a100-sxm-80 --set link=2x"]


def run(words, limit=None, **environment):
    def confine():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          env={**os.environ, **environment}, preexec_fn=confine if limit else None)
    # how long it took is of no run the same
    out = re.sub(r'"(simulation_s|seconds)": [0-9.e-]+|in [0-9.]+ [mu]?s\b|[0-9]+ threads?', "", done.stdout)
    return done.returncode, out, done.stderr


def honest(got, wanted):
    return got[:2] == wanted[:2] or (got[0] == 2 and "out of memory" in got[2])


wrong = 0
for command in COMMANDS:
    words = command.split()
    wanted = run(words)
    assert wanted[0] == 0, wanted
    total = int(re.search(r"(\d+) allocations", run(words, LD_PRELOAD="./fail.so", FAIL_COUNT="1")[2])[1])
    for at in range(total % 7 + 1, total, max(total // points, 1)):
        got = run(words, LD_PRELOAD="./fail.so", FAIL_AT=str(at))
        if not honest(got, wanted):
            wrong += 1
            print(f"{command}\n  allocation {at} of {total} fails: status {got[0]} {got[2].strip()[:200]}")
    if "--threads" in command:
        continue  # a search takes long, and allocates more than these limits allow
    limits = [kib << 10 for kib in range(8000, 60000, 52000 // points)]
    for limit in limits:
        got = run(words, limit=limit)
        # below some limit the loader itself cannot start the program
        if not honest(got, wanted) and got[0] != 127 and "error while loading" not in got[2] and got[0] >= 0:
            wrong += 1
            print(f"{command}\n  {limit >> 10} KiB of address space: status {got[0]} {got[2].strip()[:200]}")
print(f"{len(COMMANDS)} commands, {wrong} answers that memory changed")
sys.exit(wrong > 0)
