#!/usr/bin/env python3
"""review.py: what a change of training configurations does to memory, time and cost, as a table in Markdown.

Reads its settings from the environment, as action.yml sets them: BASE, a commit with which the working tree is compared; FILES, patterns;
OPTIONS of `lockstep predict`; FAIL_IF, conditions, one per line; PRICE of a GPU's hour; LOCKSTEP, the program. The table goes to standard
output and to $GITHUB_STEP_SUMMARY; with GITHUB_TOKEN, GITHUB_REPOSITORY and NUMBER also to a comment of the pull request, which a later
run replaces. Exit status: 0; 1 a condition holds; 2 the settings are wrong."""
import json, os, shlex, subprocess, sys, tempfile, urllib.error, urllib.request

MARK = "<!-- lockstep review -->"
LARGEST = 1 << 20  # bytes of a file that may be a configuration
env = os.environ
program = env.get("LOCKSTEP") or "lockstep"


def git(*words):
    return subprocess.run(["git", *words], stdout=subprocess.PIPE, check=True, text=True).stdout


def predict(folder, path, conditions=()):
    """The answer for a file of a folder, None where it is no job; and the condition that holds."""
    place = os.path.join(folder, path)
    if not os.path.isfile(place) or os.path.getsize(place) > LARGEST:
        return None, "", ""
    words = [program, "predict", path, *shlex.split(env.get("OPTIONS", "")), "-o", "json", *[word for c in conditions for word in ("--fail-if", c)]]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = {"error": {"text": done.stderr.strip()}}
    met = [line.split("--fail-if ", 1)[1] for line in done.stderr.splitlines() if "lockstep: --fail-if " in line]
    if "error" in said:
        return None, said["error"]["text"], ""
    return said, "", met[0] if met else ""


def dollars(said):
    """Of a billion tokens; None: no price, or no tokens."""
    price, rate = float(env.get("PRICE") or 0), said["tokens_per_s_per_gpu"]
    return price * 1e9 / (rate * 3600) if price and rate else None


def change(before, after, form):
    """One value, or two with the change in percent."""
    if after is None:
        return "-"
    if before is None or before == after:
        return form(after)
    part = f" ({(after / before - 1) * 100:+.1f} %)" if before else ""
    return f"{form(before)} → {form(after)}{part}"


def row(path, before, after):
    was, now = before or {}, after
    verdict = "fits" if now["fits"] else "**does not fit**"
    if before and was["fits"] != now["fits"]:
        verdict = ("fits" if was["fits"] else "does not fit") + " → " + verdict
    cells = [f"`{path}`" + ("" if before else " (new)"), verdict,
             change(was.get("peak_bytes"), now["peak_bytes"], lambda value: f"{value / 2**30:.1f} GiB"),
             change(was.get("step_time_s"), now["step_time_s"], lambda value: f"{value:.3g} s"),
             f"{now['step_time_low_s']:.3g} to {now['step_time_high_s']:.3g} s",
             change(was.get("tokens_per_s_per_gpu"), now["tokens_per_s_per_gpu"], lambda value: f"{value:,.0f}")]
    if env.get("PRICE"):
        cells.append(change(dollars(was) if before else None, dollars(now), lambda value: f"${value:,.0f}"))
    return "| " + " | ".join(cells) + " |"


def table(rows):
    heads = ["configuration", "memory", "peak of a GPU", "step", "80 % range", "tokens/s/GPU"] + ["a billion tokens"] * bool(env.get("PRICE"))
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *rows]


def call(method, path, body=None):
    """GitHub's REST interface."""
    request = urllib.request.Request(
        (env.get("GITHUB_API_URL") or "https://api.github.com") + path, method=method, data=json.dumps(body).encode() if body else None,
        headers={"Authorization": "Bearer " + env["GITHUB_TOKEN"], "Accept": "application/vnd.github+json", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def comment(text):
    issue = f"/repos/{env['GITHUB_REPOSITORY']}/issues"
    found = [entry["id"] for page in range(1, 11) for entry in call("GET", f"{issue}/{env['NUMBER']}/comments?per_page=100&page={page}")
             if entry["body"].startswith(MARK)] if env.get("NUMBER") else []
    if found:
        call("PATCH", f"{issue}/comments/{found[0]}", {"body": text})
    else:
        call("POST", f"{issue}/{env['NUMBER']}/comments", {"body": text})


def main():
    base = env.get("BASE")
    if not base:
        sys.exit("review.py: BASE: no commit is named; set it to the commit to compare with")
    os.chdir(git("rev-parse", "--show-toplevel").strip())
    changed = git("diff", "--name-only", "-z", "--diff-filter=d", base, "--", *(env.get("FILES") or "*.yaml").split()).split("\0")[:-1]
    conditions = [line.strip() for line in env.get("FAIL_IF", "").splitlines() if line.strip()]
    rows, unread, met = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        old = os.path.join(folder, "base")
        git("worktree", "add", "--quiet", "--detach", old, base)
        try:
            for path in changed:
                after, why, holds = predict(".", path, conditions)
                before = predict(old, path)[0]
                if after:
                    rows.append(row(path, before, after))
                    met += [f"`{path}`: {holds}"] * bool(holds)
                elif before:
                    unread.append(f"`{path}` was a job that lockstep reads, and is none now: {why}")
        finally:
            git("worktree", "remove", "--force", old)
    lines = [MARK, "### Training configurations", ""] + (table(rows) if rows else ["No job changed."])
    lines += [""] * bool(unread or met) + [f"- {line}" for line in unread] + [f"- :x: {line}" for line in met]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if env.get("GITHUB_STEP_SUMMARY"):
        with open(env["GITHUB_STEP_SUMMARY"], "a") as file:
            file.write(text)
    if (rows or unread) and all(env.get(name) for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY", "NUMBER")):
        try:
            comment(text)
        except (urllib.error.URLError, OSError) as why:
            print(f"review.py: no comment was written: {why}", file=sys.stderr)
    return 1 if met else 0


if __name__ == "__main__":
    sys.exit(main())
