#!/usr/bin/env python3
"""Files that are made to hurt: each is refused with exit status 2 and one line that says why, within 2 GiB of addresses and 20 s of a
processor.
Usage: hostile.py PROGRAM [NAME...]; in the current folder.

Bombs are 272 MiB (LOCKSTEP_LONG=1: 1 GiB) of blanks or letters behind a MB or so of gzip, zstd or zip; nests are brackets or blocks without end; numbers are more than
any field holds; files that are no files are folders, devices, links to themselves and pipes that end in the middle; a database has views
that never end in place of its tables, pages of other sizes, or a journal of another one; some files are empty, packed by other programs, not
to be read by others, cut or replaced while they are read, or have names that a terminal would obey."""
import bz2, gzip, lzma, os, re, resource, shutil, sqlite3, subprocess, sys, threading, time, zipfile

program, chosen = os.path.realpath(sys.argv[1]), sys.argv[2:]
MIB, SECONDS = 1 << 20, 20
MEMBERS = 64 if os.environ.get("LOCKSTEP_LONG") else 17
JOB = "--model gpt2 --gpu h100-sxm --gpus 8"


def put(name, content):
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def bomb(name, first, more):
    """Members of 16 MiB each: gzip goes on with the next one."""
    put(name, gzip.compress(first) + gzip.compress(more * (16 * MIB)) * MEMBERS)


def make_bombs():
    bomb("blanks.json.gz", b"[", b" ")
    bomb("blanks.json", b"[", b" ")
    bomb("letters.csv", b"a,b\n", b"x")
    bomb("letters.yaml", b"a: ", b"x")
    bomb("letters.lk", b"program ", b"x")
    bomb("letters.sh", b"torchrun ", b"x")
    if shutil.which("zstd"):
        put("blanks.json.zst", subprocess.run(["zstd", "-q", "-c"], input=b"[" + b" " * (16 * MIB), stdout=subprocess.PIPE, check=True).stdout * MEMBERS)
    with zipfile.ZipFile("blanks.zip", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("rank0.json", "w") as member:
        member.write(b"[")
        for _ in range(MEMBERS):
            member.write(b" " * (16 * MIB))


def make_nests():
    deep = 100000
    put("nest.json", "[" * deep)
    put("nest_model.json", '{"model_type":' * deep)
    put("nest.yaml", "[" * deep)
    put("nest_block.yaml", "".join(" " * n + "a:\n" for n in range(2000)))
    put("nest.toml", "a = " + "[" * deep)
    put("nest.lk", "program p(mesh dp, dim N) { in x : f32[N] @ R(dp); out y = " + "(" * 50000 + "x")
    put("nest.sh", "torchrun pretrain_gpt.py --num-layers " + "$((" * 20000)
    put("nest_if.sh", "if true; then\n" * 20000)
    put("nest.et", bytes([10, 0xff, 0xff, 0xff, 0xff, 0x0f]) + b"\n\x7f" * 5000)


def make_numbers():
    for name, number in {"million": "9" * 100000, "power": "1e400", "bits": "18446744073709551616", "nan": "NaN", "minus": "-0"}.items():
        put(f"{name}.json", '{"model_type":"llama","hidden_size":4096,"num_hidden_layers":%s,"num_attention_heads":32,"vocab_size":32000,'
            '"intermediate_size":11008}' % number)
        put(f"{name}.csv", f"name,rows,dim,pooling\nuser,{number},64,1\n")
        put(f"{name}_jobs.csv", f"job,submit_h,gpus,duration_s\na,0,{number},3600\n")
        put(f"{name}.yaml", f"base_model: meta-llama/Llama-3.1-8B\nsequence_len: {number}\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n")


def make_no_files():
    os.makedirs("folder", exist_ok=True)
    for one, other in (("loop.json", "pool.json"), ("pool.json", "loop.json")):
        if not os.path.islink(one):
            os.symlink(other, one)
    database = sqlite3.connect("views.sqlite")
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS start, n + 1 AS end, 0 AS deviceId, 7 AS streamId, " \
        "n AS correlationId, 1 AS shortName, 1 AS demangledName, 1 AS globalPid FROM c"
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds", "NVTX_EVENTS", "TARGET_INFO_GPU"):
        database.execute(f"CREATE VIEW {table} AS {endless}")
    database.close()
    database = sqlite3.connect("blobs.sqlite")
    database.executescript("CREATE TABLE StringIds(id INTEGER, value TEXT); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, "
        "correlationId, shortName, demangledName, globalPid); INSERT INTO StringIds VALUES(1, CAST(zeroblob(200000000) AS TEXT));"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1, 2, 0, 7, 1, 1, 1, 1)")
    database.commit()
    database.close()


KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COLUMNS = "(start, end, deviceId, streamId, correlationId, shortName, demangledName, globalPid)"
PAGES = {"page_0": (16, b"\0\0"), "page_1": (16, b"\0\1"), "page_768": (16, b"\3\0"), "page_512": (16, b"\2\0"), "future": (18, b"\7\7"),
         "encoding": (56, b"\0\0\0\7"), "reserved": (20, b"\xff")}
EMPTY = ("empty.json", "empty.csv", "empty.sqlite", "empty.sh", "empty.yaml", "empty.lk", "empty.lkrec", "empty.et")
PACKED = {"trace.json.xz": "xz", "trace.json.bz2": "bzip2", "trace.json.lz4": "lz4", "trace.json.br": "brotli", "trace.7z": "7-Zip"}
NAMES = (b"new\nline.json", b"red\x1b[31m.json", b"\xff\xfe.json", b"tab\t.json", b"bell\a.json")


def make_databases():
    for name, script in {"whole": "", "triggers": "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN INSERT INTO StringIds VALUES(NEW.id + 1, 'x'); END;"}.items():
        database = sqlite3.connect(f"{name}.sqlite")
        database.executescript(f"CREATE TABLE StringIds(id INTEGER, value TEXT); CREATE TABLE {KERNELS}{COLUMNS}; {script} INSERT INTO StringIds "
            f"VALUES(1, 'k'); INSERT INTO {KERNELS} VALUES(1000, 2000, 0, 7, 1, 1, 1, 1)")
        database.close()
    database = sqlite3.connect("virtual.sqlite")
    try:
        database.executescript(f"CREATE VIRTUAL TABLE {KERNELS} USING fts5{COLUMNS.replace(' end', ' [end]')}; INSERT INTO {KERNELS} VALUES(1, 2, 0, 7, 1, 1, 1, 1)")
    except sqlite3.OperationalError:
        pass  # an SQLite without it: a database without tables
    database.close()
    with open("whole.sqlite", "rb") as file:
        whole = file.read()
    for name, (place, value) in PAGES.items():
        put(f"{name}.sqlite", whole[:place] + value + whole[place + len(value):])
    for name, size in (("half", len(whole) // 2), ("head", 100), ("magic", 16)):
        put(f"{name}.sqlite", whole[:size])
    put("other_wal.sqlite", whole)
    put("other_wal.sqlite-wal", bytes(range(256)) * 20)
    put("journal.sqlite", whole)
    put("journal.sqlite-journal", bytes.fromhex("d9d505f920a163d7") + bytes(range(256)) * 20)
    database = sqlite3.connect("wal.sqlite")
    database.executescript(f"PRAGMA journal_mode=WAL; CREATE TABLE {KERNELS}{COLUMNS}; INSERT INTO {KERNELS} VALUES(1, 2, 0, 7, 1, 1, 1, 1)")
    shutil.copy("wal.sqlite", "no_wal.sqlite")
    shutil.copy("wal.sqlite-wal", "alone.sqlite-wal")
    database.close()


def make_odd_files():
    for name in EMPTY:
        put(name, "")
    trace = b'{"traceEvents": [{"ph": "X", "name": "k", "cat": "kernel", "ts": 1, "dur": 2, "pid": 0, "tid": 7}]}'
    put("trace.json.xz", lzma.compress(trace))
    put("trace.json.bz2", bz2.compress(trace))
    put("trace.json.lz4", b"\x04\x22\x4d\x18\x64\x40\xa7" + trace)
    put("trace.json.br", b"\x0b\x31\x80" + trace + b"\x03")
    put("trace.7z", b"7z\xbc\xaf\x27\x1c\0\4" + trace)
    for name in NAMES:
        put(name, "{")
    put("secret.json", "{")
    os.chmod("secret.json", 0)
    os.makedirs("secrets", exist_ok=True)
    os.chmod("secrets", 0)
    if not os.path.islink("nowhere.json"):
        os.symlink("missing", "nowhere.json")


def cases():
    """Name, words, what the line says."""
    for name in ("blanks.json.gz", "blanks.json.zst", "blanks.zip"):
        yield from ((f"bomb {verb} {name}", f"{verb} {name}", "expands to over 256 times its size") for verb in ("explain", "replay", "whatif") if os.path.exists(name))
    for words in (f"predict --model blanks.json --gpu h100-sxm --gpus 8", "predict --config letters.yaml --gpu h100-sxm --gpus 8",
                  "predict --model gpt2 --cluster blanks.json", "predict --script letters.sh --gpu h100-sxm", "compile check letters.lk",
                  "collective letters.csv"):
        yield f"bomb {words}", words, "is longer than|more than [0-9]+ MiB|expands to over"
    yield "bomb html", "html blanks.json", "ends where a value should follow|more than|expands to over"
    for words in ("shard letters.csv --gpu h100-sxm --gpus 4", "validate letters.csv", "jobs letters.csv --gpu h100-sxm --gpus 8",
                  f"predict {JOB} --calibration letters.csv", "rent --model gpt2 --samples 1M --prices letters.csv"):
        yield f"bomb {words}", words, "is missing"
    for words in ("explain nest.json", "whatif nest.json", "predict --model nest.json --gpu h100-sxm --gpus 8", "html nest.json",
                  "predict --model nest_model.json --gpu h100-sxm --gpus 8", "predict --config nest.yaml --gpu h100-sxm --gpus 8",
                  "predict --config nest_block.yaml --gpu h100-sxm --gpus 8", "predict --config nest.toml --gpu h100-sxm --gpus 8",
                  "compile check nest.lk", "predict --script nest.sh --gpu h100-sxm", "predict --script nest_if.sh --gpu h100-sxm", "explain nest.et"):
        yield f"nest {words}", words, "."
    for number in ("million", "power", "bits", "nan", "minus"):
        for words in (f"predict --model {number}.json --gpu h100-sxm --gpus 8", f"shard {number}.csv --gpu h100-sxm --gpus 4",
                      f"jobs {number}_jobs.csv --gpus 4", f"predict --config {number}.yaml --gpu h100-sxm --gpus 8"):
            if words != "predict --config minus.yaml --gpu h100-sxm --gpus 8":  # 0 is as if it were not stated
                yield f"number {words}", words, "."
    for name in ("folder", "/dev/zero", "loop.json"):
        for words in (f"explain {name}", f"whatif {name}", f"predict --model {name} --gpu h100-sxm --gpus 8", f"shard {name} --gpu h100-sxm --gpus 4",
                      f"predict --model gpt2 --cluster {name}", f"predict {JOB} --calibration {name}", f"compile check {name}", f"html {name}",
                      f"predict --config {name} --gpu h100-sxm --gpus 8", f"jobs {name} --gpus 4", f"validate {name}"):
            yield f"file {words}", words, "."
    for name in ("views", "blobs", "virtual", "half", "head", "magic", "journal", "no_wal", *PAGES):
        yield f"database {name}", f"explain {name}.sqlite", "."
    yield "database alone", "explain alone.sqlite-wal", "no trace"
    for name in EMPTY:
        for words in (f"explain {name}", f"whatif {name}", f"predict --config {name} --gpu h100-sxm --gpus 8", f"shard {name} --gpu h100-sxm --gpus 4",
                      f"jobs {name} --gpus 4", f"compile check {name}", f"html {name}", f"validate {name}", f"simulate {name}"):
            yield f"empty {words}", words, "."
    for name, packer in PACKED.items():
        for words in (f"explain {name}", f"predict --config {name} --gpu h100-sxm --gpus 8", f"shard {name} --gpu h100-sxm --gpus 4", f"diff {name} {name}",
                      f"predict {JOB} --calibration {name}", f"validate {name}"):
            yield f"packed {words}", words, f"is packed by {packer}, "
        yield f"packed html {name}", f"html {name}", "expected"
    for name in (*(os.fsdecode(name) for name in NAMES), "nowhere.json", "/dev/full"):
        for verb in ("explain", "whatif", "compile check", "html"):
            yield f"name {verb} {name!a}", [*verb.split(), name], "."
    for words in ("explain secret.json", "explain secrets", "whatif secret.json", "predict --config secret.json --gpu h100-sxm --gpus 8",
                  "compile check secret.json", "shard secret.json --gpu h100-sxm --gpus 4"):
        yield f"secret {words}", words, "Permission denied"
    for verb in ("explain", "whatif", "html"):
        yield f"pipe {verb}", f"{verb} pipe", "."


def run(words, stranger):
    """A stranger is a user who owns nothing."""
    def confine():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        if stranger and os.geteuid() == 0:
            os.setgroups([])
            os.setuid(65534)
    words = words.split() if isinstance(words, str) else words
    process = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=confine)
    if words[-1] == "pipe":
        def feed():
            with open("pipe", "wb") as pipe:
                pipe.write(b'{"traceEvents": [{"ph": "X", "na')
        threading.Thread(target=feed, daemon=True).start()
    try:
        out, said = process.communicate(timeout=30 * SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, said = process.communicate()
    return process.returncode, out, said.decode(errors="replace")


def reachable():
    """Whether a stranger gets at the program and the files here: root alone can try, as others are refused as they are."""
    if os.geteuid() != 0:
        return True
    folders = {os.path.dirname(program), os.getcwd()}
    return all(os.stat(parent).st_mode & 1 for folder in folders for parent in (folder, *map(lambda n: folder.rsplit("/", n)[0] or "/", range(1, folder.count("/") + 1))))


def disturb(change):
    """explain of a trace that is changed while it is read ends, as with a trace that is whole, or cut."""
    event = '{"ph": "X", "name": "k", "cat": "kernel", "ts": %d, "dur": 2, "pid": 0, "tid": 7, "args": {"correlation": %d, "stream": 7}},\n'
    with open("changing.json", "w") as file:
        file.write('{"traceEvents": [\n' + "".join(event % (10 * i, i) for i in range(100000)) + event[:-2] % (10**7, 7) + "]}\n")
    process = subprocess.Popen([program, "explain", "changing.json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.01)
    change("changing.json")
    try:
        out, said = process.communicate(timeout=30 * SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "did not end"
    lines = said.decode(errors="replace").splitlines()
    right = (process.returncode == 0 and out) or (process.returncode == 2 and not out and sum(line.startswith("lockstep: ") for line in lines) >= 1)
    return None if right else f"exit status {process.returncode}: {said[:200]}"


def grow(path):
    with open(path, "a") as file:
        file.write(" " * MIB)


def swap(path):
    put("other.json", "{")
    os.replace("other.json", path)


make_bombs()
make_nests()
make_numbers()
make_no_files()
make_databases()
make_odd_files()
if not os.path.exists("pipe"):
    os.mkfifo("pipe")
tried = wrong = 0
for name, words, pattern in cases():
    if chosen and not any(name.startswith(one) for one in chosen):
        continue
    stranger = name.startswith("secret ")
    if stranger and not reachable():
        continue
    tried += 1
    status, out, said = run(words, stranger)
    lines = [line for line in said.splitlines() if not line.startswith(("lockstep: warning: ", "lockstep: note: ")) and not line.startswith("   ")]
    # compile shows the place on standard output
    if status == 2 and (not out or "compile" in words) and len(lines) == 1 and lines[0].startswith("lockstep: ") and len(lines[0]) < 1000 and lines[0].isprintable() and re.search(pattern, lines[0]):
        continue
    wrong += 1
    print(f"{name}: exit status {status}, {len(out)} bytes of output: {said[:300]}")
for name in ("triggers", "other_wal", "whole"):
    if not chosen or "database" in chosen:
        tried += 1
        status, out, said = run(f"explain {name}.sqlite", False)
        if status != 0 or said:
            wrong += 1
            print(f"database {name}: exit status {status}: {said[:300]}")
for name, change in {"cut": lambda path: os.truncate(path, 5000), "grown": grow, "replaced": swap, "removed": os.remove}.items():
    if not chosen or "changing" in chosen:
        tried += 1
        found = disturb(change)
        if found:
            wrong += 1
            print(f"changing {name}: {found}")
print(f"{tried} files that are made to hurt, {wrong} not refused as they should be")
sys.exit(wrong > 0 or not tried)
