"""A process group of torch.distributed whose other ranks do not exist: `lockstep record --as-rank R --world N`. It stands
where gloo, MPI, UCC or, without a GPU, NCCL would be.

No data come from anywhere, so the others are taken to hold what this rank holds: a sum is N times its own data, a gather N
copies of them. What a rank could not know, which is what it receives from one other rank, is made up by the rule of --fill.

Each call is recorded as begun and as waited for, with its group and bytes as lockstep counts them for MPI.

LOCKSTEP_RECORD_RANK, LOCKSTEP_RECORD_WORLD    the rank, the number of ranks
LOCKSTEP_RECORD_FILL=numbers|random|zeros|FILE    what receives get
LOCKSTEP_RECORD_STORE=PORT    where record answers for the store of the others
"""
import ctypes
import functools
import inspect
import itertools
import multiprocessing
import os
import runpy
import sys

import torch
from torch._C import _distributed_c10d as c10d
from torch.futures import Future

RANK = int(os.environ["LOCKSTEP_RECORD_RANK"])
WORLD = int(os.environ["LOCKSTEP_RECORD_WORLD"])
FILL = os.environ.get("LOCKSTEP_RECORD_FILL", "numbers")
STORE = int(os.environ["LOCKSTEP_RECORD_STORE"])
NOT_STOOD_IN_FOR = 70  # exit status, as for what of MPI is not emulated


def give_up(why):
    sys.stdout.flush()
    sys.stderr.write("lockstep: as rank %d of %d: %s\n" % (RANK, WORLD, why))
    sys.stderr.flush()
    os._exit(NOT_STOOD_IN_FOR)


# ---- the recording ----

POST, DONE = 1, 4  # lk_comm_part of src/io/recording.h
KINDS = ("other", "allreduce", "reduce", "broadcast", "allgather", "gather", "scatter", "reduce_scatter", "alltoall",
         "barrier", "scan", "send", "recv")  # lk_comm_what
FIRST = 1 << 21  # of the numbers of groups and names: below are MPI's and NCCL's
MOST_LISTED = 1024  # ranks of a group; a longer list is first:last:stride


class Call(ctypes.Structure):
    """struct lockstep_call of lib/recorder/python.c."""
    _fields_ = [("start_ns", ctypes.c_int64), ("bytes", ctypes.c_int64), ("request", ctypes.c_uint64),
                ("group", ctypes.c_uint32), ("name", ctypes.c_uint32), ("peer", ctypes.c_int32), ("tag", ctypes.c_int32),
                ("what", ctypes.c_uint8), ("part", ctypes.c_uint8), ("element_bytes", ctypes.c_uint16)]


probe = ctypes.CDLL(None)
probe.lockstep_probe_begin.restype = ctypes.c_int64
probe.lockstep_probe_group.argtypes = [ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
names = {}
numbers = itertools.count(FIRST)
requests = itertools.count(1)


def name_of(text):
    if text not in names:
        names[text] = FIRST + len(names)
        probe.lockstep_probe_name(names[text], text.encode())
    return names[text]


def end(start, **fields):
    probe.lockstep_probe_end(ctypes.byref(Call(start_ns=start, **fields)))


class Divisions:
    """Groups that are made one after another and share no rank are one division of the world, such as all groups of tensor
    parallelism: what one rank knows of them says who is together on the others."""

    def __init__(self):
        self.count, self.members = 1, set()

    def add(self, ranks):
        if not self.members.isdisjoint(ranks):
            self.count, self.members = self.count + 1, set()
        self.members.update(ranks)
        return self.count


divisions = Divisions()


def list_of(ranks):
    steps = {b - a for a, b in zip(ranks, ranks[1:])}
    if len(ranks) > MOST_LISTED and len(steps) == 1:
        return "[%d:%d:%d]" % (ranks[0], ranks[-1], steps.pop())
    return str(list(ranks))


def record_group(ranks):
    """Returns the group's number. All ranks make the same groups in the same order."""
    number = next(numbers)
    rank = ranks.index(RANK) if RANK in ranks else -1
    probe.lockstep_probe_group(number, divisions.add(ranks), rank, len(ranks), list_of(ranks).encode())
    return number


# ---- data of ranks that do not exist ----
#
# Tensors are written through .data: the libraries' writes are none of autograd's, whose versions stay as they are.

generators = {}


def make_up(tensor):
    """Data that another rank would have sent."""
    at = tensor.data
    if at.numel() == 0:
        return
    if at.is_complex():
        at = torch.view_as_real(at)
    if FILL not in ("numbers", "random", "zeros"):
        with open(FILL, "rb") as file:
            data = torch.frombuffer(bytearray(file.read(at.numel() * at.element_size())), dtype=torch.uint8)
        whole = torch.empty(at.shape, dtype=at.dtype)
        repeat(whole.view(-1).view(torch.uint8), data)
        at.copy_(whole)
        return
    random = generators.setdefault(at.device, torch.Generator(at.device))  # the program's own numbers stay as they are
    if FILL == "zeros" or (FILL == "numbers" and not at.is_floating_point()):
        at.zero_()
    elif at.is_floating_point():
        at.uniform_(-1, 1, generator=random)
    else:
        at.random_(generator=random)


def repeat(to, own):
    """Fills a tensor with own data, again and again where it is larger: an exchange whose parts differ in size."""
    to, own = to.data, own.data.reshape(-1)
    if to.numel() == 0:
        return
    if own.numel() == 0:
        make_up(to)
        return
    if own.numel() < to.numel():
        own = own.repeat(-(-to.numel() // own.numel()))
    to.copy_(own[:to.numel()].view(to.shape))


def combine(tensor, op, size):
    """What a reduction leaves if every rank has the same data."""
    ops, at = c10d.ReduceOp, tensor._values() if tensor.is_sparse else tensor.data
    if at.dtype == torch.bool or op in (ops.AVG, ops.MIN, ops.MAX, ops.BAND, ops.BOR):
        return
    if op == ops.PRODUCT:
        at.pow_(size)
    elif op == ops.BXOR:
        at.mul_(size % 2)
    else:
        at.mul_(size)


def bytes_of(tensors):
    return sum(t._nnz() * t.element_size() if t.is_sparse else t.numel() * t.element_size() for t in tensors)


# ---- work ----

MOST_KEPT = 256
kept = {}  # by request, what was not waited for yet: C++ does not keep the Python half of its works alive


class Arrival(Future):
    """The future of a work. Who waits for it waits for the work."""

    def wait(self):
        self.of()
        return super().wait()


class Posted(c10d.Work):
    """Work that is done, but not yet waited for."""

    def __init__(self, name, result, source):
        super().__init__()
        self.request, self.name = next(requests), name
        self.tensors, self.source = result, source

    def done(self):
        if self.request:
            end(probe.lockstep_probe_begin(), part=DONE, request=self.request, name=self.name, peer=-1)
            kept.pop(self.request, None)
        self.request = 0

    def wait(self, timeout=None):
        self.done()
        return True

    synchronize = wait

    def is_completed(self):
        self.done()
        return True

    is_success = is_completed

    def exception(self):
        return None

    def result(self):
        return self.tensors

    def source_rank(self):
        return self.source

    _source_rank = source_rank

    def get_future(self):
        """C++ waits for it unseen: for the buckets of DistributedDataParallel, at the end of the backward pass."""
        first = self.tensors[0] if self.tensors else None
        future = Arrival(devices=[first.device]) if first is not None and first.is_cuda else Arrival()
        future.of = self.done
        future.set_result(self.tensors)
        try:
            torch.autograd.Variable._execution_engine.queue_callback(self.done)
        except RuntimeError:  # in no backward pass
            pass
        return future


# ---- the group ----

class Ranks(c10d.ProcessGroup):
    """The methods are those of c10d.ProcessGroup, called by torch.distributed and, of its C++, by the reducer and the
    functional collectives. `ranks`: of the world. `asked`: the backend that the program named."""

    def __init__(self, ranks, asked):
        rank = ranks.index(RANK)
        super().__init__(rank, len(ranks))
        self.own, self.count, self.asked = rank, len(ranks), asked
        self.number = record_group(ranks)
        self.root = None  # of a broadcast of objects, in which this rank poses as the root

    def post(self, start, kind, result, tensors, times=1, peer=-1, tag=-1):
        """Records the call; `tensors` times `times` are its bytes."""
        work = Posted(name_of(self.asked + " " + kind), list(result), peer)
        first = next(iter(tensors), None)
        end(start, part=POST, what=KINDS.index(kind), group=self.number, name=work.name, request=work.request, peer=peer,
            tag=tag, bytes=times * bytes_of(tensors), element_bytes=0 if first is None else first.element_size())
        kept[work.request] = work
        if len(kept) > MOST_KEPT:
            kept.pop(next(iter(kept)))
        return work

    def allreduce(self, tensors, opts=None):
        start = probe.lockstep_probe_begin()
        for tensor in tensors:
            combine(tensor, opts.reduceOp if opts else c10d.ReduceOp.SUM, self.count)
        return self.post(start, "allreduce", tensors, tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors, opts):
        start = probe.lockstep_probe_begin()
        for tensor in tensors if opts.rootRank == self.own else ():
            combine(tensor, opts.reduceOp, self.count)
        return self.post(start, "reduce", tensors, tensors, peer=opts.rootRank)

    def broadcast(self, tensors, opts=None):
        start = probe.lockstep_probe_begin()
        root = self.root if self.root is not None else opts.rootRank if opts else 0
        return self.post(start, "broadcast", tensors, tensors, peer=root)

    def allgather(self, outputs, inputs, opts=None):
        start = probe.lockstep_probe_begin()
        for parts, own in zip(outputs, inputs):
            for part in parts:
                part.data.copy_(own.data)
        return self.post(start, "allgather", [part for parts in outputs for part in parts], inputs, self.count)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        start = probe.lockstep_probe_begin()
        for parts in outputs:
            for part, own in zip(parts, inputs):
                part.data.copy_(own.data)
        return self.post(start, "allgather", [part for parts in outputs for part in parts], inputs, self.count)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        start = probe.lockstep_probe_begin()
        for whole, own in zip(outputs, inputs):
            whole.data.view(self.count, -1).copy_(own.data.reshape(1, -1))
        return self.post(start, "allgather", outputs, inputs, self.count)

    def _allgather_base(self, whole, own, opts=None):
        return self.allgather_into_tensor_coalesced([whole], [own], opts)

    def gather(self, outputs, inputs, opts):
        start = probe.lockstep_probe_begin()
        for parts, own in zip(outputs if opts.rootRank == self.own else (), inputs):
            for part in parts:
                part.data.copy_(own.data)
        return self.post(start, "gather", [part for parts in outputs for part in parts], inputs, self.count,
                         opts.rootRank)

    def scatter(self, outputs, inputs, opts):
        start = probe.lockstep_probe_begin()
        for at, own in enumerate(outputs):
            if opts.rootRank == self.own:
                own.data.copy_(inputs[at][self.own].data)
            else:
                make_up(own)
        return self.post(start, "scatter", outputs, outputs, self.count, opts.rootRank)

    def reduce_scatter(self, outputs, inputs, opts=None):
        start = probe.lockstep_probe_begin()
        for own, parts in zip(outputs, inputs):
            own.data.copy_(parts[self.own].data)
            combine(own, opts.reduceOp if opts else c10d.ReduceOp.SUM, self.count)
        return self.post(start, "reduce_scatter", outputs, outputs, self.count)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        start = probe.lockstep_probe_begin()
        for own, whole in zip(outputs, inputs):
            own.data.copy_(whole.data.reshape(self.count, -1)[self.own].view(own.shape))
            combine(own, opts.reduceOp if opts else c10d.ReduceOp.SUM, self.count)
        return self.post(start, "reduce_scatter", outputs, outputs, self.count)

    def _reduce_scatter_base(self, own, whole, opts=None):
        return self.reduce_scatter_tensor_coalesced([own], [whole], opts)

    def alltoall(self, outputs, inputs, opts=None):
        start = probe.lockstep_probe_begin()
        for part in outputs:
            repeat(part, inputs[self.own])
        return self.post(start, "alltoall", outputs, inputs)

    def alltoall_base(self, output, whole, output_splits=None, splits=None, opts=None):
        start = probe.lockstep_probe_begin()
        rows = splits if splits else [len(whole) // self.count] * self.count
        before = sum(rows[:self.own])
        repeat(output, whole.data[before:before + rows[self.own]])
        return self.post(start, "alltoall", [output], [whole])

    def send(self, tensors, to, tag=0):
        return self.post(probe.lockstep_probe_begin(), "send", tensors, tensors, peer=to, tag=tag)

    def recv(self, tensors, source, tag=0):
        start = probe.lockstep_probe_begin()
        for tensor in tensors:
            make_up(tensor)
        return self.post(start, "recv", tensors, tensors, peer=source, tag=tag)

    def recv_anysource(self, tensors, tag=0):
        work = self.recv(tensors, -1, tag)
        work.source = (self.own + 1) % self.count
        return work

    def barrier(self, opts=None):
        return self.post(probe.lockstep_probe_begin(), "barrier", (), ())

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        self.barrier().wait()

    # the names that PyTorch gives to some of these from 2.9 on
    all_gather_single, all_gather_single_coalesced = _allgather_base, allgather_into_tensor_coalesced
    reduce_scatter_single, reduce_scatter_single_coalesced = _reduce_scatter_base, reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # calls between these are recorded one by one
    def _start_coalescing(self, device=None):
        pass

    def _end_coalescing(self, device=None):
        work = Posted(0, [], -1)
        work.request = 0
        return work

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return 0

    def getBackendName(self):  # C++ takes a group of gloo's name for an object of gloo's class
        return "lockstep"


# ---- torch.distributed ----

def is_ours(asked):
    """Not a backend that the program brings itself, nor NCCL on a GPU, which the recorder stands in for below torch."""
    named = {part.split(":")[-1] for part in asked.split(",")}
    return named <= {"gloo", "mpi", "nccl", "ucc"} and not (asked == "nccl" and torch.cuda.is_available())


def make_group(options, _):
    ranks = list(options.global_ranks_in_group) or list(range(WORLD))
    return Ranks(ranks, make_group.asked)


def as_ours(call, asked):
    """Names our backend in place of the program's."""
    make_group.asked = asked
    call.arguments["backend"] = "lockstep"
    for name in ("pg_options", "device_id"):
        call.arguments.pop(name, None)


def check_rank(given):
    """A rank that the program states itself. Processes that it starts as other ranks end at once."""
    world, rank = given.get("world_size", -1), given.get("rank", -1)
    if world not in (-1, None, WORLD):
        give_up("the program makes a world of %d ranks itself; give --world %d" % (world, world))
    if rank in (-1, None, RANK):
        return
    if multiprocessing.parent_process() is not None:
        sys.stdout.flush()
        os._exit(0)
    give_up("the program says itself that it is rank %d; give --as-rank %d, or let it read RANK" % (rank, rank))


def change_init(module):
    begin = module.init_process_group
    signature = inspect.signature(begin)

    @functools.wraps(begin)
    def init_process_group(*args, **kwargs):
        call = signature.bind(*args, **kwargs)
        asked = str(call.arguments.get("backend") or "gloo").lower()
        check_rank(call.arguments)
        if not is_ours(asked):
            return begin(*args, **kwargs)
        as_ours(call, asked)
        call.arguments.pop("init_method", None)
        store = c10d.TCPStore("127.0.0.1", STORE, WORLD, False)
        call.arguments.update(store=store, rank=RANK, world_size=WORLD)
        probe.lockstep_probe_torch(RANK, WORLD)
        return begin(*call.args, **call.kwargs)

    module.init_process_group = init_process_group


def change_new_group(module):
    make, backend_of = module.new_group, module.get_backend
    signature = inspect.signature(make)

    @functools.wraps(backend_of)
    def get_backend(group=None):
        known = group if group is not None else module.group.WORLD
        return module.Backend(known.asked) if isinstance(known, Ranks) else backend_of(group)

    @functools.wraps(make)
    def new_group(*args, **kwargs):
        call = signature.bind(*args, **kwargs)
        asked = str(call.arguments.get("backend") or get_backend()).lower()
        if not is_ours(asked):
            return make(*args, **kwargs)
        as_ours(call, asked)
        ranks = call.arguments.get("ranks")
        if ranks is not None and RANK not in ranks:
            record_group(sorted(ranks))
        return make(*call.args, **call.kwargs)

    module.get_backend, module.new_group = get_backend, new_group


def pose_as_root(module, name):
    """Objects are sent with their sizes, which a receiver would have to make up: it poses as the root, and keeps its own."""
    share = getattr(module, name)
    signature = inspect.signature(share)

    @functools.wraps(share)
    def collective(*args, **kwargs):
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        given = call.arguments
        group = given.get("group") or module.group.WORLD
        root = given.get("group_src")
        if isinstance(group, Ranks) and root is None:
            root = module.get_group_rank(group, given["src"] or 0) if group is not module.group.WORLD else given["src"] or 0
        if not isinstance(group, Ranks) or root == group.own:
            return share(*args, **kwargs)
        given["src"] = module.get_rank()
        if "group_src" in given:
            given["group_src"] = None
        if "scatter_object_input_list" in given:
            given["scatter_object_input_list"] = [None] * group.count
        group.root = root
        try:
            return share(*call.args, **call.kwargs)
        finally:
            group.root = None

    setattr(module, name, collective)


class Client(c10d.TCPStore):
    """A store that the program makes itself: that of record, whatever its address."""

    def __init__(self, host_name, port, world_size=None, is_master=False, *args, **kwargs):
        super().__init__("127.0.0.1", STORE, WORLD, False)


def change_distributed(module):
    """After torch.distributed.distributed_c10d has run."""
    devices = {"devices": ["cpu", "cuda"]} if "devices" in inspect.signature(module.Backend.register_backend).parameters else {}
    module.Backend.register_backend("lockstep", make_group, extended_api=True, **devices)
    change_init(module)
    change_new_group(module)
    for name in ("broadcast_object_list", "scatter_object_list"):
        pose_as_root(module, name)


# ---- what starts ranks ----

def run_program(words):
    """A Python program in this process: -u and -m as Python has them."""
    module = False
    while words and words[0] in ("-u", "-m"):
        module = words.pop(0) == "-m"
    sys.argv = words
    if module:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def change_launcher(module):
    """torchrun, python -m torch.distributed.run: the one rank runs in the launcher's own process."""
    def launch_agent(config, entrypoint, args):
        each = min(config.nproc_per_node, WORLD)
        os.environ.update(LOCAL_WORLD_SIZE=str(each), GROUP_RANK=str(RANK // each), GROUP_WORLD_SIZE=str(-(-WORLD // each)),
                          ROLE_NAME=config.role or "default", ROLE_RANK=str(RANK), ROLE_WORLD_SIZE=str(WORLD),
                          TORCHELASTIC_RUN_ID=config.run_id or "none", TORCHELASTIC_MAX_RESTARTS=str(config.max_restarts))
        args = [arg.replace("${local_rank}", os.environ["LOCAL_RANK"]) if isinstance(arg, str) else arg for arg in args]
        if callable(entrypoint):
            return {RANK: entrypoint(*args)}
        if os.path.realpath(entrypoint) != os.path.realpath(sys.executable):
            os.execvp(entrypoint, [entrypoint] + args)
        run_program(args)
        return {RANK: None}

    module.launch_agent = launch_agent


class Joined:
    """In place of the processes that were not started."""

    processes = ()

    def join(self, timeout=None):
        return True

    def pids(self):
        return []


def change_spawn(module):
    """torch.multiprocessing.spawn of all ranks of a node: only this one runs, in this process."""
    start = module.start_processes
    signature = inspect.signature(start)

    @functools.wraps(start)
    def start_processes(*args, **kwargs):
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        count = call.arguments["nprocs"]
        if WORLD % count:
            return start(*args, **kwargs)
        call.arguments["fn"](RANK % count, *call.arguments["args"])
        return None if call.arguments["join"] else Joined()

    module.start_processes = start_processes


def change_rpc(module):
    def init_rpc(*args, **kwargs):
        give_up("torch.distributed.rpc cannot be stood in for: its calls run on other ranks, and return what these compute")

    module.init_rpc = init_rpc


def change_stores(module):
    module.TCPStore = Client


CHANGES = {
    "torch.distributed": change_stores,
    "torch.distributed.distributed_c10d": change_distributed,
    "torch.distributed.launcher.api": change_launcher,
    "torch.distributed.rpc": change_rpc,
    "torch.multiprocessing.spawn": change_spawn,
}
