#!/usr/bin/env python3
"""`lockstep rent` against asking for everything: on random price lists, every number of machines of every offer is planned by
itself (with the usual switches, as `predict` takes them), and hours and dollars follow as the guide has them. The cheapest, the fastest, the front and the most that a budget
buys are the true ones; and a training as long as the most keeps to what bought it, one longer does not.
Usage: rent_fronts.py PROGRAM [CASES]"""
import concurrent.futures, json, os, random, subprocess, sys, tempfile

PROGRAM = os.path.realpath(sys.argv[1])
CASES = int(sys.argv[2]) if len(sys.argv) > 2 else 3
MOST_GPUS = 32
SETUP_H = 10 / 60  # minutes of setting up that are paid for by default
HEAD = "provider,instance,region,gpu,gpus,on_demand,spot,date,source,links,network_gbps\n"


def ask(*words):
    run = subprocess.run([PROGRAM, *words, "-o", "json"], capture_output=True, text=True)
    if run.returncode == 2:
        raise SystemExit(f"{' '.join(words)}: {run.stderr}")
    return json.loads(run.stdout)


def draw(seed):
    """A job, and offers: (instance, GPU, GPUs of a machine, dollars an hour, links, Gbit/s)."""
    dice = random.Random(seed)
    job = ["--model", dice.choice(["bert-large", "llama3.2-1b", "gpt2-xl"]), "--gbs", str(dice.choice([32, 64])), "--seq",
           str(dice.choice([256, 512]))]
    offers = []
    for i in range(dice.choice([2, 3])):
        gpu, usd = dice.choice([("a100-sxm-80", 2), ("h100-sxm", 4), ("v100-sxm-32", 1.5)])
        gpus = dice.choice([1, 2, 4, 8])
        offers.append((f"m{i}", gpu, gpus, round(gpus * usd * dice.uniform(0.6, 1.6), 2), "nvlink" if gpus > 1 else "",
                       dice.choice([25, 100, 400])))
    return job, offers, dice


def everything(job, offers):
    """Every choice: instance, machines, dollars an hour, step in seconds."""
    found = []
    for name, gpu, gpus, usd, links, gbps in offers:
        machines = 1
        while machines * gpus <= MOST_GPUS:
            nic = f", nic 1*{gbps}g" if machines > 1 else ""
            cluster = f"{machines} node * {gpus} {gpu}{' ' + links if links else ''}{nic}"
            choices = ask("plan", *job, "--cluster", cluster, "--fixed-switches", "--no-exact", "--no-sensitivity")["counts"][0]["choices"]
            if choices:
                found.append((name, machines, usd * machines, choices[0]["step_time_s"]))
            machines *= 2
    return found


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def check(seed):
    job, offers, dice = draw(seed)
    choices, wrong = everything(job, offers), []
    if not choices:
        return 0, wrong
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as prices:
        prices.write(HEAD + "".join(f"aws,{name},here,{gpu},{gpus},{usd},,2026-01-01,drawn,{links},{gbps}\n"
                                    for name, gpu, gpus, usd, links, gbps in offers))
        prices.flush()
        rent = ["rent", *job, "--prices", prices.name, "--most-gpus", str(MOST_GPUS), "--top", "100"]

        # A training of a length: hours and dollars of each, limits in the middle of what there is.
        batch, seq = int(job[3]), int(job[5])
        steps = 100 * dice.randint(10, 1000)
        all_ = [(steps * step / 3600 + SETUP_H, usd) for _, _, usd, step in choices]
        all_ = [(hours, hours * usd) for hours, usd in all_]
        deadline, budget = dice.choice(all_)[0] * 1.01, dice.choice(all_)[1] * 1.01
        keeps = [c for c in all_ if c[0] <= deadline and c[1] <= budget]
        said = ask(*rent, "--samples", str(steps * batch), "--deadline", str(deadline), "--budget", str(budget))
        if keeps and said["cheapest"] is not None:
            cheapest, fastest = said["choices"][said["cheapest"]], said["choices"][said["fastest"]]
            if not close(cheapest["cost_usd"], min(c[1] for c in keeps)):
                wrong.append(f"cheapest ${cheapest['cost_usd']}, not {min(keeps, key=lambda c: c[1])}")
            if not close(fastest["hours"], min(c[0] for c in keeps)):
                wrong.append(f"fastest {fastest['hours']} h, not {min(keeps)}")
        elif bool(keeps) != (said["cheapest"] is not None):
            wrong.append(f"keeps to both: {len(keeps)}, said {said['cheapest']}")
        # What does not keep to both need not be searched for.
        front = [c for c in keeps if not any(o[0] <= c[0] and o[1] <= c[1] and o != c for o in all_)]
        shown = [(c["hours"], c["cost_usd"]) for c in said["choices"] if c["pareto"]]
        for c in front:
            if not any(close(c[0], s[0]) and close(c[1], s[1]) for s in shown):
                wrong.append(f"{c} is not on the front {shown}")

        # A training without one: the most in what deadline and budget leave.
        most = max((min(deadline, budget / usd) - SETUP_H) * 3600 / step * batch for _, _, usd, step in choices)
        said = ask(*rent, "--deadline", str(deadline), "--budget", str(budget))
        if (said["most"] is None) != (most <= 0):
            wrong.append(f"the most: {said['most']}, not {most}")
        elif most > 0:
            best = said["choices"][said["most"]]
            if not close(best["samples"], most) or not close(best["tokens"], most * seq):
                wrong.append(f"the most: {best['samples']}, not {most}")
            for longer in (False, True):
                again = ask(*rent, "--samples", repr(best["samples"] * (1.001 if longer else 0.999)), "--deadline", str(deadline),
                            "--budget", str(budget))
                if (again["cheapest"] is None) != longer:
                    wrong.append(f"{best['samples']} samples are the most, {again['samples']} {'do' if longer else 'do not'} keep")
    return len(choices), [f"case {seed}: {w}" for w in wrong]


with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    results = list(pool.map(check, range(CASES)))
for _, wrong in results:
    for line in wrong:
        print(line)
print(f"{sum(n > 0 for n, _ in results)} cases of {sum(n for n, _ in results)} choices, {sum(len(w) for _, w in results)} wrong")
