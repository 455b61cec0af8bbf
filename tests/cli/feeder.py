#!/usr/bin/env python3
"""feeder.py FOLDER: reads Chakra traces as ASTRA-sim's feeder and its workload layer do, and issues them. Its rules: every dependency is
an earlier node of the file; attributes have the types that are read; every group that a node names is in comm_group.json, and its members
call the same collectives in the same order; the k-th send with a tag has the size of the k-th receive; everything ends.

A rank has one computation and one communication under way (receives apart), the lowest id that is ready first; a collective starts
when all its members have reached it, a receive ends with the send of its tag. Prints a line of what was read, or what is wrong.
"""
import collections
import glob
import heapq
import json
import os
import re
import sys

COMP, SEND, RECV, COLLECTIVE = 4, 5, 6, 7
INTEGERS = {5: "int32", 7: "int32", 9: "int64", 11: "uint32", 13: "uint64", 27: "bool"}
TAGS = 500_000_000  # those of messages lie below, those of the parts of collectives above (astra-sim/system/Sys.hh)
PIECES = 4  # preferred-dataset-splits of system.json: a collective of empty pieces never ends
KNOWN = {0: "all_reduce", 2: "all_gather", 5: "broadcast", 6: "all_to_all", 7: "reduce_scatter"}
NEEDED = {COLLECTIVE: ("comm_type", "comm_size"), SEND: ("comm_src", "comm_dst", "comm_size", "comm_tag"),
          RECV: ("comm_src", "comm_size", "comm_tag"), COMP: ("num_ops", "tensor_size")}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"wire type {key & 7}")
        yield key >> 3, value


def packed(data):
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


class Node:
    def __init__(self, data):
        self.id, self.name, self.type, self.deps, self.data, self.us, self.attributes = 0, "", 0, set(), set(), 0, {}
        for number, value in fields(data):
            if number == 1:
                self.id = value
            elif number == 2:
                self.name = value.decode()
            elif number == 3:
                self.type = value
            elif number in (4, 5):
                deps = set(packed(value)) if isinstance(value, bytes) else {value}
                self.deps |= deps
                self.data |= deps if number == 5 else set()
            elif number == 7:
                self.us = value
            elif number == 10:
                self.attribute(value)

    def attribute(self, data):
        name = kind = value = None
        for number, item in fields(data):
            if number == 1:
                name = item.decode()
            else:
                kind, value = number, item.decode() if number == 29 else item
        if name != "pg_name" and kind not in INTEGERS:
            raise ValueError(f"node {self.id}: {name} is not an integer")
        self.attributes[name] = value


def read(path):
    data, at, records = open(path, "rb").read(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        records.append(data[at:at + size])
        at += size
    if not any(number == 1 and isinstance(value, bytes) for number, value in fields(records[0])):
        raise ValueError("the first record is not GlobalMetadata")
    return [Node(record) for record in records[1:]]


def check_rank(rank, nodes, groups, world, roofline):
    ids = {node.id for node in nodes}
    if not nodes:
        raise ValueError(f"rank {rank}: no node to begin with")
    if len(ids) != len(nodes):
        raise ValueError(f"rank {rank}: an id twice")
    for node in nodes:
        for name in NEEDED.get(node.type, ()):
            if name not in node.attributes:
                raise ValueError(f"rank {rank}, node {node.id}: no {name}")
        if node.deps and max(node.deps) >= node.id:
            raise ValueError(f"rank {rank}, node {node.id}: waits for itself or a later node")
        if node.deps - ids:
            raise ValueError(f"rank {rank}, node {node.id}: waits for {sorted(node.deps - ids)}, which are not there")
        if node.type == COMP and node.attributes["num_ops"] < 1:
            raise ValueError(f"rank {rank}, node {node.id}: num_ops 0")
        if node.type == COMP and roofline and node.attributes["tensor_size"] < 1:
            raise ValueError(f"rank {rank}, node {node.id}: tensor_size 0, which a roofline leaves out")
        if node.type != COMP and node.attributes["comm_size"] < PIECES:
            raise ValueError(f"rank {rank}, node {node.id}: communication of {node.attributes['comm_size']} bytes in {PIECES} pieces")
        if node.type != COMP and node.attributes["is_cpu_op"]:
            raise ValueError(f"rank {rank}, node {node.id}: communication of the host")
        if node.type == SEND and node.attributes["comm_src"] != rank:
            raise ValueError(f"rank {rank}, node {node.id}: sends for rank {node.attributes['comm_src']}")
        if node.type == COLLECTIVE:
            group = node.attributes["pg_name"]
            if not re.fullmatch(r"\d+", group):
                raise ValueError(f"rank {rank}, node {node.id}: the name of group {group} is not a number")
            if node.attributes["comm_type"] not in KNOWN:
                raise ValueError(f"rank {rank}, node {node.id}: collective {node.attributes['comm_type']}")
            if group not in groups:
                raise ValueError(f"rank {rank}, node {node.id}: group {group} is not in comm_group.json")
            if rank not in groups[group]:
                raise ValueError(f"rank {rank}, node {node.id}: not in group {group}")
            if node.attributes["pg_size"] != len(groups[group]):
                raise ValueError(f"rank {rank}, node {node.id}: group {group} has another size")
        elif node.type in (SEND, RECV):
            peer = node.attributes["comm_dst" if node.type == SEND else "comm_src"]
            if not 0 <= peer < world or peer == rank or not 0 <= node.attributes["comm_tag"] < TAGS:
                raise ValueError(f"rank {rank}, node {node.id}: rank {peer}, tag {node.attributes['comm_tag']}")


def check_collectives(traces, groups):
    """All members of a group call the same collectives of it in the same order, and a group that is listed is used."""
    for group, members in groups.items():
        calls = {rank: [(KNOWN[node.attributes["comm_type"]], node.attributes["comm_size"]) for node in traces[rank]
                        if node.type == COLLECTIVE and node.attributes["pg_name"] == group] for rank in members}
        first = min(members)
        if not calls[first]:
            raise ValueError(f"group {group}: rank {first} calls nothing of it")
        for rank, own in calls.items():
            if len(own) != len(calls[first]):
                raise ValueError(f"group {group}: {len(own)} collectives on rank {rank}, {len(calls[first])} on rank {first}")
            for at, (one, other) in enumerate(zip(own, calls[first])):
                if one != other:
                    raise ValueError(f"group {group}, collective {at}: {one} on rank {rank}, {other} on rank {first}")


def check_messages(traces):
    """The k-th send from one rank to another with a tag has the size of the k-th receive."""
    sent, received = collections.defaultdict(list), collections.defaultdict(list)
    for rank, nodes in enumerate(traces):
        for node in nodes:
            if node.type == SEND:
                sent[rank, node.attributes["comm_dst"], node.attributes["comm_tag"]].append(node.attributes["comm_size"])
            elif node.type == RECV:
                received[node.attributes["comm_src"], rank, node.attributes["comm_tag"]].append(node.attributes["comm_size"])
    for key in sorted(set(sent) | set(received)):
        if sent[key] != received[key]:
            raise ValueError(f"rank {key[0]} to rank {key[1]}, tag {key[2]}: {len(sent[key])} sends, {len(received[key])} receives, or other sizes")


class Rank:
    def __init__(self, nodes):
        self.nodes = {node.id: node for node in nodes}
        self.waits = {node.id: len(node.deps) for node in nodes}
        self.next = collections.defaultdict(list)
        for node in nodes:
            for dep in node.deps:
                self.next[dep].append(node.id)
        self.ready = [node.id for node in nodes if not node.deps]
        heapq.heapify(self.ready)
        self.busy = {}  # "comp" and "comm": what is under way

    def start(self):
        """What starts now, lowest id first."""
        held, begun = [], []
        while self.ready:
            node = self.nodes[heapq.heappop(self.ready)]
            unit = None if node.type == RECV else "comp" if node.type == COMP else "comm"
            if unit in self.busy:
                held.append(node.id)
                continue
            if unit:
                self.busy[unit] = node.id
            begun.append(node)
        self.ready = held
        heapq.heapify(self.ready)
        return begun

    def end(self, node):
        for unit, under_way in list(self.busy.items()):
            if under_way == node.id:
                del self.busy[unit]
        for after in self.next[node.id]:
            self.waits[after] -= 1
            if not self.waits[after]:
                heapq.heappush(self.ready, after)


def issue(ranks, groups):
    """Runs everything; a list of what could not start."""
    meeting, sends, receives, done = collections.defaultdict(dict), collections.Counter(), {}, 0
    moved = True
    while moved:
        moved = False
        for number, rank in enumerate(ranks):
            for node in rank.start():
                moved = True
                if node.type == COMP:
                    rank.end(node)
                    done += 1
                elif node.type == SEND:
                    sends[number, node.attributes["comm_dst"], node.attributes["comm_tag"]] += 1
                    rank.end(node)
                    done += 1
                elif node.type == RECV:
                    receives.setdefault((node.attributes["comm_src"], number, node.attributes["comm_tag"]), []).append(node)
                else:
                    group = node.attributes["pg_name"]
                    meeting[group][number] = node
                    if len(meeting[group]) < len(groups[group]):
                        continue
                    kinds = {(n.attributes["comm_type"], n.attributes["comm_size"]) for n in meeting[group].values()}
                    if len(kinds) > 1:
                        raise ValueError(f"group {group}: its ranks call different collectives: {sorted(kinds)}")
                    for member, one in meeting.pop(group).items():
                        ranks[member].end(one)
                        done += 1
        for key in list(receives):
            while receives[key] and sends[key]:
                sends[key] -= 1
                ranks[key[1]].end(receives[key].pop(0))
                done += 1
                moved = True
    return done, sum(sends.values())


def network(folder):
    """Its dimensions and how many ranks they hold."""
    text = open(os.path.join(folder, "network.yml"), encoding="utf-8").read()
    found = {key: re.findall(r"[\w.]+", value) for key, value in re.findall(r"(\w+): \[(.*)\]", text)}
    if set(found) != {"topology", "npus_count", "bandwidth", "latency"}:
        raise ValueError(f"network.yml: keys {sorted(found)}")
    if len({len(value) for value in found.values()}) != 1:
        raise ValueError("network.yml: dimensions differ")
    if set(found["topology"]) - {"Ring", "FullyConnected", "Switch"}:
        raise ValueError(f"network.yml: topology {found['topology']}")
    if any(float(value) <= 0 for key in ("bandwidth", "latency") for value in found[key]):
        raise ValueError("network.yml: a rate or a latency of 0")
    ranks = 1
    for count in found["npus_count"]:
        ranks *= int(count)
        if int(count) < 2 and len(found["npus_count"]) > 1:
            raise ValueError("network.yml: a dimension of one rank")
    return len(found["topology"]), ranks


SYSTEM = {"scheduling-policy": ("LIFO", "FIFO", "EXPLICIT"), "collective-optimization": ("baseline", "localBWAware"),
          "roofline-enabled": (0, 1), "replay-only": (0, 1)}
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
WAYS = ("ring", "direct", "doubleBinaryTree", "halvingDoubling")


def check_machine(folder, dimensions):
    """system.json and memory.json: keys, types, and a way of each collective for each dimension; whether compute is a roofline."""
    system = json.load(open(os.path.join(folder, "system.json"), encoding="utf-8"))
    for key, allowed in SYSTEM.items():
        if system[key] not in allowed:
            raise ValueError(f"system.json: {key} {system[key]}")
    for name in COLLECTIVES:
        ways = system[f"{name}-implementation"]
        if len(ways) != dimensions or set(ways) - set(WAYS):
            raise ValueError(f"system.json: {name} has {ways} for {dimensions} dimensions")
    for key in ("endpoint-delay", "active-chunks-per-dimension", "preferred-dataset-splits"):
        if not isinstance(system[key], int) or system[key] < 1:
            raise ValueError(f"system.json: {key} {system[key]}")
    if system["preferred-dataset-splits"] != PIECES:
        raise ValueError(f"system.json: {system['preferred-dataset-splits']} pieces of a collective")
    if system["local-mem-bw"] <= 0 or system["peak-perf"] <= 0:
        raise ValueError("system.json: a device without a peak")
    if json.load(open(os.path.join(folder, "memory.json"), encoding="utf-8")) != {"memory-type": "NO_MEMORY_EXPANSION"}:
        raise ValueError("memory.json: memory that the nodes do not use")
    return system["roofline-enabled"] == 1


def main(folder):
    paths = glob.glob(os.path.join(folder, "lockstep.*.et"))
    traces = [read(os.path.join(folder, f"lockstep.{rank}.et")) for rank in range(len(paths))]
    groups = {key: set(value) for key, value in json.load(open(os.path.join(folder, "comm_group.json"), encoding="utf-8")).items()}
    if any(int(key) < 1 or len(value) < 2 for key, value in groups.items()):
        raise ValueError("comm_group.json: a group without a number, or of one rank")
    roofline = False
    if os.path.exists(os.path.join(folder, "network.yml")):  # the graph names its cluster
        dimensions, ranks = network(folder)
        if ranks != len(traces):
            raise ValueError("network.yml: another number of ranks")
        roofline = check_machine(folder, dimensions)
    for rank, nodes in enumerate(traces):
        check_rank(rank, nodes, groups, len(traces), roofline)
    check_collectives(traces, groups)
    check_messages(traces)
    nodes = sum(map(len, traces))
    done, unread = issue([Rank(trace) for trace in traces], groups)
    host = sum(node.attributes["is_cpu_op"] for trace in traces for node in trace)
    longest = max(sum(node.us for node in trace if node.type == COMP) for trace in traces)
    print(f"{len(traces)} ranks, {nodes} nodes, {host} of hosts, {len(groups)} groups: "
          + ("all done" if done == nodes and not unread else f"{nodes - done} hang, {unread} messages unread"))
    return longest


if __name__ == "__main__":
    try:
        longest = main(sys.argv[1])
        if "--us" in sys.argv:
            print(longest)
    except ValueError as error:
        print(error)
