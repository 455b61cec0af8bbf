"""Questions with the main figures of their answers: questions.csv, read, asked, compared. README.md has the form."""
import collections
import concurrent.futures
import csv
import hashlib
import json
import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(ROOT, "tests", "answers", "questions.csv")
COLUMNS = ("id", "command", "status", "figures", "why")
TOLERANCE = 1e-3
DIGITS = 7

# Main figures by the schema of an answer: paths, and their units. "*" is each item of a list, in its order.
STEP = "step_time_s s, step_time_low_s s, step_time_high_s s"
MAIN = {
    "predict": f"fits, {STEP}, peak_bytes B, usable_bytes B, mfu, model_tflops_per_gpu TFLOP/s, tokens_per_s_per_gpu 1/s, "
               "samples_per_s 1/s, days d, gpu_hours h, goodput, gpu_watts W, site_watts W, training_kwh kWh, carbon_kg kg, "
               "power_usd USD, layout.text, searched, generation.tokens_per_s 1/s, generation.cache_tokens, "
               "phases.*.phase, phases.*.end_s s",
    "plan": "counts.*.gpus, counts.*.nothing, counts.*.choices.0.layout, counts.*.choices.0.step_time_s s, "
            "counts.*.choices.0.step_time_low_s s, counts.*.choices.0.step_time_high_s s, counts.*.choices.0.peak_bytes B, "
            "counts.*.choices.0.mfu, counts.*.choices.0.days d, counts.*.choices.0.gpu_hours h, "
            "counts.*.choices.0.reproduce, counts.*.choices.1.layout, counts.*.choices.1.step_time_s s",
    "rent": "within_limits, cheapest, fastest, most, choices.0.instance, choices.0.machines, choices.0.layout, "
            "choices.0.step_time_s s, choices.0.hours h, choices.0.cost_usd USD, choices.1.instance, choices.1.cost_usd USD",
    "shard": "fits, step_s s, placed_s s, bound_s s, gap, imbalance, forward_s s, exchange_s s, backward_s s",
    "explain": "ranks, step_count, step_s s, stalls.*.kind, stalls.*.lost_s s, stalls.*.gain_s s, stalls.*.change",
    "replay": "summary.geomean_error, summary.baseline_error, summary.predicted, summary.operations, summary.collectives",
    "diff": "verdict, ratio, ratio_deviation, categories.*.delta_s s",
    "whatif": "changes.*.change, changes.*.refused, changes.*.step_time_s s, changes.*.vs_base",
    "collective": "cluster, mean_busbw_GBps GB/s, rows.*.time_us us, rows.*.algo, rows.*.proto",
    "jobs": "load, policies.*.mean_s s, policies.*.p95_s s, policies.*.makespan_s s, policies.*.used",
    "validate": "summary.scored, summary.skipped, summary.geomean_error, summary.bias, summary.coverage, "
                "summary.half_width, rows.*.predicted s",
    "compile-tune": "plain.time_s s, plain.memory_bytes B, schedules.0.schedule, schedules.0.time_s s, "
                    "schedules.0.memory_bytes B",
    "compose": "cluster, world, nodes, step_s s, parts, operations",
    "stalls": "ranks, steps, step_s s, lead.first, parts.*.part, parts.*.seconds s, parts.*.share_pctg %",
    "calibrate": "rows.*.family, rows.*.subject, rows.*.variant, rows.*.numbers, rows.*.points, rows.*.error",
}


def main_figures(answer):
    """(path, unit) of the answer's kind."""
    kind = answer.get("schema", "//").split("/")[1]
    for item in MAIN.get(kind, "").split(", "):
        path, _, unit = item.partition(" ")
        yield path, unit


def at(value, path):
    """(full path, value) of what a path names; what is absent or null is left out, what has parts is taken apart."""
    name, _, rest = path.partition(".")
    if name == "*":
        items = enumerate(value) if isinstance(value, list) else ()
        for i, item in items:
            for tail, found in at(item, rest) if rest else ((("", item)),):
                yield f"{i}.{tail}" if tail else f"{i}", found
        return
    if isinstance(value, list):
        inside = int(name) < len(value) if name.isdigit() else False
        value = value[int(name)] if inside else None
    else:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return
    if not rest and isinstance(value, dict):
        yield from ((f"{name}.{key}", part) for key, part in value.items() if part is not None)
        return
    if not rest:
        yield name, value
        return
    for tail, found in at(value, rest):
        yield f"{name}.{tail}", found


def written(value, unit=""):
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, (int, float)):
        text = f"{value:.{DIGITS}g}"
    else:
        text = re.sub(r"[;\s]+", " ", str(value)).strip()
    return f"{text} {unit}".strip()


def figures_of(stdout, stderr):
    """Figures of an answer as an ordered dict of texts. What is no JSON counts by its lines and their digest."""
    found = collections.OrderedDict()
    try:
        answer = json.loads(stdout)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        for path, unit in main_figures(answer):
            for name, value in at(answer, path):
                found[name] = written(value, unit)
    elif stdout.strip():
        found["lines"] = str(stdout.count("\n"))
        found["text"] = hashlib.sha256(stdout.encode()).hexdigest()[:16]
    if not found and stderr.strip():
        where = re.match(r"lockstep: (\S+): ", stderr)  # the option, or the file
        found["refused"] = where.group(1) if where else "yes"
    return found


def join(figures):
    return "; ".join(f"{name}={value}" for name, value in figures.items())


def split(text):
    return collections.OrderedDict(part.split("=", 1) for part in text.split("; ") if part)


def ask(program, command):
    """(exit status, figures) of a command, run in the repository with no settings of a user. It may write into $OUT."""
    with tempfile.TemporaryDirectory() as out:
        environment = {"PATH": os.path.dirname(os.path.abspath(program)) + ":" + os.environ.get("PATH", ""),
                       "HOME": out, "OUT": out, "NO_COLOR": "1", "LC_ALL": "C", "TZ": "UTC"}
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        hide = [(out, "$OUT"), (ROOT, "$ROOT")]
        stdout, stderr = done.stdout, done.stderr
        for path, name in hide:
            stdout, stderr = stdout.replace(path, name), stderr.replace(path, name)
        return done.returncode, figures_of(stdout, stderr)


def ask_all(program, commands):
    """Answers in the order of the commands; several at a time."""
    workers = int(os.environ.get("TEST_JOBS") or len(os.sched_getaffinity(0)))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda command: ask(program, command), commands))


def number(text):
    """(value, unit) of a figure that is a number; None."""
    head, _, unit = text.partition(" ")
    try:
        return float(head), unit
    except ValueError:
        return None


def differs(before, after):
    """Whether a figure changed: numbers by more than the tolerance, anything else at all."""
    if before == after:
        return False
    old, new = number(before or ""), number(after or "")
    if old is None or new is None or old[1] != new[1]:
        return True
    return abs(new[0] - old[0]) > TOLERANCE * max(abs(old[0]), abs(new[0]))


def changes(row, status, figures):
    """Sentences of what is not as in the table."""
    if row["status"] != str(status):
        yield f"exit status {row['status'] or 'none'} -> {status}"
    before = split(row["figures"])
    for name in list(before) + [name for name in figures if name not in before]:
        if differs(before.get(name), figures.get(name)):
            yield f"{name}: {before.get(name, 'none')} -> {figures.get(name, 'none')}"


def read_table():
    with open(TABLE, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_table(rows):
    with open(TABLE, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
