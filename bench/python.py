#!/usr/bin/env python3
"""What Python costs over C: predict on a small job, and a sweep of 10,000 layouts against `lockstep predict`.

Usage: bench/python.py BUILD [PAIRS], after `make python bench-predict`; BUILD is build/release. Runs are interleaved; a ratio is the
median over pairs with the 95 % interval of the median (order statistics), beside the same of the program against itself."""

import os
import statistics
import subprocess
import sys
import time

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release")
PAIRS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
sys.path.insert(0, os.path.join(BUILD, "python"))
CALLS = 300
JOB = dict(model="llama3.1-8b", gpu="h100-sxm", gpus=8, tp=2, gbs=64, seq=8192)
LAYOUTS = dict(model="llama3.1-8b", gpu="h100-sxm", gpus=8, tp=[1, 2, 4, 8], mbs=[1, 2, 4, 8, 16], gbs=[64, 128, 256, 512, 1024],
               seq=[1024, 2048, 4096, 8192, 16384], recompute=["none", "full"], zero=[0, 1], bucket=[20, 25, 40, 80, 160], no_fixes=True)
SCRIPT = f"import sys; sys.path.insert(0, {os.path.join(BUILD, 'python')!r}); import lockstep; " \
         f"rows = lockstep.sweep(**{LAYOUTS!r}); rows['step_time_s'], rows.fits, rows.best"


def words(options):
    out = []
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        out.append(name if value is True else f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}")
    return out


def interval(values):
    """Median and the order statistics that hold it with 95 %."""
    ordered, n = sorted(values), len(values)
    low = max(int(n / 2 - 0.98 * n ** 0.5), 0)
    return statistics.median(ordered), ordered[low], ordered[n - 1 - low]


def say(what, values, scale=1.0, unit=""):
    middle, low, high = interval(values)
    print(f"{what}: {middle * scale:.3f}{unit} [{low * scale:.3f}, {high * scale:.3f}], {len(values)} pairs", flush=True)


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def program():
    subprocess.run([os.path.join(BUILD, "lockstep"), "predict", *words(LAYOUTS), "-o", "csv"], stdout=subprocess.DEVNULL, check=False)


def main():
    import lockstep

    def in_c():
        done = subprocess.run([os.path.join(BUILD, "bench-predict"), str(CALLS), *words(JOB)], capture_output=True, text=True, check=True)
        return float(done.stdout)

    def in_python():
        return timed(lambda: [lockstep.predict(**JOB) for _ in range(CALLS)]) / CALLS

    pairs = [(in_c(), in_python()) for _ in range(PAIRS)]
    say("predict in C", [c for c, _ in pairs], 1e3, " ms")
    say("predict in Python", [p for _, p in pairs], 1e3, " ms")
    say("overhead", [p - c for c, p in pairs], 1e3, " ms")

    def sweep():
        rows = lockstep.sweep(**LAYOUTS)
        return rows["step_time_s"], rows.fits, rows.best, len(rows)

    print(f"sweep of {sweep()[3]} layouts")
    triples = [(timed(program), timed(sweep), timed(program)) for _ in range(PAIRS)]
    say("the program", [a for a, _, _ in triples], 1, " s")
    say("program / program", [b / a for a, _, b in triples])
    say("call in Python / program", [s / a for a, s, _ in triples])

    def whole():
        subprocess.run([sys.executable, "-c", SCRIPT], check=True)

    say("script with the start of Python / program", [timed(whole) / timed(program) for _ in range(max(PAIRS // 4, 1))])


if __name__ == "__main__":
    main()
