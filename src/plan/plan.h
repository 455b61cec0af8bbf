/* plan.h: the search for the layout that a model trains fastest with. Private to plan/.
 *
 *   layout_space.c    the values of each degree and switch that a search looks at
 *   layout_cores.c    the degrees that go together, as cores
 *   layout_switches.c the switches of a core, as layouts
 *   layout_membership.c  whether a job is among them
 *   layout_unsearched.c  what is left out of them
 *   layout_parts.c    the blocks of a core's layers, built and priced once, for bounds
 *   layout_places.c   the placement of layers on stages, for bounds
 *   layout_bound.c    the least time and memory that a layout can have
 *   layout_least.c    the least work of a sample on a device, whatever the layout
 *   layout_search.c   bounds for all, simulation for those that could still be among the best
 *   layout_request.c  a layout as a request of predict
 *   layout_answer.c   the best ones in full: why not the others, sensitivity, Pareto front
 *   layout_nothing.c  what would fit where nothing does
 *   sites.c           several sites that synchronise now and then (DiLoCo)
 *   hierarchy_plan.c  a tree of clients that aggregate over levels: its answer (hierarchy.h)
 *
 * Time and memory of an answer are those of lk_step_ask and of nothing else. */
#ifndef LK_PLAN_PLAN_H
#define LK_PLAN_PLAN_H

#include "base/arena.h"
#include "base/vec.h"
#include "lockstep/plan.h"
#include "model/layout/schedule.h"
#include "options/number_words.h"
#include "step/step.h"
#include "system/cutoff.h"

enum { LK_AXIS = 64, LK_STACKS = 4, LK_WAYS = 16 };

/* Values of one degree or switch, in the order of trying. */
typedef struct lk_axis {
	int at[LK_AXIS];
	int count;
	bool said; /* given by the user: no heuristic removes any of them */
} lk_axis;

/* Bucket sizes that are not a number of MiB: the software's default for the job, and four times
 * that. */
enum { LK_BUCKET_USUAL = 0, LK_BUCKET_LARGE = -1 };

/* A way to recompute: the kind, and for full/N the layers of a stage; 0 layers: all. */
typedef struct lk_recompute_way {
	lk_recompute kind;
	int layers;
} lk_recompute_way;

typedef struct lk_recomputes {
	lk_recompute_way at[LK_AXIS];
	int count;
	bool said;
} lk_recomputes;

/* The search space of one number of GPUs. */
typedef struct lk_space {
	lk_job base; /* everything that is not searched; not completed */
	const lk_cluster *cluster;
	int gpus;
	char stacks[LK_STACKS][32];
	int stack_count;
	lk_axis tp, pp, vp, cp, ep, etp, mbs, schedule,
		zero; /* schedule: lk_schedule_kind; zero: lk_sharding */
	lk_recomputes recompute;
	lk_axis bucket; /* MiB, LK_BUCKET_USUAL or LK_BUCKET_LARGE */
	bool offload, fixed_switches, dispatcher_said;
	const char *framework;                  /* whose jobs alone are searched; NULL: any */
	bool no_tp, no_pp, no_vp, no_cp, no_ep; /* what was read has no key for the degree */
	bool auto_tp; /* of a trainer: DeepSpeed divides weights itself, not with ZeRO 3 */
	bool lacks[LK_STACKS][LK_SHARD_ZERO3 + 1]; /* shardings that it does not run */
	bool no_recompute[LK_RECOMPUTE_FULL + 1];  /* kinds that nothing of what was read states */
	bool any_software;                         /* no software is named: see lk_space_adds */
	bool usual_software;     /* of several, a layout has the one that runs it where none is named */
	double slowest_s;        /* layouts with a longer bound are of no interest */
	bool by_energy;          /* rank layouts by energy; else by time */
	int loss_layers;         /* multi-token prediction and the loss take as long as this many
	                            layers */
	double headroom;         /* share of memory to keep free; negative: as measured */
	bool recompute_quarters; /* full/N also for quarters of a stage */
	bool network_checked;    /* base.model has passed lk_model_check */
	int sampled;             /* one in this many families is tried before all are bounded */
} lk_space;

/* How layers are split over stages: by predict's default; with less on the last place, by the time
 * of the loss; with a layer less on the first as well. */
typedef enum lk_split { LK_SPLIT_USUAL, LK_SPLIT_LAST, LK_SPLIT_ENDS, LK_SPLITS } lk_split;

/* The degrees of a layout. */
typedef struct lk_core {
	int stack, schedule;
	int tp, pp, vp, cp, ep, etp, mbs;
	int split;      /* lk_split */
	uint32_t first; /* the core that differs from this one only in split: one of them is shown */
} lk_core;
typedef LK_VEC(lk_core) lk_cores_list;

/* A layout: a core and its switches. */
typedef struct lk_layout {
	uint32_t core;
	int recompute_layers;
	uint8_t recompute, sharding, sp, tp_overlap, grads, params, bucket, offload;
	float least_s; /* bound, rounded down */
} lk_layout;
typedef LK_VEC(lk_layout) lk_layouts;

/* layout_space.c, layout_cores.c, layout_switches.c, layout_membership.c */
lk_status lk_space_read(const lk_plan_request *request, const lk_asked *asked, lk_space *out,
                        lk_error *err);
/* Cores whose degrees divide as they must; lk_space_job tells whether a job can run at all.
 * Neighbours differ only in vp, schedule and split where possible. */
lk_status lk_space_cores(const lk_space *space, lk_cores_list *out, lk_error *err);
/* Whether two cores differ only in vp, schedule and split: then their layers are the same. */
bool lk_cores_alike(const lk_core *a, const lk_core *b);
/* The completed job of a core with default switches. */
lk_status lk_space_job(const lk_space *space, const lk_core *core, lk_job *out, lk_error *err);
/* All switches of a core; `job` is its completed job. */
lk_status lk_space_switches(const lk_space *space, const lk_core *core, uint32_t number,
                            const lk_job *job, lk_layouts *out, lk_error *err);
/* The completed job of a layout. */
lk_status lk_layout_job(const lk_space *space, const lk_core *core, const lk_layout *layout,
                        lk_job *out, lk_error *err);
/* Whether the search includes a job: its degrees and switches are among the values. *why: which one
 * is not. */
bool lk_space_holds(const lk_space *space, const lk_job *job, const char **why);
/* Whether a search for the job of a given run, with an open layout, would include the run's own. */
bool lk_layout_searched(const lk_job *job, const lk_cluster *cluster, const char **why);
/* Whether a stack runs a schedule by itself, so that it is searched without being named. */
bool lk_space_runs(const char *stack, lk_schedule_kind kind);
/* Whether groups of experts span more than a node. */
bool lk_space_wide_experts(const lk_space *space, int ep, int etp);
/* Whether a schedule that the software lacks is searched anyway, because it was published for
 * mixtures of experts that send tokens between nodes: if the groups of experts span nodes. */
bool lk_space_adds(const lk_space *space, lk_schedule_kind kind);
/* Whether a stack divides layers among ranks in jobs of this kind, as far as nobody asks it to;
 * whether it has pipelines. DDP does not, nor does any trainer of PyTorch that fine-tunes. */
bool lk_space_divides(const lk_space *space, const char *stack);
bool lk_space_pipelines(const lk_space *space, const char *stack);
/* Whether uneven stages are searched with a stack. */
bool lk_space_varies_split(const lk_space *space, int stack);
/* Whether a stack sends a copy of a token to each node instead of each expert: it is never slower,
 * so nothing else is searched. */
bool lk_space_sends_by_node(const lk_space *space, int stack);
/* Whether the stack's recipes overlap expert traffic with another micro-batch. */
bool lk_space_overlaps_experts(const lk_space *space, int stack);
/* layout_unsearched.c: list what is left out, with the options that add it. */
lk_status lk_space_unsearched(const lk_plan_request *request, const lk_space *space,
                              lk_arena *arena, const char *const **lines, int *count,
                              lk_error *err);
/* layout_space.c: the factor of a layout's step time in the ranking: above 1 if memory is tight. */
double lk_tight_factor(bool tight);
/* layout_space.c: "tp 8, pp 16, ..."; NULL when memory runs out. */
const char *lk_layout_text(lk_arena *arena, const lk_job *job);

/* layout_parts.c: time and memory of a core's layer. */
typedef struct lk_layer_part {
	double forward_s,
		backward_s; /* from compute operation to compute operation, blocking ones included */
	double compute_forward_s,
		compute_backward_s; /* compute operations only: all that remains next to a concurrent
		                       pass */
	double weight_s;        /* of the backward: weight gradients, if they are a pass of their own */
	double input_s;   /* the backward without them; if a schedule splits only some passes, weight_s
	                     is of compute operations only */
	double host_s;    /* launches of both */
	double traffic_s; /* of both, on the stream of data parallelism */
	double saved;     /* bytes that the forward leaves to the backward */
} lk_layer_part;

typedef struct lk_parts {
	int layers;
	lk_layer_part *sum[2]; /* [layers + 1] of the first i layers: as they are; checkpointed */
	double *paired;        /* [layers] for schedules with pairs: time of concurrent forward and
	                          backward beyond their compute operations; 0 for layers unlike most */
	lk_layer_part embedding, head,
		prediction;   /* one module of multi-token prediction with its head */
	double message_s; /* between stages */
} lk_parts;

enum {
	LK_HELD_KNOWN = 64,
	LK_HELD_CHUNKS = 16 /* stages of more chunks are not cached */
};

/* What a stage holds: the most micro-batches in flight of each chunk, and pairs of concurrent
 * passes. */
typedef struct lk_held {
	lk_schedule_shape shape; /* no stages: unused entry */
	int schedule, stage, pairs;
	int chunk[LK_HELD_CHUNKS];
} lk_held;

enum { LK_WALKED = 128 };

/* What decides the parts of a layout with contention between the operations of its layers: parts
 * are the same whatever the split, the number of chunks and the overlap of gradients. */
typedef struct lk_walked_key {
	lk_core core;
	int recompute, some_layers, sp, tp_overlap, sharding;
} lk_walked_key;

/* Parts of earlier layouts; no degrees: unused entry. */
typedef struct lk_walked {
	lk_walked_key key;
	lk_parts parts;
	lk_arena arena;
} lk_walked;

/* State that a thread of the search keeps between layouts. */
typedef struct lk_bounder {
	struct lk_bounder *next; /* next idle one of a search */
	const lk_space *space;
	lk_cost_cache *cache;
	lk_constants constants[LK_STACKS];
	bool known[LK_STACKS];
	lk_held held[LK_HELD_KNOWN];
	lk_walked walked[LK_WALKED];
	double bound_s, walk_s, try_s; /* processor time */
} lk_bounder;
void lk_bounder_begin(lk_bounder *bounder, const lk_space *space, lk_cost_cache *cache);
/* Free what it keeps, but not the cache. */
void lk_bounder_end(lk_bounder *bounder);
const lk_constants *lk_bounder_constants(lk_bounder *bounder, int stack, const lk_job *job);

/* Find the parts of a completed `job`. `contended`: forward and backward of layers with contention
 * between their operations. `plain`: parts of a job that recomputes nothing and has the same
 * layers, whose sums are shared; NULL: unknown. Sums that the job does not have may be left at
 * zero. */
lk_status lk_parts_find(lk_bounder *bounder, int stack, const lk_job *job, bool contended,
                        const lk_parts *plain, lk_arena *arena, lk_parts *out, lk_error *err);
/* The same for a job whose passes run in pairs: `apart` are the parts of the same job without
 * pairs, not contended. Layers are the same, but the separate times of input and weight gradients
 * are left out; only bounds of schedules need them. Not for jobs that delay weight gradients. */
lk_status lk_parts_pair(lk_bounder *bounder, int stack, const lk_job *job, const lk_parts *apart,
                        lk_arena *arena, lk_parts *out, lk_error *err);
/* The end of the step on the first and on the last stage, seconds: `before`: the remaining
 * reduction; `after`: from the gradient norm's all-reduce on, for which all stages wait. With the
 * optimizer on the host everything is in `before`. */
typedef struct lk_tail {
	double before[2], after[2];
} lk_tail;
lk_status lk_tail_find(lk_bounder *bounder, int stack, const lk_job *job, lk_tail *out,
                       lk_error *err);

/* layout_bound.c: the layouts of similar cores [0, count), with their bounds. Layouts that cannot
 * fit, or take longer than `limit_s`, are counted, not kept. `closest`: the layout that exceeds its
 * memory least, by its bound; its bytes and the device's. */
typedef struct lk_bounded {
	lk_layouts kept;
	uint64_t layouts, too_large, too_slow;
	bool any;
	lk_layout closest;
	double closest_bytes, closest_usable;
} lk_bounded;
lk_status lk_bound_cores(lk_bounder *bounder, const lk_core *cores, uint32_t first, int count,
                         double limit_s, lk_bounded *out, lk_error *err);
/* Bound one job. */
lk_status lk_bound_job(lk_bounder *bounder, int stack, const lk_job *job, double *least_s,
                       double *least_bytes, double *usable, lk_error *err);

/* A closer bound, some hundred times as slow: evaluates the job's schedule pass by pass. Never less
 * than that of lk_bound_job. */
lk_status lk_walk_job(lk_bounder *bounder, int stack, const lk_job *job, double *least_s,
                      lk_error *err);
/* The same for a layout, rounded down; never less than its present bound. */
lk_status lk_walk_layout(lk_bounder *bounder, const lk_core *core, const lk_layout *layout,
                         float *least_s, lk_error *err);

/* layout_search.c */
/* LK_CUT_SHORT: simulated until clearly over the limit; step_ps is then a lower bound. */
typedef enum lk_outcome {
	LK_UNKNOWN,
	LK_ILLEGAL,
	LK_TOO_LARGE,
	LK_SIMULATED,
	LK_CUT_SHORT
} lk_outcome;
typedef struct lk_trial {
	int64_t step_ps;
	int64_t rank_ps; /* ranking value: step_ps, or for energy lk_energy_full_s */
	double peak, usable;
	int32_t outcome;
	int32_t tight; /* so little memory stays free that it may run out */
	lk_step_habits habits;
} lk_trial;

typedef struct lk_ranked {
	lk_layout layout;
	lk_core core;
	lk_trial trial;
} lk_ranked;

typedef struct lk_hunt {
	lk_ranked *best; /* [best_count] best first, one per core, sharding and kind of recomputation */
	int best_count;
	lk_ranked closest;   /* without a best: the one nearest to fitting */
	bool any;            /* there are layouts at all */
	const char *cut_off; /* as in lk_plan */
	bool slower; /* without a best: every layout that may fit takes longer than the request's
	                slowest_s */
	uint64_t layouts, bounded, too_large, too_slow, schedules_walked, simulated, cut_short,
		found_too_large, untried;
	double bound_s, schedule_s, simulate_s;
} lk_hunt;
/* Run the search. `cutoff`: ignored until a layout fits; NULL: none. */
lk_status lk_hunt_run(const lk_plan_request *request, const lk_space *space,
                      const lk_cutoff *cutoff, lk_arena *arena, lk_hunt *out, lk_error *err);
/* The time that a layout has to beat, 0: any. One that is tight in memory has to be faster. */
typedef struct lk_time_to_beat {
	int64_t roomy_ps, tight_ps;
} lk_time_to_beat;
/* layout_try.c: simulate one layout as for all requests; if it is slower than the time to beat it
 * may be cut short, and is not simulated at all if its bound says so. `known`: findings of similar
 * layouts. */
lk_status lk_layout_try(lk_bounder *bounder, const lk_core *core, const lk_layout *layout,
                        lk_time_to_beat beat, lk_step_habits known, lk_trial *out, lk_error *err);
/* Run the tasks, by the team of the request or by threads. */
lk_status lk_plan_share(const lk_plan_request *request, size_t count, size_t size,
                        lk_plan_task *task, void *context, void *results, lk_error *err);
int lk_plan_top(const lk_plan_request *request);

/* layout_request.c: the request that makes predict use this layout; false when memory runs out. */
bool lk_layout_request(const lk_plan_request *request, const lk_space *space,
                       const lk_layout *layout, const lk_job *job, lk_arena *arena,
                       lk_predict_request *out);

/* layout_answer.c: fill the answer of one number of GPUs. Once `cutoff` is reached, exact times and
 * sensitivity are skipped, and *cut_off says why. */
lk_status lk_answer_count(const lk_plan_request *request, const lk_asked *asked,
                          const lk_space *space, const lk_cutoff *cutoff, const lk_hunt *hunt,
                          lk_arena *arena, lk_plan_count *out, const char **cut_off, lk_error *err);

/* layout_best.c: the fastest layout with the software's default switches, as a request that names
 * it; if nothing fits, *found is false. `layouts`: their number. */
lk_status lk_plan_best(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                       lk_predict_request *out, bool *found, uint64_t *layouts, lk_error *err);

void lk_answer_pareto(lk_plan_count *counts, int count);
/* layout_nothing.c: the smallest layout where none fits, and what would make it fit. */
lk_status lk_answer_nearest(const lk_plan_request *request, const lk_space *space,
                            const lk_hunt *hunt, lk_arena *arena, const char **out, lk_error *err);

/* ---- sites ---- */

/* The words of --aggregate without --tree. */
typedef struct lk_sites {
	double sites, bytes_per_s, latency_s; /* bandwidth and latency of a ring message, each way: of
	                                         the sites' own links, and of a network that joins
	                                         them */
	double every;                         /* steps between synchronisations; 0: determined by
	                                         busy */
	double bits;                          /* per weight; 0: try 32, 16, 8 and 4 */
	double fragments, overlap;            /* overlap: steps that a fragment may be in transit */
	double busy;                          /* share of the time that computes; 0: determined by
	                                         every */
} lk_sites;

/* Read words, and after "over" a network in the form of clusters, whose places are the sites.
 * LK_ERR_INPUT: a word is unknown, missing, or contradicts another. */
lk_status lk_sites_read(const char *text, lk_sites *out, lk_error *err);
/* The cost of synchronising this many parameters between sites whose own step takes step_s seconds;
 * tokens_per_s is left to the caller. */
lk_plan_sync lk_sites_sync(const lk_sites *sites, double bits, double parameters, double step_s);

/* ---- trees ---- */

struct lk_hierarchy_asked;

/* What trains on the tree, with the prediction for clients that state no step or batch. */
typedef struct lk_hierarchy_training {
	double parameters, step_s, batch; /* batch: samples of a step */
	double tokens_of_sample;          /* 1 if there are no tokens */
	double tokens;                    /* of the training; 0: not given */
} lk_hierarchy_training;

/* Read --tree, and --aggregate in its form; *out is NULL without --tree. LK_ERR_INPUT, LK_ERR_IO,
 * LK_ERR_MEMORY. */
lk_status lk_hierarchy_take(const lk_plan_request *request, lk_arena *arena,
                            struct lk_hierarchy_asked **out, lk_error *err);
/* Choose the way to aggregate. LK_ERR_MEMORY. */
lk_status lk_hierarchy_answer(struct lk_hierarchy_asked *asked,
                              const lk_hierarchy_training *training, const lk_cutoff *cutoff,
                              lk_arena *arena, const lk_plan_tree **out, const char **cut_off,
                              lk_error *err);

#endif
