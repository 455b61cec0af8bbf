"""Writes one run as each of AMD's profilers does: python3 rocm.py FILE FORM [GPUS [PROCESSES]], the last of sdk and rocpd. Three steps of 10 ms, marked by ranges: a
product of 4 ms, an all-reduce of 3 ms on another stream, a copy of 1 ms. FORM is

    sdk      rocprofv3's JSON (ROCm/rocprofiler-sdk, source/lib/output/generateJSON.cpp)
    chrome   rocprof's results.json (ROCm/rocprofiler, bin/sqlitedb.py)
    rocpd3   rocprofv3's database, schema 3: times in the rows
    rocpd4   the same, schema 4: times and tracks in tables of their own
    rpd      rocmProfileData's database
"""
import json
import os
import sqlite3
import sys

BASE, MS, PID, TID = 5_000_000_000_000, 1_000_000, 4242, 4243
GEMM, RCCL = "Cijk_Ailk_Bljk_BBS_BH_MT128x128x32", "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"


def run(gpus):
    """(kind, name, device, stream, start, end, correlation) of work and calls, in nanoseconds."""
    out, corr = [], 0
    for step in range(3):
        at = BASE + 10 * step * MS
        out.append(("range", f"ProfilerStep#{step}", 0, 0, at, at + 10 * MS, 0))
        for gpu in range(gpus):
            for kind, name, call, stream, start, length in (("kernel", GEMM, "hipExtModuleLaunchKernel", 0, 1, 4),
                                                            ("kernel", RCCL, "hipLaunchKernel", 1, 5, 3),
                                                            ("copy", "DEVICE_TO_HOST", "hipMemcpyWithStream", 0, 8, 1)):
                corr += 1
                out.append((kind, name, gpu, stream, at + start * MS, at + (start + length) * MS, corr))
                out.append(("call", call, gpu, 0, at + corr % 9 * 20_000, at + corr % 9 * 20_000 + 8_000, corr))
    return out


def sdk(path, events, processes):
    kinds = [{"kind": "NONE", "operations": []}, {"kind": "HIP_RUNTIME_API", "operations": []},
             {"kind": "MARKER_CORE_API", "operations": ["roctxThreadRangeA"]}, {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_DEVICE_TO_HOST"]}]
    records = {"kernel_dispatch": [], "hip_api": [], "marker_api": [], "memory_copy": []}
    markers = []
    for n, (kind, name, gpu, stream, start, end, corr) in enumerate(events):
        row = {"start_timestamp": start, "end_timestamp": end, "thread_id": TID, "correlation_id": {"internal": corr or 1000 + n, "external": 0}}
        if kind == "kernel":
            row.update(stream_id={"handle": stream}, dispatch_info={"agent_id": {"handle": 7 + gpu}, "queue_id": {"handle": 1}, "kernel_id": 1 + (name == RCCL),
                       "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 4096, "y": 2, "z": 1}})
            records["kernel_dispatch"].append(row)
        elif kind == "copy":
            row.update(kind=3, operation=1, bytes=1 << 20, stream_id={"handle": stream}, src_agent_id={"handle": 7 + gpu}, dst_agent_id={"handle": 1})
            records["memory_copy"].append(row)
        elif kind == "call":
            if name not in kinds[1]["operations"]:
                kinds[1]["operations"].append(name)
            records["hip_api"].append({**row, "kind": 1, "operation": kinds[1]["operations"].index(name)})
        else:
            markers.append({"key": 1000 + n, "value": name})
            records["marker_api"].append({**row, "kind": 2, "operation": 0})
    tool = {"metadata": {"pid": PID}, "agents": [{"id": {"handle": 1}, "type": 1, "product_name": "EPYC"},
            {"id": {"handle": 7}, "type": 2, "product_name": "AMD Instinct MI300X", "cu_count": 304}],
            "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": GEMM}, {"kernel_id": 2, "kernel_name": RCCL}],
            "strings": {"buffer_records": kinds, "marker_api": markers}, "buffer_records": records}
    json.dump({"rocprofiler-sdk-tool": [tool] * processes}, open(path, "w"))


def chrome(path, events):
    out, us = [], lambda ns: (ns - BASE) // 1000
    for pid, label in ((0, "Markers and Ranges"), (1, "COPY"), (2, "CPU HIP API"), (3, "CPU HSA API"), (6, "GPU0"), (7, "GPU1")):
        out.append({"args": {"name": label}, "ph": "M", "pid": pid, "name": "process_name"})
    for kind, name, gpu, stream, start, end, corr in events:
        pid, tid = {"kernel": (6 + gpu, stream), "copy": (1, 0), "call": (2, TID), "range": (0, TID)}[kind]
        label = "CopyDeviceToHost" if kind == "copy" else name
        out.append({"ph": "X", "name": label, "ts": str(us(start)), "dur": str((end - start) // 1000), "pid": str(pid), "tid": str(tid),
                    "args": {"BeginNs": str(start), "EndNs": str(end), "pid": str(PID), "dev-id": str(gpu), "Name": label}})
        if corr:
            out.append({"ts": us(start), "ph": "s" if kind == "call" else "t", "cat": "DataFlow", "id": corr, "pid": pid, "tid": tid, "name": "dep"})
    with open(path, "w") as file:
        file.write('{ "traceEvents":[{}\n' + "".join("," + json.dumps(e) + "\n" for e in out) + '],\n"otherData": {}\n}')


def database(path):
    if os.path.exists(path):
        os.unlink(path)
    return sqlite3.connect(path)


def rocpd(db, events, schema, u="_00000a1b"):
    strings, stamps = {}, []

    def text(value):
        return strings.setdefault(value, len(strings) + 1)

    def times(start, end):
        if schema == 3:
            return [start, end]
        stamps.extend([start, end])
        return [len(stamps) - 1, len(stamps)]

    when = '"start" BIGINT, "end" BIGINT' if schema == 3 else '"start_id" INTEGER, "end_id" INTEGER'
    where = '"pid" INTEGER, "tid" INTEGER, "agent_id" INTEGER, "queue_id" INTEGER, "stream_id" INTEGER' if schema == 3 else '"track_id" INTEGER'
    db.executescript(f'''
        CREATE TABLE rocpd_string{u} ("id" INTEGER PRIMARY KEY, "string" TEXT);
        CREATE TABLE rocpd_info_agent{u} ("id" INTEGER PRIMARY KEY, "type" TEXT, "product_name" TEXT);
        CREATE TABLE rocpd_info_kernel_symbol{u} ("id" INTEGER PRIMARY KEY, "kernel_name" TEXT, "display_name" TEXT);
        CREATE TABLE rocpd_event{u} ("id" INTEGER PRIMARY KEY, "category_id" INTEGER, "stack_id" INTEGER);
        CREATE TABLE rocpd_kernel_dispatch{u} ("id" INTEGER PRIMARY KEY, {where}, "kernel_id" INTEGER, {when}, "workgroup_size_x" INTEGER, "workgroup_size_y" INTEGER,
            "workgroup_size_z" INTEGER, "grid_size_x" INTEGER, "grid_size_y" INTEGER, "grid_size_z" INTEGER, "event_id" INTEGER);
        CREATE TABLE rocpd_memory_copy{u} ("id" INTEGER PRIMARY KEY, {where}, {when}, "name_id" INTEGER, "dst_agent_id" INTEGER, "src_agent_id" INTEGER, "size" INTEGER, "event_id" INTEGER);
        CREATE TABLE rocpd_region{u} ("id" INTEGER PRIMARY KEY, {where}, {when}, "name_id" INTEGER, "event_id" INTEGER);
        CREATE VIEW IF NOT EXISTS kernels AS SELECT * FROM rocpd_kernel_dispatch{u};''')
    if schema == 4:
        db.executescript(f'''
            CREATE TABLE rocpd_timestamp{u} ("id" INTEGER PRIMARY KEY, "value" BIGINT);
            CREATE TABLE rocpd_track{u} ("id" INTEGER PRIMARY KEY, "pid" INTEGER, "tid" INTEGER, "agent_id" INTEGER, "queue_id" INTEGER, "stream_id" INTEGER);''')
    tracks = {}
    for n, (kind, name, gpu, stream, start, end, corr) in enumerate(events, 1):
        category = {"kernel": "KERNEL_DISPATCH", "copy": "MEMORY_COPY", "call": "HIP_RUNTIME_API_EXT", "range": "MARKER_CORE_RANGE_API"}[kind]
        db.execute(f"INSERT INTO rocpd_event{u} VALUES (?, ?, ?)", (n, text(category), corr or 1000 + n))
        place = (PID, TID, 7 + gpu, 1, stream)
        if schema == 4:
            place = (tracks.setdefault(place, len(tracks) + 1),)
        values = {"kernel": ("kernel_dispatch", [1 + (name == RCCL), *times(start, end), 256, 1, 1, 4096, 2, 1, n]),
                  "copy": ("memory_copy", [*times(start, end), text("MEMORY_COPY_" + name), 1, 7 + gpu, 1 << 20, n]),
                  "call": ("region", [*times(start, end), text(name), n]), "range": ("region", [*times(start, end), text(name), n])}
        table, row = values[kind]
        row = [None, *place, *row]
        db.execute(f"INSERT INTO rocpd_{table}{u} VALUES ({','.join('?' * len(row))})", row)
    for value, n in strings.items():
        db.execute(f"INSERT INTO rocpd_string{u} VALUES (?, ?)", (n, value))
    db.execute(f"INSERT INTO rocpd_info_agent{u} VALUES (1, 'CPU', 'EPYC'), (7, 'GPU', 'AMD Instinct MI300X')")
    db.execute(f"INSERT INTO rocpd_info_kernel_symbol{u} VALUES (1, '_Z', ?), (2, ?, NULL)", (GEMM, RCCL))
    for n, value in enumerate(stamps, 1):
        db.execute(f"INSERT INTO rocpd_timestamp{u} VALUES (?, ?)", (n, value))
    for place, n in tracks.items():
        db.execute(f"INSERT INTO rocpd_track{u} VALUES (?, ?, ?, ?, ?, ?)", (n, *place))
    db.commit()


def rpd(path, events):
    db, strings = database(path), {}

    def text(value):
        return strings.setdefault(value, len(strings) + 1)

    db.executescript('''
        CREATE TABLE rocpd_string ("id" integer PRIMARY KEY, "string" varchar(4096));
        CREATE TABLE rocpd_op ("id" integer PRIMARY KEY, "gpuId" integer, "queueId" integer, "sequenceId" integer, "start" integer, "end" integer, "description_id" integer, "opType_id" integer);
        CREATE TABLE rocpd_api ("id" integer PRIMARY KEY, "pid" integer, "tid" integer, "start" integer, "end" integer, "apiName_id" integer, "args_id" integer);
        CREATE TABLE rocpd_api_ops ("id" integer PRIMARY KEY, "api_id" integer, "op_id" integer);''')
    calls = {}
    for n, (kind, name, gpu, stream, start, end, corr) in enumerate(events, 1):
        if kind == "call":
            calls[corr] = n
        if kind in ("call", "range"):
            row = (n, PID, TID, start, end, text(name if kind == "call" else "UserMarker"), text("" if kind == "call" else name))
            db.execute("INSERT INTO rocpd_api VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        else:
            row = (n, gpu, stream, 0, start, end, text(name if kind == "kernel" else ""), text("KernelExecution" if kind == "kernel" else "CopyDeviceToHost"))
            db.execute("INSERT INTO rocpd_op VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for n, (kind, name, gpu, stream, start, end, corr) in enumerate(events, 1):
        if kind in ("kernel", "copy"):
            db.execute("INSERT INTO rocpd_api_ops VALUES (NULL, ?, ?)", (calls[corr], n))
    for value, n in strings.items():
        db.execute("INSERT INTO rocpd_string VALUES (?, ?)", (n, value))
    db.commit()


if __name__ == "__main__":
    target, form = sys.argv[1:3]
    work, processes = run(int(sys.argv[3]) if len(sys.argv) > 3 else 1), int(sys.argv[4]) if len(sys.argv) > 4 else 1
    if form in ("chrome", "rpd"):
        {"chrome": chrome, "rpd": rpd}[form](target, work)
    elif form == "sdk":
        sdk(target, work, processes)
    else:
        opened = database(target)
        for process in range(processes):
            rocpd(opened, work, int(form[-1]), f"_0000{process:02}1b")
