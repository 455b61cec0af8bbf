/* layout_bound.c: lower bounds of a simulated layout's time and memory (docs/method/planning.md,
 * "Plans").
 *
 * Stage s computes its own work, one thing after another; it cannot begin before the first
 * micro-batch has come through the stages before it, and if its last pass is the backward of its
 * first chunk, the gradients still have to go back through them:
 *
 *     body_s = sum over places before s of (F + message)  +  sum over passes of (F + B)
 *              +  the same way back
 *     step  >= max_s body_s  +  end of the step
 *
 * No stage ends before its launches, or before its traffic of sharded parameters. Memory is what a
 * stage holds throughout, plus what micro-batches leave on it when most are in flight. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/stats.h"
#include "step/step.h"
#include "model/build/build.h"
#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "plan/layout_places.h"

enum { FULL_AXIS = LK_AXIS + 8 };

struct body {
	double s, floor_s; /* compute and what blocks it; launches and traffic */
	double end_s[2];   /* end of the last pass on the first and on the last stage */
	double held[LK_SEEN];
	bool known;
};

typedef struct body recompute_bodies[2][2][3]; /* sp, overlap, sharding */

struct core_work {
	lk_bounder *b;
	lk_arena *arena;
	const lk_core *core;
	double limit_s; /* longer steps are of no interest */
	lk_layer_places lie;
	recompute_bodies *bodies; /* [FULL_AXIS] in the order in which layouts use them */
	lk_recompute_way recompute[FULL_AXIS];
	int recompute_count;
	struct {
		double bytes[LK_SEEN];
		bool known;
	} resident[2][4][2]; /* sp, sharding, offload */
	struct known_tail {
		lk_tail tail;
		bool known;
	} tails[2][2][4][2][2][2]; /* sp, overlap, sharding, gradients, parameters, offload */
	/* of the previous layout, from which the next one often differs only in overlap; body: NULL if
	 * its resident memory is already too large */
	struct {
		lk_layout layout;
		const struct body *body;
		double bytes, usable;
		bool known;
	} last;
	struct {
		lk_layout layout;
		lk_job job;
		bool known, legal;
	} asked; /* see bound_job_of */
};

/* Parts shared by similar cores. */
struct alike {
	lk_parts parts;
	bool known;
};
struct family {
	struct alike at[3][3][2][2][3]; /* passes, lk_recompute, sp, overlap, sharding */
};

static int sharding_class(int sharding) {
	return sharding < LK_SHARD_ZERO2 ? 0 : sharding - 1;
}

/* ---- one pass through a place ---- */

static void add_layers(lk_layer_part *sum, const lk_layer_part *prefix, int from, int to) {
	const lk_layer_part *a = &prefix[from], *b = &prefix[to];
	sum->forward_s += b->forward_s - a->forward_s;
	sum->backward_s += b->backward_s - a->backward_s;
	sum->weight_s += b->weight_s - a->weight_s;
	sum->input_s += b->input_s - a->input_s;
	sum->compute_forward_s += b->compute_forward_s - a->compute_forward_s;
	sum->compute_backward_s += b->compute_backward_s - a->compute_backward_s;
	sum->host_s += b->host_s - a->host_s;
	sum->traffic_s += b->traffic_s - a->traffic_s;
	sum->saved += b->saved - a->saved;
}

static void bound_add_end(lk_layer_part *sum, const lk_layer_part *end, double times) {
	sum->forward_s += times * end->forward_s;
	sum->backward_s += times * end->backward_s;
	sum->weight_s += times * end->weight_s;
	sum->input_s += times * end->input_s;
	sum->compute_forward_s += times * end->compute_forward_s;
	sum->compute_backward_s += times * end->compute_backward_s;
	sum->host_s += times * end->host_s;
	sum->traffic_s += times * end->traffic_s;
}

static lk_layer_part bound_at_place(const lk_layer_places *lie, const lk_parts *parts,
                                    const lk_job *job, int place) {
	lk_layer_part sum = {0};
	int first = lie->first[place], count = lie->count[place], again = 0;
	if (job->recompute == LK_RECOMPUTE_FULL)
		again = job->recompute_layers > 0 && job->recompute_layers < count ? job->recompute_layers
		                                                                   : count;
	add_layers(&sum, parts->sum[1], first, first + again);
	add_layers(&sum, parts->sum[0], first + again, first + count);
	if (place == 0) bound_add_end(&sum, &parts->embedding, 1);
	if (place == lie->places - 1) {
		bound_add_end(&sum, &parts->head, 1);
		bound_add_end(&sum, &parts->prediction, job->model.mtp_layers);
	}
	return sum;
}

/* ---- the body of a step ---- */

/* Whether concurrent passes hide what would block one of them. */
static bool paired(const lk_job *job) {
	return lk_job_dualpipe(job) || lk_job_pairs(job);
}

/* Whether the last pass of every stage is the backward of its first place. */
static bool drains(const lk_job *job) {
	return job->schedule == LK_SCHED_GPIPE || job->schedule == LK_SCHED_1F1B ||
	       job->schedule == LK_SCHED_INTERLEAVED;
}

static double forward_s(const lk_job *job, const lk_layer_part *part) {
	return paired(job) ? part->compute_forward_s : part->forward_s;
}

static double backward_s(const lk_job *job, const lk_layer_part *part) {
	return paired(job) ? part->compute_backward_s : part->backward_s;
}

/* `way_in`, `way_back` [places + 1]: time through the places before each one. */
static void bound_find_ways(const lk_layer_places *lie, const lk_job *job, const lk_layer_part *at,
                            double message_s, double *way_in, double *way_back) {
	way_in[0] = way_back[0] = 0;
	for (int k = 0; k < lie->places; k++) {
		way_in[k + 1] = way_in[k] + forward_s(job, &at[k]) + message_s;
		way_back[k + 1] = way_back[k] + backward_s(job, &at[k]) + message_s;
	}
}

/* Without overlap, every receiving pass waits for the whole message. */
static double waits_s(const lk_layer_places *lie, const lk_job *job, int place, double message_s) {
	if (job->pp == 1 || job->overlap_p2p == LK_ON || paired(job)) return 0;
	bool turn = lk_job_folds(job); /* neighbouring places on one rank */
	return turn ? 0 : ((place > 0) + (place < lie->places - 1)) * message_s;
}

/* Least time that pairing a pass of this place adds to both passes. Layers of a place pair with
 * those of another one by one: the time is known if they are all of the most frequent kind, and
 * recomputed alike. */
static double paired_at(const lk_layer_places *lie, const lk_parts *parts, const lk_job *job,
                        int place) {
	int first = lie->first[place], count = lie->count[place];
	double least = count ? INFINITY : 0;
	if (job->recompute == LK_RECOMPUTE_FULL && job->recompute_layers > 0) return 0;
	for (int i = first; i < first + count; i++) {
		least = fmin(least, parts->paired[i]);
	}
	return count * least;
}

static lk_status find_body(const lk_layer_places *lie, const lk_parts *parts, const lk_job *job,
                           lk_arena *arena, struct body *out, lk_error *err) {
	lk_layer_part *at = LK_ARRAY(arena, lk_layer_part, lie->places);
	double *way_in = LK_ARRAY(arena, double, lie->places + 1),
		   *way_back = LK_ARRAY(arena, double, lie->places + 1);
	bool dual = job->schedule == LK_SCHED_DUALPIPE;
	double times = dual ? job->microbatches / 2.0 : job->microbatches;
	if (!at || !way_in || !way_back) return lk_oom(err);
	for (int k = 0; k < lie->places; k++) at[k] = bound_at_place(lie, parts, job, k);
	bound_find_ways(lie, job, at, parts->message_s, way_in, way_back);
	for (int s = 0; s < job->pp; s++) {
		double work = 0, host = 0, traffic = 0, more = INFINITY;
		int lowest = lie->places;
		for (int c = 0; c < lie->chunks; c++) {
			int k = lie->place[s * lie->chunks + c];
			if (k < lowest) lowest = k;
			work += forward_s(job, &at[k]) + backward_s(job, &at[k]) +
			        waits_s(lie, job, k, parts->message_s);
			host += at[k].host_s;
			traffic += at[k].traffic_s;
			if (lie->pairs) more = fmin(more, paired_at(lie, parts, job, k));
		}
		double s_body = times * work + (lie->pairs ? lie->pairs * more : 0);
		if (!dual) s_body += way_in[lowest];
		if (lowest > 0 && waits_s(lie, job, lowest, parts->message_s) > 0)
			s_body -= parts->message_s; /* already in way_in */
		if (s == 0) out->end_s[0] = s_body;
		out->end_s[1] = s_body;
		out->s = fmax(out->s, s_body + (drains(job) ? way_back[lowest] : 0));
		out->floor_s = fmax(out->floor_s, times * fmax(host, traffic));
	}
	for (int i = 0; i < LK_SEEN; i++)
		for (int c = 0; lie->held[i] && c < lie->chunks; c++)
			out->held[i] += lie->held[i][c] * at[lie->place[lie->stage[i] * lie->chunks + c]].saved;
	if (drains(job)) out->end_s[0] = out->s; /* the last gradients end there */
	out->known = true;
	return LK_OK;
}

/* ---- shared by the layouts of a core ---- */

/* Whether a stage repeats the one before: with few stages, some of the three are the same. */
static bool is_seen(const lk_layer_places *lie, int i) {
	const int *stage = lie->stage;
	return i > 0 && stage[i] == stage[i - 1];
}

static void find_resident(const lk_layer_places *lie, const lk_job *job, double *bytes) {
	lk_builder builder;
	lk_graph frame; /* a graph to receive facts of the job that are not needed */
	memset(&frame, 0, sizeof frame);
	lk_build_begin(&builder, job, &frame, NULL);
	for (int i = 0; i < LK_SEEN; i++)
		bytes[i] = is_seen(lie, i) ? bytes[i - 1] : lk_build_resident_sum(&builder, lie->stage[i]);
}

static lk_ranks bound_ranks_of(const lk_job *job) {
	lk_builder builder;
	lk_graph frame;
	memset(&frame, 0, sizeof frame);
	lk_build_begin(&builder, job, &frame, NULL);
	return frame.ranks;
}

/* Combine body and tail. The all-reduce of the gradient norm waits for all stages; the reduction
 * before it only for its own stage. */
static double layout_bound_combine(const struct body *body, const lk_tail *tail) {
	double ends = fmax(body->end_s[0] + tail->before[0], body->end_s[1] + tail->before[1]);
	return fmax(fmax(body->s, ends), body->floor_s) + fmax(tail->after[0], tail->after[1]);
}

/* Round down by more than the simulation's rounding to picoseconds and to `float`. */
static float rounded_down(double seconds) {
	return nextafterf((float)(seconds * (1 - 1e-7)), 0);
}

/* ---- single jobs ---- */

static lk_status bound_job(lk_bounder *bounder, int stack, const lk_job *job, lk_arena *arena,
                           double *least_s, double *least_bytes, double *usable, lk_error *err) {
	lk_layer_places l;
	lk_parts parts;
	lk_tail tail;
	struct body one = {0};
	double resident[LK_SEEN], excess = -INFINITY;
	LK_TRY(lk_layer_places_find(bounder, job, arena, &l, err));
	LK_TRY(lk_parts_find(bounder, stack, job, false, NULL, arena, &parts, err));
	LK_TRY(lk_tail_find(bounder, stack, job, &tail, err));
	LK_TRY(find_body(&l, &parts, job, arena, &one, err));
	find_resident(&l, job, resident);
	*least_s = layout_bound_combine(&one, &tail);
	lk_ranks ranks = bound_ranks_of(job);
	for (int i = 0; i < LK_SEEN; i++) {
		double room, bytes = lk_memory_least(job, bounder->space->cluster, &ranks, l.stage[i],
		                                     resident[i], one.held[i], &room);
		if (bytes - room <= excess) continue;
		excess = bytes - room;
		*least_bytes = bytes;
		*usable = room;
	}
	return LK_OK;
}

lk_status lk_bound_job(lk_bounder *bounder, int stack, const lk_job *job, double *least_s,
                       double *least_bytes, double *usable, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = bound_job(bounder, stack, job, &arena, least_s, least_bytes, usable, err);
	lk_arena_free(&arena);
	return status;
}

/* ---- a closer bound: evaluate the schedule ----
 *
 * Layers take as long as their own operations leave one another resources, and every pass begins as
 * soon as its inputs are ready. The simulation adds only the contention between passes and messages
 * or traffic. */

static lk_status walk_body(const lk_layer_places *lie, const lk_parts *parts, const lk_job *job,
                           lk_arena *arena, struct body *out, lk_error *err) {
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	lk_pass_times times = {.message = parts->message_s, .waits = waits_s(lie, job, 1, 1) > 0};
	double *pass[4], *alone[2], *ends = LK_ARRAY(arena, double, job->pp),
								*more = LK_ARRAY(arena, double, lie->places);
	for (int i = 0; i < 2; i++)
		if (!(alone[i] = LK_ARRAY(arena, double, lie->places))) return lk_oom(err);
	for (int i = 0; i < 4; i++)
		if (!(times.pass[i] = pass[i] = LK_ARRAY(arena, double, lie->places))) return lk_oom(err);
	if (!ends || !more) return lk_oom(err);
	for (int k = 0; k < lie->places; k++) {
		lk_layer_part at = bound_at_place(lie, parts, job, k);
		pass[LK_PASS_F][k] = forward_s(job, &at);
		pass[LK_PASS_B][k] = backward_s(job, &at);
		pass[LK_PASS_BI][k] = at.input_s;
		pass[LK_PASS_W][k] = at.weight_s;
		alone[0][k] = at.forward_s;
		alone[1][k] = at.backward_s;
		more[k] = paired(job) ? paired_at(lie, parts, job, k) : 0;
	}
	if (paired(job)) { /* concurrent passes do not wait for their own messages; others do */
		times.paired = more;
		times.alone[LK_PASS_F] = alone[0];
		times.alone[LK_PASS_B] = alone[1];
	}
	LK_TRY(lk_schedule_walk(lk_schedule_get(job->schedule), &shape, &times, ends, err));
	for (int s = 0; s < job->pp; s++) out->s = fmax(out->s, ends[s]);
	out->end_s[0] = fmax(out->end_s[0], ends[0]);
	out->end_s[1] = fmax(out->end_s[1], ends[job->pp - 1]);
	return LK_OK;
}

/* `parts` are with contention. */
static lk_status walk_with(lk_bounder *bounder, int stack, const lk_job *job, const lk_parts *parts,
                           lk_arena *arena, double *least_s, lk_error *err) {
	lk_layer_places l;
	lk_tail tail;
	struct body one = {0};
	LK_TRY(paired(job) ? lk_layer_places_find(bounder, job, arena, &l, err)
	                   : lk_layer_places_split(job, arena, &l, err));
	LK_TRY(lk_tail_find(bounder, stack, job, &tail, err));
	LK_TRY(find_body(&l, parts, job, arena, &one, err));
	LK_TRY(walk_body(&l, parts, job, arena, &one, err));
	*least_s = layout_bound_combine(&one, &tail);
	return LK_OK;
}

lk_status lk_walk_job(lk_bounder *bounder, int stack, const lk_job *job, double *least_s,
                      lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_parts parts;
	lk_status status = lk_parts_find(bounder, stack, job, true, NULL, &arena, &parts, err);
	if (status == LK_OK) status = walk_with(bounder, stack, job, &parts, &arena, least_s, err);
	lk_arena_free(&arena);
	return status;
}

static lk_walked_key walked_key_of(const lk_core *core, const lk_layout *layout) {
	lk_walked_key key;
	memset(&key, 0, sizeof key); /* compared as bytes */
	key.core = *core;
	key.core.split = 0;
	key.core.first = 0;
	key.core.vp = core->vp > 1;
	key.recompute = layout->recompute;
	key.some_layers = layout->recompute_layers > 0;
	key.sp = layout->sp;
	key.tp_overlap = layout->tp_overlap;
	key.sharding = layout->sharding;
	return key;
}

/* The parts of a layout with contention, which take most of the time of a walk. */
static lk_status walked_parts(lk_bounder *bounder, const lk_core *core, const lk_layout *layout,
                              const lk_job *job, const lk_parts **out, lk_error *err) {
	const lk_walked_key key = walked_key_of(core, layout);
	lk_walked *known = &bounder->walked[lk_hash_bytes(0, &key, sizeof key) % LK_WALKED];
	*out = &known->parts;
	if (memcmp(&known->key, &key, sizeof key) == 0) return LK_OK;
	lk_arena_free(&known->arena);
	memset(known, 0, sizeof *known);
	LK_TRY(lk_parts_find(bounder, core->stack, job, true, NULL, &known->arena, &known->parts, err));
	known->key = key;
	return LK_OK;
}

static lk_status walk_layout(lk_bounder *bounder, const lk_core *core, const lk_layout *layout,
                             const lk_job *job, lk_arena *arena, double *least_s, lk_error *err) {
	const lk_parts *parts;
	LK_TRY(walked_parts(bounder, core, layout, job, &parts, err));
	return walk_with(bounder, core->stack, job, parts, arena, least_s, err);
}

lk_status lk_walk_layout(lk_bounder *bounder, const lk_core *core, const lk_layout *layout,
                         float *least_s, lk_error *err) {
	lk_job job;
	double walked_s = 0;
	*least_s = layout->least_s;
	if (lk_layout_job(bounder->space, core, layout, &job, NULL) != LK_OK)
		return LK_OK; /* refused when it is tried */
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = walk_layout(bounder, core, layout, &job, &arena, &walked_s, err);
	lk_arena_free(&arena);
	*least_s = fmaxf(layout->least_s, rounded_down(walked_s));
	return status == LK_ERR_INPUT ? LK_OK : status; /* more kinds of places than are simulated */
}

/* ---- all layouts of a core ---- */

static int recompute_index(struct core_work *work, const lk_layout *layout) {
	for (int i = 0; i < work->recompute_count; i++)
		if (work->recompute[i].kind == layout->recompute &&
		    work->recompute[i].layers == layout->recompute_layers)
			return i;
	LK_ASSERT(work->recompute_count < FULL_AXIS);
	memset(&work->bodies[work->recompute_count], 0, sizeof *work->bodies);
	work->recompute[work->recompute_count] =
		(lk_recompute_way){(lk_recompute)layout->recompute, layout->recompute_layers};
	return work->recompute_count++;
}

/* The job of a layout, completed once for all queries; NULL: completing refuses it, and the search
 * skips it. */
static const lk_job *bound_job_of(struct core_work *work, const lk_layout *layout) {
	if (!work->asked.known || memcmp(&work->asked.layout, layout, sizeof *layout) != 0) {
		work->asked.layout = *layout;
		work->asked.known = true;
		work->asked.legal =
			lk_layout_job(work->b->space, work->core, layout, &work->asked.job, NULL) == LK_OK;
	}
	return work->asked.legal ? &work->asked.job : NULL;
}

/* How passes run; layouts share parts accordingly. */
enum { WHOLE, SPLIT, PAIRED };

static struct alike *alike_with(struct family *family, const lk_layout *layout, int passes,
                                int recompute) {
	return &family->at[passes][recompute][layout->sp][layout->tp_overlap]
	                  [sharding_class(layout->sharding)];
}

/* The parts that layouts of the family with the same blocks share, with this recomputation. */
static struct alike *alike_of(const struct core_work *work, struct family *family,
                              const lk_layout *layout, int recompute) {
	const lk_job *job = &work->lie.job;
	int passes = lk_job_splits_backward(job) ? SPLIT : WHOLE;
	if (paired(job)) passes = PAIRED;
	return alike_with(family, layout, passes, recompute);
}

/* The same for passes that do not run in pairs, if pairs have the same layers; NULL: unknown. */
static const struct alike *alike_apart(const struct core_work *work, struct family *family,
                                       const lk_layout *layout, int recompute) {
	const struct alike *apart = alike_with(family, layout, WHOLE, recompute);
	bool same = paired(&work->lie.job) && !work->lie.job.delay_weights;
	return same && apart->known ? apart : NULL;
}

/* The core's job with a layout's recomputation and sharding: all switches that the body of a step
 * depends on, without completing it. */
static lk_job layout_outline(const struct core_work *work, const lk_layout *layout) {
	lk_job job = work->lie.job;
	job.recompute = (lk_recompute)layout->recompute;
	job.recompute_layers = layout->recompute_layers;
	job.sharding = (lk_sharding)layout->sharding;
	return job;
}

/* The body of a layout. A layout that completing refuses gets a bound like others if the blocks of
 * its family are known; it is refused when it is tried. */
static lk_status body_of(struct core_work *work, struct family *family, const lk_layout *layout,
                         const struct body **out, lk_error *err) {
	struct body *known = &work->bodies[recompute_index(work, layout)][layout->sp]
	                                  [layout->tp_overlap][sharding_class(layout->sharding)];
	struct alike *alike = alike_of(work, family, layout, layout->recompute);
	*out = known;
	if (known->known) return LK_OK;
	if (!alike->known) {
		const struct alike *plain = alike_of(work, family, layout, LK_RECOMPUTE_NONE);
		const lk_job *job = bound_job_of(work, layout);
		known->known = true; /* no bound: it is refused when it is tried */
		if (!job) return LK_OK;
		const struct alike *apart = alike_apart(work, family, layout, layout->recompute);
		int stack = work->core->stack;
		if (apart)
			LK_TRY(
				lk_parts_pair(work->b, stack, job, &apart->parts, work->arena, &alike->parts, err));
		else
			LK_TRY(lk_parts_find(work->b, stack, job, false, plain->known ? &plain->parts : NULL,
			                     work->arena, &alike->parts, err));
		alike->known = true;
	}
	lk_job outline = layout_outline(work, layout);
	return find_body(&work->lie, &alike->parts, &outline, work->arena, known, err);
}

static lk_status bound_tail_of(struct core_work *work, const lk_layout *layout, const lk_tail **out,
                               lk_error *err) {
	struct known_tail *of = &work->tails[layout->sp][layout->tp_overlap][layout->sharding]
	                                    [layout->grads][layout->params][layout->offload];
	bool *known = &of->known;
	lk_tail *tail = &of->tail;
	*out = tail;
	const lk_job *job = *known ? NULL : bound_job_of(work, layout);
	if (job) LK_TRY(lk_tail_find(work->b, work->core->stack, job, tail, err));
	*known = true;
	return LK_OK;
}

static const double *resident_of(struct core_work *work, const lk_layout *layout) {
	double *bytes = work->resident[layout->sp][layout->sharding][layout->offload].bytes;
	bool *known = &work->resident[layout->sp][layout->sharding][layout->offload].known;
	const lk_job *job = *known ? NULL : bound_job_of(work, layout);
	if (job) find_resident(&work->lie, job, bytes);
	*known = true;
	return bytes;
}

/* Memory of the stage with the least room, by its bound; `held` is what micro-batches leave. */
static double memory_of(struct core_work *work, const lk_layout *layout, const double held[LK_SEEN],
                        const lk_ranks *ranks, double *usable) {
	const double *resident = resident_of(work, layout);
	double most = 0, excess = -INFINITY;
	for (int i = 0; i < LK_SEEN; i++) {
		if (is_seen(&work->lie, i)) continue;
		double room, bytes = lk_memory_least(&work->lie.job, work->b->space->cluster, ranks,
		                                     work->lie.stage[i], resident[i], held[i], &room);
		if (bytes - room <= excess) continue;
		excess = bytes - room;
		most = bytes;
		*usable = room;
	}
	return most;
}

static bool is_closer(const lk_bounded *out, double bytes, double usable) {
	return !out->any || bytes - usable < out->closest_bytes - out->closest_usable;
}

static void note_closest(lk_bounded *out, const lk_layout *layout, double bytes, double usable) {
	if (!is_closer(out, bytes, usable)) return;
	out->any = true;
	out->closest = *layout;
	out->closest_bytes = bytes;
	out->closest_usable = usable;
}

/* Whether layouts of a core differ only in overlap of gradients and parameters. */
static bool keeps_as_much(const lk_layout *a, const lk_layout *b) {
	return a->recompute == b->recompute && a->recompute_layers == b->recompute_layers &&
	       a->sp == b->sp && a->tp_overlap == b->tp_overlap && a->sharding == b->sharding &&
	       a->offload == b->offload;
}

/* Whether layers alone exceed the time limit in any layout of the family: stages share them, and
 * the slowest has no less than their mean. Bubbles and messages are left out. */
static bool are_slow_layers(const struct core_work *work, const struct alike *alike) {
	const lk_job *job = &work->lie.job;
	const lk_parts *parts = &alike->parts;
	if (!alike->known) return false;
	const lk_layer_part *layers = &parts->sum[0][parts->layers], *head = &parts->head;
	double all_s = forward_s(job, layers) + backward_s(job, layers) + forward_s(job, head) +
	               backward_s(job, head);
	return all_s * job->microbatches / job->pp > work->limit_s;
}

/* Whether known parts prove that the layout exceeds the time limit: recomputing only adds to the
 * time of layers, and pairing only adds to their computation. */
static lk_status is_known_slow(struct core_work *work, struct family *family,
                               const lk_layout *layout, bool *slow, lk_error *err) {
	static const lk_tail no_tail;
	const struct alike *alike = alike_of(work, family, layout, layout->recompute);
	const struct body *body;
	*slow = false;
	if (isinf(work->limit_s)) return LK_OK;
	const struct alike *apart = alike_apart(work, family, layout, layout->recompute);
	*slow = are_slow_layers(work, alike) || (apart && are_slow_layers(work, apart)) ||
	        are_slow_layers(work, alike_of(work, family, layout, LK_RECOMPUTE_NONE));
	if (*slow || !alike->known) return LK_OK;
	LK_TRY(body_of(work, family, layout, &body, err));
	*slow = layout_bound_combine(body, &no_tail) > work->limit_s;
	return LK_OK;
}

/* Bound the memory. Layers are priced only for layouts whose resident memory leaves room for them,
 * or that may be the closest to fitting. */
static lk_status bound_memory(struct core_work *work, struct family *family,
                              const lk_layout *layout, const lk_ranks *ranks,
                              const lk_bounded *found, lk_error *err) {
	static const double nothing[LK_SEEN];
	work->last.layout = *layout;
	work->last.known = true;
	work->last.body = NULL;
	work->last.bytes = memory_of(work, layout, nothing, ranks, &work->last.usable);
	if (work->last.bytes > work->last.usable &&
	    !is_closer(found, work->last.bytes, work->last.usable))
		return LK_OK;
	LK_TRY(body_of(work, family, layout, &work->last.body, err));
	work->last.bytes = memory_of(work, layout, work->last.body->held, ranks, &work->last.usable);
	return LK_OK;
}

static lk_status bound_layout(struct core_work *work, struct family *family, lk_layout *layout,
                              const lk_ranks *ranks, lk_bounded *out, lk_error *err) {
	const lk_tail *tail;
	bool known_slow;
	LK_TRY(is_known_slow(work, family, layout, &known_slow, err));
	if (known_slow) {
		out->layouts++;
		out->too_slow++;
		return LK_OK;
	}
	if (!work->last.known || !keeps_as_much(&work->last.layout, layout))
		LK_TRY(bound_memory(work, family, layout, ranks, out, err));
	double bytes = work->last.bytes, usable = work->last.usable;
	out->layouts++;
	note_closest(out, layout, bytes, usable);
	if (bytes > usable) {
		out->too_large++;
		return LK_OK;
	}
	static const lk_tail no_tail;
	bool slow = layout_bound_combine(work->last.body, &no_tail) > work->limit_s;
	if (!slow) {
		LK_TRY(bound_tail_of(work, layout, &tail, err));
		layout->least_s = rounded_down(layout_bound_combine(work->last.body, tail));
		slow = layout->least_s > work->limit_s;
	}
	if (slow) {
		out->too_slow++;
		return LK_OK;
	}
	if (!lk_push(&out->kept)) return lk_oom(err);
	*lk_last(&out->kept) = *layout;
	return LK_OK;
}

static lk_status bound_core(struct core_work *work, struct family *family, uint32_t number,
                            lk_layouts *layouts, lk_bounded *out, lk_error *err) {
	lk_job job;
	if (lk_space_job(work->b->space, work->core, &job, NULL) != LK_OK) return LK_OK;
	LK_TRY(lk_layer_places_find(work->b, &job, work->arena, &work->lie, err));
	layouts->count = 0;
	LK_TRY(lk_space_switches(work->b->space, work->core, number, &job, layouts, err));
	lk_ranks ranks = bound_ranks_of(&job);
	for (size_t i = 0; i < layouts->count; i++)
		LK_TRY(bound_layout(work, family, &layouts->at[i], &ranks, out, err));
	return LK_OK;
}

lk_status lk_bound_cores(lk_bounder *bounder, const lk_core *cores, uint32_t first, int count,
                         double limit_s, lk_bounded *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_layouts layouts = {0};
	memset(out, 0, sizeof *out);
	struct family *family = LK_NEW(&arena, struct family);
	recompute_bodies *bodies = LK_ARRAY(&arena, recompute_bodies, FULL_AXIS);
	lk_status status = family && bodies ? LK_OK : lk_oom(err);
	for (int i = 0; i < count && status == LK_OK; i++) {
		struct core_work work = {
			.b = bounder, .arena = &arena, .core = &cores[i], .limit_s = limit_s, .bodies = bodies};
		status = bound_core(&work, family, first + (uint32_t)i, &layouts, out, err);
	}
	lk_vec_free(&layouts);
	lk_arena_free(&arena);
	return status;
}
