"""Capture: what becomes a program, what is refused and where, StableHLO, exported graphs, modules on two ranks."""

import doctest
import os
import tempfile
import unittest

from common import ROOT
from lockstep import InputError
import lockstep.compile
from lockstep.compile import captured

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

HLO = """module @jit_f {
  sdy.mesh @mesh = <["dp"=2, "tp"=2]>
  func.func public @main(%arg0: tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg2: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<8x32xf32> {jax.result_info = ""}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc(#loc4)
    %1 = call @relu(%0) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %2 = stablehlo.dot_general %1, %arg2, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> tensor<8x32xf32>
    %5 = stablehlo.subtract %2, %4 : tensor<8x32xf32>
    %6 = stablehlo.exponential %5 : tensor<8x32xf32>
    return %6 : tensor<8x32xf32>
  }
  func.func private @relu(%arg0: tensor<8x64xf32>) -> tensor<8x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<8x64xf32>
    return %1 : tensor<8x64xf32>
  }
}
"""


def tensor(name):
    return {"as_tensor": {"name": name}}


def meta(*sizes):
    return {"dtype": 7, "sizes": [{"as_int": n} for n in sizes]}


def node(target, result, *inputs, trace=""):
    return {"target": f"torch.ops.aten.{target}", "inputs": [{"name": name, "arg": arg} for name, arg in inputs],
            "outputs": [tensor(result)], "metadata": {"stack_trace": trace}}


def exported():
    """x -> sum(gelu(fc(x))), as torch.export.save writes it."""
    trace = '  File "/m/model.py", line 12, in forward\n    y = self.fc(x)'
    nodes = [node("linear.default", "linear", ("input", tensor("x")), ("weight", tensor("p_w")), trace=trace),
             node("gelu.default", "gelu", ("self", tensor("linear")), trace=trace),
             node("sum.dim_IntList", "s", ("self", tensor("gelu")), ("dim", {"as_ints": [-1]}), ("keepdim", {"as_bool": True}), trace=trace)]
    values = {"x": meta(4, 8), "p_w": meta(6, 8), "linear": meta(4, 6), "gelu": meta(4, 6), "s": meta(4, 1)}
    return {"graph_module": {"graph": {"nodes": nodes, "tensor_values": values}, "signature": {
        "input_specs": [{"parameter": {"arg": {"name": "p_w"}, "parameter_name": "fc.weight"}}, {"user_input": {"arg": tensor("x")}}],
        "output_specs": [{"user_output": {"arg": tensor("s")}}]}}}


class Texts(unittest.TestCase):
    def test_stablehlo(self):
        program = lockstep.compile.capture_stablehlo(HLO)
        self.assertEqual(program.mesh, {"dp": 2, "tp": 2})
        self.assertEqual(program.collectives(), [("allreduce", "tp", 256)])
        self.assertIn("in arg1 : f32[32,64] @ S(1,tp)", program.text)

    def test_stablehlo_refused(self):
        for change, place in ((("stablehlo.exponential", "stablehlo.cbrt"), "hlo:11"), (("[{}, {\"tp\"}]", "[{}, {\"no\"}]"), "hlo:3"),
                              (("call @relu", "call @lost"), "hlo:5"), (("return %6", "return %9"), "hlo:12"),
                              (("%arg0, %0 :", "%arg0, %0"), "hlo:17")):
            with self.subTest(change=change), self.assertRaises(InputError) as refused:
                lockstep.compile.capture_stablehlo(HLO.replace(*change), file="hlo")
            self.assertEqual(refused.exception.where, place)
        for text in ("", "}", "func.func @main(", HLO[:900]):
            with self.subTest(text=text[-20:]), self.assertRaises(InputError):
                lockstep.compile.capture_stablehlo(text, {"dp": 2})
        loop = HLO.replace("%1 = stablehlo.maximum %arg0, %0", "%1 = call @relu(%0)")
        with self.assertRaises(InputError):
            lockstep.compile.capture_stablehlo(loop)

    def test_exported(self):
        program = lockstep.compile.capture_exported(exported(), {"tp": 2}, {"fc.weight": "S(0,tp)"})
        self.assertEqual(program.collectives(), [("allreduce", "tp", 4)])
        self.assertIn("# model.py:12", program.text)

    def test_exported_refused(self):
        wrong = exported()
        wrong["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.fft_fft.default"
        with self.assertRaises(InputError) as refused:
            lockstep.compile.capture_exported(wrong, {"tp": 2})
        self.assertEqual(refused.exception.where, "/m/model.py:12")
        for hurt in ({}, {"graph_module": 3}, {"graph_module": {"graph": {}, "signature": {}}}):
            with self.assertRaises(InputError):
                lockstep.compile.capture_exported(hurt, {"tp": 2})

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_values(self):
        torch.manual_seed(3)
        x, w, v = torch.randn(8, 32), torch.randn(32, 64) / 8, torch.randn(64, 32) / 8
        z = torch.relu(x @ w) @ v
        got = captured.interpret(lockstep.compile.capture_stablehlo(HLO).text, "dp=2,tp=2", {"arg0": x, "arg1": w, "arg2": v})
        self.assertLess((torch.tensor(got["out 1"]).view(8, 32) - torch.exp(z - z.amax(1, keepdim=True))).abs().max(), 1e-5)
        program = lockstep.compile.capture_exported(exported(), {"tp": 3}, {"fc.weight": "S(0,tp)"})
        x, w = torch.randn(4, 8), torch.randn(6, 8)
        got = captured.interpret(program.text, "tp=3", {"x": x, "fc_weight": w})
        self.assertLess((torch.tensor(got["out 1"]) - F.gelu(x @ w.T).sum(1)).abs().max(), 1e-5)


def on_rank(rank, ranks, module, meet, given):
    """One of two ranks of gloo: the best schedule against what the function makes."""
    torch.distributed.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=ranks)
    inputs, states, wanted, after = given
    step = module.load()
    mine = {name: step.part("state_" + name, x) for name, x in states.items()}
    results = step({name: step.part("in_" + name, x) for name, x in inputs.items()}, mine, {})
    for own, whole in zip(results, wanted):
        assert torch.allclose(own, whole, rtol=1e-5, atol=1e-6), (own, whole)
    for name, x in mine.items():
        assert torch.allclose(x, step.part("state_" + name, after[name]), rtol=1e-5, atol=1e-6), name
    torch.distributed.destroy_process_group()


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Functions(unittest.TestCase):
    def equal(self, function, example, place=None, mesh=None):
        program = lockstep.compile.capture(function, example, mesh or {"dp": 2}, place)
        verdict = program.verify()
        self.assertTrue(verdict.equal, f"{program.text}{verdict}")
        return program

    def refused(self, function, example, words, place=None, mesh=None):
        with self.assertRaises(InputError) as error:
            lockstep.compile.capture(function, example, mesh or {"dp": 2}, place)
        self.assertIn(words, str(error.exception))
        return error.exception

    def test_guide(self):
        failed, tried = doctest.testfile(os.path.join(ROOT, "docs", "guide", "capture.md"), module_relative=False,
                                         optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL)
        self.assertGreater(tried, 15)
        self.assertEqual(failed, 0)

    def test_operations(self):
        """Every function on whole inputs, on inputs sliced along each dim, and on partial sums."""
        torch.manual_seed(0)
        x, y, i = torch.rand(4, 6) + 0.5, torch.rand(4, 6) + 0.5, torch.randint(0, 4, (4, 2))
        functions = [
            lambda a: a.view(2, 2, 6).permute(2, 0, 1), lambda a: a.reshape(3, 8), lambda a: a.flatten(), lambda a: a.t() @ a,
            lambda a: a[1:3, ::2], lambda a: a[..., -1], lambda a: a[:, None].expand(4, 3, 6), lambda a: a.repeat(2, 1), lambda a: F.pad(a, (1, 2)),
            lambda a: torch.stack(a.chunk(3, 1)), lambda a: torch.cat(a.split([1, 3]), 0), lambda a: a.std(1), lambda a: a.var(0, keepdim=True),
            lambda a: a.max(1)[0], lambda a: a.argmax(1), lambda a: a.topk(2, 1)[0], lambda a: a.logsumexp(1), lambda a: a.norm(dim=1),
            lambda a: a.cumsum(0), lambda a: F.softplus(a) + a.rsqrt(), lambda a: a.clamp(0.6, 1.2), lambda a: torch.where(a > 1, a, 0.5),
            lambda a: a.masked_fill(a > 1, 2.0), lambda a: a.double().sum().float(), lambda a: (a > 1).sum(0), lambda a: F.silu(a).amax(0),
            lambda a: torch.einsum("ij,kj->ik", a, y), lambda a: torch.einsum("ij,ij->j", a, y), lambda a: a.gather(1, i), lambda a: F.layer_norm(a, (6,)),
            lambda a: torch.tril(a, 1), lambda a: torch.triu(a), lambda a: a.squeeze().unsqueeze(1), lambda a: a.unbind(0)[2] ** 2, lambda a: 2.0 ** -a,
            lambda a: a.sum() * torch.ones(3), lambda a: F.log_softmax(a, -1), lambda a: a.mean().expand(2), lambda a: -a / 3 + 1,
            lambda a: a.abs().sqrt(), lambda a: (a > 1) & (a < 1.3), lambda a: ~(a > 1),
            lambda a: torch.outer(a[:, 0], a[0]), lambda a: a.repeat_interleave(2, 1), lambda a: F.one_hot(a.argmax(1), 6).float(),
            lambda a: F.cross_entropy(a, i[:, 0]), lambda a: F.embedding(i, a), lambda a: a.long() * 2,
            lambda a: torch.addmm(a, a, a.t() @ a), lambda a: F.gelu(a, approximate="tanh"), lambda a: a.unflatten(1, (2, 3)).transpose(0, 2),
            lambda a: a[i[:, 0]], lambda a: a.index_select(1, i[0]),
        ]
        for number, function in enumerate(functions):
            for place, ranks in (("R(dp)", 2), ("S(0,dp)", 3), ("S(1,dp)", 2), ("P(sum,dp)", 2)):
                with self.subTest(function=number, place=place):
                    self.equal(lambda a: function(a), (x,), {"a": place}, {"dp": ranks})

    def test_changes_in_place(self):
        def step(w, m, g):
            m.mul_(0.9).add_(g, alpha=0.1)
            w -= 0.5 * m
            old = w.clone()
            w.copy_(torch.relu(w))
            return old
        program = self.equal(step, (torch.randn(5), torch.randn(5), torch.randn(5)), {"w": "S(0,dp)", "g": "P(sum,dp)"})
        self.assertIn("state w : f32[5] @ S(0,dp)", program.text)

        def swapped(a, b):
            old = a.clone()
            a.copy_(b)
            b.copy_(old)
        self.equal(swapped, (torch.randn(3), torch.randn(3)))

    def test_backward(self):
        layer = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

        def gradients(x):
            for p in layer.parameters():
                p.grad = None
            layer(x).pow(2).mean().backward()
            return [p.grad for p in layer.parameters()]
        self.equal(gradients, (torch.randn(6, 4),), {"x": "S(0,dp)"})

    def test_refused_with_the_line(self):
        def branch(x):
            y = x * 2
            if y.sum() > 0:
                return y
            return x
        error = self.refused(branch, (torch.randn(3),), "a number that depends on the data")
        self.assertEqual(error.where, f"{os.path.abspath(__file__)}:{branch.__code__.co_firstlineno + 2}")
        self.refused(lambda x: torch.linalg.inv(x), (torch.eye(2),), "cannot be said")
        self.refused(lambda x: x.item(), (torch.ones(1),), "depends on the data")

        def part(x):
            x[0] = 1
            return x
        self.refused(part, (torch.randn(3),), "written in part")
        self.refused(lambda x: x + 1, (torch.randn(3),), "did you mean x?", {"xx": "S(0,dp)"})
        self.refused(lambda x: x + 1, (torch.randn(3),), "there is no dim 1", {"x": "S(1,dp)"})
        self.refused(lambda x: x + 1, (torch.randn(3),), "no axis tp", {"x": "S(0,tp)"})
        self.refused(lambda x: x + 1, (torch.randn(3),), "is no layout", {"x": "sliced"})
        self.refused(lambda x: x + 1, (torch.randn(3), 2), "does not fit the function")
        self.refused(lambda x: x + 1j, (torch.randn(3),), "")
        for mesh in ({}, {"dp": 0}, {"1": 2}, {"dp": True}, 4):
            with self.assertRaises(InputError):
                lockstep.compile.capture(lambda x: x, (torch.ones(1),), mesh)

    def test_a_wrong_program_is_seen(self):
        program = lockstep.compile.capture(lambda x: x * 2, (torch.randn(4),), {"dp": 2})
        program.text = program.text.replace("*2", "*2.001")
        self.assertFalse(program.verify().equal)

    def test_placed(self):
        def ahead(x, w):
            return x @ lockstep.compile.place(w, "R(dp)")
        program = self.equal(ahead, (torch.randn(2, 6), torch.randn(6, 6)), {"x": "S(0,dp)", "w": "S(0,dp)"})
        self.assertEqual(program.collectives(), [("allgather", "dp", 36)])

    def test_module_on_two_ranks(self):
        def train(x, target, w, m):
            loss = F.mse_loss(torch.tanh(x @ w), target)
            g, = torch.autograd.grad(loss, w)
            with torch.no_grad():
                m.mul_(0.9).add_(g)
                w.sub_(m, alpha=0.1)
            return loss
        example = (torch.randn(8, 5), torch.randn(8, 3), torch.randn(5, 3, requires_grad=True), torch.randn(5, 3))
        program = self.equal(train, example, {"x": "S(0,dp)", "target": "S(0,dp)"})
        best = program.tune(gpu="h100-sxm")
        self.assertGreater(best.gain, 1)
        self.assertLess(best.proof["chance"], 1e-6)
        given, wanted = program._run(None)
        inputs = {name: given[name] for name in ("x", "target")}
        states = {name: given[name] for name in ("w", "m")}
        outputs = [x for label, x, _ in wanted if label.startswith("out ")]
        after = {label: x for label, x, _ in wanted if label in states}
        with tempfile.TemporaryDirectory() as folder:
            module = best.module(os.path.join(folder, "best.py"))
            torch.multiprocessing.spawn(on_rank, (2, module, os.path.join(folder, "meet"), (inputs, states, outputs, after)), 2)


if __name__ == "__main__":
    unittest.main()
