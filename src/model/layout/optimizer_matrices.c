/* optimizer_matrices.c: the matrices of a stage as Muon, SOAP and Shampoo see them, and the state
 * kept for them (docs/method/step.md, "Optimizers on matrices"). */
#include "model/layout/sizes.h"

#include <math.h>

#include "base/check.h"
#include "base/sort.h"

enum {
	SOAP_SIDE = 10000, /* max_precond_dim of the authors' code */
	SHAMPOO_SIDE = 8192,
	STATISTICS = 8 /* bytes: the statistics and what is derived from them, fp32 */
};

/* A matrix as this rank works on it: whole for Muon unless --muon-tp-mode is blockwise, otherwise
 * the part that a tensor-parallel rank holds. */
static lk_rank_matrix matrix_held(const lk_job *job, const lk_matrix *matrix) {
	double ranks = matrix->expert ? job->etp : job->tp;
	bool cut = matrix->cut != LK_CUT_NONE && ranks > 1;
	bool whole = job->optimizer == LK_OPT_MUON && job->muon_tp != LK_MUON_BLOCKWISE;
	lk_rank_matrix held = {.out = matrix->out,
	                       .in = matrix->in,
	                       .count = matrix->expert ? matrix->count / job->ep : matrix->count,
	                       .parts = 1,
	                       .cut = matrix->cut,
	                       .expert = matrix->expert};
	if (cut && whole) held.parts = ranks;
	if (cut && !whole) *(matrix->cut == LK_CUT_OUT ? &held.out : &held.in) /= ranks;
	if (job->optimizer == LK_OPT_SHAMPOO) {
		double down = ceil(held.out / SHAMPOO_SIDE), across = ceil(held.in / SHAMPOO_SIDE);
		held.out /= down, held.in /= across;
		held.count *= down * across;
	}
	return held;
}

static void matrices_add(const lk_job *job, const lk_matrix *matrix, double times,
                         lk_rank_matrices *list) {
	lk_rank_matrix held = matrix_held(job, matrix);
	held.count *= times;
	for (int i = 0; i < list->count; i++) {
		lk_rank_matrix *known = &list->at[i];
		if (known->out != held.out || known->in != held.in || known->parts != held.parts ||
		    known->cut != held.cut || known->expert != held.expert)
			continue;
		known->count += held.count;
		return;
	}
	LK_ASSERT(list->count < LK_RANK_MATRICES);
	if (list->count < LK_RANK_MATRICES) list->at[list->count++] = held;
}

static void add_layer_matrices(const lk_job *job, int layer, double times, lk_rank_matrices *list) {
	lk_matrices of_layer;
	lk_model_matrices(&job->model, layer, lk_job_like_megatron(job), &of_layer);
	for (int i = 0; i < of_layer.count; i++)
		if (!of_layer.at[i].bundle || !lk_optimizer_of(job)->hidden)
			matrices_add(job, &of_layer.at[i], times, list);
}

static void add_end(const lk_job *job, lk_rank_matrices *list) {
	lk_matrix rows = {
		.out = job->padded_vocab, .in = job->model.hidden, .count = 1, .cut = LK_CUT_OUT};
	if (job->padded_vocab > 0) matrices_add(job, &rows, 1, list);
}

static double layers_between(const lk_job *job, int first, int count, lk_rank_matrices *list) {
	for (int i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count && lk_layer_repeats(&job->model, first + next);) next++;
		add_layer_matrices(job, first + i, next - i, list);
	}
	return count;
}

static void add_ends(const lk_job *job, int stage, lk_rank_matrices *list) {
	bool first = lk_sizes_has_embedding(job, stage), last = lk_sizes_has_head(job, stage);
	lk_job tower;
	if (first && lk_job_tower(job, &tower) && lk_job_trains_tower(job))
		layers_between(&tower, 0, tower.model.layers, list);
	if (last && job->model.mtp_layers > 0) {
		lk_matrix join = {
			.out = job->model.hidden, .in = 2.0 * job->model.hidden, .count = 1, .cut = LK_CUT_OUT};
		add_layer_matrices(job, job->model.layers - 1, job->model.mtp_layers, list);
		matrices_add(job, &join, job->model.mtp_layers, list);
	}
	if (lk_optimizer_of(job)->hidden) return;
	if (first) add_end(job, list);
	if (last && job->model.lm_head && (!job->model.tied || !first)) add_end(job, list);
}

static int by_size(const void *left, const void *right) {
	const lk_rank_matrix *a = left, *b = right;
	double more = b->out * b->in - a->out * a->in;
	return (more > 0) - (more < 0);
}

/* Deal matrices by size to the ranks that share them, so that the first rank has the most: of
 * places [a, b) it gets every `shards`-th, starting at 0. */
static void matrices_deal(const lk_job *job, lk_rank_matrices *list) {
	double shards[2], place[2] = {0, 0};
	lk_sizes_shards(job, &shards[0], &shards[1]);
	lk_sort(list->at, (size_t)list->count, sizeof *list->at, by_size);
	for (int i = 0; i < list->count; i++) {
		lk_rank_matrix *matrix = &list->at[i];
		double *at = &place[matrix->expert], over = shards[matrix->expert];
		matrix->dealt = ceil((*at + matrix->count) / over) - ceil(*at / over);
		*at += matrix->count;
	}
}

void lk_optimizer_matrices(const lk_job *job, int stage, lk_rank_matrices *out) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	*out = (lk_rank_matrices){0};
	if (!lk_optimizer_has_products(job)) return;
	for (int chunk = 0, first; chunk < job->vp; chunk++) {
		int count = lk_job_chunk_layers(job, stage, chunk, &first);
		layers_between(job, first, count, out);
	}
	add_ends(job, stage, out);
	matrices_deal(job, out);
}

bool lk_optimizer_turns(const lk_job *job, double side) {
	return job->optimizer != LK_OPT_SOAP || side <= SOAP_SIDE;
}

/* ---- states ---- */

static double side_bytes(const lk_job *job, double side) {
	bool kept = job->optimizer == LK_OPT_SHAMPOO || job->optimizer == LK_OPT_SOAP;
	return kept && lk_optimizer_turns(job, side) ? STATISTICS * side * side : 0;
}

lk_matrix_state lk_optimizer_state(const lk_job *job, int stage) {
	const lk_optimizer_kind *kind = lk_optimizer_of(job);
	double moment = lk_dtype_bytes(job->state_dtype);
	lk_rank_matrices list;
	lk_matrix_state sum = {0};
	lk_optimizer_matrices(job, stage, &list);
	for (int i = 0; i < list.count; i++) {
		const lk_rank_matrix *matrix = &list.at[i];
		double held = matrix->out * matrix->in * matrix->count / matrix->parts;
		double sides = side_bytes(job, matrix->out) + side_bytes(job, matrix->in);
		sum.elements[matrix->expert] += held;
		sum.moments[matrix->expert] += held * (kind->of_matrices - kind->moments) * moment;
		sum.statistics[matrix->expert] += matrix->count * sides;
	}
	return sum;
}
