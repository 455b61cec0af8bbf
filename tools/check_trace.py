#!/usr/bin/env python3
"""Checks a Chrome trace (.json or .json.gz): one summary line and exit status 0, or the violations and exit status 1.

What must hold: the slices of a thread nest, exactly as written and also as Perfetto reads them (ts and dur rounded to
nanoseconds one by one); every flow has one start and one later end, both inside a slice; every process and thread in
use has a name; no thread number is shared by two processes; counters are numbers in the order of time.
"""
import collections
import decimal
import gzip
import json
import math
import sys

MOST_SHOWN = 10


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)

    def refuse(word):
        raise ValueError("%s is no JSON number" % word)

    trace = json.loads(data.decode("utf-8"), parse_float=decimal.Decimal, parse_constant=refuse)
    return trace["traceEvents"] if isinstance(trace, dict) else trace


def picoseconds(value):
    """Microseconds, as written, in whole picoseconds."""
    scaled = decimal.Decimal(value) * 1000000
    if scaled != scaled.to_integral_value():
        raise ValueError("%s us is finer than a picosecond" % value)
    return int(scaled)


def as_perfetto(value):
    """Microseconds as Perfetto's importer reads them: to the nearest nanosecond, halves away from zero."""
    scaled = float(value) * 1000
    return int(math.floor(scaled + 0.5)) if scaled >= 0 else -int(math.floor(0.5 - scaled))


class Checker:
    def __init__(self):
        self.violations = []
        self.slices = collections.defaultdict(list)   # (pid, tid) -> [(ts, dur, event)] in the order of the file
        self.flows = collections.defaultdict(lambda: {"s": [], "f": []})
        self.counters = collections.defaultdict(list)
        self.processes, self.threads = {}, {}

    def wrong(self, text, *args):
        self.violations.append(text % args)

    def metadata(self, event):
        kind, args = event["name"], event["args"]
        key = event["pid"] if kind.startswith("process") else (event["pid"], event["tid"])
        if kind == "process_name":
            names = self.processes
        elif kind == "thread_name":
            names = self.threads
        elif kind in ("process_sort_index", "thread_sort_index", "process_labels"):
            return
        else:
            self.wrong("unknown metadata %r", kind)
            return
        if key in names:
            self.wrong("%s of %r is given twice", kind, key)
        names[key] = args["name"]

    def take(self, event):
        phase = event["ph"]
        if phase == "M":
            self.metadata(event)
        elif phase == "X":
            self.slices[event["pid"], event["tid"]].append((event["ts"], event["dur"], event))
        elif phase in "sf":
            self.flows[event["cat"], event["name"], event["id"]][phase].append(event)
            if phase == "f" and event.get("bp") != "e":
                self.wrong("the end of flow %r does not bind to its enclosing slice", event["id"])
        elif phase == "C":
            self.counters[event["pid"], event["name"]].append(event)
        else:
            self.wrong("unknown phase %r", phase)

    def nesting(self, key, spans, unit):
        """Spans (start, end, name), in the order of the file: sorted, and nested. Returns the greatest depth."""
        open_ends, depth, before = [], 0, None
        for start, end, name in spans:
            if end < start:
                self.wrong("%r on %r ends before it starts", name, key)
            if before is not None and start < before:
                self.wrong("%r on %r starts at %d %s, before the slice that stands before it", name, key, start, unit)
            before = start
            while open_ends and open_ends[-1][0] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1][0]:
                self.wrong("%r on %r ends at %d %s, %d after %r, in which it starts", name, key, end, unit,
                           end - open_ends[-1][0], open_ends[-1][1])
            open_ends.append((end, name))
            depth = max(depth, len(open_ends))
        return depth

    def all_slices(self):
        depth = 0
        for key, slices in self.slices.items():
            for convert, unit in ((picoseconds, "ps"), (as_perfetto, "ns")):
                spans = [(convert(ts), convert(ts) + convert(dur), event["name"]) for ts, dur, event in slices]
                depth = max(depth, self.nesting(key, spans, unit))
            exact = [event["args"] for _, _, event in slices if "start_ps" in event.get("args", {})]
            self.nesting(key, [(a["start_ps"], a["start_ps"] + a["dur_ps"], "exact times") for a in exact], "ps")
        return depth

    def inside(self, event):
        time = picoseconds(event["ts"])
        return any(picoseconds(ts) <= time <= picoseconds(ts) + picoseconds(dur)
                   for ts, dur, _ in self.near(event["pid"], event["tid"], time))

    def near(self, pid, tid, time):
        """Slices that could hold the time: those that start by then, from the last to the first."""
        slices = self.slices.get((pid, tid), [])
        low, high = 0, len(slices)
        while low < high:
            middle = (low + high) // 2
            if picoseconds(slices[middle][0]) <= time:
                low = middle + 1
            else:
                high = middle
        return (slices[i] for i in range(low - 1, -1, -1))

    def all_flows(self):
        for (_, _, number), ends in self.flows.items():
            if len(ends["s"]) != 1 or len(ends["f"]) != 1:
                self.wrong("flow %r has %d starts and %d ends", number, len(ends["s"]), len(ends["f"]))
                continue
            start, end = ends["s"][0], ends["f"][0]
            if picoseconds(start["ts"]) > picoseconds(end["ts"]):
                self.wrong("flow %r ends before it starts", number)
            for event in (start, end):
                if not self.inside(event):
                    self.wrong("flow %r has an end at %s us outside every slice of its thread", number, event["ts"])

    def all_counters(self):
        for key, points in self.counters.items():
            times = [picoseconds(point["ts"]) for point in points]
            if times != sorted(times):
                self.wrong("counter %r is not in the order of time", key)
            for point in points:
                values = list(point["args"].values())
                if not values or any(isinstance(v, (str, bool)) or v is None for v in values):
                    self.wrong("counter %r has a value that is no number", key)

    def all_names(self):
        ends = [event for pair in self.flows.values() for kind in pair.values() for event in kind]
        threads = set(self.slices) | {(event["pid"], event["tid"]) for event in ends}
        for pid, tid in sorted(threads):
            if (pid, tid) not in self.threads:
                self.wrong("thread %r of process %r has no name", tid, pid)
        for pid in sorted({pid for pid, _ in threads} | {pid for pid, _ in self.counters}):
            if pid not in self.processes:
                self.wrong("process %r has no name", pid)
        shared = collections.Counter(tid for _, tid in self.threads)
        for tid, count in shared.items():
            if count > 1:
                self.wrong("thread number %r stands in %d processes", tid, count)

    def summary(self):
        spans = [span for slices in self.slices.values() for span in slices]
        last = max((picoseconds(ts) + picoseconds(dur) for ts, dur, _ in spans), default=0)
        return "%d processes, %d threads, %d slices, %d flows, %d counter points, ends at %.6f s" % (
            len(self.processes), len(self.threads), len(spans), len(self.flows),
            sum(len(points) for points in self.counters.values()), last / 1e12)

    def check(self, events):
        for event in events:
            self.take(event)
        depth = self.all_slices()
        self.all_flows()
        self.all_counters()
        self.all_names()
        return "%s, depth %d" % (self.summary(), depth)


def main(arguments):
    if len(arguments) != 2:
        print("usage: check_trace.py TRACE.json[.gz]", file=sys.stderr)
        return 2
    checker = Checker()
    try:
        summary = checker.check(load(arguments[1]))
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, decimal.DecimalException) as problem:
        print("%s: cannot be read as a trace: %r" % (arguments[1], problem), file=sys.stderr)
        return 1
    for violation in checker.violations[:MOST_SHOWN]:
        print("%s: %s" % (arguments[1], violation), file=sys.stderr)
    if checker.violations:
        print("%s: %d violations" % (arguments[1], len(checker.violations)), file=sys.stderr)
        return 1
    print("%s: %s" % (arguments[1], summary))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
