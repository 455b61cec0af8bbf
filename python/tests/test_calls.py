"""Calls: Ctrl-C ends them, threads share the library, memory comes back."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import lockstep
from common import JOB

# What was started in the background by a shell without job control ignores it; programs started from here would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What takes long on two processors does so on this machine.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

MINUTES = dict(model="llama3.1-8b", gpu="h100-sxm", gpus=64, tp=[1, 2, 4, 8], pp=[1, 2, 4, 8], mbs=[1, 2, 4, 8, 16],
               gbs=[64, 128, 256, 512, 1024], seq=[2048, 4096, 8192, 16384, 32768], recompute=["none", "full"], zero=[0, 1, 2, 3])


def long_graph():
    graph = lockstep.Graph(chains=16, groups={"dp": (16, 1)})
    block = graph.block("many")
    for i in range(100):
        work = block.op("elementwise", f"work {i}", seconds=1e-6)
        block.op("all_reduce", f"sum {i}", stream="data parallel", group="dp", bytes=1e6, after=[work], seconds=1e-6)
    graph.program().call(block, repeat=49_000)
    return graph


LONG = {
    "sweep": lambda: lockstep.sweep(**MINUTES),
    "sweep on one thread": lambda: lockstep.sweep(**MINUTES, threads=1),
    "plan": lambda: lockstep.plan(model="llama3.1-405b", gpu="h100-sxm", gpus=[1024, 2048, 4096], gbs=2048, seq=8192, exhaustive=True),
    "rent": lambda: lockstep.rent(model="llama3.1-70b", gbs=[256, 512, 1024], seq=8192, tokens="1T", most_gpus=1024),
    "simulate": lambda graph=long_graph(): lockstep.simulate(graph, all_ranks=True),
    "simulate on hardware": lambda graph=long_graph(): lockstep.simulate(graph, gpu="h100-sxm", all_ranks=True, jitter=0.1, gpu_spread=0.1),
    "predict": lambda: lockstep.predict(model="llama3.1-405b", gpu="h100-sxm", gpus=4096, tp=8, pp=16, gbs=2048, seq=8192, exact=True,
                                        ranks="all", jitter=0.1, gpu_spread=0.1, no_fixes=True),
}


class Interrupt(unittest.TestCase):
    """SIGINT while the call is under way: KeyboardInterrupt, and the library has stopped by then."""

    def threads_now(self):
        return len(os.listdir("/proc/self/task"))

    def test_each(self):
        for name, call in LONG.items():
            with self.subTest(name=name):
                before = self.threads_now()
                timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
                with self.assertRaises(KeyboardInterrupt):
                    timer.start()
                    call()
                timer.join()
                for _ in range(30000):  # threads that ended may still be listed
                    if self.threads_now() <= before:
                        break
                    time.sleep(0.01)
                self.assertLessEqual(self.threads_now(), before, "nothing goes on")
        self.assertTrue(lockstep.predict(**JOB).fits, "the next call is as ever")

    def test_any_handler_that_raises(self):
        def late(number, frame):
            raise TimeoutError("late")

        old = signal.signal(signal.SIGALRM, late)
        try:
            with self.assertRaises(TimeoutError):
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                lockstep.sweep(**MINUTES)
        finally:
            signal.signal(signal.SIGALRM, old)

    def test_process_ends(self):
        """Ctrl-C in a script, and a script that ends while a thread of it still asks."""
        script = "import lockstep, test_calls\nprint('begins', flush=True)\nlockstep.sweep(**test_calls.MINUTES)\n"
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.assertEqual(child.stdout.readline(), "begins\n")
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, message = child.communicate(timeout=600)
        self.assertEqual(child.returncode, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", message)
        script = ("import lockstep, test_calls, threading, time\n"
                  "threading.Thread(target=lambda: lockstep.sweep(**test_calls.MINUTES), daemon=True).start()\ntime.sleep(0.3)\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=600, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Threads(unittest.TestCase):
    def test_many(self):
        expected = {tp: lockstep.predict(**{**JOB, "tp": tp}).step_time_s for tp in (1, 2, 4, 8)}
        wrong = []

        def work(number):
            for i in range(12):
                tp = (1, 2, 4, 8)[(number + i) % 4]
                if lockstep.predict(**{**JOB, "tp": tp}).step_time_s != expected[tp]:
                    wrong.append(tp)
                try:
                    lockstep.predict(**{**JOB, "gpu": f"none{number}"})
                    wrong.append(number)
                except lockstep.InputError as error:
                    if f"none{number}" not in str(error):
                        wrong.append(str(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_others_run_meanwhile(self):
        """The interpreter's lock is free during a call: another thread counts while a long one is under way; on a busy machine
        perhaps not during the first."""
        counted, end, during, graph = [0], threading.Event(), [], self.graph()

        def count():
            while not end.is_set():
                counted[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        while len(during) < 5 and max(during, default=0) <= 300:
            before = counted[0]
            lockstep.simulate(graph)
            during.append(counted[0] - before)
        end.set()
        thread.join()
        self.assertGreater(max(during), 300)

    def graph(self):
        graph = lockstep.Graph()
        block = graph.block("one")
        block.op("elementwise", "work", seconds=1e-6)
        graph.program().call(block, repeat=1_000_000)
        return graph


LEAK = """
import ctypes, json, re, sys
import lockstep
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages of 2 MiB come when the kernel likes
sys.path.insert(0, {here!r})
from common import JOB, data
def some(n):
    for _ in range(n):
        lockstep.predict(**JOB)
        rows = lockstep.sweep(**dict(JOB, tp=[1, 2, 3, 4]))
        rows["step_time_s"], rows["reproduce"], rows.prediction(0)
        lockstep.explain(data("trace_small.json"))
        graph = lockstep.Graph(); block = graph.block("a"); block.op("elementwise", "b", seconds=1); graph.program().call(block, repeat=1000)
        lockstep.simulate(graph).spans["name"]
        try:
            lockstep.predict(**dict(JOB, gpu="none"))
        except lockstep.InputError:
            pass
def own():
    # Page by page: what statm says is off by some pages for each processor.
    with open("/proc/self/smaps_rollup") as file:
        return sum(1024 * int(size) for size in re.findall(r"^(?:Anonymous|Swap): *([0-9]+) kB", file.read(), re.M))
some(30)
before = own()
some(150)
print(json.dumps(own() - before))
"""


class Memory(unittest.TestCase):
    def test_loop(self):
        """150 rounds keep next to nothing. With one arena: how many threads meet in malloc, and so how many arenas there
        are, is chance."""
        script = LEAK.format(here=os.path.dirname(os.path.abspath(__file__)))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                              env=dict(os.environ, MALLOC_ARENA_MAX="1"))
        self.assertLess(json.loads(done.stdout), 1 << 20)

    def test_columns_outlive_the_sweep(self):
        times = lockstep.sweep(**{**JOB, "tp": [1, 2]})["step_time_s"]
        names = lockstep.sweep(**{**JOB, "tp": [1, 2]})["verdict"]
        for _ in range(20):
            lockstep.sweep(**{**JOB, "tp": [4, 8]})
        self.assertEqual(list(times), [lockstep.predict(**{**JOB, "tp": tp}).step_time_s for tp in (1, 2)])
        self.assertTrue(set(names) <= {"fits", "does not fit"})


if __name__ == "__main__":
    unittest.main()
