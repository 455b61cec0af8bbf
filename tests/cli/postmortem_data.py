#!/usr/bin/env python3
"""postmortem_data.py: what a run leaves when it dies or hangs, made by hand in the forms of PyTorch.

    postmortem_data.py snapshot FILE [--protocol N] [--json] [--no-frames] [--expandable]
    postmortem_data.py dumps FOLDER --ranks N [--protocol N] [--json] [--case CASE] [--without RANK]

CASE of dumps: absent (rank 3 does not enter all_reduce 7), mismatch (rank 1 enters it with another size), done (all completed),
network (all entered it), late (as absent; rank 2 has not
noticed yet that the collective before it completed), circle (ranks 0 and 1 enter two groups in different orders), pipeline (rank 1 does not post its receive).
"""
import argparse
import json
import os
import pickle

MIB = 1 << 20


def frame(filename, line, name):
    return {"filename": filename, "line": line, "name": name}


TORCH = "/usr/lib/python3/dist-packages/torch/"
MAIN = frame("/home/me/train.py", 90, "main")
STACKS = {
    "parameters": [frame(TORCH + "nn/modules/linear.py", 99, "__init__"), frame("/home/me/model.py", 12, "__init__"), MAIN],
    "activations": [frame(TORCH + "nn/modules/linear.py", 116, "forward"), frame(TORCH + "nn/modules/module.py", 1511, "_call_impl"),
                    frame("/home/me/model.py", 31, "forward"), MAIN],
    "optimizer": [frame(TORCH + "optim/adamw.py", 120, "_init_group"), frame(TORCH + "optim/adamw.py", 172, "step"),
                  frame("/home/me/train.py", 71, "step"), MAIN],
    "loss": [frame(TORCH + "nn/functional.py", 3029, "cross_entropy"), frame("/home/me/train.py", 64, "step"), MAIN],
    "backward": [],
}


def snapshot(frames, expandable):
    """100 MiB of parameters, 100 of gradients, 384 of activations and 10 of a loss, which are freed; then 200 of states and 128 of
    activations. A request of 300 MiB fails with 60 MiB free on the device and parts of 150 and 100 MiB free in segments in use."""
    trace, at = [], 0x7f0000000000
    live, address = {}, {}

    def event(action, size, stack=(), **more):
        trace.append({"action": action, "size": size, "stream": 0, "time_us": 1_700_000_000_000_000 + 1000 * len(trace),
                      "frames": list(stack) if frames else [], **more})

    def alloc(name, kind, size):
        address[name] = at + len(address) * 1024 * MIB
        live[name] = (size, STACKS[kind])
        event("alloc", size, STACKS[kind], addr=address[name])

    def free(name):
        size, _ = live.pop(name)
        event("free_requested", size, addr=address[name])
        event("free_completed", size, addr=address[name])

    event("segment_alloc", 400 * MIB, addr=at)
    alloc("weights", "parameters", 100 * MIB)
    alloc("a1", "activations", 192 * MIB)
    alloc("a2", "activations", 192 * MIB)
    alloc("loss", "loss", 10 * MIB)
    alloc("gradients", "backward", 100 * MIB)
    free("loss")
    free("a1")
    free("a2")
    alloc("states", "optimizer", 200 * MIB)
    alloc("a3", "activations", 128 * MIB)
    event("segment_alloc", 450 * MIB, addr=at + 1)
    trace.append({"action": "oom", "size": 300 * MIB, "stream": 0, "device_free": 60 * MIB, "time_us": 1_700_000_000_500_000,
                  "frames": STACKS["activations"] if frames else []})
    event("snapshot", 0, addr=0)

    def block(name):
        size, stack = live[name]
        return {"address": address[name], "size": size, "requested_size": size - 100, "state": "active_allocated",
                "frames": stack if frames else []}

    def hole(size):
        return {"address": 7, "size": size * MIB, "requested_size": 0, "state": "inactive", "frames": []}

    def segment(total, blocks):
        return {"device": 0, "address": at, "total_size": total * MIB, "allocated_size": 0, "active_size": 0, "requested_size": 0,
                "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": expandable, "frames": [],
                "blocks": blocks}

    segments = [segment(350, [block("weights"), hole(150), block("gradients")]),
                segment(428, [block("states"), hole(100), block("a3")])]
    return {"segments": segments, "device_traces": [trace, []], "allocator_settings": {"expandable_segments": expandable},
            "external_annotations": []}


FRAMES = [frame(TORCH + "distributed/distributed_c10d.py", 2501, "all_reduce"), frame("/home/me/train.py", 88, "step"), MAIN]
ELSEWHERE = [frame(TORCH + "distributed/distributed_c10d.py", 2501, "all_gather"), frame("/home/me/data.py", 12, "shuffle"), MAIN]
BEGIN = 1_764_424_802_000_000_000


def entry(number, group, name, state, sizes=((4096, 1024),), frames=FRAMES, after=0.0, p2p=False, dtype="BFloat16"):
    return {"record_id": number, "pg_id": int(group[0]), "process_group": group, "collective_seq_id": 0 if p2p else number,
            "p2p_seq_id": number if p2p else 0, "op_id": number, "profiling_name": "nccl:" + name,
            "time_created_ns": BEGIN + number * 1_000_000_000 + int(after * 1e9), "duration_ms": None,
            "input_sizes": [list(s) for s in sizes], "input_dtypes": [dtype], "output_sizes": [list(s) for s in sizes],
            "output_dtypes": [dtype], "state": state, "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
            "retired": state == "completed", "timeout_ms": 600000, "is_p2p": p2p, "frames": frames}


def dump(rank, world, case):
    default = ("0", "default_pg")
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    entries = [entry(n, default, "all_reduce", "completed") for n in range(1, 7)]
    if case == "circle" and rank < 2:
        groups["1"] = {"name": "1", "desc": "tp", "ranks": "[0, 1]"}
        groups["2"] = {"name": "2", "desc": "cp", "ranks": "[0, 1]"}
        entries.append(entry(7, (str(1 + rank), ("tp", "cp")[rank]), "all_gather", "scheduled"))
    elif case == "pipeline":
        if rank == 0:
            entries.append(entry(1, default, "send 0->1", "started", p2p=True))
    elif case == "done":
        entries.append(entry(7, default, "all_reduce", "completed"))
    elif case in ("absent", "late") and rank == 3:
        entries.append(entry(6, default, "all_gather", "completed", frames=ELSEWHERE, after=0.5))
        entries[-1]["process_group"], entries[-1]["pg_id"] = ("5", "loader"), 5
        groups["5"] = {"name": "5", "desc": "loader", "ranks": "[3]"}
    elif case != "circle":
        sizes = ((8,),) if case == "mismatch" and rank == 1 else ((4096, 1024),)
        entries.append(entry(7, default, "all_reduce", "started", sizes=sizes, after=rank * 0.001))
    if case == "late" and rank == 2:
        entries[5].update(state="started", retired=False)
    status = {"last_enqueued_collective": 7, "last_started_collective": 7, "last_completed_collective": 6}
    return {"version": "2.10", "nccl_version": "2.27.3", "pg_config": groups, "pg_status": {"0": status}, "entries": entries}


def write(path, value, args):
    if args.json:
        with open(path, "w", encoding="utf-8") as out:
            json.dump(value, out)
        return
    with open(path, "wb") as out:
        pickle.dump(value, out, protocol=args.protocol)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["snapshot", "dumps"])
    parser.add_argument("path")
    parser.add_argument("--protocol", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-frames", action="store_true")
    parser.add_argument("--expandable", action="store_true")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--case", default="absent")
    parser.add_argument("--without", type=int, action="append", default=[])
    args = parser.parse_args()
    if args.what == "snapshot":
        write(args.path, snapshot(not args.no_frames, args.expandable), args)
        return
    os.makedirs(args.path, exist_ok=True)
    for rank in range(args.ranks):
        if rank not in args.without:
            write(os.path.join(args.path, f"nccl_trace_rank_{rank}"), dump(rank, args.ranks, args.case), args)


main()
