"""Writes HOST.xplane.pb as JAX's profiler does (openxla/xla, xla/tsl/profiler/protobuf/xplane.proto), in its wire format
by hand: python3 xplane.py FILE MARKS [GPUS]. A step of 10 ms: two products of 3 ms in a loop, an all-reduce of 2 ms on another
stream, a copy of 1 ms, then an update of 1 ms; three steps. MARKS says how steps are marked:

    host   events of the host with step_num, which hold their work
    ahead  the same, but the host has run through all of them before the device has done the first
    line   the device's line "Steps"
    none   not at all
    tpu    a plane of a TPU
"""
import sys

START_NS, MS = 1_700_000_000_000_000_000, 10**9  # since 1970; picoseconds


def varint(n):
    n &= 2**64 - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def blob(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


class Plane:
    def __init__(self, name):
        self.name, self.lines, self.events, self.stats, self.own = name, [], {}, {}, b""

    @staticmethod
    def _id(table, name):
        return table.setdefault(name, len(table) + 1)

    def stat(self, name, value):
        """Texts that repeat are references to the name of a statistic, as XLA writes them."""
        head = number(1, self._id(self.stats, name))
        if name in ("hlo_op", "hlo_module"):
            return head + number(7, self._id(self.stats, value))
        return head + (blob(5, value) if isinstance(value, str) else number(3, value))

    def line(self, ident, name, events, start_ns=START_NS):
        """Events are (name, start and length in ps, {statistic: value})."""
        body = number(1, ident) + blob(2, name) + number(3, start_ns)
        for event, start, length, stats in events:
            body += blob(4, number(1, self._id(self.events, event)) + number(2, start) + number(3, length)
                         + b"".join(blob(4, self.stat(k, v)) for k, v in stats.items()))
        self.lines.append(body)

    def message(self):
        out = number(1, 1) + blob(2, self.name) + b"".join(blob(3, line) for line in self.lines)
        for field, table in ((4, self.events), (5, self.stats)):
            for name, ident in table.items():
                out += blob(field, number(1, ident) + blob(2, number(1, ident) + blob(2, name)))
        return out + self.own


def space(marks, gpus=1):
    planes, host, calls = [], Plane("/host:CPU"), []
    for gpu in range(gpus):
        plane, compute, comm, copies = Plane(f"/device:GPU:{gpu}"), [], [], []
        for step in range(3):
            def at(ms):
                return (10 * step + ms) * MS

            def work(op, ms, length, name, correlation, **more):
                stats = {"hlo_op": op, "hlo_module": "jit_train_step", "correlation_id": 10 * step + correlation, **more}
                return name, at(ms), length * MS, stats

            details = {"kernel_details": "regs:32 static_shared:0 dynamic_shared:0 grid:16,2,1 block:256,1,1 occ_pct:50"}
            compute += [work("dot.1", 1, 3, "gemm_fusion_dot", 1, **details), work("dot.1", 4, 3, "gemm_fusion_dot", 2, **details)]
            comm += [work("all-reduce.2", 7, 2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 3)]
            copies += [("MemcpyD2H", at(1), MS, {"memcpy_details": "kind_src:device kind_dst:host size:1048576 dest:0 async:1",
                                                 "correlation_id": 10 * step + 5})]
            compute += [work("update.3", 9, 1, "loop_add_fusion", 4)]
        plane.line(20, "Stream #20(Compute)", compute)
        plane.line(21, "Stream #21(Compute)", comm)
        plane.line(22, "Stream #22(MemcpyD2H)", copies)
        plane.line(3, "XLA Ops", [("dot.1", MS, 3 * MS, {})])  # the same again: to be passed over
        if marks == "line":
            plane.line(1, "Steps", [(str(7 + s), 10 * s * MS, 10 * MS, {}) for s in range(3)])
        plane.own = blob(6, plane.stat("core_count", 132)) + blob(6, plane.stat("memory_size", 80 << 30))
        planes.append(plane)
    for step in range(3):
        start, length = (10 * step * MS, 10 * MS) if marks != "ahead" else (step * MS // 4, MS // 4)
        if marks in ("host", "ahead"):
            calls.append(("train", start, length, {"step_num": 7 + step}))
        calls.append(("PjitFunction(train_step)", start, length // 2, {}))
        calls += [("cuLaunchKernel", start + (k + 1) * MS // 100, MS // 200, {"correlation_id": 10 * step + k + 1}) for k in range(5)]
    host.line(4711, "main", calls)
    planes.append(host)
    if marks == "tpu":
        planes = [Plane("/device:TPU:0")]
    planes.insert(0, Plane("/host:metadata"))
    return b"".join(blob(1, p.message()) for p in planes)


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as out:
        out.write(space(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1))
