#!/usr/bin/env python3
"""Every option of every verb acts, is refused, or is listed: the table below names for each option a job whose answer it
changes and, where there is one, a job that it cannot act on. An option that is not in the table fails the test.
Usage: options.py PROGRAM [VERB...]
./check takes a part of the checks, by turns (turn.py).

A row is a list of checks, each run in a folder of its own:
  acts(JOB, WORDS)      the answer of JOB differs with WORDS, the echo of what was asked left out
  same(JOB, WORDS)      accepted, with the same answer: how it is worked out, not what it is
  output(JOB, WORDS)    what is printed differs
  changes(JOB, WORDS)   what is said differs, an error included: another table is read, or the file is
  writes(JOB, WORDS)    the last of WORDS is a file that then holds something
  refused(JOB, WORDS)   one line that names the option, and exit status 2
  tested(FILES)         it needs programs or processes: these tests of their own give it
  listed(JOB, WORDS)    the last flag of a launch line is named among the ignored, in every format"""
import concurrent.futures, glob, html, json, os, re, shlex, shutil, sqlite3, subprocess, sys, tempfile, threading

from turn import of_turn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.realpath(sys.argv[1]) if len(sys.argv) > 1 else None

# What an answer says of the question or of the work of answering.
ECHO = {"reproduce", "assumptions", "inputs", "notes", "search_s", "seconds", "operations_per_s", "version",
        "source", "command", "title", "description"}


def acts(job, words):
    return ("acts", job, words)


def same(job, words):
    return ("same", job, words)


def output(job, words):
    return ("output", job, words)


def changes(job, words):
    return ("changes", job, words)


def writes(job, words):
    return ("writes", job, words)


def refused(job, words):
    return ("refused", job, words)


def tested(*files):
    """Needs more than a command: a command of one of these files (beside this one) gives the option and says what follows."""
    return ("tested", "", files)


def listed(job, words):
    return ("listed", job, words)


# ---- the table ----

SERVES = "--task serve --model llama3.1-8b --gpu h100-sxm --gpus 2 --gbs 300 --response 200 --arrivals poisson:4"
WRITES = "--task generate --model llama3.1-8b --gpu h100-sxm --gpus 8 --gbs 512 --response 800"
LEARNS = "--task grpo --model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --gbs 256 --seq 4096 --response 800"
SIGHT = "--model $ROOT/tests/data/hf/qwen2.5-vl-3b.json --gpu h100-sxm --gpus 8 --tp 1 --gbs 64 --seq 4096"
GEMMA = "--model $ROOT/tests/data/hf/gemma-3-4b.json --gpu h100-sxm --gpus 8 --tp 1 --gbs 64 --seq 4096"
DENSE = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --gbs 64 --seq 4096"
PIPE = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --pp 4 --gbs 64 --seq 4096"
INTER = PIPE + " --vp 2"
MOE = "--model mixtral-8x7b --gpu h100-sxm --gpus 16 --tp 2 --ep 4 --gbs 64 --seq 4096"
PAIRED = "--model mixtral-8x7b --gpu h100-sxm --gpus 32 --pp 2 --vp 2 --ep 8 --gbs 64 --seq 4096 --dispatcher node --expert-overlap"
SMALL = "--model gpt2-xl --gpu a100-sxm-80 --gpus 8 --gbs 64"
DDP = SMALL + " --stack ddp"
FSDP = DENSE + " --stack fsdp"
ONE = "--model gpt2-xl --gpu h100-sxm --gpus 1 --gbs 8"
DLRM = "--model dlrm-ddp --gpu v100-sxm-32 --gpus 4"
HUGECTR = "--model dlrm-dcnv2 --gpu h100-sxm --gpus 8 --stack hugectr"
LISTED = "--config job.yaml --gpu h100-sxm --gpus 8"
SCRIPTED = "--config job.sh --gpu h100-sxm --gpus 8"
QUICK = " --no-sensitivity --no-exact"
NET = "--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048"
LONG = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --cp 4 --gbs 16 --seq 16384"

PREDICT = {
    "model": [acts(DENSE, "--model qwen3-8b"), refused(DENSE, "--model nosuch")],
    "as": [acts("--model $ROOT/tests/data/hf/qwen3-8b.json --gpu h100-sxm --gpus 16 --gbs 64", "--as llama"), refused(DENSE, "--as llama")],
    "gpu": [acts(DENSE, "--gpu a100-sxm-80")],
    "gpus": [acts(DENSE, "--gpus 32")],
    "cluster": [acts("--model gpt2-xl --gbs 64 --cluster '8 h100-sxm'", "--cluster '8 a100-sxm-80'"), refused(DENSE, "--cluster '8 h100-sxm'")],
    "script": [acts("--gpu h100-sxm --script $ROOT/tests/data/launch/llama3_8b_fp8.sh", "--script $ROOT/tests/data/launch/gpt_175b.sh")],
    "deepspeed_config": [acts("--model llama3-8b --gpu h100-sxm --gpus 16 --gbs 64", "--deepspeed_config $ROOT/tests/data/launch/ds_zero3.json")],
    "calibration": [acts(DENSE, "--calibration numbers.csv")],
    "tp": [acts(DENSE, "--tp 4"), refused(NET, "--tp 2"), refused(DLRM, "--tp 2")],
    "pp": [acts(DENSE, "--pp 2"), refused(NET, "--pp 2")],
    "vp": [acts(PIPE, "--vp 2"), refused(DENSE, "--vp 2")],
    "cp": [acts(DENSE, "--cp 2"), refused(NET, "--cp 2")],
    "ep": [acts(MOE, "--ep 8"), refused(DENSE, "--ep 2")],
    "etp": [acts(MOE, "--etp 2"), refused(DENSE, "--etp 2")],
    "dp": [acts("--model llama3.1-8b --gpu h100-sxm --tp 2 --dp 8 --gbs 64", "--dp 4"), refused(DENSE, "--dp 3")],
    "mbs": [acts(DENSE, "--mbs 2"), acts(DLRM, "--mbs 512"), refused(DLRM + " --gbs 512", "--mbs 512")],
    "gbs": [acts(DENSE, "--gbs 128"), acts(DLRM, "--gbs 4096"), refused(DLRM, "--gbs 4097")],
    "seq": [acts(DENSE, "--seq 2048"), refused(NET, "--seq 512")],
    "schedule": [acts(PIPE, "--schedule gpipe"), refused(DENSE, "--schedule zb-h1"), refused(NET, "--schedule zb-h1")],
    "first-stage-layers": [acts(PIPE, "--first-stage-layers 5"), refused(DENSE, "--first-stage-layers 5")],
    "last-stage-layers": [acts(PIPE, "--last-stage-layers 5"), refused(DENSE, "--last-stage-layers 5")],
    "pipeline-layout": [acts(PIPE, "--pipeline-layout 'Et*7|t*8|t*8|t*9L'"), refused(DENSE, "--pipeline-layout 'Et*15|t*17L'")],
    "sequence-parallel": [acts(DENSE, "--no-sequence-parallel"), refused(ONE, "--sequence-parallel"), refused(ONE, "--no-sequence-parallel")],
    "cp-kind": [acts(LONG, "--cp-kind all-gather"), acts(LONG, "--cp-kind ulysses"), refused(LONG, "--cp-kind ulysses/3"), refused(DENSE, "--cp-kind all-gather")],
    "dtype": [acts(DENSE, "--dtype fp8"), refused(SMALL, "--dtype fp8"), acts(DLRM, "--dtype fp16"), acts(HUGECTR, "--dtype fp32"), refused(DLRM, "--dtype fp8")],
    "zero": [acts(DENSE, "--zero 3"), refused(DENSE, "--zero 4")],
    "shard-group": [acts(FSDP, "--shard-group 4"), refused(DENSE + " --zero 0", "--shard-group 4")],
    "recompute": [acts(DENSE, "--recompute full"), refused(NET, "--recompute selective")],
    "optimizer": [acts(DENSE, "--optimizer sgd"), acts(DENSE, "--optimizer muon"), acts(DENSE, "--optimizer soap"),
                  acts(DENSE, "--optimizer shampoo"), acts(DENSE, "--optimizer lion"), acts(DENSE, "--optimizer adam-mini"),
                  acts(DENSE, "--optimizer adam-8bit"), acts(DENSE, "--optimizer adam-flash"), acts(DENSE, "--optimizer lion-8bit"),
                  acts(DENSE, "--optimizer ademamix"), refused(NET, "--optimizer muon"), refused(DENSE + " --task lora", "--optimizer muon")],
    "muon-steps": [acts(DENSE + " --optimizer muon", "--muon-steps 10"), refused(DENSE, "--muon-steps 10")],
    "muon-tp-mode": [acts(DENSE + " --optimizer muon", "--muon-tp-mode distributed"), acts(DENSE + " --optimizer muon", "--muon-tp-mode blockwise"),
                     refused(DENSE, "--muon-tp-mode blockwise"), refused(ONE + " --tp 1 --optimizer muon", "--muon-tp-mode blockwise")],
    "master-weights": [acts(DENSE, "--no-master-weights"), refused(DENSE + " --dtype fp32", "--no-master-weights"),
                       refused(DENSE + " --dtype fp32", "--master-weights")],
    "state-dtype": [acts(DENSE, "--state-dtype bf16"), refused(DENSE + " --optimizer adafactor", "--state-dtype bf16"),
                    refused(DENSE + " --optimizer adam-8bit", "--state-dtype bf16")],
    "pack": [acts(LONG, "--pack lognormal:800"), acts(LONG, "--pack 300"), refused(NET, "--pack 800"), refused(DENSE + " --attention unfused", "--pack 800")],
    "teacher": [acts(DENSE, "--teacher llama3.1-70b"), refused(PIPE, "--teacher llama3.1-70b"), refused(DENSE, "--teacher gpt2"), refused(NET, "--teacher llama3.1-70b")],
    "offload-params": [acts(FSDP + " --zero 3 --offload-optimizer", "--offload-params"), refused(DENSE, "--offload-params"), refused(FSDP + " --zero 3", "--offload-params")],
    "ema": [acts(DENSE, "--ema device"), acts(DENSE, "--ema host"), acts(NET, "--ema device"), refused(DENSE + " --offload-optimizer", "--ema device"), refused(DENSE, "--ema cpu")],
    "offload-activations": [acts(DENSE, "--offload-activations"), refused(PIPE + " --schedule zb-h1", "--offload-activations"), refused(NET, "--offload-activations")],
    "optimizer-in-backward": [acts(FSDP + " --zero 3 --mbs 8", "--optimizer-in-backward"), refused(DENSE, "--optimizer-in-backward"), refused(FSDP + " --zero 3 --mbs 1", "--optimizer-in-backward"), refused(FSDP + " --zero 3 --mbs 8 --offload-optimizer", "--optimizer-in-backward"), refused(NET, "--optimizer-in-backward")],
    "offload-optimizer": [acts(DENSE, "--offload-optimizer"), refused(DENSE + " --optimizer muon", "--offload-optimizer")],
    "task": [acts(DENSE, "--task lora"), refused(NET, "--task lora"), acts(WRITES, "--gpus 16"), acts(SERVES, "--gpus 4"), refused(WRITES, "--recompute full"), refused(SERVES, "--recompute full"), acts(LEARNS, "--task ppo"), refused(LEARNS, "--task rloo"), acts(DENSE, "--task dpo"), acts(DENSE, "--task kto"), acts(DENSE, "--task reward"), refused(PIPE, "--task kto"), refused(NET, "--task reward")],
    "num-labels": [acts(DENSE, "--num-labels 3"), refused(NET, "--num-labels 3"), refused(DENSE + " --task kto", "--num-labels 3")],
    "response": [acts(WRITES, "--response 900"), refused(DENSE, "--response 900"), refused(DENSE + " --task sft", "--response 900")],
    "response-max": [acts(WRITES, "--response-max 2000"), refused(WRITES, "--response-max 500"), refused(DENSE, "--response-max 2000")],
    "lengths": [acts(WRITES, "--lengths fixed"), refused(DENSE, "--lengths fixed")],
    "prompt": [acts(WRITES, "--prompt 1000"), refused(DENSE, "--prompt 1000")],
    "samples": [acts(WRITES + " --prompt 1000", "--samples 8"), refused(DENSE, "--samples 8"), refused(SERVES, "--samples 8")],
    "arrivals": [acts(SERVES, "--arrivals gamma:4:3"), acts(SERVES, "--arrivals even:4"), refused(SERVES, "--arrivals 4"), refused(DENSE, "--arrivals poisson:4"), refused(WRITES, "--arrivals poisson:4"), refused(LEARNS, "--arrivals poisson:4"), refused(NET, "--arrivals poisson:4")],
    "slo": [acts(SERVES, "--slo ttft=1s"), refused(SERVES, "--slo 1s"), refused(DENSE, "--slo ttft=1s"), refused(WRITES, "--slo ttft=1s"), refused(LEARNS, "--slo ttft=1s")],
    "engine": [acts(WRITES, "--engine tensorrt-llm"), refused(WRITES, "--engine ollama"), refused(DENSE, "--engine vllm")],
    "gpu-mem-util": [acts(WRITES, "--gpu-mem-util 0.5"), refused(DENSE, "--gpu-mem-util 0.5")],
    "max-sequences": [acts(WRITES, "--max-sequences 16"), refused(DENSE, "--max-sequences 16")],
    "max-tokens": [acts(WRITES, "--max-tokens 500"), refused(DENSE, "--max-tokens 500")],
    "prefix-caching": [acts(WRITES + " --prompt 1000 --samples 8", "--no-prefix-caching"), refused(DENSE, "--no-prefix-caching")],
    "attention-dp": [acts(WRITES + " --tp 4", "--attention-dp"), refused(WRITES, "--attention-dp"), refused(DENSE, "--attention-dp")],
    "kv-dtype": [acts(WRITES, "--kv-dtype fp8"), refused(WRITES, "--kv-dtype fp32"), refused(DENSE, "--kv-dtype fp8")],
    "rollout": [acts(LEARNS, "--rollout sequences=512"), acts(LEARNS, "--rollout 'gpus=8 lag=1'"), acts(LEARNS, "--rollout tp=2"), acts(LEARNS, "--rollout reward=3"), acts(LEARNS, "--rollout by_sequence=1"),
                acts(LEARNS, "--rollout lag=1"), acts(LEARNS, "--rollout reward_model=llama3.2-1b"), acts(LEARNS, "--rollout offload_optimizer=0"), refused(LEARNS, "--rollout critic_gpus=4"), refused(LEARNS, "--rollout speed=2"), refused(LEARNS, "--rollout gpus=16"), refused(WRITES, "--rollout tp=2"),
                refused(DENSE, "--rollout tp=2")],
    "speculative": [acts(WRITES, "--speculative 3:0.7"), refused(WRITES, "--speculative 0.7"), refused(DENSE, "--speculative 3:0.7")],
    "lora-rank": [acts(DENSE + " --task lora", "--lora-rank 256"), refused(DENSE, "--lora-rank 256")],
    "lora-targets": [acts(DENSE + " --task lora", "--lora-targets all-linear"), refused(DENSE, "--lora-targets all-linear"), acts(DENSE + " --task lora", "--lora-targets q_proj+v_proj"), refused(DENSE + " --task lora", "--lora-targets some")],
    "lora-dropout": [acts(DENSE + " --task lora", "--lora-dropout 0.1"), refused(DENSE, "--lora-dropout 0.1")],
    "dpo": [acts(DENSE + " --mbs 2", "--dpo"), refused(PIPE, "--dpo"), refused(SIGHT, "--dpo")],
    "qlora": [acts(DENSE + " --task lora", "--qlora"), acts(FSDP + " --task lora", "--qlora"), refused(DENSE, "--qlora")],
    "base-format": [acts(DENSE + " --task lora", "--base-format int8"), acts(DENSE + " --task lora", "--base-format nf4"), refused(DENSE, "--base-format int8"), refused(DENSE + " --task lora", "--base-format int4")],
    "dora": [acts(DENSE + " --task lora", "--dora"), refused(DENSE, "--dora")],
    "images": [acts(SIGHT, "--images 4"), refused(DENSE, "--images 4"), refused(SIGHT, "--images 400")],
    "image-size": [acts(SIGHT, "--image-size 672"), refused(DENSE, "--image-size 672"), refused(GEMMA, "--image-size 672")],
    "freeze-vision": [acts(SIGHT, "--freeze-vision"), refused(DENSE, "--freeze-vision"), refused(SIGHT + " --task lora", "--freeze-vision")],
    "overlap-grad-reduce": [acts(DENSE, "--no-overlap-grad-reduce"), refused(DENSE + " --zero 3", "--no-overlap-grad-reduce"),
                            refused(ONE, "--no-overlap-grad-reduce"), refused(ONE, "--overlap-grad-reduce")],
    "overlap-param-gather": [acts(DENSE, "--no-overlap-param-gather"), refused(DENSE + " --zero 3", "--no-overlap-param-gather"),
                             refused(DENSE + " --zero 0", "--overlap-param-gather"), refused(DENSE + " --zero 0", "--no-overlap-param-gather")],
    "overlap-p2p": [acts(PIPE, "--overlap-p2p"), refused(DENSE, "--overlap-p2p"), refused(DENSE, "--no-overlap-p2p")],
    "tp-overlap": [acts(DENSE, "--no-tp-overlap"), refused(ONE, "--tp-overlap"), refused(ONE, "--no-tp-overlap")],
    "bucket": [acts(DDP, "--bucket 1"), acts(SMALL + " --zero 0", "--bucket 0.1"), acts(DENSE, "--bucket 1000"), refused(FSDP, "--bucket 1"), refused(ONE, "--bucket 1")],
    "plan": [acts(DLRM, "--plan placed.json"), refused(HUGECTR, "--plan placed.json"), refused(DENSE, "--plan placed.json")],
    "cuda-graphs": [acts(ONE, "--cuda-graphs"), acts(DLRM, "--cuda-graphs"), refused(HUGECTR, "--cuda-graphs")],
    "max-connections": [acts(DENSE + " --stack fsdp", "--max-connections 1")],
    "compile": [acts(DENSE, "--compile")],
    "ragged": [acts(DENSE + " --stack fsdp", "--ragged"), refused(DENSE, "--ragged"), refused(NET, "--ragged"),
               refused(DENSE + " --stack fsdp --pack 800", "--ragged")],
    "ragged-lengths": [acts(DENSE + " --stack fsdp", "--ragged-lengths 800"), refused(DENSE, "--ragged-lengths 800"), refused(NET, "--ragged-lengths 800"),
                       refused(DENSE + " --stack fsdp --no-ragged", "--ragged-lengths 800"), refused(DENSE + " --stack fsdp", "--ragged-lengths 0")],
    "eager": [acts(DENSE + " --stack fsdp", "--no-eager"), refused(DENSE, "--eager"), refused(DENSE + " --stack fsdp --compile", "--eager"),
              refused(NET, "--eager")],
    "attention": [acts(DENSE, "--attention unfused"), refused(NET, "--attention unfused")],
    "fused-loss": [acts(DENSE, "--no-fused-loss"), refused(NET, "--fused-loss")],
    "loss": [acts(DENSE, "--loss native"), refused(DENSE + " --stack fsdp", "--loss native"), acts(DENSE, "--loss linear"), acts(DENSE, "--loss cut"), acts(DENSE, "--loss chunked/4"), refused(NET, "--loss linear"),
             refused(DENSE + " --fused-loss", "--loss linear"), refused(DENSE + " --teacher llama3.1-70b", "--loss cut"), refused(DENSE, "--loss cut/2")],
    "dispatcher": [acts(MOE, "--dispatcher allgather"), refused(DENSE, "--dispatcher allgather"), refused(MOE + " --ep 1", "--dispatcher node")],
    "expert-overlap": [acts(MOE + " --tp 1 --pp 2 --vp 2", "--expert-overlap"), refused(DENSE, "--expert-overlap"), refused(MOE, "--expert-overlap")],
    "delay-wgrad": [acts(PAIRED, "--delay-wgrad"), refused(MOE, "--delay-wgrad"), refused(DENSE, "--delay-wgrad")],
    "fp8-dispatch": [acts(MOE + " --dtype fp8", "--fp8-dispatch"), refused(MOE, "--fp8-dispatch"), refused(DENSE, "--fp8-dispatch")],
    "dispatch-sms": [acts(PAIRED, "--dispatch-sms 60"), refused(MOE + " --dispatcher alltoall", "--dispatch-sms 60"), refused(DENSE, "--dispatch-sms 60")],
    "fp8-recipe": [acts(DENSE + " --dtype fp8", "--fp8-recipe tensorwise"), refused(DENSE, "--fp8-recipe tensorwise")],
    "fp8-params": [acts(DENSE + " --dtype fp8", "--fp8-params"), refused(DENSE, "--fp8-params"), refused(FSDP + " --dtype fp8", "--fp8-params")],
    "bf16-layers": [acts(DENSE + " --dtype fp8", "--bf16-layers 2"), refused(DENSE, "--bf16-layers 2"), refused(DENSE + " --dtype fp8", "--bf16-layers 17")],
    "fp8-activations": [acts(DENSE + " --dtype fp8", "--fp8-activations"), refused(DENSE, "--fp8-activations")],
    "moe-imbalance": [acts(MOE, "--moe-imbalance 2"), refused(DENSE, "--moe-imbalance 2"), refused(MOE + " --ep 1", "--moe-imbalance 2")],
    "stack": [acts(DENSE, "--stack torchtitan"), refused(DENSE, "--stack nosuch"), acts(DLRM, "--stack hugectr"), refused(DLRM, "--stack fsdp")],
    "config": [acts(DENSE, "--config job.yaml")],
    "set": [acts(LISTED, "--set micro_batch_size=4"), refused(LISTED, "--set nothing"), refused(DENSE, "--set micro_batch_size=4")],
    "var": [acts(SCRIPTED, "--var HIDDEN=4096"), refused(SCRIPTED, "--var HIDDEN")],
    "power": [acts(DENSE, "--power 500"), acts(NET, "--power 500"), refused(DENSE, "--power 100")],
    "alloc-conf": [acts(DENSE + " --stack fsdp", "--alloc-conf expandable_segments:True"), refused(DENSE + " --stack fsdp", "--alloc-conf some")],
    "nccl": [acts(DENSE, "--nccl NCCL_ALGO=Tree"), refused(DENSE, "--nccl NCCL_ALGO=Star")],
    "release": [acts(DENSE.replace("h100-sxm", "b200") + " --stack nemo", "--release 25.04"), refused(DENSE + " --stack nemo", "--release newest"), refused(DENSE + " --stack ddp", "--release 24.07")],
    "ranks": [acts(DENSE, "--ranks all"), refused(DENSE, "--ranks 3")],
    "exact": [acts("--model llama3.1-405b --gpu h100-sxm --gpus 256 --tp 8 --pp 8 --gbs 128", "--exact"), refused(DLRM, "--exact")],
    "no-contention": [acts(DENSE, "--no-contention"), acts(HUGECTR, "--no-contention"), refused(DLRM, "--no-contention")],
    "straggler": [acts(DENSE, "--straggler 3:1.5"), refused(DENSE, "--straggler 16:2"), acts(DLRM, "--straggler 1:1.5")],
    "jitter": [acts(DENSE, "--jitter 0.1"), acts(DLRM, "--jitter 0.1")],
    "gpu-spread": [acts(DENSE, "--gpu-spread 0.1"), acts(DENSE + " --jitter 0.1", "--gpu-spread 0.1"), acts(DLRM, "--gpu-spread 0.1")],
    "noise": [acts(DENSE, "--noise mlperf"), refused(DENSE, "--noise nowhere.csv"), refused(DLRM, "--noise mlperf"), tested("noise.test")],
    "seed": [acts(DENSE + " --jitter 0.1", "--seed 7"), acts(DENSE + " --gpu-spread 0.1", "--seed 7"), refused(DENSE, "--seed 7")],
    "seeds": [acts(DENSE + " --jitter 0.1", "--seeds 4"), refused(DENSE, "--seeds 4"),
              refused(DLRM + " --jitter 0.1", "--seeds 4")],
    "tokens": [acts(DENSE, "--tokens 1T")],
    "pue": [acts(DENSE, "--pue 1.5"), refused(DENSE, "--pue 0.5"), refused(LEARNS, "--pue 1.5")],
    "carbon": [acts(DENSE + " --tokens 1T", "--carbon 380"), refused(DENSE, "--carbon 380"), refused(LEARNS, "--carbon 380")],
    "price-kwh": [acts(DENSE + " --tokens 1T", "--price-kwh 0.1"), refused(DENSE, "--price-kwh 0.1"), refused(LEARNS, "--price-kwh 0.1")],
    "mtbf": [acts(DENSE + " --tokens 1T", "--mtbf 10"), refused(DENSE, "--mtbf 0.01")],
    "checkpoint-interval": [acts(DENSE + " --mtbf 10", "--checkpoint-interval 5"), refused(DENSE, "--checkpoint-interval 5")],
    "checkpoint-write": [acts(DENSE + " --mtbf 10", "--checkpoint-write 0.5"), refused(DENSE, "--checkpoint-write 1")],
    "failures": [acts(DENSE + " --tokens 1T", "--failures high"), refused(DENSE, "--failures never"), refused(LEARNS, "--failures low")],
    "recovery": [acts(DENSE + " --tokens 1T --failures high", "--recovery people"), refused(DENSE, "--recovery people")],
    "checkpoint-tiers": [acts(DENSE + " --tokens 1T --mtbf 10", "--checkpoint-tiers host:1min+async"), refused(DENSE + " --mtbf 10", "--checkpoint-tiers host")],
    "spares": [acts(DENSE + " --tokens 1T --mtbf 1000", "--spares 1"), refused(DENSE, "--spares 1")],
    "repair": [acts(DENSE + " --tokens 1T --mtbf 1000 --spares 1", "--repair 100h"), refused(DENSE, "--repair 1h")],
    "price-gpu": [tested("run.test")], "run": [tested("run.test")],
    "input-gbps": [acts(DENSE, "--input-gbps 0.0001"), refused(LEARNS, "--input-gbps 1")],
    "input-bytes": [acts(DENSE + " --input-gbps 0.0001", "--input-bytes 1M"), refused(DENSE, "--input-bytes 1M")],
    "trace": [writes(DENSE, "--trace step.json")],
    "trace-ranks": [writes(DENSE, "--trace-ranks 0,3 --trace step.json"), refused(DENSE, "--trace-ranks 3")],
    "graph": [writes(DENSE, "--graph g.json")],
    "chakra": [writes(DENSE, "--chakra dir")], "goal": [writes(DENSE, "--goal file.goal")],
    "chakra-times": [tested("chakra.test")], "chakra-host": [tested("chakra.test")],
    "emit": [output(DENSE, "--emit megatron"), refused(DENSE, "--emit sbatch:word")],
    "measured": [tested("expected.test")],
    "calibrated": [tested("expected.test")],
    "replace": [refused(DENSE, "--replace optimizer=none.json"), refused(DENSE, "--replace layer=none.json"),
                refused(DENSE, "--replace optimizer=none.json --emit megatron"),
                tested("replace.test")],
    "html": [writes(DENSE, "--html r.html")], "charts": [writes(DENSE, "--charts c.svg")],
    "no-fixes": [acts("--model llama3.1-70b --gpu h100-sxm --gpus 8 --gbs 8", "--no-fixes")],
    "resume": [refused(DENSE, "--resume r")],
    "output": [output(DENSE, "-o csv")],
    "file": [writes(DENSE, "-f out.txt")],
    "verbose": [output(DENSE, "-v")],
}

# ---- files that jobs read ----

HAVE_MPI = shutil.which("mpicc") is not None and not subprocess.run("printf '#include <mpi.h>\\n#include <cblas.h>\\n' | mpicc -E -x c -", shell=True,
                                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

def make_files(folder):
    def put(name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(text)

    with open(os.path.join(ROOT, "data", "calibration", "runs.csv"), encoding="utf-8") as runs:
        _, head, row = runs.readline(), runs.readline(), next(line for line in runs if line.startswith("step,"))
    put("links.csv", "family,subject,variant,numbers\ncollective,default,,launch_us=500 channel_us=1 wire=0.9 nic=0.5 buffer_mb=1\n")
    put("placed.json", json.dumps({f"t{t}": {"sharding_type": "table_wise", "compute_kernel": "fused", "ranks": [0]} for t in range(8)}))
    put("tables.csv", "name,rows,dim,pooling,count,skew\nuser,20000000,64,1,1,0\nitem,1000000,128,20,4,0.9\ntag,500,16,3,1,\n")
    put("big.csv", "name,rows,dim,pooling\nbig,2G,256,1\n")
    put("rates.csv", "model,gpus,batch,samples_per_s\nnet,1,32,100\nnet,2,32,180\nnet,2,64,190\nnet,4,64,360\n")
    put("slow.csv", "model,gpus,batch,samples_per_s\nnet,1,32,50\nnet,2,32,90\nnet,2,64,95\nnet,4,64,180\n")
    put("jobs.csv", "job,submit_h,model,samples,batch,gpus,batch_max\na,0,net,3.6M,32,2,64\nb,1,net,720k,32,2,64\nc,1.5,net,360k,32,1,32\n")
    put("waits.csv", "job,submit_h,gpus,duration_s\na,0,3,100\nb,0,3,100\nc,0,2,100\n")
    put("days.csv", "job,submit_h,gpus,duration_s\n" + "".join(f"j{n},{12 * n},8,3600\n" for n in range(5)))
    put("nodes.csv", "sn,gpu\nn0,4\nn1,4\nn2,0\n")
    put("vms.csv", "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\n"
        "p3.2xlarge,V100,1,8,61,3.06,5.2,here\np3.8xlarge,V100,4,32,244,12.24,4,here\n")
    put("job.yaml", "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\ndatasets: []\n")
    put("job.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size ${HIDDEN:-2048} --num-attention-heads 16 "
        "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --vocab-size 50257 --bf16\n")
    put("stalls.json", json.dumps({"hosts": 1, "rates": {"pipelined": True, "preparation": 1, "fetch": 1, "cores": 4}}))
    put("t.csv", "collective,gpu,n_gpu,nodes,fabric,size_bytes,time_us,source\nall_reduce,H100-SXM,8,1,mine,1073741824,4000,s\n")
    with open(os.path.join(ROOT, "examples", "lang", "sgd.lk"), encoding="utf-8") as program:
        text = program.read()
    put("two.lk", text + "\n" + re.sub(r"program \w+", "program second", text))
    for name, words in {"step.json": "predict --model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --gbs 32 --seq 4096 --graph step.json",
                        "end.lk": "predict --model llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --gbs 32 --seq 4096 --emit program -f end.lk",
                        "small.json": "predict --model gpt2 --gpu h100-sxm --gpus 8 --tp 1 --gbs 8 --seq 256 --graph small.json",
                        "overheads.csv": "replay $ROOT/tests/data/trace_before.json --overheads-out overheads.csv"}.items():
        status, _, err = run(folder, words.split()[0], words.split(" ", 1)[1])
        if status not in (0, 1) or not os.path.exists(os.path.join(folder, name)):
            sys.exit(f"options.py: {name} could not be made: {err}")
    if HAVE_MPI: # two of eight ranks, each recorded alone
        subprocess.run(["make", "-s", "-C", os.path.join(ROOT, "examples", "train"), f"OUT={folder}"], check=True)
        train = [os.path.join(folder, "train"), "--data", "data.bin", "--quiet", "--dp", "2", "--tp", "2", "--pp", "2", "--overlap"]
        for command in ([*train[:3], "--write-data", "64", "--steps", "0"],
                        [PROGRAM, "calibrate", "host", "--seconds", "0.1", "-f", "host.json"],
                        [PROGRAM, "record", "--out", "two", "--world", "8", "--ranks", "0,4", "--", *train, "--steps", "12"]):
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        with open(os.path.join(folder, "host.json"), encoding="utf-8") as host: # memory is the limit, whatever was measured
            slow = re.sub(r'"lockstep_seal": "\w+"', '"lockstep_seal": ""', re.sub(r'"stream_GBps": [\d.]+', '"stream_GBps": 1', host.read()))
        put("host.json", slow)
    with open(os.path.join(ROOT, "data", "instances.csv"), encoding="utf-8") as prices:
        rows = [line for line in prices if not line.startswith("#")]
    put("own.csv", "provider,instance,region,gpu,gpus,on_demand,date,source,capital_usd,life_years\nown,p3,,v100-sxm-16,8,,2026-01-01,x,90000,4\n")
    put("dear.csv", rows[0] + "".join(line for line in rows[1:] if "p3." in line and "us-" in line))
    put("fog.csv", "name,parent,gbps,copies\ncloud,,,\nsite,cloud,10,\nclient,site,1,3\n")
    put("numbers.csv", head + re.sub(r"gemm_share=\S+", "gemm_share=0.5", row))


# ---- running it ----

PLANNED = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --gbs 64 --seq 4096 --no-sensitivity"
SEARCHED = "--model $ROOT/tests/data/hf/qwen2.5-vl-3b.json --gpu h100-sxm --gpus 8 --tp 1 --gbs 64 --seq 4096 --no-sensitivity"
WIDE = "--model llama3.1-70b --gpu h100-sxm --gpus 64 --gbs 64 --seq 8192 --no-sensitivity --no-exact"
MIXED = "--model mixtral-8x7b --gpu h100-sxm --gpus 16 --gbs 64 --seq 4096 --no-sensitivity --no-exact"

DIVIDED = "--task grpo --model llama3.2-1b --gpu h100-sxm --gpus 4 --gbs 64 --seq 2048 --response 500"

PLAN = {
    "response": [acts(DIVIDED, "--response 900"), refused(PLANNED + " --task sft", "--response 100")],
    "response-max": [acts(DIVIDED, "--response-max 600"), refused(PLANNED + " --task sft", "--response-max 100")],
    "lengths": [acts(DIVIDED, "--lengths fixed"), refused(PLANNED + " --task sft", "--lengths fixed")],
    "prompt": [acts(DIVIDED, "--prompt 900"), refused(PLANNED + " --task sft", "--prompt 900")],
    "samples": [acts(DIVIDED + " --prompt 1000", "--samples 16"), refused(PLANNED + " --task sft", "--samples 16")],
    "engine": [acts(DIVIDED, "--engine tensorrt-llm"), refused(PLANNED + " --task sft", "--engine vllm")],
    "gpu-mem-util": [acts(DIVIDED + " --gbs 4096", "--gpu-mem-util 0.1"), refused(PLANNED + " --task sft", "--gpu-mem-util 0.2")],
    "rollout": [acts(DIVIDED, "--rollout reward=3"), refused(PLANNED + " --task sft", "--rollout lag=1")],
    "search-time": [same(DIVIDED, "--search-time 3600"), same(PLANNED, "--search-time 3600")],
    "model": [acts(PLANNED, "--model qwen3-8b")],
    "as": [acts("--model $ROOT/tests/data/hf/qwen3-8b.json --gpu h100-sxm --gpus 16 --gbs 64 --no-sensitivity", "--as llama"), refused(PLANNED, "--as llama")],
    "headroom": [acts(PLANNED, "--headroom 50"), refused(PLANNED, "--headroom x")],
    "gpu": [acts(PLANNED, "--gpu a100-sxm-80")],
    "gpus": [acts(PLANNED, "--gpus 16,32")],
    "cluster": [acts("--model gpt2-xl --gbs 64 --cluster '8 h100-sxm'", "--cluster '8 a100-sxm-80'")],
    "script": [acts("--gpu h100-sxm --gpus 64 --script $ROOT/tests/data/launch/llama3_8b_fp8.sh --tp 2 --no-sensitivity",
                    "--script $ROOT/tests/data/launch/mixtral_8x7b.sh")],
    "aggregate": [acts(PLANNED, "--aggregate 'sites=4 wan=10g'"), acts(PLANNED, "--aggregate 'sites=4 wan=10g over tree 2 leaf 1g 80ms'"), refused(PLANNED, "--aggregate sites=4"),
                  changes(PLANNED + " --tree fog.csv", "--aggregate busy=50%"), refused(PLANNED + " --tree fog.csv", "--aggregate deadline=3h")],
    "tree": [acts(PLANNED, "--tree fog.csv"), refused(PLANNED, "--tree numbers.csv")],
    "gbs": [acts(PLANNED, "--gbs 128")],
    "seq": [acts(PLANNED, "--seq 2048"), refused("--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048", "--seq 512")],
    "dtype": [acts(PLANNED, "--dtype fp8")],
    "task": [acts(PLANNED, "--task lora")],
    "num-labels": [acts(PLANNED, "--num-labels 3"), refused("--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048", "--num-labels 3")],
    "dpo": [acts(PLANNED, "--dpo"), refused("--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048", "--dpo")],
    "qlora": [acts(PLANNED + " --task lora", "--qlora"), refused(PLANNED, "--qlora")],
    "base-format": [acts(PLANNED + " --task lora", "--base-format int8"), refused(PLANNED, "--base-format int8")],
    "dora": [acts(PLANNED + " --task lora", "--dora"), refused(PLANNED, "--dora")],
    "images": [acts(SEARCHED, "--images 4"), refused(PLANNED, "--images 4")],
    "image-size": [acts(SEARCHED, "--image-size 672"), refused(PLANNED, "--image-size 672")],
    "freeze-vision": [acts(SEARCHED, "--freeze-vision"), refused(PLANNED, "--freeze-vision")],
    "optimizer": [acts(PLANNED, "--optimizer sgd"), acts(PLANNED, "--optimizer muon")],
    "muon-steps": [acts(PLANNED + " --optimizer muon", "--muon-steps 20"), refused(PLANNED, "--muon-steps 10")],
    "muon-tp-mode": [acts(WIDE + " --optimizer muon", "--muon-tp-mode blockwise"), refused(PLANNED, "--muon-tp-mode blockwise")],
    "master-weights": [acts(PLANNED, "--no-master-weights"), refused(PLANNED + " --dtype fp32", "--no-master-weights")],
    "state-dtype": [acts(PLANNED, "--state-dtype bf16"), refused(PLANNED + " --optimizer adafactor", "--state-dtype bf16")],
    "calibration": [acts(PLANNED, "--calibration numbers.csv")],
    "tokens": [acts(PLANNED, "--tokens 1T")],
    "hours": [acts(PLANNED + " --tokens 1T", "--hours 10"), refused(PLANNED, "--hours 10")],
    "gpu-hours": [acts(PLANNED + " --tokens 1T", "--gpu-hours 10"), refused(PLANNED, "--gpu-hours 10")],
    "pue": [acts(PLANNED, "--pue 1.5"), refused(PLANNED, "--pue 0.5")],
    "carbon": [acts(PLANNED + " --tokens 1T", "--carbon 380"), refused(PLANNED, "--carbon 380")],
    "price-kwh": [acts(PLANNED + " --tokens 1T", "--price-kwh 0.1"), refused(PLANNED, "--price-kwh 0.1")],
    "objective": [acts(PLANNED, "--objective energy"), refused(PLANNED, "--objective carbon")],
    "tp": [acts(PLANNED, "--tp 8")], "pp": [acts(PLANNED, "--pp 4")], "vp": [acts(PLANNED + " --pp 4", "--vp 4")],
    "cp": [acts(PLANNED, "--cp 2")],
    "ep": [acts(MIXED, "--ep 2"), refused(PLANNED, "--ep 2")],
    "etp": [acts(MIXED, "--etp 2"), refused(PLANNED, "--etp 2")],
    "mbs": [acts(PLANNED, "--mbs 2")],
    "schedule": [acts(PLANNED + " --pp 4", "--schedule zb-h1")],
    "zero": [acts(PLANNED, "--zero 3")],
    "recompute": [acts(PLANNED, "--recompute full")],
    "bucket": [acts(PLANNED + " --zero 1", "--bucket 1")],
    "stack": [acts(PLANNED, "--stack torchtitan")],
    "offload": [acts("--model llama3.1-70b --gpu a100-sxm-80 --gpus 8 --gbs 8 --seq 2048 --no-sensitivity", "--offload")],
    "fixed-switches": [acts(PLANNED, "--fixed-switches")],
    "sequence-parallel": [acts(WIDE, "--no-sequence-parallel")],
    "tp-overlap": [acts(WIDE, "--no-tp-overlap")],
    "overlap-grad-reduce": [acts(PLANNED, "--no-overlap-grad-reduce")],
    "overlap-param-gather": [acts(PLANNED + " --zero 1", "--no-overlap-param-gather")],
    "overlap-p2p": [acts(PLANNED + " --pp 4 --vp 4", "--no-overlap-p2p")],
    "cuda-graphs": [acts(PLANNED, "--cuda-graphs")],
    "loss": [acts(PLANNED, "--loss linear"), refused("--model vit-b16-224 --gpu h100-sxm --gpus 8 --gbs 64", "--loss linear")],
    "fused-loss": [acts(PLANNED, "--fused-loss"), refused("--model vit-b16-224 --gpu h100-sxm --gpus 8 --gbs 64", "--fused-loss")],
    "expert-overlap": [acts(MIXED + " --pp 4 --vp 2 --ep 4", "--expert-overlap"), refused(PLANNED, "--expert-overlap")],
    "compile": [acts(PLANNED, "--compile")],
    "ragged": [acts(PLANNED + " --stack fsdp", "--ragged"), refused(PLANNED, "--ragged")],
    "ragged-lengths": [acts(PLANNED + " --stack fsdp", "--ragged-lengths 800"), refused(PLANNED, "--ragged-lengths 800")],
    "eager": [acts(PLANNED + " --stack fsdp", "--no-eager"), refused(PLANNED, "--eager")],
    "pack": [acts(PLANNED, "--pack exponential:300"), refused("--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048", "--pack 300")],
    "teacher": [acts(PLANNED, "--teacher " + PLANNED.split()[1])],
    "ema": [acts(PLANNED, "--ema device"), refused(PLANNED, "--ema cpu")],
    "offload-params": [acts(PLANNED, "--offload-params"), acts(PLANNED + " --task lora", "--offload-params")],
    "offload-activations": [acts(PLANNED, "--offload-activations"), refused("--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048", "--offload-activations")],
    "optimizer-in-backward": [acts(PLANNED + " --stack fsdp", "--optimizer-in-backward")],
    "cp-kind": [acts(PLANNED + " --cp 2", "--cp-kind all-gather")],
    "attention": [acts(PLANNED, "--attention unfused"), refused("--model resnet50 --gpu h100-sxm --gpus 8 --gbs 2048", "--attention unfused")],
    "dispatcher": [acts(MIXED + " --ep 8", "--dispatcher allgather"), refused(PLANNED, "--dispatcher node")],
    "fp8-dispatch": [acts(MIXED + " --ep 8 --dtype fp8", "--fp8-dispatch"), refused(PLANNED, "--fp8-dispatch")],
    "dispatch-sms": [acts(MIXED + " --pp 2 --vp 2 --ep 8 --dispatcher node --expert-overlap", "--dispatch-sms 60"), refused(PLANNED, "--dispatch-sms 60")],
    "fp8-recipe": [acts(PLANNED + " --dtype fp8", "--fp8-recipe tensorwise"), refused(PLANNED, "--fp8-recipe tensorwise")],
    "fp8-params": [acts(PLANNED + " --dtype fp8", "--fp8-params"), refused(PLANNED, "--fp8-params")],
    "bf16-layers": [acts(PLANNED + " --dtype fp8", "--bf16-layers 2"), refused(PLANNED, "--bf16-layers 2")],
    "fp8-activations": [acts(PLANNED + " --dtype fp8", "--fp8-activations"), refused(PLANNED, "--fp8-activations")],
    "moe-imbalance": [acts(MIXED + " --ep 8", "--moe-imbalance 2"), refused(PLANNED, "--moe-imbalance 2")],
    "max-connections": [acts(PLANNED + " --zero 3", "--max-connections 1")],
    "release": [acts(MIXED.replace("h100-sxm", "b200") + " --stack nemo", "--release 25.04"), refused(MIXED + " --stack nemo", "--release 1kg")],
    "config": [acts(PLANNED, "--config job.yaml")],
    "set": [acts(LISTED + " --gbs 64" + QUICK, "--set sequence_len=2048"), refused(LISTED + " --gbs 64" + QUICK, "--set nothing")],
    "var": [acts(SCRIPTED + QUICK, "--var HIDDEN=4096"), refused(SCRIPTED + QUICK, "--var HIDDEN")],
    "power": [acts(PLANNED, "--power 500"), refused(PLANNED, "--power 100")],
    "nccl": [acts(PLANNED, "--nccl NCCL_ALGO=Tree"), refused(PLANNED, "--nccl NCCL_ALGO=Star")],
    "top": [acts(PLANNED, "--top 2")],
    "no-exact": [acts(PLANNED, "--no-exact")],
    "no-sensitivity": [acts("--model gpt2-xl --gpu a100-sxm-80 --gpus 8 --gbs 64 --top 1", "--no-sensitivity")],
    "exhaustive": [acts(PLANNED + " --tp 2 --pp 1", "--exhaustive")],
    "threads": [same(PLANNED, "--threads 1")],
    "resume": [refused(PLANNED, "--resume r")],
    "emit": [output(PLANNED, "--emit megatron"), refused(PLANNED, "--emit word")],
    "output": [output(PLANNED, "-o csv")], "file": [writes(PLANNED, "-f out.txt")], "html": [writes(PLANNED, "--html r.html")], "charts": [writes(PLANNED, "--charts c.svg")],
    "verbose": [output(PLANNED, "-v")],
}

SMALLTRACE, BEFORE, AFTER = "$ROOT/tests/data/trace_small.json", "$ROOT/tests/data/trace_before.json", "$ROOT/tests/data/trace_after.json"
EXPLAIN = {
    "steps": [acts(BEFORE, "--steps 5"), refused(BEFORE, "--steps 99")],
    "rank": [same(BEFORE, "--rank 0"), refused(BEFORE, "--rank 3")],
    "gpu": [acts(SMALLTRACE, "--gpu h100-sxm")],
    "cluster": [acts(SMALLTRACE, "--cluster '8 a100-sxm-80'")],
    "pue": [acts(SMALLTRACE + " --gpu h100-sxm", "--pue 1.5"), refused(SMALLTRACE, "--pue 0.5")],
    "carbon": [acts(SMALLTRACE + " --gpu h100-sxm", "--carbon 400")], "price-kwh": [acts(SMALLTRACE + " --gpu h100-sxm", "--price-kwh 0.1")],
    "job": [acts(BEFORE, "--job 'gpt2 --gpu a100-sxm-80 --gpus 1'"), refused(BEFORE, "--job 'gpt2 \"open'"), tested("versus.test")],
    "strict": [same(BEFORE, "--strict"), tested("explain.test")],
    "threads": [same(BEFORE, "--threads 1")],
    "output": [output(BEFORE, "-o csv")], "table": [output(BEFORE, "--table kernels")], "top": [output(BEFORE, "--top 1")],
    "file": [writes(BEFORE, "-f out.txt")], "trace": [writes(BEFORE, "--trace t.json")], "html": [writes(BEFORE, "--html r.html")], "charts": [writes(BEFORE, "--charts c.svg")],
    "noise": [refused(BEFORE, "--noise n.csv"), tested("noise.test")],
}
DIFF = {
    "steps": [acts(f"{BEFORE} {AFTER}", "--steps 5")],
    "rank": [same(f"{BEFORE} {AFTER}", "--rank 0"), refused(f"{BEFORE} {AFTER}", "--rank 3")],
    "threads": [same(f"{BEFORE} {AFTER}", "--threads 1")],
    "output": [output(f"{BEFORE} {AFTER}", "-o csv")], "table": [output(f"{BEFORE} {AFTER}", "--table kernels")],
    "top": [output(f"{BEFORE} {AFTER}", "--top 1")], "file": [writes(f"{BEFORE} {AFTER}", "-f out.txt")],
}
REPLAY = {
    "hold-out": [acts(SMALLTRACE, "--hold-out none"), refused(SMALLTRACE, "--hold-out rank")],
    "overheads": [acts(SMALLTRACE, "--overheads overheads.csv")],
    "as-stored": [acts(SMALLTRACE + " --overheads overheads.csv", "--as-stored"), refused(SMALLTRACE, "--as-stored")],
    "gpu": [refused(SMALLTRACE, "--gpu h100-sxm"), tested("execution_traces.test")],
    "cluster": [refused(SMALLTRACE, "--cluster '8 h100-sxm'"), tested("execution_traces.test")],
    "measured": [refused(SMALLTRACE, "--measured " + SMALLTRACE), tested("execution_traces.test")],
    "overheads-out": [writes(SMALLTRACE, "--overheads-out o.csv")], "graph": [writes(SMALLTRACE, "--graph g.json")],
    "chakra": [writes(SMALLTRACE, "--chakra dir")],
    "output": [output(SMALLTRACE, "-o csv")], "file": [writes(SMALLTRACE, "-f out.txt")], "verbose": [output(SMALLTRACE, "-v")],
}
GRAPH = "step.json --gpu h100-sxm --set nic=2x"
WHATIF = {
    "set": [acts(GRAPH, "--set nic=4x"), refused(GRAPH, "--set nick=2x")],
    "step": [acts(SMALLTRACE + " --set host=0.5x", "--step 3"), refused(GRAPH, "--step 3")],
    "gpu": [acts(GRAPH, "--gpu a100-sxm-80")],
    "cluster": [acts("step.json --cluster '16 h100-sxm' --set nic=2x", "--cluster '2 node * 8 h100-sxm, nic 8*100g'")],
    "stack": [acts(GRAPH, "--stack torchtitan")],
    "release": [acts(GRAPH.replace("h100-sxm", "b200") + " --stack nemo", "--release 25.04"), refused(GRAPH + " --stack nemo", "--release nan")],
    "cuda-graphs": [acts(GRAPH, "--cuda-graphs")],
    "compile": [acts("small.json --gpu h100-sxm", "--compile")],
    "no-contention": [acts(GRAPH, "--no-contention")],
    "data-parallel": [refused(GRAPH, "--data-parallel dp"), refused("$ROOT/examples/traces/rank0.json.gz --set gpus=16", "--data-parallel nobody"),
                      same("$ROOT/examples/traces/rank0.json.gz --set gpus=16", "--data-parallel default_pg")],
    "calibration": [acts(GRAPH, "--calibration numbers.csv")],
    "graph": [writes(GRAPH, "--graph out.json")], "trace": [writes(GRAPH, "--trace t.json")], "html": [writes(GRAPH, "--html r.html")], "charts": [writes(GRAPH, "--charts c.svg")],
    "output": [output(GRAPH, "-o csv")], "file": [writes(GRAPH, "-f out.txt")], "verbose": [output(GRAPH, "-v")],
}
RUNS = "$ROOT/tests/data/runs_small.csv"
VALIDATE = {
    **{name: [changes(RUNS, f"--{name}")]
       for name in ("ops", "kernels", "collectives", "memory", "slowdown", "models", "dlrm", "scaling", "plan", "mlperf", "inference", "serving", "rl", "refit", "finetune", "history", "storage")},
    "noise": [refused(RUNS, "--noise"), tested("noise.test")],
    "first-token": [refused(RUNS, "--first-token"), tested("serving.test")],
    "cross-validate": [acts(RUNS, "--cross-validate")],
    "folds": [refused(RUNS, "--folds shape"), tested("collective.test")],
    "calibration": [acts(RUNS, "--calibration numbers.csv")],
    "overheads": [refused(RUNS, "--overheads overheads.csv"), tested("*.test", "../../docs/*/*.md", "../unit/*.c")],
    "stack": [acts(RUNS, "--stack llm-foundry")],
    "sort": [acts(RUNS, "--sort error")],
    "rows": [output(RUNS + " --stack llm-foundry", "--rows")],
    "resume": [refused(RUNS, "--resume r")],
    "output": [output(RUNS, "-o csv")], "file": [writes(RUNS, "-f out.txt")], "plot": [writes(RUNS, "--plot p.svg")],
}
NCCL = "--gpu h100-sxm --gpus 64 -b 1M -e 16M"
COLLECTIVE = {
    "op": [acts(NCCL, "--op all_to_all")], "begin": [acts("--gpu h100-sxm --gpus 64 -e 16M -b 1M", "--begin 2M -b 2M")],
    "end": [acts(NCCL, "-e 32M")], "factor": [acts(NCCL, "--factor 4")],
    "step": [acts(NCCL, "--step 1M"), refused(NCCL, "--step 1M --factor 4")],
    "library": [acts(NCCL, "--library mpi")], "gpu": [acts(NCCL, "--gpu b200")], "gpus": [acts(NCCL, "--gpus 32")],
    "cluster": [acts("--cluster '16 h100-sxm'", "--cluster '8 h100-sxm'")],
    "sharing": [acts(NCCL, "--sharing 8"), refused("--gpu h100-sxm --gpus 8", "--sharing 8")],
    "fabric": [acts("--gpu a100-sxm-80 --gpus 16 -b 1M -e 16M", "--fabric NDv4"), refused(NCCL, "--fabric nobody"),
               refused(NCCL + " --library mpi", "--fabric NDv4")],
    "nccl": [acts(NCCL, "--nccl NCCL_PROTO=LL"), refused(NCCL, "--nccl NCCL_ALGO=Star")],
    "calibration": [acts(NCCL, "--calibration links.csv")],
    "output": [output(NCCL, "-o csv"), output(NCCL, "-o nccl-tests"), refused(NCCL + " --library mpi", "-o nccl-tests")], "file": [writes(NCCL, "--file out.txt")],
}
TABLES = "tables.csv --gpu a100-sxm-80 --gpus 4"
SHARD = {
    "model": [acts("--model dlrm-ddp --gpu v100-sxm-32 --gpus 4", "--model dlrm-default"), refused(TABLES, "--model dlrm-ddp")],
    "cuda-graphs": [acts("--model dlrm-ddp --gpu v100-sxm-32 --gpus 4", "--cuda-graphs"), refused(TABLES, "--cuda-graphs")],
    "placement": [acts("--model dlrm-ddp --gpu v100-sxm-32 --gpus 4", "--placement placed.json"), changes(TABLES, "--placement placed.json")],
    "gpu": [acts(TABLES, "--gpu h100-sxm")], "gpus": [acts(TABLES, "--gpus 8")],
    "cluster": [acts("tables.csv --cluster '8 h100-sxm'", "--cluster '8 a100-sxm-80'")],
    "calibration": [acts(TABLES, "--calibration links.csv")],
    "reserve": [acts(TABLES, "--reserve 0.9")],
    "host-memory": [acts("big.csv --gpu a100-sxm-40 --gpus 2", "--host-memory 100000")],
    "cache": [acts("big.csv --gpu a100-sxm-40 --gpus 2 --host-memory 100000 --cache 0.001", "--cache 0.002"), refused(TABLES, "--cache 0.5")],
    "batch": [acts(TABLES, "--batch 4096")], "optimizer": [acts(TABLES, "--optimizer adam"), refused("--model dlrm-ddp --gpu v100-sxm-32 --gpus 4", "--optimizer adam")], "dtype": [acts(TABLES, "--dtype fp16")],
    "dense-ms": [acts(TABLES, "--dense-ms 5")], "kinds": [acts(TABLES, "--kinds table")], "search-time": [same(TABLES, "--search-time 3600")], "sharder": [acts(TABLES, "--sharder naive")],
    "seed": [acts(TABLES + " --sharder random", "--seed 9")],
    "plan": [writes(TABLES, "--plan p.json")], "graph": [writes(TABLES, "--graph g.json")], "table": [output(TABLES, "--table ranks")],
    "output": [output(TABLES, "-o csv")], "file": [writes(TABLES, "-f out.txt")], "html": [writes(TABLES, "--html r.html")], "charts": [writes(TABLES, "--charts c.svg")], "verbose": [same(TABLES, "-v")],
}
HIRE = "--model bert-large --seq 128 --gbs 32 --samples 1M --dtype fp16 --machine p3 --most-gpus 8"
SPOT = HIRE + " --spot"
MACHINES = {
    "provider": [acts("", "--provider aws")], "region": [acts("", "--region us-east")], "prices": [acts("", "--prices $ROOT/data/instances.csv --provider aws"),
                 changes("", "--prices nowhere.csv")],
    "catalog": [acts("", "--catalog vms.csv --catalog-provider aws")], "catalog-provider": [refused("", "--catalog-provider aws"),
                acts("--catalog vms.csv --catalog-provider aws", "--catalog-provider azure")],
    "catalog-date": [acts("--catalog vms.csv --catalog-provider aws", "--catalog-date 2026-01-02"), refused("", "--catalog-date 2026-01-02")],
    "age": [output("", "--age")],
    "output": [output("", "-o csv")], "file": [writes("", "-f out.txt")], "verbose": [output("--catalog vms.csv --catalog-provider aws", "-v")],
}
OPEN = "--model bert-large --seq 128 --gbs 256 --machine p3.2x --most-gpus 1 --budget 9 --deadline 5"
MAP = "--map 'folds=5 repeats=100 learners=2 work=12s load=1s'"

RENT = {
    "map": [changes("--deadline 1", "--map 'folds=5 repeats=10 work=9s'"), refused(HIRE, "--map 'folds=5 repeats=10 work=9s'"), refused("", "--map folds=5")],
    "as": [acts("--model $ROOT/tests/data/hf/qwen3-8b.json --seq 4096 --gbs 64 --tokens 1G --machine p5.48 --most-gpus 8", "--as llama"), refused(HIRE, "--as llama")],
    "model": [acts(HIRE, "--model bert-base")], "gbs": [acts(HIRE, "--gbs 16")], "seq": [acts(HIRE, "--seq 256")],
    "tokens": [acts("--model bert-large --seq 128 --gbs 32 --tokens 1G --machine p3 --most-gpus 8", "--tokens 2G")],
    "samples": [acts(HIRE, "--samples 2M")],
    "epochs": [acts(HIRE, "--epochs 2"), refused("--model bert-large --seq 128 --gbs 256 --tokens 1G --machine p3", "--epochs 2")],
    "dtype": [acts(HIRE, "--dtype fp32")], "task": [acts(HIRE, "--task lora")], "optimizer": [acts(HIRE, "--optimizer sgd")],
    "calibration": [acts(HIRE, "--calibration numbers.csv")],
    "deadline": [acts(HIRE, "--deadline 1"), acts(OPEN, "--deadline 2"), acts(MAP, "--deadline 0.01")], "budget": [acts(MAP, "--budget 0.3"), acts(HIRE, "--budget 3"), acts(OPEN, "--budget 2")], "most-gpus": [acts(HIRE, "--most-gpus 4")],
    "spot": [acts(HIRE, "--spot")],
    "search-time": [same(HIRE, "--search-time 3600"), refused(MAP, "--search-time 5")],
    "block": [acts("--model bert-large --seq 128 --gbs 256 --samples 1M --machine p5.48 --most-gpus 8", "--block"), refused(HIRE, "--block"), refused(SPOT, "--block")],
    "interruptions": [acts(SPOT, "--interruptions 0.5"), refused(HIRE, "--interruptions 0.5")],
    "mtbf": [acts(HIRE, "--mtbf 100")],
    "checkpoint": [acts(SPOT, "--checkpoint 5"), refused(HIRE, "--checkpoint 5")],
    "checkpoint-write": [acts(SPOT, "--checkpoint-write 0.1"), refused(HIRE, "--checkpoint-write 0.1")],
    "pue": [acts(HIRE, "--pue 1.5")], "carbon": [acts(HIRE, "--carbon 380")],
    "price-kwh": [refused(HIRE, "--price-kwh 0.1"), changes(HIRE + " --prices own.csv", "--price-kwh 0.1")],
    "setup": [acts(HIRE, "--setup 60")], "prepare-per-core": [acts(HIRE, "--prepare-per-core 1")],
    "stalls": [acts(HIRE, "--stalls stalls.json --stalls-batch 8")],
    "stalls-batch": [acts(HIRE + " --stalls stalls.json --stalls-batch 8", "--stalls-batch 800"), refused(HIRE, "--stalls-batch 8")],
    "machine": [acts(HIRE, "--machine p3.2x")], "provider": [acts("--model resnet18 --gbs 256 --samples 1M --machine v100 --most-gpus 4", "--provider gcp")],
    "region": [acts("--model resnet18 --gbs 256 --samples 1M --machine v100 --most-gpus 4", "--region us-east")],
    "prices": [acts(HIRE, "--prices dear.csv")],
    "catalog": [acts(HIRE, "--catalog vms.csv --catalog-provider aws")], "catalog-provider": [refused(HIRE, "--catalog-provider aws")],
    "catalog-date": [refused(HIRE, "--catalog-date 2026-01-02")],
    "top": [output("--model resnet18 --gbs 256 --samples 1M --most-gpus 4", "--top 1")],
    "output": [output(HIRE, "-o csv")], "file": [writes(HIRE, "-f out.txt")], "html": [writes(HIRE, "--html r.html")], "charts": [writes(HIRE, "--charts c.svg")], "verbose": [output(HIRE, "-v")],
}
LIST = "jobs.csv --gpus 4 --rates rates.csv"
DAYS = "days.csv --gpus 16"
DRAWN = "--draw 6 --gpu a100-sxm-80 --gpus 16"
JOBS = {
    "gpus": [acts(LIST, "--gpus 8")], "gpu": [acts(DRAWN, "--gpu h100-sxm")], "rates": [acts(LIST, "--rates slow.csv")],
    "calibration": [acts(DRAWN, "--calibration numbers.csv")],
    "draw": [acts(DRAWN, "--draw 5")], "load": [acts(DRAWN, "--load 0.5"), refused(LIST, "--load 0.5")],
    "seed": [acts(DRAWN, "--seed 7"), refused(LIST, "--seed 7")], "users": [acts(DRAWN, "--users 2"), refused(LIST, "--users 2")],
    "nodes": [tested("jobs.test"), refused(LIST, "--nodes nodes.csv")],
    "gpus-per-node": [acts("waits.csv --gpus 8", "--gpus-per-node 4"), refused(LIST + " --policy elastic", "--gpus-per-node 2")],
    "save-energy": [output(DAYS, "--save-energy"), refused(LIST + " --policy elastic", "--save-energy")],
    "boot": [output(DAYS + " --save-energy", "--boot 3000"), refused(LIST, "--boot 60")],
    "penalty": [output(DAYS + " --save-energy", "--penalty 100"), refused(LIST, "--penalty 2")], "write": [writes(DRAWN, "--write drawn.csv")],
    "policy": [acts(LIST, "--policy fifo")], "objective": [acts(DRAWN, "--objective completion"), refused(LIST + " --policy fifo", "--objective completion")],
    "restart": [acts(DRAWN, "--restart 600"), refused(LIST + " --policy fifo", "--restart 600")],
    "every": [acts(DRAWN, "--every 60"), refused(LIST + " --policy fifo", "--every 60")],
    "search-time": [same(DRAWN, "--search-time 3600")],
    "horizon": [acts(DRAWN + " --restart 600", "--horizon 0.2"), refused(LIST + " --policy fifo", "--horizon 0.2")],
    "output": [output(LIST, "-o csv")], "file": [writes(LIST, "-f out.txt")], "verbose": [output(LIST, "-v")],
}
SGD, ADAM = "$ROOT/examples/lang/sgd.lk", "$ROOT/examples/lang/adam.lk"
TUNE = f"tune {SGD} --gpu h100-sxm --sizes dp=8,N=100000000"
COMPILE = {
    "program": [output("verify two.lk --program sgd", "--program second"), refused(f"check {SGD}", "--program none")],
    "schedule": [output(f"rewrite {SGD}", "--schedule fused"), refused(f"rewrite {SGD}", "--schedule none-such")],
    "sizes": [output(f"run {SGD}", "--sizes dp=3,N=5")], "set": [output(f"run {SGD}", "--set lr=0.5")], "seed": [output(f"run {SGD}", "--seed 9")],
    "inputs": [refused(f"check {SGD}", "--inputs x.json"), tested("compile_inputs.test")],
    "field": [output(f"run {SGD}", "--field"), refused(f"check {SGD}", "--field")],
    "compare": [refused(f"check {SGD}", "--compare nowhere"), tested("compile_*.test", "../lang/*")],
    "draws": [output(f"verify {SGD}", "--draws 7"), refused(f"run {SGD}", "--draws 7")],
    "meshes": [output(f"verify {SGD}", "--meshes 2,5"), refused(f"run {SGD}", "--meshes 2")],
    "gpu": [output(TUNE, "--gpu a100-sxm-80"), refused(f"run {SGD}", "--gpu h100-sxm")],
    "gpus": [output(f"tune {SGD} --gpu h100-sxm --sizes N=100000000", "--gpus 4"), refused(f"run {SGD}", "--gpus 4")],
    "cluster": [output(f"tune {SGD} --sizes N=100000000 --cluster '8 h100-sxm'", "--cluster '4 h100-sxm'"), refused(f"run {SGD}", "--cluster '8 h100-sxm'")],
    "calibration": [output(TUNE, "--calibration links.csv"), refused(f"run {SGD}", "--calibration links.csv")],
    "top": [output(TUNE, "--top 1"), refused(f"run {SGD}", "--top 1")],
    "programs": [output(TUNE, "--programs 2"), refused(f"run {SGD}", "--programs 2")],
    "search-time": [same(f"{TUNE} -o json", "--search-time 3600"), refused(f"run {SGD}", "--search-time 3")],
    "measure": [refused(f"run {SGD}", "--measure"), tested("compile_tune.test")],
    "wisdom": [writes(TUNE, "--wisdom w"), refused(f"run {SGD}", "--wisdom w")],
    "step": [output("tune end.lk --gpu h100-sxm --sizes dp=8,model=2,N=4015261696 -o json", "--step step.json"), refused(f"run {SGD}", "--step step.json")],
    "repeat": [refused(f"run {SGD}", "--repeat 6"), tested("compile_*.test", "../../docs/*/*.md")],
    "graph": [writes(TUNE, "--graph g.json"), refused(f"run {SGD}", "--graph g.json")],
    "target": [output(f"emit {SGD}", "--target cuda"), refused(f"run {SGD}", "--target cuda")],
    "header": [output(f"emit {SGD}", "--header"), refused(f"run {SGD}", "--header")],
    "out": [writes(f"emit {SGD}", "--out x.c")],
    "ir": [output(f"print {SGD}", "--ir"), refused(f"run {SGD}", "--ir")],
    "each": [output(f"rewrite {SGD} --schedule fused", "--each"), refused(f"run {SGD}", "--each")],
    "all": [output(f"run {SGD} -o json --sizes N=64", "--all"), refused(f"check {SGD}", "--all")],
    "output": [output(f"check {SGD}", "-o json")],
}
LOG = "collectives $ROOT/tests/fuzz/corpus/nccl_log/text.txt"
CALIBRATE = {
    "source": [output(LOG, "--source elsewhere")], "date": [output(LOG, "--date 2026-01-02")], "name": [refused(LOG, "--name mine"), tested("calibrate.test")],
    "seconds": [refused(LOG, "--seconds 1"), tested("calibrate.test")], "disk": [refused(LOG, "--disk /tmp"), tested("calibrate.test", "../../docs/*/*.md")],
    "mpi": [refused(LOG, "--mpi true"), tested("calibrate.test")],
    "output": [output(LOG, "-o json")], "file": [writes(LOG, "-f out.csv")],
}
RECORD = {
    "out": [tested("record.test")], "max-mb": [tested("record.test")], "steps": [tested("record_mpi.test")], "time-limit": [tested("record.test")],
    "step-marker": [tested("record.test")], "program": [tested("record.test")], "mpi": [refused("-- true", "--mpi some")],
    "nccl": [tested("record_gpu.test"), refused("-- true", "--nccl some")], "cuda": [tested("record_gpu.test"), refused("-- true", "--cuda some")],
    "mode": [tested("record_modes.test"), refused("-- true", "--mode some")], "scratch": [tested("record_modes.test")],
    "as-rank": [tested("compose.test"), refused("-- true", "--as-rank 1")], "world": [tested("compose.test"), refused("-- true", "--world 4")],
    "ranks": [tested("compose.test"), refused("-- true", "--ranks 1")], "ranks-per-node": [refused("-- true", "--ranks-per-node 4")],
    "splits": [tested("record_gpu.test"), refused("-- true", "--splits 2")], "fill": [refused("-- true", "--fill random"), refused("-- true", "--fill some")],
    "delay": [tested("record_modes.test")],
    "slow": [tested("stalls.test")],
}
RENTED = "--model resnet18 --machine p3.8"
STALLS = {
    **{name: [tested("stalls.test")] for name in ("steps", "warmup", "repeats", "configurations", "recording", "time-limit", "yes", "what-if", "out",
                                                  "table", "timeline", "folded", "staging", "cluster", "against")},
    "output": [refused("-- true", "-o some")], "file": [refused("-- true", "-f no/such/folder")], "html": [tested("html.test", "stalls.test")], "charts": [tested("charts.test")],
    "one": [refused("-- true", "--one ''")], "step-marker": [tested("record.test")],
    "model": [acts(RENTED, "--model vgg11"), refused(RENTED, "--model nosuch")],
    "machine": [acts(RENTED, "--machine p3.16"), refused("", "--machine p3"), refused(RENTED, "--machine nosuch")],
    "mbs": [acts(RENTED, "--mbs 16")], "seq": [acts("--model bert-large --mbs 4 --machine p3.8", "--seq 384")],
    "dtype": [acts(RENTED, "--dtype fp32"), refused(RENTED, "--dtype some")], "bucket": [acts(RENTED, "--bucket 0.001")],
    "samples": [acts(RENTED, "--samples 1M")],
    "budget": [tested("stalls.test"), refused("-- true", "--budget 0")], "program": [tested("record.test")], "mpi": [refused("-- true", "--mpi some")],
    "max-mb": [refused("-- true", "--max-mb 0")], "batches": [refused("-- true", "--batches 0")],
}
TWO = "two --cluster '2 node * 4 cpu, nic 1*10g'"
COMPOSE = {
    "cluster": [acts(TWO, "--cluster '2 node * 4 cpu, nic 1*1g'")], "ranks-per-node": [acts(TWO, "--ranks-per-node 2")],
    "shared": [acts(TWO, "--shared 60000")], "memory-bound": [acts("two --cluster host.json --ranks-per-node 8", "--memory-bound 1"), refused(TWO, "--memory-bound 1")], "progress": [acts(TWO, "--progress always")],
    "eager": [acts(TWO, "--eager 1")], "graph": [writes(TWO, "--graph g.json")],
    "output": [output(TWO, "-o csv")], "file": [writes(TWO, "-f out.txt")],
}
SERVE = {name: [tested("serve.test", "../serve/*.py")]
         for name in ("listen", "port", "name", "open", "workers", "memory", "seconds", "long-seconds", "upload")}
LISTS = {"output": [output("", "-o csv")], "file": [writes("", "-f out.txt")], "verbose": [output("", "-v")]}
INIT = {name: [tested("init.test")] for name in ("gpu", "stack", "calibration", "prices", "home")}
TABLE = {"predict": PREDICT, "plan": PLAN, "explain": EXPLAIN, "replay": REPLAY, "whatif": WHATIF, "diff": DIFF, "validate": VALIDATE,
         "calibrate": CALIBRATE, "collective": COLLECTIVE, "compile": COMPILE, "record": RECORD, "stalls": STALLS, "compose": COMPOSE,
         "shard": SHARD, "rent": RENT, "machines": MACHINES, "jobs": JOBS, "serve": SERVE, "devices": LISTS, "models": LISTS, "init": INIT, "doctor": LISTS,
         "mcp": {name: [tested("mcp.test", "mcp.py")] for name in ("workers", "seconds")},
         "html": {name: [tested("html.test")] for name in ("file", "charts")}}
# Of each verb whose answer conditions read: with the job of --output, what is no condition is refused.
for _verb in "predict plan explain replay whatif diff validate compose shard rent machines jobs devices models doctor".split():
    if _verb in TABLE:
        TABLE[_verb]["fail-if"] = [refused(TABLE[_verb]["output"][0][1], "--fail-if nothing"), tested("conditions.test")]
TABLE["explain"]["calibrated"] = [tested("expected.test", "versus.test")]
TABLE["stalls"]["fail-if"] = [tested("conditions.test")]

# Flags of launch lines that cannot act on this line, and what they would act with.
LINE = ("--gpu h100-sxm -- torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 1024 --num-attention-heads 16 "
        "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32 --vocab-size 50000 --bf16")
LISTED = ["--window-size 4096,0", "--fp8-recipe delayed", "--moe-router-topk 2", "--moe-token-dispatcher-type alltoall", "--moe-grouped-gemm",
          "--expert-tensor-parallel-size 1", "--overlap-moe-expert-parallel-comm", "--moe-layer-freq 1", "--cp-comm-type p2p",
          "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --overlap-grad-reduce",
          "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --ddp-bucket-size 1000000", "--overlap-param-gather",
          "--wgrad-deferral-limit 2", "--kv-lora-rank 512", "--decoder-seq-length 512", "--moe-permute-fusion", "--no-such-flag"]
LAUNCH = [listed(LINE, words) for words in LISTED]
FORMATS = ("text", "md", "csv", "json", "jsonl", "sqlite", "html")


def run(folder, verb, words, fmt=None):
    words = [word.replace("$ROOT", ROOT) for word in shlex.split(words)]
    rest = words[words.index("--"):] if "--" in words else []
    words = words[:len(words) - len(rest)] + (["-o", fmt] if fmt else []) + rest
    done = subprocess.run([PROGRAM, *verb.split(), *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600, env={**os.environ, "HOME": folder, "NO_COLOR": "1"})
    return done.returncode, done.stdout.replace(folder, "."), done.stderr.replace(folder, ".")


def strip(value):
    """An answer without what repeats the question or says how long the work took."""
    if isinstance(value, dict):
        return {key: strip(item) for key, item in value.items() if key not in ECHO}
    return [strip(item) for item in value] if isinstance(value, list) else value


def replaced(job, words):
    """The job with WORDS: an option that is in both is said once."""
    given = {word for word in shlex.split(words) if word.startswith("--")}
    kept, skip = [], False
    parts = shlex.split(job)
    for at, part in enumerate(parts):
        if part == "--":
            return " ".join([*map(shlex.quote, kept), words, *map(shlex.quote, parts[at:])])
        if part in given:
            skip = True
        elif skip and not part.startswith("-"):
            skip = False
        else:
            skip = False
            kept.append(part)
    return " ".join([*map(shlex.quote, kept), words])


def answer(folder, verb, words):
    status, out, err = run(folder, verb, words, "json")
    if status not in (0, 1) or not out:
        return None, f"{verb} {words}: exit status {status}: {err.strip()[:300]}"
    return strip(json.loads(out)), None


KNOWN, KNOWN_LOCK = {}, threading.Lock()


def once(ask, folder, verb, job):
    """What ASK says of a job as it stands: many checks compare with the same, and the first of them works it out."""
    with KNOWN_LOCK:
        is_first = (ask, verb, job) not in KNOWN
        said = KNOWN.setdefault((ask, verb, job), concurrent.futures.Future())
    if is_first:
        try:
            said.set_result(ask(folder, verb, job))
        except Exception as error:
            said.set_exception(error)
    return said.result()


def check_answers(folder, verb, job, words, differ):
    one, wrong = once(answer, folder, verb, job)
    two, wrong = (None, wrong) if wrong else answer(folder, verb, replaced(job, words))
    if wrong:
        return wrong
    if (one != two) == differ:
        return None
    return f"{verb} {job}\n    {words}: " + ("the answer is the same" if differ else "the answer differs")


def check_output(folder, verb, job, words):
    one, two = once(run, folder, verb, job), run(folder, verb, replaced(job, words))
    if two[0] not in (0, 1):
        return f"{verb} {job} {words}: exit status {two[0]}: {two[2].strip()[:300]}"
    return None if one[1:] != two[1:] else f"{verb} {job}\n    {words}: prints the same"


def check_writes(folder, verb, job, words):
    status, _, err = run(folder, verb, replaced(job, words))
    path = os.path.join(folder, shlex.split(words)[-1])
    if status not in (0, 1) or not os.path.exists(path):
        return f"{verb} {job} {words}: exit status {status}, {os.path.basename(path)} was not written: {err.strip()[:300]}"
    filled = os.listdir(path) if os.path.isdir(path) else os.path.getsize(path)
    return None if filled else f"{verb} {job} {words}: {path} is empty"


def check_refused(folder, verb, job, words):
    status, out, err = run(folder, verb, replaced(job, words))
    option = shlex.split(words)[0].lstrip("-")
    lines = err.strip().splitlines()
    if status == 2 and len(lines) == 1 and option.removeprefix("no-") in lines[0] and not out:
        return None
    return f"{verb} {job}\n    {words}: is not refused in one line that names it: exit status {status}: {err.strip()[:300]}"


def check_listed(folder, verb, job, words):
    """A flag of a launch line is among the ignored with the same words in all formats, and on the first screen of the text."""
    words = f"{job} {words}"
    flag = shlex.split(words)[-1 if words.split()[-1].startswith("--") else -2].lstrip("-")
    shown = {}
    for form in FORMATS:
        before, after = words.split(" -- ", 1)
        options = {"sqlite": "-o sqlite -f out.db", "html": "--html out.html"}.get(form, f"-o {form}")
        status, out, err = run(folder, verb, f"{before} {options} -- {after}")
        if status not in (0, 1):
            return f"{verb} {words} {options}: exit status {status}: {err.strip()[:300]}"
        shown[form] = out
    lines = [text for text in json.loads(shown["json"])["ignored"] if text.startswith(flag + ": ")]
    if len(lines) != 1:
        return f"{verb} {words}: {flag} is not among the ignored: {json.loads(shown['json'])['ignored']}"
    database = sqlite3.connect(os.path.join(folder, "out.db"))
    shown["sqlite"] = str(database.execute("select * from predictions").fetchall())
    database.close()
    with open(os.path.join(folder, "out.html"), encoding="utf-8") as page:
        shown["html"] = html.unescape(page.read())
    wanted = flag if "unknown to lockstep" in lines[0] else lines[0]  # the warning names it
    shown["text"] = " ".join(shown["text"].split())  # in lines of 100 columns
    lacking = [form for form in FORMATS if wanted not in shown[form]]
    return f"{verb} {words}: '{lines[0]}' is not said in {lacking}" if lacking else None


def check_tested(folder, verb, option, files):
    paths = [path for name in files for path in glob.glob(os.path.join(ROOT, "tests", "cli", name))]
    for path in paths:
        with open(path, encoding="utf-8") as text:
            if re.search(rf"--{option}\b|\b{option.replace('-', '_')}\b", text.read()):
                return None
    return f"{verb} --{option}: no command of {', '.join(files)} gives it"


def check_changes(folder, verb, job, words):
    return None if once(run, folder, verb, job) != run(folder, verb, replaced(job, words)) else f"{verb} {job}\n    {words}: says the same"


CHECKS = {"changes": check_changes, "tested": check_tested, "listed": check_listed, "acts": lambda *a: check_answers(*a, True), "same": lambda *a: check_answers(*a, False), "output": check_output,
          "writes": check_writes, "refused": check_refused}


def names_of(verb):
    """The options of a verb, from what is generated for shells; a switch counts once."""
    done = subprocess.run([PROGRAM, "--completion", "fish"], stdout=subprocess.PIPE, text=True, check=True)
    found = re.findall(rf"^complete .*subcommand_from {verb}'.* -l ([\w-]+)", done.stdout, re.MULTILINE)
    return [name for name in found if not (name.startswith("no-") and name[3:] in found)]


def checked(work, files, verb, name, check):
    folder = tempfile.mkdtemp(dir=work)
    for path in glob.glob(os.path.join(files, "*")):
        (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(folder, os.path.basename(path)))
    try:
        wrong = CHECKS[check[0]](folder, verb, name if check[0] == "tested" else check[1], check[2])
    except (subprocess.TimeoutExpired, json.JSONDecodeError, UnicodeDecodeError) as error:
        wrong = f"{verb} {check[1]} {check[2]}: {error}"
    shutil.rmtree(folder, ignore_errors=True)
    return wrong and f"{name}: {wrong}"


def main():
    verbs = sys.argv[2:] or list(TABLE)
    missing, cases = [], []
    for verb in verbs:
        have, want = TABLE[verb], names_of(verb)
        missing += [f"{verb} --{name}: no row in the table" for name in want if not have.get(name)]
        missing += [f"{verb} --{name}: a row of the table, but no option" for name in have if name not in want]
        if verb == "compose" and not HAVE_MPI:
            print("skipped: compose has no recording without mpicc and cblas.h")
            continue
        cases += [(verb, name, check) for name in want for check in have.get(name, [])]
    if "predict" in verbs:
        cases += [("predict", "launch line", check) for check in LAUNCH]
    cases = of_turn(cases)
    with tempfile.TemporaryDirectory() as work:
        files = os.path.join(work, "files")
        os.mkdir(files)
        make_files(files)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            wrong = missing + [text for text in pool.map(lambda case: checked(work, files, *case), cases) if text]
    for text in wrong:
        print(text)
    print(f"{len(cases)} checks of the options of {len(verbs)} verbs, {len(wrong)} wrong")
    sys.exit(bool(wrong) or not cases)


if __name__ == "__main__":
    main()
