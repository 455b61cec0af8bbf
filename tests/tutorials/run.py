#!/usr/bin/env python3
"""Runs the tutorials: every command of every document, and compares what it prints with what the document shows.

    tests/tutorials/run.py PROGRAM [DOCUMENT.md...]       README.md has the form
    tests/tutorials/run.py --fill PROGRAM DOCUMENT.md     writes the output of commands that show none yet

The commands of a document run in one shell, in a folder of its own that has what the repository has. Documents run in parallel.
Of README.md and the other pages of docs/guide, docs/reference and docs/method, the indented blocks that begin with "$ " are run, and
those that begin with "lockstep ", whose lines are commands that have to end with status 0 or 1, in a folder with the files that
examples name (tests/cli/example_files.py). A comment directly above a block excludes it (<!-- not run: REASON -->; all of them are
listed) or names the programs that it needs (<!-- needs: PROGRAM... -->).
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ROOT / "docs" / "guide" / "tutorials"
OTHERS = [ROOT / "README.md", *(page for room in ("guide", "reference", "method") for page in sorted((ROOT / "docs" / room).glob("*.md")))]
SHOWN = ["examples", "bench", "tests", "docs", "data"]
NUMBER = re.compile(r"[+-]?\d+(?: \d{3})*(?:[.,]\d+)*(?:e[+-]?\d+)?")
NEAR = 0.2  # a figure may differ from the one shown by so much
RULE = "@@tutorial@@"
ENDED = "ended with exit status"
ALONE = re.compile(r"    (?:lockstep|mpirun .*lockstep\S*) ")


class Wrong(Exception):
    """A document that has not the form, or a command that printed something else."""


def plain_blocks(text):
    """The indented blocks of other documents that are commands, in the form of blocks(), without those that are not run."""
    lines, found, at = text.split("\n"), [], 0
    while at < len(lines):
        end = at
        while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip() and end > at):
            end += 1
        above = next((line for line in reversed(lines[:at]) if line.strip()), "")
        needs = re.fullmatch(r"<!-- needs: (.*) -->", above)
        absent = needs and not all(shutil.which(word) for word in needs[1].split())
        excluded = absent or re.fullmatch(r"<!-- not run: .* -->", above)
        begins = (at == 0 or not lines[at - 1].strip()) or lines[at - 1].startswith("<!--")
        if lines[at].startswith("    $ ") and begins and not excluded:
            found.append((at, "console", {}, [line[4:] for line in lines[at:end]]))
        elif ALONE.match(lines[at]) and begins and not excluded:
            block = [line[4:] for line in lines[at:end] if line.strip()]
            found.append((at, "console", {"alone": True}, [line if before.endswith("\\") else "$ " + line for line, before in zip(block, ["", *block])]))
        at = max(end, at + 1)
    return found


def blocks(text):
    """(line number, language, notes, lines) of the fenced blocks; notes are those of HTML comments directly above."""
    lines, notes, found, at = text.split("\n"), {}, [], 0
    while at < len(lines):
        note = re.fullmatch(r"<!-- (file|needs): (.*) -->", lines[at])
        fence = re.fullmatch(r"```(\w*)", lines[at])
        if note:
            notes[note[1]] = note[2]
        elif fence:
            end = lines.index("```", at + 1)
            found.append((at + 1, fence[1], notes, lines[at + 1:end]))
            notes, at = {}, end
        elif lines[at].startswith("    ") and lines[at].strip() and not re.match(r"\s+[-*|]", lines[at]):
            raise Wrong(f"line {at + 1}: indented code is not run; give it a fence")
        elif lines[at].strip():
            notes = {}
        at += 1
    return found


def commands(number, lines):
    """(line number, command, expected lines): a command continues after a backslash, and on lines that begin with "> "."""
    found = []
    for offset, line in enumerate(lines):
        if found and not found[-1][2] and found[-1][1].endswith("\\"):
            found[-1][1] += "\n" + line
        elif line.startswith("$ "):
            found.append([number + offset + 1, line[2:], []])
        elif line.startswith("> ") and found and not found[-1][2]:
            found[-1][1] += "\n" + line[2:]
        elif not found:
            raise Wrong(f"line {number + offset + 1}: output before the first command")
        else:
            found[-1][2].append(line)
    return found


def value(text):
    return float(text.strip("% ").replace(" ", "").replace(",", ""))


def near(shown, seen):
    try:
        a, b = value(shown), value(seen)
    except ValueError:
        return shown == seen
    return abs(a - b) <= max(NEAR * max(abs(a), abs(b)), 1 if shown.endswith("%") else 0)


def same_line(shown, seen):
    """Blanks in a row count as one; "..." stands for any text, "<N>" for any number; other numbers are near the one shown."""
    if shown.strip() == seen.strip():
        return True
    pattern, figures, at = "", [], 0
    shown = re.sub(r"\s+", " ", shown.strip())
    seen = re.sub(r"\s+", " ", seen.strip())
    for part in re.finditer(r"\.\.\.|<N>|\bin " + NUMBER.pattern + r" (?:us|ms|s)\b|(?<![\w.])" + NUMBER.pattern + r"(?: %)?|-{3,}", shown):
        pattern += re.escape(shown[at:part.start()])
        at = part.end()
        if part[0] == "...":
            pattern += ".*"
        elif part[0].startswith("---"):
            pattern += "-+"
        elif part[0].startswith("in "):
            pattern += "in " + NUMBER.pattern + " (?:us|ms|s)"
        else:
            pattern += "(" + NUMBER.pattern + (" %)" if part[0].endswith(" %") else ")")
            figures.append(part[0])
    found = re.fullmatch(pattern + re.escape(shown[at:]), seen)
    return bool(found) and all(a == "<N>" or near(a, b) for a, b in zip(figures, found.groups()))


def same(shown, seen):
    """Whether lines match; a line "..." stands for any number of lines."""
    if not shown:
        return not any(line.strip() for line in seen)
    if shown[0].strip() == "...":
        return any(same(shown[1:], seen[skip:]) for skip in range(len(seen) + 1))
    return bool(seen) and same_line(shown[0], seen[0]) and same(shown[1:], seen[1:])


def squeeze(lines):
    """Without blank lines, which a text may have more of."""
    return [line for line in lines if line.strip()]


def script(document):
    """The document as one shell script, and what each command is expected to print."""
    parts, expected = [], []
    tutorial = document.resolve().parent == PAGES
    for number, language, notes, lines in (blocks if tutorial else plain_blocks)(document.read_text()):
        if "needs" in notes:
            missing = [word for word in notes["needs"].split() if not shutil.which(word)]
            if missing:
                return parts, expected, f"from line {number} on: {' and '.join(missing)} is not installed"
        if "file" in notes:
            parts.append(f"cat > {notes['file']} <<'{RULE}'\n" + "\n".join(lines) + f"\n{RULE}\n")
        elif language == "console":
            for line, command, output in commands(number, lines):
                ends = f'[ $status -lt 2 ] || echo "{ENDED} $status"; ' if notes.get("alone") else ""
                parts.append(f"{{ {command}\n}} 2>&1\nstatus=$?; {ends}echo; echo '{RULE}'; (exit $status)\n")
                # Other documents also show commands alone.
                expected.append((line, command, output if tutorial or squeeze(output) else ["..."]))
        elif language != "text":
            raise Wrong(f"line {number}: a block of \"{language}\" is neither console, text nor a file")
    return parts, expected, None


def run(document, program, folder):
    """What every command of the document printed, as lists of lines."""
    home = folder / (document.parent.name + "-" + document.stem)
    if (folder / "files").is_dir() and any(line and ALONE.match(line) for line in document.read_text().split("\n")):
        shutil.copytree(folder / "files", home, symlinks=True)
    (home / "bin").mkdir(parents=True)
    for name in SHOWN:
        (home / name).symlink_to(ROOT / name)
    for path in [program, program.parent / "lockstep-mpi"]:
        if path.exists():
            (home / "bin" / path.name).symlink_to(path)
    (home / "checkout").symlink_to(ROOT)  # whose own path may have blanks
    environment = dict(os.environ, PATH=f"{home / 'bin'}:{os.environ['PATH']}", LOCKSTEP=str(home / "checkout"), HOME=str(home), NO_COLOR="1", LOCKSTEP_CHECKS="abort",
                       LC_ALL="C", TZ="UTC", COLUMNS="100", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_orte_tmpdir_base=str(home))
    parts, expected, skipped = script(document)
    if not parts:
        return expected, [], skipped
    # A session of its own: at a timeout the shell ends together with everything that it started.
    with subprocess.Popen(["bash", "-c", "".join(parts)], cwd=home, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as shell:
        try:
            text, _ = shell.communicate(timeout=float(os.environ.get("TEST_SECONDS", "900")))
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            text = shell.communicate()[0] + "\nended: it took too long\n"
    printed = [part.strip("\n").split("\n") for part in text.split(RULE + "\n")]
    return expected, printed, skipped


def check(document, program, folder):
    """(report, passed, failed, skipped) of one document."""
    try:
        expected, printed, skipped = run(document, program, folder)
    except Wrong as wrong:
        return f"FAIL {document.name}: {wrong}\n", 0, 1, 0
    report, failed = "", 0
    for index, (line, command, output) in enumerate(expected):
        seen = printed[index] if index < len(printed) else ["(not run)"]
        if same(squeeze(output), squeeze(seen)) and not any(text.startswith(ENDED) for text in seen):
            continue
        failed += 1
        report += f"FAIL {document.name}:{line}: {command.splitlines()[0]}\n    shown:\n"
        report += "".join(f"      {text}\n" for text in output[:40]) + "    printed:\n" + "".join(f"      {text}\n" for text in seen[:60])
    report += f"skip {document.name} {skipped}\n" if skipped else ""
    if not expected and not skipped and document.resolve().parent == PAGES and document.name != "README.md":
        failed, report = 1, report + f"FAIL {document.name}: it shows no command\n"
    report += f"done {document.name}: {len(expected)} commands\n" if expected else ""
    return report, max(len(expected) - failed, 0), failed, 1 if skipped else 0


def make_files(program, folder):
    """The files that examples name, once; documents have copies."""
    (folder / "files").mkdir()
    data = pathlib.Path(os.environ.get("LOCKSTEP_DATA", ROOT / ".." / "shared" / "data")).resolve()
    code = "import sys; sys.path.insert(0, sys.argv[1]); import example_files; example_files.make_files(sys.argv[2], sys.argv[3], bool(sys.argv[4]))"
    has_mpi = "yes" if shutil.which("mpicc") and shutil.which("mpirun") else ""
    subprocess.run([sys.executable, "-B", "-c", code, str(ROOT / "tests" / "cli"), str(program), str(data), has_mpi], cwd=folder / "files", check=True)
    for name in SHOWN:
        shutil.rmtree(folder / "files" / name, ignore_errors=True)


def list_excluded(documents):
    """Every block that is not run, with its reason."""
    report = ""
    for document in documents:
        for number, line in enumerate(document.read_text().split("\n"), 1):
            if reason := re.fullmatch(r"<!-- not run: (.*) -->", line):
                report += f"not run {document.name}:{number}: {reason[1]}\n"
    return report


def spoken_commands(text):
    """(line number, verb, words) of everything in a document that reads like a command of lockstep's, in code or in a sentence."""
    text = re.sub(r"\\\n\s*", " ", text)
    pattern = r"(?:^ {4}|^\$ |^|`|\$ )lockstep ([a-z]+)((?: [^`\n]*)?)(?:`|$)"
    for found in re.finditer(pattern, text, re.M):
        if found[0].startswith(("`", " ", "$")):
            yield text.count("\n", 0, found.start()) + 1, found[1], re.split(r" -- | \| |[;>]", found[2] + " ")[0]


def check_options(program):
    """Every verb and option that a document names is there: also in commands that nobody runs."""
    helps, report, passed, failed = {}, "", 0, 0

    def run_program(*words):
        return subprocess.run([program, *words], capture_output=True, text=True, check=False).stdout

    verbs = run_program("--verbs").split()
    for verb in verbs:
        helps[verb] = set(re.findall(r"(?<=--)(?:\[no-\])?([a-z][a-z0-9_-]*)", run_program("help", verb))) | {"help"}
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for document in documents:
        for number, verb, words in spoken_commands(document.read_text()):
            if verb == "help":
                continue
            words = re.sub(r''' --job ("[^"]*"|'[^']*')''', " --job", words)  # the options of predict
            options = {re.sub("_", "-", name) for name in re.findall(r"(?<= --)[a-z][a-z0-9_-]*", words)}
            known = {re.sub("_", "-", name) for name in helps.get(verb, ())}
            unknown = [name for name in sorted(options - known) if not (name.startswith("no-") and name[3:] in known)]
            wrong = f"no verb {verb}" if verb not in helps else f"{verb} has no --{unknown[0]}" if unknown else None
            passed, failed = passed + (wrong is None), failed + (wrong is not None)
            report += f"FAIL {document.relative_to(ROOT)}:{number}: {wrong}\n" if wrong else ""
    return report + f"done options that documents name: {passed + failed} commands\n", passed, failed, 0


def fill(document, program, folder):
    """Writes what commands printed below those that show nothing."""
    expected, printed, _ = run(document, program, folder)
    lines = document.read_text().split("\n")
    for index in range(len(expected) - 1, -1, -1):
        line, command, output = expected[index]
        if not output:
            end = line + command.count("\n")
            lines[end:end] = printed[index] if any(printed[index]) else []
    document.write_text("\n".join(lines))


def main(words):
    filling = words[:1] == ["--fill"]
    words = words[filling:]
    if not words:
        sys.exit("usage: tests/tutorials/run.py [--fill] PROGRAM [DOCUMENT.md...]")
    program = pathlib.Path(words[0]).resolve()
    documents = [pathlib.Path(word) for word in words[1:]] or sorted(PAGES.glob("*.md")) + OTHERS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if " " in str(program) or ":" in str(program):  # from there the dynamic linker loads no recorder
            built, program = program.parent, folder / "built" / program.name
            program.parent.mkdir()
            for path in [built / program.name, *built.glob("*.so"), *built.glob("lockstep-mpi*")]:
                shutil.copy2(path, program.parent)
        make_files(program, folder)
        if filling:
            for document in documents:
                fill(document, program, folder)
            return 0
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TEST_JOBS", os.cpu_count()))) as pool:
            results = list(pool.map(lambda document: check(document, program, folder), documents))
        results.append((list_excluded(documents), 0, 0, 0))
        if not words[1:]:
            results.append(check_options(program))
    print("".join(result[0] for result in results), end="")
    passed, failed, skipped = (sum(result[i] for result in results) for i in (1, 2, 3))
    print(f"tutorials: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
