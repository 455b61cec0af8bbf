#!/usr/bin/env python3
"""Every script and target of make that a document names works.

    tests/documents/scripts.py PROGRAM [SCRIPT...]     of the build in build/release

Documents are README.md, CONTRIBUTING.md and all Markdown below docs/ and tests/. A script that one of them names is run here, in a
short form (RUNS), or where ELSEWHERE says, which is looked up. One that is in neither table fails, so does a line of a table that no
document needs. Times do not count: a benchmark has to run and to print what it prints. `make TARGET` has to be a target.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")),
             *sorted((ROOT / "tests").rglob("*.md"))]
NAMED = re.compile(r"(?<![\w/.-])(?:\.\./)*((?:bench|tools|tests|examples|python)/[\w./-]+\.(?:py|sh|mjs)|bench/\w+\.c|\./demo|\./check)(?![\w-])")
COUNTED = "make -s MODE=release bench-lookup-counted && LOOKUP_FIRST=2 bench/lookup_counted.sh build/release/bench-lookup-counted"

# Of each script: programs that it takes, what is run in the repository, and what its output has (re.search).
# $P is the program, $OUT a new folder.
RUNS = {
    "bench/growth.py": ("valgrind", 'python3 bench/growth.py --program "$P" --points 2 --picture "$OUT/growth.svg" --against docs/notes/figures.md && grep -c "<svg" "$OUT/growth.svg"',
                        r"micro-batches \| 64, 128 \| [\d.]+, [\d.]+"),
    "bench/jobs.py": ("", 'python3 bench/jobs.py "$P" --seeds 1 --jobs 10', r"\| elastic \| [\d.]+ \|"),
    "bench/lang.py": ("mpicc mpirun", 'SMALLEST=14 LARGEST=14 ROUNDS=3 python3 bench/lang.py "$P" adam', r"fused Adam, 2\^14"),
    "bench/lookup_counted.sh": ("valgrind", COUNTED + " shapes 1 0.1", r"shape-1-1,"),
    "bench/probe_calls.c": ("mpicc", 'mpicc -O2 -o "$OUT/probe_calls" bench/probe_calls.c && cd "$OUT" && "$P" record --out r -- ./probe_calls',
                            r"MPI_Allreduce +\d+ ns a call"),
    "bench/record_overhead.sh": ("mpicc mpirun", 'bench/record_overhead.sh "$P" 1 10', r"recorded against without"),
    "bench/run.sh": ("", "bench/run.sh 9", r"1024 ranks, contention, jitter"),
    "bench/serve_changes.mjs": ("node npm chromium", 'tests/browser/run.sh "$P" --run bench/serve_changes.mjs 3', r"predicted: 3 changes"),
    "bench/serve_clients.py": ("", 'python3 bench/serve_clients.py "$P" 2 2', r"2 clients, 4 predictions .* 0 wrong"),
    "bench/shard_tables.py": ("", 'python3 bench/shard_tables.py 20 > "$OUT/t.csv" && "$P" shard "$OUT/t.csv" --gpu 8xa100-sxm-80', r"^FITS  20 tables"),
    # that a bar is missed is a matter of times: status 1
    "bench/stalls.py": ("mpicc mpirun", 'python3 bench/stalls.py --lockstep "$P" --repeats 1 --steps 12 delay || [ $? -eq 1 ]', r"recovered as interconnect"),
    "tests/record/waits.py": ("", 'python3 tests/record/waits.py "$P" --only loop', r"^loop: step .* compute 20 reported"),
    "tools/compiled.py": ("", 'python3 tools/compiled.py "$P"', r"^order: tau [\d.]+ over \d+ pairs"),
    "tests/answers/renew.py": ("", 'mkdir -p "$OUT/tests" && cp -r tests/answers "$OUT/tests" && ln -s "$PWD/examples" "$PWD/data" "$OUT" && cd "$OUT/tests/answers" && '
                               'sed -i "4,\\$d; s/step_time_s=[0-9.]*/step_time_s=1/" questions.csv && python3 renew.py --why "a figure was wrong" "$P"',
                               r"^[12] of 2 rows are new"),
    "tests/corpus/renew.py": ("", 'mkdir -p "$OUT/tests" "$OUT/data/configs/nanotron" && cp -r tests/corpus "$OUT/tests" && cp tests/data/hf/gpt2.json "$OUT/data/configs/nanotron" && '
                              'make -s MODE=release build/release/corpus && LOCKSTEP_DATA="$OUT/data" python3 "$OUT/tests/corpus/renew.py" --why "one file is listed" build/release/corpus',
                              r"of 1 rows are new"),
    "tests/data/forms/make.sh": ("unshare", 'mkdir -p "$OUT/tests/data" && cp -r tests/data/* "$OUT/tests/data" && cp -r tests/cli "$OUT/tests" && ln -s "$PWD/examples" "$PWD/data" "$OUT" && '
                                 'rm -rf "$OUT"/tests/data/forms/[0-9]* && "$OUT/tests/data/forms/make.sh" "$P" && ls "$OUT"/tests/data/forms/*/answer.json', r"answer.json"),
}

# Scripts that other checks run: where.
ELSEWHERE = {
    "./check": "tools/fresh_check.sh", "./demo": "tools/fresh_check.sh",
    "bench/engine.c": "bench/run.sh", "bench/make_trace.c": "bench/run.sh", "bench/measure.c": "bench/run.sh",
    "examples/torch_adam/train.py": "tests/cli/compile_torch.test",
    "tests/answers/check.py": "tests/cli/answers.test",
    "tests/browser/run.sh": "Makefile",
    "tests/cli/expected_judge.py": "tests/cli/expected_judge.test", "tests/versus/judge.py": "tests/cli/versus.test",
    "tests/cli/dlrm8.py": "tests/cli/dlrm.test", "tests/cli/forms.py": "tests/cli/forms.test", "tests/cli/limits.py": "tests/cli/limits.test",
    "tests/cli/example_files.py": "tests/tutorials/run.py", "tests/cli/run.sh": "Makefile", "tests/cli/same_bytes.py": "tests/cli/same_bytes.sh",
    "tests/corpus/rightly.py": "tests/corpus/check.py",
    "tests/lang/covering.sh": "tests/lang/mpi.sh", "tests/lang/oracle.py": "Makefile",
    "tests/package/run.sh": "Makefile",
    "tests/record/composed.py": "tests/cli/stalls_injections.test", "tests/record/ddp.py": "tests/cli/stalls_python.test",
    "tests/record/injections.py": "tests/cli/stalls_injections.test", "tests/record/staging.py": "tests/cli/stalls.test",
    "tests/tutorials/run.py": "Makefile",
    "tests/unit/hta_oracle.py": "tests/unit/test_explain.c",
    "tools/abi.sh": "tests/package/run.sh", "tools/exports.sh": "Makefile",
    "tools/layers.sh": "Makefile", "tools/names.py": "Makefile", "tools/schemas.py": "tests/cli/schemas.test", "tools/openapi.py": "tests/serve/test_openapi.py", "tools/portable/floor.py": "packaging.mk",
    "tools/setup.sh": "tools/fresh_check.sh", "tools/stages.sh": "check", "tools/statics.sh": "Makefile", "tools/web_charts.sh": "Makefile",
}


def named():
    """{script: where it is named first} and {target of make: where}."""
    scripts, targets = {}, {}
    for document in DOCUMENTS:
        text = document.read_text()
        folder = document.parent.relative_to(ROOT)
        for number, line in enumerate(text.split("\n"), 1):
            where = f"{document.relative_to(ROOT)}:{number}"
            for found in NAMED.finditer(line):
                scripts.setdefault(found[1], where)
            for word in re.findall(r"(?:`|^    )(?:[A-Z_]+=\S+ )*make ((?:[a-z][a-z-]*(?:[ `]|$))+)", line):
                for target in re.findall(r"[a-z-]+", word):
                    targets.setdefault(target, where)
    return scripts, targets


def run(script, program):
    """What is wrong; None: nothing; False: skipped."""
    takes, command, expected = RUNS[script]
    if not all(shutil.which(word) for word in takes.split()):
        return script, False
    with tempfile.TemporaryDirectory() as out:
        environment = dict(os.environ, P=program, OUT=out, LC_ALL="C", NO_COLOR="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode != 0 or not re.search(expected, done.stdout, re.M):
        return script, f"{command}: status {done.returncode}, expected {expected}: ...{done.stdout[-600:]}"
    return script, None


def main():
    program, only = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]
    scripts, targets = named()
    makefile = (ROOT / "Makefile").read_text() + (ROOT / "packaging.mk").read_text()
    wrong, passed, skipped = [], 0, 0
    for target, where in targets.items():
        passed += 1
        if not re.search(rf"^(?:\.PHONY:.*|[\w -]*)\b{re.escape(target)}\b[\w -]*:(?!=)", makefile, re.M) and not target.startswith("check-long-"):
            wrong.append(f"{where}: make has no target {target}")
    for script, where in scripts.items():
        passed += 1
        if not (ROOT / script).exists():
            wrong.append(f"{where}: there is no {script}")
        elif script not in RUNS and script not in ELSEWHERE:
            wrong.append(f"{where}: no check runs {script}; add a short form to RUNS of tests/documents/scripts.py")
        elif script in ELSEWHERE and pathlib.Path(script).stem not in (ROOT / ELSEWHERE[script]).read_text():
            wrong.append(f"{where}: {ELSEWHERE[script]} does not run {script} any more")
    for script in [*RUNS, *ELSEWHERE]:
        if script not in scripts:
            wrong.append(f"scripts.py: no document names {script}")
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TEST_JOBS", "2"))) as pool:
        for script, said in pool.map(lambda script: run(script, program), [script for script in RUNS if not only or script in only]):
            skipped += said is False
            if said is False:
                print(f"skip {script}: {RUNS[script][0]} are not all installed")
            elif said:
                wrong.append(f"{script}: {said}")
    print("".join(f"FAIL {line}\n" for line in wrong), end="")
    print(f"scripts: {passed + len(RUNS) - skipped - len(wrong)} passed, {len(wrong)} failed, {skipped} skipped")
    sys.exit(bool(wrong))


main()
