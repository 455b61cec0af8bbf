/* whatif_price.c: times of an edited graph's operations.
 *
 *     never measured   as predict prices it: the model on the new site
 *     measured         measured * model(edited operation, new site)
 *                               / model(operation before, old site)
 *     set by name      times the factors that were set
 *
 * A network with only faster (or slower) rates never takes longer (shorter): what runs at a rate
 * can run at a higher one. The model searches for channels like NCCL, in steps of rates, and may
 * find more of them, each with its start-up; so communication takes the least (most) of its times
 * at rates in between, an eighth of an octave apart.
 *
 * Host work has no hardware model: it stays as measured except for factors. An operation without a
 * known shape gets one: of its kind, and such that the model gives its measured time. A later
 * change affects it like the model of that shape: a kernel of microseconds hardly, one of
 * milliseconds by bandwidth. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "step/step.h"
#include "whatif/whatif.h"
#include "base/units.h"

/* ---- the models on a site ---- */

/* CUDA graphs as the software's recipes have them on a GPU. */
static void take_recipes(const lk_scenario *scenario, const lk_node *node,
                         lk_cost_options *options) {
	const lk_graph *graph = scenario->edit.graph;
	const lk_software *software = &graph->software;
	const char *stack = lk_intern_text(graph->names, software->stack),
			   *release = lk_intern_text(graph->names, software->release);
	lk_stack_features here = lk_stack_features_for(lk_stack_features_of(stack, release),
	                                               node->device->arch, scenario->dtype);
	options->cuda_graphs = here.cuda_graphs;
	options->experts_eager = !here.graph_experts;
}

/* Only for operations `only`; NULL: all. */
static lk_status model_costs(const lk_scenario *scenario, const lk_cluster *cluster,
                             const bool *only, lk_arena *arena, lk_costs *out, lk_error *err) {
	const lk_whatif_site *site = scenario->site;
	lk_constants constants;
	lk_cost_options options;
	lk_profile_of_graph(scenario->edit.graph, site->stack, site->release, scenario->dtype,
	                    &constants, &options);
	constants.launch_s *= scenario->launch;
	constants.graph_launch_s *= scenario->launch;
	constants.expert_call_s *= scenario->launch;
	constants.expert_launch_s *= scenario->launch;
	if (scenario->edit.graph->software.recipes) take_recipes(scenario, &cluster->node[0], &options);
	options.cuda_graphs |= scenario->cuda_graphs;
	options.compiled |= site->compiled;
	options.only = only;
	return lk_costs_build(arena, scenario->edit.graph, cluster, &options, out, err);
}

uint32_t lk_whatif_variant(const lk_graph *graph, const lk_costs *costs, uint32_t stage) {
	return costs->variant_of ? costs->variant_of[lk_rank_of(graph, stage, 0)] : 0;
}

/* For every operation, the variant of the first program that runs it. */
static uint32_t *variants(lk_arena *arena, const lk_graph *graph, const lk_costs *costs) {
	uint32_t *of = LK_ARRAY(arena, uint32_t, graph->ops.count);
	for (size_t s = graph->programs.count; of && s-- > 0;) {
		const lk_program *program = &graph->programs.at[s];
		uint32_t variant = lk_whatif_variant(graph, costs, (uint32_t)s);
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			for (uint32_t i = block->begin; i < block->end; i++) of[i] = variant;
		}
	}
	return of;
}

/* ---- unknown shapes ---- */

static bool has_model(unsigned kind) {
	return kind != LK_OP_HOST && kind != LK_OP_WAIT && kind != LK_OP_MACRO;
}

static bool shapeless(const lk_edit *edit, uint32_t i) {
	const lk_ops *ops = &edit->graph->ops;
	if (edit->op.at[i].measured_ps <= 0 || !has_model(ops->kind[i])) return false;
	if (lk_op_multiplies(ops->kind[i]) || lk_op_is_attention(ops->kind[i]))
		return !(ops->m[i] > 0 && ops->n[i] > 0 && ops->k[i] > 0);
	return !(ops->bytes[i] > 0);
}

/* Set a shape with `size` times as much work as before; `first`: the smallest of its kind: a
 * product of 256^3, heads of 128 on 1024 tokens, 64 KiB. */
static void set_shape(lk_ops *ops, uint32_t i, double size, bool first) {
	if (lk_op_multiplies(ops->kind[i])) {
		double side = first ? 256 : ops->m[i] * cbrt(size),
			   element = fmax(2, lk_dtype_bytes((lk_dtype)ops->dtype[i]));
		ops->m[i] = ops->n[i] = ops->k[i] = side;
		ops->batch[i] = 1;
		ops->bytes[i] = 3 * side * side * element;
		ops->flops[i] = 2 * side * side * side;
	} else if (lk_op_is_attention(ops->kind[i])) {
		ops->m[i] = ops->n[i] = 1024, ops->k[i] = 128,
		ops->batch[i] = first ? 1 : ops->batch[i] * size;
		ops->bytes[i] = ops->batch[i] * 4 * 1024 * 128 * 2;
		ops->flops[i] = ops->batch[i] * 4 * 1024.0 * 1024 * 128;
	} else {
		ops->bytes[i] = first ? 65536 : ops->bytes[i] * size;
	}
}

enum { ROUNDS = 12 };

/* Times grow by less than the work, so a step by their ratio never overshoots. */
static lk_status fit_shapes(lk_scenario *scenario, const bool *found, const uint32_t *op,
                            uint32_t count, lk_error *err) {
	for (int round = 0; round < ROUNDS; round++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_costs costs = {0};
		lk_status status = model_costs(scenario, &scenario->cluster, found, &arena, &costs, err);
		const uint32_t *variant =
			status == LK_OK ? variants(&arena, scenario->edit.graph, &costs) : NULL;
		if (status == LK_OK && !variant) status = lk_oom(err);
		double worst = 0;
		for (uint32_t k = 0; k < count && status == LK_OK; k++) {
			double model = (double)lk_costs_get(&costs, variant[op[k]], op[k])->duration_ps;
			double ratio = model > 0 ? scenario->edit.op.at[op[k]].measured_ps / model : 1;
			ratio = fmin(fmax(ratio, .125), 1e4);
			set_shape(&scenario->edit.graph->ops, op[k], ratio, false);
			worst = fmax(worst, ratio - 1);
		}
		lk_arena_free(&arena);
		LK_TRY(status);
		if (worst < .02) break;
	}
	return LK_OK;
}

lk_status lk_whatif_stand_in(lk_scenario *scenario, uint32_t *count, lk_error *err) {
	LK_VEC(uint32_t) found = {0};
	bool *is_found = LK_ARRAY(scenario->arena, bool, scenario->edit.graph->ops.count + 1);
	if (!is_found) return lk_oom(err);
	*count = 0;
	for (uint32_t i = 0; i < scenario->edit.op.count; i++) {
		if (!shapeless(&scenario->edit, i)) continue;
		if (!lk_push(&found)) {
			lk_vec_free(&found);
			return lk_oom(err);
		}
		*lk_last(&found) = i;
		is_found[i] = true;
		set_shape(&scenario->edit.graph->ops, i, 1, true);
	}
	lk_status status =
		found.count ? fit_shapes(scenario, is_found, found.at, (uint32_t)found.count, err) : LK_OK;
	*count = (uint32_t)found.count;
	lk_vec_free(&found);
	return status;
}

/* ---- networks of other rates ---- */

/* log2 of the largest change of a rate; NAN if some rates rise and others fall, or nodes differ in
 * more. */
static double octaves(const lk_cluster *from, const lk_cluster *to) {
	double up = 0, down = 0;
	for (int g = 0; g < from->groups; g++) {
		const lk_node *a = &from->node[g], *b = &to->node[g];
		if (from->groups != to->groups || a->nics != b->nics) return NAN;
		double nic = a->nic_rate > 0 ? log2(b->nic_rate / a->nic_rate) : 0,
			   link = a->intra_rate > 0 ? log2(b->intra_rate / a->intra_rate) : 0;
		up = fmax(up, fmax(nic, link));
		down = fmin(down, fmin(nic, link));
	}
	return up > 0 && down < 0 ? NAN : up + down;
}

/* Price with rates part of the way. */
static lk_status price_between(lk_arena *arena, const lk_scenario *scenario, double share,
                               lk_cluster *out, lk_error *err) {
	*out = scenario->wired;
	out->node = LK_ARRAY(arena, lk_node, (size_t)out->groups);
	if (!out->node) return lk_oom(err);
	for (int g = 0; g < out->groups; g++) {
		const lk_node *a = &scenario->wired.node[g], *b = &scenario->cluster.node[g];
		out->node[g] = *a;
		if (a->nic_rate > 0)
			out->node[g].nic_rate = a->nic_rate * pow(b->nic_rate / a->nic_rate, share);
		if (a->intra_rate > 0)
			out->node[g].intra_rate = a->intra_rate * pow(b->intra_rate / a->intra_rate, share);
	}
	return LK_OK;
}

static void keep_better(const lk_graph *graph, const lk_costs *way, bool faster, lk_costs *out) {
	for (uint32_t v = 0; v < out->variants && way->variants == out->variants; v++)
		for (uint32_t i = 0; i < out->ops; i++) {
			const lk_cost *there = lk_costs_get(way, v, i);
			lk_cost *here = &out->at[(size_t)v * out->ops + i];
			bool better = faster ? there->duration_ps < here->duration_ps
			                     : there->duration_ps > here->duration_ps;
			if (better && lk_op_is_comm(graph->ops.kind[i])) *here = *there;
		}
}

static lk_status along_the_way(const lk_scenario *scenario, lk_costs *out, lk_error *err) {
	enum { MOST_STOPS = 32 };
	double far = octaves(&scenario->wired, &scenario->cluster);
	if (!(fabs(far) > 0)) return LK_OK;
	int stops = (int)fmin(ceil(8 * fabs(far) * (1 - 1e-9)), MOST_STOPS);
	for (int stop = 0; stop < stops; stop++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_costs way = {0};
		lk_status status = price_between(&arena, scenario, (double)stop / stops, &cluster, err);
		if (status == LK_OK) status = model_costs(scenario, &cluster, NULL, &arena, &way, err);
		if (status == LK_OK) keep_better(scenario->edit.graph, &way, far > 0, out);
		lk_arena_free(&arena);
		LK_TRY(status);
	}
	return LK_OK;
}

/* ---- prices ---- */

static void set_duration(lk_cost *cost, double ps) {
	cost->duration_ps = cost->tail_ps = ps < 9e17 ? llround(ps) : (int64_t)9e17;
}

static void price_op(const lk_edit_op *known, bool modelled, lk_cost *cost) {
	double ps = (double)cost->duration_ps;
	if (known->measured_ps > 0) {
		bool ratio = modelled && known->modelled_ps > 0 && ps > 0;
		ps = known->measured_ps * (ratio ? ps / known->modelled_ps : 1);
	}
	set_duration(cost, ps * known->factor);
}

lk_status lk_whatif_price(lk_scenario *scenario, bool learn, lk_costs *out, lk_error *err) {
	LK_TRY(model_costs(scenario, &scenario->cluster, NULL, scenario->arena, out, err));
	if (scenario->wired.groups) LK_TRY(along_the_way(scenario, out, err));
	const lk_ops *ops = &scenario->edit.graph->ops;
	const uint32_t *variant = variants(scenario->arena, scenario->edit.graph, out);
	if (!variant) return lk_oom(err);
	for (uint32_t i = 0; i < ops->count && learn; i++)
		scenario->edit.op.at[i].modelled_ps = (double)lk_costs_get(out, variant[i], i)->duration_ps;
	for (uint32_t v = 0; v < out->variants; v++)
		for (uint32_t i = 0; i < ops->count; i++)
			price_op(&scenario->edit.op.at[i], has_model(ops->kind[i]),
			         &out->at[(size_t)v * out->ops + i]);
	return LK_OK;
}

/* ---- uncertainty ---- */

enum { PRODUCTS, STREAMS, NETWORK, FAMILIES };

static int family_of(unsigned kind) {
	if (lk_op_is_comm(kind)) return NETWORK;
	return lk_op_multiplies(kind) || lk_op_is_attention(kind) ? PRODUCTS : STREAMS;
}

/* Mean error of a family's fits in the current calibration, weighted by the points of its rows. */
static double family_error(const char *family) {
	const lk_calibration *calibration = lk_calibration_current();
	double sum = 0, weight = 0;
	for (size_t i = 0; i < calibration->rows.count; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (strcmp(row->family, family) != 0 || !(row->error >= 0)) continue;
		sum += row->error * row->points;
		weight += row->points;
	}
	return weight > 0 ? sum / weight : .1;
}

/* How far an operation is extrapolated by the model: half or double counts fully. */
static double price_distance(const lk_edit_op *known, double ps) {
	double before = known->measured_ps * known->factor;
	return before > 0 && ps > 0 ? fmin(1, fabs(log2(ps / before))) : 0;
}

static void carried_time(const lk_scenario *scenario, const lk_costs *costs,
                         double carried[FAMILIES]) {
	const lk_graph *graph = scenario->edit.graph;
	for (size_t p = 0; p < graph->programs.count; p++) {
		uint32_t variant = lk_whatif_variant(graph, costs, (uint32_t)p);
		const lk_program *program = &graph->programs.at[p];
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			for (uint32_t i = block->begin; i < block->end; i++) {
				double ps = (double)lk_costs_get(costs, variant, i)->duration_ps;
				double far = has_model(graph->ops.kind[i])
				                 ? price_distance(&scenario->edit.op.at[i], ps)
				                 : 0;
				carried[family_of(graph->ops.kind[i])] += far * ps * program->calls.at[c].repeat;
			}
		}
	}
	for (int f = 0; f < FAMILIES; f++) carried[f] /= LK_PS_PER_S * (double)graph->programs.count;
}

/* Ranks wait for the latest: the expected maximum of n normal variables is about sqrt(2 ln n)
 * standard deviations. */
static double more_ranks(double before, double after) {
	const double deviation =
		0.01; /* of a rank's compute time in a step: assumed, for clocks and caches */
	double low = sqrt(2 * log(fmax(fmin(before, after), 1))),
		   high = sqrt(2 * log(fmax(fmax(before, after), 1)));
	return deviation * (high - low);
}

/* For a trace: the replay's mean error, or 3.3 % as in Lumos (arXiv 2504.09307, abstract) if it is
 * not known. A graph built from a model, with counted arithmetic, was never measured: half the 80 %
 * range of a prediction, on the new or on the old cluster, whichever is larger: the changed step is
 * no more certain than the original. */
static double base_error(const lk_scenario *scenario, double network_share) {
	const lk_graph *graph = scenario->edit.graph;
	const lk_whatif_site *site = scenario->site;
	const lk_cluster *clusters[] = {&scenario->cluster, scenario->before};
	double low, high, most = 0;
	if (graph->traced && graph->model_flops <= 0)
		return site->replay_error > 0 ? site->replay_error : 0.033;
	if (graph->traced) {
		lk_range_recommender(&low, &high);
		return (high - low) / 2;
	}
	lk_job job = lk_profile_job(graph, site->stack, site->release, scenario->dtype);
	for (int i = 0; i < 2; i++) {
		lk_range_of(scenario->arena, &job, clusters[i], network_share, 1, &low, &high, NULL);
		most = fmax(most, (high - low) / 2);
	}
	return most;
}

double lk_whatif_uncertainty(const lk_scenario *scenario, const lk_costs *costs,
                             const lk_ranks *before, double network_share, double step_s) {
	const char *const families[FAMILIES] = {"gemm", "memory", "collective"};
	double carried[FAMILIES] = {0},
		   ranks = more_ranks(before->world, scenario->edit.graph->ranks.world);
	double base = base_error(scenario, network_share), sum = base * base + ranks * ranks;
	carried_time(scenario, costs, carried);
	for (int f = 0; f < FAMILIES && step_s > 0; f++) {
		double share = fmin(1, carried[f] / step_s) * family_error(families[f]);
		sum += share * share;
	}
	return sqrt(sum);
}
