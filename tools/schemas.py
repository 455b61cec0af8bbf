#!/usr/bin/env python3
"""schemas.py: the one table of the keys of JSON answers; writes docs/reference/schemas/ (JSON Schema, draft 2020-12).

    tools/schemas.py            writes them
    tools/schemas.py --check    says whether they are as they would be written

Types: bool, int, num, text, any; [T] an array; {key:T ...} an object; {*:T} an object with any keys; a capital letter names a type
of TYPES; "T?" may be null; "key?:T" may be absent; "A | B" is one of both. tools/openapi.py, python/tests and tests/cli take their
keys from here.
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(ROOT, "docs/reference/schemas")

TYPES = {
    "Part": "{label:text exposed_s:num hidden_s:num}",
    "Quantiles": "{label:text p50:num? p95:num? p99:num?}",
    "Stage": """{stage:int weights_bytes:num gradients_bytes:num optimizer_bytes:num activations_bytes:num logits_bytes:num
        workspace_bytes:num buffers_bytes:num allocated_bytes:num allocated_low_bytes:num? allocated_high_bytes:num?
        reserved_bytes:num context_bytes:num nccl_bytes:num total_bytes:num moment:text?}""",
    "Layout": """{text:text gpus:int tp:int pp:int vp:int cp:int ep:int dp:int mbs:int gbs:int seq:int microbatches:int
        recompute:text? dtype:text? schedule:text?}""",
    "Generation": """{sequences:int engines:int engine_gpus:int tokens:num tokens_per_s:num token_time_s:num longest_tokens:num
        cache_bytes:num token_bytes:num cache_tokens:num batch_room:num batch_most:num tail_s:num preempted:num fixed_s:num?
        exponential_s:num?}""",
    "Fix": "{change:text peak_bytes:num step_time_s:num time_ratio:num}",
    "Prediction": """{fits:bool peak_bytes:num usable_bytes:num fullest_stage:int step_time_s:num step_time_low_s:num?
        step_time_high_s:num? basis:text? tokens_per_s_per_gpu:num? samples_per_s:num unit:text model_tflops_per_gpu:num mfu:num?
        hfu:num? peak_flops:num? peak:text? days:num? gpu_hours:num? goodput:num? gpu_watts:num? site_watts:num?
        pue:num? step_kwh:num? training_kwh:num? carbon_kg:num? power_usd:num? breakdown:{*:Part}
        seeds:{count:int quantiles:{*:Quantiles}}? generation:Generation?
        phases:[{gpus:text phase:text start_s:num end_s:num}]? memory:[Stage] layout:Layout assumptions:[text]
        understood:[text] ignored:[text] fixes:[Fix] operations:int layer_operations:int ranks_simulated:int ranks:int
        searched:text? warning:text? reproduce:text model:text cluster:text asked?:{*:any}}""",
    "Refused": "{fits:any refused:text asked?:{*:any}}",
    "Choice": """{layout:text gpus:int tp:int pp:int vp:int cp:int ep:int etp:int dp:int mbs:int microbatches:int zero:int
        schedule:text recompute:text stack:text sequence_parallel:bool tp_overlap:bool overlap_grad_reduce:bool
        overlap_param_gather:bool offload:bool bucket_bytes:num step_time_s:num step_time_low_s:num? step_time_high_s:num?
        exact_s:num? peak_bytes:num usable_bytes:num tokens_per_s_per_gpu:num? mfu:num? days:num? gpu_hours:num?
        gpu_watts:num? site_watts:num? pue:num? step_kwh:num? training_kwh:num? carbon_kg:num? power_usd:num?
        breakdown:{*:num} tight:bool why_not:text? reproduce:text pareto:bool}""",
    "Tree": """{keeps:bool misses:text? bits:num step_s:num utilisation:num tokens_per_s:num bytes:num drift:num hours:num?
        total_bytes:num? clients:int left_out:[text] levels:[{nodes:int children:int every:int rounds:int bytes:num}]}""",
    "Function": """{platform:text level:text memory_mib:int calls:num call_s:num instances:num seconds:num gib_s:num cost_usd:num
        pareto:bool in_time:bool in_budget:bool}""",
    "Sync": "{bits:int every:int bytes:num sync_s:num stall_s:num utilisation:num tokens_per_s:num?}",
    "Count": """{gpus:int layouts:int bounded:int too_large:int too_slow:int schedules_walked:int simulated:int cut_short:int
        found_too_large:int untried:int nothing:text? in_fp8:text? choices:[Choice]
        sensitivity:[{cost:text factor:num step_time_s:num best:int}]}""",
    "Schedule": "{name:text directives:[text]}",
    "Value": """{id:int op:text name:text? dtype:text? operands:[int] shape:[text] layout:[text]? line:int column:int
        attributes?:text of?:text number?:num}""",
    "Interval": "{median:num low:num high:num}",
    "Found": "{time_s:num compute_s:num exposed_s:num memory_bytes:num gain:num measured:bool schedule:text? name?:text simulated_s?:num? step_s?:num step_memory_bytes?:num step_fits?:bool}",
    "Score": """{rows:int predicted:int skipped:int suspect:int scored:int geomean_error:num? macro_geomean_error:num? mape:num?
        median_error:num? p90_error:num? bias:num? kendall_tau:num? mean_top1_regret:num? coverage:num? rank_groups:int
        within_5:num? weighted_error:num? half_width:num? scaling_error:num? series:int parameters:int by?:text name?:text}""",
    "Run": "{step_s:num? step_deviation_s:num? step_count:int ranks:int warnings:[text]}",
    "Buckets": """{group:text? calls:num? bytes:num? per_call_s:num? per_byte_s:num? rest_s:num? error:num? sizes:int}""",
    "Rates": """{pipelined:bool ingestion:num? preparation:num? fetch:num? bytes:num? disk_bytes_per_s:num?
        memory_bytes_per_s:num? device_s:num? hidden_s:num? hit:num? workers:num? cores:num? busy:num? cores_to_hide:num?
        cache_to_hide:num? from:text?}""",
    "Parts": "{device_s:num own_s:num files_s:num transfer_s:num wait_s:num}",
    "Rent": """{provider:text instance:text region:text? gpu:text machines:int gpus:int batch:int layout:text? step_time_s:num?
        samples:num? samples_low:num? samples_high:num? tokens:num? hours:num hours_low:num? hours_high:num? price_usd_h:num
        cost_usd:num cost_low_usd:num? cost_high_usd:num? price_date:text? price_source:text? stall:text? stall_share:num?
        goodput:num? kwh:num? carbon_kg:num? power_usd:num? pareto:bool in_time:bool in_budget:bool chance:num? gpus_searched:int search_end:text? reproduce:text?}""",
}

# Every document: what prints it, and its keys; `schema`, `version` and `data_date` come first in all of them.
DOCUMENTS = {
    "predict": ("`predict -o json`; a sweep is an array of them, JSON lines have one a line", "Prediction | Refused"),
    "plan": ("`plan -o json`", """{model:text cluster:text gbs:int unit:text seq:int? tokens:num? reproduce:text warning:text? cut_off:text?
        assumptions:[text] not_searched:[text] syncs:[Sync] tree:Tree? counts:[Count]}"""),
    "explain": ("`explain -o json`; times of tables in nanoseconds", """{ranks:int world_size:int? step_count:int
        steps_annotated:bool step_s:num? step_deviation_s:num? lost_steps:int kernel_count:num clock_anchors:int
        clock_residual_max_s:num? gpu_watts:num? site_watts:num? pue:num? step_kwh:num? training_kwh:num? carbon_kg:num? power_usd:num?
        stalls:[Row] breakdown:[Row] steps:[Row] overlap:[Row] communication:[Row] stragglers:[Row] stretches:[Row] idle:[Row]
        kernels:[Row] queue:[Row] launches:[Row] roofline:[Row] critical_path:[{kind:text seconds:num}]
        critical_step:int? critical_step_s:num? diagnosis:text
        actions:[{stall:text what:text lost_s:num gain_s:num? most_s:num change:text how:text}] caveat_count:int
        warnings:[text] reproduce:text}"""),
    "replay": ("`replay -o json`", """{summary:{held_out:text times_from:text geomean_error:num? baseline_error:num? predicted:int
        parts_error:num? worst_part:text? operations:int collectives:int clock_residual_us:num? device_known_shape:num?}
        execution_traces?:{modelled:int timed:int uncovered:int nothing:int hosts:int host_times:int host_times_by_mean:int} ranks:[{rank:int path:text steps:[{number:int measured_us:num predicted_us:num? baseline_us:num?
        left_out:text? host_known:num? device_known:num? parts:[{name:text measured_us:num predicted_us:num?}]}]}]
        uncovered:[text] notes:[text] warnings:[text]}"""),
    "whatif": ("`whatif -o json`", """{source:text traced:bool changes:[{change:text sets:[text] refused:text? gpus:int?
        batch:num? step_time_s:num? vs_base:num? scaling_efficiency:num? uncertainty:num? compute_s:num? exposed_s:num? hidden_s:num?
        other_s:num? samples_per_s:num? cluster:text? notes:[text]}] notes:[text] reproduce:text}"""),
    "diff": ("`diff -o json`", """{before:Run after:Run ratio:num? ratio_deviation:num? verdict:text sentence:text
        categories:[Row] kernels:[Row] reproduce:text}"""),
    "validate": ("`validate -o json`", """{summary:Score groups:[Score] baselines:[Score] folds:text? rows:[{id:text predicted:num?
        measured:num? unit:text? error:num? low:num? high:num? reason:text? scored:bool part:text? stack:text? release:text?
        model:text? gpu:text? gpus:int? layout:text? precision:text?}] command:text}"""),
    "calibrate": ("`calibrate KIND -o json`", """{rows:[{family:text subject:text? variant:text? numbers:{*:num?} points:int
        error:num? date:text source:text?}] command:text}"""),
    "collective": ("`collective -o json`", """{op:text library:text gpus:int nodes:int cluster:text fabric:text?
        mean_busbw_GBps:num? error:num? notes:[text] rows:[{size_bytes:num count:num time_us:num algbw_GBps:num busbw_GBps:num
        algo:text? proto:text? channels:int? limit:text? time_low_us:num? time_high_us:num? measured_us?:num measured_busbw_GBps?:num? ratio?:num? flag?:text?}]}"""),
    "stalls": ("`stalls -o json`", """{status:int ranks:int hosts:int steps:int first_step_s:num? step_s:num? step_low_s:num?
        step_high_s:num? base:text? rounds:int rounds_left_out:int drift:{low:num? high:num? trend:num?}
        staging:{size:num used:num files:int unknown:int read_s:num gain_s:num bound_s:num}?
        lead:{first:text second:text low_s:num? high_s:num? rounds_needed:num? apart:bool} parts?:[Row] runs?:[Row]
        by_rank?:[Row] buckets?:[Row] what_if?:[Row] files?:[Row] folders?:[Row] against?:[Row]
        communication:Buckets rates:Rates notes:[text] reason:text?
        reproduce:text}"""),
    "compose": ("`compose -o json`", """{program:text? cluster:text world:int nodes:int ranks_per_node:int step_s:num step_low_s:num
        step_high_s:num first_step_s:num? parts:Parts operations:int messages_measured:int notes:[text] classes:[{rank:int
        path:text ranks:int stands_for:text? steps:int unlike:int calls:int bytes:num own_s:num own_low_s:num? own_high_s:num?
        asleep_s:num? device_s:num? device_low_s:num? device_high_s:num? beside_s:num? parts:Parts}]}"""),
    "shard": ("`shard -o json`", """{fits:bool reason:text? sharder:text? cut_off:text? step_s:num? placed_s:num? bound_s:num? gap:num?
        imbalance:num? index_s:num? forward_s:num? exchange_s:num? dense_s:num? backward_s:num? reduce_s:num? batch:int tables:int
        table_bytes:num capacity_bytes:num host_capacity_bytes:num ranks:[Row] pieces:[Row] sharders:[Row] model:text?
        cluster:text basis:text? reproduce:text}"""),
    "rent": ("`rent -o json`", """{model:text warning:text? samples:num? unit:text? deadline_h:num? budget_usd:num? considered:int within_limits:int
        gpus_searched:int cut_off:text? search_complete:bool searched:text? choices:[Rent] functions:[Function] cheapest:int? fastest:int? most:int? ties:[int]
        settle:text? nothing:text? reproduce:text notes:[text]}"""),
    "jobs": ("`jobs -o json`", """{gpus:int gpu:text? load:num? cut_off:text? predictions:int policies:[{policy:text mean_s:num? median_s:num?
        p95_s:num? wait_s:num? makespan_s:num? used:num? restarts:int done:int ratio:num?}] jobs:[{job:text model:text? user:text?
        group:text? submit_s:num samples:num? gpus:int batch:int samples_per_s:num? rates:[{gpus:int batch:int samples_per_s:num}]
        courses:{*:{start_s:num? end_s:num? gpu_s:num? restarts:int most_gpus:int}}}] energy:{policy:text nodes:int boot_s:num
        penalty:num node_hours:num wait_s:num? used:num? points:[{buffer_nodes:int node_hours:num saved:num longer_s:num? used:num?
        wakeups_a_day:num nodes_woken:num best:bool}]}? notes:[text]}"""),
    "simulate": ("lockstep.simulate of Python, `lk_simulate_print`", """{step_time_s:num ranks:int ranks_simulated:int
        operations_run:num cluster:text? programs:[{name:text rank:int finish_s:num peak_bytes:num compute_s:num exposed_s:num
        hidden_s:num}]}"""),
    "table": ("`devices`, `models`, `machines` and `doctor`, and of any verb with `--table`: a table by rows", "{table:text rows:[Row]}"),
    "version": ("`--version -o json`", "{commit:text? features:{*:bool}}"),
    "compile-check": ("`compile check -o json`",
        "{file:text programs:[{name:text mesh:[text] conditions:[text] schedules:[Schedule]}]}"),
    "compile-print": ("`compile print -o json`",
        "{file:text programs:[{name:text mesh:[text] conditions:[text] schedules:[Schedule] values:[Value]}]}"),
    "compile-rewrite": ("`compile rewrite -o json`",
        "{file:text programs:[{name:text mesh:[text] conditions:[text] schedules:[Schedule] values:[Value]}]}"),
    "compile-run": ("`compile run -o json`", """{program:text schedule:text ranks:int sizes:text seed:int arithmetic:text
        results:[{name:text type:text tensors:int elements:num extents:[int] digest:text least?:real mean?:real most?:real
        first:[real] values?:[any]}]}"""),
    "compile-compare": ("`compile run --compare DIR -o json`", """{program:text schedule:text? near_ties:int decided_otherwise:int
        results:[{name:text agrees:bool absolute:real relative:real of_bound:real elements:int beyond_bound:int
        by_measure:int not_comparable:int}]}"""),
    "compile-verify": ("`compile verify -o json`", """{program:text schedules:[{schedule:text equal:bool where?:text draws:int meshes:int
        tried:text? left_out:int degree:int chance:num? choices:int ulps:num?}]}"""),
    "compile-tune": ("`compile tune -o json`", """{program:text cluster:text warnings:[text] search:{remembered:bool programs:int
        again:int refused:int complete:bool cut_off:text?} plain:Found schedules:[Found] file:[Found]
        step:{path:text as_it_is_s:num memory_bytes:num usable_bytes:num simulated:int refused:int refused_because?:text}?
        measurement:{schedules:int rounds:int tau:num? tau_pairs:int faster_than_plain:bool gain:Interval simulated_first_gain:Interval}? verified?:{equal:bool where?:text draws:int meshes:int degree:int
        chance:num? choices:int}}"""),
    "compile-bench": ("`compile bench -o json`: measured on this machine, so that it differs from run to run", """{program:text
        ranks:int rounds:int spread:num? tau:num? tau_pairs:int schedules:[{name:text seconds:Interval ratio:Interval
        sent_bytes:num between_groups_bytes:num touched_bytes:num agrees:bool? predicted:num? rounds:[num]}]}"""),
}

SIMPLE = {"bool": "boolean", "int": "integer", "num": "number", "text": "string", "real": ["number", "string"]}
ROW = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
TOKEN = re.compile(r"\s*([A-Za-z_][\w-]*\??:|\*:|[A-Za-z]\w*|[\[\]{}?|])")


class Reader:
    """Types of the notation above as schemas."""

    def __init__(self, text):
        self.tokens, self.at = TOKEN.findall(text), 0
        if "".join(self.tokens) != re.sub(r"\s", "", text):
            raise ValueError("not a type: " + text)
        self.used = set()

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def type(self):
        token = self.take()
        if token == "[":
            schema = {"type": "array", "items": self.type()}
            assert self.take() == "]"
        elif token == "{":
            schema = self.object()
        elif token in SIMPLE:
            schema = {"type": SIMPLE[token]}
        elif token == "any":
            schema = {}
        else:
            self.used.add(token)
            schema = {"$ref": "#/$defs/" + token}
        if self.peek() == "?":
            self.take()
            if "type" in schema and isinstance(schema["type"], str):
                schema["type"] = [schema["type"], "null"]
            else:
                schema = {"anyOf": [schema, {"type": "null"}]}
        return schema

    def object(self):
        schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        while self.peek() != "}":
            key = self.take()[:-1]
            if key == "*":
                schema = {"type": "object", "additionalProperties": self.type()}
                continue
            name = key.rstrip("?")
            schema["properties"][name] = self.type()
            if key == name:
                schema["required"].append(name)
        self.take()
        return schema

    def alternatives(self):
        found = [self.type()]
        while self.peek() == "|":
            self.take()
            found.append(self.type())
        return found


def definitions(names):
    """The named types that `names` need, each once."""
    defs, left = {}, sorted(names)
    while left:
        name = left.pop(0)
        if name in defs:
            continue
        if name == "Row":
            defs[name] = ROW
            continue
        reader = Reader(TYPES[name])
        defs[name] = reader.type()
        left += sorted(reader.used)
    return dict(sorted(defs.items()))


# Of an answer whose check of its own consistency failed, alone.
FAILED = {"checked": {"const": False}, "failed_check": {"type": "string"}}


def head(name, version):
    return {"schema": {"const": f"lockstep/{name}/{version}"}, "version": {"type": "string"}, "data_date": {"type": "string"}}


def with_head(schema, name, version):
    return {**schema, "properties": {**head(name, version), **FAILED, **schema["properties"]},
            "required": [*head(name, version), *schema["required"]]}


def document(name, version=1):
    """The schema of one document."""
    what, text = DOCUMENTS[name]
    reader = Reader(text)
    forms = reader.alternatives()
    defs = definitions(reader.used)
    top = [form["$ref"].rsplit("/", 1)[1] for form in forms if "$ref" in form]
    for form in top:
        defs[form] = with_head(defs[form], name, version)
    body = {"anyOf": forms} if len(forms) > 1 else with_head(forms[0], name, version)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"lockstep/{name}/{version}",
            "description": "What is printed by " + what + ".", **body, **({"$defs": defs} if defs else {})}


def files():
    return {name + ".json": json.dumps(document(name), indent="\t") + "\n" for name in DOCUMENTS}


def main():
    wrong = []
    for name, text in files().items():
        path = os.path.join(PLACE, name)
        if "--check" in sys.argv:
            if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
                wrong.append(name)
            continue
        os.makedirs(PLACE, exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    extra = set(os.listdir(PLACE)) - set(files())
    if wrong or extra:
        sys.exit("docs/reference/schemas: run tools/schemas.py; not as the table has it: " + ", ".join([*wrong, *sorted(extra)]))


if __name__ == "__main__":
    main()
