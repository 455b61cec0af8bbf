/* rent.h: which machines to rent for a training, by cost and time; and the list of machines.
 *
 *     lk_rent_request request;
 *     lk_rent_defaults(&request);
 *     request.job.model = "llama3.1-8b", request.batches = "512", request.job.seq = 8192;
 *     request.tokens = 100e9, request.deadline_h = 240;
 *     lk_rent *rent;
 *     lk_error err;
 *     if (lk_rent_find(&request, &rent, &err) != LK_OK) ...
 *     rent->choices[rent->cheapest].instance ...
 *     lk_rent_free(rent); */
#ifndef LOCKSTEP_RENT_H
#define LOCKSTEP_RENT_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/predict.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The source of machines and prices, and a selection. Texts are borrowed; NULL: not given. */
typedef struct lk_machines_request {
	const char *filter;   /* part of a GPU's or instance's name */
	const char *provider; /* "aws,lambda" */
	const char *region;   /* part of its name */
	const char *prices;   /* CSV in the form of data/instances.csv, instead of the built-in one */
	const char *catalog;  /* alternative: SkyPilot's vms.csv; needs catalog_provider */
	const char *catalog_provider, *catalog_date;
	bool age; /* machines: show the age of each price */
} lk_machines_request;

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_rent_request {
	/* The job: model, seq, dtype, optimizer, ...; as in predict. The layout is searched as in
	 * `plan`. */
	lk_predict_request job;
	lk_machines_request machines;
	const char *batches;       /* global batch sizes, separated by commas */
	double tokens, samples;    /* of the whole training: one of them. Neither: as long as deadline
	                            * and budget allow, one of which is then required */
	double epochs;             /* number of passes over the samples; default 1 */
	double deadline_h, budget; /* hours, US dollars; 0: none */
	int most_gpus;             /* of one choice; 0: as many as budget or deadline can need, 64
	                            * without them */
	bool spot;                 /* rent at spot prices */
	bool block;                /* or in prepaid blocks of whole days: AWS's capacity blocks */
	double interruptions;      /* per spot machine and hour */
	double mtbf_h;             /* hours between failures of one machine; 0: no failures */
	double setup_min;          /* paid time before the first step: start, download, compilation */
	double prepare_per_core;   /* samples per second that one vCPU prepares; 0: preparation costs
	                            * nothing */
	const char *stalls; /* alternative: the output of `lockstep stalls -o json` for the job */
	int stalls_batch;   /* with it: samples per step of the measured job, over all ranks */
	int top;            /* choices shown */
	double search_s;    /* most seconds: the answer is the best found by then; 0: no limit */
	const char *map; /* instead of everything but deadline and budget: function calls, as "folds=5
	                  * repeats=100 learners=2 work=12s" (docs/guide/rent.md) */

	lk_search_progress *progress; /* NULL: no progress reports */
	void *progress_context;
} lk_rent_request;

/* A number of machines of one kind, with their fastest layout. Costs are US dollars. */
typedef struct lk_rent_choice {
	const char *provider, *instance, *region, *gpu;
	int gpus_each, machines, gpus, batch;
	const char *layout, *reproduce;
	double step_s, step_low_s, step_high_s; /* including preparation; 80 % range */
	double hours, hours_low, hours_high;    /* of the whole training, including interruptions */
	/* Samples trained in these hours; if no length was given, the range is in them, not in hours
	 * and dollars. */
	double samples, samples_low, samples_high;
	double price; /* per machine and hour, in the chosen form */
	double cost, cost_low, cost_high;
	const char *date, *source; /* of the price */
	const char *stall;         /* the largest cost besides computing: "network", "interconnect",
	                              "pipeline", "preparation", ... */
	double stall_share;        /* of the step */
	double goodput;            /* 1 without failures and interruptions */
	lk_energy energy; /* training_kwh and derived values for all these hours; power_usd is the power
	                   * part of the cost: 0 for rented machines */
	bool pareto;      /* no other choice is both cheaper and faster */
	bool in_time, in_budget;
	double chance;     /* probability of meeting deadline and budget, from the range of the step and
	                      the number of failures: 0 to 1; NaN without either limit, or without a
	                      range */
	int gpus_searched; /* most GPUs of this machine that were tried */
	const char *search_end; /* why no more: "limit", "budget", "deadline", "does not fit", "never
	                           fits", "interruptions", "network not stated", "no price", "buys
	                           less", "block": no more are sold together, "time": search_s,
	                           "beaten": even half the hours would not suffice */
} lk_rent_choice;

/* Functions of one size that a cloud runs on demand, at one level of scaling. */
typedef struct lk_rent_function {
	const char *platform, *level; /* "fit", "repetition": the work of a call */
	int memory_mib;
	double calls, call_s;        /* on a started instance */
	double instances;            /* started instances */
	double seconds, gib_s, cost; /* in total */
	bool pareto, in_time, in_budget;
} lk_rent_function;

/* The answer. Hours, US dollars. */
typedef struct lk_rent {
	const lk_rent_choice *choices; /* the best of each kind of machine and those on the Pareto
	                                  front, by cost; at most `top` + the front */
	int count;
	const lk_rent_function *functions; /* with map, fastest first: cheapest and fastest then refer
	                                    * to these, and choices is empty */
	int function_count;
	int considered;    /* choices that fit in memory */
	int within_limits; /* those that meet deadline and budget. If any do, `choices` has no others */
	int cheapest;      /* within the deadline (and budget); -1: none */
	int fastest;       /* within the budget (and deadline); -1: none */
	int most;          /* without a length: trains most within deadline and budget; -1: none. Then
	                    * cheapest and fastest are -1 */
	/* Choices that, within their ranges, may be cheaper than the cheapest, or train more than the
	 * most; one per kind of machine. */
	const int *ties;
	int tie_count;
	const char *settle; /* the cheapest measurement that would decide; NULL without ties */
	const char
		*nothing; /* if no choice meets both deadline and budget: the nearest miss; else NULL */
	int gpus_searched;    /* most GPUs of a choice that was tried */
	const char *cut_off;  /* as in a plan (plan.h) */
	bool search_complete; /* more GPUs cannot change `cheapest` and `fastest`; else --most-gpus, or
	                         the default without a budget, ended the search */
	const char *searched; /* extent of the search, in words */
	double deadline_h, budget;
	double samples;   /* of the whole training; NaN: no length was given */
	int seq;          /* tokens of a sample; 1: not counted in tokens */
	const char *unit; /* unit of a sample: "sequence", "image" */
	const char *model;
	const char *warning;   /* what may invalidate everything; NULL: nothing */
	const char *reproduce; /* the command that reproduces it */
	const char *const *notes;
	int note_count;
	lk_inputs inputs;         /* the files read; reports identify them by content */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_rent;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_rent_defaults(lk_rent_request *request);
/* Search every number of machines of every kind. If no choice meets deadline and budget, that is an
 * answer (`nothing` states the nearest miss). LK_ERR_INPUT: no batch, both tokens and samples, none
 * of tokens, samples, deadline and budget, an invalid price list or request; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_rent_find(const lk_rent_request *request, lk_rent **out, lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_rent_free(lk_rent *rent);

/* Write to `path`, or to `out` if it is NULL; `format` is an lk_output (view.h). LK_ERR_INPUT:
 * the format needs a path; LK_ERR_IO; LK_ERR_MEMORY. The keys of the JSON are in
 * docs/reference/schemas/rent.json. */
lk_status lk_rent_print(const lk_rent *rent, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err);

/* Set every field to its default. */
void lk_machines_defaults(lk_machines_request *request);
/* Print the list, by GPU and price, US dollars per hour, to `path`, or to `out` if it is NULL;
 * invalid rows of the source are named (all of them with `verbose`). LK_ERR_INPUT: a filter without
 * matches, an invalid list; LK_ERR_IO. */
lk_status lk_machines_print(const lk_machines_request *request, int format, bool verbose,
                            bool colour, const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_rent_verb, lk_machines_verb;

#ifdef __cplusplus
}
#endif
#endif
