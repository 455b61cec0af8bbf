"""Small traces in Kineto's form, one per kind of stall: kinds.py FOLDER writes NAME.json for each. Times in microseconds."""
import json
import sys

HOST, DEVICE, STREAM = 100, 0, 7


class Trace:
    def __init__(self, device="NVIDIA H100 80GB HBM3", memory=85_000_000_000):
        self.events, self.head, self.calls = [], {"id": 0, "name": device, "totalGlobalMem": memory}, 0

    def host(self, category, name, start, duration, thread=1, **args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": HOST, "tid": thread, "ts": start, "dur": duration, "args": args})

    def work(self, name, launched, call, start, duration, category="kernel", runtime="cudaLaunchKernel"):
        """Work of the device and the call that launched it."""
        self.calls += 1
        self.host("cuda_runtime", runtime, launched, call, correlation=self.calls)
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": DEVICE, "tid": STREAM, "ts": start, "dur": duration,
                            "args": {"correlation": self.calls, "device": DEVICE, "stream": STREAM}})

    def step(self, number, start, duration):
        self.host("user_annotation", f"ProfilerStep#{number}", start, duration)


def steps(fill, count=3, length=1000):
    trace = Trace()
    for number in range(count):
        trace.step(number, number * length, length)
        fill(trace, number * length, number)
    return trace


def compiled():
    trace = Trace()
    trace.work("first", 0, 5, 10, 100)
    trace.host("user_annotation", "Fusion::compile", 120, 800)
    trace.work("second", 930, 5, 940, 100)
    return trace


def first_launch():
    """The launch call of `second` is under way when `first` ends; later ones are quick."""
    trace = Trace()
    trace.work("first", 0, 5, 10, 100)
    trace.work("second", 50, 900, 951, 100)
    for i in range(4):
        trace.work("second", 1000 + 10 * i, 5, 1060 + 100 * i, 100)
    return trace


def captured():
    trace = Trace()
    trace.work("first", 0, 5, 10, 100)
    trace.host("cuda_runtime", "hipStreamBeginCapture", 120, 3)
    trace.host("cuda_runtime", "hipStreamEndCapture", 700, 3)
    trace.host("cuda_runtime", "hipGraphInstantiate", 710, 150)
    trace.work("graph", 900, 5, 910, 100, runtime="hipGraphLaunch")
    return trace


def allocating(trace, at, _):
    trace.work("first", at, 5, at + 10, 100)
    trace.host("cuda_runtime", "hipMalloc", at + 60, 400)
    trace.host("cuda_runtime", "hipFree", at + 470, 300)
    trace.work("second", at + 780, 5, at + 790, 200)


def allocating_once(trace, at, number):
    trace.work("first", at, 5, at + 10, 100)
    if number == 0:
        trace.host("cuda_runtime", "cudaMalloc", at + 60, 700)
    late = 780 if number == 0 else 20
    trace.work("second", at + late, 5, at + late + 95, 880 - late)


def copying(kind):
    def fill(trace, at, _):
        trace.work(f"Memcpy HtoD ({kind} -> Device)", at, 5, at + 10, 600, "gpu_memcpy", "cudaMemcpyAsync")
        trace.work("first", at + 10, 5, at + 620, 300)
        trace.host("cuda_runtime", "cudaDeviceSynchronize", at + 20, 910)
    return steps(fill, length=940)


def preparing(trace, at, _):
    trace.host("python_function", "some/pipeline.py(12): preprocess", at, 700)
    trace.host("python_function", "some/pipeline.py(40): forward", at + 700, 200)
    trace.work("first", at + 710, 5, at + 720, 280)


def awaiting(trace, at, _):
    trace.work("first", at, 5, at + 10, 200)
    trace.host("cpu_op", "$api.py:3154 block_until_ready", at + 50, 650)
    trace.work("second", at + 710, 5, at + 720, 280)


def optimizing(trace, at, _):
    trace.work("first", at, 5, at + 10, 100)
    trace.host("user_annotation", "Optimizer.step#SGD.step", at + 120, 850)
    for i in range(16):
        trace.host("cpu_op", "aten::add_", at + 122 + 50 * i, 49)
        trace.work("add", at + 160 + 50 * i, 5, at + 166 + 50 * i, 5)


def loading(trace, at, _):
    """A loader that stacks of Python show."""
    trace.host("python_function", "torch/utils/data/dataloader.py(631): __next__", at, 600)
    trace.work("first", at + 620, 5, at + 630, 350)


def recompiled():
    """torch.compile in the midst of a run."""
    trace = Trace()
    for number in range(3):
        at = 3000 * number + (20000 if number > 1 else 0)
        late = 21500 if number == 1 else 20
        trace.step(number, at, 23000 if number == 1 else 3000)
        trace.work("first", at, 5, at + 10, 1400)
        if number == 1:
            trace.host("cpu_op", "compile_fx_inner (dynamo_timed)", at + 1450, 20000)
        trace.work("second", at + late, 5, at + late + 1405, 1400)
    return trace


def outside(trace, at, _):
    """Nothing says what the host does for 2 ms."""
    trace.work("first", at, 5, at + 10, 400)
    trace.work("second", at + 2500, 5, at + 2506, 400)


def computing(trace, at, _):
    trace.work("first", at, 5, at + 10, 970)


def healthy(trace, at, _):
    """A product at three quarters of the peak, with a gap of 1 %."""
    trace.host("cpu_op", "aten::mm", at, 20, **{"Input Dims": [[8192, 8192]] * 2, "Input type": ["c10::BFloat16"] * 2})
    trace.work("first", at + 2, 5, at + 15, 1485)


def ranges():
    """Steps that the program marks itself."""
    trace = Trace()
    for number in range(4):
        trace.host("user_annotation", f"iteration {number + 7}", 1000 * number, 990)
        computing(trace, 1000 * number, number)
    return trace


def slow():
    """An addition of 2 GiB in and 1 GiB out, at a third of what 3.35 TB/s allow."""
    trace = Trace()
    for i in range(3):
        trace.host("cpu_op", "aten::add", 3000 * i, 20, **{"Input Dims": [[16384, 16384]] * 2 + [[]], "Input type": ["float", "float", "Scalar"]})
        trace.work("elementwise_kernel", 3000 * i + 5, 5, 3000 * i + 30, 2900)
    return trace


KINDS = {"compiled": compiled, "first_launch": first_launch, "captured": captured, "allocating": lambda: steps(allocating),
         "allocating_once": lambda: steps(allocating_once), "pageable": lambda: copying("Pageable"), "pinned": lambda: copying("Pinned"),
         "preparing": lambda: steps(preparing), "awaiting": lambda: steps(awaiting),
         "optimizing": lambda: steps(optimizing), "outside": lambda: steps(outside, length=3000), "slow": slow, "loading": lambda: steps(loading), "recompiled": recompiled, "ranges": ranges, "healthy": lambda: steps(healthy, length=1500), "computing": lambda: steps(computing)}

for name, make in KINDS.items():
    trace = make()
    with open(f"{sys.argv[1]}/{name}.json", "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "deviceProperties": [trace.head], "traceEvents": trace.events}, file)
