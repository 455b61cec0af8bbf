/* whatif.h: the gain of a change of a step: for the verb `whatif`, and for `explain`, which uses it
 * for remedies.
 *
 *     lk_whatif_base *base;
 *     LK_TRY(lk_whatif_begin(graph, &site, &base, err));
 *     double seconds;
 *     const char *change = "overlap=on";
 *     LK_TRY(lk_whatif_worth(base, &change, 1, &seconds, err));
 *     lk_whatif_end(base); */
#ifndef LK_WHATIF_WHATIF_H
#define LK_WHATIF_WHATIF_H

#include "graph/edit/edit.h"
#include "lockstep/whatif.h"
#include "step/step.h"

/* Hardware and software on which the graph ran, or was predicted to run. */
typedef struct lk_whatif_site {
	lk_cluster cluster;
	const char *stack, *release; /* whose profile applies; NULL: the graph's own */
	bool cuda_graphs, compiled;
	bool no_contention;
	uint32_t run_ranks; /* of the run, if a graph was lifted from traces of some of them; 0: those
	                       of the graph */
	const char *data_parallel; /* names of teams, comma separated; NULL: found from what they do */
	double replay_error;       /* of the base against the measurement, as a share; 0 unknown */
} lk_whatif_site;

/* A change under construction. Keys fill it, in the order of their table. */
typedef struct lk_scenario {
	const lk_whatif_site *site;
	const lk_cluster *before;
	uint32_t before_ranks; /* of the graph */
	lk_arena *arena;
	lk_edit edit;
	lk_cluster cluster;
	lk_cluster wired; /* before a change of its network; groups 0: unchanged */
	lk_dtype dtype;   /* the profile's format */
	bool cuda_graphs;
	double launch; /* factor on the host's time for launches */
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
	bool ranks;    /* changes the number of ranks */
	bool measured; /* changes times as they were measured: on which device does not matter */
} lk_whatif_key;
extern const lk_whatif_key lk_whatif_keys[];
extern const int lk_whatif_key_count;

/* A key with its value. */
typedef struct lk_whatif_set {
	const lk_whatif_key *key;
	const char *what, *value; /* `what` NULL if the key has none */
	const char *text;         /* "nic=2x", as the user wrote it */
} lk_whatif_set;

/* Read "KEY=VALUE"; for a list every value becomes a set. An unknown key is an error that suggests
 * the nearest. */
typedef LK_VEC(lk_whatif_set) lk_whatif_sets;
lk_status lk_whatif_parse(lk_arena *arena, const char *text, lk_whatif_sets *out, lk_error *err);

/* Refuse two sets that set the same thing. */
lk_status lk_whatif_check_twice(const lk_whatif_set *a, const lk_whatif_set *b, lk_error *err);

typedef struct lk_whatif_base lk_whatif_base;

/* Price and simulate a copy of the unchanged graph. */
lk_status lk_whatif_begin(const lk_graph *graph, const lk_whatif_site *site, lk_whatif_base **out,
                          lk_error *err);
/* The same with the graph itself, of which the base takes ownership, also on errors. */
lk_status lk_whatif_begin_own(lk_graph *graph, const lk_whatif_site *site, lk_whatif_base **out,
                              lk_error *err);
void lk_whatif_end(lk_whatif_base *base);
double lk_whatif_base_seconds(const lk_whatif_base *base);
/* The number of the trace's operations of unknown shape. */
uint32_t lk_whatif_stand_ins(const lk_whatif_base *base);

/* Ranks of the whole run if a graph holds some of them; `before`: the number it held before the
 * change. */
int lk_whatif_ranks(const lk_graph *graph, uint32_t before, const lk_whatif_site *site);

/* An outcome. `step` holds graph, costs and events; free with lk_whatif_outcome_free in every
 * case. */
typedef struct lk_whatif_outcome {
	lk_step step;
	lk_cluster cluster; /* in step.arena */
	double compute_s, exposed_s, hidden_s,
		other_s;        /* of the step, mean over programs: compute, exposed communication,
		                   communication overlapped with compute, the rest */
	double uncertainty; /* a share of the step: an expected error, not a bound */
	const char **notes; /* of step.arena */
	size_t note_count;
} lk_whatif_outcome;

/* Simulate all sets together; their order does not matter. Without sets: the base. */
lk_status lk_whatif_try(const lk_whatif_base *base, const lk_whatif_set *sets, size_t count,
                        lk_whatif_outcome *out, lk_error *err);
/* Simulate the base with the end of its step replaced by the graph of a program
 * (graph/edit/edit.h). */
lk_status lk_whatif_try_update(const lk_whatif_base *base, const lk_graph *update,
                               lk_whatif_outcome *out, lk_error *err);
void lk_whatif_outcome_free(lk_whatif_outcome *outcome);
/* Seconds that changes "KEY=VALUE" together take off the step. */
lk_status lk_whatif_worth(const lk_whatif_base *base, const char *const *texts, int count,
                          double *seconds, lk_error *err);

/* Add to `seconds`, from events of one program: compute, exposed communication, communication
 * overlapped with compute. */
lk_status lk_whatif_split(const lk_graph *graph, const lk_sim_event *events, size_t count,
                          double seconds[3], lk_error *err);

/* ---- whatif_price.c ---- */

/* Price the edited graph. `learn`: it is the base: keep the models' times of each operation. */
lk_status lk_whatif_price(lk_scenario *scenario, bool learn, lk_costs *out, lk_error *err);
/* Give the trace's operations of unknown shape one that takes as long; *count: their number. */
lk_status lk_whatif_stand_in(lk_scenario *scenario, uint32_t *count, lk_error *err);
/* The rule of docs/method/traces.md, "What-if". */
double lk_whatif_uncertainty(const lk_scenario *scenario, const lk_costs *costs,
                             const lk_ranks *before, double network_share, double step_s);
/* Cost variant of a program's chain 0. */
uint32_t lk_whatif_variant(const lk_graph *graph, const lk_costs *costs, uint32_t stage);

/* ---- whatif_files: the step of an answer, for writing files. */

/* With all changes together; owned by the answer. Its graph is NULL if they are impossible. */
const lk_step *lk_whatif_step(const lk_whatif *whatif);

#endif
