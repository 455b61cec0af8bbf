/* shard.c: answers a request: reads tables and device, runs every sharder, shows the requested one
 * in detail. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/arena.h"
#include "system/clock.h"
#include "options/command.h"
#include "step/step.h"
#include "base/text.h"
#include "base/noun.h"
#include "cost/calibration/calibration.h"
#include "shard/shard.h"
#include "model/read/read.h"

struct answer {
	lk_arena arena;
	lk_shard_answer a;
	lk_shard_problem p;
	lk_cluster cluster;
	lk_dlrm model; /* owner of the tables; without layers if only tables were given */
	lk_host_terms host;
	lk_cutoff cutoff;
	bool pooling_assumed;
	bool eager; /* a host issues the model's step */
	lk_calibration_hold calibration;
};

static bool has_model(const struct answer *answer) {
	return answer->model.bottom_widths > 0;
}

/* ---- reading the request ---- */

static lk_status shard_read_kinds(const lk_shard_request *request, unsigned *out, lk_error *err) {
	char text[128], *next = text, *word;
	*out = (1u << LK_SHARD_KINDS) - 1;
	if (!request->kinds) return LK_OK;
	lk_copy(text, sizeof text, request->kinds);
	for (*out = 0; (word = strsep(&next, ",|"));) {
		int kind = 0;
		while (kind < LK_SHARD_KINDS && !lk_same_name(word, lk_shard_kind_names[kind])) kind++;
		if (kind == LK_SHARD_KINDS) {
			lk_fail(err, LK_ERR_INPUT, "--kinds", "\"%.40s\" is not a kind of placement", word);
			return lk_hint(err, "give some of table,column,row,data");
		}
		*out |= 1u << kind;
	}
	return LK_OK;
}

static lk_status shard_read_tables(struct answer *answer, const lk_shard_request *request,
                                   lk_error *err) {
	lk_shard_tables tables = {0};
	lk_stream *in;
	unsigned kinds;
	LK_TRY(shard_read_kinds(request, &kinds, err));
	LK_TRY(lk_stream_open(request->tables, &in, err));
	lk_status status = lk_shard_tables_read(&answer->arena, in, answer->p.batch, &tables,
	                                        &answer->pooling_assumed, err);
	lk_stream_close(in);
	lk_shard_table *copy =
		status == LK_OK ? LK_ARRAY(&answer->arena, lk_shard_table, tables.count) : NULL;
	if (status == LK_OK && !copy) status = lk_oom(err);
	for (size_t i = 0; i < tables.count && status == LK_OK; i++) {
		copy[i] = tables.at[i];
		copy[i].allowed &= kinds;
		if (copy[i].allowed) continue;
		lk_fail(err, LK_ERR_INPUT, copy[i].where,
		        "table \"%.60s\": --kinds allows no kind that the file allows", copy[i].name);
		status = lk_hint(err, "widen --kinds");
	}
	answer->p.tables = copy;
	answer->p.count = (uint32_t)tables.count;
	lk_vec_free(&tables);
	return status;
}

/* Bytes of optimizer state: per number, and per row. FBGEMM's "exact" optimizers. */
static void shard_read_numbers(lk_shard_problem *problem, const lk_shard_request *request) {
	static const double elements[] = {4, 2, 2};
	static const struct { double number, row; } states[] = {{0, 4}, {4, 0}, {0, 0}, {8, 0}};
	problem->element = elements[request->dtype];
	problem->state = states[request->optimizer].number;
	problem->row_state = states[request->optimizer].row;
	problem->dense_s = request->dense_ms * 1e-3;
}

/* For tables alone a batch may be an average; a model's ranks have whole samples, as in predict. */
static lk_status check_batch(double batch, int ranks, bool whole, lk_error *err) {
	if (batch < ranks) {
		lk_fail(err, LK_ERR_INPUT, "--batch", "%.0f samples on %d ranks", batch, ranks);
		return lk_hint(err, "give at least one for each rank");
	}
	if (!whole || fmod(batch, ranks) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--batch", "%.0f samples are not divisible by %d GPUs", batch,
	        ranks);
	return lk_hint(err, "give a multiple, such as %.0f", ceil(batch / ranks) * ranks);
}

/* Refuse options whose values a model states itself. */
static lk_status check_model_options(const lk_shard_request *request, lk_error *err) {
	lk_shard_request usual;
	lk_shard_defaults(&usual);
	const char *option = NULL;
	if (request->optimizer != usual.optimizer) option = "--optimizer";
	if (request->dtype != usual.dtype) option = "--dtype";
	if (request->dense_ms > 0) option = "--dense-ms";
	if (!option) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option, "the model says it itself");
	return lk_hint(err, "leave it out, or change the model's file");
}

static lk_status read_model(struct answer *answer, const lk_shard_request *request, lk_error *err) {
	lk_shard_problem *problem = &answer->p;
	unsigned kinds;
	LK_TRY(check_model_options(request, err));
	LK_TRY(shard_read_kinds(request, &kinds, err));
	lk_status status = lk_dlrm_named(&answer->arena, request->model, &answer->model, err);
	if (status == LK_ERR_INPUT && !lk_dlrm_is_file(request->model))
		return lk_hint(err, "give a list of tables (TABLES.csv), or a recommendation model "
		                    "(`lockstep models dlrm`)");
	LK_TRY(status);
	answer->eager = !request->cuda_graphs;
	double batch = request->batch > 0 ? request->batch : LK_DLRM_SAMPLES * problem->ranks;
	LK_TRY(check_batch(batch, problem->ranks, true, err));
	LK_TRY(lk_host_terms_known(&answer->host, err));
	LK_TRY(lk_shard_of_model(&answer->arena, &answer->model, &answer->cluster, problem->ranks,
	                         batch, LK_FP32, problem, err));
	lk_shard_table *tables = LK_ARRAY(&answer->arena, lk_shard_table, problem->count);
	if (!tables) return lk_oom(err);
	for (uint32_t t = 0; t < problem->count; t++) {
		tables[t] = problem->tables[t];
		tables[t].allowed &= kinds;
	}
	problem->tables = tables;
	return LK_OK;
}

static lk_status read_tables(struct answer *answer, const lk_shard_request *request,
                             lk_error *err) {
	answer->p.batch = request->batch > 0 ? request->batch : 65536;
	LK_TRY(lk_shard_check_devices(&answer->cluster, answer->p.ranks, err));
	LK_TRY(check_batch(answer->p.batch, answer->p.ranks, false, err));
	answer->p.network = lk_shard_network(&answer->cluster, answer->p.ranks);
	LK_TRY(lk_shard_device_of(&answer->arena, answer->cluster.node[0].device, &answer->p.at, err));
	LK_TRY(shard_read_tables(answer, request, err));
	shard_read_numbers(&answer->p, request);
	lk_shard_share(&answer->p);
	return LK_OK;
}

static lk_status check_source(const lk_shard_request *request, lk_error *err) {
	if ((request->tables != NULL) != (request->model != NULL)) return LK_OK;
	if (request->tables)
		lk_fail(err, LK_ERR_INPUT, "--model",
		        "it has tables of its own in addition to those of %.80s", request->tables);
	else lk_fail(err, LK_ERR_INPUT, "shard", "no tables are named");
	return lk_hint(err, "give a list of tables, or --model with a recommendation model");
}

static lk_status read_request(struct answer *answer, const lk_shard_request *request,
                              lk_error *err) {
	lk_shard_problem *problem = &answer->p;
	LK_TRY(check_source(request, err));
	problem->arena = &answer->arena;
	answer->cutoff = lk_cutoff_after(request->search_s);
	problem->cutoff = &answer->cutoff;
	problem->cut_off = &answer->a.cut_off;
	problem->progress = request->progress;
	problem->progress_context = request->progress_context;
	lk_where where = {
		.cluster = request->cluster, .gpu = request->gpu, .gpus = request->gpus, .flat = "shard"};
	LK_TRY(lk_where_read(&answer->arena, &where, &answer->cluster, &answer->p.ranks, err));
	if (request->model) LK_TRY(read_model(answer, request, err));
	else LK_TRY(read_tables(answer, request, err));
	problem->capacity = problem->at.device->memory_bytes * (1 - request->reserve);
	problem->host_capacity = request->host_gib * 0x1p30;
	problem->cache_share = request->cache;
	problem->seed = (uint64_t)request->seed;
	return LK_OK;
}

/* ---- results ---- */

/* Lookups, forward and backward: slowest rank over mean. */
static double imbalance_of(const lk_shard_problem *problem, const lk_shard_load *load) {
	double most = 0, sum = 0;
	for (int r = 0; r < problem->ranks; r++) {
		double w = load->rank[r].forward_s + load->rank[r].backward_s;
		most = fmax(most, w);
		sum += w;
	}
	return sum > 0 ? most * problem->ranks / sum : 1;
}

static lk_status fill_pieces(struct answer *answer, const lk_shard_pieces *pieces, lk_error *err) {
	const lk_shard_problem *problem = &answer->p;
	lk_shard_placed *out = LK_ARRAY(&answer->arena, lk_shard_placed, pieces->count);
	if (!out) return lk_oom(err);
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		const lk_shard_table *table = &problem->tables[piece->table];
		int cuts = piece->kind == LK_SHARD_ROW ? piece->parts : 1; /* of a sample's lookups */
		out[i] = (lk_shard_placed){.name = table->name,
		                           .kind = lk_shard_kind_names[piece->kind],
		                           .where = piece->host ? "host" : "device",
		                           .rank = piece->rank,
		                           .part = piece->part,
		                           .parts = piece->parts,
		                           .pooling = table->pooling / cuts,
		                           .forward_s = piece->cost.forward_s,
		                           .backward_s = piece->cost.backward_s};
		lk_shard_piece_size(problem, piece, &out[i].rows, &out[i].dim);
		out[i].bytes =
			out[i].rows * (out[i].dim * (problem->element + problem->state) + problem->row_state);
	}
	answer->a.pieces = out;
	answer->a.piece_count = (int)pieces->count;
	return LK_OK;
}

static lk_status shard_fill_ranks(struct answer *answer, const lk_shard_pieces *pieces,
                                  const lk_shard_load *load, lk_error *err) {
	const lk_shard_problem *problem = &answer->p;
	lk_shard_rank *out = LK_ARRAY(&answer->arena, lk_shard_rank, problem->ranks);
	if (!out) return lk_oom(err);
	for (int r = 0; r < problem->ranks; r++) {
		const lk_shard_cost *cost = &load->rank[r];
		out[r] = (lk_shard_rank){r,
		                         0,
		                         cost->device_bytes,
		                         cost->host_bytes,
		                         cost->forward_s,
		                         cost->backward_s,
		                         cost->columns,
		                         lk_shard_exchange_s(problem, cost->columns, cost->columns,
		                                             cost->columns * problem->ranks)};
	}
	for (size_t i = 0; i < pieces->count; i++)
		for (int r = 0; r < problem->ranks; r++)
			if (pieces->at[i].rank == r || pieces->at[i].kind == LK_SHARD_DATA) out[r].pieces++;
	answer->a.ranks = out;
	answer->a.rank_count = problem->ranks;
	return LK_OK;
}

/* Time of the training step: with the model's dense part as its framework runs it, else of the
 * barriers only. */
static lk_status step_seconds(const struct answer *answer, const lk_shard_pieces *pieces,
                              const lk_shard_load *load, double *out, lk_error *err) {
	lk_step step;
	if (!has_model(answer)) return lk_shard_simulate(&answer->p, load, out, err);
	lk_status status = lk_shard_step(&answer->p, pieces, &answer->model, LK_FP32,
	                                 answer->eager ? &answer->host : NULL, NULL, &step, err);
	*out = step.step_s;
	lk_step_free(&step);
	return status;
}

static lk_status write_measured(lk_graph *graph, const lk_costs *costs, const char *path,
                                lk_error *err) {
	for (uint32_t i = 0; i < graph->ops.count; i++)
		graph->ops.measured_ps[i] = costs->at[i].duration_ps;
	return lk_graph_write(graph, path, err);
}

static lk_status write_graph(struct answer *answer, const lk_shard_pieces *pieces,
                             const lk_shard_load *load, const char *path, lk_error *err) {
	lk_step step = {0};
	lk_status status;
	if (has_model(answer))
		status = lk_shard_step(&answer->p, pieces, &answer->model, LK_FP32,
		                       answer->eager ? &answer->host : NULL, NULL, &step, err);
	else status = lk_shard_graph(&answer->arena, &answer->p, load, &step.graph, &step.costs, err);
	if (status == LK_OK) status = write_measured(step.graph, &step.costs, path, err);
	lk_step_free(&step);
	return status;
}

static lk_status shard_fill(struct answer *answer, const lk_shard_pieces *pieces, const char *graph,
                            lk_error *err) {
	const lk_shard_problem *problem = &answer->p;
	lk_shard_load load;
	LK_TRY(lk_shard_load_of(&answer->arena, problem, pieces, &load, err));
	LK_TRY(step_seconds(answer, pieces, &load, &answer->a.step_s, err));
	answer->a.placed_s = load.step_s;
	answer->a.fits = lk_shard_fits(problem, &load);
	answer->a.index_s = load.index_s;
	answer->a.forward_s = load.forward_s;
	answer->a.exchange_s = load.exchange_s;
	answer->a.dense_s = problem->dense_s;
	answer->a.backward_s = load.backward_s;
	answer->a.reduce_s = load.reduce_s;
	answer->a.imbalance = imbalance_of(problem, &load);
	LK_TRY(lk_shard_bound(problem, &answer->a.bound_s, err));
	answer->a.gap = answer->a.bound_s > 0 ? fmax(load.step_s / answer->a.bound_s - 1, 0) : 0;
	LK_TRY(fill_pieces(answer, pieces, err));
	LK_TRY(shard_fill_ranks(answer, pieces, &load, err));
	return graph ? write_graph(answer, pieces, &load, graph, err) : LK_OK;
}

/* ---- sharders ---- */

static lk_status shard_choose(const lk_shard_request *request, int *out, lk_error *err) {
	const char *names[16];
	*out = request->placement ? lk_sharder_count : lk_sharder_search;
	if (!request->sharder) return LK_OK;
	if (request->placement) {
		lk_fail(err, LK_ERR_INPUT, "--sharder", "--placement is what is shown");
		return lk_hint(err, "leave one of them out");
	}
	for (int i = 0; i < lk_sharder_count; i++) {
		names[i] = lk_sharders[i].name;
		if (lk_same_name(request->sharder, names[i])) {
			*out = i;
			return LK_OK;
		}
	}
	lk_fail(err, LK_ERR_INPUT, "--sharder", "\"%.40s\" is not known", request->sharder);
	const char *near = lk_nearest(request->sharder, names, (size_t)lk_sharder_count);
	if (near) return lk_hint(err, "did you mean %s", near);
	return lk_hint(err, "give search, naive, random, size-greedy, ...");
}

static bool whole_allowed(const lk_shard_problem *problem) {
	for (uint32_t t = 0; t < problem->count; t++)
		if (!(problem->tables[t].allowed & 1u << LK_SHARD_TABLE)) return false;
	return true;
}

/* Run one sharder; not finding a placement is a reason, not an error. */
static lk_status shard_try_one(struct answer *answer, const lk_sharder *sharder,
                               lk_shard_plan *plan, lk_shard_tried *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_error refused = {0};
	double begin = lk_clock_s();
	*out = (lk_shard_tried){.name = sharder->name, .step_s = NAN, .imbalance = NAN};
	lk_status status = LK_OK;
	if (sharder->search || whole_allowed(&answer->p))
		status = sharder->run(&answer->p, plan, &refused);
	else
		lk_fail(&refused, status = LK_ERR_INPUT, NULL,
		        "it places whole tables, and --kinds leaves them out");
	out->seconds = lk_clock_s() - begin;
	if (status == LK_OK)
		status = lk_shard_load_of(&arena, &answer->p, &plan->pieces, &load, &refused);
	if (status == LK_OK)
		status = step_seconds(answer, &plan->pieces, &load, &out->step_s, &refused);
	if (status == LK_OK) {
		out->fits = lk_shard_fits(&answer->p, &load);
		out->imbalance = imbalance_of(&answer->p, &load);
	}
	lk_arena_free(&arena);
	if (status != LK_OK && status != LK_ERR_INPUT) return lk_fail_as(err, &refused);
	if (status == LK_OK) return LK_OK;
	char line[1024];
	out->reason = lk_arena_strdup(&answer->arena, lk_error_text(&refused, line, sizeof line));
	return out->reason ? LK_OK : lk_oom(err);
}

/* Add the user's own placement, after the sharders'. */
static lk_status try_given(struct answer *answer, const lk_shard_request *request,
                           lk_shard_plan *plan, lk_shard_tried *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	*out = (lk_shard_tried){.name = "the given plan"};
	lk_status status = lk_shard_read_plan(&answer->p, request->placement, plan, err);
	if (status == LK_OK) status = lk_shard_load_of(&arena, &answer->p, &plan->pieces, &load, err);
	if (status == LK_OK) status = step_seconds(answer, &plan->pieces, &load, &out->step_s, err);
	if (status == LK_OK) {
		out->fits = lk_shard_fits(&answer->p, &load);
		out->imbalance = imbalance_of(&answer->p, &load);
		if (!out->fits) out->reason = "a rank has no room for its tables";
	}
	lk_arena_free(&arena);
	return status;
}

static lk_status shard_try_all(struct answer *answer, const lk_shard_request *request,
                               lk_error *err) {
	int chosen, count = lk_sharder_count + (request->placement != NULL);
	LK_TRY(shard_choose(request, &chosen, err));
	lk_shard_tried *tried = LK_ARRAY(&answer->arena, lk_shard_tried, count);
	if (!tried) return lk_oom(err);
	for (int i = 0; i < count; i++) {
		lk_shard_plan plan = {0};
		lk_status status = i < lk_sharder_count
		                       ? shard_try_one(answer, &lk_sharders[i], &plan, &tried[i], err)
		                       : try_given(answer, request, &plan, &tried[i], err);
		if (status == LK_OK && i == chosen && !tried[i].reason)
			status = shard_fill(answer, &plan.pieces, request->graph, err);
		lk_vec_free(&plan.pieces);
		LK_TRY(status);
	}
	answer->a.tried = tried;
	answer->a.tried_count = count;
	answer->a.sharder = tried[chosen].name;
	if (!answer->a.fits) answer->a.reason = tried[chosen].reason;
	return LK_OK;
}

/* ---- remedies ---- */

/* Whether everything fits with this many ranks, or this much host memory for each. */
static lk_status shard_has_room(const struct answer *answer, double ranks, double host_gib,
                                bool *fits, lk_error *err) {
	lk_shard_problem p = answer->p;
	*fits = false;
	if (ranks > LK_SHARD_MOST_RANKS) return LK_OK;
	p.ranks = (int)ranks;
	p.host_capacity = host_gib * 0x1p30;
	lk_shard_share(&p);
	return lk_shard_has_room(&p, fits, err);
}

/* The same with other ranks, or with another host memory in GiB. */
static lk_status remedy_suffices(const struct answer *answer, double value, bool ranks, bool *fits,
                                 lk_error *err) {
	if (ranks) return shard_has_room(answer, value, answer->p.host_capacity / 0x1p30, fits, err);
	return shard_has_room(answer, answer->p.ranks, value, fits, err);
}

/* The least integer from `least` on that suffices, of ranks or of GiB of host memory; 0: none was
 * found. */
static lk_status least_remedy(const struct answer *answer, double least, bool ranks, double *out,
                              lk_error *err) {
	double lacking = fmax(least, 1) - 1, enough = fmax(least, 1);
	bool fits = false;
	for (int i = 0; i < 12 && !fits; i++) {
		LK_TRY(remedy_suffices(answer, enough, ranks, &fits, err));
		if (!fits) {
			lacking = enough;
			enough = ceil(enough * (i < 4 ? 1.1 : 2));
		}
	}
	*out = fits ? enough : 0;
	while (fits && enough - lacking > 1) {
		bool here;
		double middle = floor((lacking + enough) / 2);
		LK_TRY(remedy_suffices(answer, middle, ranks, &here, err));
		*(here ? &enough : &lacking) = middle;
		*out = enough;
	}
	return LK_OK;
}

/* Explain what would suffice: more GPUs for all bytes, or host memory for the excess. Both were
 * tried. */
static lk_status explain_lack(struct answer *answer, lk_error *err) {
	const lk_shard_problem *problem = &answer->p;
	double all = answer->a.table_bytes, room = problem->capacity * problem->ranks, ranks, gib;
	char has[32], host[32], gpus[32] = "", memory[48] = "";
	if (!(all > room)) return LK_OK;
	LK_TRY(least_remedy(answer, ceil(all / problem->capacity), true, &ranks, err));
	LK_TRY(least_remedy(
		answer, ceil((all - room) / (1 - problem->cache_share + 1e-9) / problem->ranks / 0x1p30),
		false, &gib, err));
	if (ranks > 0) snprintf(gpus, sizeof gpus, "give --gpus %.0f", ranks);
	if (gib > 0)
		snprintf(memory, sizeof memory, "%s--host-memory %.0f", ranks > 0 ? ", or " : "give ", gib);
	lk_format_bytes(room, has, sizeof has);
	lk_format_bytes(all, host, sizeof host);
	answer->a.reason =
		lk_arena_printf(&answer->arena, "tables and optimizer states take %s, %d %s %s%s%s%s", host,
	                    problem->ranks, lk_noun(problem->ranks, "rank holds", "ranks hold"), has,
	                    *gpus || *memory ? "; " : "", gpus, memory);
	return answer->a.reason ? LK_OK : lk_oom(err);
}

/* ---- the command ---- */

static const char *shard_reproduce(lk_arena *arena, const lk_shard_request *request) {
	static const char *const but[] = {"plan", "graph", NULL};
	lk_shard_request usual;
	lk_shard_defaults(&usual);
	return lk_command(arena, &(lk_question){.verb = &lk_shard_verb,
	                                        .request = request,
	                                        .usual = &usual,
	                                        .but = but,
	                                        .operands = &request->tables,
	                                        .operand_count = request->tables != NULL});
}

static lk_status shard_describe(struct answer *answer, const lk_shard_request *request,
                                lk_error *err) {
	lk_shard_answer *shard_answer = &answer->a;
	const lk_shard_problem *problem = &answer->p;
	shard_answer->batch = problem->batch;
	shard_answer->tables = (int)problem->count;
	shard_answer->table_bytes = lk_shard_table_bytes(problem);
	shard_answer->capacity_bytes = problem->capacity;
	shard_answer->host_capacity_bytes = problem->host_capacity;
	shard_answer->cluster =
		lk_arena_printf(&answer->arena, "%d of %s", problem->ranks, answer->cluster.text);
	shard_answer->basis =
		problem->at.host ? "lookups by caches and bandwidths measured on this processor; "
						   "collectives by the model of the cluster"
						 : "lookups by traffic and L2 hits, at rates measured on the device or "
						   "their usual share of its data sheet; NCCL's collectives";
	if (answer->pooling_assumed)
		shard_answer->basis = lk_arena_printf(
			&answer->arena, "a sample looks up one row where the list states no number; %s",
			shard_answer->basis);
	if (has_model(answer)) {
		const char *note = "";
		if (answer->model.note) note = lk_arena_printf(&answer->arena, " (%s)", answer->model.note);
		if (!note) return lk_oom(err);
		shard_answer->model = lk_arena_printf(
			&answer->arena, "%.80s%s, its MLPs in fp32, %s", request->model, note,
			answer->eager ? "each operation issued by a host" : "replayed from a CUDA graph");
		if (!shard_answer->model) return lk_oom(err);
	}
	shard_answer->reproduce = shard_reproduce(&answer->arena, request);
	return shard_answer->cluster && shard_answer->basis && shard_answer->reproduce ? LK_OK
	                                                                               : lk_oom(err);
}

static lk_status shard_ask(struct answer *answer, const lk_shard_request *request, lk_error *err) {
	LK_TRY(read_request(answer, request, err));
	LK_TRY(shard_describe(answer, request, err));
	LK_TRY(shard_try_all(answer, request, err));
	return answer->a.fits ? LK_OK : explain_lack(answer, err);
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

/* Pieces on all ranks count on each. */
static const char *shard_check_rank(const lk_shard_answer *answer, const lk_shard_rank *rank) {
	double device = 0, host = 0;
	int pieces = 0;
	for (int i = 0; i < answer->piece_count; i++) {
		const lk_shard_placed *piece = &answer->pieces[i];
		if (piece->rank >= 0 && piece->rank != rank->rank) continue;
		pieces++;
		*(strcmp(piece->where, "host") == 0 ? &host : &device) += piece->bytes;
	}
	LK_HOLDS(rank->pieces == pieces);
	LK_HOLDS(rank->device_bytes >= device * (1 - 1e-9)); /* caches of tables on the host */
	LK_HOLDS(rank->device_bytes <= answer->capacity_bytes * (1 + 1e-9));
	LK_HOLDS(rank->host_bytes <= answer->host_capacity_bytes * (1 + 1e-9));
	return NULL;
}

static const char *shard_check(const lk_shard_answer *answer) {
	if (!answer->fits) return NULL;
	LK_HOLDS(isfinite(answer->step_s) && answer->step_s > 0);
	LK_HOLDS(answer->bound_s <= answer->placed_s * (1 + 1e-9));
	LK_HOLDS(answer->imbalance >= 1 - 1e-9);
	double parts = answer->index_s + answer->forward_s + 2 * answer->exchange_s + answer->dense_s +
	               answer->backward_s + answer->reduce_s;
	LK_HOLDS(fabs(parts - answer->placed_s) <= 1e-6 * answer->placed_s);
	double bytes = 0;
	int tables = 0;
	for (int i = 0; i < answer->piece_count; i++) {
		const lk_shard_placed *piece = &answer->pieces[i];
		LK_HOLDS(piece->rank < answer->rank_count && piece->part < piece->parts);
		LK_HOLDS(isfinite(piece->forward_s) && piece->forward_s >= 0);
		LK_HOLDS(piece->part == 0 || piece->part == piece[-1].part + 1);
		tables += piece->part == 0;
		bytes += piece->bytes;
	}
	/* every table is placed once; column parts each have states of their rows */
	LK_HOLDS(tables == answer->tables && bytes >= answer->table_bytes * (1 - 1e-9));
	for (int i = 0; i < answer->rank_count; i++)
		LK_HOLDS_ALL(shard_check_rank(answer, &answer->ranks[i]));
	return NULL;
}

lk_status lk_shard(const lk_shard_request *request, lk_shard_answer **out, lk_error *err) {
	struct answer *answer = calloc(1, sizeof *answer);
	*out = NULL;
	if (!answer) return lk_oom(err);
	answer->a.memory_owner = answer;
	lk_status status = lk_calibration_begin(&answer->calibration, request->calibration, err);
	if (status == LK_OK) {
		status = shard_ask(answer, request, err);
		lk_calibration_leave(&answer->calibration);
	}
	if (status == LK_OK)
		status = lk_inputs_find(&answer->arena, &lk_shard_verb, request, &request->tables,
		                        request->tables ? 1 : 0, &answer->a.inputs, err);
	if (status == LK_OK) answer->a.failed_check = lk_failed_check(shard_check(&answer->a));
	if (status == LK_OK) *out = &answer->a;
	else lk_shard_free(&answer->a);
	return status;
}

void lk_shard_free(lk_shard_answer *answer) {
	if (!answer) return;
	struct answer *x = answer->memory_owner;
	lk_host_terms_free(&x->host);
	lk_calibration_release(&x->calibration);
	lk_arena_free(&x->arena);
	free(x);
}
