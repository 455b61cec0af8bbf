#!/usr/bin/env python3
"""A scripted client of `lockstep mcp`: every answer is that of the command line, errors have their fields.
Usage: mcp.py PROGRAM; works in the current folder."""
import json, os, subprocess, sys

program = sys.argv[1]
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
          "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5}
EIGHT = {"gpu": "h100-sxm", "gpus": 8, "gbs": 64}
with open("config.json", "w") as file:
    json.dump(CONFIG, file)
with open("tables.csv", "w") as file:
    file.write("rows,dim,pooling\n" + "".join(f"{10 ** (3 + i % 4)},64,{1 + i}\n" for i in range(12)))

# tool, arguments: each is also asked on the command line
ASKED = [
    ("predict", {"model": "llama3.1-8b", **EIGHT, "seq": "8k"}),
    ("predict", {"model": "llama3.1-70b", **EIGHT}),  # does not fit
    ("predict", {"model": "config.json", **EIGHT}),
    ("predict", {"operands": ["gpt2"], "gpu": "a100-sxm-80", "gpus": 1, "gbs": 8}),
    ("predict", {"model": "gpt2", **EIGHT, "gpus": "1,2,4,8"}),
    ("predict", {"model": "gpt2", **EIGHT, "gpus": [1, 2]}),
    ("predict", {"model": "mixtral-8x7b", "gpu": "h200", "gpus": 16, "ep": 8, "gbs": 64, "dtype": "fp8"}),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "task": "lora", "qlora": True}),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "sequence-parallel": False, "tp": 2}),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "emit": "deepspeed"}),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "output": "csv"}),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "output": "md"}),
    ("predict", {"launch": ["torchrun", "--nproc_per_node=8", "pretrain_gpt.py", "--num-layers", "24", "--hidden-size", "2048", "--num-attention-heads",
                            "16", "--seq-length", "2048", "--max-position-embeddings", "2048", "--micro-batch-size", "1", "--global-batch-size", "64",
                            "--bf16", "--vocab-size", "50257"], "gpu": "a100-sxm-80", "gpus": 8}),
    ("predict", {"model": "llama3.1-8b", "cluster": "2 node * 8 h100-sxm nvlink4, nic 8*400g", "gbs": 64}),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "tokens": "1T"}),
    ("plan", {"model": "llama3.1-8b", **EIGHT, "top": 3}),
    ("plan", {"model": "gpt2", **EIGHT, "gpus": "1,2", "gbs": 16}),
    ("rent", {"model": "llama3.2-1b", "tokens": "10B", "gbs": 128, "seq": 2048, "most-gpus": 8, "provider": "aws"}),
    ("shard", {"operands": ["tables.csv"], "gpu": "a100-sxm-80", "gpus": 4, "batch": 4096}),
    ("collective", {"op": "all-reduce", "gpu": "h100-sxm", "gpus": 8}),
    ("collective", {"op": "all-to-all", "gpu": "h100-sxm", "gpus": 16}),
    ("machines", {"operands": ["h100"]}),
    ("machines", {}),
    ("devices", {"operands": ["h100"]}),
    ("devices", {}),
    ("models", {"operands": ["llama"]}),
    ("models", {"verbose": True}),
    ("help", {"verb": "predict"}),
    ("help", {"verb": "rent"}),
]
# refusals: tool, arguments, where, a part of the text
REFUSED = [
    ("predict", {"model": "llama3.1-8b", **EIGHT, "gpu": "h1000"}, "--gpu", "h100-sxm"),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "tpp": 2}, "--tpp", "--tp"),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "tp": 3}, None, "tp"),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "html": "a.html"}, "html", "tools write none"),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "file": "a.json"}, "file", "tools write none"),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "html=a.html": ""}, "html=a.html", "unknown option"),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "html a.html": True}, "html a.html", "unknown option"),
    ("predict", {"model": "llama3.1-8b", **EIGHT, "": 1}, "", "unknown option"),
    ("predict", {"model": {"hidden_size": 8}}, "model", "must be"),
    ("predict", {"model": "no-such-network", **EIGHT}, "", "no-such-network"),
    ("explain", {"operands": ["no-such-file.json"]}, None, "no-such-file.json"),
    ("shard", {"operands": ["--plan=out.json"], "gpu": "h100-sxm", "gpus": 2}, "operands", "no file"),
    ("rent", {"model": "gpt2", "deadline": "soon"}, "--deadline", "soon"),
    ("help", {"verb": "serve"}, "verb", "no tool"),
]


# What the table of options.py says of each verb: an option that writes is refused in either spelling.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import options


def writers(tools):
    for verb in sorted(set(options.TABLE) & tools):
        for name, checks in options.TABLE[verb].items():
            if name != "trace-ranks" and any(check[0] == "writes" for check in checks) or name in ("calibrated", "resume", "folded"):
                yield from ((verb, spelling) for spelling in {name, name.replace("-", "_")})


def talk(*messages):
    """The answers by id, and those without one."""
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run([program, "mcp", "-j", "2"], input=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and not done.stderr, done
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    return {answer.get("id"): answer for answer in answers}


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def typed(tool, arguments):
    """The same question as words."""
    if tool == "help":
        return ["help", arguments["verb"]]
    words = [tool] + ([] if {"emit", "output"} & set(arguments) else ["-o", "json"])
    for name, value in arguments.items():
        if name in ("operands", "launch"):
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return words + arguments.get("operands", []) + (["--", *arguments["launch"]] if "launch" in arguments else [])


wrong = []
hello = talk(request(1, "initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "test", "version": "1"}),
             {"jsonrpc": "2.0", "method": "notifications/initialized"}, request(2, "tools/list"), request(3, "resources/list"), request(4, "ping"),
             request(5, "nothing"), {"id": 6}, request(7, "tools/call", name="format-disk"), request(8, "resources/read", uri="file:///etc/passwd"),
             request(9, "resources/read", uri="lockstep://devices"), request(10, "initialize", protocolVersion="1999-01-01"))
listed = {tool["name"]: tool for tool in hello[2]["result"]["tools"]}
checks = [
    hello[1]["result"]["protocolVersion"] == "2025-03-26", hello[10]["result"]["protocolVersion"] == "2025-06-18",
    hello[1]["result"]["serverInfo"]["name"] == "lockstep", set(hello[1]["result"]["capabilities"]) == {"tools", "resources"},
    {tool for tool, _ in ASKED} <= set(listed), all(tool["inputSchema"]["type"] == "object" for tool in listed.values()),
    all(tool["annotations"]["readOnlyHint"] for tool in listed.values()), "html" not in listed["predict"]["inputSchema"]["properties"],
    not {"record", "stalls", "serve", "compile", "calibrate"} & set(listed), hello[4]["result"] == {}, hello[5]["error"]["code"] == -32601,
    hello[None]["error"]["code"] == -32600, hello[7]["error"]["code"] == -32602, hello[8]["error"]["code"] == -32002,
    len(json.loads(hello[9]["result"]["contents"][0]["text"])) > 0, len(hello[3]["result"]["resources"]) > 3,
]
wrong += [f"check {i} of the first messages" for i, holds in enumerate(checks) if not holds]

answers = talk(*[request(i, "tools/call", name=tool, arguments=arguments) for i, (tool, arguments) in enumerate(ASKED)])
for i, (tool, arguments) in enumerate(ASKED):
    done = subprocess.run([program, *typed(tool, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    result = answers[i]["result"]
    if result["isError"] or result["content"][0]["text"] != done.stdout or not done.stdout:
        wrong.append(f"{tool} {arguments}: {result['content'][0]['text'][:200]!r}; the command line: {(done.stdout or done.stderr)[:200]!r}")
    structured = result.get("structuredContent")
    parsed = json.loads(done.stdout) if "-o" in typed(tool, arguments) else None
    if structured != (parsed if isinstance(parsed, dict) else None):
        wrong.append(f"{tool} {arguments}: structuredContent is not the answer")

answers = talk(*[request(i, "tools/call", name=tool, arguments=arguments) for i, (tool, arguments, _, _) in enumerate(REFUSED)])
for i, (tool, arguments, where, part) in enumerate(REFUSED):
    result = answers[i]["result"]
    error = result.get("structuredContent", {}).get("error") if tool != "help" or where else {}
    if not result["isError"] or not error or set(error) != {"where", "what", "remedy", "text"} or part not in error["text"] or (
            where and error["where"] != where):
        wrong.append(f"{tool} {arguments}: {result}")
places = list(writers(set(listed)))
answers = talk(*[request(i, "tools/call", name=verb, arguments={name: "a.html"}) for i, (verb, name) in enumerate(places)])
for i, (verb, name) in enumerate(places):
    text = answers[i]["result"]["content"][0]["text"]
    if "tools write none" not in text and "unknown option" not in text:
        wrong.append(f"{verb} {name}: {text[:200]}")
if os.path.exists("a.html=") or os.path.exists("a.html") or os.path.exists("a.json") or os.path.exists("out.json"):
    wrong.append("a tool wrote a file")

# A call that is cancelled has no answer, and the server ends without waiting for it.
stopped = talk(request(1, "tools/call", name="plan", arguments={"model": "llama3.1-405b", "gpu": "h100-sxm", "gpus": 16384, "gbs": 2048, "exhaustive": True}),
               {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, request(2, "ping"))
if 1 in stopped or 2 not in stopped:
    wrong.append(f"cancelled: {stopped}")

late = subprocess.run([program, "mcp", "--seconds", "0.05"], stdout=subprocess.PIPE, text=True,
                      input=json.dumps(request(1, "tools/call", name="plan", arguments={"model": "llama3.1-405b", "gpu": "h100-sxm", "gpus": 16384, "gbs": 2048})) + "\n")
if "ended after 0.05 s" not in late.stdout or not json.loads(late.stdout)["result"]["isError"]:
    wrong.append(f"late: {late.stdout[:300]}")

# What is no message.
done = subprocess.run([program, "mcp"], input='{"jsonrpc":"2.0"\n[]\n3\n\n{"jsonrpc":"2.0","id":{},"method":"ping"}\n\x00\n', stdout=subprocess.PIPE, text=True)
codes = [json.loads(line)["error"]["code"] for line in done.stdout.splitlines()]
if done.returncode or codes != [-32700, -32600, -32600, -32600, -32700]:
    wrong.append(f"no messages: {done.returncode} {codes}")

print(*wrong, sep="\n", end="\n" if wrong else "")
print(f"{len(ASKED)} answers, {len(REFUSED)} refusals, {len(places)} that would write, {len(checks)} checks: {len(wrong)} wrong")
sys.exit(bool(wrong))
