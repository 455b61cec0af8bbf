"""Step graphs: written in Python, simulated by `lockstep.simulate`, kept in the form of `lockstep predict --graph`.

A block is a short list of operations. A program is what a pipeline stage runs: calls of blocks. Ranks of one stage are its
chains. Operations on one stream run one after the other; `after` names others of the same block to wait for; sends and
receives meet on channels that are wired; collectives run in groups of chains (tp, dp, ...) or in teams of programs. What each
field means is in docs/reference/files.md, "The graph file", and docs/ARCHITECTURE.md, "The step graph". Names are checked when the
graph is simulated."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ._errors import FileError, InputError

_NUMBERS = ("m", "n", "k", "batch", "flops", "bytes", "window", "pieces", "alloc", "release")


@dataclass
class Operation:
    """One operation. seconds: how long it takes; None: reckoned from kind, shape and bytes on the hardware that is named.
    bytes: device-memory traffic; of communication the message, as nccl-tests count it. wait, signal: 1 or 2, an argument of the
    call (an event of the program). place: where it stands in its block."""

    name: str
    kind: str
    stream: Union[str, int] = "compute"
    phase: str = "forward"
    group: str = "none"
    dtype: str = "bf16"
    flags: List[str] = field(default_factory=list)
    m: float = 0
    n: float = 0
    k: float = 0
    batch: float = 0
    flops: float = 0
    bytes: float = 0
    window: float = 0
    pieces: float = 0
    channel: int = 0
    seconds: Optional[float] = None
    alloc: float = 0
    alloc_owner: str = "weights"
    release: float = 0
    release_owner: str = "weights"
    join: List[Union[str, int]] = field(default_factory=list)
    wait: int = 0
    signal: int = 0
    after: Sequence[Union["Operation", int]] = field(default_factory=list)
    place: int = field(default=-1, compare=False)

    def __post_init__(self) -> None:
        for key in ("flags", "join", "after"):
            value = getattr(self, key)
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise InputError(f"operation '{self.name}', {key}", f"a value of type {type(value).__name__} is no list", "give a list")
        self.flags, self.join = list(self.flags), list(self.join)
        self.after = [one.place if isinstance(one, Operation) else one for one in self.after]

    def to_json(self, where: str) -> Dict[str, Any]:
        out: Dict[str, Any] = {"name": self.name, "kind": self.kind, "stream": self.stream}
        out.update(phase=self.phase, group=self.group, dtype=self.dtype)
        for key in _NUMBERS:
            value = _real(getattr(self, key), f"{where}, {key}")
            if value:
                out[key] = value
        out["channel"] = _whole(self.channel, f"{where}, channel")
        if self.seconds is not None:
            out["measured_ps"] = _picoseconds(self.seconds, f"{where}, seconds")
        out["alloc_owner"], out["release_owner"] = self.alloc_owner, self.release_owner
        out["flags"], out["join"] = self.flags, self.join
        out["wait"], out["signal"] = _whole(self.wait, f"{where}, wait"), _whole(self.signal, f"{where}, signal")
        out["deps"] = [_whole(one, f"{where}, after") for one in self.after]
        return out

    @classmethod
    def from_json(cls, data: Dict[str, Any], place: int) -> "Operation":
        given = dict(data)
        ps = given.pop("measured_ps", None)
        after = given.pop("deps", [])
        return cls(**{"dtype": "fp32", **given}, seconds=None if ps is None else ps * 1e-12, after=after, place=place)


@dataclass
class Block:
    """A list of operations, called by programs."""

    name: str
    operations: List[Operation] = field(default_factory=list)
    number: int = field(default=-1, compare=False)

    def op(self, kind: str, name: Optional[str] = None, **fields: Any) -> Operation:
        """Adds an operation; fields are those of Operation."""
        known = {f.name for f in dataclasses.fields(Operation)} - {"place"}
        for key in fields:
            if key not in known:
                raise InputError(f"block '{self.name}', operation '{name or kind}'", f"there is no field '{key}'", _near(key, known))
        operation = Operation(name=name if name is not None else kind, kind=kind, place=len(self.operations), **fields)
        self.operations.append(operation)
        return operation

    def gemm(self, name: str, m: float, n: float, k: float, batch: float = 1, element_bytes: float = 2, **fields: Any) -> Operation:
        """A product batch x [m, k] x [k, n]; flops and traffic follow from the shape."""
        fields.setdefault("flops", 2 * batch * m * n * k)
        fields.setdefault("bytes", element_bytes * batch * (m * k + k * n + m * n))
        return self.op("gemm", name, m=m, n=n, k=k, batch=batch, **fields)


@dataclass
class Call:
    """A block, so many times in a row."""

    block: int
    repeat: int = 1
    microbatch: int = -1
    layer: int = -1
    chunk: int = 0
    phase: str = "forward"
    events: Tuple[int, int] = (0, 0)


@dataclass
class Program:
    """What a pipeline stage runs. channels and events: how many there are. resident: bytes held throughout, by owner.
    streams: names of streams, as traces have them: [{"stream", "name", "thread"}, ...]."""

    name: str
    channels: int = 0
    events: int = 0
    resident: Dict[str, float] = field(default_factory=dict)
    calls: List[Call] = field(default_factory=list)
    streams: List[Dict[str, Any]] = field(default_factory=list)
    number: int = field(default=-1, compare=False)

    def call(self, block: Block, repeat: int = 1, **fields: Any) -> Call:
        """Runs the block at this point."""
        call = Call(block=block.number, repeat=repeat, **fields)
        self.calls.append(call)
        return call


@dataclass
class Team:
    """A process group by its programs; an operation joins it with group="team" and the team's number as channel."""

    name: str
    members: Sequence[int]
    ranks: int
    across: bool = False
    number: int = field(default=-1, compare=False)


@dataclass
class Graph:
    """A step graph. chains: ranks of each program. groups: {"dp": (size, stride)} of chains. facts: model_flops, tokens,
    samples, peak_dtype."""

    chains: int = 1
    groups: Dict[str, Tuple[int, int]] = field(default_factory=dict)
    blocks: List[Block] = field(default_factory=list)
    programs: List[Program] = field(default_factory=list)
    wires: List[Tuple[int, int, int, int]] = field(default_factory=list)
    teams: List[Team] = field(default_factory=list)
    facts: Dict[str, Any] = field(default_factory=lambda: {"peak_dtype": "bf16"})
    traced: bool = False

    # ---- building ----

    def block(self, name: str) -> Block:
        block = Block(name, number=len(self.blocks))
        self.blocks.append(block)
        return block

    def program(self, name: Optional[str] = None, **fields: Any) -> Program:
        """A further stage."""
        number = len(self.programs)
        program = Program(name if name is not None else f"stage {number}", number=number, **fields)
        self.programs.append(program)
        return program

    def wire(self, sender: Program, sends: int, receiver: Program, receives: int) -> None:
        """Joins channel `sends` of one program with channel `receives` of another; both get as many channels as that takes."""
        sender.channels, receiver.channels = max(sender.channels, sends + 1), max(receiver.channels, receives + 1)
        self.wires.append((sender.number, sends, receiver.number, receives))

    def team(self, name: str, members: Iterable[Program], ranks: Optional[int] = None, across: bool = False) -> Team:
        """All ranks of the programs, chain by chain; across: of all chains together."""
        numbers = sorted(program.number for program in members)
        count = ranks if ranks is not None else len(numbers) * (self.chains if across else 1)
        team = Team(name, numbers, count, across, len(self.teams))
        self.teams.append(team)
        return team

    # ---- the file form ----

    def to_text(self) -> str:
        """The file form, an operation and a call a line."""
        return self._text()[0]

    def _text(self) -> Tuple[str, Dict[int, str]]:
        """And which line is which operation or call, for errors."""
        lines: List[str] = []
        places: Dict[int, str] = {}

        def put(text: str, place: str = "") -> None:
            lines.append(text)
            if place:
                places[len(lines)] = place

        ranks = {"world": self.chains * len(self.programs), "stages": len(self.programs), "chains": self.chains,
                 "groups": {name: list(pair) for name, pair in self.groups.items()}}
        channels = max([program.channels for program in self.programs], default=0)
        put('{"lockstep_graph": 1,')
        put(f'"ranks": {_dump(ranks, "ranks")},', "ranks")
        put(f'"facts": {_dump(self.facts, "facts")}, "channels": {_dump(channels, "channels")},', "facts")
        put('"blocks": [')
        for b, block in enumerate(self.blocks):
            where = f"block '{block.name}'"
            put(("," if b else "") + f'{{"name": {_dump(block.name, where)}, "operations": [', where)
            for i, operation in enumerate(block.operations):
                at = f"{where}, operation {i} '{operation.name}'"
                put(("," if i else "") + _dump(operation.to_json(at), at), at)
            put("]}")
        put('], "programs": [')
        for p, program in enumerate(self.programs):
            where = f"program '{program.name}'"
            head = {"name": program.name, "stage": p, "channels": program.channels, "events": program.events,
                    "resident": program.resident, **({"streams": program.streams} if program.streams else {})}
            put(("," if p else "") + _dump(head, where)[:-1] + ', "calls": [', where)
            for i, call in enumerate(program.calls):
                at = f"{where}, call {i}"
                row = [call.block, call.repeat, call.microbatch, call.layer, call.chunk, call.phase, *call.events]
                put(("," if i else "") + _dump(row, at), at)
            put("]}")
        put("]")
        put(f', "wires": {_dump([list(wire) for wire in self.wires], "wires")}', "wires")
        if self.teams:
            teams = [{"name": t.name, "members": list(t.members), "ranks": t.ranks, "across": t.across} for t in self.teams]
            put(f', "teams": {_dump(teams, "teams")}', "teams")
        put((', "traced": true' if self.traced else "") + "}")
        return "\n".join(lines) + "\n", places

    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """To a file; .gz is compressed."""
        data = self.to_text().encode()
        try:
            with open(path, "wb") as file:
                file.write(gzip.compress(data, mtime=0) if os.fspath(path).endswith(".gz") else data)
        except OSError as error:
            raise FileError(str(path), f"cannot write: {error.strerror}") from None

    @classmethod
    def read(cls, path: Union[str, "os.PathLike[str]"]) -> "Graph":
        """What `lockstep predict --graph` or `write` wrote."""
        try:
            with open(path, "rb") as file:
                data = file.read()
            parsed = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        except OSError as error:
            raise FileError(str(path), f"cannot read: {error.strerror or error}") from None
        except (ValueError, EOFError) as error:
            raise InputError(str(path), f"is no JSON: {error}", "give a file that --graph has written") from None
        try:
            return cls._from_json(parsed)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise InputError(str(path), f"is no step graph ({type(error).__name__}: {error})", "give a file that --graph has written") from None

    @classmethod
    def _from_json(cls, data: Dict[str, Any]) -> "Graph":
        if data["lockstep_graph"] != 1:
            raise ValueError(f"version {data['lockstep_graph']}")
        blocks = [Block(b["name"], [Operation.from_json(o, i) for i, o in enumerate(b["operations"])], number)
                  for number, b in enumerate(data["blocks"])]
        programs = [Program(p["name"], p.get("channels", 0), p.get("events", 0), p.get("resident", {}),
                            [Call(*c[:6], events=tuple((list(c[6:]) + [0, 0])[:2])) for c in p["calls"]], p.get("streams", []), number)
                    for number, p in enumerate(data["programs"])]
        teams = [Team(t["name"], t["members"], t["ranks"], t.get("across", False), number)
                 for number, t in enumerate(data.get("teams", []))]
        groups = {name: (pair[0], pair[1]) for name, pair in data["ranks"].get("groups", {}).items()}
        wires = [(w[0], w[1], w[2], w[3]) for w in data.get("wires", [])]
        return cls(data["ranks"]["chains"], groups, blocks, programs, wires, teams, data.get("facts", {}), data.get("traced", False))


# ---- values ----


def _near(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"did you mean {close[0]}?" if close else f"the fields are {', '.join(sorted(known))}"


def _real(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if not hasattr(value, "item"):
            raise InputError(where, f"a value of type {type(value).__name__} is no number", "give a number from 0 to 1e300")
        value = value.item()
    if not 0 <= value <= 1e300:  # NaN is neither
        raise InputError(where, f"{value!s:.40} is negative, huge or not finite", "give a number from 0 to 1e300")
    return value


def _whole(value: Any, where: str) -> int:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(where, f"{value!r} is no whole number", "give one from 0 on")
    return value


def _picoseconds(value: Any, where: str) -> int:
    seconds = _real(value, where)
    if seconds > 9e5:
        raise InputError(where, f"{seconds:g} s is too long", "give at most 9e5 s, ten days")
    return max(round(seconds * 1e12), 1)


def _dump(value: Any, where: str) -> str:
    """JSON; what it cannot hold is an error with its place."""

    def other(one: Any) -> Any:
        if hasattr(one, "item"):
            return one.item()
        raise InputError(where, f"a value of type {type(one).__name__} is not understood", "give numbers and texts")

    try:
        return json.dumps(value, allow_nan=False, default=other)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(where, str(error), "give numbers and texts") from None
