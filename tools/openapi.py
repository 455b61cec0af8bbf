#!/usr/bin/env python3
"""openapi.py: writes data/web/openapi.json, the description of the JSON interface of `lockstep serve`.

The fields of requests come from the option tables, as the server tells them at /api/v1/options; the rest stands here.

    tools/openapi.py PROGRAM           writes it
    tools/openapi.py PROGRAM --check   says whether it is as it would be written
"""
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(ROOT, "data/web/openapi.json")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests/serve"))

NUMBER, TEXT, BOOL = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
MAYBE_NUMBER, MAYBE_TEXT = {"type": ["number", "null"]}, {"type": ["string", "null"]}
OBJECT = {"type": "object"}


def ref(name):
    return {"$ref": "#/components/schemas/" + name}


def listed(items):
    return {"type": "array", "items": items}


def record(required, optional=None, more=False, **extra):
    """An object; `more`: other members may be in it."""
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})},
            "additionalProperties": more, **extra}


FORMS = {
    "boolean": BOOL,
    "number": NUMBER,
    "count": {"type": ["number", "string"]},
    "text": TEXT,
    "choice": TEXT,
    "text_or_object": {"type": ["string", "object"]},
    "object": OBJECT,
    "content": TEXT,
}
CONTENT = {"text_or_object": "; or the content of the JSON file as an object",
    "object": "; the content of the file as an object",
           "content": "; the content of the file as a text"}


def field(option):
    form = dict(FORMS[option["type"]])
    if option["integer"]:
        form["type"] = "integer"
    if "low" in option and option["type"] == "number":
        form["minimum"], form["maximum"] = option["low"], option["high"]
    if "choices" in option:
        form["enum"] = option["choices"]
    # null is as if the field were not there
    form["type"] = [*(form["type"] if isinstance(form["type"], list) else [form["type"]]), "null"]
    if "enum" in form:
        form["enum"] = [*form["enum"], None]
    form["description"] = option["help"] + CONTENT.get(option["type"], "")
    return form


def request(table, launch):
    properties = {o["name"]: field(o) for o in table if o["type"] != "refused"}
    if launch:
        properties["launch"] = {"type": ["array", "null"], "items": TEXT,
            "description": "words of a launch line, as they stand behind -- on the command line"}
    return {"type": "object", "properties": properties, "additionalProperties": False}


PART = record({"label": TEXT, "exposed_s": NUMBER, "hidden_s": NUMBER})
QUANTILES = record({"label": TEXT, "p50": NUMBER, "p95": NUMBER, "p99": NUMBER})
STAGE = record({key: NUMBER for key in (
    "stage weights_bytes gradients_bytes optimizer_bytes activations_bytes logits_bytes workspace_bytes buffers_bytes "
    "allocated_bytes reserved_bytes context_bytes nccl_bytes total_bytes").split()},
    {"allocated_low_bytes": MAYBE_NUMBER, "allocated_high_bytes": MAYBE_NUMBER, "moment": TEXT})
LAYOUT = record({**{key: NUMBER for key in "gpus tp pp vp cp ep dp mbs gbs seq microbatches".split()},
                 **{key: TEXT for key in "text recompute dtype schedule".split()}})
GENERATION = record({
    **{name: NUMBER for name in (
        "sequences", "engines", "engine_gpus", "tokens", "tokens_per_s", "token_time_s", "longest_tokens", "cache_bytes",
        "token_bytes", "cache_tokens", "batch_room", "batch_most", "tail_s", "preempted")},
    "fixed_s": MAYBE_NUMBER, "exponential_s": MAYBE_NUMBER,
}, description="Of --task generate; null for a training step. Without --lengths: the phase with equal and with exponential lengths.")
PREDICTION = record({
    "fits": BOOL, "peak_bytes": NUMBER, "usable_bytes": NUMBER, "fullest_stage": NUMBER, "step_time_s": NUMBER,
    "step_time_low_s": MAYBE_NUMBER, "step_time_high_s": MAYBE_NUMBER, "basis": TEXT, "tokens_per_s_per_gpu": NUMBER,
    "samples_per_s": NUMBER, "unit": TEXT, "model_tflops_per_gpu": NUMBER, "mfu": MAYBE_NUMBER, "hfu": MAYBE_NUMBER,
    "peak_flops": MAYBE_NUMBER, "peak": MAYBE_TEXT, "days": MAYBE_NUMBER, "gpu_hours": MAYBE_NUMBER,
    "goodput": MAYBE_NUMBER,
    "breakdown": {"type": "object", "additionalProperties": PART},
    "seeds": {"oneOf": [record({"count": NUMBER, "quantiles": {"type": "object", "additionalProperties": QUANTILES}}),
                        {"type": "null"}]},
    "generation": {"anyOf": [GENERATION, {"type": "null"}]},
    "memory": listed(STAGE), "layout": LAYOUT,
    "assumptions": listed(TEXT), "understood": listed(TEXT), "ignored": listed(TEXT),
    "fixes": listed(record({"change": TEXT, "peak_bytes": NUMBER, "step_time_s": NUMBER, "time_ratio": NUMBER})),
    "operations": NUMBER, "layer_operations": NUMBER, "ranks_simulated": NUMBER, "ranks": NUMBER,
    "simulation_s": NUMBER, "searched": MAYBE_TEXT, "warning": MAYBE_TEXT, "reproduce": TEXT, "model": TEXT, "cluster": TEXT,
    "version": TEXT, "data_date": TEXT,
}, description="What `lockstep predict -o json` prints. Numbers have SI units; null: not asked, or not known.")
CHOICE = record({"layout": TEXT, "gpus": NUMBER, "tp": NUMBER, "pp": NUMBER, "vp": NUMBER, "cp": NUMBER, "ep": NUMBER,
                 "dp": NUMBER, "mbs": NUMBER, "zero": NUMBER, "schedule": TEXT, "recompute": TEXT,
                 "step_time_s": NUMBER, "exact_s": MAYBE_NUMBER,
                 "peak_bytes": NUMBER, "reproduce": TEXT, "why_not": MAYBE_TEXT, "pareto": BOOL}, more=True)
COUNT = record({"gpus": NUMBER, "layouts": NUMBER, "nothing": MAYBE_TEXT, "in_fp8": MAYBE_TEXT, "choices": listed(CHOICE),
    "sensitivity": listed(OBJECT)}, more=True)
PLAN = record({"model": TEXT, "cluster": TEXT, "gbs": NUMBER, "unit": TEXT, "seq": MAYBE_NUMBER, "tokens": MAYBE_NUMBER,
    "not_searched": listed(TEXT), "counts": listed(COUNT)}, more=True,
              description="What `lockstep plan -o json` prints.")
EXPLANATION = record({"step_s": MAYBE_NUMBER, "stalls": listed(OBJECT), "breakdown": listed(OBJECT),
    "warnings": listed(TEXT), "reproduce": TEXT},
                     more=True, description="What `lockstep explain -o json` prints.")
REPORT = record({"lockstep": TEXT, "verb": TEXT, "title": TEXT, "panels": listed(record({"kind": TEXT}, more=True)),
    "assumptions": listed(TEXT),
                 "warnings": listed(TEXT), "result": OBJECT}, more=True,
                description="The document that the page shows: panels, and in `result` the whole answer.")
PROGRESS = record({"gpus": NUMBER, "done": NUMBER, "all": NUMBER},
                  description="Of a plan: layouts of the present number of GPUs, decided and in all.")
JOB = record({"id": TEXT, "verb": {"enum": ["plan", "explain"]},
    "state": {"enum": ["waiting", "running", "done", "failed"]},
              "progress": {"oneOf": [PROGRESS, {"type": "null"}]}},
             {"status": {"type": "integer",
                 "description": "of HTTP: what a question that is waited for would have had"},
              "answer": {"anyOf": [ref("Plan"), ref("Explanation"), ref("Report")]}, "error": {**ref("ErrorText")}})
ERROR_TEXT = record({"where": TEXT, "what": TEXT, "remedy": TEXT, "text": TEXT},
                    description="`text` is the line that the command prints: \"where: what; remedy\".")
OPTION = record({"name": TEXT, "type": {"enum": ["refused", "boolean", "number", "count", "text", "choice",
    "text_or_object", "object", "content"]},
                 "integer": BOOL, "value": MAYBE_TEXT, "group": MAYBE_TEXT, "help": TEXT},
                {"low": NUMBER, "high": NUMBER, "choices": listed(TEXT)})
HEALTH = record({"status": {"enum": ["ok"]}, "version": TEXT, "data_date": TEXT, "running": NUMBER, "waiting": NUMBER,
    "upload_bytes": NUMBER})
MODEL = record({"name": TEXT, "family": TEXT, "params": NUMBER}, more=True)
GPU = record({"name": TEXT, "label": TEXT, "arch": TEXT, "memory_bytes": NUMBER}, more=True)

FORM = {"name": "form", "in": "query", "required": False, "schema": {"enum": ["result", "report", "picture"]},
        "description": "result (the default): what -o json prints; report: the document that the page shows; "
                       "picture: of a "
                       "prediction, the report without what takes further predictions (changes that would make it fit, "
                       "other rates)"}
PAGE = {"name": "page", "in": "query", "required": False, "schema": {"type": "string", "minLength": 1, "maxLength": 32},
        "description": "who asks: a newer question of the same page ends this one, which is then answered with 204"}
ID = {"name": "id", "in": "path", "required": True, "schema": TEXT}
LINE_EXAMPLE = "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 32".split()
STATED = record({"line": OBJECT, "network": BOOL,
    "command": {"anyOf": [record({"options": OBJECT, "launch": TEXT}), {"type": "null"}]}},
                description="`line`: the options that the line states; `network`: it states the network, in place of "
                "`model`; `command`: where a `lockstep predict` command was sent, its options and its launch line.")
JOB_EXAMPLE = {"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": 8, "gbs": 64, "seq": 4096}


def answers(good, *bad, schema=None):
    said = {400: "the request is wrong: a field, a value, a file", 401: "the token is missing or wrong",
            403: "a page of another site asks", 404: "there is no such job", 413: "the body is too large",
            415: "the body has another type", 421: "the server is not known by this name",
            422: "the question takes more time or memory than a question may",
            500: "the process that answers ended without one",
            503: "too many questions wait, or the disk is full"}
    out = {}
    for code, text in good.items():
        out[str(code)] = {"description": text}
        if schema and code != 204:
            out[str(code)]["content"] = {"application/json": {"schema": schema}}
    for code in bad:
        out[str(code)] = {"description": said[code], "content": {"application/json": {"schema": ref("Error")}}}
    return out


def json_body(name, example):
    return {"required": True, "content": {"application/json": {"schema": ref(name), "example": example}}}


def listing(summary, schema):
    return {"get": {"summary": summary, "responses": answers({200: "the list"}, 401, 403, 421, schema=schema)}}


def document(options, version):
    upload = record({"traces": {"type": "array", "items": {"type": "string", "format": "binary"},
        "description": "files, one per rank"}},
                    {"options": ref("ExplainOptions")}, )
    public = {"security": []}
    return {
        "openapi": "3.1.0",
        "info": {"title": "lockstep serve", "version": version, "license": {"name": "see LICENSE"},
                 "description": "Predicts, plans and explains distributed training. Fields have the names of the "
                                "options of `lockstep predict`, "
                                "`plan` and `explain`, and errors the text that those commands print."},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": {
            "/predict": {"post": {
                "summary": "Does it fit, how long is a step, where does the time go?", "parameters": [FORM, PAGE],
                "requestBody": json_body("PredictRequest", JOB_EXAMPLE),
                "responses": answers({200: "the prediction; one that does not fit has fits: false",
                    204: "a newer question of the same page came"}, 400, 401, 403, 413, 415, 421, 422, 500, 503,
                                     schema={"anyOf": [ref("Prediction"), ref("Report")]})}},
            "/launch": {"post": {
                "summary": "What a launch line, a script or a DeepSpeed config states, as fields of a prediction",
                "requestBody": json_body("PredictRequest", {"launch": LINE_EXAMPLE}),
                "responses": answers({200: "the fields"}, 400, 401, 403, 413, 415, 421, 422, 500, 503,
                                     schema=ref("Stated"))}},
            "/plan": {"post": {
                "summary": "Begins the search for the fastest layouts", "parameters": [FORM],
                "requestBody": json_body("PlanRequest", {**JOB_EXAMPLE, "gpus": "8"}),
                "responses": answers({202: "the job; look at /jobs/{id}"}, 401, 403, 413, 415, 421, 503,
                    schema=ref("Job"))}},
            "/explain": {"post": {
                "summary": "Begins to explain traces", "parameters": [FORM],
                "requestBody": {"required": True, "content": {"multipart/form-data": {
                    "schema": upload, "encoding": {"options": {"contentType": "application/json"}}}}},
                "responses": answers({202: "the job; look at /jobs/{id}"}, 400, 401, 403, 413, 415, 421, 503,
                    schema=ref("Job"))}},
            "/jobs/{id}": {
                "parameters": [ID],
                "get": {"summary": "How far a plan or an explanation is, and its answer",
                        "responses": answers({200: "the job"}, 401, 403, 404, 421, schema=ref("Job"))},
                "delete": {"summary": "Ends a job, or forgets it",
                    "responses": answers({204: "it is gone"}, 401, 403, 404, 421)}},
            "/models": listing("Models by name", listed(ref("Model"))),
            "/gpus": listing("GPUs by name", listed(ref("Gpu"))),
            "/options": listing("The fields of each question",
                {"type": "object", "additionalProperties": listed(ref("Option"))}),
            "/health": {"get": {"summary": "Whether the server is there, and how busy", **public,
                                "responses": answers({200: "it is"}, 403, 421, schema=ref("Health"))}},
            "/openapi.json": {"get": {"summary": "This document", **public,
                "responses": answers({200: "it"}, 403, 421, schema=OBJECT)}},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer",
                                          "description": "the token in the address that `lockstep serve` prints"}},
            "schemas": {
                "PredictRequest": request(options["predict"], True),
                "PlanRequest": request(options["plan"], True),
                "ExplainOptions": request(options["explain"], False),
                "Prediction": PREDICTION, "Plan": PLAN, "Explanation": EXPLANATION, "Report": REPORT, "Job": JOB,
                "Error": record({"error": ref("ErrorText")}), "ErrorText": ERROR_TEXT, "Option": OPTION,
                "Health": HEALTH, "Stated": STATED, "Model": MODEL, "Gpu": GPU,
            },
        },
    }


def main():
    os.environ["LOCKSTEP"] = sys.argv[1]
    from client import Server
    with Server() as server:
        options = server.json("GET", "/api/v1/options")[1]
        version = server.json("GET", "/api/v1/health")[1]["version"]
    text = json.dumps(document(options, version), indent=1, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[2:]:
        with open(PLACE, encoding="utf-8") as f:
            same = f.read() == text
        if not same:
            sys.exit("openapi.py: data/web/openapi.json is not what the option tables say; "
                     "run tools/openapi.py PROGRAM and build again")
        return
    with open(PLACE, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
