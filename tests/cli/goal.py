#!/usr/bin/env python3
"""goal.py FILE [FOLDER]: reads a GOAL schedule as LogGOPSim's txt2bin does, and runs it: labels are defined before they are used,
dependencies have no circle, every send meets a receive of its size, and everything ends.

FOLDER has the same step as Chakra traces: what its collectives and messages move is what the schedule sends. Prints a line of what
was read, or what is wrong; with --ps also the longest sum of times on one CPU.
"""
import collections
import re
import sys

import feeder

LINE = re.compile(r"(?:(?P<label>[a-zA-Z]\w*):\s*(?:calc (?P<ps>\d+)|(?P<kind>send|recv) (?P<bytes>\d+)b (?:to|from) (?P<peer>\d+) tag (?P<tag>\d+))"
                  r"(?: cpu (?P<cpu>\d+))?|(?P<one>[a-zA-Z]\w*) (?P<how>i?requires) (?P<other>[a-zA-Z]\w*))$")


class Op:
    def __init__(self, match):
        self.label, self.kind, self.cpu = match["label"], match["kind"], int(match["cpu"] or 0)
        self.ps, self.bytes = int(match["ps"] or 0), int(match["bytes"] or 0)
        self.peer, self.tag = (int(match["peer"]), int(match["tag"])) if self.kind else (None, None)
        self.waits, self.ends, self.starts = 0, [], []  # those that wait for the end, the start


def read(path):
    ranks, world, ops = {}, None, None
    for number, line in enumerate(open(path, encoding="ascii"), 1):
        line = line.rstrip("\n")
        if not line or line.startswith("//"):
            continue
        if line.startswith("num_ranks "):
            world = int(line.split()[1])
        elif line.startswith("rank "):
            ops = ranks[int(line.split()[1])] = {}
        elif line == "}":
            ops = None
        else:
            match = LINE.match(line)
            if not match or ops is None:
                raise ValueError(f"line {number}: {line}")
            if match["label"]:
                if match["label"] in ops:
                    raise ValueError(f"line {number}: {match['label']} is there twice")
                ops[match["label"]] = Op(match)
            else:
                if match["one"] not in ops or match["other"] not in ops:
                    raise ValueError(f"line {number}: a label is not defined")
                ops[match["one"]].waits += 1
                other = ops[match["other"]]
                (other.ends if match["how"] == "requires" else other.starts).append(ops[match["one"]])
    if sorted(ranks) != list(range(world or 0)):
        raise ValueError(f"num_ranks {world}, {len(ranks)} ranks")
    return [ranks[rank] for rank in range(world)]


def run(ranks):
    """Issues what is ready until nothing is; how many operations end. Sends wait for their receives, as rendezvous messages do."""
    ready = [(rank, op) for rank, ops in enumerate(ranks) for op in ops.values() if not op.waits]
    sends, receives, done = collections.defaultdict(collections.deque), collections.defaultdict(collections.deque), 0

    def release(rank, after):
        for op in after:
            op.waits -= 1
            if not op.waits:
                ready.append((rank, op))

    while ready:
        rank, op = ready.pop()
        release(rank, op.starts)
        if not op.kind:
            done += 1
            release(rank, op.ends)
            continue
        key = (rank, op.peer, op.tag) if op.kind == "send" else (op.peer, rank, op.tag)
        (sends if op.kind == "send" else receives)[key].append(op)
        if sends[key] and receives[key]:
            sent, received = sends[key].popleft(), receives[key].popleft()
            if sent.bytes != received.bytes:
                raise ValueError(f"rank {key[0]} sends {sent.bytes} B to rank {key[1]}, which receives {received.bytes} B: {sent.label}, {received.label}")
            done += 2
            release(key[0], sent.ends)
            release(key[1], received.ends)
    return done


def chakra_bytes(folder, world):
    """Bytes that the collectives and messages of Chakra traces move; parts are whole bytes, at least one."""
    total = 0
    for rank in range(world):
        for node in feeder.read(f"{folder}/lockstep.{rank}.et"):
            size = node.attributes.get("comm_size")
            if node.type == feeder.SEND:
                total += size
            elif node.type == feeder.COLLECTIVE:
                n, kind = node.attributes["pg_size"], feeder.KNOWN[node.attributes["comm_type"]]
                whole = size * n if kind == "all_gather" else size
                times = {"all_reduce": 2 * (n - 1), "broadcast": n - 1}.get(kind, n - 1)
                total += times * (max(whole, n) if kind != "broadcast" else whole) / n
    return total


def main(path, folder):
    ranks = read(path)
    count = sum(map(len, ranks))
    sent = sum(op.bytes for ops in ranks for op in ops.values() if op.kind == "send")
    messages = sum(op.kind == "send" for ops in ranks for op in ops.values())
    done = run(ranks)
    if done != count:
        raise ValueError(f"{count - done} of {count} operations never end")
    same = ""
    if folder:
        expected = chakra_bytes(folder, len(ranks))
        same = ", bytes of the step" if abs(sent - expected) <= 1e-6 * expected else f", {sent} B and not {expected:.0f} B"
    print(f"{len(ranks)} ranks, {count} operations, {messages} messages: all done{same}")
    longest = collections.Counter()
    for rank, ops in enumerate(ranks):
        for op in ops.values():
            longest[rank, op.cpu] += op.ps
    return max(longest.values())


if __name__ == "__main__":
    try:
        paths = [word for word in sys.argv[1:] if not word.startswith("-")]
        ps = main(paths[0], paths[1] if len(paths) > 1 else None)
        if "--ps" in sys.argv:
            print(ps)
    except ValueError as error:
        print(error)
