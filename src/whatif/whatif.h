/* whatif.h: what a change of a step would be worth: for the verb `whatif`, and for `explain`, which
 * asks it of remedies.
 *
 *     lk_whatif_base *base;
 *     LK_TRY(lk_whatif_begin(graph, &site, &base, err));
 *     double seconds;
 *     LK_TRY(lk_whatif_worth(base, "overlap=on", &seconds, err));
 *     lk_whatif_end(base); */
#ifndef LK_WHATIF_WHATIF_H
#define LK_WHATIF_WHATIF_H

#include "graph/edit/edit.h"
#include "lockstep/whatif.h"
#include "step/step.h"

/* Where and with what software the graph ran, or was predicted to run. */
typedef struct lk_whatif_site {
	lk_cluster cluster;
	const char *stack, *release; /* whose profile holds; NULL: the graph's own */
	bool cuda_graphs, compiled;
	bool no_contention;
	uint32_t run_ranks; /* of the run, where a graph was lifted from traces of some of them; 0:
	                       those of the graph */
	const char *data_parallel; /* names of teams, comma separated; NULL: found from what they do */
	double replay_error;       /* of the base against what was measured, a share; 0 not known */
} lk_whatif_site;

/* A change while it is put together. Keys fill it, in the order of their table. */
typedef struct lk_scenario {
	const lk_whatif_site *site;
	const lk_cluster *before;
	uint32_t before_ranks; /* of the graph */
	lk_arena *arena;
	lk_edit edit;
	lk_cluster cluster;
	lk_cluster wired; /* before its network was changed; groups 0: it was not */
	lk_dtype dtype;   /* that the profile is of */
	bool cuda_graphs;
	double launch; /* factor on what the host spends on launches */
	LK_VEC(lk_straggler) stragglers;
	bool *mask; /* [teams] data parallel */
	LK_VEC(const char *) notes;
} lk_scenario;

/* One kind of change: `--set NAME=VALUE`, or NAME:WHAT=VALUE. */
typedef struct lk_whatif_key {
	const char *name;
	bool list; /* a comma separates values to try */
	bool what; /* a name follows: "op:NAME=0.8x" */
	lk_status (*apply)(lk_scenario *s, const char *what, const char *value, lk_error *err);
	const char *form, *help;
	bool ranks; /* changes how many */
} lk_whatif_key;
extern const lk_whatif_key lk_whatif_keys[];
extern const int lk_whatif_key_count;

/* A key with its value. */
typedef struct lk_whatif_set {
	const lk_whatif_key *key;
	const char *what, *value; /* `what` NULL where the key takes none */
	const char *text;         /* "nic=2x", as it was written */
} lk_whatif_set;

/* Reads "KEY=VALUE"; of a list every value becomes a set. An unknown key is an error that names the
 * nearest. */
typedef LK_VEC(lk_whatif_set) lk_whatif_sets;
lk_status lk_whatif_parse(lk_arena *arena, const char *text, lk_whatif_sets *out, lk_error *err);

/* Two sets that cannot hold together because they set the same thing. */
lk_status lk_whatif_check_twice(const lk_whatif_set *a, const lk_whatif_set *b, lk_error *err);

typedef struct lk_whatif_base lk_whatif_base;

/* Prices and simulates the graph as it is; it is copied. */
lk_status lk_whatif_begin(const lk_graph *graph, const lk_whatif_site *site, lk_whatif_base **out,
                          lk_error *err);
/* The graph itself, which belongs to the base from then on, also on errors. */
lk_status lk_whatif_begin_own(lk_graph *graph, const lk_whatif_site *site, lk_whatif_base **out,
                              lk_error *err);
void lk_whatif_end(lk_whatif_base *base);
double lk_whatif_base_seconds(const lk_whatif_base *base);
/* Operations of the trace whose shape was not known. */
uint32_t lk_whatif_stand_ins(const lk_whatif_base *base);

/* Ranks of the whole run where a graph holds some of them; `before`: how many it held before it was
 * changed. */
int lk_whatif_ranks(const lk_graph *graph, uint32_t before, const lk_whatif_site *site);

/* What came out. `step` holds graph, costs and events; free with lk_whatif_outcome_free in every
 * case. */
typedef struct lk_whatif_outcome {
	lk_step step;
	lk_cluster cluster; /* of step.arena */
	double compute_s, exposed_s, hidden_s,
		other_s;        /* of the step, mean over programs: compute, communication that
	                       nothing hides, communication alongside compute, the rest */
	double uncertainty; /* a share of the step: an expected error, no bound */
	const char **notes; /* of step.arena */
	size_t note_count;
} lk_whatif_outcome;

/* All sets together; their order does not matter. None: the base. */
lk_status lk_whatif_try(const lk_whatif_base *base, const lk_whatif_set *sets, size_t count,
                        lk_whatif_outcome *out, lk_error *err);
/* The base with the end of its step replaced by the graph of a program (graph/edit/edit.h). */
lk_status lk_whatif_try_update(const lk_whatif_base *base, const lk_graph *update,
                               lk_whatif_outcome *out, lk_error *err);
void lk_whatif_outcome_free(lk_whatif_outcome *outcome);
/* Seconds that the step gets shorter by "KEY=VALUE". */
lk_status lk_whatif_worth(const lk_whatif_base *base, const char *text, double *seconds,
                          lk_error *err);

/* Adds to `seconds`, of events of one program: computing, communication alone, communication beside
 * computing. */
lk_status lk_whatif_split(const lk_graph *graph, const lk_sim_event *events, size_t count,
                          double seconds[3], lk_error *err);

/* ---- whatif_price.c ---- */

/* Costs of the graph under edit. `learn`: it is the base: keeps what the models say of each
 * operation. */
lk_status lk_whatif_price(lk_scenario *scenario, bool learn, lk_costs *out, lk_error *err);
/* Operations of traces whose shape is not known get one that takes as long: how many. */
lk_status lk_whatif_stand_in(lk_scenario *scenario, uint32_t *count, lk_error *err);
/* The rule of docs/method/traces.md, "What-if". */
double lk_whatif_uncertainty(const lk_scenario *scenario, const lk_costs *costs,
                             const lk_ranks *before, double network_share, double step_s);
/* Cost variant of a program's chain 0. */
uint32_t lk_whatif_variant(const lk_graph *graph, const lk_costs *costs, uint32_t stage);

/* ---- whatif_files: the step of an answer, for what is written of it. */

/* Of all changes together; owned by the answer. Its graph is NULL where they cannot be made. */
const lk_step *lk_whatif_step(const lk_whatif *whatif);

#endif
