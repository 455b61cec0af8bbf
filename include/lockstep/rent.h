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

/* Where machines and prices come from, and which of them. Texts are borrowed; NULL means "not
 * said". */
typedef struct lk_machines_request {
	const char *filter;   /* part of a GPU's or instance's name */
	const char *provider; /* "aws,lambda" */
	const char *region;   /* part of its name */
	const char *prices;   /* CSV of the form of data/instances.csv, instead of the built-in one */
	const char *catalog;  /* SkyPilot's vms.csv, instead; needs catalog_provider */
	const char *catalog_provider, *catalog_date;
	bool age; /* machines: how old each price is today */
} lk_machines_request;

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_rent_request {
	/* What is trained: model, seq, dtype, optimizer, ...; as in predict. The layout is searched as
	 * `plan` does. */
	lk_predict_request job;
	lk_machines_request machines;
	const char *batches;       /* global batch sizes, with commas */
	double tokens, samples;    /* of the whole training: one of them. Neither: as long as deadline
	                            * and budget allow, one of which is then needed */
	double epochs;             /* times the samples; 1 if not given */
	double deadline_h, budget; /* hours, US dollars; 0: none */
	int most_gpus;             /* of one choice; 0: as many as budget or deadline can need, 64
	                            * without them */
	bool spot;                 /* rent at spot prices */
	bool block;                /* or in blocks of whole days, paid ahead: AWS's capacity blocks */
	double interruptions;      /* of a spot machine per hour */
	double mtbf_h;             /* hours between failures of one machine; 0: none fails */
	double setup_min;          /* paid for before the first step: start, download, compilation */
	double prepare_per_core; /* samples per second that one vCPU prepares; 0: preparation is free */
	const char *stalls;      /* instead: what `lockstep stalls -o json` wrote of the job */
	int stalls_batch;        /* then: samples of a step of the measured job, over all ranks */
	int top;                 /* choices shown */
	double search_s;         /* the most seconds: the answer is of what is known by then; 0: any */
	const char *map; /* in place of all but deadline and budget: calls of functions, as "folds=5
	                  * repeats=100 learners=2 work=12s" (docs/guide/rent.md) */

	lk_search_progress *progress; /* NULL: nobody is told */
	void *progress_context;
} lk_rent_request;

/* A number of machines of one kind, with the layout that is fastest there. Costs are US dollars. */
typedef struct lk_rent_choice {
	const char *provider, *instance, *region, *gpu;
	int gpus_each, machines, gpus, batch;
	const char *layout, *reproduce;
	double step_s, step_low_s, step_high_s; /* with preparation; 80 % range */
	double hours, hours_low, hours_high;    /* of the whole training, interruptions counted */
	/* What is trained in these hours; where no length was given, the range is in it, not in hours
	 * and dollars. */
	double samples, samples_low, samples_high;
	double price; /* per machine and hour, as rented */
	double cost, cost_low, cost_high;
	const char *date, *source; /* of the price */
	const char *stall;  /* what costs most besides computing: "network", "interconnect", "pipeline",
	                       "preparation", ... */
	double stall_share; /* of the step */
	double goodput;     /* 1 where nothing fails or is taken away */
	lk_energy energy; /* training_kwh and what follows of all these hours; power_usd is the part of
	                   * cost that is power: 0 of machines that are rented */
	bool pareto;      /* no other choice is both cheaper and faster */
	bool in_time, in_budget;
	double chance;     /* of keeping to deadline and budget, as far as the range of the step and the
	                      number of failures tell: 0 to 1; NaN without either, or without a range */
	int gpus_searched; /* the most GPUs of this machine that were tried */
	const char *search_end; /* why no more: "limit", "budget", "deadline", "does not fit",
	                           "never fits", "interruptions", "network not stated", "no price",
	                           "buys less", "block": no more are sold together, "time": of search_s,
	                           "beaten": half the hours would not do */
} lk_rent_choice;

/* Functions of one size that a cloud runs on demand, at one level of scaling. */
typedef struct lk_rent_function {
	const char *platform, *level; /* "fit", "repetition": what a call does */
	int memory_mib;
	double calls, call_s;        /* of an instance that has started */
	double instances;            /* that start */
	double seconds, gib_s, cost; /* of the whole */
	bool pareto, in_time, in_budget;
} lk_rent_function;

/* The answer. Hours, US dollars. */
typedef struct lk_rent {
	const lk_rent_choice *choices; /* the best of each kind of machine and those of the front, by
	                                  cost; at most `top` + the front */
	int count;
	const lk_rent_function *functions; /* with map, fastest first: cheapest and fastest are of
	                                    * these then, and choices none */
	int function_count;
	int considered;    /* choices that fit in memory */
	int within_limits; /* of these, what keeps to deadline and budget. Where any does, `choices` has
	                    * no others */
	int cheapest;      /* in time (and budget); -1 none */
	int fastest;       /* in budget (and time); -1 none */
	int most;          /* without a length: trains most within deadline and budget; -1 none. Then
	                    * cheapest and fastest are -1 */
	/* Choices that may be cheaper than the cheapest, or train more than the most, as far as the
	 * ranges tell; of each kind of machine one. */
	const int *ties;
	int tie_count;
	const char *settle; /* the cheapest measurement that would settle it; NULL without ties */
	const char
		*nothing; /* where no choice meets both deadline and budget: what is nearest; else NULL */
	int gpus_searched;    /* the most GPUs of a choice that was tried */
	const char *cut_off;  /* as of a plan (plan.h) */
	bool search_complete; /* more GPUs cannot change `cheapest` and `fastest`; else --most-gpus, or
	                         the default without a budget, ended the search */
	const char *searched; /* how far the search went, in words */
	double deadline_h, budget;
	double samples;   /* of the whole training; NaN: no length was given */
	int seq;          /* tokens of a sample; 1: it is not counted in tokens */
	const char *unit; /* what a sample is: "sequence", "image" */
	const char *model;
	const char *warning;   /* what may make all of it wrong; NULL: nothing */
	const char *reproduce; /* the command that asks all of it again */
	const char *const *notes;
	int note_count;
	lk_inputs inputs;         /* the files that were read; reports name them by their content */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_rent;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_rent_defaults(lk_rent_request *request);
/* Searches every number of machines of every kind. That no choice keeps to deadline and budget is
 * an answer (`nothing` says what is nearest). LK_ERR_INPUT: no batch, tokens and samples, none of
 * tokens, samples, deadline and budget, a price list or a request that is wrong; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_rent_find(const lk_rent_request *request, lk_rent **out, lk_error *err);
/* Frees an answer with all that it points to; accepts NULL. */
void lk_rent_free(lk_rent *rent);

/* To `path` where it is not NULL, else to `out`; `format` is an lk_output (view.h). LK_ERR_INPUT
 * for a format without its path; LK_ERR_IO; LK_ERR_MEMORY. The keys of the JSON are in
 * docs/reference/schemas/rent.json. */
lk_status lk_rent_print(const lk_rent *rent, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err);

/* Sets every field to what holds where nothing is said. */
void lk_machines_defaults(lk_machines_request *request);
/* Prints the list, by GPU and price, US dollars per hour; rows of the source that cannot be are
 * named (with `verbose` all of them). To `path` where it is not NULL, else to `out`. LK_ERR_INPUT:
 * a filter that nothing meets, a list that is wrong; LK_ERR_IO. */
lk_status lk_machines_print(const lk_machines_request *request, int format, bool verbose,
                            bool colour, const char *path, FILE *out, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_rent_verb, lk_machines_verb;

#ifdef __cplusplus
}
#endif
#endif
