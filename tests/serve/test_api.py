"""test_api.py: the JSON interface: good and bad input, the same text as on the command line."""
import concurrent.futures
import json
import os
import subprocess
import tempfile
import unittest

from client import LONG, PROGRAM, Server, read_file, wait_until

JOB = {"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": 8, "gbs": 8, "seq": 4096}
# Simulated rank by rank and operation by operation, this takes minutes; so does a plan for so many ranks.
HUGE = {"model": "llama3.1-405b", "gpu": "h100-sxm", "gpus": 16384, "tp": 8, "pp": 16, "gbs": 131072, "seq": 8192, "exact": True,
        "ranks": "all"}
LONG_PLAN = {"model": "llama3.1-405b", "gpu": "h100-sxm", "gpus": "2048,4096,6144,8192,10240,12288,14336,16384", "gbs": 16384,
             "seq": 8192, "exhaustive": True}


def words(fields):
    return ["--%s=%s" % (k, v) for k, v in fields.items()]


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--workers", "2", "--seconds", str(LONG))
        cls.ask = cls.server.json

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def refused(self, path, body, status=400):
        got, answer = self.ask("POST", path, body)
        self.assertEqual(got, status, answer)
        self.assertEqual(set(answer["error"]), {"where", "what", "remedy", "text"})
        return answer["error"]

    # ---- predict

    def test_predict_is_the_command(self):
        status, answer = self.ask("POST", "/api/v1/predict", JOB)
        self.assertEqual(status, 200)
        printed = json.loads(subprocess.run([PROGRAM, "predict", *words(JOB), "-o", "json"], capture_output=True).stdout)
        self.assertEqual(answer, printed)

    def test_an_answer_whose_check_fails_is_marked(self):
        """One that fails for a test alone; without that wish it would end the child (LOCKSTEP_CHECKS=abort)."""
        with Server(env={"LOCKSTEP_CHECKS": "fail"}) as server:
            status, answer = server.json("POST", "/api/v1/predict", JOB)
            self.assertEqual((status, answer["checked"], answer["failed_check"]), (200, False, "LOCKSTEP_CHECKS=fail"))
        status, answer = self.ask("POST", "/api/v1/predict", JOB)
        self.assertNotIn("checked", answer)

    def test_what_does_not_fit_is_an_answer(self):
        status, answer = self.ask("POST", "/api/v1/predict", {**JOB, "mbs": 8, "gbs": 64})
        self.assertEqual((status, answer["fits"]), (200, False))
        self.assertTrue(answer["fixes"])

    def test_fields_of_all_types(self):
        fields = {**JOB, "tokens": "15T", "compile": True, "overlap-grad-reduce": False, "checkpoint-interval": 25.5, "mtbf": 400, "recompute": None}
        status, answer = self.ask("POST", "/api/v1/predict", fields)
        self.assertEqual(status, 200, answer)
        self.assertIsNotNone(answer["days"])

    def test_config_as_object(self):
        config = json.loads(read_file("tests/data/hf/llama-3-8b.json"))
        status, answer = self.ask("POST", "/api/v1/predict", {**JOB, "model": config})
        self.assertEqual(status, 200, answer)
        self.assertIn("--model config.json", answer["reproduce"])

    def test_script_and_deepspeed(self):
        script = read_file("tests/data/launch/gpt_175b.sh").decode()
        status, answer = self.ask("POST", "/api/v1/predict", {"script": script, "gpu": "a100-sxm-80", "gpus": 1024})
        self.assertEqual(status, 200, answer)
        config = json.loads(read_file("tests/data/launch/ds_zero3.json"))
        status, answer = self.ask("POST", "/api/v1/predict", {**JOB, "gbs": None, "deepspeed_config": config})
        self.assertEqual(status, 200, answer)
        self.assertIn("ZeRO 3", answer["layout"]["text"])

    def test_launch_line(self):
        line = ["pretrain_gpt.py", "--num-layers", "24", "--hidden-size", "1024", "--num-attention-heads", "16", "--seq-length",
                "2048", "--max-position-embeddings", "2048", "--micro-batch-size", "4", "--global-batch-size", "64", "--vocab-size", "32000"]
        status, answer = self.ask("POST", "/api/v1/predict", {"gpu": "h100-sxm", "gpus": 8, "launch": line})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["layout"]["gbs"], 64)

    def test_what_a_launch_line_states(self):
        line = ("torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 32 --hidden-size "
                "4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 "
                "--global-batch-size 64 --bf16 --vocab-size 32000 --recompute-granularity full --recompute-method uniform")
        status, answer = self.ask("POST", "/api/v1/launch", {"launch": line.split()})
        self.assertEqual(status, 200, answer)
        self.assertTrue(answer["network"])
        self.assertIsNone(answer["command"])
        said = answer["line"]
        self.assertEqual({"gpus": 32, "tp": 8, "mbs": 2, "gbs": 64, "seq": 2048, "dtype": "bf16", "recompute": "full"}.items() - said.items(),
                         set(), said)
        self.assertNotIn("gpu", said)
        status, answer = self.ask("POST", "/api/v1/launch", {"launch": ("lockstep predict --gpu h200 --tp 4 --no-overlap-p2p -- " + line).split()})
        self.assertEqual(answer["command"], {"options": {"gpu": "h200", "tp": 4, "overlap-p2p": False}, "launch": line})
        self.assertEqual(answer["line"], said)
        # The same job, whether its line is read or what the line states is asked beside it.
        layout = {name: said[name] for name in ("gpus", "tp", "pp", "cp", "mbs", "gbs", "seq", "dtype", "zero", "recompute", "stack")}
        by_line = self.ask("POST", "/api/v1/predict", {"gpu": "h200", "launch": line.split()})[1]
        both = self.ask("POST", "/api/v1/predict", {"gpu": "h200", "launch": line.split(), **layout})[1]
        self.assertEqual(by_line["step_time_s"], both["step_time_s"], both)
        self.assertEqual(by_line["layout"], both["layout"])
        for wrong, what in (("lockstep plan --gpus 8", "not predict"), ("lockstep predict --calibration x.json", "names a file"),
                            ("lockstep predict --tp 1,2", "combinations"), ("hello", "no training program")):
            self.assertIn(what, self.refused("/api/v1/launch", {"launch": wrong.split()})["text"])

    def test_a_job_is_read_as_its_file_whatever_form_it_has(self):
        """The content has no name that says what it is."""
        axolotl = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n"
        texts = {".yaml": axolotl, ".yml": "---\n# what\n" + axolotl,
                 ".toml": "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n"
                          "tensor_parallel_degree = 2\n",
                 ".json": read_file("tests/data/launch/ds_zero3.json").decode(), ".sh": read_file("tests/data/launch/mixtral_8x7b.sh").decode()}
        where = {"gpu": "h200", "gpus": 64}
        for ending, text in texts.items():
            fields = {**where, **({"model": "llama3.1-8b"} if ending == ".json" else {})}
            with tempfile.TemporaryDirectory() as folder:
                with open(folder + "/job" + ending, "w", encoding="utf-8") as f:
                    f.write(text)
                ran = subprocess.run([os.path.abspath(PROGRAM), "predict", "job" + ending, *words(fields), "-o", "json"], cwd=folder,
                                     capture_output=True, text=True)
            self.assertTrue(ran.stdout, ran.stderr)
            said, (status, answer) = json.loads(ran.stdout), self.ask("POST", "/api/v1/predict", {**fields, "config": text})
            self.assertEqual(status, 200, answer)
            for name in ("step_time_s", "peak_bytes", "layout", "model", "assumptions", "ignored"):
                self.assertEqual(answer[name], said[name], ending)

    def test_commands_with_operands_and_files(self):
        """What `lockstep predict` names beside its options: a network, a line in quotes, a file that was sent, and no other."""
        def stated(command, **more):
            return self.ask("POST", "/api/v1/launch", {"launch": ["lockstep", "predict", *command], **more})
        status, answer = stated(["llama3.1-8b", "--gpu", "8xh100-sxm"])
        self.assertEqual((status, answer["command"]["options"]), (200, {"model": "llama3.1-8b", "gpu": "8xh100-sxm"}), answer)
        line = "torchrun --nproc_per_node 4 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --bf16"
        status, answer = stated([line, "--gpu", "h200"])
        self.assertEqual((status, answer["command"]["options"]), (200, {"gpu": "h200", "config": line}), answer)
        self.assertEqual((answer["line"]["gpus"], answer["line"]["mbs"], answer["line"]["model"]), (4, 2, "Qwen/Qwen2.5-7B"))
        job = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 4096\nmicro_batch_size: 2\n"
        for command in (["job", "--gpus", "16"], ["--config", "job", "--gpus", "16"]):
            status, answer = stated(command, config=job)
            self.assertEqual((status, answer["command"]["options"], answer["line"]["seq"]), (200, {"gpus": 16}, 4096), answer)
        network = json.loads(read_file("tests/data/hf/llama-3-8b.json"))
        status, answer = stated(["--model", "config.json", "--tp", "2"], model=network)
        self.assertEqual((status, answer["command"]["options"]), (200, {"tp": 2}), answer)
        for command in (["run.sh", "--gpus", "16"], ["job"], ["--config", "job"], ["--script", "script.sh"]):
            self.assertIn("names a file, and the server reads none", self.refused("/api/v1/launch", {"launch": ["lockstep", "predict", *command]})["text"])

    def test_same_text_as_the_command_line(self):
        for wrong in ({"gpu": "h1000"}, {"gpus": -1}, {"gpus": 0}, {"gpus": 1e300}, {"gpus": 2.5}, {"tokens": "many"},
                      {"model": "llama9"}, {"dtype": "bf17"}, {"tp": 3}, {"gpux": 1}, {"bucket": -1}, {"jitter": 7},
                      {"straggler": "x"}, {"moe-imbalance": 0}, {"seq": 99999999999999999999}):
            fields = {**JOB, **wrong}
            error = self.refused("/api/v1/predict", fields)
            ran = subprocess.run([PROGRAM, "predict", *words(fields)], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 2, wrong)
            self.assertEqual("lockstep: " + error["text"] + "\n", ran.stderr, wrong)

    def test_numbers_and_texts(self):
        """Whole numbers may have a suffix, and texts that are numbers may be numbers."""
        status, plain = self.ask("POST", "/api/v1/predict", {**JOB, "seq": 4096, "zero": "1"})
        self.assertEqual(status, 200, plain)
        self.assertEqual(self.ask("POST", "/api/v1/predict", {**JOB, "seq": "4k", "zero": 1, "gpus": str(JOB["gpus"])}), (200, plain))

    def test_missing_fields(self):
        self.assertEqual(self.refused("/api/v1/predict", {})["where"], "--model")
        self.refused("/api/v1/predict", {"model": "llama3.1-8b", "gpu": "h100-sxm"})

    def test_wrong_types(self):
        for field, value in (("gpus", True), ("gpus", [8]), ("gpus", {}), ("model", 8), ("model", True),
                             ("model", []), ("compile", "yes"), ("compile", 1), ("recompute", True), ("tokens", True),
                             ("deepspeed_config", "x"), ("script", {}), ("launch", "x"), ("launch", [1]), ("launch", {})):
            error = self.refused("/api/v1/predict", {**JOB, field: value})
            self.assertIn(field, error["where"])
            self.assertIn("JSON", error["what"])

    def test_lists_are_not_swept(self):
        self.assertIn("combinations", self.refused("/api/v1/predict", {**JOB, "model": "llama3.1-8b,llama3.1-70b"})["what"])

    def test_files_are_not_read(self):
        for field, value in (("model", "/etc/passwd"), ("model", "../x"), ("cluster", "/etc/passwd"), ("calibration", "x.json")):
            self.assertIn("files by name", self.refused("/api/v1/predict", {**JOB, field: value})["what"])
        for field in ("trace", "graph", "chakra", "goal", "file", "resume", "output", "verbose"):
            self.refused("/api/v1/predict", {**JOB, field: "json"})

    def test_files_named_in_launch_lines_are_not_read(self):
        secret = "tests/data/launch/ds_zero3.json"
        line = ["deepspeed", "train.py", "--deepspeed", os.path.abspath(secret)]
        error = self.refused("/api/v1/predict", {**JOB, "launch": line})
        self.assertIn("ds_zero3.json", error["where"])
        self.assertEqual(error["what"], "is not among the files that were sent")
        absent = self.refused("/api/v1/predict", {**JOB, "launch": line[:3] + ["/nowhere/x.json"]})
        self.assertEqual(absent["what"], error["what"])

    # ---- bodies

    def test_broken_bodies(self):
        for body in (b"", b"{", b"{]", b"nul", b"[1]", b"5", b'"x"', b'{"model": "\\ud8"}', b"\xff\xfe", b'{"a":' * 1000,
                     b"\x1f\x8b\x08\x00", b"[" * 100000):
            status, answer = self.ask("POST", "/api/v1/predict", body, headers={"Content-Type": "application/json"})
            self.assertEqual(status, 400, (body[:20], answer))
            self.assertTrue(answer["error"]["where"].startswith(("body", "--")), answer)

    def test_large_bodies(self):
        status, answer = self.ask("POST", "/api/v1/predict", b" " * (1 << 20) + b"{}", headers={"Content-Type": "application/json"})
        self.assertEqual(status, 413, answer)
        status, answer = self.ask("POST", "/api/v1/predict", json.dumps({**JOB, "model": {"x": "y" * 900000}}).encode(),
                                  headers={"Content-Type": "application/json"})
        self.assertEqual(status, 400, answer)

    def test_content_type(self):
        for kind in (None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
            self.assertEqual(self.ask("POST", "/api/v1/predict", b"{}", headers={"Content-Type": kind})[0], 415)
        status, _ = self.ask("POST", "/api/v1/predict", json.dumps(JOB).encode(),
                             headers={"Content-Type": "application/json; charset=utf-8"})
        self.assertEqual(status, 200)

    # ---- paths

    def test_paths_and_methods(self):
        for path in ("/api/v1/nothing", "/api/v1/", "/api/", "/api/v1/predict/", "/api/v1/jobs/", "/api/v1/jobs/1/2", "/nothing",
                     "/serve.htm", "/../serve.html", "/web/serve.html", "/devices.csv", "/..%2fdevices.csv", "/%2e%2e/devices.csv"):
            self.assertEqual(self.server.ask("GET", path)[0], 404, path)
        status, headers, _ = self.server.ask("GET", "/api/v1/predict")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        status, headers, _ = self.server.ask("POST", "/api/v1/models", {})
        self.assertEqual((status, headers["Allow"]), (405, "GET"))
        for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO"):
            self.assertIn(self.server.ask(method, "/api/v1/predict")[0], (405, 404), method)
        status, headers, text = self.server.ask("HEAD", "/")
        self.assertEqual((status, text), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 0)

    def test_form(self):
        self.assertEqual(self.ask("POST", "/api/v1/predict?form=result", JOB)[0], 200)
        self.assertEqual(self.ask("POST", "/api/v1/predict?form=poem", JOB)[0], 400)
        status, report = self.ask("POST", "/api/v1/predict?form=report", JOB)
        self.assertEqual((status, report["verb"]), (200, "predict"))
        self.assertEqual(report["panels"][0]["kind"], "verdict")
        self.assertTrue(report["result"]["fits"])
        status, picture = self.ask("POST", "/api/v1/predict?form=picture", JOB)
        late = [p for p in report["panels"] if p["kind"] == "tornado"]
        self.assertEqual((status, len(late)), (200, 1))
        self.assertEqual(picture["panels"], [p for p in report["panels"] if p not in late])
        self.assertEqual(picture["reproduce"], report["reproduce"])
        wide = {**JOB, "model": "llama3.1-70b", "gpus": 16, "gbs": 16, "dp": 16}
        report, picture = ([p["title"] for p in self.ask("POST", "/api/v1/predict?form=" + form, wide)[1]["panels"]]
                           for form in ("report", "picture"))
        self.assertEqual([title for title in report if title not in picture], ["Changes that would make it fit"])

    def begun(self):
        """Waits for a question that is being answered."""
        wait_until(lambda: self.ask("GET", "/api/v1/health")[1]["running"] > 0)

    def test_page(self):
        for page in ("", "x" * 33):
            self.assertEqual(self.ask("POST", "/api/v1/predict?page=" + page, JOB)[0], 400)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(self.ask, "POST", "/api/v1/predict?page=a", HUGE)
            self.begun()
            self.assertEqual(self.ask("POST", "/api/v1/predict?page=b", JOB)[0], 200)
            self.assertFalse(first.done(), "another page ended it")
            second = pool.submit(self.ask, "POST", "/api/v1/predict?page=a", HUGE)
            self.assertEqual(first.result(), (204, None))
            self.begun()
            self.assertEqual(self.ask("POST", "/api/v1/predict?page=a&form=picture", JOB)[0], 200)
            self.assertEqual(second.result(), (204, None))

    # ---- lists

    def test_lists(self):
        models = self.ask("GET", "/api/v1/models")[1]
        gpus = self.ask("GET", "/api/v1/gpus")[1]
        options = self.ask("GET", "/api/v1/options")[1]
        self.assertIn("llama3.1-8b", [m["name"] for m in models["rows"]])
        self.assertIn("h100-sxm", [g["name"] for g in gpus["rows"]])
        machines = self.ask("GET", "/api/v1/machines")[1]
        self.assertTrue(any(m["gpu"] == "h100-sxm" and m["usd_h_per_gpu"] > 0 for m in machines["rows"]))
        self.assertEqual(set(options), {"predict", "plan", "rent", "shard", "explain", "whatif", "diff", "stalls"})
        for verb, table in options.items():
            help_ = subprocess.run([PROGRAM, "help", verb], capture_output=True, text=True).stdout
            for option in table:
                self.assertRegex(help_, r"--(\[no-\])?%s\b" % option["name"])
        health = self.ask("GET", "/api/v1/health", token=False)[1]
        self.assertEqual(health["status"], "ok")

    # ---- jobs

    def test_plan(self):
        job = self.server.job(self.ask("POST", "/api/v1/plan", {"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": "8", "gbs": 64,
                                                               "seq": 4096}))
        self.assertEqual((job["state"], job["status"], job["verb"]), ("done", 200, "plan"))
        self.assertEqual(job["progress"]["done"], job["progress"]["all"])
        best = job["answer"]["counts"][0]["choices"][0]
        status, answer = self.ask("POST", "/api/v1/predict", {**JOB, "gbs": 64, "tp": best["tp"], "pp": best["pp"], "mbs": best["mbs"],
                                                             "zero": str(best["zero"]), "recompute": best["recompute"]})
        self.assertEqual((status, answer["fits"]), (200, True))

    def test_plan_refused(self):
        job = self.server.job(self.ask("POST", "/api/v1/plan", {"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": "8", "task": "sft"}))
        self.assertEqual((job["state"], job["status"]), ("failed", 400))
        self.assertIn("gbs", job["error"]["text"])
        job = self.server.job(self.ask("POST", "/api/v1/plan", {"gpus": True}))
        self.assertEqual(job["error"]["where"], "--gpus")

    def test_plan_is_cancelled(self):
        status, job = self.ask("POST", "/api/v1/plan", LONG_PLAN)
        self.assertEqual((status, job["state"]), (202, "running"))
        self.assertEqual(self.ask("DELETE", "/api/v1/jobs/" + job["id"])[0], 204)
        self.assertEqual(self.ask("GET", "/api/v1/jobs/" + job["id"])[0], 404)
        self.assertEqual(self.ask("DELETE", "/api/v1/jobs/" + job["id"])[0], 404)
        self.assertEqual(self.server.children(), [])

    # ---- explain

    def test_explain_is_the_command(self):
        trace = "trace_small.json"
        job = self.server.job(self.server.upload([("../trace_small.json", read_file("tests/data/" + trace))], '{"top": 3}'))
        self.assertEqual(job["state"], "done", job)
        ran = subprocess.run([os.path.abspath(PROGRAM), "explain", trace, "--top", "3", "-o", "json"], capture_output=True,
                             cwd="tests/data")
        self.assertEqual(job["answer"], json.loads(ran.stdout))

    def test_explain_of_logs_and_of_two_runs(self):
        """A log, and two runs, which are compared: as the program answers, and each with a page."""
        line = "iteration %d/ 100 | elapsed time per iteration (ms): 3525.0 | global batch size: 32 |\n"
        log = "".join(line % i for i in range(1, 31)).encode()
        runs = [read_file("tests/data/trace_before.json"), read_file("tests/data/trace_after.json")]
        for files in ([("run.log", log)], [("before.json", runs[0]), ("after.json", runs[1])]):
            with tempfile.TemporaryDirectory() as folder:
                for name, content in files:
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(content)
                ran = subprocess.run([os.path.abspath(PROGRAM), "explain", *(name for name, _ in files), "-o", "json"],
                                     capture_output=True, cwd=folder)
            job = self.server.job(self.server.upload(files))
            self.assertEqual(job["state"], "done", job)
            self.assertEqual(job["answer"], json.loads(ran.stdout))
            page = self.server.job(self.server.upload(files, path="/api/v1/explain?form=report"))
            self.assertEqual(page["state"], "done", page)
            self.assertIn("panels", page["answer"])

    def test_explain_refused(self):
        for files, options, where in (([("x.json", b"{}")], None, "x.json"), ([("x.json", b"")], None, "x.json"),
                                      ([("x.bin", bytes(range(256)))], None, "x.bin"), ([("a", b"{"), ("a", b"{")], None, "a"),
                                      ([("x.json", b"{}")], '{"steps": [5]}', "--steps"), ([("x.json", b"{}")], "[]", "body"),
                                      ([("x.json", b"{}")], '{"trace": "x"}', "--trace")):
            job = self.server.job(self.server.upload(files, options))
            self.assertEqual((job["state"], job["status"]), ("failed", 400), job)
            self.assertIn(where, job["error"]["where"], job)
        self.assertEqual(self.server.upload([])[0], 400)
        self.assertEqual(self.server.upload([], "{}")[0], 400)

    def test_explain_broken_forms(self):
        head = {"Content-Type": "multipart/form-data; boundary=m"}
        for body in (b"", b"--m", b"--m\r\n\r\n", b"--m\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--m--\r\n",
                     b"--m\r\nContent-Disposition: form-data; name=\"traces\"; filename=\"a\"\r\n\r\nabc", b"\x00" * 1000):
            status, answer = self.ask("POST", "/api/v1/explain", body, headers=head)
            self.assertEqual(status, 400, (body, answer))
        self.assertIn(self.ask("POST", "/api/v1/explain", b"x", headers={"Content-Type": "multipart/form-data"})[0], (400, 415))


if __name__ == "__main__":
    unittest.main()
