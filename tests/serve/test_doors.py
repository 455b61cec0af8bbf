"""test_doors.py: one job through every door gives one answer: the command line with a file, with a text on standard input and with a
launch line, the Python package, HTTP as the page asks it, the page's links, and a tool of MCP. Other people's configurations (a slice;
LOCKSTEP_LONG=1: all) and typed jobs. Where a file is refused, all doors refuse it in the same words."""
import concurrent.futures
import importlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from client import LONG, PROGRAM, Server

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
DATA = pathlib.Path(os.environ.get("LOCKSTEP_DATA", "../shared/data")) / "configs"
ALL = os.environ.get("LOCKSTEP_LONG") == "1"
STRIDE, TYPED = (1, 300) if ALL else (97, 16)
MOST = 12  # differences that are shown
FORMS = {".yaml", ".yml", ".json", ".toml", ".sh", ".sbatch", ".slurm"}
WHERE = {"gpu": "h200-sxm", "no-fixes": True}


def words(fields):
    return ["--%s" % k if v is True else "--%s=%s" % (k, v) for k, v in fields.items()]


def plain(answer, names):
    """An answer without the command that asked for it; the name of what was given, which differs by door, is @ or left out."""
    if "error" in answer:
        where, _, rest = answer["error"]["text"].partition(": ")
        answer = rest if where in names else answer["error"]["text"]
    else:
        answer = {key: value for key, value in answer.items() if key != "reproduce"}
    text = json.dumps(answer, sort_keys=True)
    for name in sorted((name for name in names if len(name) > 3), key=len, reverse=True):
        text = text.replace(name, "@")
    return text


class Package:
    """The Python package of the sources, with the shared library next to the program."""

    def __init__(self, folder):
        library = os.path.join(os.path.dirname(os.path.abspath(PROGRAM)), "liblockstep.so")
        package = os.path.join(folder, "lockstep")
        shutil.copytree(os.path.join(ROOT, "python", "lockstep"), package)
        subprocess.run([sys.executable, os.path.join(ROOT, "python", "generate.py"), library, *(
            os.path.join(package, name) for name in ("_verbs.py", "_answers.py"))], check=True)
        os.environ["LOCKSTEP_LIBRARY"] = library
        sys.path.insert(0, folder)
        try:
            self.lockstep = importlib.import_module("lockstep")
        finally:
            sys.path.remove(folder)
        # The document itself, which the classes of answers show.
        sys.modules["lockstep._ask"]._answer = lambda kind, reply, **more: json.loads(reply.json())

    def ask(self, fields):
        try:
            return self.lockstep.predict(**{name.replace("-", "_"): value for name, value in fields.items()})
        except self.lockstep.LockstepError as error:
            return {"error": {"text": str(error)}}


class Tools:
    """A server of MCP on a pair of pipes, asked one call at a time."""

    def __init__(self):
        self.process = subprocess.Popen([PROGRAM, "mcp", "--seconds", str(LONG)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.one = threading.Lock()

    def ask(self, fields):
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "predict", "arguments": fields}}
        with self.one:
            self.process.stdin.write(json.dumps(call).encode() + b"\n")
            self.process.stdin.flush()
            result = json.loads(self.process.stdout.readline())["result"]
        return result["structuredContent"] if result["isError"] else json.loads(result["content"][0]["text"])

    def stop(self):
        self.process.communicate(timeout=LONG)


class Doors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server, cls.tools, cls.folder = Server("--workers", "2", "--seconds", str(LONG)), Tools(), tempfile.mkdtemp()
        try:
            cls.package = Package(cls.folder)
        except (ImportError, subprocess.CalledProcessError):  # of a build with a sanitizer, which a program must load first
            cls.package = None

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)
        cls.tools.stop()
        cls.server.stop()

    def command(self, *asked, text=None):
        done = subprocess.run([PROGRAM, "predict", *asked, "-o", "json"] if "--" not in asked else
                              [PROGRAM, "predict", "-o", "json", *asked], input=text, capture_output=True, timeout=LONG)
        if done.returncode == 2:
            return {"error": {"text": done.stderr.decode().strip().removeprefix("lockstep: ")}}
        return json.loads(done.stdout)

    def http(self, fields):
        return self.server.json("POST", "/api/v1/predict", fields)[1]

    def same_from_links(self, jobs):
        """What the page asks after its link to a job was opened is the job, so that its answer is that of HTTP."""
        if not shutil.which("node"):
            return
        table = [*self.server.json("GET", "/api/v1/options")[1]["predict"], {"name": "launch", "type": "words"}]
        states = [{name: shlex.join(value) if isinstance(value, list) else "on" if value is True else str(value)
                   for name, value in job.items()} for job in jobs]
        done = subprocess.run(["node", os.path.join(HERE, "link.mjs"), os.path.join(ROOT, "data/web/serve-fields.js")], check=True,
                              capture_output=True, input="\n".join(map(json.dumps, [table, *states])).encode())
        bodies = [json.loads(line)["body"] for line in done.stdout.splitlines()]
        self.assertEqual(len(bodies), len(jobs))
        for job, body in zip(jobs, bodies):
            self.assertEqual(job, body)

    def compare(self, what, answers, *names):
        """Answers by door, all like the first."""
        seen = {door: plain(answer, names) for door, answer in answers.items()}
        first = next(iter(seen))
        for door, text in seen.items():
            if text != seen[first]:
                at = next((i for i, (a, b) in enumerate(zip(text, seen[first])) if a != b), min(len(text), len(seen[first])))
                self.failures.append("%s: %s and %s differ\n  %s\n  %s" % (
                    what, first, door, seen[first][max(0, at - 200):at + 200], text[max(0, at - 200):at + 200]))

    def each(self, ask, cases):
        self.failures = []
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(ask, cases))
        self.assertFalse(self.failures, "%d differ\n%s" % (len(self.failures), "\n".join(self.failures[:MOST])))

    def configuration(self, path):
        """A file alone, without those beside it, which no other door has."""
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, path.name)
            text = path.read_bytes()
            with open(alone, "wb") as out:
                out.write(text)
            asked, named = words(WHERE), {**WHERE, "config": alone}
            answers = {"file": self.command(alone, *asked), "standard input": self.command("-", *asked, text=text),
                       "MCP": self.tools.ask(named)}
            if self.package:
                answers["Python"] = self.package.ask(named)
            try:
                answers["HTTP"] = self.http({**WHERE, "config": text.decode()})
            except UnicodeDecodeError:
                pass
            self.compare(path.relative_to(DATA), answers, alone, path.name, "-", "job")

    @unittest.skipUnless(DATA.is_dir(), "no configurations here")
    def test_configurations(self):
        files = sorted(path for path in DATA.rglob("*") if path.suffix in FORMS and not any(p.suffix == ".bases" for p in path.parents))
        self.assertGreater(len(files), 1000)
        self.each(self.configuration, files[::STRIDE])
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in files[::STRIDE])
        self.same_from_links([{**WHERE, "config": text} for text in texts])

    @staticmethod
    def drawn(number):
        """A job in options, drawn anew for each number."""
        draw = random.Random(number)
        fields = {**WHERE, "model": draw.choice(["llama3.1-8b", "qwen2.5-7b", "mixtral-8x7b", "llama3.1-70b", "qwen3-30b-a3b"]),
                  "gpus": draw.choice([8, 16, 32, 64]), "seq": draw.choice([2048, 4096, 8192]), "tp": draw.choice([1, 2, 4, 8]),
                  "pp": draw.choice([1, 1, 2, 4]), "mbs": draw.choice([1, 2]), "gbs": draw.choice([64, 128, 256])}
        for name, values in {"zero": ["0", "1", "3"], "recompute": ["none", "selective", "full"], "dtype": ["bf16", "fp8"], "optimizer": ["adam", "muon"],
                             "stack": ["megatron", "fsdp", "deepspeed"], "task": ["sft", "lora", "dpo"], "ep": [2, 8], "cp": [2]}.items():
            if draw.random() < 0.3:
                fields[name] = draw.choice(values)
        return fields

    def typed(self, number):
        """A drawn job; its launch line, as a file, as words and as a text."""
        fields = self.drawn(number)
        asked = words(fields)
        answers = {"command": self.command(*asked), "HTTP": self.http(fields), "MCP": self.tools.ask(fields)}
        if self.package:
            answers["Python"] = self.package.ask(fields)
        self.compare(" ".join(asked), answers)
        written = subprocess.run([PROGRAM, "predict", *asked, "--emit", "megatron"], capture_output=True, text=True, timeout=LONG)
        if written.returncode == 2:
            return
        where = {**WHERE, "gpus": fields["gpus"]}
        line = next((part for part in re.sub(r"\\\n", " ", written.stdout).splitlines() if "torchrun" in part), None)
        self.assertIsNotNone(line, written.stdout)
        launch = shlex.split(line)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "job.sh")
            with open(path, "w", encoding="utf-8") as out:
                out.write(line + "\n")
            as_words = {**where, "launch": launch}
            answers = {"words": self.command(*words(where), "--", *launch), "file": self.command(path, *words(where)),
                       "standard input": self.command("-", *words(where), text=(line + "\n").encode()),
                       "HTTP, words": self.http(as_words), "HTTP, script": self.http({**where, "script": line + "\n"}),
                       "HTTP, text": self.http({**where, "config": line + "\n"}), "MCP, words": self.tools.ask(as_words)}
            if self.package:
                answers["Python, words"] = self.package.ask(as_words)
            self.compare("launch line of " + " ".join(asked), answers, path, "launch line", "-", "job")
            self.linked.append(as_words)

    def test_typed_jobs(self):
        self.linked = [self.drawn(number) for number in range(TYPED)]
        self.each(self.typed, range(TYPED))
        self.same_from_links(self.linked)


if __name__ == "__main__":
    unittest.main()
