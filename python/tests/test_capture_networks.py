"""Six networks captured from plain PyTorch against the same programs by hand: equal to the function within 1e-5, each of both, and the
same collectives after tune."""

import os
import sys
import unittest

from common import ROOT

FOLDER = os.path.join(ROOT, "tests", "lang", "capture")
try:
    import torch
    import lockstep.compile
    from lockstep.compile import captured
    sys.path.insert(0, FOLDER)
    from networks import NETWORKS
except ImportError as missing:
    if missing.name != "torch":
        raise
    torch, NETWORKS = None, {}


def words_of(sizes):
    return ",".join(f"{name}={n}" for name, n in sizes.items())


def traffic(moved):
    """Elements that travel, by word and axis; an all-reduce is a reduce-scatter and an all-gather."""
    total = {}
    for word, axis, elements in moved:
        for one in ("reducescatter", "allgather") if word == "allreduce" else (word,):
            total[one, axis] = total.get((one, axis), 0) + elements
    return total


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Networks(unittest.TestCase):
    def by_hand(self, build):
        with open(os.path.join(FOLDER, build.__name__ + ".lk"), encoding="utf-8") as file:
            return file.read()

    def test_values(self):
        for build, (mesh, sizes) in NETWORKS.items():
            for dtype in ("f32", "f64"):
                with self.subTest(network=build.__name__, dtype=dtype):
                    torch.manual_seed(1)
                    torch.set_default_dtype(torch.float64 if dtype == "f64" else torch.float32)
                    try:
                        function, example, place = build(**sizes)
                        program = lockstep.compile.capture(function, example, mesh, place, name=build.__name__)
                        verdict = program.verify()
                        self.assertTrue(verdict.equal, verdict)
                        self.assertLess(verdict.worst, 1e-5 if dtype == "f32" else 1e-12)
                        self.check_hand(build, program, mesh, sizes, dtype)
                    finally:
                        torch.set_default_dtype(torch.float32)

    def check_hand(self, build, program, mesh, sizes, dtype):
        given, wanted = program._run(None)
        text = self.by_hand(build).replace("f32", dtype)
        got = captured.interpret(text, words_of({**mesh, **sizes}), given)
        for label, tensor, _ in wanted:
            for own, reference in zip(got[label], tensor.double().flatten().tolist()):
                self.assertLess(abs(own - reference), 1e-5 * max(1, tensor.abs().max().item()), label)

    def test_collectives(self):
        for build, (mesh, sizes) in NETWORKS.items():
            with self.subTest(network=build.__name__):
                function, example, place = build(**sizes)
                program = lockstep.compile.capture(function, example, mesh, place, name=build.__name__)
                hand = captured.tuned(self.by_hand(build), words_of({**mesh, **sizes}), gpu="h100-sxm", programs=200)
                best = program.tune(gpu="h100-sxm", programs=200)
                self.assertTrue(best.proof["equal"])
                self.assertEqual(traffic(best.collectives()), traffic(captured.collectives(*hand[:2], {**mesh, **sizes})))
