"""client.py: a server of its own for a test, and plain HTTP to it."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse

PROGRAM = os.environ.get("LOCKSTEP", "build/release/lockstep")
LONG = 600  # seconds that nothing takes, however busy the machine is


class Server:
    """`lockstep serve --port 0 ...` for the time of a with block."""

    def __init__(self, *options, env=None):
        words = [PROGRAM, "serve", "--port", "0", *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        found = re.fullmatch(r"lockstep serve: open (http://(.*):(\d+)/)#token=([0-9a-f]{32})\n", line)
        if not found:
            self.process.kill()
            raise AssertionError("no address: %r, %r" % (line, self.process.communicate()))
        self.url, self.host, self.port, self.token = found[1], found[2].strip("[]"), int(found[3]), found[4]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, how=signal.SIGTERM):
        """Ends it; its exit status and what it said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        errors = self.process.communicate(timeout=LONG)[1]
        return self.process.returncode, errors

    def connect(self, timeout=LONG):
        return socket.create_connection((self.host, self.port), timeout)

    def ask(self, method, path, body=None, headers=None, token=True, connection=None):
        """Status, headers, body; an object is sent as JSON. A header that is None is left out."""
        head = {"Authorization": "Bearer " + self.token} if token else {}
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            head["Content-Type"] = "application/json"
        head.update(headers or {})
        own = connection or http.client.HTTPConnection(self.host, self.port, timeout=LONG)
        own.request(method, path, body, {k: v for k, v in head.items() if v is not None})
        answer = own.getresponse()
        text = answer.read()
        if not connection:
            own.close()
        return answer.status, dict(answer.getheaders()), text

    def json(self, method, path, body=None, **more):
        """Status and the document."""
        status, _, text = self.ask(method, path, body, **more)
        return status, json.loads(text) if text else None

    def raw(self, bytes_, timeout=LONG):
        """What comes back for bytes, until the server closes."""
        with self.connect(timeout) as s:
            try:
                s.sendall(bytes_)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has been shown out already
            return drain(s)

    def job(self, status_and_job, seconds=LONG):
        """Waits for a job that was begun."""
        status, job = status_and_job
        assert status == 202, (status, job)
        end = time.monotonic() + seconds
        while job["state"] in ("waiting", "running"):
            assert time.monotonic() < end, job
            time.sleep(0.02)
            status, job = self.json("GET", "/api/v1/jobs/" + urllib.parse.quote(job["id"]))
            assert status == 200, (status, job)
        return job

    def upload(self, files, options=None, path="/api/v1/explain", **more):
        """A form of (name, bytes) pairs."""
        mark = "lockstep-test-mark"
        parts = []
        if options is not None:
            parts.append(b'--%s\r\nContent-Disposition: form-data; name="options"\r\n\r\n%s\r\n'
                         % (mark.encode(), options.encode()))
        for name, content in files:
            parts.append(b'--%s\r\nContent-Disposition: form-data; name="traces"; filename="%s"\r\n\r\n%s\r\n'
                         % (mark.encode(), name.encode(), content))
        body = b"".join(parts) + b"--%s--\r\n" % mark.encode()
        return self.json("POST", path, body, headers={"Content-Type": "multipart/form-data; boundary=" + mark}, **more)

    def children(self):
        """Its processes as (number, begin): numbers are given again."""
        found = []
        for name in os.listdir("/proc"):
            state = state_of(name) if name.isdigit() else None
            if state and int(state[1]) == self.process.pid:
                found.append((int(name), state[19]))
        return found


def state_of(process):
    """The words of /proc/N/stat behind the name: state, parent, ...; None where there is no such process."""
    try:
        with open("/proc/%s/stat" % process, encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return None


def is_there(child):
    state = state_of(child[0])
    return state is not None and state[19] == child[1]


def pending(process, how):
    """Whether a signal was sent to a process that has not taken it."""
    with open("/proc/%d/status" % process, encoding="utf-8") as f:
        sent = re.search(r"^ShdPnd:\s*(\w+)$", f.read(), re.M)
    return bool(int(sent[1], 16) >> (how - 1) & 1)


def wait_until(holds):
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end, "it does not become so"
        time.sleep(0.01)


def has_ipv6():
    """Whether the loopback has an address of IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


def drain(s):
    """Everything until the other side closes; what a reset leaves is enough."""
    out = b""
    try:
        while chunk := s.recv(65536):
            out += chunk
    except ConnectionError:
        pass
    return out


def read_file(path):
    with open(path, "rb") as f:
        return f.read()
