#!/usr/bin/env python3
"""Writes build/accuracy/full.md and its pictures: how well lockstep predicts what was measured.

Usage: tools/accuracy.py PROGRAM [--only KEY ...] [--out docs]   (`make accuracy`)

docs/accuracy/tables.csv says what is run, bars.csv what the figures are held against, published.csv what others report.
The measurements are those of $LOCKSTEP_DATA (default ../shared/data). Figures over parts of a table are worked out here
from its rows; those over the whole are worked out twice, by the program and here, and must agree.
"""
import argparse
import collections
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENOUGH = 10   # rows that a class or a stack needs to be judged
SHOWN = 16    # parts of a division that are listed
WORST = 10    # rows that are listed

INTRO = """\
# Accuracy

How far predictions are from measurements, by kind of measurement, and how to find that out again. `make accuracy`
writes this page. [The method](../../docs/method/README.md) has the models, [the figures](../../docs/notes/figures.md) the speed of the program.

## How to read this page

- **Error** is exp(mean |ln(predicted / measured)|) - 1, the mean distance as a ratio: twice too long and half as long
  are equally wrong. **Bias** keeps the sign: above 0, predictions are too long.
- **In sample** means that the numbers in use were fitted to these very rows. It says how well a model can describe, not
  how well it predicts. It is printed for comparison.
- **Cross-validated** means that rows are put into *folds*, and each fold is predicted from a fit of the other folds
  alone. A row never helps to predict itself or its near relatives. Each table states what makes a fold: for unseen
  shapes, a shape with all its measurements; for unseen GPUs, all that was measured on a GPU. Bars are held against
  cross-validated figures; where there are none, the page says so.
- **Baselines** are simple predictors on the same folds. A model that does not beat them is not worth its numbers.
- **Fitted** counts the numbers behind the predictions of a table that were fitted to measurements. None is fitted to a
  row or to a named network.
- **The 80 % range** of a prediction should hold the measurement in 8 of 10 cases. It is checked per class of rows:
  between 70 and 90 % must lie inside, and half its width (the median of sqrt(high / low) - 1) must not exceed 1.5 times
  the median error of the class. A range that is always right because it is wide does not pass.
- Rows that a table marks as suspect are predicted and not scored. Rows that cannot be predicted are counted as skipped.
- **Reported by others** are figures from papers and repositories. They stand on other rows and other hardware, and many
  are in sample: they are for orientation.
"""

REPRODUCE = """\
## Reproduce

    make && make accuracy

runs the commands of this page and writes it anew. Each can be run alone, in the folder of the measurements
(`cd $LOCKSTEP_DATA/measured`; default `../shared/data/measured`). Without `--cross-validate` a command gives the
figures of the calibration in use. `--rows` lists every row; `-o csv`, `-o json` and `-o sqlite` are for programs. The
same numbers come out on every machine. `docs/accuracy/tables.csv` lists what is run, `bars.csv` what it is held
against, `published.csv` what others report.

To check your own cluster, write your runs in the form of [tables of runs](../../docs/reference/tables.md), and give that file to
`lockstep validate`.
"""

NOT_HELD_OUT = "**There is no cross-validation yet: these figures stand on the calibration in use.**"


def read_csv(name):
    with open(os.path.join(ROOT, "docs", "accuracy", name), encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


# --- running -------------------------------------------------------------------------------------------------------

class Result:
    """One table: its answer, its error in sample, or why there is none; then what the page says of it."""

    def __init__(self, table):
        self.table, self.answer, self.in_sample, self.why = table, None, None, ""
        self.bars, self.classes, self.lines = [], [], []


def ask(program, folder, words, plot=None):
    """The JSON answer of `lockstep validate`, or the error as text."""
    with tempfile.TemporaryDirectory() as room:
        path = os.path.join(room, "answer.json")
        line = [program, "validate"] + words + ["-o", "json", "-f", path] + (["--plot", plot] if plot else [])
        done = subprocess.run(line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            return None, done.stderr.decode("utf-8", "replace").strip()
        with open(path, encoding="utf-8") as file:
            return json.load(file), ""


def words_of(table, cross):
    """Kind, file, and what is asked of it. --folds belongs to --cross-validate; --plan, --rl and --scaling have no folds."""
    options = table["options"].split()
    cross = cross and not {"--plan", "--rl", "--scaling"} & set(options)
    if not cross and "--folds" in options:
        del options[options.index("--folds"):options.index("--folds") + 2]
    return options + table["file"].split() + (["--cross-validate"] if cross else [])


def run(program, folder, table, out):
    result = Result(table)
    plot = os.path.join(out, table["key"] + ".svg")
    result.answer, result.why = ask(program, folder, words_of(table, True), plot)
    if result.answer:
        check_summary(table, result.answer)
        in_sample, _ = ask(program, folder, words_of(table, False))
        result.in_sample = in_sample["summary"]["geomean_error"] if in_sample else None
    return result


# --- figures -------------------------------------------------------------------------------------------------------

def quantile(values, share):
    values = sorted(values)
    place = share * (len(values) - 1)
    low = int(place)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (place - low)


def figures(rows):
    """The figures that follow from predicted and measured alone."""
    if not rows:
        return {}
    logs = [math.log(row["predicted"] / row["measured"]) for row in rows]
    off = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    return {
        "scored": len(rows),
        "geomean_error": math.expm1(math.fsum(map(abs, logs)) / len(rows)),
        "bias": math.expm1(math.fsum(logs) / len(rows)),
        "mape": math.fsum(off) / len(rows),
        "median_error": quantile(off, 0.5),
        "p90_error": quantile(off, 0.9),
        "within_5": sum(error <= 0.05 for error in off) / len(rows),
        "weighted_error": math.fsum(abs(row["predicted"] - row["measured"]) for row in rows)
                          / math.fsum(row["measured"] for row in rows),
    }


def scored(answer):
    return [row for row in answer["rows"] if row["scored"]]


def check_summary(table, answer):
    for name, value in figures(scored(answer)).items():
        said = answer["summary"].get(name)
        if said is None or abs(said - value) > 1e-9 * max(1, abs(value)):
            sys.exit("accuracy.py: %s: %s is %r by the program and %r here" % (table["key"], name, said, value))


def condition(text):
    """A test of a row: "part ~ gpt", "measured > 1e-5"."""
    parts = re.fullmatch(r"(\w+) (~|!~|>|<) (.+)", text)
    if not parts:
        sys.exit("accuracy.py: bars.csv: condition %r is not understood" % text)
    field, sign, value = parts.groups()
    if sign in "<>":
        bound = float(value)
        return lambda row: (row[field] > bound) == (sign == ">")
    return lambda row: bool(re.search(value, row[field] or "")) == (sign == "~")


def chosen(answer, where):
    tests = [condition(text) for text in where.split(" and ")] if where else []
    return [row for row in scored(answer) if all(test(row) for test in tests)]


def worst_stack(rows):
    by_stack = collections.defaultdict(list)
    for row in rows:
        by_stack[row["stack"]].append(row)
    errors = [figures(part)["geomean_error"] for part in by_stack.values() if len(part) >= ENOUGH]
    return max(errors) if errors else None


def remark_share(rows, figure):
    """The share of layouts that are searched, or that come in among the first three."""
    places = [re.match(r"(?:MISS: )?rank (\d+) of \d+, (in the space|not)", row["reason"] or "") for row in rows]
    if not places or not all(places):
        return None
    held = [place.group(2) == "in the space" if figure == "in_space" else int(place.group(1)) <= 3 for place in places]
    return sum(held) / len(held)


def figure_of(answer, bar):
    """Value and number of rows; the number is None where the figure is not over rows (ranks, series)."""
    rows, own = chosen(answer, bar["where"]), {}
    if bar["figure"] == "worst_stack_error":
        return worst_stack(rows), len(rows)
    if bar["figure"] in ("in_space", "in_top3"):
        return remark_share(rows, bar["figure"]), len(rows)
    own = figures(rows)
    if bar["figure"] in own or bar["where"]:
        return own.get(bar["figure"]), len(rows)
    return answer["summary"].get(bar["figure"]), None


def holds(value, bar):
    return value < float(bar["bar"]) if bar["sign"] == "<" else value > float(bar["bar"])


def classes_of(answer):
    """The groups that ranges are stated for: the division `class`, else the first."""
    groups = answer["groups"]
    if not groups:
        return []
    by = "class" if any(group["by"] == "class" for group in groups) else groups[0]["by"]
    return [group for group in groups if group["by"] == by and group["scored"] >= ENOUGH]


def range_holds(group):
    return (group["coverage"] is not None and 0.7 <= group["coverage"] <= 0.9
            and group["half_width"] <= 1.5 * group["median_error"])


# --- writing -------------------------------------------------------------------------------------------------------

def percent(value, signed=False):
    return "" if value is None else ("%+.1f %%" if signed else "%.1f %%") % (100 * value)


def number(name, value):
    if value is None:
        return "none"
    return "%.2f" % value if name == "kendall_tau" else percent(value)


def quantity(value, unit):
    if value is None:
        return ""
    steps = {"s": [(1, "s"), (1e-3, "ms"), (1e-6, "us")], "us": [(1e6, "s"), (1e3, "ms"), (1, "us")],
             "bytes": [(2.0 ** 30, "GiB"), (2.0 ** 20, "MiB")]}.get(unit, [(1, unit)])
    size, name = next((step for step in steps if value >= step[0]), steps[-1])
    return "%.3g %s" % (value / size, name)


def cell(text):
    text = "".join(c if c.isprintable() else "?" for c in str(text if text is not None else "")).replace("&", "&amp;")
    for sign in "\\|<>*`[]":
        text = text.replace(sign, "&#%d;" % ord(sign))
    return text


def table_of(heads, rows, right):
    """Markdown; `right`: how many columns, from the left, are text."""
    lines = ["| " + " | ".join(heads) + " |",
             "|" + "|".join("---" if i < right else "--:" for i in range(len(heads))) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def verdict(result, value, bar):
    if value is None:
        return ""
    in_sample = not result.answer["folds"] and not nothing_fitted(result)
    return ("held" if holds(value, bar) else "**missed**") + (", in sample" if in_sample else "")


def bar_row(result, bar):
    """What, rows, figure, bar, verdict."""
    name, limit = bar["figure"], bar["sign"] + " " + number(bar["figure"], float(bar["bar"] or "nan"))
    if name == "unit_test":
        there = os.path.exists(os.path.join(ROOT, bar["where"]))
        where = cell(bar["where"]) if there else "not there yet"
        return [cell(bar["what"]), "", where, "a unit test", "held" if there else ""]
    if not result.answer:
        return [cell(bar["what"]), "", "not there yet", limit, ""]
    value, count = figure_of(result.answer, bar)
    shown = "no such rows" if count == 0 else number(name, value)
    return [cell(bar["what"]), "" if count is None else str(count), shown, limit, verdict(result, value, bar)]


def short(results):
    lines = ["## In short", "", "Cross-validated figures against the bars that were set before.", ""]
    rows = [["[%s](#%s)" % (result.table["title"], result.table["key"])] + row
            for result in results for row in result.bars]
    lines += table_of(["table", "what", "rows", "figure", "bar", ""], rows, 2)
    held, classes = sum(row[5] == "held" for row in rows), [group for result in results for group in result.classes]
    return lines + ["%d of %d bars are held. The 80 %% range passes in %d of %d classes with %d rows or more." % (
        held, len(rows), sum(map(range_holds, classes)), len(classes), ENOUGH), ""]


def nothing_fitted(result):
    return bool(result.table["unfitted"]) and not result.answer["summary"]["parameters"]


def head_lines(result):
    summary, table = result.answer["summary"], result.table
    skipped = " %d rows could not be predicted." % summary["skipped"] if summary["skipped"] else ""
    suspect = " %d suspect rows are not scored." % summary["suspect"] if summary["suspect"] else ""
    folds = result.answer["folds"]
    lines = ["%d rows, %d scored.%s%s" % (summary["rows"], summary["scored"], skipped, suspect)]
    if nothing_fitted(result):
        lines += [table["unfitted"]]
    elif folds:
        lines += ["Cross-validated. What is left out together of the fit that predicts it: %s." % cell(folds)]
    else:
        lines += [NOT_HELD_OUT]
    lines += ["", "    " + "lockstep validate " + " ".join(words_of(table, True)), ""]
    return lines


def comparison(result):
    """The model, itself in sample, and the baselines."""
    answer = result.answer
    held_out = answer["folds"] and not nothing_fitted(result)
    rows = [["lockstep, cross-validated" if held_out else "lockstep"] + accuracy_cells(answer["summary"])]
    if result.in_sample is not None and held_out:
        rows.append(["lockstep, in sample", "", percent(result.in_sample)] + [""] * 5)
    for base in answer["baselines"]:
        rows.append([cell("baseline: " + base["name"])] + accuracy_cells(base))
    return table_of(["predictor", "scored", "error", "bias", "median", "90 % below", "within 5 %", "fitted"], rows, 1)


def accuracy_cells(summary):
    return [str(summary["scored"]), percent(summary["geomean_error"]), percent(summary["bias"], True),
            percent(summary["median_error"]), percent(summary["p90_error"]), percent(summary["within_5"]),
            str(summary["parameters"])]


def class_lines(groups):
    rows = [[cell(group["name"]), str(group["scored"]), percent(group["median_error"]), percent(group["coverage"]),
             percent(group["half_width"]), "held" if range_holds(group) else "**missed**"] for group in groups]
    if not rows:
        return []
    return (["The 80 % range, by " + cell(groups[0]["by"]) + " with %d rows or more:" % ENOUGH, ""]
            + table_of([cell(groups[0]["by"]), "rows", "median error", "inside", "half width", ""], rows, 1))


def part_lines(answer):
    lines = []
    for by in dict.fromkeys(group["by"] for group in answer["groups"]):
        groups = [group for group in answer["groups"] if group["by"] == by and group["scored"]]
        kept = sorted(groups, key=lambda group: -group["scored"])[:SHOWN]
        rows = [[cell(group["name"]), str(group["scored"]), percent(group["geomean_error"]),
                 percent(group["bias"], True), percent(group["p90_error"])] for group in groups if group in kept]
        if len(groups) > SHOWN:
            rest = sum(group["scored"] for group in groups) - sum(group["scored"] for group in kept)
            rows.append(["%d more" % (len(groups) - SHOWN), str(rest), "", "", ""])
        if len(groups) > 1:
            lines += table_of(["by " + cell(by), "scored", "error", "bias", "90 % below"], rows, 1)
    return lines


def worst_lines(answer):
    rows = sorted(scored(answer), key=lambda row: (-abs(math.log(row["predicted"] / row["measured"])), row["id"]))
    cells = []
    for row in rows[:WORST]:
        layout = row["layout"] if row["layout"] != row["id"] else ""
        words = (row["stack"], row["release"], row["model"], row["gpus"] or "", row["gpu"], layout, row["precision"])
        cells.append([cell(row["id"]), cell(" ".join(str(word) for word in words if word)),
                      quantity(row["predicted"], row["unit"]), quantity(row["measured"], row["unit"]),
                      percent(row["error"], True)])
    heads = ["row", "what", "predicted", "measured", "error"]
    return ["The rows with the largest errors:", ""] + table_of(heads, cells, 2) if cells else []


def published_lines(key, published):
    rows = [[cell(line[name]) for name in ("who", "what", "error", "source")] for line in published
            if key in line["tables"].split()]
    return ["Reported by others:", ""] + table_of(["who", "what", "error", "source"], rows, 4) if rows else []


def section(result, published):
    table = result.table
    lines = ['<a id="%s"></a>' % table["key"], "", "## " + table["title"], "", table["about"], ""]
    if not result.answer:
        return lines + ["Not there yet: " + cell(result.why.splitlines()[0] if result.why else "no answer"), ""]
    lines += head_lines(result)
    lines += table_of(["bar", "rows", "figure", "bar", ""], result.bars, 1) if result.bars else []
    lines += comparison(result)
    lines += ["![%s: predicted over measured](%s.svg)" % (table["title"], table["key"]), ""]
    return (lines + part_lines(result.answer) + class_lines(result.classes) + worst_lines(result.answer)
            + published_lines(table["key"], published))


def describe(result, bars, published):
    """Fills what the page says, and lets go of the rows."""
    result.bars = [bar_row(result, bar) for bar in bars if bar["table"] == result.table["key"]]
    result.classes = classes_of(result.answer) if result.answer else []
    result.lines = section(result, published)
    result.answer = None


# --- traced runs ---------------------------------------------------------------------------------------------------

def replay(program, folder, row):
    words = [program, "replay", row["traces"], "-o", "json"] + row["options"].split()
    made = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        sys.exit("accuracy.py: %s: %s" % (" ".join(words[1:]), made.stderr.strip()))
    return json.loads(made.stdout)["summary"]


def trace_section(program, folder):
    """Held-out steps and ranks of traced runs, predicted by `lockstep replay`."""
    rows = []
    for row in read_csv("traces.csv"):
        summary = replay(program, folder, row)
        error, baseline, bar = summary["geomean_error"], summary["baseline_error"], row["bar"]
        judged = "" if not bar else "held" if error < float(bar) else "**missed**"
        parts = percent(summary["parts_error"]) if summary["held_out"] == "steps" else ""
        rows.append([cell(row["what"]), "%d" % summary["predicted"], percent(error),
                     percent(baseline) if baseline is not None else "", parts,
                     "< " + percent(float(bar)) if bar else "", judged])
    head = ["run", "steps", "error", "mean of the others", "parts at most", "bar", ""]
    return ["## Traced runs", "",
            "A step of a trace, simulated with the times of the other steps (or, of one step, of the other ranks), beside its measured "
            "time (the method, \"Replay\"). Nothing is fitted. *Parts*: busy time of each stream, exposed communication and idle "
            "time, summed over the steps; the largest is shown.", ""] + table_of(head, rows, 1) + [
            "`lockstep replay TRACES [--overheads TRACES]`, in `$LOCKSTEP_DATA/traces`; `docs/accuracy/traces.csv` lists "
            "them. Lin et al. report 5.2 % (DLRM, 4 GPUs) and 3.0 % (Transformers) with shared overheads (arXiv 2404.12674), Lumos "
            "3.3 % (arXiv 2504.09307), on their own traces.", ""]


def page(results, traces):
    lines = INTRO.splitlines() + [""] + short(results)
    for result in results:
        lines += result.lines
    return "\n".join(lines + traces + REPRODUCE.splitlines()) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--only", nargs="+", metavar="KEY", help="tables to run; the page then has these alone")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "accuracy"), help="where full.md and the pictures go")
    args = parser.parse_args()
    data = os.environ.get("LOCKSTEP_DATA") or os.path.join(ROOT, "..", "shared", "data")
    folder = os.path.join(os.path.abspath(data), "measured")
    if not os.path.isdir(folder):
        sys.exit("accuracy.py: %s is not there; set LOCKSTEP_DATA" % folder)
    out = os.path.abspath(args.out)
    os.makedirs(out, exist_ok=True)
    results, bars, published = [], read_csv("bars.csv"), read_csv("published.csv")
    for table in read_csv("tables.csv"):
        if args.only and table["key"] not in args.only:
            continue
        print(table["key"], end=": ", flush=True)
        result = run(os.path.abspath(args.program), folder, table, out)
        print(percent(result.answer["summary"]["geomean_error"]) if result.answer else result.why, flush=True)
        describe(result, bars, published)
        results.append(result)
    traces = []
    if not args.only or "traces" in args.only:
        traces = trace_section(os.path.abspath(args.program), os.path.join(os.path.abspath(data), "traces"))
    path = os.path.join(out, "full.md")
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(page(results, traces))
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main()
