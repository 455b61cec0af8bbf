#!/usr/bin/env python3
"""Every option of every verb with numbers at their limits, and whole jobs that took minutes or gigabytes once: each is
answered or refused in one line, within a time, and no answer holds what is no number.
Usage: limits.py PROGRAM [VERB...]; takes one of 16 parts, by LOCKSTEP_TURN=N; all of them with LOCKSTEP_LONG=1.

The job of an option is the first that options.py gives it. For its value stand 0, 1, -1, what no 32 or 64 bits hold, what is no
number, nothing at all, and a number with a unit that belongs to something else."""
import concurrent.futures, glob, json, os, re, shlex, shutil, subprocess, sys, tempfile, time

import options

VALUES = ["0", "1", "-1", "0.5", "2147483647", "2147483648", "9223372036854775808", "1e308", "1e-308", "1e400", "nan", "inf", "",
          "-", "1e", "0x10", "1 ", "1,", ",1", "1kg", "1KiBs", "1:1", "١"]
SECONDS = float(os.environ.get("LIMIT_SECONDS", "10"))  # of processors
# What starts programs of others, serves or measures this machine; its options are read by the same reader.
APART = {"serve", "record", "stalls", "init", "doctor"}
# Values that name a file, a folder or a command line are no numbers.
NAMES = {"file", "html", "charts", "trace", "graph", "plot", "out", "write", "chakra", "overheads-out", "wisdom", "measure", "disk", "mpi", "resume",
         "goal"}


def cases_of(verb):
    for name in options.names_of(verb):
        if name in NAMES:
            continue
        for kind, job, words in options.TABLE[verb].get(name, []):
            parts = shlex.split(words) if isinstance(words, str) else []
            if kind in ("acts", "output", "changes", "same", "refused") and len(parts) >= 2 and parts[0].startswith("-"):
                yield from ((verb, name, job, parts[0], value) for value in VALUES)
                break


# What took minutes or gigabytes once.
HEAVY = [
    ("predict", "--task grpo --gpu b200 --model mixtral-8x7b --tp 8 --gpus 1583712 --gbs 791856 --seq 4096 --response 5 "
     "--rollout 'epochs=1000 by_sequence=1'"),
    ("predict", "--task grpo --gpu gb200 --model deepseek-v3 --gpus 8 --gbs 1491690 --response 52 --response-max 104 --samples 64 --prompt 4"),
    ("plan", "--task grpo --gpu gb200 --model deepseek-v3 --gpus 8 --gbs 1491690 --response 52 --response-max 104 --samples 64 --prompt 4 --search-time 3"),
    ("shard", "many.csv --gpu h100-sxm --gpus 8 --batch 58047025"),
]


def answers(work, files, case):
    verb, name, job, option, value = case
    folder = tempfile.mkdtemp(dir=work)
    for path in glob.glob(os.path.join(files, "*")):
        (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(folder, os.path.basename(path)))
    words = job if name is None else options.replaced(job, f"{option}={shlex.quote(value)}" if option.startswith("--") else f"{option} {shlex.quote(value)}")
    asked = shlex.split(words.replace("$ROOT", options.ROOT))
    if "--" not in asked and not {"-o", "--output"} & set(asked) and name != "output":
        asked += ["-o", "json"]
    place = f"{verb} {words}"
    try:
        before = time.monotonic()
        done = subprocess.run(["bash", "-c", 'exec 3>&2 2> err; TIMEFORMAT="%U %S"; ulimit -v 8388608; time "$@" 2> said; s=$?; exit $s', "-",
                               options.PROGRAM, *verb.split(), *asked], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=30 * SECONDS, env={**os.environ, "HOME": folder, "NO_COLOR": "1", "LC_ALL": "C"})
        took = sum(map(float, re.findall(r"[0-9.]+", open(os.path.join(folder, "err")).read().splitlines()[-1])))
        with open(os.path.join(folder, "said"), errors="replace") as text:
            said = text.read()
    except subprocess.TimeoutExpired:
        return f"{place}: no end after {time.monotonic() - before:.0f} s"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    out = done.stdout.decode(errors="replace")
    if took > SECONDS:
        return f"{place}: {took:.1f} s of processors"
    if done.returncode not in (0, 1, 2):
        return f"{place}: exit status {done.returncode}: {said[-300:]}"
    if "internal error" in said or "Sanitizer" in said or "runtime error" in said:
        return f"{place}: {said[:300]}"
    lines = [line for line in said.splitlines() if not line.startswith("lockstep: warning: ")]
    if done.returncode == 2:
        named = len(lines) == 1 and lines[0].startswith("lockstep: ")
        # compile goes on with other programs, and says what it has of them
        return None if named and (not out or out.startswith('{\n  "error": {') or verb == "compile") else f"{place}: refused with {len(lines)} lines: {said[:300]}"
    if out.startswith(("{", "[")):
        try:
            no_number = []
            json.loads(out, parse_constant=no_number.append) if "\n{" not in out.strip() else None
            if no_number:
                return f"{place}: {no_number[0]} in the answer"
        except ValueError as error:
            return f"{place}: {error}"
    if value in ("nan", "1e400", "1e", "1kg", "1KiBs", "١") and re.fullmatch(r"[0-9.]+[A-Za-z]*", shlex.split(job_value(case))[0]):
        return f"{place}: accepted"
    return None


def job_value(case):
    """The value that options.py gives this option: a number or not."""
    verb, name, _, option, _ = case
    for _, _, words in options.TABLE[verb][name]:
        parts = shlex.split(words) if isinstance(words, str) else []
        if len(parts) >= 2 and parts[0] == option:
            return shlex.quote(parts[1])
    return "x"


def main():
    options.PROGRAM = os.path.realpath(sys.argv[1])
    verbs = [verb for verb in (sys.argv[2:] or options.TABLE) if verb not in APART and (verb != "compose" or options.HAVE_MPI)]
    cases = [case for verb in verbs for case in cases_of(verb)]
    cases += [(verb, None, words, "", "") for verb, words in HEAVY if verb in verbs]
    if not os.environ.get("LOCKSTEP_LONG"):
        cases = cases[int(os.environ.get("LOCKSTEP_TURN") or "0") % 16::16]
    with tempfile.TemporaryDirectory() as work:
        files = os.path.join(work, "files")
        os.mkdir(files)
        options.make_files(files)
        with open(os.path.join(files, "many.csv"), "w", encoding="utf-8") as tables:
            tables.write("name,rows,dim,pooling,count,skew\nt,40617346,512,109,100000,2\n")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            wrong = [text for text in pool.map(lambda case: answers(work, files, case), cases) if text]
    for text in wrong:
        print(text)
    print(f"{len(cases)} values of options, {len(wrong)} wrong")
    sys.exit(bool(wrong) or not cases)


if __name__ == "__main__":
    main()
