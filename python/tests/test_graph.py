"""Graphs built in Python, simulated: schedules with known makespans, the program's own graphs, and wrong ones."""

import os
import tempfile
import unittest

import lockstep
from common import JOB, asked


def pipeline(stages, microbatches, forward=1.0, backward=2.0):
    """GPipe: all forward, then all backward; messages take next to nothing."""
    graph = lockstep.Graph()
    programs = [graph.program() for _ in range(stages)]
    for s in range(stages - 1):
        graph.wire(programs[s], 0, programs[s + 1], 1)   # forward
        graph.wire(programs[s + 1], 2, programs[s], 3)   # backward
    for s, program in enumerate(programs):
        for name, seconds, comes, goes in (("forward", forward, 1, 0), ("backward", backward, 3, 2)):
            block = graph.block(f"{name} {s}")
            after = []
            if (name == "forward" and s > 0) or (name == "backward" and s < stages - 1):
                after = [block.op("recv", "take", stream=f"receive {name}", channel=comes, seconds=1e-12)]
            work = block.op("elementwise", name, seconds=seconds, after=after)
            if (name == "forward" and s < stages - 1) or (name == "backward" and s > 0):
                block.op("send", "give", stream=f"send {name}", channel=goes, seconds=1e-12, after=[work])
            program.call(block, repeat=microbatches, phase=name)
    return graph


class Simulated(unittest.TestCase):
    def test_gpipe(self):
        """(m + p - 1) (f + b): Huang et al. 2019."""
        for stages, microbatches in ((1, 3), (2, 4), (4, 8)):
            answer = lockstep.simulate(pipeline(stages, microbatches))
            self.assertAlmostEqual(answer.step_time_s, (microbatches + stages - 1) * 3.0, places=8)
            self.assertEqual(len(answer.programs), stages)
            self.assertAlmostEqual(answer.programs[0].compute_s, microbatches * 3.0, places=8)

    def test_collective_waits_for_the_slowest(self):
        graph = lockstep.Graph()
        programs = [graph.program(f"rank {i}") for i in range(3)]
        team = graph.team("all", programs)
        for i, program in enumerate(programs):
            block = graph.block(f"work {i}")
            work = block.op("elementwise", "own", seconds=1.0 + i)
            block.op("all_reduce", "sum", stream="data parallel", group="team", channel=team.number, seconds=0.5, after=[work])
            program.call(block)
        answer = lockstep.simulate(graph)
        self.assertEqual(answer.step_time_s, 3.5)
        sums = [row for row in answer.spans if row["name"] == "sum"]
        self.assertEqual([(row["rank"], row["ready_s"], row["start_s"], row["end_s"]) for row in sums],
                         [(0, 1.0, 3.0, 3.5), (1, 2.0, 3.0, 3.5), (2, 3.0, 3.0, 3.5)])
        self.assertEqual(answer.programs[0].exposed_s, 0.5)

    def test_predicted_graph(self):
        """The graph of a prediction takes as long as the prediction, operation by operation."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("step.json", "step.json.gz"):
                path = os.path.join(folder, name)
                exact = lockstep.predict(**JOB, exact=True, stack="megatron", graph=path)
                self.assertAlmostEqual(lockstep.simulate(path, gpu="h100-sxm", stack="megatron").step_time_s / exact.step_time_s, 1, places=9)
                graph = lockstep.Graph.read(path)
                self.assertEqual(lockstep.simulate(graph, gpu="h100-sxm", stack="megatron").step_time_s,
                                 lockstep.simulate(path, gpu="h100-sxm", stack="megatron").step_time_s)
                again = os.path.join(folder, "again-" + name)
                graph.write(again)
                self.assertEqual(lockstep.Graph.read(again), graph)
                base = asked("whatif", again, "--gpu", "h100-sxm", "--stack", "megatron")["changes"][0]
                self.assertAlmostEqual(base["step_time_s"] / exact.step_time_s, 1, places=2)

    def test_hardware(self):
        graph = lockstep.Graph(chains=8, groups={"tp": (8, 1)})
        block = graph.block("layer")
        product = block.gemm("product", 8192, 8192, 8192)
        block.op("all_reduce", "sum", stream="tensor parallel", group="tp", bytes=64e6, after=[product])
        graph.program().call(block, repeat=4)
        fast = lockstep.simulate(graph, gpu="h100-sxm")
        slow = lockstep.simulate(graph, gpu="a100-sxm-80")
        self.assertGreater(slow.step_time_s, 1.5 * fast.step_time_s)
        self.assertIn("h100-sxm", fast.cluster)
        self.assertGreater(lockstep.simulate(graph, gpu="h100-sxm", straggler="3:2").step_time_s, 1.5 * fast.step_time_s)
        self.assertEqual(set(lockstep.simulate(graph, gpu="h100-sxm", ranks="5,6").spans["rank"]), {0, 5, 6})

    def test_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.json")
            lockstep.simulate(pipeline(2, 2), trace=path)
            self.assertGreater(os.path.getsize(path), 500)


class Wrong(unittest.TestCase):
    def refused(self, pattern, graph, where=None, **options):
        with self.assertRaisesRegex(lockstep.InputError, pattern) as raised:
            lockstep.simulate(graph, **options)
        if where is not None:
            self.assertEqual(raised.exception.where, where)

    def one(self, kind="elementwise", **fields):
        graph = lockstep.Graph()
        block = graph.block("b")
        block.op(kind, "o", **{"seconds": 1.0, **fields})
        graph.program().call(block)
        return graph

    def test_operations(self):
        at = "block 'b', operation 0 'o'"
        self.refused('unknown name "gem"; did you mean "gemm"', self.one("gem"), at)
        self.refused("did you mean", self.one(stream="compte"), at)
        self.refused("unknown name", self.one(dtype="bf17"), at)
        self.refused("no duration", self.one(seconds=None), at)
        self.refused("did you mean h100-sxm", self.one(seconds=None), gpu="h100-sxn")
        for wrong in (float("nan"), float("inf"), -1.0, "1", object(), True, 1e7):
            self.refused(".", self.one(seconds=wrong), f"{at}, seconds")
        for wrong in (float("nan"), -5, 1e301, "x", [], 10**400):
            self.refused(".", self.one(bytes=wrong), f"{at}, bytes")
        self.refused(".", self.one(wait=7), at)
        self.refused(".", self.one(after=[5]))
        self.refused(".", self.one(after=["x"]))
        self.refused(".", self.one(channel=-4), at)
        with self.assertRaisesRegex(lockstep.InputError, "did you mean bytes"):
            lockstep.Graph().block("b").op("copy", "c", byts=5)

    def test_graphs(self):
        self.refused(".", lockstep.Graph())
        graph = self.one()
        graph.programs[0].calls[0].block = 5
        self.refused(".", graph)
        graph = self.one()
        graph.programs[0].calls[0].repeat = 10**9
        self.refused("at most", graph)
        graph = self.one(seconds=9e5)
        graph.programs[0].calls[0].repeat = 1000
        self.refused("one after the other", graph)
        graph = lockstep.Graph(chains=10**9)
        graph.program()
        self.refused(".", graph, gpu="h100-sxm")
        self.refused(".", lockstep.Graph(chains=-1, programs=[lockstep.Program("p")]))
        self.refused(".", lockstep.Graph(facts={"tokens": float("nan")}, programs=[lockstep.Program("p")]))
        self.refused(".", lockstep.Graph(groups={"tpp": (1, 1)}, programs=[lockstep.Program("p")]), "ranks")

    def test_circle(self):
        """Two ranks that both receive first wait for one another."""
        graph = lockstep.Graph()
        one, other = graph.program("one"), graph.program("other")
        graph.wire(one, 0, other, 0)
        graph.wire(other, 1, one, 1)
        for program, takes, gives in ((one, 1, 0), (other, 0, 1)):
            block = graph.block(program.name)
            got = block.op("recv", "take", channel=takes, seconds=1e-9)
            block.op("send", "give", channel=gives, seconds=1e-9, after=[got])
            program.call(block)
        self.refused("wait|arrive", graph)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.json")
            for text in ("", "{", "[]", "5", '{"lockstep_graph": 2}', '{"lockstep_graph": 1, "blocks": 5}', "\x1f\x8bx"):
                with open(path, "w", encoding="latin-1") as file:
                    file.write(text)
                with self.assertRaises(lockstep.InputError):
                    lockstep.Graph.read(path)
                with self.assertRaises(lockstep.InputError):
                    lockstep.simulate(path)
            with self.assertRaises(lockstep.FileError):
                lockstep.Graph.read(os.path.join(folder, "none"))
            with self.assertRaises(lockstep.FileError):
                lockstep.Graph().write(os.path.join(folder, "no", "folder"))


if __name__ == "__main__":
    unittest.main()
