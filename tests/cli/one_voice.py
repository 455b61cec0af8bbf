#!/usr/bin/env python3
"""The same job has the same time and memory whichever verb is asked: predict, plan, rent, jobs, whatif, shard.
Usage: one_voice.py PROGRAM [JOBS]; JOBS random jobs (120); works in the current folder.
Without JOBS ./check takes a part of the sixteens, by turns (turn.py)."""
import concurrent.futures, csv, json, os, random, shlex, subprocess, sys

from drawn import COUNTS, EXPERTS, GPUS, LAYOUT, draw_job
from turn import its_turn, parts

whole = len(sys.argv) > 2
program, most = sys.argv[1], int(sys.argv[2]) if whole else 120 // parts
TABLES = ["dlrm-ddp", "dlrm-criteo", "dlrm-default"]
PLANNED = ["model", "gpu", "gpus", "cluster", "tp", "pp", "vp", "cp", "ep", "etp", "mbs", "gbs", "seq", "dtype", "recompute", "zero", "schedule",
           "optimizer", "task", "state-dtype", "stack"]
IN_LISTS = {"model", "gpu", "gpus", "gbs", "seq", "dtype", "tp", "pp", "mbs", "zero", "recompute"}


def ask(verb, options, *more):
    words = [word for name, value in options.items() for word in ("--" + name, str(value))]
    done = subprocess.run([program, verb, *words, *more, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode < 2 else {"failed": done.stderr.strip()}


def named(answer):
    """The options of the command that reproduces an answer; None where one of them is no option with a value of plan."""
    words = shlex.split(answer["reproduce"].replace("\\\n", " "))[2:]
    options = {word[2:]: value for word, value in zip(words[::2], words[1::2])}
    return options if len(words) % 2 == 0 and set(options) <= set(PLANNED) else None


def is_open(job):
    return not set(job) & set(LAYOUT)


class Voice:
    """What differs of one job."""

    def __init__(self, job, said):
        self.job, self.said, self.asked, self.wrong = job, said, [], []

    def same(self, verb, time, peak=None, of=None):
        said = of or self.said
        self.asked.append(verb)
        if time != said["step_time_s"] or (peak is not None and peak != said["peak_bytes"]):
            self.wrong.append(f"{verb}: {time} s, {peak} bytes; predict {said.get('step_time_s')} s, {said.get('peak_bytes')} bytes: "
                              f"{said.get('reproduce', said.get('failed'))}")

    def predict_again(self):
        again = {name: value for name, value in (named(self.said) or {}).items()}
        if again:
            answer = ask("predict", again)
            self.same("predict of its command", answer.get("step_time_s", answer.get("failed")), answer.get("peak_bytes"))

    def plan(self, options, verb):
        answer = ask("plan", options, "--fixed-switches", "--top", "1", "--no-exact", "--no-sensitivity")
        choices = [choice for count in answer.get("counts", []) for choice in count["choices"]]
        if not choices:
            return self.same(verb, answer.get("failed", "nothing"))
        choice, of = choices[0], None
        if "--pipeline-layout" in choice["reproduce"] and "--pipeline-layout" not in self.said["reproduce"]:
            # How many layers a stage has was not said: predict takes as many for each, plan the fastest.
            of = ask("predict", {}, *shlex.split(choice["reproduce"].replace("\\\n", " "))[2:])
            if choice["step_time_s"] > self.said["step_time_s"]:
                return self.same(verb, choice["step_time_s"])
        self.same(verb, choice["step_time_s"], choice["peak_bytes"], of)

    def rent(self, seed):
        """On machines of one kind, of which several give the job's GPUs."""
        each = min(8, self.job["gpus"])
        with open(f"prices{seed}.csv", "w") as file:
            file.write("provider,instance,region,gpu,gpus,on_demand,date,source,links,network_gbps\n"
                       f"aws,machine,here,{self.job['gpu']},{each},{each},2026-01-01,test,,{400 * each}\n")
        options = {name: value for name, value in self.job.items() if name not in ("gpu", "gpus")}
        answer = ask("rent", {**options, "samples": "1M", "prices": f"prices{seed}.csv", "most-gpus": self.job["gpus"]})
        choices = answer.get("choices", [])
        for choice in choices[-2:]:
            cluster = shlex.split(choice["reproduce"].replace("\\\n", " "))
            cluster = cluster[cluster.index("--cluster") + 1]
            self.same("rent", choice["step_time_s"], None, ask("predict", {**options, "cluster": cluster}))
        if not choices and not any(text in answer["failed"] for text in ("runs on none",)):
            self.same("rent", answer["failed"])

    def whatif(self, seed):
        changed = ask("whatif", {"gpu": self.job["gpu"]}, f"graph{seed}.json")
        os.remove(f"graph{seed}.json")
        self.same("whatif", changed["changes"][0]["step_time_s"] if "changes" in changed else changed["failed"])


def ask_job(seed):
    """None where predict refuses the job."""
    draw = random.Random(seed)
    job = draw_job(draw, seed)
    said = ask("predict", job, "--no-fixes", "--graph", f"graph{seed}.json")
    if "failed" in said:
        return None
    voice = Voice(job, said)
    voice.predict_again()
    row = named(said)
    if said["fits"] and row:
        if job["model"] in EXPERTS:
            row.setdefault("etp", row["tp"] if row.get("stack", "nemo") != "nemo" else 1)
        voice.plan(row, "plan of its layout")
    if is_open(job):
        if said["fits"]:
            voice.plan(job, "plan")
        voice.rent(seed)
    voice.whatif(seed)
    return voice


def ask_tables(seed):
    """Of a recommendation model."""
    draw = random.Random(seed)
    job = {"model": draw.choice(TABLES), "gpu": draw.choice(GPUS[:4]), "gpus": draw.choice([1, 2, 4, 8, 16])}
    batch = job["gpus"] * draw.choice([64, 512, 2048])
    said = ask("predict", {**job, "gbs": batch})
    if "failed" in said:
        return None
    voice = Voice({**job, "gbs": batch}, said)
    found = ask("shard", {**job, "batch": batch, "plan": f"plan{seed}.json", "graph": f"graph{seed}.json"})
    if not said["fits"]:
        voice.wrong += ["shard: fits"] if found.get("fits", True) else []
        return voice
    placed = ask("predict", {**job, "gbs": batch, "plan": f"plan{seed}.json"})
    changed = ask("whatif", {"gpu": job["gpu"]}, f"graph{seed}.json")
    voice.same("shard", found.get("step_s", found.get("failed")))
    voice.same("predict --plan", placed.get("step_time_s", placed.get("failed")), placed.get("peak_bytes"))
    voice.same("whatif of shard", changed["changes"][0]["step_time_s"] if "changes" in changed else changed["failed"])
    return voice


def ask_lists(voices):
    """All jobs that lists can state, as one list for each GPU."""
    for gpu in GPUS:
        of = [voice for voice in voices if voice.job["gpu"] == gpu and set(voice.job) <= IN_LISTS and voice.said["fits"]]
        if not of:
            continue
        columns = ["seq", "tp", "pp", "mbs", "dtype", "zero", "recompute"]
        with open("jobs.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["job", "submit_h", "model", "samples", "batch", "gpus", "gpus_min", "gpus_max", *columns])
            for place, voice in enumerate(of):
                job = voice.job
                rows.writerow([f"j{place}", 0, job["model"], 1000, job["gbs"], *[job["gpus"]] * 3, *[job.get(name, "") for name in columns]])
        answer = ask("jobs", {"gpu": gpu, "gpus": max(COUNTS), "policy": "fifo"}, "jobs.csv")
        if "failed" in answer:
            of[0].same("jobs", answer["failed"])
            continue
        rates = {job["job"]: job["rates"] for job in answer["jobs"]}
        for place, voice in enumerate(of):
            voice.asked.append("jobs")
            rate = rates[f"j{place}"]
            if [row["samples_per_s"] for row in rate] != [voice.said["samples_per_s"]]:
                voice.wrong.append(f"jobs: {rate} samples/s; predict {voice.said['samples_per_s']}")


asked, seed = [], 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    while len(asked) < most:
        seeds = [n for n in range(seed, seed + 40) if whole or its_turn(n // 16)]
        seed += 40
        asked += [voice for voice in pool.map(lambda n: ask_tables(n) if n % 16 == 0 else ask_job(n), seeds) if voice]
asked = asked[:most]
ask_lists(asked)
wrong = [voice for voice in asked if voice.wrong]
for voice in wrong[:20]:
    print(" ".join(f"--{name} {value}" for name, value in voice.job.items()))
    for text in voice.wrong:
        print("  " + text)
verbs = sorted({verb for voice in asked for verb in voice.asked})
print(f"{len(asked)} jobs, {len(wrong)} have more than one time: " +
      ", ".join(f"{verb} {sum(voice.asked.count(verb) for voice in asked)}" for verb in verbs))
sys.exit(bool(wrong))
