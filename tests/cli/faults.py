#!/usr/bin/env python3
"""What fails inside a command gives the same answer or none: exit status 2, one line of error and nothing left behind, never other
numbers. Where the command runs a program that ends with a status of its own, that status stays once the program has run.
Usage: faults.py PROGRAM FAULTS.C [POINTS [VERB...]]; in the current folder.

Of each verb so many calls (50) fail, one in each run (faults.c): an allocation, read, write, open, mmap, fork, start of a thread and
so on (CODES), once, or with all of its kind that follow; or a read or write takes one byte, after which the answer is the same. They
are divided over the verb's commands, one for each format that it has, and spread over the whole run of each: half of them are
allocations, of kinds with few calls all are taken. Where no verb is named, ./check takes a part of them, by turns (turn.py), which
moves the points too, so that from commit to commit others fail. Commands
that need little memory run with limited address space too. A server is asked the same questions twice: each answer is the same bytes,
or an error that says something, or there is none; it lives on, or ends with exit status 2 and one line."""
import concurrent.futures, contextlib, errno, hashlib, http.client, json, os, queue, re, resource, select, shutil, signal, sqlite3
import subprocess, sys, time

from turn import of_turn, turn

program, shim = (os.path.abspath(path) for path in sys.argv[1:3])
points, chosen = int(sys.argv[3]) if len(sys.argv) > 3 else 50, sys.argv[4:]
SECONDS = 120  # no command takes as long, however busy the machine is: it hangs
data, root = os.path.abspath(os.path.join(os.path.dirname(shim), "../data")), os.path.abspath(os.path.join(os.path.dirname(shim), "../.."))
subprocess.run(["cc", "-O2", "-fno-builtin", "-shared", "-fPIC", "-w", "-o", "faults.so", shim], check=True)
library = os.path.realpath("faults.so")
with open("tables.csv", "w") as file:
    file.write("name,rows,dim,pooling,count\nuser,1000000,64,2,3\nitem,50000,32,10,4\n")

# Which errors a call may have.
CODES = {"memory": ["ENOMEM"], "read": ["EIO", "EINTR"], "write": ["ENOSPC", "EIO", "EINTR"], "open": ["EMFILE", "ENFILE", "EACCES"],
         "mmap": ["ENOMEM", "EAGAIN"], "fork": ["EAGAIN", "ENOMEM"], "thread": ["EAGAIN"], "stat": ["EIO", "ENOMEM"], "list": ["EIO"],
         "change": ["EIO", "ENOSPC"], "pipe": ["EMFILE", "ENFILE"], "wait": ["EINTR"], "connection": ["ECONNRESET", "EINTR"],
         "short_read": ["EINTR"], "short_write": ["EINTR"]}
JOB, EIGHT = "--model gpt2-xl --gpu a100-sxm-80 --gpus 8", "--gpu h100-sxm --gpus 8 --gbs 64"
seeds = f"{root}/tests/fuzz/corpus"
TRACE, RECORDING, SGD = f"{data}/trace_small.json", f"{data}/forms/0.1.0/recording", f"{root}/examples/lang/sgd.lk"
HIRE = "--model gpt2 --seq 1024 --gbs 256 --tokens 1B --most-gpus 1 --provider aws"
PAGE = "--html out/page.html"
# A command with an exit status of its own: whatever fails once it has run, the status stays.
OWN_STATUS = 7
ENDS_ITSELF = f"/bin/sh -c 'echo > ran; exit {OWN_STATUS}'"


def in_formats(command, *more):
    return [f"{command} {words}".strip() for words in ("", "-o json", "-o csv", *more)]


# Commands of each verb: text, JSON, CSV, and what else it writes.
VERBS = {
    "predict": in_formats(f"predict {JOB} --gbs 64", f"--dp 8 {PAGE}", "--trace out/t.json.gz", "--graph out/g.json --chakra out/c", "--charts out/c.svg",
                          "-o sqlite -f out/p.db") + [f"predict {JOB},16 --dp 8 --gbs 8", "predict --model Hermes-3-Llama-3.1-8B --gpu a100-sxm-40 --gpus 8 --gbs 8 --seq 4096 --tp 1 --pp 1 --zero 0", f"predict --model gpt2-xl --cluster {data}/forms/0.1.0/cluster.json --gbs 64", "predict --model dlrm-ddp --gpu v100-sxm-32 --gpus 4 -o md"],
    "plan": in_formats(f"plan {JOB} --gbs 64 --threads 1", PAGE) + [f"plan {JOB} --gbs 64"],
    "explain": in_formats(f"explain {TRACE}", PAGE, "-o sqlite -f out/e.db", "--trace out/t.pftrace") + [f"explain {RECORDING} -o json"] +
        [f"explain {data}/{left}" for left in ("snapshot.pickle -o json", "hang -o csv", "oom.log")],
    "replay": in_formats(f"replay {TRACE}", "--graph out/g.json.gz", "--overheads-out out/o.csv"),
    "whatif": in_formats(f"whatif {TRACE}", PAGE) + ["whatif ../step.json --gpu a100-sxm-80 --set link=2x --graph out/g.json"],
    "diff": in_formats(f"diff {data}/trace_before.json {data}/trace_after.json"),
    "validate": in_formats(f"validate {data}/runs_small.csv", "--plot out/p.svg", "-o sqlite -f out/v.db"),
    "calibrate": in_formats(f"calibrate collectives {data}/../fuzz/corpus/nccl_log/text.txt", "-f out/c.csv")[1:],
    "collective": in_formats("collective --gpu h100-sxm --gpus 64 -b 1M -e 16M", "-o nccl-tests"),
    "compile": [f"compile verify {SGD}", f"compile check {SGD} -o json", f"compile run {SGD} --sizes dp=2,N=10", f"compile emit {SGD}",
                f"compile tune {SGD} --gpu h100-sxm --sizes dp=8,N=100000000 -o json --wisdom out/w.csv"],
    "record": ["record --out out/r -- /bin/true", "record --out out/r -- /bin/cat ../tables.csv", f"record --out out/r -- {ENDS_ITSELF}"],
    "stalls": in_formats(f"stalls --recording {RECORDING}", PAGE) + [f"stalls --program sh -- {ENDS_ITSELF}"],
    "shard": in_formats("shard ../tables.csv --gpu a100-sxm-80 --gpus 4", PAGE, "--plan out/p.json --graph out/s.json"),
    "rent": in_formats(f"rent {HIRE}", PAGE),
    "machines": in_formats("machines", "-o sqlite -f out/m.db"),
    "jobs": in_formats("jobs --draw 2 --gpu h100-sxm --gpus 8", "--write out/j.csv"),
    "html": ["html ../answer.json -f out/page.html", "html ../answer.json --charts out/c.svg"],
    "devices": in_formats("devices h100", "-o jsonl"),
    "models": in_formats("models gpt", "-o md"),
    "init": ["init --gpu h100-sxm"],
    # not allocations: libraries of others that it loads to see whether they work end the process; and a program that cannot be looked at
    # is one that is missing
    "doctor": in_formats("doctor"),
    "compose": in_formats("compose ../two --cluster '2 node * 4 cpu, nic 1*10g'"),
    "serve": ["serve --port 0 --workers 1"],
    # what is read in other forms, by several verbs
    "readers": [f"{words} -o json" for words in (
        "explain ../ranks", "explain ../ranks.tar", "explain ../ranks.zip", "replay ../ranks", "diff ../ranks ../ranks",
        f"explain {seeds}/nsys/small.sqlite", f"explain {seeds}/nsys/run.rpd", f"explain {seeds}/nsys/rocpd3.db", f"explain {seeds}/xplane/host",
        f"explain {seeds}/rocprof/chrome", f"stalls --recording {seeds}/darshan/log.txt", f"predict --model {data}/hf/llama-3-8b.json {EIGHT} --seq 1024",
        f"predict --script {data}/launch/llama3_8b_fp8.sh --gpu h100-sxm --gpus 128", f"predict --config {seeds}/config_file/titan.toml --gpu h100-sxm --gpus 8",
        f"predict --config {seeds}/config_file/axolotl.yaml --gpu h100-sxm --gpus 8", f"predict {JOB} --gbs 64 --deepspeed-config {seeds}/deepspeed/zero3.json",
        f"predict --model gpt2-xl --cluster '2 node * {seeds}/topology_xml/a100.xml' --gbs 64", f"jobs {seeds}/jobs/philly.json --gpus 64",
        f"predict {JOB} --gbs 64 --calibration {data}/forms/0.1.0/calibration.csv", f"predict {JOB} --gbs 64 --exact --ranks all --jitter 0.05")]
        + ["predict --model gpt2-xl --gpus 8 --gbs 64 -o json",  # with the defaults of home/lockstep.toml
           f"plan {JOB} --gbs 64 --emit megatron", f"compile emit --target cuda {SGD}", f"compile emit --target torch {root}/examples/lang/adamw.lk", f"compile run {SGD} --sizes dp=2,N=10 -o json"]}
SMALL = [VERBS["predict"][0], VERBS["predict"][1], VERBS["collective"][1], VERBS["shard"][1], VERBS["whatif"][-1], VERBS["plan"][0]]


def plain(out):
    """Without how long it took, which is the same in no two runs, and without the sizes and hashes of a report's inputs, which are
    left out where those cannot be read a second time."""
    out = re.sub(rb'"inputs":\s*\[[^]]*\]', b"", out)
    return re.sub(rb'"(simulation_s|seconds|search_s)": ?[0-9.e-]+|in [0-9.]+ [mu]?s\b|[0-9]+ threads?', b"", out)


def dump_of(path):
    """As it lies there, without what a journal would undo."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as database:
            return plain("\n".join(database.iterdump()).encode())
    except sqlite3.Error as error:
        return str(error).encode()


EMPTY = hashlib.sha256("\n".join(sqlite3.connect(":memory:").iterdump()).encode()).hexdigest()


def files_of(folder):
    """Path and content of all that is there; of a folder that holds nothing, its path."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                content = plain(file.read())
            # a database is what is in it; a recording holds the times of its calls, and the process in its name
            if name.endswith(".db"):
                content = dump_of(path)
            found[re.sub(r"[^/]*-\d+-\d+\.lkrec$", "lkrec", os.path.relpath(path, folder))] = (
                "" if name.endswith(".lkrec") else hashlib.sha256(content).hexdigest())
        if not names and not folders:
            found[os.path.relpath(place, folder) + "/"] = ""
    return found


class Answer:
    def __init__(self, status, out, files, said):
        self.status, self.out, self.files, self.said = status, plain(out), files, said
        self.replies = None

    def same(self, other):
        return (self.status, self.out, self.files, self.replies) == (other.status, other.out, other.files, other.replies)


def empty(folder, command):
    """An empty folder in which a command may write into out/ alone, and its environment."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("out", "tmp", "home"):
        os.makedirs(os.path.join(folder, name))
    if not command.startswith("doctor"):  # which says the path
        with open(os.path.join(folder, "home/lockstep.toml"), "w") as file:
            file.write('gpu = "h100-sxm"\n')
    return {"TMPDIR": os.path.join(folder, "tmp"), "HOME": os.path.join(folder, "home"), "XDG_CACHE_HOME": os.path.join(folder, "home")}


def run(folder, command, limit=None, **settings):
    def confine():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    where = empty(folder, command)
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", command)]
    start = {"cwd": folder, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
             "env": {**os.environ, **where, **settings}, "preexec_fn": confine if limit else None}
    with subprocess.Popen([program, *words], start_new_session=True, **start) as process:
        replies = ask_all(process) if words[0] == "serve" else None
        try:
            out, said = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, said = process.communicate()
            said += b"\nno end"
    answer = Answer(process.returncode, b"" if replies else out, files_of(folder), said.decode(errors="replace"))
    answer.replies = replies
    return answer


# ---- the server ----

BODY = {"model": "gpt2-xl", "gpu": "a100-sxm-80", "gpus": 8, "gbs": 64}
MARK = "a-mark-of-parts"
FORM = "".join(f'--{MARK}\r\nContent-Disposition: form-data; name="traces"; filename="{name}.json"\r\n\r\n{open(TRACE).read()}\r\n'
               for name in "ab") + f"--{MARK}--\r\n"
QUESTIONS = [("GET", "/", None), ("GET", "/api/v1/models", None), ("POST", "/api/v1/predict", BODY), ("POST", "/api/v1/diff", FORM),
             ("POST", "/api/v1/predict?form=timeline", BODY), ("POST", "/api/v1/launch", {"launch": ["torchrun", "--nproc-per-node=8", "train.py"]}),
             ("POST", "/api/v1/predict", {**BODY, "model": json.load(open(f"{data}/hf/llama-3-8b.json")), "seq": 1024}),
             ("POST", "/api/v1/plan", BODY), ("POST", "/api/v1/predict?form=report", BODY)]


def ask(place, token, method, path, body):
    """Status, headers and text of the reply; None where there is none."""
    head = {"Authorization": "Bearer " + token, "Host": "localhost"}
    if body is not None:
        head["Content-Type"] = f"multipart/form-data; boundary={MARK}" if body is FORM else "application/json"
        body = body if body is FORM else json.dumps(body)
    connection = http.client.HTTPConnection(*place, timeout=SECONDS)
    try:
        connection.request(method, path, body, head)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status != 202:
            return reply.status, sorted(header for header in reply.getheaders() if header[0] not in ("Date", "Content-Length")), plain(text)
        job, end = json.loads(text), time.monotonic() + SECONDS
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    while True:
        reply = ask(place, token, "GET", "/api/v1/jobs/" + job["id"], None)
        if not reply or reply[0] != 200 or json.loads(reply[2])["state"] in ("done", "failed") or time.monotonic() > end:
            return reply and (reply[0], [], re.sub(rb'"id": "[0-9]+", ', b"", reply[2]))
        time.sleep(0.01)


def ask_all(server):
    """Its replies, each question asked twice; it ends then. None where it does not say its address."""
    ready = select.select([server.stdout], [], [], SECONDS)[0]
    line = server.stdout.readline().decode() if ready else ""
    found = re.match(r"lockstep serve: open http://(.*):(\d+)/#token=([0-9a-f]{32})\n", line)
    replies = [None] * len(QUESTIONS) * 2
    try:
        for place, question in enumerate(QUESTIONS * 2 if found else []):
            replies[place] = ask((found[1], int(found[2])), found[3], *question)
    except TimeoutError:
        replies[place] = SILENCE
    if found:
        server.terminate()
    return replies


SILENCE = (0, [], b"")  # within a time in which everything is answered


def is_refusal(reply):
    if reply is None or reply is SILENCE:
        return reply is None
    answer = json.loads(reply[2])
    return (reply[0] >= 400 or answer.get("state") == "failed") and bool(answer["error"]["text"])


def serves_honestly(got, wanted, kind, on):
    differ = [reply for reply, right in zip(got.replies, wanted.replies) if reply != right]
    # GnuTLS, which the server's library brings, says a line of its own where its start finds no memory, and wants memory when the
    # process is over, which libc ends without.
    said = re.sub("^Error in GnuTLS.*\n", "", got.said)
    one_line = len(said.strip().split("\n")) == 1 and said.startswith("lockstep: ")
    ended = (got.status == 0 and not said) or (got.status == 2 and one_line)
    ended = ended or (kind == "memory" and on and got.status == 127 and got.said.endswith("cannot allocate memory for thread-local data: ABORT\n"))
    # One call that fails costs one answer at most, unless the server ends with it.
    few = on or got.status != 0 or len(differ) <= 1
    # What is to be removed is found by a list of names.
    clean = kind in ("memory", "open", "list", "change") or got.files == wanted.files
    return ended and few and clean and all(map(is_refusal, differ)) and not (kind.startswith("short") and differ)


def is_honest(got, wanted, kind, on=False):
    if wanted.replies:
        return serves_honestly(got, wanted, kind, on)
    # What is in a folder that is to be removed is found by a list of names.
    if kind in ("memory", "open", "list", "change", "stat") and any(name.startswith("tmp/lockstep-stalls-") for name in got.files):
        got.files = {name: content for name, content in got.files.items() if not name.startswith("tmp/lockstep-stalls-")} | {"tmp/": ""}
    if got.same(wanted):
        return True
    lines = [line for line in got.said.strip().split("\n") if not re.match("lockstep: (warning|note|the command as it is)[:,] ", line)]
    if lines and lines[0].startswith(("lockstep: recorded ", "lockstep: nothing was recorded", "lockstep: the command ended")):  # and then standard output, which was the command's, could not be closed
        lines = lines[-1:]
    clear = len(lines) == 1 and lines[0].startswith("lockstep: ") and (kind != "memory" or re.search("out of memory|Cannot allocate memory", got.said))
    # What was written before is whole, and what was recorded stays; of a stream, what was written before the fault has gone. That a
    # database is new, and may be removed, says its size.
    whole = all(name in ("out/", "tmp/", "home/") or wanted.files.get(name) == content or (kind == "stat" and content == EMPTY)
                for name, content in got.files.items())
    status = OWN_STATUS if wanted.status == OWN_STATUS and "ran" in got.files else 2
    told = got.out.startswith(b'{\n  "error": {') and got.out.endswith(b"}\n")  # -o json
    return got.status == status and clear and whole and (told or wanted.out.startswith(got.out)) and not kind.startswith("short")


def points_of(counts, most):
    """(kind, n, error, whether all that follow fail too) of a command."""
    kinds = sorted((kind for kind in counts if counts[kind]), key=lambda kind: (kind == "memory", counts[kind]))
    left = most
    for place, kind in enumerate(kinds):
        # the last one, which are the allocations, takes what the others left
        share = left if kind == "memory" else max((left - most // 2) // (len(kinds) - 1 - place if "memory" in kinds else len(kinds) - place), 1)
        codes, every = CODES[kind], counts[kind] * len(CODES[kind])
        share = min(share, 2 * every)
        left -= share
        for i in range(share):
            if share < every:
                at, code = 1 + (i * counts[kind] + turn % counts[kind]) // share % counts[kind], codes[i % len(codes)]
            else:
                at, code = 1 + i % counts[kind], codes[i // counts[kind] % len(codes)]
            # an interrupted call is repeated
            yield kind, at, code, code != "EINTR" and (i // len(codes) % 2 == 1 if share < every else i >= every)


# System calls that cannot fail, or whose failure is no fault of files, memory or processes.
LEFT = set("exit kill getpid getppid getpgrp getpgid geteuid getuid nanosleep clock_gettime time munmap madvise unlink unlinkat rmdir "
           "setsid setpgid prctl getrlimit setrlimit getrusage sched_getaffinity sched_yield shutdown setsockopt getsockname getrandom "
           "execve syscall".split())


def unseen():
    """System calls of the program that the preloaded library does not know."""
    def symbols(*words):
        return set(re.findall(r"(?:^| )(\w+)(?:@.*)?$", subprocess.run(["nm", "-D", *words], stdout=subprocess.PIPE, text=True, check=True).stdout, re.M))
    defined = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"], stdout=subprocess.PIPE, text=True, check=True).stdout
    calls = set(re.findall(r"^#define __NR_(\w+)", defined, re.M))
    return sorted((symbols("--undefined-only", program) & calls) - symbols("--defined-only", library) - LEFT)


folders = queue.SimpleQueue()
workers = os.cpu_count() or 1
for n in range(workers):
    folders.put(os.path.realpath(f"work{n}"))


def in_folder(*words, **settings):
    folder = folders.get()
    try:
        return run(folder, *words, **settings)
    finally:
        folders.put(folder)


def fail_at(command, point):
    kind, at, code, on = point
    return in_folder(command, LD_PRELOAD=library, FAIL_CALL=kind, FAIL_AT=str(at), FAIL_CODE=str(getattr(errno, code)), **({"FAIL_ON": "1"} if on else {}))


def prepare():
    """Files that commands read."""
    if b"built without" in subprocess.run([program, "serve", "--listen", "nowhere"], stderr=subprocess.PIPE).stderr:
        VERBS.pop("serve")
    os.makedirs("ranks", exist_ok=True)
    with open(f"{data}/trace_before.json") as file:
        text = file.read()
    for rank in range(2):
        with open(f"ranks/rank{rank}.json", "w") as file:
            file.write(re.sub(r'"rank": \d+', f'"rank": {rank}', text, count=1))
    shutil.make_archive("ranks", "tar", ".", "ranks")
    shutil.make_archive("ranks", "zip", ".", "ranks")
    subprocess.run([program, "predict", *JOB.split(), "--gbs", "64", "--graph", "step.json", "-o", "json", "-f", "answer.json"], check=True,
                   stdout=subprocess.DEVNULL)
    if not os.environ.get("LOCKSTEP_LONG") or not shutil.which("mpicc") or subprocess.run(["make", "-s", "-C", f"{root}/examples/train", f"OUT={os.getcwd()}"], stderr=subprocess.DEVNULL).returncode:
        return VERBS.pop("compose", None)
    shutil.rmtree("two", ignore_errors=True)
    train = ["./train", "--data", "data.bin", "--quiet", "--dp", "2", "--tp", "2", "--pp", "2", "--overlap"]
    for words in ([*train[:3], "--write-data", "64", "--steps", "0"],
                  [program, "record", "--out", "two", "--world", "8", "--ranks", "0,4", "--", *train, "--steps", "12"]):
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


if unseen():
    sys.exit("faults.c lets none of these calls fail: " + " ".join(unseen()))
prepare()
wrong = tried = commands = 0


def tell(command, what, got):
    global wrong
    wrong += 1
    print(f"{command}\n  {what}: status {got.status} {got.said.strip()[:300]} {sorted(got.files)[:6]}")


with concurrent.futures.ThreadPoolExecutor(workers) as pool:
    verbs = chosen or of_turn(list(VERBS))
    for verb in verbs:
        of_verb = 0
        for place, command in enumerate(VERBS[verb]):
            wanted, again, counted = pool.map(lambda settings: in_folder(command, **settings), [{}, {}, {"LD_PRELOAD": library, "FAIL_COUNT": "1"}])
            assert wanted.status in (0, 1, OWN_STATUS) and again.same(wanted), (command, wanted.__dict__, again.__dict__)
            counts = {kind: int(n) for n, kind in re.findall(r"(\d+) calls of (\w+)", counted.said) if verb != "doctor" or kind not in ("memory", "stat")}
            # of a server, whose every run is many questions, fewer where few are asked for
            most = (points - of_verb) // (len(VERBS[verb]) - place) // (4 if verb == "serve" and points < 500 else 1)
            cases = list(points_of(counts, most))
            of_verb += len(cases)
            for case, got in zip(cases, pool.map(lambda case: fail_at(command, case), cases)):
                if not is_honest(got, wanted, case[0], case[3]):
                    kind, at, code, on = case
                    tell(command, f"{kind} {at}{' and later ones' if on else ''} of {counts[kind]} fails, {code}", got)
            commands += 1
            if command not in SMALL or points < 30:
                continue
            limits = [kib << 10 for kib in range(8000, 60000, 52000 * 6 // points)]
            for limit, got in zip(limits, pool.map(lambda limit: in_folder(command, limit=limit), limits)):
                # below some limit the loader itself cannot start the program
                if not is_honest(got, wanted, "memory") and got.status not in (127, -9, -11, -6) and "error while loading" not in got.said:
                    tell(command, f"{limit >> 10} KiB of address space", got)
        tried += of_verb
        print(f"{verb}: {of_verb} calls failed", file=sys.stderr, flush=True)
print(f"{len(verbs)} verbs, {wrong} answers that a fault changed")
print(f"{commands} commands, {tried} calls failed", file=sys.stderr)
sys.exit(wrong > 0)
