"""test_doors.py: one job through every door gives one answer: the command line with a file, with a text on standard input and with a
launch line, the library that bindings call, and HTTP as the page asks it. Other people's configurations (a slice; LOCKSTEP_LONG=1: all)
and typed jobs. Where a file is refused, all doors refuse it in the same words."""
import concurrent.futures
import ctypes
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import tempfile
import unittest

from client import LONG, PROGRAM, Server

DATA = pathlib.Path(os.environ.get("LOCKSTEP_DATA", "../shared/data")) / "configs"
ALL = os.environ.get("LOCKSTEP_LONG") == "1"
STRIDE, TYPED = (1, 300) if ALL else (47, 40)
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


class Library:
    """The shared library beside the program, as Python's package calls it."""

    def __init__(self):
        self.c = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(PROGRAM)), "liblockstep.so"))
        texts, size = ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_size_t)
        for name, result, arguments in [
                ("lk_reply_ask", ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int, texts, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]),
                ("lk_reply_status", ctypes.c_int, [ctypes.c_void_p]), ("lk_reply_free", None, [ctypes.c_void_p]),
                ("lk_reply_error", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
                ("lk_reply_json", ctypes.c_void_p, [ctypes.c_void_p, size])]:
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    def ask(self, verb, asked):
        array = (ctypes.c_char_p * len(asked))(*map(os.fsencode, asked))
        reply = self.c.lk_reply_ask(verb.encode(), len(asked), array, None, 0, None)
        try:
            if self.c.lk_reply_status(reply) != 0:
                where, what, remedy = ((self.c.lk_reply_error(reply, part) or b"").decode() for part in range(3))
                return {"error": {"text": "%s: %s%s" % (where, what, "; " + remedy if remedy else "")}}
            size = ctypes.c_size_t()
            text = self.c.lk_reply_json(reply, ctypes.byref(size))
            return json.loads(ctypes.string_at(text, size.value))
        finally:
            self.c.lk_reply_free(reply)


class Doors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--workers", "2", "--seconds", str(LONG))
        try:
            cls.library = Library()
        except OSError:  # of a build with a sanitizer, which a program must load first
            cls.library = None

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def command(self, *asked, text=None):
        done = subprocess.run([PROGRAM, "predict", *asked, "-o", "json"] if "--" not in asked else
                              [PROGRAM, "predict", "-o", "json", *asked], input=text, capture_output=True, timeout=LONG)
        if done.returncode == 2:
            return {"error": {"text": done.stderr.decode().strip().removeprefix("lockstep: ")}}
        return json.loads(done.stdout)

    def http(self, fields):
        return self.server.json("POST", "/api/v1/predict", fields)[1]

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
            asked = words(WHERE)
            answers = {"file": self.command(alone, *asked), "standard input": self.command("-", *asked, text=text)}
            if self.library:
                answers["library"] = self.library.ask("predict", [alone, *asked])
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

    def typed(self, number):
        """A job in options, drawn anew for each number; its launch line, as a file, as words and as a text."""
        draw = random.Random(number)
        fields = {**WHERE, "model": draw.choice(["llama3.1-8b", "qwen2.5-7b", "mixtral-8x7b", "llama3.1-70b", "qwen3-30b-a3b"]),
                  "gpus": draw.choice([8, 16, 32, 64]), "seq": draw.choice([2048, 4096, 8192]), "tp": draw.choice([1, 2, 4, 8]),
                  "pp": draw.choice([1, 1, 2, 4]), "mbs": draw.choice([1, 2]), "gbs": draw.choice([64, 128, 256])}
        for name, values in {"zero": [0, 1, 3], "recompute": ["none", "selective", "full"], "dtype": ["bf16", "fp8"], "optimizer": ["adam", "muon"],
                             "stack": ["megatron", "fsdp", "deepspeed"], "task": ["sft", "lora", "dpo"], "ep": [2, 8], "cp": [2]}.items():
            if draw.random() < 0.3:
                fields[name] = draw.choice(values)
        asked = words(fields)
        answers = {"command": self.command(*asked), "HTTP": self.http(fields)}
        if self.library:
            answers["library"] = self.library.ask("predict", asked)
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
            self.compare("launch line of " + " ".join(asked), {
                "words": self.command(*words(where), "--", *launch), "file": self.command(path, *words(where)),
                "standard input": self.command("-", *words(where), text=(line + "\n").encode()),
                "HTTP, words": self.http({**where, "launch": launch}), "HTTP, script": self.http({**where, "script": line + "\n"}),
                "HTTP, text": self.http({**where, "config": line + "\n"})}, path, "launch line", "-", "job")

    def test_typed_jobs(self):
        self.each(self.typed, range(TYPED))


if __name__ == "__main__":
    unittest.main()
