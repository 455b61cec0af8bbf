"""Wrong input is an exception with the program's text; nothing crashes or hangs."""

import os
import pathlib
import pickle
import tempfile
import unittest

import lockstep
from common import JOB, JOB_WORDS, TABLES, data, refusal

WRONG_VALUES = [float("nan"), float("inf"), -float("inf"), -1, 10**40, -(10**40), 1e300, "", "x\0y", "\ud800", "a,b", b"bytes", object(),
                [], [1, [2]], {}, {"a": 1}, lambda: 0, "x" * 100_000, "%s%n", "../../etc", True, 2.5, 1j, range(10**9).__class__]


class Text(unittest.TestCase):
    """The same words in the program and here."""

    def same(self, call, *words):
        with self.assertRaises(lockstep.LockstepError) as raised:
            call()
        self.assertEqual(str(raised.exception), refusal(*words))
        return raised.exception

    def test_where_what_remedy(self):
        error = self.same(lambda: lockstep.predict(**{**JOB, "gpu": "h100-sxn"}), "predict", *JOB_WORDS, "--gpu", "h100-sxn")
        self.assertIsInstance(error, lockstep.InputError)
        self.assertIsInstance(error, ValueError)
        self.assertIn("unknown", error.what)
        self.assertIn("did you mean", error.remedy)
        self.assertEqual(str(error), f"{error.where}: {error.what}; {error.remedy}")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.where), (type(error), str(error), error.where))

    def test_numbers(self):
        for value in ("nan", "-1", "0", "1e30", "four", "2.5"):
            error = self.same(lambda: lockstep.predict(**{**JOB, "tp": value}), "predict", *JOB_WORDS, f"--tp={value}")
            self.assertEqual(error.where, "--tp")
        self.same(lambda: lockstep.predict(**{**JOB, "tp": float("nan")}), "predict", *JOB_WORDS, "--tp=nan")
        self.same(lambda: lockstep.predict(**{**JOB, "tp": 10**30}), "predict", *JOB_WORDS, f"--tp={10**30}")
        self.same(lambda: lockstep.predict(**{**JOB, "tp": 3}), "predict", *JOB_WORDS, "--tp=3")

    def test_unknown_names(self):
        self.same(lambda: lockstep.predict(**JOB, modle="x"), "predict", *JOB_WORDS, "--modle")
        self.same(lambda: lockstep.predict(**{**JOB, "model": "lama3.1-8b"}), "predict", *JOB_WORDS, "--model", "lama3.1-8b")
        self.same(lambda: lockstep.plan(model="vit-b16-224", gpu="h100-sxm", gpus=8), "plan", "-m", "vit-b16-224", "-g", "h100-sxm", "-n", "8")
        self.same(lambda: lockstep.plan(gpuz=8), "plan", "--gpuz")
        self.same(lambda: lockstep.validate(data("runs_small.csv"), sort="erorr"), "validate", data("runs_small.csv"), "--sort", "erorr")
        self.same(lambda: lockstep.rent(model="llama3.1-8b", provdier="x"), "rent", "-m", "llama3.1-8b", "--provdier")
        self.same(lambda: lockstep.devices("h1oo"), "devices", "h1oo")

    def test_files(self):
        error = self.same(lambda: lockstep.explain("/nowhere/trace.json"), "explain", "/nowhere/trace.json")
        self.assertIsInstance(error, lockstep.FileError)
        self.same(lambda: lockstep.validate(data("trace_small.json")), "validate", data("trace_small.json"))
        self.same(lambda: lockstep.explain(data("runs_small.csv")), "explain", data("runs_small.csv"))
        self.same(lambda: lockstep.shard(data("runs_small.csv"), gpu="a100-sxm-80", gpus=2), "shard", data("runs_small.csv"), "--gpu",
                  "a100-sxm-80", "--gpus", "2")
        self.same(lambda: lockstep.whatif("/nowhere.json", gpu="h100-sxm"), "whatif", "/nowhere.json", "--gpu", "h100-sxm")


class Values(unittest.TestCase):
    """Any value of any type for any option: an answer or a LockstepError."""

    def fed(self, call, names):
        for name in names:
            for value in WRONG_VALUES:
                with self.subTest(name=name, value=repr(value)[:40]):
                    try:
                        call(**{name: value})
                    except lockstep.LockstepError as error:
                        self.assertTrue(str(error))

    def options(self, verb):
        from lockstep import _verbs
        return getattr(_verbs, "_" + verb.upper())

    def test_predict(self):
        names = set(self.options("predict")) - {"trace", "graph", "chakra", "goal", "output", "file"}
        self.fed(lambda **wrong: lockstep.predict(**{**JOB, "no_fixes": True, **wrong}), names | {"launch"})

    def test_others(self):
        self.fed(lambda **wrong: lockstep.validate(data("runs_small.csv"), **wrong), ["folds", "stack", "sort", "overheads"])
        self.fed(lambda **wrong: lockstep.explain(data("trace_small.json"), **wrong), ["steps", "rank", "threads"])
        self.fed(lambda **wrong: lockstep.plan(**{**JOB, "tp": [1, 2], **wrong}), ["gpus", "gbs", "tp", "top", "hours", "emit"])
        self.fed(lambda **wrong: lockstep.rent(**{"model": "llama3.1-8b", "machine": "no such", **wrong}), ["gbs", "tokens", "budget", "spot"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tables.csv")
            pathlib.Path(path).write_text(TABLES)
            self.fed(lambda **wrong: lockstep.shard(path, gpu="a100-sxm-80", **wrong), ["gpus", "batch", "kinds", "sharder", "cache"])

    def test_operands(self):
        calls = [lockstep.validate, lockstep.explain, lambda p: lockstep.shard(p, gpu="a100-sxm-80", gpus=2),
                 lambda p: lockstep.whatif(p, gpu="h100-sxm"), lockstep.simulate, lockstep.devices, lockstep.models]
        for call in calls:
            for value in [*WRONG_VALUES, "-", 5, "/", "/dev/null", "-x", [None], [[]]]:
                if call in (lockstep.explain, lockstep.whatif) and value == "/":
                    continue  # a folder: all of it would be read
                with self.subTest(call=call, value=repr(value)[:40]):
                    try:
                        call(value)
                    except lockstep.LockstepError as error:
                        self.assertTrue(str(error))

    def test_requests(self):
        for wrong in (5, "x", {"model": "x"}, [5], [None, "x"], [lockstep.PredictRequest], object(), []):
            with self.subTest(wrong=repr(wrong)), self.assertRaises(lockstep.InputError):
                lockstep.sweep(wrong, **JOB)
        for threads in (0, -1, 1.5, True, "2", 10**9):
            with self.subTest(threads=threads), self.assertRaises(lockstep.InputError):
                lockstep.sweep(**JOB, threads=threads)
        with self.assertRaisesRegex(lockstep.InputError, "combinations"):
            lockstep.sweep(**{**JOB, "seq": range(1, 1000), "mbs": range(1, 1000)})
        with self.assertRaisesRegex(lockstep.InputError, "one is answered here; use sweep"):
            lockstep.predict(**{**JOB, "tp": [1, 2]})

    def test_calibration_ends_with_its_call(self):
        """Files in any order, and none again: each call has the numbers of its own."""
        with tempfile.TemporaryDirectory() as folder:
            wrong = os.path.join(folder, "wrong.csv")
            pathlib.Path(wrong).write_text("no,calibration\n1,2\n")
            with self.assertRaises(lockstep.InputError):
                lockstep.predict(**JOB, calibration=wrong)
            lockstep.predict(**JOB)  # a file that was refused is not in use
            slow, slower = pathlib.Path(folder, "slow.csv"), os.path.join(folder, "slower.csv")
            head = "family,subject,variant,numbers,points,error,date,source\n"
            slow.write_text(head + "step,all,,gemm_share=0.4,1,0,2026-01-01,test\n")
            pathlib.Path(slower).write_text(head + "step,all,,gemm_share=0.2,1,0,2026-01-01,test\n")
            files = [None, slow, slower, None, slower, slow]
            steps = [lockstep.predict(**JOB, calibration=file).step_time_s for file in files]
            self.assertLess(steps[0], steps[1])
            self.assertLess(steps[1], steps[2])
            self.assertEqual(steps[3:], [steps[0], steps[2], steps[1]])
            requests = [lockstep.PredictRequest(**JOB, calibration=file) for file in files]
            self.assertEqual(list(lockstep.sweep(requests)["step_time_s"]), steps)


if __name__ == "__main__":
    unittest.main()
