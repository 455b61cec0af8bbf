#!/usr/bin/env python3
"""Every option of every verb acts, is refused, or is listed: the table below names for each option a job whose answer it
changes and, where there is one, a job that it cannot act on. An option that is not in the table fails the test.
Usage: options.py PROGRAM [VERB...]

A row is a list of checks, each run in a folder of its own:
  acts(JOB, WORDS)      the answer of JOB differs with WORDS, the echo of what was asked left out
  same(JOB, WORDS)      accepted, with the same answer: how it is worked out, not what it is
  output(JOB, WORDS)    what is printed differs
  writes(JOB, WORDS)    the last of WORDS is a file that then holds something
  refused(JOB, WORDS)   one line that names the option, and exit status 2
  listed(JOB, WORDS)    the last flag of a launch line is named among the ignored, in every format"""
import concurrent.futures, glob, html, json, os, re, shlex, shutil, sqlite3, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.realpath(sys.argv[1]) if len(sys.argv) > 1 else None

# What an answer says of the question or of the work of answering.
ECHO = {"reproduce", "assumptions", "inputs", "notes", "simulation_s", "search_s", "seconds", "operations_per_s", "version",
        "source", "command", "title", "description"}


def acts(job, words):
    return ("acts", job, words)


def same(job, words):
    return ("same", job, words)


def output(job, words):
    return ("output", job, words)


def writes(job, words):
    return ("writes", job, words)


def refused(job, words):
    return ("refused", job, words)


def listed(job, words):
    return ("listed", job, words)


# ---- the table ----

DENSE = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --gbs 64 --seq 4096"
PIPE = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --pp 4 --gbs 64 --seq 4096"
INTER = PIPE + " --vp 2"
MOE = "--model mixtral-8x7b --gpu h100-sxm --gpus 16 --tp 2 --ep 4 --gbs 64 --seq 4096"
SMALL = "--model gpt2-xl --gpu a100-sxm-80 --gpus 8 --gbs 64"
DDP = SMALL + " --stack ddp"
FSDP = DENSE + " --stack fsdp"
ONE = "--model gpt2-xl --gpu h100-sxm --gpus 1 --gbs 8"
NET = "--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048"
LONG = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --cp 4 --gbs 16 --seq 16384"

PREDICT = {
    "model": [acts(DENSE, "--model qwen3-8b"), refused(DENSE, "--model nosuch")],
    "as": [acts("--model $ROOT/tests/data/hf/qwen3-8b.json --gpu h100-sxm --gpus 16 --gbs 64", "--as llama"), refused(DENSE, "--as llama")],
    "gpu": [acts(DENSE, "--gpu a100-sxm-80")],
    "gpus": [acts(DENSE, "--gpus 32")],
    "cluster": [acts("--model gpt2-xl --gbs 64 --cluster '8 h100-sxm'", "--cluster '8 a100-sxm-80'"), refused(DENSE, "--cluster '8 h100-sxm'")],
    "script": [acts("--gpu h100-sxm --script $ROOT/tests/data/launch/llama3_8b_fp8.sh", "--script $ROOT/tests/data/launch/gpt_175b.sh")],
    "deepspeed_config": [acts("--model llama3-8b --gpu h100-sxm --gpus 16 --gbs 64", "--deepspeed_config $ROOT/tests/data/launch/ds_zero3.json")],
    "calibration": [acts(DENSE, "--calibration numbers.csv")],
    "tp": [acts(DENSE, "--tp 4"), refused(NET, "--tp 2")],
    "pp": [acts(DENSE, "--pp 2"), refused(NET, "--pp 2")],
    "vp": [acts(PIPE, "--vp 2"), refused(DENSE, "--vp 2")],
    "cp": [acts(DENSE, "--cp 2"), refused(NET, "--cp 2")],
    "ep": [acts(MOE, "--ep 8"), refused(DENSE, "--ep 2")],
    "etp": [acts(MOE, "--etp 1"), refused(DENSE, "--etp 2")],
    "dp": [acts("--model llama3.1-8b --gpu h100-sxm --tp 2 --dp 8 --gbs 64", "--dp 4"), refused(DENSE, "--dp 3")],
    "mbs": [acts(DENSE, "--mbs 2")],
    "gbs": [acts(DENSE, "--gbs 128")],
    "seq": [acts(DENSE, "--seq 2048"), refused(NET, "--seq 512")],
    "schedule": [acts(PIPE, "--schedule gpipe"), refused(DENSE, "--schedule zb-h1"), refused(NET, "--schedule zb-h1")],
    "first-stage-layers": [acts(PIPE, "--first-stage-layers 5"), refused(DENSE, "--first-stage-layers 5")],
    "last-stage-layers": [acts(PIPE, "--last-stage-layers 5"), refused(DENSE, "--last-stage-layers 5")],
    "pipeline-layout": [acts(PIPE, "--pipeline-layout 'Et*7|t*8|t*8|t*9L'"), refused(DENSE, "--pipeline-layout 'Et*15|t*17L'")],
    "sequence-parallel": [acts(DENSE, "--no-sequence-parallel"), refused(ONE, "--sequence-parallel"), refused(ONE, "--no-sequence-parallel")],
    "cp-kind": [acts(LONG, "--cp-kind all-gather"), refused(DENSE, "--cp-kind all-gather")],
    "dtype": [acts(DENSE, "--dtype fp8"), refused(SMALL, "--dtype fp8")],
    "zero": [acts(DENSE, "--zero 3"), refused(DENSE, "--zero 4")],
    "shard-group": [acts(FSDP, "--shard-group 4"), refused(DENSE + " --zero 0", "--shard-group 4")],
    "recompute": [acts(DENSE, "--recompute full"), refused(NET, "--recompute selective")],
    "optimizer": [acts(DENSE, "--optimizer sgd")],
    "state-dtype": [acts(DENSE, "--state-dtype bf16"), refused(DENSE + " --optimizer adafactor", "--state-dtype bf16")],
    "offload-optimizer": [acts(DENSE, "--offload-optimizer")],
    "task": [acts(DENSE, "--task lora"), refused(NET, "--task lora")],
    "lora-rank": [acts(DENSE + " --task lora", "--lora-rank 256"), refused(DENSE, "--lora-rank 256")],
    "overlap-grad-reduce": [acts(DENSE, "--no-overlap-grad-reduce"), refused(DENSE + " --zero 3", "--no-overlap-grad-reduce"),
                            refused(ONE, "--no-overlap-grad-reduce"), refused(ONE, "--overlap-grad-reduce")],
    "overlap-param-gather": [acts(DENSE, "--no-overlap-param-gather"), refused(DENSE + " --zero 3", "--no-overlap-param-gather"),
                             refused(DENSE + " --zero 0", "--overlap-param-gather"), refused(DENSE + " --zero 0", "--no-overlap-param-gather")],
    "overlap-p2p": [acts(PIPE, "--overlap-p2p"), refused(DENSE, "--overlap-p2p"), refused(DENSE, "--no-overlap-p2p")],
    "tp-overlap": [acts(DENSE, "--tp-overlap"), refused(ONE, "--tp-overlap"), refused(ONE, "--no-tp-overlap")],
    "bucket": [acts(DDP, "--bucket 1"), acts(SMALL + " --zero 0", "--bucket 0.1"), acts(DENSE, "--bucket 1000"), refused(FSDP, "--bucket 1"), refused(ONE, "--bucket 1")],
    "cuda-graphs": [acts(ONE, "--cuda-graphs")],
    "max-connections": [acts(DENSE + " --stack fsdp", "--max-connections 1")],
    "compile": [acts(DENSE, "--compile")],
    "attention": [acts(DENSE, "--attention unfused"), refused(NET, "--attention unfused")],
    "fused-loss": [acts(DENSE, "--fused-loss"), refused(NET, "--fused-loss")],
    "dispatcher": [acts(MOE, "--dispatcher allgather"), refused(DENSE, "--dispatcher allgather"), refused(MOE + " --ep 1", "--dispatcher node")],
    "expert-overlap": [acts(MOE + " --tp 1 --pp 2 --vp 2", "--expert-overlap"), refused(DENSE, "--expert-overlap"), refused(MOE, "--expert-overlap")],
    "moe-imbalance": [acts(MOE, "--moe-imbalance 2"), refused(DENSE, "--moe-imbalance 2"), refused(MOE + " --ep 1", "--moe-imbalance 2")],
    "stack": [acts(DENSE, "--stack torchtitan"), refused(DENSE, "--stack nosuch")],
    "release": [acts(DENSE + " --stack nemo", "--release 24.07"), refused(DENSE + " --stack ddp", "--release 24.07")],
    "ranks": [acts(DENSE, "--ranks all"), refused(DENSE, "--ranks 3")],
    "exact": [acts(DENSE, "--exact")],
    "no-contention": [acts(DENSE, "--no-contention")],
    "straggler": [acts(DENSE, "--straggler 3:1.5"), refused(DENSE, "--straggler 16:2")],
    "jitter": [acts(DENSE, "--jitter 0.1")],
    "seed": [acts(DENSE + " --jitter 0.1", "--seed 7"), refused(DENSE, "--seed 7")],
    "tokens": [acts(DENSE, "--tokens 1T")],
    "mtbf": [acts(DENSE + " --tokens 1T", "--mtbf 10"), refused(DENSE, "--mtbf 0.01")],
    "checkpoint-interval": [acts(DENSE + " --mtbf 10", "--checkpoint-interval 5"), refused(DENSE, "--checkpoint-interval 5")],
    "checkpoint-write": [acts(DENSE + " --mtbf 10", "--checkpoint-write 0.5"), refused(DENSE, "--checkpoint-write 1")],
    "trace": [writes(DENSE, "--trace step.json")],
    "trace-ranks": [writes(DENSE, "--trace-ranks 0,3 --trace step.json"), refused(DENSE, "--trace-ranks 3")],
    "graph": [writes(DENSE, "--graph g.json")],
    "chakra": [writes(DENSE, "--chakra dir")],
    "html": [writes(DENSE, "--html r.html")],
    "no-fixes": [acts("--model llama3.1-70b --gpu h100-sxm --gpus 8 --gbs 8", "--no-fixes")],
    "resume": [refused(DENSE, "--resume r")],
    "output": [output(DENSE, "-o csv")],
    "file": [writes(DENSE, "-f out.txt")],
    "verbose": [output(DENSE, "-v")],
}

# ---- files that jobs read ----

def make_files(folder):
    def put(name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(text)

    with open(os.path.join(ROOT, "data", "calibration", "runs.csv"), encoding="utf-8") as runs:
        head, row = runs.readline(), next(line for line in runs if line.startswith("step,"))
    put("numbers.csv", head + re.sub(r"gemm_efficiency=\S+", "gemm_efficiency=0.5", row))


# ---- running it ----

TABLE = {"predict": PREDICT}
# Flags of launch lines that cannot act on this line, and what they would act with.
LINE = ("--gpu h100-sxm -- torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 1024 --num-attention-heads 16 "
        "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32 --vocab-size 50000 --bf16")
LISTED = ["--window-size 4096,0", "--fp8-recipe delayed", "--moe-router-topk 2", "--moe-token-dispatcher-type alltoall", "--moe-grouped-gemm",
          "--expert-tensor-parallel-size 1", "--overlap-moe-expert-parallel-comm", "--moe-layer-freq 1", "--cp-comm-type p2p",
          "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --overlap-grad-reduce",
          "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --ddp-bucket-size 1000000", "--overlap-param-gather",
          "--wgrad-deferral-limit 2", "--kv-lora-rank 512", "--decoder-seq-length 512", "--moe-permute-fusion", "--no-such-flag"]
LAUNCH = [listed(LINE, words) for words in LISTED]
FORMATS = ("text", "md", "csv", "json", "jsonl", "sqlite", "html")


def run(folder, verb, words, fmt=None):
    words = shlex.split(words.replace("$ROOT", ROOT))
    rest = words[words.index("--"):] if "--" in words else []
    words = words[:len(words) - len(rest)] + (["-o", fmt] if fmt else []) + rest
    done = subprocess.run([PROGRAM, *verb.split(), *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600, env={**os.environ, "HOME": folder, "NO_COLOR": "1"})
    return done.returncode, done.stdout, done.stderr


def strip(value):
    """An answer without what repeats the question or says how long the work took."""
    if isinstance(value, dict):
        return {key: strip(item) for key, item in value.items() if key not in ECHO}
    return [strip(item) for item in value] if isinstance(value, list) else value


def replaced(job, words):
    """The job with WORDS: an option that is in both is said once."""
    given = {word for word in shlex.split(words) if word.startswith("--")}
    kept, skip = [], False
    parts = shlex.split(job)
    for at, part in enumerate(parts):
        if part == "--":
            return " ".join([*map(shlex.quote, kept), words, *map(shlex.quote, parts[at:])])
        if part in given:
            skip = True
        elif skip and not part.startswith("-"):
            skip = False
        else:
            skip = False
            kept.append(part)
    return " ".join([*map(shlex.quote, kept), words])


def answer(folder, verb, words):
    status, out, err = run(folder, verb, words, "json")
    if status not in (0, 1) or not out:
        return None, f"{verb} {words}: exit status {status}: {err.strip()[:300]}"
    return strip(json.loads(out)), None


def check_answers(folder, verb, job, words, differ):
    one, wrong = answer(folder, verb, job)
    two, wrong = (None, wrong) if wrong else answer(folder, verb, replaced(job, words))
    if wrong:
        return wrong
    if (one != two) == differ:
        return None
    return f"{verb} {job}\n    {words}: " + ("the answer is the same" if differ else "the answer differs")


def check_output(folder, verb, job, words):
    one, two = run(folder, verb, job), run(folder, verb, replaced(job, words))
    if two[0] not in (0, 1):
        return f"{verb} {job} {words}: exit status {two[0]}: {two[2].strip()[:300]}"
    return None if one[1:] != two[1:] else f"{verb} {job}\n    {words}: prints the same"


def check_writes(folder, verb, job, words):
    status, _, err = run(folder, verb, replaced(job, words))
    path = os.path.join(folder, shlex.split(words)[-1])
    if status not in (0, 1) or not os.path.exists(path):
        return f"{verb} {job} {words}: exit status {status}, {os.path.basename(path)} was not written: {err.strip()[:300]}"
    filled = os.listdir(path) if os.path.isdir(path) else os.path.getsize(path)
    return None if filled else f"{verb} {job} {words}: {path} is empty"


def check_refused(folder, verb, job, words):
    status, out, err = run(folder, verb, replaced(job, words))
    option = shlex.split(words)[0].lstrip("-")
    lines = err.strip().splitlines()
    if status == 2 and len(lines) == 1 and option.removeprefix("no-") in lines[0] and not out:
        return None
    return f"{verb} {job}\n    {words}: is not refused in one line that names it: exit status {status}: {err.strip()[:300]}"


def check_listed(folder, verb, job, words):
    """A flag of a launch line is among the ignored with the same words in all formats, and on the first screen of the text."""
    words = f"{job} {words}"
    flag = shlex.split(words)[-1 if words.split()[-1].startswith("--") else -2].lstrip("-")
    shown = {}
    for form in FORMATS:
        before, after = words.split(" -- ", 1)
        options = {"sqlite": "-o sqlite -f out.db", "html": "--html out.html"}.get(form, f"-o {form}")
        status, out, err = run(folder, verb, f"{before} {options} -- {after}")
        if status not in (0, 1):
            return f"{verb} {words} {options}: exit status {status}: {err.strip()[:300]}"
        shown[form] = out
    lines = [text for text in json.loads(shown["json"])["ignored"] if text.startswith(flag + ": ")]
    if len(lines) != 1:
        return f"{verb} {words}: {flag} is not among the ignored: {json.loads(shown['json'])['ignored']}"
    database = sqlite3.connect(os.path.join(folder, "out.db"))
    shown["sqlite"] = str(database.execute("select * from predictions").fetchall())
    database.close()
    with open(os.path.join(folder, "out.html"), encoding="utf-8") as page:
        shown["html"] = html.unescape(page.read())
    lacking = [form for form in FORMATS if lines[0] not in shown[form]]
    return f"{verb} {words}: '{lines[0]}' is not said in {lacking}" if lacking else None


CHECKS = {"listed": check_listed, "acts": lambda *a: check_answers(*a, True), "same": lambda *a: check_answers(*a, False), "output": check_output,
          "writes": check_writes, "refused": check_refused}


def names_of(verb):
    """The options of a verb, from what is generated for shells; a switch counts once."""
    done = subprocess.run([PROGRAM, "--completion", "fish"], stdout=subprocess.PIPE, text=True, check=True)
    found = re.findall(rf"^complete .*subcommand_from {verb}'.* -l ([\w-]+)", done.stdout, re.MULTILINE)
    return [name for name in found if not (name.startswith("no-") and name[3:] in found)]


def checked(work, files, verb, name, check):
    folder = tempfile.mkdtemp(dir=work)
    for path in glob.glob(os.path.join(files, "*")):
        os.symlink(path, os.path.join(folder, os.path.basename(path)))
    try:
        wrong = CHECKS[check[0]](folder, verb, check[1], check[2])
    except (subprocess.TimeoutExpired, json.JSONDecodeError, UnicodeDecodeError) as error:
        wrong = f"{verb} {check[1]} {check[2]}: {error}"
    shutil.rmtree(folder, ignore_errors=True)
    return wrong and f"{name}: {wrong}"


def main():
    verbs = sys.argv[2:] or list(TABLE)
    missing, cases = [], []
    for verb in verbs:
        have, want = TABLE[verb], names_of(verb)
        missing += [f"{verb} --{name}: no row in the table" for name in want if not have.get(name)]
        missing += [f"{verb} --{name}: a row of the table, but no option" for name in have if name not in want]
        cases += [(verb, name, check) for name in want for check in have.get(name, [])]
    if "predict" in verbs:
        cases += [("predict", "launch line", check) for check in LAUNCH]
    with tempfile.TemporaryDirectory() as work:
        files = os.path.join(work, "files")
        os.mkdir(files)
        make_files(files)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            wrong = missing + [text for text in pool.map(lambda case: checked(work, files, *case), cases) if text]
    for text in wrong:
        print(text)
    print(f"{len(cases)} checks of the options of {len(verbs)} verbs, {len(wrong)} wrong")
    sys.exit(bool(wrong) or not cases)


if __name__ == "__main__":
    main()
