"""test_safety.py: who may ask, what a question may use, and clients that behave badly."""
import concurrent.futures
import gzip
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from client import LONG, PROGRAM, Server, drain, has_ipv6, is_there, pending, read_file, wait_until
from test_api import HUGE, JOB, LONG_PLAN


class Guards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def status(self, path="/api/v1/models", method="GET", body=None, token=True, **headers):
        return self.server.ask(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()}, token)[0]

    def test_token(self):
        for path in ("/api/v1/models", "/api/v1/gpus", "/api/v1/machines", "/api/v1/options", "/api/v1/jobs/1", "/api/v1/nothing"):
            self.assertEqual(self.status(path, token=False), 401, path)
        for path in ("/api/v1/predict", "/api/v1/plan", "/api/v1/explain"):
            self.assertEqual(self.status(path, "POST", JOB, token=False), 401, path)
            self.assertEqual(self.status(path, "POST", JOB, Authorization="Bearer " + "0" * 32), 401, path)
        for wrong in ("Bearer", "Bearer ", "Basic " + self.server.token, self.server.token, "Bearer " + self.server.token + "0"):
            self.assertEqual(self.status(Authorization=wrong), 401, wrong)
        self.assertEqual(self.status(), 200)
        for path in ("/", "/api/v1/health", "/api/v1/openapi.json"):
            self.assertEqual(self.status(path, token=False), 200, path)
        self.assertEqual(self.status("/?token=" + self.server.token, token=False), 200)
        self.assertEqual(self.status("/api/v1/models?token=" + self.server.token, token=False), 401)

    def test_host(self):
        for host in ("evil.example", "evil.example:%d" % self.server.port, "10.0.0.1", "127.0.0.1.evil.example", "", "0.0.0.0"):
            for path in ("/", "/api/v1/health", "/api/v1/models", "/nothing"):
                self.assertIn(self.status(path, Host=host), (400, 421), (host, path))
        for host in ("localhost", "localhost:%d" % self.server.port, "127.0.0.1", "[::1]:1"):
            self.assertEqual(self.status(Host=host), 200, host)

    def test_headers_given_twice(self):
        asked = "GET /api/v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n%s\r\n"
        def status(more):
            return self.server.raw((asked % (self.server.token, more)).encode()).split(b" ")[1]
        self.assertEqual(status(""), b"200")
        self.assertEqual(status("Accept: a\r\nAccept: b\r\n"), b"200")
        for more in ("Host: localhost", "host: evil.example", "Authorization: Bearer 0", "Content-Type: a\r\nContent-Type: b",
                     "Origin: null\r\nOrigin: null", "Sec-Fetch-Site: none\r\nSec-Fetch-Site: none"):
            self.assertEqual(status(more + "\r\n"), b"400", more)

    def test_where_a_body_ends(self):
        """Two opinions of it are refused: a proxy may have gone by the other one."""
        body = json.dumps(JOB)
        chunks = "%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        length, chunked = "Content-Length: %d\r\n" % len(body), "Transfer-Encoding: chunked\r\n"
        def status(heads, content):
            return self.server.raw(("POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n"
                                    "Content-Type: application/json\r\n%s\r\n%s" % (self.server.token, heads, content)).encode()).split(b" ")[1]
        self.assertEqual((status(length, body), status(chunked, chunks)), (b"200", b"200"))
        for heads in (length + chunked, chunked + length, length + length, chunked + chunked, "Transfer-Encoding: gzip, chunked\r\n",
                      "Transfer-Encoding: identity\r\n", chunked + "Transfer-Encoding: identity\r\n"):
            self.assertEqual(status(heads, chunks), b"400", heads)

    def test_paths(self):
        for path in ("/serve.js%00.html", "/api/v1/models%00", "/../page.html", "/%2e%2e/page.html", "/report/../page.html", "/serve.js/"):
            self.assertEqual(self.status(path), 404, path)
        self.assertEqual(self.status("/%73erve.js"), 200)

    def test_origin(self):
        own = "http://127.0.0.1:%d" % self.server.port
        self.assertEqual(self.status(Origin=own), 200)
        for origin in ("http://evil.example", "null", own + "1", own.replace("http", "https"), "http://127.0.0.1"):
            self.assertEqual(self.status(Origin=origin), 403, origin)
            self.assertEqual(self.status("/", Origin=origin), 403, origin)
        for site, status in (("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)):
            self.assertEqual(self.status(Sec_Fetch_Site=site), status, site)
        self.assertEqual(self.status("/", Sec_Fetch_Site="cross-site"), 200)

    def test_headers(self):
        for path in ("/", "/serve.js", "/serve.css", "/api/v1/models", "/api/v1/nothing"):
            headers = self.server.ask("GET", path)[1]
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            self.assertFalse([k for k in headers if k.lower().startswith("access-control")])

    def test_names_and_addresses(self):
        with Server("--name", "planner.example.org", "--listen", "::1" if has_ipv6() else "127.0.0.1") as server:
            self.assertEqual(server.ask("GET", "/", headers={"Host": "planner.example.org"})[0], 200)
            self.assertEqual(server.ask("GET", "/", headers={"Host": "example.org"})[0], 421)
        for options, said in ((["--listen", "example.org"], "--listen"), (["--listen", "192.0.2.77"], "--listen"),
                              (["--port", str(self.server.port)], "--port")):
            ran = subprocess.run([PROGRAM, "serve", "--port", "0", *options], capture_output=True, text=True, timeout=LONG)
            self.assertEqual(ran.returncode, 2)
            self.assertIn("lockstep: " + said, ran.stderr)
            self.assertEqual(ran.stderr.count("\n"), 1)


class Limits(unittest.TestCase):
    def test_time(self):
        with Server("--seconds", "0.3", "--long-seconds", "0.3") as server:
            status, answer = server.json("POST", "/api/v1/predict", HUGE)
            self.assertEqual((status, answer["error"]["where"]), (422, "time"), answer)
            job = server.job(server.json("POST", "/api/v1/plan", LONG_PLAN))
            self.assertEqual((job["state"], job["status"], job["error"]["where"]), ("failed", 422, "time"))
            # On a busy machine a short question may be late too.
            wait_until(lambda: server.json("POST", "/api/v1/predict", JOB)[0] == 200)

    def test_memory(self):
        events = ",".join('{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":1,"args":{"stream":7}}' % (i % 5, 2 * i)
                          for i in range(200000))
        trace = gzip.compress(('{"traceEvents":[%s]}' % events).encode(), 1)
        with Server("--memory", "112") as server:
            job = server.job(server.upload([("t.json.gz", trace)]))
            self.assertEqual((job["status"], job["error"]["where"]), (422, "memory"), job)
            self.assertEqual(server.json("POST", "/api/v1/predict", JOB)[0], 200)

    def test_a_crash_is_one_question(self):
        with Server() as server:
            status, job = server.json("POST", "/api/v1/plan", LONG_PLAN)
            self.assertEqual(status, 202)
            (child,) = server.children()
            os.kill(child[0], signal.SIGSEGV)
            job = server.job((202, job))
            self.assertEqual((job["state"], job["status"]), ("failed", 500))
            self.assertIn("signal 11", job["error"]["what"])
            self.assertEqual(server.json("POST", "/api/v1/predict", JOB)[0], 200)

    def test_killed_is_not_late(self):
        with Server() as server:
            job = server.json("POST", "/api/v1/plan", LONG_PLAN)
            (child,) = server.children()
            os.kill(child[0], signal.SIGKILL)  # as by a system that runs out of memory
            job = server.job(job)
            self.assertEqual((job["state"], job["status"], job["error"]["where"]), ("failed", 422, "memory"))

    def test_uploads(self):
        with Server("--upload", "1", "--workers", "1") as server:
            # The refusal may come before all is sent.
            try:
                self.assertEqual(server.upload([("x.json", b" " * (3 << 20))])[0], 413)
            except ConnectionError:
                pass
            status, answer = server.upload([("x.json", b" " * ((1 << 20) + 10))])
            self.assertEqual(status, 413, answer)
            self.assertEqual(server.job(server.upload([("t.json", read_file("tests/data/trace_small.json"))]))["state"], "done")

    def test_nothing_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server("--memory", "96", "--seconds", "0.3", env={"TMPDIR": folder})
            self.assertEqual(len(os.listdir(folder)), 1)
            own = os.path.join(folder, os.listdir(folder)[0])
            self.assertEqual(os.stat(own).st_mode & 0o777, 0o700)
            server.json("POST", "/api/v1/predict", {**JOB, "model": {"hidden_size": 1}})
            server.json("POST", "/api/v1/predict", HUGE)
            server.job(server.upload([("t.json", b"{"), ("u.json", b"{")]))
            s = server.connect()
            s.sendall(b"POST /api/v1/explain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 100000\r\n"
                      b"Content-Type: multipart/form-data; boundary=m\r\n\r\n--m\r\nContent-Disposition: form-data; name=\"t\"; "
                      b"filename=\"a\"\r\n\r\nabc" % server.token.encode())
            time.sleep(0.2)
            s.close()
            wait_until(lambda: not os.listdir(own))
            server.stop()
            self.assertEqual(os.listdir(folder), [])

    def test_questions_that_wait_are_counted(self):
        with Server("--workers", "1") as server:
            jobs = [server.json("POST", "/api/v1/plan", LONG_PLAN) for _ in range(65)]
            self.assertEqual([status for status, _ in jobs], [202] * 48 + [503] * 17)
            self.assertEqual(jobs[1][1]["state"], "waiting")
            # Another client has room, until all places are taken; its first job is the next.
            def other(method, path, body=None):
                own = http.client.HTTPConnection(server.host, server.port, timeout=LONG, source_address=("127.0.0.2", 0))
                try:
                    return server.json(method, path, body, connection=own)
                finally:
                    own.close()
            later = [other("POST", "/api/v1/plan", LONG_PLAN) for _ in range(17)]
            self.assertEqual([status for status, _ in later], [202] * 16 + [503])
            self.assertEqual(server.ask("DELETE", "/api/v1/jobs/%s" % jobs[0][1]["id"])[0] // 100, 2)
            wait_until(lambda: other("GET", "/api/v1/jobs/%s" % later[0][1]["id"])[1]["state"] == "running")
            self.assertEqual(server.json("GET", "/api/v1/jobs/%s" % jobs[1][1]["id"])[1]["state"], "waiting")
            # Predictions do not wait for plans.
            self.assertEqual(server.json("POST", "/api/v1/predict", JOB)[0], 200)
            self.assertEqual(server.stop(), (0, ""))


WITHOUT_LANDLOCK = """#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
long syscall(long number, ...) {
	(void)number;
	errno = ENOSYS;
	return -1;
}
"""


class Kernels(unittest.TestCase):
    def test_without_landlock(self):
        """What can name a file is refused, whether the file is there or not; other questions are answered."""
        if not shutil.which("cc"):
            self.skipTest("no C compiler")
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "old.so")
            with open(library[:-3] + ".c", "w", encoding="utf-8") as f:
                f.write(WITHOUT_LANDLOCK)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, library[:-3] + ".c"], check=True)
            with Server(env={"LD_PRELOAD": library}) as server:
                for fields in ({}, {"recompute": "full/2"}, {"cluster": "8 h100-sxm", "gpu": None, "gpus": None}):
                    status, answer = server.json("POST", "/api/v1/predict", {**JOB, **fields})
                    self.assertEqual(status, 200, answer)
                graph = server.ask("POST", "/api/v1/predict?form=graph", JOB)[2]
                self.assertEqual(server.job(server.upload([("g.json", graph)], '{"set": "nic=2x"}', path="/api/v1/whatif"))["state"], "done")
                for change in ("cluster=/etc/hostname.json", "cluster=8 node */etc/x.xml", "replace:optimizer=/etc/hostname",
                               "replace:optimizer=../x", "replace:optimizer=./../x"):
                    job = server.job(server.upload([("g.json", graph)], json.dumps({"set": "nic=2x\n" + change}), path="/api/v1/whatif"))
                    self.assertEqual((job["status"], job["error"]["where"]), (400, "--set"), change)
                for fields in ({"script": "echo"}, {"launch": ["x"]}, {"deepspeed_config": {}}, {"rollout": "reward_model=/etc/hostname"},
                               {"rollout": {"lag": 1, "critic": "/etc/hostname"}}):
                    status, answer = server.json("POST", "/api/v1/predict", {**JOB, **fields})
                    self.assertEqual((status, "cannot deny access" in answer["error"]["what"]), (400, True), answer)


class Clients(unittest.TestCase):
    """One server for all of them: what one client does must not show for another."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--workers", "2", "--seconds", str(LONG))
        # Those that dribble, from now on; looked at in test_z.
        cls.slow = [cls.server.connect() for _ in range(40)]
        for i, s in enumerate(cls.slow):
            s.sendall(b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\n"[: 5 + i])

    @classmethod
    def tearDownClass(cls):
        for s in cls.slow:
            s.close()
        cls.server.stop()

    def test_a_hundred_at_a_time(self):
        def client(number):
            connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=LONG)
            sizes = []
            for i in range(5):
                status, _, text = self.server.ask("POST", "/api/v1/predict", {**JOB, "gbs": 8 * (1 + number % 4)}, connection=connection)
                sizes.append((status, len(text) > 1000))
            connection.close()
            return sizes
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            for sizes in pool.map(client, range(100)):
                self.assertEqual(sizes, [(200, True)] * 5)

    def test_broken_requests(self):
        for text in (b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff" * 500, b"GET / HTTP/1.1\r\n\r\n",
                     b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
                     b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                     b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"GET / HTTP/1.0\r\n\r\n"):
            answer = self.server.raw(text)
            self.assertNotIn(b" 200 ", answer.split(b"\r\n")[0], text[:40])
        self.assertEqual(self.server.ask("GET", "/")[0], 200)

    def test_half_closed(self):
        body = b'{"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": 8, "gbs": 8, "seq": 4096}'
        answer = self.server.raw(b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                                 b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                                 % (self.server.token.encode(), len(body), body))
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 ") or answer == b"", answer[:60])

    def test_gone_before_the_answer(self):
        body = b'{"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": 8, "gbs": 8, "seq": 4096}'
        for _ in range(50):
            with self.server.connect() as s:
                s.sendall(b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                          b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (self.server.token.encode(), len(body), body))
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.assertEqual(self.server.json("POST", "/api/v1/predict", JOB)[0], 200)

    def test_chunked_without_end(self):
        s = self.server.connect()
        s.sendall(b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n" % self.server.token.encode())
        sent = 0
        try:
            while sent < 64 << 20:
                s.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
                sent += 65536
        except OSError:
            pass
        s.close()
        self.assertLess(sent, 32 << 20)

    def test_more_connections_than_places(self):
        idle = []
        try:
            for _ in range(700):
                idle.append(self.server.connect())
            self.assertEqual(self.server.json("POST", "/api/v1/predict", JOB)[0], 200)
        finally:
            for s in idle:
                s.close()

    def test_z_slow_ones_are_shown_out(self):
        """A byte a second keeps nobody's place: each connection has ten seconds for its first request."""
        alive, end = list(self.slow), time.monotonic() + LONG
        while alive and time.monotonic() < end:
            for s in list(alive):
                try:
                    s.settimeout(0.001)
                    s.sendall(b"x")
                    if s.recv(100) == b"":
                        alive.remove(s)
                except TimeoutError:
                    pass
                except OSError:
                    alive.remove(s)
            time.sleep(0.3)
        self.assertEqual(alive, [])
        self.assertEqual(self.server.ask("GET", "/")[0], 200)


class Ending(unittest.TestCase):
    def test_signals(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            server = Server("--seconds", str(LONG))
            idle = server.connect()
            held = server.connect()
            held.sendall(b"POST /api/v1/predict HTTP/1.1\r\n")
            self.assertEqual(server.json("POST", "/api/v1/plan", LONG_PLAN)[0], 202)
            wait_until(lambda: len(server.children()) == 1)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(self.ask_huge, server)
                wait_until(lambda: len(server.children()) == 2)
                children = server.children()
                self.assertEqual(server.stop(how), (0, ""))
                waiting.result()
            self.assertEqual([child for child in children if is_there(child)], [])
            idle.close()
            held.close()

    def test_questions_that_come_with_the_signal(self):
        server = Server("--seconds", str(LONG))
        with concurrent.futures.ThreadPoolExecutor(1) as pool, server.connect() as s:
            s.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            s.recv(1 << 16)
            server.process.send_signal(signal.SIGSTOP)
            body = json.dumps(JOB)
            s.sendall(("POST /api/v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
                       "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                       % (server.token, len(body), body)).encode())
            ended = pool.submit(server.stop)
            wait_until(lambda: pending(server.process.pid, signal.SIGTERM))
            server.process.send_signal(signal.SIGCONT)
            self.assertEqual(ended.result(), (0, ""))

    @staticmethod
    def ask_huge(server):
        """409, or a connection that was closed."""
        try:
            return server.json("POST", "/api/v1/predict", HUGE)[0]
        except (OSError, http.client.HTTPException):
            return None

    def test_port_is_free_again(self):
        for _ in range(20):  # another process may take the port meanwhile
            server = Server()
            port = server.port
            server.ask("GET", "/")
            server.stop()
            again = subprocess.Popen([PROGRAM, "serve", "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = again.stdout.readline()
            again.terminate()
            errors = again.communicate(timeout=LONG)[1]
            if "Address already in use" not in errors:
                break
        self.assertIn(":%d/" % port, said)
        self.assertEqual((again.returncode, errors), (0, ""))


class Opening(unittest.TestCase):
    """`--open` with a stand-in for the browser, which notes its words, what it has open, and the page that it is given."""

    BROWSER = """#!/bin/sh
{ printf '%s\\n' "$@"; ls /proc/$$/fd | tr '\\n' ' '; echo; for a; do case $a in file://*) f=${a#file://}; stat -c %a "$f"; cat "$f";; esac; done; } > "$0.new"
mv "$0.new" "$0.said"
"""

    def stand_in(self, folder, name):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.BROWSER)
        os.chmod(path, 0o755)
        return path

    def said(self, folder, name):
        path = os.path.join(folder, name + ".said")
        wait_until(lambda: os.path.exists(path))
        with open(path, encoding="utf-8") as f:
            return f.read().splitlines()

    def test_browser(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.stand_in(folder, "browser")
            for command, words in ((path, []), ("/nowhere/browser:" + path + " --new %s end", ["--new", "end"])):
                with Server("--open", env={"BROWSER": command}) as server:
                    lines = self.said(folder, "browser")
                    page = [line for line in lines if line.startswith("file://")]
                    self.assertEqual([line for line in lines[:3] if line in ("--new", "end")], words)
                    text = "\n".join(lines[lines.index(page[0]):])
                    self.assertIn("url=%s#token=%s" % (server.url, server.token), text)
                    self.assertIn("600", lines)
                    self.assertNotIn(server.token, page[0])
                    status, errors = server.stop()
                    self.assertEqual((status, errors), (0, ""))
                self.assertFalse(os.path.exists(page[0][len("file://"):]), "the page with the token goes with the server")
                os.remove(path + ".said")

    def test_xdg_open(self):
        with tempfile.TemporaryDirectory() as folder:
            self.stand_in(folder, "xdg-open")
            with Server("--open", env={"BROWSER": "", "PATH": folder + ":" + os.environ["PATH"]}):
                self.assertTrue(self.said(folder, "xdg-open")[0].startswith("file://"))

    def test_none(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server("--open", env={"BROWSER": "/nowhere/browser", "PATH": folder}) as server:
                self.assertEqual(server.ask("GET", "/api/v1/health")[0], 200)
                status, errors = server.stop()
        self.assertEqual(status, 0)
        self.assertRegex(errors, "^lockstep: --open: no browser can be started; ")


if __name__ == "__main__":
    unittest.main()
