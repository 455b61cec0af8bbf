"""Loaded by Python before the program. In runs of `lockstep stalls` it marks the steps of torch's DataLoader and the ranges
of record_function, gives the loader's first batches again and again where that is asked, and, in the runs without
communication, leaves out what torch.distributed would send. In runs as an emulated rank it brings in lockstep_c10d.

LOCKSTEP_LOADER_MARK=FILE    opened and closed before each batch is asked for: the recording's step marker
LOCKSTEP_LOADER_REPEAT=K     batches that are repeated; not set: the loader as it is
LOCKSTEP_RECORD_MODE=null       large collectives return at once, by the rule of docs/guide/record.md
LOCKSTEP_RECORD_MODE=as-rank    the other ranks do not exist
"""
import ctypes
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys

CONTROL_BYTES = 4096  # as lib/recorder/mode.c has them
LET_THROUGH = 2


# ---- the loader ----

def mark(path):
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        pass


def marked(batches, path):
    while True:
        mark(path)
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch


def repeated(loader, batches, count):
    kept = []
    for batch in batches:
        kept.append(batch)
        if len(kept) == count:
            break
    del batches  # its workers end
    try:
        left = len(loader)
    except TypeError:
        left = sys.maxsize
    at = 0
    while kept and at < left:
        yield kept[at % len(kept)]
        at += 1


def change(module):
    loader = module.DataLoader
    original = loader.__iter__
    path = os.environ.get("LOCKSTEP_LOADER_MARK", "")
    count = int(os.environ.get("LOCKSTEP_LOADER_REPEAT", "0") or 0)

    def __iter__(self):
        batches = original(self)
        if count > 0:
            batches = repeated(self, batches, count)
        return marked(iter(batches), path) if path else batches

    loader.__iter__ = __iter__


# ---- marks ----

def change_ranges(module):
    """Ranges of record_function are marks, but for those that torch itself makes."""
    begin, end = (getattr(ctypes.PyDLL(None), "lockstep_probe_mark_" + what, None) for what in ("begin", "end"))
    if not begin or not end:
        return
    ranges = module.record_function
    original_enter, original_exit = ranges.__enter__, ranges.__exit__

    @functools.wraps(original_enter)
    def __enter__(self):
        self.lockstep_marks = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] != "torch"
        if self.lockstep_marks:
            begin(str(self.name).encode("utf-8", "replace"))
        return original_enter(self)

    @functools.wraps(original_exit)
    def __exit__(self, *error):
        result = original_exit(self, *error)
        if self.lockstep_marks:
            end()
        return result

    ranges.__enter__, ranges.__exit__ = __enter__, __exit__


# ---- communication ----

def tell(name, *numbers):
    """Calls a function of the recording library, where it is loaded."""
    try:
        getattr(ctypes.CDLL(None), name)(*numbers)
    except (AttributeError, OSError):
        pass


class Done:
    """What stands for work that was never begun."""

    def __init__(self, result):
        self.results = result

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def is_success(self):
        return True

    def exception(self):
        return None

    def synchronize(self):
        pass

    def result(self):
        return self.results

    def get_future(self):
        return done(self.results)


def done(result):
    from torch.futures import Future
    first = result[0] if isinstance(result, list) else result
    future = Future(devices=[first.device]) if first.is_cuda else Future()
    future.set_result(result)
    return future


class Rule:
    """Whether a collective is left out: by what is the same on all members, which are its name, its bytes, and how often it
    came before on this group."""

    def __init__(self):
        self.before = {}

    def leaves_out(self, group, name, tensor):
        import torch
        if tensor.layout != torch.strided or tensor.dtype == torch.uint8:  # objects are sent as bytes
            return False
        size = tensor.numel() * tensor.element_size()
        key = (id(group), name, size)
        count = self.before[key] = self.before.get(key, 0) + 1
        if size <= CONTROL_BYTES or count <= LET_THROUGH:
            return False
        tell("lockstep_probe_left_out")
        return True


rule = Rule()


def shard(tensor, rank, size):
    """Own part of a tensor that has one of each member."""
    count = tensor.numel() // size
    return tensor.view(-1)[count * rank:count * (rank + 1)]


def gather_list(parts, own, rank, size):
    parts[rank].copy_(own)


def gather(whole, own, rank, size):
    shard(whole, rank, size).copy_(own.reshape(-1))


def scatter_list(own, parts, rank, size):
    own.copy_(parts[rank])


def scatter(own, whole, rank, size):
    own.copy_(shard(whole, rank, size).view_as(own))


# What each collective leaves where all others are silent: which argument has bytes that are the same on all members, and a
# function of the first two arguments, own rank and size.
COLLECTIVES = {
    "all_reduce": (0, None),
    "reduce": (0, None),
    "all_gather": (1, gather_list),
    "all_gather_into_tensor": (1, gather),
    "_all_gather_base": (1, gather),
    "reduce_scatter": (0, scatter_list),
    "reduce_scatter_tensor": (0, scatter),
    "_reduce_scatter_base": (0, scatter),
}


def leave_out(module, name):
    original = getattr(module, name)
    counted, fill = COLLECTIVES[name]
    signature = inspect.signature(original)

    @functools.wraps(original)
    def collective(*args, **kwargs):
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        first, second = (list(call.arguments.values()) + [None])[:2]
        group = call.arguments.get("group")
        rank, size = module.get_rank(group), module.get_world_size(group)
        if rank < 0 or size < 2 or not rule.leaves_out(group, name, first if counted == 0 else second):
            return original(*args, **kwargs)
        if fill:
            fill(first, second, rank, size)
        return Done([first]) if call.arguments.get("async_op") else None

    setattr(module, name, collective)


def change_collectives(module):
    begin = module.init_process_group

    @functools.wraps(begin)
    def init_process_group(*args, **kwargs):
        result = begin(*args, **kwargs)
        if module.get_world_size() > 1:
            tell("lockstep_probe_torch", module.get_rank(), module.get_world_size())
        return result

    module.init_process_group = init_process_group
    if os.environ.get("LOCKSTEP_RECORD_MODE") == "null":
        for name in COLLECTIVES:
            if hasattr(module, name):
                leave_out(module, name)


def null_hook(hook):
    def reduce(state, bucket):
        group, own = state
        if rule.leaves_out(group, "bucket", bucket.buffer()):
            return done(bucket.buffer())
        return hook(own, bucket)
    return reduce


def change_data_parallel(module):
    if os.environ.get("LOCKSTEP_RECORD_MODE") != "null":
        return
    parallel = module.DistributedDataParallel
    register, forward = parallel.register_comm_hook, parallel.forward

    def register_comm_hook(self, state, hook):
        register(self, (self.process_group, state), null_hook(hook))
        self.lockstep_hook = True

    def first_forward(self, *args, **kwargs):
        if not getattr(self, "lockstep_hook", False):
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
            register_comm_hook(self, self.process_group, allreduce_hook)
        return forward(self, *args, **kwargs)

    builtin = parallel._register_builtin_comm_hook

    def register_builtin(self, kind):  # in C++: stays as it is
        builtin(self, kind)
        self.lockstep_hook = True

    parallel.register_comm_hook, parallel.forward = register_comm_hook, first_forward
    parallel._register_builtin_comm_hook = register_builtin


# ---- all of it ----

def as_rank(name):
    """What lockstep_c10d changes; it needs a torch that is loaded, and has torch.distributed."""
    def change_by_name(module):
        try:
            import lockstep_c10d
        except ImportError:
            return
        lockstep_c10d.CHANGES[name](module)
    return change_by_name


CHANGES = {
    "torch.autograd.profiler": change_ranges,
    "torch.utils.data.dataloader": change,
    "torch.distributed.distributed_c10d": change_collectives,
    "torch.nn.parallel.distributed": change_data_parallel,
} if os.environ.get("LOCKSTEP_RECORD_MODE") != "as-rank" else {
    name: as_rank(name) for name in (
        "torch.distributed", "torch.distributed.distributed_c10d", "torch.distributed.launcher.api",
        "torch.distributed.rpc", "torch.multiprocessing.spawn")
}


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        to = CHANGES.pop(name, None)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if to else None
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            to(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())

# The sitecustomize that this one hides.
own = os.path.dirname(os.path.abspath(__file__))
rest = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]
hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
if hidden and hidden.loader:
    hidden.loader.exec_module(importlib.util.module_from_spec(hidden))
