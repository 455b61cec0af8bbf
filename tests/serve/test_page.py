"""test_page.py: what the page shows of a link is what `lockstep predict` prints, on random jobs."""
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

from client import LONG, PROGRAM, Server, read_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from drawn import draw_job  # noqa: E402

JOBS = 3000 if os.environ.get("LOCKSTEP_LONG") else 300
HERE = os.path.dirname(os.path.abspath(__file__))
TOLD = ("step_time_s", "step_time_low_s", "step_time_high_s", "peak_bytes", "fits", "fixes", "searched", "layout")


def printed(job):
    """What the command line answers; a refusal is its text."""
    words = ["--%s=%s" % (name, value) for name, value in job.items()]
    done = subprocess.run([PROGRAM, "predict", *words, "-o", "json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode < 2 else done.stderr.strip().removeprefix("lockstep: ")


@unittest.skipUnless(shutil.which("node"), "node is not installed")
class Page(unittest.TestCase):
    def links(self, server, states):
        """Of each state its link and the body that the page sends when that is opened."""
        table = server.json("GET", "/api/v1/options")[1]["predict"]
        lines = "\n".join(json.dumps(line) for line in [table, *states])
        script = [shutil.which("node"), os.path.join(HERE, "link.mjs"), os.path.join(HERE, "../../data/web/serve-fields.js")]
        done = subprocess.run(script, input=lines, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_links_of_random_jobs(self):
        with tempfile.TemporaryDirectory() as folder, Server("--workers", "2", "--seconds", str(LONG)) as server:
            drawn = [draw_job(random.Random(seed), seed, folder + "/") for seed in range(JOBS)]
            # The page holds a config as text; the command line names its file.
            states = [{name: read_file(str(value)).decode() if str(value).endswith(".json") else str(value)
                       for name, value in job.items()} for job in drawn]

            def ask(job, link):
                status, answer = server.json("POST", "/api/v1/predict?form=picture", link["body"])
                said = printed(job)
                if status != 200:
                    return (job, link["link"], answer["error"]["text"], said) if answer["error"]["text"] != said else None
                if not answer["result"]["fits"]:  # fixes come with the report, when no control changes any more
                    answer = server.json("POST", "/api/v1/predict?form=report", link["body"])[1]
                shown = answer["result"]
                differ = [name for name in TOLD if shown[name] != said[name]] if isinstance(said, dict) else said
                return (job, link["link"], differ) if differ else None

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                wrong = [found for found in pool.map(ask, drawn, self.links(server, states)) if found]
        self.assertEqual(wrong[:3], [], "%d of %d jobs" % (len(wrong), JOBS))
