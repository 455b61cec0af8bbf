"""Answers hold what the program prints with -o json, and nothing of it is left out."""

import dataclasses
import json
import math
import os
import random
import sys
import tempfile
import typing
import unittest

import lockstep
from common import JOB, JOB_WORDS, TABLES, asked, data, run
from lockstep._build import makers


class Equal(unittest.TestCase):
    def same(self, answer, printed, place=""):
        """Every key of the program's JSON is an attribute with that value."""
        if dataclasses.is_dataclass(answer):
            needed = {f.name for f in dataclasses.fields(answer) if f.default is dataclasses.MISSING}
            self.assertEqual((set(makers(type(answer))) & needed) - set(printed), set(), f"{place}: fields that are not printed")
            self.assertEqual(set(printed) - set(makers(type(answer))) - {"schema", "version", "data_date"}, set(), f"{place}: keys that are no fields")
            for key, value in printed.items():
                if hasattr(answer, key):
                    self.same(getattr(answer, key), value, f"{place}.{key}")
        elif isinstance(answer, lockstep.Table):
            self.assertEqual(len(answer), len(printed), place)
            for i, row in enumerate(printed):
                self.same(answer.row(i), row, f"{place}[{i}]")
        elif isinstance(answer, dict):
            self.assertEqual(set(answer), set(printed), place)
            for key, value in printed.items():
                self.same(answer[key], value, f"{place}.{key}")
        elif isinstance(answer, list):
            self.assertEqual(len(answer), len(printed), place)
            for i, (one, other) in enumerate(zip(answer, printed)):
                self.same(one, other, f"{place}[{i}]")
        else:
            self.assertEqual(answer, printed, place)

    def test_predict(self):
        self.same(lockstep.predict(**JOB), asked("predict", *JOB_WORDS))

    def test_failed_check(self):
        """An answer that fails a check of its own is given, with a warning; it fails here because the test wishes it."""
        before = lockstep.predict(**JOB)
        self.assertIsNone(before.failed_check)
        mode = os.environ.get("LOCKSTEP_CHECKS")
        os.environ["LOCKSTEP_CHECKS"] = "fail"
        try:
            with self.assertWarnsRegex(UserWarning, "LOCKSTEP_CHECKS=fail"):
                after = lockstep.predict(**JOB)
        finally:
            os.environ["LOCKSTEP_CHECKS"] = mode or ""
        self.assertEqual(after.failed_check, "LOCKSTEP_CHECKS=fail")
        self.assertEqual(after.step_time_s, before.step_time_s)

    def test_random_jobs(self):
        """What the program prints of a random job is what the answer holds; what it refuses is refused."""
        sys.path.insert(0, os.path.join(os.environ["LOCKSTEP_ROOT"], "tests", "cli"))
        import drawn
        answered = 0
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(10000 if os.environ.get("LOCKSTEP_LONG") else 40):
                job = drawn.draw_job(random.Random(seed), seed, folder + "/")
                words = [word for name, value in job.items() for word in ("--" + name, str(value))]
                done = run("predict", *words, "-o", "json")
                printed = done.stdout
                if done.returncode > 1:
                    with self.assertRaises(lockstep.LockstepError):
                        lockstep.predict(**{name.replace("-", "_"): value for name, value in job.items()})
                    continue
                answered += 1
                printed = json.loads(printed)
                self.same(lockstep.predict(**{name.replace("-", "_"): value for name, value in job.items()}), printed, " ".join(words))
        self.assertGreater(answered, 20)

    def test_predict_that_does_not_fit(self):
        answer = lockstep.predict(model="llama3-70b", gpu="h100-sxm", gpus=8, tp=8, gbs=16, seq=4096, tokens="1T", mtbf=100)
        self.assertFalse(answer.fits)
        self.assertTrue(answer.fixes)
        self.same(answer, asked("predict", "-m", "llama3-70b", "-g", "h100-sxm", "-n", "8", "--tp", "8", "--gbs", "16", "-s", "4096",
                                "-t", "1T", "--mtbf", "100"))

    def test_predict_by_request_and_by_launch_line(self):
        request = lockstep.PredictRequest(**JOB)
        self.same(lockstep.predict(request, mbs=2), asked("predict", *JOB_WORDS, "--mbs", "2"))
        line = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 8 " \
               "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --vocab-size 32000"
        self.same(lockstep.predict(gpu="a100-sxm-80", launch=line), 
                  json.loads(run("predict", "--gpu", "a100-sxm-80", "-o", "json", "--", *line.split()).stdout))

    def test_sweep(self):
        rows = lockstep.sweep(model="llama3.1-8b", gpu="h100-sxm", gpus=8, tp=[1, 2, 3], gbs=16, seq=[2048, 4096])
        printed = asked("predict", "-m", "llama3.1-8b", "-g", "h100-sxm", "-n", "8", "--tp", "1,2,3", "--gbs", "16", "-s", "2048,4096")
        self.assertEqual(len(rows), len(printed))
        for i, row in enumerate(printed):
            del row["asked"]
            if row["fits"] is None:
                self.assertEqual(rows["refused"][i], row["refused"])
                self.assertIsNone(rows.prediction(i))
                self.assertTrue(math.isnan(rows["step_time_s"][i]))
            else:
                self.same(rows.prediction(i), row)
                self.assertEqual(rows["step_time_s"][i], row["step_time_s"])
                self.assertEqual(bool(rows.fits[i]), row["fits"])
        fitting = [(row["tokens_per_s_per_gpu"], i) for i, row in enumerate(printed) if row["fits"]]
        self.assertEqual(rows.best, max(fitting)[1])

    def test_sweep_of_requests(self):
        rows = lockstep.sweep([lockstep.PredictRequest(tp=tp, seq=seq) for tp, seq in ((1, 2048), (4, 4096))],
                              model="llama3.1-8b", gpu="h100-sxm", gpus=8, gbs=16)
        self.assertEqual([row["tp"] for row in rows], [1, 4])
        self.assertEqual(rows["step_time_s"][1], lockstep.predict(**{**JOB, "tp": 4}).step_time_s)

    def test_plan(self):
        job = dict(model="llama3.1-8b", gpu="h100-sxm", gpus=[4, 8], gbs=32, seq=2048, tokens=1e9)
        answer = lockstep.plan(**job)
        words = ["plan", "-m", "llama3.1-8b", "-g", "h100-sxm", "-n", "4,8", "--gbs", "32", "-s", "2048", "-t", "1000000000"]
        self.same(answer, asked(*words))
        self.assertIsNone(answer.launch)
        self.assertEqual(lockstep.plan(**job, emit="megatron").launch, run(*words, "--emit", "megatron").stdout.strip())
        self.assertEqual(answer.best, answer.counts[1].choices[0])

    def test_validate(self):
        path = data("runs_small.csv")
        self.same(lockstep.validate(path, sort="error"), asked("validate", path, "--sort", "error"))

    def test_explain(self):
        path = data("trace_small.json")
        self.same(lockstep.explain(path), asked("explain", path))
        self.same(lockstep.explain(path, steps="3-4", rank=0), asked("explain", path, "--steps", "3-4", "--rank", "0"))
        # What the file is decides who answers, as for the program.
        for other, job in [("train_small.log", None), ("oom.log", None), ("train_small.log", "gpt2 --gpu a100-sxm-80 --gpus 1")]:
            answer, said = lockstep.explain(data(other), job=job), asked("explain", data(other), *(["--job", job] if job else []))
            for key in ("source", "cause", "step_s", "step_time_s"):
                self.assertEqual(getattr(answer, key, None), said.get(key))

    def test_shard(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tables.csv")
            with open(path, "w") as file:
                file.write(TABLES)
            self.same(lockstep.shard(path, gpu="a100-sxm-80", gpus=2, dtype="fp16"),
                      asked("shard", path, "--gpu", "a100-sxm-80", "--gpus", "2", "--dtype", "fp16"))

    def test_rent(self):
        answer = lockstep.rent(model="llama3.1-8b", gbs=64, seq=2048, tokens=1e9, provider="lambda", machine="h100", most_gpus=8, deadline=100)
        self.same(answer, asked("rent", "-m", "llama3.1-8b", "--gbs", "64", "-s", "2048", "-t", "1e9", "--provider", "lambda",
                                "--machine", "h100", "--most-gpus", "8", "--deadline", "100"))

    def test_whatif(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.json")
            lockstep.predict(**JOB, graph=path)
            self.same(lockstep.whatif(path, gpu="h100-sxm", set={"nic": "2x", "gpus": 16}),
                      asked("whatif", path, "--gpu", "h100-sxm", "--set", "nic=2x", "--set", "gpus=16"))

    def test_lists(self):
        self.assertEqual(lockstep.devices("h100"), asked("devices", "h100")["rows"])
        self.assertEqual(lockstep.models(), asked("models")["rows"])

    def test_shapes(self):
        """Hints are there for every field, and every answer has a picture that escapes its texts."""
        for name in lockstep.__all__:
            kind = getattr(lockstep, name)
            if dataclasses.is_dataclass(kind):
                self.assertEqual(set(typing.get_type_hints(kind)), {f.name for f in dataclasses.fields(kind)}, name)
        answer = dataclasses.replace(lockstep.predict(**JOB), model="<script>alert(1)</script>")
        self.assertIn("&lt;script&gt;", answer._repr_html_())
        self.assertNotIn("<script>", answer._repr_html_())


if __name__ == "__main__":
    unittest.main()
