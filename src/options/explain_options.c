/* explain_options.c: the options of `lockstep explain`, as one table. */
#include "lockstep/explain.h"

#define AT(field) offsetof(lk_explain_request, field)

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};
const char *const lk_explain_tables[] = {
	"all",       "stalls", "breakdown", "steps", "overlap",  "communication", "stragglers",
	"stretches", "idle",   "kernels",   "queue", "launches", "roofline",      NULL,
};

static const lk_option options[] = {
	{"steps", 0, LK_OPTION_TEXT, AT(steps), false, 0, 0, NULL, "A-B", "What is looked at",
     "these steps, as 3-5 or 4; all: the whole trace, marked or not; default: every whole step"},
	{"rank", 0, LK_OPTION_INT, AT(rank), false, 0, 16777216, NULL, "N", NULL,
     "only this rank; the others say who waited for whom"},
	{"gpu", 'g', LK_OPTION_TEXT, AT(gpu), false, 0, 0, NULL, "NAME", "What it is held against",
     "GPU, in its usual nodes; not said: the one that the traces name"},
	{"cluster", 0, LK_OPTION_TEXT, AT(cluster), false, 0, 0, NULL, "TEXT|FILE", NULL,
     "instead: as for predict"},

	{"threads", 'j', LK_OPTION_INT, AT(threads), false, 1, 1024, NULL, "N", "Reading",
     "files read at a time; default: one per core"},

	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", "Output",
     "text, md, csv, json, jsonl or sqlite"},
	{"table", 0, LK_OPTION_CHOICE, AT(table), false, 0, 0, lk_explain_tables, "NAME", NULL,
     "one table: stalls, breakdown, steps, overlap, communication, stragglers, stretches, idle, "
     "kernels, queue, launches "
     "or roofline"},
	{"top", 0, LK_OPTION_INT, AT(top), false, 0, 1000000, NULL, "N", NULL,
     "so many stalls and kernels; 0 all; default 10"},
	{"file", 'f', LK_OPTION_TEXT, AT(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"trace", 0, LK_OPTION_TEXT, AT(trace), false, 0, 0, NULL, "FILE", NULL,
     "all ranks on one clock for a trace viewer: .json, .json.gz or .pftrace"},
	{"html", 0, LK_OPTION_TEXT, AT(html), false, 0, 0, NULL, "FILE", NULL,
     "a report with pictures: one page that needs no network"},
	{0},
};

static const char *const examples[] = {
	"lockstep explain traces/",
	"a folder with one trace per rank: where a step's time goes, what it waits for, which rank is "
	"late",
	"lockstep explain rank0.json.gz --steps 3-5 --top 20",
	"some steps of one rank",
	"lockstep explain rank*.json.gz -o csv --table stragglers",
	"one table as CSV",
	"lockstep explain rank0.json.gz --gpu h100-sxm --table roofline",
	"products and other operations of known shape against peak and memory bandwidth",
	"lockstep explain rank*.json.gz --trace merged.pftrace",
	"all ranks on one clock, for ui.perfetto.dev",
	NULL,
};

const lk_verb lk_explain_verb = {
	.name = "explain",
	.summary = "why is this run slow? From profiler traces of one or many ranks",
	.operands = "TRACE...",
	.description = "Measures where the time of the steps goes and ranks what costs it: exposed "
				   "communication, late ranks, late "
				   "launches, waits of the host for the device, data loading, copies. Times of "
				   "many ranks are put on one clock by "
				   "the common ends of their collectives; waiting for the last rank is told from "
				   "transfer. The step of median length "
				   "is lifted to a graph: its critical path, and by simulation what remedies would "
				   "be worth. With a GPU, named or in the "
				   "traces, operations of known shape are held against its peak and bandwidth, "
				   "collectives against the model's.\n"
				   "\n"
				   "Reads traces of torch.profiler (Kineto JSON, also compressed); a folder stands "
				   "for the traces in it.\n"
				   "\n"
				   "Measures and their names are those of HolisticTraceAnalysis (compute_time, "
				   "idle_time, host_wait, "
				   "comp_comm_overlap_pctg), tables of kernels look like those of nsys stats. With "
				   "--steps all the numbers can "
				   "be compared with HTA's.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_explain_request),
	.min_operands = 1,
	.max_operands = -1,
};
