#!/usr/bin/env python3
"""serve_clients.py: many clients at a time asking `lockstep serve` for predictions, and what the server needs for them.

    bench/serve_clients.py PROGRAM [CLIENTS] [REQUESTS]

Each client keeps one connection and asks one prediction after the other, every one of another layout. Clients and server share
this machine. Prints the time of an answer, answers per second, and the server's memory."""
import http.client
import os
import re
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/serve"))
os.environ["LOCKSTEP"] = sys.argv[1]
from client import Server  # noqa: E402

CLIENTS, REQUESTS = int((sys.argv[2:] or [100])[0]), int((sys.argv[3:] or [20])[0])


def main():
    times, wrong, lock = [], [], threading.Lock()
    with Server() as server:
        def client(number):
            connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
            for i in range(REQUESTS):
                job = {"model": "llama3.1-70b", "gpu": "h100-sxm", "gpus": 64 << (number % 4), "tp": 4 << (i % 2), "pp": 4 << (number % 2),
                       "gbs": 512, "seq": 8192}
                begin = time.monotonic()
                status = server.ask("POST", "/api/v1/predict?form=report", job, connection=connection)[0]
                with lock:
                    times.append(time.monotonic() - begin)
                    if status != 200:
                        wrong.append(status)
        threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
        with open("/proc/%d/status" % server.process.pid) as f:
            memory = dict(re.findall(r"(\w+):\s+(\d+) kB", f.read()))
    times.sort()
    print("%d clients, %d predictions with reports: p50 %.0f ms, p99 %.0f ms, %.0f a second; %d wrong; server %.1f MiB, %.1f MiB at most" % (
        CLIENTS, len(times), 1e3 * times[len(times) // 2], 1e3 * times[int(0.99 * len(times))], len(times) / seconds, len(wrong),
        int(memory["VmRSS"]) / 1024, int(memory["VmHWM"]) / 1024))


main()
