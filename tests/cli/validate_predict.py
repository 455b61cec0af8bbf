"""A row of a table is scored by what `lockstep predict` answers to the question of the row: time and range, for every
kind of table. Rows are drawn; their question is written here, as a user would ask it, and nothing is read from lockstep
but its two answers."""
import csv
import io
import json
import random
import subprocess
import sys

draw = random.Random(7)
SAME = 1e-9


def run(*words, table=None):
    done = subprocess.run(["lockstep", *words], input=table, capture_output=True, text=True)
    if done.returncode > 1:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def predicted(line):
    """A "+" of the line is a blank inside of a value."""
    answer = run("predict", *(word.replace("+", " ") for word in line.split()), "-o", "json")
    return answer["step_time_s"], answer["step_time_low_s"], answer["step_time_high_s"]


def check(kind, rows, options=""):
    """rows: (columns, question)."""
    out = io.StringIO()
    table = csv.DictWriter(out, fieldnames=list(dict.fromkeys(key for row, _ in rows for key in row)))
    table.writeheader()
    table.writerows(row for row, _ in rows)
    judged = run("validate", *options.split(), "-", "-o", "json", table=out.getvalue())["rows"]
    apart = 0
    for row, (_, line) in zip(judged, rows, strict=True):
        asked = predicted(line)
        said = tuple(row.get(key) for key in ("predicted", "low", "high"))
        if None in said or any(abs(a / b - 1) > SAME for a, b in zip(said, asked)):
            apart += 1
            print(f"{kind}: {said} of validate, {asked} of predict {line}: {row.get('reason') or ''}")
    if not apart:
        print(f"{kind}: {len(rows)} rows as predict answers them")


def inference():
    rows = []
    for software, release in (("tensorrt-llm", "v1.2"), ("tensorrt-llm-1.0", "v1.0"), ("vllm", "v0.10")):
        for pp in (1, 2, 8):
            model, tp = draw.choice((("llama3.1-8b", 1), ("qwen3-30b-a3b", 2), ("gpt-oss-20b", 1)))
            batch, isl, osl = draw.choice((8, 100, 512)), draw.choice((100, 1000)), draw.choice((50, 700))
            row = {"id": f"{software}-{pp}", "engine": f"{software.removesuffix('-1.0')} {release}", "model": model,
                   "gpu": "H200-SXM", "n_gpu": tp * pp, "pp": pp, "isl": isl, "osl": osl, "precision": "bf16",
                   "batch": batch, "num_requests": batch * 2, "out_tok_s": 1000}
            rows.append((row, f"--task generate --model {model} --gpu h200-sxm --gpus {tp * pp} --tp {tp} --pp {pp} "
                              f"--engine {software} --max-sequences {batch} --prompt {isl} --response {osl} "
                              f"--lengths fixed --gbs {batch * 2}"))
    # TensorRT-LLM's benchmark chooses 4096 sequences that the cache has room for, a stage its part of them; tokens of
    # an iteration of a stage are as many as keep pace
    for pp in (1, 2, 4):
        row = {"id": f"tuned-{pp}", "engine": "tensorrt-llm v1.2", "model": "llama3.1-8b", "gpu": "H200-SXM",
               "n_gpu": pp, "pp": pp, "isl": 64, "osl": 64, "precision": "fp8", "num_requests": 9000, "out_tok_s": 1000}
        rows.append((row, f"--task generate --model llama3.1-8b --gpu h200-sxm --gpus {pp} --pp {pp} --dtype fp8 "
                          f"--engine tensorrt-llm --gpu-mem-util 0.95 --max-sequences 4096 --max-tokens 8192 "
                          f"--prompt 64 --response 64 --lengths fixed --gbs 9000"))
    check("inference", rows, "--inference")


def mlperf():
    rows = []
    for gpu, name, narrow in (("A100-SXM-80", "a100-sxm-80", 0), ("H100-SXM", "h100-sxm", 1), ("B200", "b200", 1)):
        nodes = draw.choice((1, 2, 8))
        gpus, mbs = 8 * nodes, draw.choice((32, 100, 256))
        base = {"gpu": gpu, "nodes": nodes, "n_gpu": gpus, "step_s": 0.1, "framework": "", "source": ""}
        rows.append(({**base, "id": f"r-{gpu}", "benchmark": "resnet", "gbs": mbs * gpus},
                     f"--model resnet50 --gpu {name} --gpus {gpus} --dp {gpus} --mbs {mbs} --gbs {mbs * gpus} "
                     f"--dtype fp16 --stack ddp --compile --cuda-graphs --optimizer sgd"))
        model = draw.choice(("dlrm_dcnv2", "dlrm"))
        rows.append(({**base, "id": f"d-{gpu}", "benchmark": model, "gbs": 65536},
                     f"--model {'dlrm-dcnv2' if model == 'dlrm_dcnv2' else 'dlrm-criteo'} --gpu {name} --gpus {gpus} "
                     f"--gbs 65536 --dtype fp16 --stack hugectr"))
    check("mlperf", rows, "--mlperf")


def scaling():
    rows = []
    for model, gpus in (("resnet50v1.5", 8), ("se-resnext101-32x4d", 1), ("LanguageModeling/BERT", 16)):
        preset = "bert-large" if "BERT" in model else "resnet50" if "50v" in model else model
        batch, steps = draw.choice((16, 48)), draw.choice((1, 4))
        row = {"framework": "T", "model_path": f"x/{model}", "gpu": "V100 16G", "n_gpu": gpus,
               "batch_cols": f"Batch size / GPU={batch}", "precision": "mixed", "unit": "", "throughput": 500,
               "extra": "", "section": "", "file": ""}
        line = (f"--model {preset} --gpu v100-sxm-16 --gpus {gpus} --dp {gpus} --mbs {batch} --dtype fp16 --stack ddp "
                "--compile ")
        if "BERT" in model:
            row["extra"] = f"Accumulation steps (TF32 and FP16)={steps};Sequence length=128"
            row["batch_cols"] = f"Batch size / GPU={batch * steps}"
            line += f"--gbs {batch * steps * gpus} --seq 128 --optimizer lamb --no-overlap-grad-reduce --attention unfused"
        else:
            line += f"--gbs {batch * gpus} --optimizer sgd"
        rows.append((row, line))
    check("scaling", rows, "--scaling")


def training():
    rows = []
    for model, stack, release, tp, pp, gpus, line in (
            ("llama3.1-8b", "nemo", "25.09", 1, 1, 8, "--zero 1 --recompute none --dtype bf16"),
            ("llama3.1-70b", "nemo", "25.09", 4, 4, 64, "--zero 1 --recompute none --dtype bf16"),
            ("llama3.1-8b", "torchtitan", "", 1, 1, 64, "--zero 3 --recompute full --dtype bf16"),
            ("llama3.1-70b", "torchtitan", "", 8, 1, 256, "--zero 3 --recompute full --dtype bf16"),
            ("mpt-7b", "llm-foundry", "", 1, 1, 16, "--zero 3 --recompute none --dtype bf16"),
            ("mpt-3b", "llm-foundry", "", 1, 1, 8, "--zero 3 --recompute none --dtype bf16"),
            # MLPerf's formats and tasks are the stack's defaults
            ("llama3.1-405b", "mlperf", "v5.0", 4, 8, 256, ""),
            ("llama2-70b", "mlperf-lora", "v5.1", 4, 1, 8, "")):
        mbs = draw.choice((1, 2))
        gbs = gpus // tp // pp * mbs * draw.choice((1, 4))
        seq = {"llama3.1-8b": 4096, "mpt-3b": 8192}.get(model, 2048)  # mpt's table of positions is as long as its sequences
        row = {"id": f"{model}-{stack}", "model": model, "gpu": "H100-SXM", "n_gpu": gpus, "stack": stack,
               "release": release, "seq_parallel": int(tp > 1), "tp": tp, "pp": pp, "mbs": mbs, "gbs": gbs, "seq": seq, "step_s": 5,
               "task": "lora" if stack == "mlperf-lora" else "pretrain"}
        rows.append((row, f"--model {model} --gpu h100-sxm --gpus {gpus} --tp {tp} --pp {pp} --mbs {mbs} --gbs {gbs} "
                          f"--seq {seq} --stack {stack} {'--release ' + release if release else ''} {line}"))
    # cards of 25 Gb/s: no measured run had so few, and the range is wider
    row = {"id": "narrow", "model": "llama3.1-8b", "gpu": "H100-SXM", "n_gpu": 16, "net_gbps_per_gpu": 25, "tp": 1,
           "stack": "torchtitan", "mbs": 1, "gbs": 16, "seq": 4096, "step_s": 5}
    rows.append((row, "--model llama3.1-8b --cluster 2+node+*+8+h100-sxm,nic+8*25g --tp 1 --mbs 1 --gbs 16 --seq 4096 "
                      "--stack torchtitan --zero 3 --recompute full --dtype bf16"))
    check("training runs", rows)


def post():
    rows = []
    for gpus, tp, backend in ((8, 1, "dtensor"), (16, 2, "megatron")):
        row = {"id": f"p{gpus}", "framework": "nemo-rl", "release": "v0.5", "algorithm": "grpo", "model": "llama3.1-8b",
               "gpu": "H100-SXM", "n_gpu": gpus, "async_lag": 0, "mean_gen_len": draw.choice((500, 1500)),
               "prompts_per_step": 16, "gens_per_prompt": 8, "step_s": 50, "t_gbs": 128, "t_mbs": 1,
               "train_mb_tokens": 4096, "gen_tp": 1, "tp": tp, "cp": 1, "ep": 1, "pp": 1, "train_precision": "bf16",
               "train_backend": backend, "mean_prompt_len": 200, "gpu_mem_util": 0.6, "logprob_passes": 2}
        stack = "--stack fsdp --zero 3" if backend == "dtensor" else "--stack megatron"
        more = "+pinned_params=1" if backend == "megatron" else ""
        rows.append((row, f"--task grpo --model llama3.1-8b --gpu h100-sxm --gpus {gpus} --tp {tp} --cp 1 --ep 1 --pp 1 "
                          f"--mbs 1 --gbs 128 --seq 4096 {stack} --dtype bf16 --samples 8 --prompt 200 --gpu-mem-util 0.6 "
                          f"--response {row['mean_gen_len']} --rollout sequences=128+tp=1+pp=1+ep=1+lag=0+reference=1{more}"))
    check("steps of RL", rows, "--rl")


def recommenders():
    rows = []
    for gpu, name in (("V100", "v100-sxm-16"), ("P100", "p100"), ("TITAN Xp", "titan-xp")):
        batch = draw.choice((512, 2048))
        rows.append(({"gpu": gpu, "model": "DLRM_default", "batch_size": batch, "measured_iter_ms": 10},
                     f"--model DLRM_default --gpu {name} --gpus 1 --gbs {batch}"))
    check("recommenders", rows, "--dlrm")


inference()
mlperf()
scaling()
training()
post()
recommenders()
