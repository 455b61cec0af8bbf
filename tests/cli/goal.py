#!/usr/bin/env python3
"""goal.py FILE [FOLDER]: reads a GOAL schedule as LogGOPSim's txt2bin does, and runs it: labels are defined before they are used,
dependencies have no circle, every send meets a receive of its size, and everything ends.

FOLDER has the same step as Chakra traces: what its collectives and messages move is what the schedule sends to other ranks. Prints a line
of what was read, or what is wrong; with --like ANSWER.json SHARE instead, whether LogGOPSim's time is that close to the predicted one.

simulate() runs a schedule with the semantics of LogGOPSim (spcl/LogGOPSim, src/LogGOPSim/LogGOPSim.cpp), whose clocks are those of CPUs
and NICs alone: what an operation leads to is released when it begins, and begins when its own CPU, and of a send its NIC, are free. A
message occupies the CPU and the NIC of its send's numbers on the rank where it arrives. Above S bytes a send ends with its receive.
"""
import collections
import heapq
import json
import re
import sys

import feeder

LINE = re.compile(r"(?:(?P<label>[a-zA-Z]\w*):\s*(?:calc (?P<ps>\d+)|(?P<kind>send|recv) (?P<bytes>\d+)b (?:to|from) (?P<peer>\d+) tag (?P<tag>\d+))"
                  r"(?: cpu (?P<cpu>\d+))?(?: nic (?P<nic>\d+))?|(?P<one>[a-zA-Z]\w*) (?P<how>i?requires) (?P<other>[a-zA-Z]\w*))$")


class Op:
    def __init__(self, match):
        self.label, self.kind, self.cpu, self.nic = match["label"], match["kind"], int(match["cpu"] or 0), int(match["nic"] or 0)
        self.ps, self.bytes = int(match["ps"] or 0), int(match["bytes"] or 0)
        self.peer, self.tag = (int(match["peer"]), int(match["tag"])) if self.kind else (None, None)
        self.waits, self.ends, self.starts = 0, [], []  # those that wait for the end, the start
        self.begin = self.end = None  # in simulate


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


ORDER = {"send": 1, "recv": 2, None: 3}


class LogGOPSim:
    def __init__(self, ranks, L, G, o=0, g=0, O=0, S=65535):
        self.ranks, self.L, self.G, self.o, self.g, self.O, self.S = ranks, L, G, o, g, O, S
        self.cpu, self.sent, self.got = collections.Counter(), collections.Counter(), collections.Counter()  # when they are free
        self.queue, self.stamp, self.done = [], 0, 0
        self.receives, self.unexpected = collections.defaultdict(collections.deque), collections.defaultdict(collections.deque)
        self.freed = collections.defaultdict(list)
        self.waits = {id(op): op.waits for ops in ranks for op in ops.values()}
        for rank, ops in enumerate(ranks):
            self.freed[rank] = [op for op in ops.values() if not op.waits]
            self.issue(rank)

    def push(self, time, stamp, kind, rank, op, source=None):
        heapq.heappush(self.queue, (time, stamp, kind, rank, op, source))

    def issue(self, rank):
        for op in sorted(self.freed.pop(rank, ()), key=lambda op: ORDER[op.kind]):
            time = self.cpu[rank, op.cpu]
            if op.kind == "send":
                time = max(time, self.sent[rank, op.nic])
            self.push(time, self.stamp, op.kind or "calc", rank, op)
            self.stamp += 1

    def release(self, rank, after):
        for op in after:
            self.waits[id(op)] -= 1
            if not self.waits[id(op)]:
                self.freed[rank].append(op)

    def ended(self, rank, op, time):
        op.end = time
        self.done += 1
        self.release(rank, op.ends)

    def run(self):
        while self.queue:
            time, stamp, kind, rank, op, source = heapq.heappop(self.queue)
            free = self.cpu[rank, op.cpu] if kind != "recv" else time
            if kind == "send":
                free = max(free, self.sent[rank, op.nic])
            elif kind == "message":
                free = max(free, self.got[rank, op.nic])
            if free > time:
                self.push(free, stamp, kind, rank, op, source)
                continue
            getattr(self, kind)(time, rank, op, source)
            for member in {rank, op.peer if op.kind == "recv" else source} - {None}:
                self.issue(member)
        return max(self.cpu.values())

    def calc(self, time, rank, op, _):
        op.begin = time
        self.cpu[rank, op.cpu] = time + op.ps
        self.release(rank, op.starts)
        self.ended(rank, op, time + op.ps)

    def send(self, time, rank, op, _):
        op.begin = time
        self.release(rank, op.starts)
        self.cpu[rank, op.cpu] = time + self.o + (op.bytes - 1) * self.O
        self.sent[rank, op.nic] = time + self.g + (op.bytes - 1) * self.G
        self.push(time + self.o + self.L, self.stamp, "message", op.peer, op, rank)
        self.stamp += 1
        if op.bytes <= self.S:
            self.ended(rank, op, time + self.o)

    def recv(self, time, rank, op, _):
        op.begin = time
        self.release(rank, op.starts)
        key = op.peer, rank, op.tag
        if not self.unexpected[key]:
            self.receives[key].append(op)
            return
        sent, arrived = self.unexpected[key].popleft()
        if op.bytes > self.S:
            self.acknowledge(time, op.peer, sent, op.cpu, op.nic)
        self.ended(rank, op, max(time, arrived))

    def message(self, time, rank, op, source):
        self.cpu[rank, op.cpu] = arrived = time + self.o + (op.bytes - 1) * max(self.O, self.G)
        self.got[rank, op.nic] = time + self.g + (op.bytes - 1) * self.G
        key = source, rank, op.tag
        if not self.receives[key]:
            self.unexpected[key].append((op, arrived))
            return
        if op.bytes > self.S:
            self.acknowledge(time, source, op, op.cpu, op.nic)
        self.ended(rank, self.receives[key].popleft(), arrived)

    def acknowledge(self, time, rank, op, cpu, nic):
        self.cpu[rank, cpu] = max(self.cpu[rank, cpu], time)
        self.sent[rank, nic] = max(self.sent[rank, nic], time)
        self.ended(rank, op, time)


def simulate(ranks, **parameters):
    """The time at which the last CPU is free; ValueError where an operation begins before what it requires has ended."""
    time = LogGOPSim(ranks, **parameters)
    last = time.run()
    count = sum(map(len, ranks))
    if time.done != count:
        raise ValueError(f"{count - time.done} of {count} operations never end")
    for rank, ops in enumerate(ranks):
        for op in ops.values():
            for after in op.ends:
                if after.begin < op.end:
                    raise ValueError(f"rank {rank}: {after.label} begins at {after.begin}, {op.label} ends at {op.end}")
    return last


def parameters(path):
    """L and G of the second line."""
    line = open(path, encoding="ascii").read(400).splitlines()[1]
    return {key: int(value) for key, value in re.findall(r"-([LG]) (\d+)", line)}


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
    others = [op for rank, ops in enumerate(ranks) for op in ops.values() if op.kind == "send" and op.peer != rank]
    sent, messages = sum(op.bytes for op in others), len(others)
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


TICKS = 1e13  # of a second


def check_order(ranks, folder):
    """A schedule that was simulated: node N, from bN or lN to lN, begins when the nodes that the Chakra traces of the step name have ended."""
    for rank, ops in enumerate(ranks):
        for node in feeder.read(f"{folder}/lockstep.{rank}.et"):
            first = ops.get(f"b{node.id}") or ops[f"l{node.id}"]
            for dep in node.data:
                if first.begin < ops[f"l{dep}"].end:
                    raise ValueError(f"rank {rank}: {node.name} {node.id} begins at {first.begin}, what it waits for, {dep}, ends at {ops[f'l{dep}'].end}")


def compare(path, folder, answer, within):
    """LogGOPSim's time against that of the prediction without the host's, which a schedule lacks; and communication costs."""
    told = json.load(open(answer, encoding="utf-8"))
    step = told["step_time_s"] - told["breakdown"]["host"]["exposed_s"]
    machine = parameters(path)
    once, twice, free = (simulate(read(path), L=machine["L"], G=times * machine["G"]) / TICKS for times in (1, 2, 0))
    ranks = read(path)
    simulate(ranks, L=machine["L"], G=machine["G"])
    check_order(ranks, folder)
    if not free < once < twice:
        raise ValueError(f"{free:.6f} s without a gap, {once:.6f} s with it, {twice:.6f} s with twice the gap")
    if abs(once / step - 1) > within:
        raise ValueError(f"{once:.6f} s in LogGOPSim, {step:.6f} s predicted")
    print(f"within {100 * within:.0f} %")


if __name__ == "__main__":
    try:
        if "--like" in sys.argv:
            compare(*sys.argv[1:3], sys.argv[4], float(sys.argv[5]))
        else:
            main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    except ValueError as error:
        print(error)
