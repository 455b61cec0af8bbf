#!/usr/bin/env python3
"""Files that releases wrote are read for ever, and an answer has all keys that it had. Of every folder of FORMS, one a release, each file
is read by the verb that takes it, and what that verb prints shows that it was; answers.json holds the keys of that release's answers, all
of which today's have, of the same kind. With its form raised each file is refused.
Usage: forms.py PROGRAM FORMS [--answers FOLDER]; the last writes FOLDER/answers.json, as tests/data/forms/make.sh does."""
import glob, gzip, json, os, re, shutil, subprocess, sys, tempfile

program, forms = os.path.realpath(sys.argv[1]), os.path.abspath(sys.argv[2])
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
data = os.path.join(root, "tests/data")
JOB = "--model llama3.2-1b --gpu a100-sxm-80 --gpus 4 --tp 2 --gbs 8 --seq 2048"
# What reads each form ({} is the release's folder), and what it says where it has read all of it.
READERS = {
    "graph.json.gz": ("whatif {}/graph.json.gz --gpu a100-sxm-80 --set link=2x", "4 a100-sxm-80"),
    "calibration.csv": (f"predict {JOB} --calibration {{}}/calibration.csv", "FITS"),
    "plan.json": ("shard {}/tables.csv --gpu a100-sxm-80 --gpus 4 --placement {}/plan.json", "by the given plan"),
    "overheads.csv": (f"replay {data}/trace_small.json --overheads {{}}/overheads.csv", "host overheads from"),
    "wisdom.txt": (f"compile tune {root}/examples/lang/sgd.lk --sizes dp=2,N=1000 --gpu h100-sxm --wisdom {{}}/wisdom.txt", "remembered"),
    "cluster.json": ("predict --model llama3.2-1b --cluster {}/cluster.json --gbs 8 --seq 2048", "2 node * 4 bigger"),
    "recording": ("stalls --recording {}/recording -o json", '"steps": 7,'),
    "tables.csv": ("shard {}/tables.csv --gpu a100-sxm-80 --gpus 4", "7 tables"),
    "jobs.csv": ("jobs {}/jobs.csv --gpu h100-sxm --gpus 8", "3 jobs on 8 GPUs"),
    "stalls.json": ("rent --model gpt2 --seq 1024 --gbs 256 --tokens 1B --most-gpus 1 --provider aws --stalls {}/stalls.json --stalls-batch 64",
                    "preparation goes with vCPUs"),
    "answer.json": ("html {}/answer.json", "<title>llama3.2-1b"),
}
# Where each states its form; people write tables, which state none.
STATED = re.compile(rb'(# lockstep [a-z]+ |"lockstep_[a-z]+": |"schema": "lockstep/[a-z]+/|^LKRECORD)(\d+|[\x01-\x09])')
UNSTATED = ["tables.csv"]
ANSWERS = [f"predict {JOB}", f"plan --model llama3.2-1b --gpu a100-sxm-80 --gpus 4 --gbs 8 --seq 2048", f"explain {data}/trace_small.json",
           f"replay {data}/trace_small.json", f"diff {data}/trace_before.json {data}/trace_after.json", f"whatif {data}/trace_small.json",
           f"validate {data}/runs_small.csv", "collective --gpu h100-sxm --gpus 16 -b 1M -e 4M", "jobs --draw 2 --gpu h100-sxm --gpus 8",
           "rent --model gpt2 --seq 1024 --gbs 256 --tokens 1B --most-gpus 1 --provider aws", "shard {}/tables.csv --gpu a100-sxm-80 --gpus 4",
           "stalls --recording {}/recording", f"calibrate runs {data}/runs_small.csv --date 2026-11-28", "devices h100", "machines p5",
           f"compile verify {root}/examples/lang/sgd.lk", f"compile run {root}/examples/lang/sgd.lk --sizes dp=2,N=10"]


def ask(command, folder):
    words = [word.format(folder, folder) for word in command.split()]
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr.strip()


def keys_of(value, at=""):
    """Paths of keys, with the kind of what they hold; of a list, those of all its items."""
    if isinstance(value, list):
        return set().union(*(keys_of(item, at + "[]") for item in value)) if value else set()
    if isinstance(value, dict):
        return {at + "{}"}.union(*(keys_of(item, f"{at}.{key}") for key, item in value.items()))
    return {f"{at} {'number' if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__}"}


def answer_keys(command, folder):
    status, text, said = ask(command + " -o json", folder)
    if status not in (0, 1):
        return None, said
    answer = json.loads(text)
    return sorted(keys_of(answer)) + ([" ".join(["schema", answer["schema"]])] if isinstance(answer, dict) and "schema" in answer else []), ""


if len(sys.argv) > 3:
    found = {command.replace(data, "DATA").replace(root, "ROOT"): answer_keys(command, sys.argv[4])[0] for command in ANSWERS}
    with open(os.path.join(sys.argv[4], "answers.json"), "w") as file:
        json.dump(found, file, indent=0)
    sys.exit(None in found.values())

def newer(path):
    """The file's form raised beyond any that there is, in place; False where it states none."""
    path = glob.glob(path + "/*")[0] if os.path.isdir(path) else path
    open_it = gzip.open if path.endswith(".gz") else open
    with open_it(path, "rb") as file:
        text = file.read()
    raised, count = STATED.subn(lambda found: found[1] + (b"%d" % (int(found[2]) + 90) if found[2].isdigit() else bytes([found[2][0] + 90])), text, 1)
    with open_it(path, "wb") as file:
        file.write(raised)
    return count > 0


read = wrong = refused = 0
copies = tempfile.TemporaryDirectory()  # programs may add to what they read
for release in sorted(os.path.basename(folder) for folder in glob.glob(f"{forms}/[0-9]*")):
    folder = os.path.join(copies.name, release)
    shutil.copytree(os.path.join(forms, release), folder)
    for name, (command, shows) in READERS.items():
        if not os.path.exists(f"{folder}/{name}"):
            continue  # a form that is younger than the release
        status, text, said = ask(command, folder)
        read += 1
        if status not in (0, 1) or shows not in text:
            wrong += 1
            print(f"{release}/{name}: exit status {status}; {said or text[:200]}")
        if name in UNSTATED:
            continue
        refused += 1
        status, text, said = ask(command, folder) if newer(f"{folder}/{name}") else (0, "", "it states no form")
        if status != 2 or not re.search(r" of (form|version) \d+;.* reads ", said):
            wrong += 1
            print(f"{release}/{name} of a newer form: exit status {status}; {said or text[:200]}")
        shutil.rmtree(folder)
        shutil.copytree(os.path.join(forms, release), folder)
    with open(f"{folder}/answers.json") as file:
        before = json.load(file)
    for command, keys in before.items():
        now, said = answer_keys(command.replace("DATA", data).replace("ROOT", root), folder)
        read += 1
        # what was null may hold something, and the other way round: the path alone counts then
        paths = {key.split(" ")[0] for key in now or ()}
        gone = [key for key in keys if key not in (now or ()) and not (key.endswith("NoneType") and key.split(" ")[0] in paths)]
        if now is None or gone:
            wrong += 1
            print(f"{release}: {command}: {said or 'without ' + ', '.join(gone[:5])}")
print(f"{read} files and answers of {len(glob.glob(forms + '/[0-9]*'))} releases, {refused} of newer forms, {wrong} wrong" if read else "nothing was read")
sys.exit(wrong > 0 or not read)
