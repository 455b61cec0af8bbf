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
sys.path.insert(0, os.path.join(ROOT, "tools"))
import schemas

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
    "text": {"type": ["string", "number"]},
    "choice": TEXT,
    "text_or_object": {"type": ["string", "object"]},
    "object": OBJECT,
    "content": TEXT,
}
CONTENT = {"text_or_object": "; or the content of the JSON file as an object",
    "object": "; the content of the file as an object",
           "content": "; the content of the file as a text"}


def field(option, lists):
    form = dict(FORMS[option["type"]])
    if lists and option["list"] and option["type"] == "number":
        form["type"] = ["number", "string"]
    if option["integer"]: # also as a text with a suffix: "8k"
        form["type"] = ["integer", "string"]
    if "low" in option and (option["type"] == "number" or option["integer"]):
        form["minimum"], form["maximum"] = option["low"], option["high"]
    if "choices" in option:
        form["enum"] = option["choices"]
    # null is as if the field were not there
    form["type"] = [*(form["type"] if isinstance(form["type"], list) else [form["type"]]), "null"]
    if "enum" in form:
        form["enum"] = [*form["enum"], None]
    form["description"] = option["help"] + CONTENT.get(option["type"], "")
    if lists and option["list"]:
        form["description"] += "; or a comma list as a text"
        form.pop("enum", None)
    return form


def request(table, launch, lists=False):
    properties = {o["name"]: field(o, lists) for o in table if o["type"] != "refused"}
    if launch:
        properties["launch"] = {"type": ["array", "null"], "items": TEXT,
            "description": "words of a launch line, as they stand behind -- on the command line"}
    return {"type": "object", "properties": properties, "additionalProperties": False}


REPORT = record({"lockstep": TEXT, "verb": TEXT, "title": TEXT, "panels": listed(record({"kind": TEXT}, more=True)),
    "assumptions": listed(TEXT),
                 "warnings": listed(TEXT), "result": {"type": ["object", "null"]}}, more=True,
                description="The document that the page shows: panels, and in `result` the whole answer (null of a sweep).")
PROGRESS = record({"gpus": NUMBER, "done": NUMBER, "all": NUMBER},
                  description="Of a plan: layouts of the present number of GPUs, decided and in all; of a sweep "
                  "combinations, of rent machines and batches, with 0 GPUs.")
# name: what is asked with files
FILES = {"explain": "files, one per rank", "whatif": "traces, one per rank, or a step graph",
         "diff": "two files: the run before, then the run after",
         "stalls": "all files of a folder that lockstep record made, or text of darshan-parser; none with `model` and `machine`"}
# name: what is asked with fields alone
JOBS = {"sweep": "Begins to predict every combination of comma lists",
        "plan": "Begins the search for the fastest layouts",
        "rent": "Begins the search for machines to rent, by cost and time",
        "shard": "Begins to place embedding tables on GPUs"}
BEGIN = {"explain": "Begins to explain traces", "whatif": "Begins to simulate a step with something changed",
         "diff": "Begins to compare two profiled runs", "stalls": "Begins to estimate stalls from a recording, or to predict those of networks on machines; nothing is run"}
# Types of other documents have the shorter names.
ANSWERS = {"Plan": "plan", "Explanation": "explain", **{name.capitalize() + "Answer": name
           for name in ("rent", "shard", "whatif", "diff", "stalls")}}
JOB = record({"id": TEXT, "verb": {"enum": [*JOBS, *FILES]},
    "state": {"enum": ["waiting", "running", "done", "failed"]},
              "progress": {"oneOf": [PROGRESS, {"type": "null"}]}},
             {"status": {"type": "integer",
                 "description": "of HTTP: what a question that is waited for would have had"},
              "answer": {"anyOf": [ref("Report"), *(ref(name) for name in ANSWERS), listed(ref("Prediction"))]},
              "error": {**ref("ErrorText")}})
ERROR_TEXT = record({"where": TEXT, "what": TEXT, "remedy": TEXT, "text": TEXT},
                    description="`text` is the line that the command prints: \"where: what; remedy\".")
OPTION = record({"name": TEXT, "type": {"enum": ["refused", "boolean", "number", "count", "text", "choice",
    "text_or_object", "object", "content"]},
                 "integer": BOOL, "list": BOOL, "value": MAYBE_TEXT, "group": MAYBE_TEXT, "help": TEXT},
                {"file": {"type": "string", "description": "the name under which commands of answers have the content that is sent"},
                 "low": NUMBER, "high": NUMBER, "choices": listed(TEXT), "repeats": BOOL})
HEALTH = record({"status": {"enum": ["ok"]}, "version": TEXT, "data_date": TEXT, "running": NUMBER, "waiting": NUMBER,
    "upload_bytes": NUMBER})

def form_of(*more):
    said = "result (the default): what -o json prints; report: the document that the page shows"
    if more:
        said += ("; picture: the report without what takes further predictions (changes that would make it fit, other "
                 "rates); timeline: the events of the step in Chrome's trace format; graph: its step graph, as --graph "
                 "writes it")
    return {"name": "form", "in": "query", "required": False, "schema": {"enum": ["result", "report", *more]},
            "description": said}


PAGE = {"name": "page", "in": "query", "required": False, "schema": {"type": "string", "minLength": 1, "maxLength": 32},
        "description": "who asks: a newer question of the same page ends this one, which is then answered with 204"}
ID = {"name": "id", "in": "path", "required": True, "schema": TEXT}
LINE_EXAMPLE = "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 32".split()
STATED = record({"line": OBJECT, "network": BOOL,
    "command": {"anyOf": [record({"options": OBJECT, "launch": TEXT}), {"type": "null"}]}},
                description="`line`: the options that the line states; `network`: it states the network, in place of "
                "`model`; `command`: where a `lockstep predict` command was sent, its options and its launch line.")
EVENTS = record({"traceEvents": listed(OBJECT)}, more=True, description="A timeline in Chrome's trace format.")
GRAPH = record({"lockstep_graph": {"type": "integer"}}, more=True, description="A step graph.")
JOB_EXAMPLE = {"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": 8, "gbs": 64, "seq": 4096}


def components(**documents):
    """Documents of tools/schemas.py under the names of components, with the types that they use."""
    out = {}
    for component, name in documents.items():
        schema = schemas.document(name)
        out.update({key: value for key, value in schema.pop("$defs", {}).items()})
        if "anyOf" not in schema:
            out[component] = {key: value for key, value in schema.items() if key not in ("$schema", "title")}
    return json.loads(json.dumps(out).replace("#/$defs/", "#/components/schemas/"))


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
    def upload(name):
        return record({"traces": {"type": "array", "items": {"type": "string", "format": "binary"},
                                  "description": FILES[name]}}, {"options": ref(name.capitalize() + "Options")})

    def job(name):
        example = {"rent": {"model": "llama3.1-8b", "gbs": "64", "tokens": "1G", "provider": "lambda"},
                   "sweep": {**JOB_EXAMPLE, "gpus": "8,16"}, "plan": {**JOB_EXAMPLE, "gpus": "8"},
                   "shard": {"gpu": "h100-sxm", "gpus": 2, "tables": "name,rows,dim,pooling\na,100000,64,2\n"}}[name]
        return {"post": {
            "summary": JOBS[name], "parameters": [form_of()],
            "requestBody": json_body(name.capitalize() + "Request", example),
            "responses": answers({202: "the job; look at /jobs/{id}"}, 401, 403, 413, 415, 421, 503, schema=ref("Job"))}}

    def job_of_files(name):
        return {"post": {
            "summary": BEGIN[name], "parameters": [form_of()],
            "requestBody": {"required": True, "content": {"multipart/form-data": {
                "schema": upload(name), "encoding": {"options": {"contentType": "application/json"}}}}},
            "responses": answers({202: "the job; look at /jobs/{id}"}, 400, 401, 403, 413, 415, 421, 503,
                                 schema=ref("Job"))}}

    shard = request(options["shard"], False)
    shard["properties"]["tables"] = {"type": ["string", "null"], "description": "the lines of TABLES.csv"}
    public = {"security": []}
    return {
        "openapi": "3.1.0",
        "info": {"title": "lockstep serve", "version": version, "license": {"name": "see LICENSE"},
                 "description": "Predicts, plans and explains distributed training. Fields have the names of the "
                                "options of the commands of the same names, and errors the text that those print."},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": {
            "/predict": {"post": {
                "summary": "Does it fit, how long is a step, where does the time go?", "parameters": [form_of("picture", "timeline", "graph"), PAGE],
                "requestBody": json_body("PredictRequest", JOB_EXAMPLE),
                "responses": answers({200: "the prediction; one that does not fit has fits: false",
                    204: "a newer question of the same page came"}, 400, 401, 403, 413, 415, 421, 422, 500, 503,
                                     schema={"anyOf": [ref("Prediction"), ref("Report"), ref("Events"), ref("Graph")]})}},
            "/launch": {"post": {
                "summary": "What a launch line, a script or a DeepSpeed config states, as fields of a prediction",
                "requestBody": json_body("PredictRequest", {"launch": LINE_EXAMPLE}),
                "responses": answers({200: "the fields"}, 400, 401, 403, 413, 415, 421, 422, 500, 503,
                                     schema=ref("Stated"))}},
            **{"/" + name: job(name) for name in JOBS},
            **{"/" + name: job_of_files(name) for name in FILES},
            "/jobs/{id}": {
                "parameters": [ID],
                "get": {"summary": "How far a plan or an explanation is, and its answer",
                        "responses": answers({200: "the job"}, 401, 403, 404, 421, schema=ref("Job"))},
                "delete": {"summary": "Ends a job, or forgets it",
                    "responses": answers({204: "it is gone"}, 401, 403, 404, 421)}},
            "/models": listing("Models by name", ref("Table")),
            "/gpus": listing("GPUs by name", ref("Table")),
            "/machines": listing("Machines to rent, with list prices, by GPU and price", ref("Table")),
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
                "SweepRequest": request(options["predict"], True, lists=True),
                "RentRequest": request(options["rent"], False), "ShardRequest": shard,
                **{name.capitalize() + "Options": request(options[name], False) for name in FILES},
                **components(Prediction="predict", Table="table", **ANSWERS), "Events": EVENTS, "Graph": GRAPH, "Report": REPORT, "Job": JOB,
                "Error": record({"error": ref("ErrorText")}), "ErrorText": ERROR_TEXT, "Option": OPTION,
                "Health": HEALTH, "Stated": STATED,
            },
        },
    }


def main():
    os.environ["LOCKSTEP"] = sys.argv[1]
    schemas.load(sys.argv[1])
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
