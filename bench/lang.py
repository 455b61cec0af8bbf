#!/usr/bin/env python3
"""Measures compiled programs (C and MPI) against the bars of docs/notes/figures.md and prints a row of Markdown for each.
Usage: bench/lang.py [--write] [PROGRAM [adam|rivals|hosts|flows|handover]...]; needs mpicc and mpirun, for hosts also root, ip and tc.
--write puts them into docs/notes/compiled.md too, in the section of the figure.
All ways are measured in turn in each round; ratios are of the same round; bounds are 95 % of the median ratio, by order
statistics; A/A is a way against itself one round later."""
import datetime, json, math, os, statistics, subprocess, sys, tempfile

ROUNDS = int(os.environ.get("ROUNDS", "21"))
OPEN_MPI = ["--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "--mca", "mpi_yield_when_idle", "0", "--mca", "coll_tuned_use_dynamic_rules", "1"]
CC = ["mpicc", "-std=c11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]
rows = []
here = os.path.dirname(os.path.abspath(__file__))
os.environ.update(OPENBLAS_NUM_THREADS="1")
if os.geteuid() == 0:
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def bounds(x):
    """The median and the order statistics that bound it with 95 %."""
    x, total, k = sorted(x), 0.0, 0
    while k <= len(x) // 2:
        total += math.comb(len(x), k) / 2 ** len(x)
        if total > 0.025:
            break
        k += 1
    return statistics.median(x), x[max(k, 1) - 1], x[len(x) - max(k, 1)]


def lines(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def row(what, slow, fast, note=""):
    ratio, low, high = bounds([a / b for a, b in zip(slow, fast)])
    _, least, most = bounds([a / b for a, b in zip(slow, slow[1:])])
    rows.append(f"| {what} | {1e3 * statistics.median(slow):.2f} ms | {1e3 * statistics.median(fast):.2f} ms | {ratio:.2f} | "
                f"{low:.2f} to {high:.2f} | {least:.2f} to {most:.2f} | {note} |")
    print(rows[-1], flush=True)


def emit(program, source, name, work):
    out = os.path.join(work, name + ".c")
    subprocess.run([program, "compile", "emit", source, "--out", out], check=True)
    return out


def adam(program, work):
    source = emit(program, os.path.join(here, "lang_adam.lk"), "adam", work)
    binary = os.path.join(work, "adam")
    subprocess.run(CC + [f'-DGENERATED="{source}"', os.path.join(here, "lang_adam.c"), "-o", binary, "-lm"], check=True)
    for log in range(int(os.environ.get("SMALLEST", "20")), int(os.environ.get("LARGEST", "26")) + 1):
        taken = {x["what"]: x["seconds"] for x in lines(["mpirun", *OPEN_MPI, "-np", "2", binary, str(2 ** log), str(ROUNDS)])}
        best = min((w for w in taken if w != "fused0"), key=lambda w: statistics.median(taken[w]))
        row(f"fused Adam, 2^{log}", taken[best], taken["fused0"], f"best algorithm: {best[9:]}")


def hosts(program, work):
    source = emit(program, os.path.join(here, "lang_mm.lk"), "mm", work)
    binary = os.path.join(work, "mm")
    subprocess.run(CC + ["-DLOCKSTEP_BLAS", source, "-o", binary, "-lopenblas", "-lm"], check=True)
    shapes = ((1024, 512, 1024), (1024, 2048, 1024), (2048, 1536, 2048), (2048, 4096, 1024), (4096, 256, 1024), (4096, 512, 2048))
    alone = {}
    for m, k, n in shapes: # a rank's share of the product, with nothing to send
        taken = lines(["mpirun", *OPEN_MPI, "-np", "1", binary, "--sizes", f"tp=1,M={m},K={k // 2},N={n}", "--schedule", "plain", "--repeat", "7"])
        alone[m, k, n] = statistics.median(taken[0]["seconds"])
    for rate in ("1gbit", "5gbit"):
        for m, k, n in shapes:
            taken = {x["schedule"]: x["seconds"] for x in lines([os.path.join(here, "lang_hosts.sh"), rate, "1", binary, "--sizes",
                     f"tp=2,M={m},K={k},N={n}", "--repeat", str(ROUNDS)])}
            row(f"matmul + reduce-scatter, {m} x {k} x {n}, {rate}", taken["plain"], taken["overlapped"],
                f"the product alone: {100 * alone[m, k, n] / statistics.median(taken['plain']):.0f} % of the first")


def flows(program, work):
    """Pipelines of chunks: experts between two all-to-alls, a product whose right or left matrix is gathered."""
    cases = (("experts between all-to-alls", "experts", "ep=2,E=4,C=1024,H=512,F=512", "1gbit"),
             ("experts between all-to-alls", "experts", "ep=2,E=4,C=2048,H=512,F=256", "5gbit"),
             ("right matrix gathered", "weights", "dp=2,M=1024,K=1024,N=1024", "1gbit"),
             ("right matrix gathered", "weights", "dp=2,M=512,K=2048,N=2048", "5gbit"),
             ("left matrix gathered, pass", "left", "tp=2,M=1024,K=1024,N=1024", "1gbit"),
             ("left matrix gathered, pass", "left", "tp=2,M=4096,K=1024,N=512", "5gbit"))
    for what, name, sizes, rate in cases:
        out, binary = os.path.join(work, name + ".c"), os.path.join(work, name)
        if not os.path.exists(binary):
            subprocess.run([program, "compile", "emit", os.path.join(here, "lang_flow.lk"), "--program", name, "--out", out], check=True)
            subprocess.run(CC + ["-DLOCKSTEP_BLAS", out, "-o", binary, "-lopenblas", "-lm"], check=True)
        taken = {x["schedule"]: x["seconds"] for x in lines([os.path.join(here, "lang_hosts.sh"), rate, "1", binary, "--sizes", sizes,
                 "--repeat", str(ROUNDS)])}
        row(f"{what}, {sizes}, {rate}", taken["plain"], taken["overlapped"])


def handover(program, work):
    source = emit(program, os.path.join(here, "..", "examples", "lang", "pp_edge.lk"), "edge", work)
    binary = os.path.join(work, "edge")
    subprocess.run(CC + ["-DLOCKSTEP_BLAS", source, "-o", binary, "-lopenblas", "-lm"], check=True)
    for rate in ("1gbit", "5gbit"):
        said = {x["schedule"]: x for x in lines([os.path.join(here, "lang_hosts.sh"), rate, "2", binary, "--sizes",
                "pp=2,tp=2,k=0,B=4,S=256,H=1024", "--repeat", str(ROUNDS)])}
        sent = [said[s]["sent_along_axes"][0] for s in ("plain", "pp_best")]
        row(f"hand-over, TP 2, groups on two hosts, {rate}", said["plain"]["seconds"], said["pp_best"]["seconds"],
            f"a rank sends {sent[0]} bytes, then {sent[1]}")


def rivals(program, work):
    """The fastest schedule against the faster of two ways by hand, with an MPI library that spins while it waits and with one that does not."""
    programs = {"sgdm": ("SGD with momentum, f32", [[n] for n in (1 << 19, 1 << 21, 1 << 23)]),
                "adamw": ("AdamW, gradients and copies in bf16", [[n] for n in (1 << 19, 1 << 21, 1 << 23)]),
                "swiglu": ("SwiGLU MLP, f32", [[512, 512, 1024], [1024, 512, 2048], [2048, 1024, 4096]])}
    for name, (what, sizes) in programs.items():
        out, binary = os.path.join(work, name + ".c"), os.path.join(work, name)
        subprocess.run([program, "compile", "emit", os.path.join(here, "lang_rivals.lk"), "--program", name, "--schedule", "all", "--out", out], check=True)
        subprocess.run(["mpicc", "-std=c11", "-O3", "-D" + name.upper(), "-DLOCKSTEP_BLAS", f'-DGENERATED="{out}"', os.path.join(here, "lang_rivals.c"), "-o", binary,
                        "-lopenblas", "-lm"], check=True)
        for yields in "01":
            options = [yields if i and OPEN_MPI[i - 1] == "mpi_yield_when_idle" else x for i, x in enumerate(OPEN_MPI)]
            for size in sizes:
                taken = {x["what"]: x["seconds"] for x in lines(["mpirun", *options, "-np", "2", binary, str(ROUNDS), *map(str, size)])}
                hand = min((w for w in taken if w.startswith("by hand")), key=lambda w: min(taken[w]))
                best = min((w for w in taken if not w.startswith("by hand")), key=lambda w: min(taken[w]))
                row(f"{what}, {' x '.join(map(str, size))}, MPI {'yields' if yields == '1' else 'spins'}", taken[hand], taken[best], f"{hand}; schedule {best}; least {1e3 * min(taken[hand]):.2f} and {1e3 * min(taken[best]):.2f} ms")


SECTIONS = {"adam": "Adam", "rivals": "Against the same by hand", "hosts": "Products between two hosts", "handover": "Pipeline hand-over", "flows": "Copies of flows"}
PAGE = os.path.join(here, "..", "docs", "notes", "compiled.md")
HEAD = f"""# Speed of compiled programs, measured

`bench/lang.py --write` writes this page, a section for each figure that it measures and leaves the others as they are.
[figures](figures.md#compiled-programs) says what is measured. All ways are measured in turn in each of {ROUNDS} rounds; medians,
faster: the median ratio of a round. *Bounds*: 95 % of that ratio. *A/A*: the slow way against itself one round later, the same bounds.
"""


def write(measured):
    with open(PAGE) as page:
        old = {part.split("\n", 1)[0]: part for part in page.read().split("\n## ")[1:]}
    for name, found in measured.items():
        old[SECTIONS[name]] = f"""{SECTIONS[name]}

Measured on {datetime.date.today()}, {os.cpu_count()} cores.

| what | one after the other, or by hand | fused, overlapped | faster | bounds | A/A | |
|---|--:|--:|--:|--:|--:|---|
""" + "\n".join(found) + "\n"
    with open(PAGE, "w") as page:
        page.write("\n## ".join([HEAD] + [old[title].rstrip("\n") + "\n" for title in SECTIONS.values() if title in old]))


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    program = words[0] if words else os.path.join(here, "..", "build", "release", "lockstep")
    figures, measured = {"adam": adam, "rivals": rivals, "hosts": hosts, "flows": flows, "handover": handover}, {}
    with tempfile.TemporaryDirectory() as work:
        for name in words[1:] or figures:
            rows.clear()
            figures[name](program, work)
            measured[name] = list(rows)
    if "--write" in sys.argv[1:]:
        write(measured)


if __name__ == "__main__":
    main()
