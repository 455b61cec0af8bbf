#!/usr/bin/env python3
"""Traces made with one known cause of lost time each: a small clock of a host and its device runs a training step, the cause is put
in, and explain must name it first or second, with no wrong remedy above it. Usage: tests/labelled/made.py [PROGRAM] [-v] [NAME...]"""
import json
import os
import subprocess
import sys
import tempfile

from check import ROOT, WORDS, word_of

STEPS, LAYERS = 5, 12


class Run:
    """One rank: a host thread that launches, streams of a device, and the events that a profiler would write of them."""

    def __init__(self, rank=0, world=1, device="NVIDIA A100-SXM4-80GB", kernel_us=400, launch_us=8):
        self.rank, self.world, self.device, self.kernel_us, self.launch_us = rank, world, device, kernel_us, launch_us
        self.host, self.free, self.events, self.ids = 1000.0, {7: 0.0, 20: 0.0}, [], 0

    def event(self, cat, name, start, dur, pid=None, tid=1, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "ts": round(start, 3), "dur": round(dur, 3),
                            "pid": 100 if pid is None else pid, "tid": tid, "args": args})

    def spend(self, name, us, cat="cpu_op"):
        """The host in one event, launching nothing."""
        self.event(cat, name, self.host, us)
        self.host += us

    def inside(self, name, body, cat="cpu_op"):
        """What `body` does, in an operation or annotation."""
        start = self.host
        self.host += 2
        body()
        self.host += 2
        self.event(cat, name, start, self.host - start)

    def launch(self, kernel, us, stream=7, cat="kernel", call="cudaLaunchKernel", after=0.0, launch_us=None, **args):
        """Returns the end of the work. It begins after its stream, its launch and `after`."""
        self.ids += 1
        took = launch_us or self.launch_us
        self.event("cuda_runtime", call, self.host, took, correlation=self.ids)
        start = max(self.free[stream], self.host + took, after)
        self.event(cat, kernel, start, us, pid=0, tid=stream, correlation=self.ids, stream=stream, device=0, **args)
        self.host += took
        self.free[stream] = start + us
        return start + us

    def sync(self, call="cudaStreamSynchronize"):
        end = max(self.host + 3, self.free[7] + 3)
        self.ids += 1
        self.event("cuda_runtime", call, self.host, end - self.host, correlation=self.ids)
        self.host = end

    def operation(self, name, kernel, us=None):
        self.inside(name, lambda: self.launch(kernel, us or self.kernel_us))

    def all_reduce(self, us, arrival=None, stream=20, count=50_000_000):
        kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        args = {"Collective name": "allreduce", "In msg nelems": count, "Out msg nelems": count, "dtype": "BFloat16",
                "Group size": self.world, "Process Group Name": "0", "Process Group Ranks": str(list(range(self.world)))}
        start = max(self.free[7], self.free[stream], self.host)
        arrival = max(arrival or start, start)
        return self.launch(kernel, us + arrival - start, stream=stream, after=self.free[7], **args)

    def step(self, number, before=None, layer=None, after=None, optimizer=None):
        start = self.host
        if before:
            before()
        for _ in range(LAYERS):
            self.operation("aten::linear", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn")
            self.operation("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>",
                           self.kernel_us / 4)
            if layer:
                layer()
        if after:
            after()
        if optimizer:
            self.inside("Optimizer.step#AdamW.step", optimizer, "user_annotation")
        else:
            self.inside("Optimizer.step#AdamW.step", lambda: self.launch(
                "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", 300), "user_annotation")
        if self.host < self.free[7] - 2000:  # as deep as a launch queue
            self.host = self.free[7] - 2000
        self.event("user_annotation", f"ProfilerStep#{number}", start, self.host - start)

    def write(self, path):
        head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": self.device, "totalGlobalMem": 85_000_000_000,
                                                           "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
                "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world}, "traceEvents": self.events}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(head, file)


# ---- causes: each fills runs, one a rank, and says what must be found and which remedies are wrong above it ----

def steps_of(run, **parts):
    for number in range(STEPS):
        run.step(number, **{key: (lambda f=f, n=number: f(run, n)) for key, f in parts.items()})
    return [run]


def data_loading(run, _):
    run.spend("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 6000, "user_annotation")


def collate(run, _):
    run.spend("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 5000, "user_annotation")


def pageable(run, _):
    def copy():
        end = run.launch("Memcpy HtoD (Pageable -> Device)", 4000, cat="gpu_memcpy", call="cudaMemcpyAsync", launch_us=4010,
                         bytes=50_000_000)
        run.host = max(run.host, end)
    run.inside("aten::to", lambda: run.inside("aten::copy_", copy))


def pinned_exposed(run, _):
    run.inside("aten::to", lambda: run.launch("Memcpy HtoD (Pinned -> Device)", 5000, cat="gpu_memcpy", call="cudaMemcpyAsync",
                                              bytes=120_000_000))


def churn(run, _):
    run.spend("cudaMalloc", 700, "cuda_runtime")
    run.operation("aten::mul", "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor>", 50)
    run.spend("cudaFree", 900, "cuda_runtime")


def item(run, _):
    def read():
        run.launch("Memcpy DtoH (Device -> Pageable)", 2, cat="gpu_memcpy", call="cudaMemcpyAsync", bytes=4)
        run.sync()
    run.inside("aten::item", lambda: run.inside("aten::_local_scalar_dense", read))
    run.host += 300  # Python that uses the number


def nonzero(run, _):
    def read():
        run.launch("void at::native::compute_nonzero<long>", 10)
        run.launch("Memcpy DtoH (Device -> Pageable)", 2, cat="gpu_memcpy", call="cudaMemcpyAsync", bytes=8)
        run.sync()
    run.inside("aten::index", lambda: run.inside("aten::nonzero", read))
    run.host += 250


def synchronize(run, _):
    run.sync("cudaDeviceSynchronize")
    run.host += 4000


def many_small(run, _):
    for _ in range(60):
        run.operation("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>", 3)


def unfused_optimizer(run):
    for _ in range(700):
        run.operation("aten::addcmul_", "void at::native::vectorized_elementwise_kernel<4, at::native::AddcmulFunctor>", 3)


def straggle():
    runs = [Run(rank, 4) for rank in range(4)]
    for number in range(STEPS):
        for run in runs:
            run.kernel_us = 600 if run.rank == 2 else 400
            for run_number in [number]:
                run.step_start = run.host
                for _ in range(LAYERS):
                    run.operation("aten::linear", "ampere_bf16_s16816gemm_bf16_128x128_tn")
        arrival = max(max(run.free[7], run.host) for run in runs)
        for run in runs:
            end = run.all_reduce(300, arrival)
            run.free[7] = end
            run.host = end
            run.event("user_annotation", f"ProfilerStep#{number}", run.step_start, run.host - run.step_start)
    return runs


def late_reduce(overlap):
    runs = [Run(rank, 2) for rank in range(2)]
    for number in range(STEPS):
        for run in runs:
            start = run.host
            for _ in range(LAYERS):
                run.operation("aten::linear", "ampere_bf16_s16816gemm_bf16_128x128_tn")
                if overlap:
                    run.all_reduce(300)
            if not overlap:
                run.all_reduce(6000)
            run.free[7] = max(run.free.values())
            run.host = run.free[7]
            run.event("user_annotation", f"ProfilerStep#{number}", start, run.host - start)
    return runs


def compiling(run, number):
    if number == 1:
        run.spend("CompiledFxGraph compile_fx_inner (dynamo_timed)", 60000)


def first_kernels(run, _):
    for i in range(12):
        run.inside("aten::mm", lambda i=i: run.launch(f"cutlass_kernel_{i}", 200, launch_us=4000))
    return None


def python_gc(run, _):
    run.spend("Python GC", 12000, "python_function")


def checkpoint(run, number):
    if number == 2:
        def save():
            for _ in range(20):
                run.launch("Memcpy DtoH (Device -> Pageable)", 1000, cat="gpu_memcpy", call="cudaMemcpyAsync", launch_us=1010,
                           bytes=4_000_000)
            run.host += 40000
        run.inside("torch/serialization.py(600): save", save, "python_function")


def cpu_optimizer(run):
    run.launch("Memcpy DtoH (Device -> Pinned)", 1500, cat="gpu_memcpy", call="cudaMemcpyAsync", bytes=40_000_000)
    run.sync()
    run.spend("DeepSpeedCPUAdam.step", 9000, "user_annotation")
    run.launch("Memcpy HtoD (Pinned -> Device)", 1500, cat="gpu_memcpy", call="cudaMemcpyAsync", bytes=40_000_000)


def cpu_operation(run, _):
    run.spend("aten::sort", 12000)


def tokenizing(run, _):
    run.spend("transformers/tokenization_utils_base.py(2800): __call__", 6000, "python_function")


def logging(run, _):
    run.host += 12000  # Python outside of every operation


def fp32(run, _):
    run.operation("aten::linear", "ampere_sgemm_128x128_tn", 1500)


def amd_item(run, _):
    def read():
        run.launch("Memcpy DtoH (Device -> Host)", 2, cat="gpu_memcpy", call="hipMemcpyWithStream", bytes=4)
        run.sync("hipStreamSynchronize")
    run.inside("aten::item", lambda: run.inside("aten::_local_scalar_dense", read))
    run.host += 300


def grow_segments(run, _):
    for call, us in ("cuMemCreate", 900), ("cuMemMap", 300), ("cuMemSetAccess", 500):
        run.spend(call, us, "cuda_driver")


def amd_fp32(run, _):
    run.operation("aten::mm", "Cijk_Ailk_Bjlk_SB_MT128x128x16_SE_K1", 1500)


def uneven_experts():
    runs = [Run(rank, 4, device=HOPPER) for rank in range(4)]
    exchange = {"Collective name": "all_to_allv", "In msg nelems": 4_000_000, "Out msg nelems": 4_000_000, "dtype": "BFloat16",
                "Group size": 4, "Process Group Name": "1", "Process Group Ranks": "[0, 1, 2, 3]"}
    for number in range(STEPS):
        starts = [run.host for run in runs]
        for layer in range(LAYERS):
            for run in runs:
                busiest = run.rank == (7 * layer + 3 * number) % 4
                run.operation("aten::_grouped_mm", "cutlass_grouped_gemm_bf16", 1000 if busiest else 300)
            arrival = max(max(run.free[7], run.host) for run in runs)
            for run in runs:
                start = max(run.free[7], run.free[20], run.host)
                run.free[7] = run.launch("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 130 + arrival - start,
                                         stream=20, after=run.free[7], **exchange)
        for run, start in zip(runs, starts):
            run.host = max(run.host, run.free[7])
            run.event("user_annotation", f"ProfilerStep#{number}", start, run.host - start)
    return runs


def host_spends(name, us, cat="python_function", device=None, only=range(STEPS)):
    """What the host does before a step, or before those of `only`."""
    return lambda: steps_of(Run(device=device or HOPPER), before=lambda run, number: run.spend(name, us, cat) if number in only else None)


HOPPER, INSTINCT = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
GRAPHS, WORKERS, OVERLAP = "CUDA graphs", "num_workers", "overlap"
MADE = {
    "loader without workers": (lambda: steps_of(Run(), before=data_loading), "data_loading", [GRAPHS]),
    "loader with too few workers": (lambda: steps_of(Run(), before=collate), "data_loading", [GRAPHS]),
    "pageable copies": (lambda: steps_of(Run(), before=pageable), "copies_pageable", [GRAPHS, WORKERS]),
    "pinned copies on the compute stream": (lambda: steps_of(Run(), before=pinned_exposed), "copies_h2d", [GRAPHS, WORKERS]),
    "allocation in every layer": (lambda: steps_of(Run(kernel_us=200), layer=churn), "allocation", [GRAPHS]),
    ".item() in every layer": (lambda: steps_of(Run(), layer=item), "sync", [GRAPHS, WORKERS]),
    "boolean index in every layer": (lambda: steps_of(Run(), layer=nonzero), "sync", [GRAPHS, WORKERS]),
    "synchronise, then the host's work": (lambda: steps_of(Run(), after=synchronize), "sync", [GRAPHS, WORKERS]),
    "many small kernels": (lambda: steps_of(Run(kernel_us=60), layer=many_small), "launch", [WORKERS]),
    "host slower than its device": (lambda: steps_of(Run(kernel_us=12, launch_us=20)), "launch", [WORKERS]),
    "an optimizer of one kernel a tensor": (lambda: optimizer_of(unfused_optimizer), "optimizer", [GRAPHS, WORKERS]),
    "optimizer on the host": (lambda: optimizer_of(cpu_optimizer), "host", [GRAPHS, WORKERS]),
    "a slow rank": (straggle, "straggler", [GRAPHS, WORKERS]),
    "gradients reduced at the end": (lambda: late_reduce(False), "communication", [GRAPHS, WORKERS]),
    "gradients reduced in time": (lambda: late_reduce(True), "healthy", [GRAPHS, WORKERS]),
    "compilation in a step": (lambda: steps_of(Run(), before=compiling), "one_off", [GRAPHS, WORKERS]),
    "first launches": (lambda: first_launches(), "one_off", [GRAPHS, WORKERS]),
    "garbage collection": (lambda: steps_of(Run(), before=python_gc), "garbage_collection", [GRAPHS, WORKERS]),
    "a checkpoint": (lambda: steps_of(Run(), after=checkpoint), "checkpoint", [GRAPHS, WORKERS]),
    "an operation on the host": (lambda: steps_of(Run(), before=cpu_operation), "host", [GRAPHS, WORKERS]),
    "tokenizer in the loop": (lambda: steps_of(Run(), before=tokenizing), "input_preprocessing", [GRAPHS, WORKERS]),
    "Python between steps": (lambda: steps_of(Run(), before=logging), "host", [GRAPHS, WORKERS]),
    "fp32 products": (lambda: steps_of(Run(), layer=fp32), "slow_kernel", [GRAPHS, WORKERS]),
    "AMD: .item() in every layer": (lambda: steps_of(Run(device=INSTINCT), layer=amd_item), "sync", [GRAPHS, WORKERS]),
    "AMD: fp32 products": (lambda: steps_of(Run(device=INSTINCT), layer=amd_fp32), "slow_kernel", [GRAPHS, WORKERS]),
    "segments that grow in every layer": (lambda: steps_of(Run(kernel_us=200), layer=grow_segments), "allocation", [GRAPHS]),
    "uneven experts": (uneven_experts, "straggler|communication", [GRAPHS, WORKERS]),
    "a dispatching loader": (host_spends("accelerate/data_loader.py(780): _fetch_batches", 7000), "data_loading", [GRAPHS]),
    "DALI": (host_spends("nvidia/dali/plugin/pytorch.py(210): __next__", 7000), "data_loading", [GRAPHS]),
    "images resized in the loop": (host_spends("PIL/Image.py(2050): resize", 7000), "input_preprocessing", [GRAPHS]),
    "JAX: inputs sent": (host_spends("TfrtGpuClient::BufferFromHostBuffer", 7000, "cpu_op"), "input_preprocessing", [GRAPHS]),
    "Triton tries kernels": (host_spends("triton/runtime/autotuner.py(138): _bench", 60000, only=[0]), "one_off", [GRAPHS, WORKERS]),
    "recompiled in every step": (host_spends("torch/_dynamo/convert_frame.py(1100): _compile", 20000), "one_off", [GRAPHS, WORKERS]),
    "a communicator begins": (host_spends("ncclCommInitRankConfig", 60000, "cpu_op", only=[0]), "one_off", [GRAPHS, WORKERS]),
    "files of weights": (host_spends("safetensors/torch.py(280): save_file", 40000, only=[2]), "checkpoint", [GRAPHS, WORKERS]),
    "nothing": (lambda: steps_of(Run()), "healthy", [GRAPHS, WORKERS]),
}


def optimizer_of(body):
    run = Run()
    for number in range(STEPS):
        run.step(number, optimizer=lambda: body(run))
    return [run]


def first_launches():
    run = Run()
    first_kernels(run, 0)
    run.step(0)
    run.events = [event for event in run.events if not event["name"].startswith("ProfilerStep")]
    return [run]


def judge(cause, wrong, stalls):
    accepted = cause.split("|")
    if cause == "healthy":
        return not stalls or stalls[0]["lost_pctg"] < 10
    for stall in stalls[:2]:
        if stall["kind"] in accepted or word_of(stall) in accepted or stall["kind"].replace(" ", "_") in accepted:
            return True
        if any(word in stall["remedy"] for word in wrong):
            return False
    return False


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    program = os.path.abspath(words[0]) if words else os.path.join(ROOT, "build", "release", "lockstep")
    good = count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, cause, wrong) in MADE.items():
            if words[1:] and name not in words[1:]:
                continue
            paths = []
            for run in make():
                paths.append(os.path.join(folder, f"{count}_rank{run.rank}.json"))
                run.write(paths[-1])
            run = subprocess.run([program, "explain", *paths, "-o", "json"], capture_output=True, text=True, check=False)
            stalls = json.loads(run.stdout)["stalls"] if run.returncode == 0 else []
            right = run.returncode == 0 and judge(cause, wrong, stalls)
            good += right
            count += 1
            print(f"{'ok  ' if right else 'NOT '} {name:36} {cause:20} "
                  + "; ".join(f"{stall['kind']} {stall['lost_pctg']:.1f} %" for stall in stalls[:3]) + run.stderr[:120].strip())
            if "-v" in sys.argv:
                for stall in stalls:
                    print(f"       {stall['lost_pctg']:6.1f} %  {stall['kind']}: {stall['what']} -> {stall['remedy']}")
    print(f"made: {good} passed, {count - good} failed, 0 skipped")
    return int(good < count)


if __name__ == "__main__":
    sys.exit(main())
