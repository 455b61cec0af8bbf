#!/usr/bin/env python3
"""A question has one answer: the same bytes from other builds and in other surroundings.
Usage: same_bytes.py [--questions N] [--first N] [--old-processor] [--only-terminal] PROGRAM [OTHER...]; N (200) questions over the verbs that calculate, most of
random jobs, from number FIRST (0) on; in the current folder. Each is put to every program, and to the first one again elsewhere: another locale,
time zone, home and working directory, another number of threads and of processors, a terminal. --old-processor: also one without fused
multiply-add, for which glibc has another exp, log and pow: last digits may differ (docs/reference/versions.md).
--only-terminal: on a terminal and nowhere else. Where the system has no terminals to give they are left out, which a line says."""
import argparse, concurrent.futures, os, pty, random, subprocess, sys, tty

from drawn import draw_job

options = argparse.ArgumentParser()
options.add_argument("--questions", type=int, default=200)
options.add_argument("--first", type=int, default=0)
options.add_argument("--old-processor", action="store_true")
options.add_argument("--only-terminal", action="store_true")
options.add_argument("programs", nargs="+")
asked = options.parse_args()
programs, here = [os.path.realpath(path) for path in asked.programs], os.getcwd()
data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data")
os.makedirs("elsewhere", exist_ok=True)
with open("tables.csv", "w") as file:
    file.write("name,rows,dim,pooling,count\nuser,1000000,64,2,3\nitem,50000,32,10,4\n")
THREADED = ("plan", "explain", "diff")


def words_of(job, *names):
    return [word for name, value in job.items() if not names or name in names for word in ("--" + name, str(value))]


def ask_of(draw, number):
    """A question as words; most are jobs, for which the arithmetic is longest."""
    job = draw_job(draw, number, here + "/")
    few = {**job, "gpus": min(job["gpus"], 16)}
    few["gbs"] = few["gpus"] * 4
    return draw.choice([
        ["predict", *words_of(job)], ["predict", *words_of(job)], ["predict", *words_of(job), "--exact"],
        ["predict", *words_of(job), "--jitter", "0.02", "--seeds", "3"], ["predict", *words_of(job), "-v"],
        ["plan", *words_of(few, "model", "gpu", "gpus", "gbs", "seq"), "--top", "3"],
        ["plan", "--task", "grpo", "--model", "llama3.2-1b", "--gpu", job["gpu"], "--gpus", str(draw.choice([8, 16])), "--gbs", "128",
         "--response", str(draw.choice([300, 1000])), "--search-time", "1000"] if number % 8 == 0 else ["predict", *words_of(few)],
        ["predict", "--task", "generate", "--model", "llama3.2-1b", "--gpu", job["gpu"], "--gpus", "4", "--gbs", str(64 * draw.randint(1, 8)),
         "--response", str(draw.randint(50, 600))],
        ["collective", "--gpu", job["gpu"], "--gpus", str(max(job["gpus"], 2)), "-b", "1K", "-e", "256M"],
        ["rent", "--model", "gpt2", "--seq", "1024", "--gbs", "256", "--tokens", "1B", "--most-gpus", "8", "--provider", "aws"],
        ["shard", f"{here}/tables.csv", "--gpu", job["gpu"], "--gpus", str(draw.choice([2, 4, 8])), "--batch", str(64 * draw.randint(8, 64))],
        ["jobs", "--draw", str(draw.randint(2, 30)), "--gpu", "h100-sxm", "--gpus", "16"],
        ["compile", "tune", f"{data}/../../examples/lang/sgd.lk", "--sizes", f"dp={draw.choice([2, 4])},N={draw.randint(1, 50) * 1000}", "--gpu",
         job["gpu"]],
        ["calibrate", "runs", f"{data}/runs_small.csv", "--date", "2026-11-28"],
        ["explain", f"{data}/trace_small.json"], ["replay", f"{data}/trace_small.json"], ["whatif", f"{data}/trace_small.json"],
        ["diff", f"{data}/trace_before.json", f"{data}/trace_after.json"], ["validate", f"{data}/runs_small.csv"]]) + ["-o", "json"]


def answer(program, words, **more):
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    return done.returncode, done.stdout, done.stderr if done.returncode == 2 else b""


def on_a_terminal(program, words):
    """What a terminal gets that passes bytes on as they are."""
    ours, its = pty.openpty()
    tty.setraw(its)
    child = subprocess.Popen([program, *words], stdin=its, stdout=its, stderr=subprocess.PIPE)
    os.close(its)
    said, shown = b"", True
    while shown:
        try:
            shown = os.read(ours, 1 << 16)
        except OSError:  # the end of a terminal
            shown = b""
        said += shown
    os.close(ours)
    return child.wait(), said, b""


def has_terminals():
    try:
        ours, its = pty.openpty()
    except OSError:
        return False
    os.close(ours)
    os.close(its)
    return True


terminals = has_terminals()


def elsewhere(words, number):
    """(where, answer) of the first program in surroundings that take turns."""
    threads = ["--threads", str(1 + number // 5 % 8)] if words[0] in THREADED else []
    ways = {
        "on a terminal": lambda: on_a_terminal(programs[0], words),
        "in another locale": lambda: answer(programs[0], words, env={**os.environ, "LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kolkata"}),
        "in another folder": lambda: answer(programs[0], words, cwd="elsewhere", env={**os.environ, "HOME": "/nonexistent", "TMPDIR": here}),
        f"with {threads}": lambda: answer(programs[0], words[:-2] + threads + words[-2:], preexec_fn=lambda: os.sched_setaffinity(0, [min(
            os.sched_getaffinity(0))]))}
    if asked.old_processor:
        ways["without fused multiply-add"] = lambda: answer(programs[0], words, env={
            **os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX2_Usable,-FMA_Usable,-FMA4_Usable"})
    if asked.only_terminal or not terminals:
        ways = {where: way for where, way in ways.items() if asked.only_terminal == (where == "on a terminal")}
    where = list(ways)[number % len(ways)]
    return where, ways[where]()


def judge(number):
    """(answered, what of it differs) of a question."""
    words = ask_of(random.Random(number), number)
    first, differ = answer(programs[0], words), []
    others = [(program, answer(program, words)) for program in programs[1:]]
    where, other = elsewhere(words, number)
    if "terminal" in where and first[0] == 2:  # messages have colours there
        other = (*other[:2], first[2])
    for where, other in [*others, (where, other)]:
        if other == first:
            continue
        at = next((n for n, (a, b) in enumerate(zip(first[1], other[1])) if a != b), min(len(first[1]), len(other[1])))
        differ.append(f"{' '.join(words)}: {where}: exit status {first[0]}, {other[0]}; byte {at}: {first[1][max(at - 40, 0):at + 20]!r}, "
                      f"{other[1][max(at - 40, 0):at + 20]!r}; {(other[2] or first[2])[:200].decode(errors='replace')}")
    return first[0] in (0, 1), differ


with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    found = list(pool.map(judge, range(asked.first, asked.first + asked.questions)))
if not terminals:
    print("skip on a terminal: the system gives no pseudo-terminals (devpts)")
for differ in (text for _, texts in found for text in texts):
    print(differ)
answered, wrong = sum(said for said, _ in found), sum(bool(texts) for _, texts in found)
print(f"{asked.questions} questions of {len(programs)} builds, {answered} answered, {wrong} answered otherwise")
sys.exit(wrong > 0 or answered < asked.questions // 2)
