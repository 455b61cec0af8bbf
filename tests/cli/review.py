#!/usr/bin/env python3
"""What action/review.py says of a pull request, and what it sends to a server that plays GitHub's part, on loopback.
Usage: review.py PROGRAM REVIEW; works in the current folder."""
import http.server, json, os, subprocess, sys, threading

program, review = sys.argv[1:]
SCRIPT = """torchrun --nproc_per_node=8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \\
  --max-position-embeddings 2048 --micro-batch-size {mbs} --global-batch-size 64 --bf16 --vocab-size 50257
"""
comments, asked = [], []


class Server(http.server.BaseHTTPRequestHandler):
    def answer(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        asked.append((self.command, self.path.split("?")[0], self.headers["Authorization"]))
        if self.command == "POST":
            comments.append({"id": 7 + len(comments), **body})
        if self.command == "PATCH":
            next(entry for entry in comments if entry["id"] == int(self.path.split("/")[-1]))["body"] = body["body"]
        said = json.dumps(comments if self.path.endswith("page=1") else [] if self.command == "GET" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_PATCH = answer

    def log_message(self, *_):
        pass


def git(*words):
    return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def write(**files):
    for name, text in files.items():
        with open(name + ".sh", "w") as file:
            file.write(text)
    git("add", ".")
    git("commit", "-qm", "a change")


def run(**more):
    done = subprocess.run([sys.executable, review], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "LOCKSTEP": program, "FILES": "*.sh", "OPTIONS": "--gpu a100-sxm-80", "BASE": base, **more})
    return done.returncode, done.stdout, done.stderr


os.makedirs("repository")
os.chdir("repository")
git("init", "-q")
write(job=SCRIPT.format(mbs=1), gone=SCRIPT.format(mbs=1), other="echo hello\n")
base = git("rev-parse", "HEAD")
write(job=SCRIPT.format(mbs=4), gone="echo gone\n", fresh=SCRIPT.format(mbs=2), other="echo bye\n")
server = http.server.HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
api = {"GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}", "GITHUB_TOKEN": "secret", "GITHUB_REPOSITORY": "a/b", "NUMBER": "3"}

code, text, errors = run(PRICE="2")
lines = text.splitlines()
cells = {line.split("`")[1]: [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")}
first = run(**api), list(comments)
second = run(**api, FAIL_IF="step_time_s > 0.001\npeak_bytes > 1e15"), list(comments)
nothing = run(FILES="*.toml", **api)
checks = [
    code == 0 and not errors, set(cells) == {"job.sh", "fresh.sh"}, "→" in cells["job.sh"][2] and "%)" in cells["job.sh"][3],
    "→" not in cells["fresh.sh"][2] and "(new)" in cells["fresh.sh"][0], cells["job.sh"][6].startswith("$"), "was a job" in text and "gone.sh" in text,
    "other.sh" not in text, len(first[1]) == 1 and first[0][0] == 0, second[0][0] == 1 and len(second[1]) == 1, ":x:" in second[1][0]["body"],
    "step_time_s > 0.001" in second[0][1] and "1e15" not in second[0][1], nothing[0] == 0 and "No job changed" in nothing[1],
    {entry[2] for entry in asked} == {"Bearer secret"}, [entry[0] for entry in asked if entry[0] != "GET"] == ["POST", "PATCH"],
    git("worktree", "list").count("\n") == 0, run(BASE="")[0] == 1,
]
print(*[f"check {i}: {text}" for i, holds in enumerate(checks) if not holds], sep="\n", end="" if all(checks) else "\n")
print(f"{len(checks)} checks, {len(checks) - sum(map(bool, checks))} wrong")
