/* shard.c: a request answered: tables and device read, every sharder run, the one asked for shown in parts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options/command.h"
#include "step/step.h"
#include "base/text.h"
#include "cost/calibration/calibration.h"
#include "shard/shard.h"

/* The sharders by name: the published heuristics (shard_heuristics.c), then ours. */
const lk_sharder lk_sharders[] = {
	{"naive", lk_shard_naive, false},
	{"naive-chunk", lk_shard_naive_chunk, false},
	{"random", lk_shard_random, false},
	{"size-greedy", lk_shard_size_greedy, false},
	{"lookup-greedy", lk_shard_lookup_greedy, false},
	{"norm-lookup-greedy", lk_shard_norm_lookup_greedy, false},
	{"size-lookup-greedy", lk_shard_size_lookup_greedy, false},
	{"search", lk_shard_search, true},
};
const int lk_sharder_count = sizeof lk_sharders / sizeof *lk_sharders;
const int lk_sharder_search = sizeof lk_sharders / sizeof *lk_sharders - 1;

enum { RANKS = 4096 };

struct answer {
	lk_arena arena;
	lk_shard_answer a;
	lk_shard_problem p;
	lk_cluster cluster;
	lk_constants constants;
};

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- reading the request ---- */

static lk_status read_cluster(struct answer *x, const lk_shard_request *r, lk_error *err) {
	const lk_device *device;
	if (r->cluster && r->gpu) return lk_fail(err, LK_ERR_INPUT, "--cluster", "--cluster and --gpu exclude one another");
	if (r->cluster) {
		LK_TRY(lk_cluster_parse(&x->arena, r->cluster, &x->cluster, err));
		x->p.ranks = r->gpus ? r->gpus : x->cluster.gpus;
		if (r->gpus <= x->cluster.gpus) return LK_OK;
		lk_fail(err, LK_ERR_INPUT, "--gpus", "%d GPUs asked, but the cluster has %d", r->gpus, x->cluster.gpus);
		return lk_hint(err, "give at most %d", x->cluster.gpus);
	}
	if (!r->gpu) {
		lk_fail(err, LK_ERR_INPUT, "--gpu", "no GPU was given");
		return lk_hint(err, "give --gpu NAME (`lockstep devices` lists them) or --cluster");
	}
	if (r->gpus <= 0) {
		lk_fail(err, LK_ERR_INPUT, "--gpus", "the number of GPUs was not given");
		return lk_hint(err, "give --gpus N");
	}
	LK_TRY(lk_device_lookup(r->gpu, &device, err));
	x->p.ranks = r->gpus;
	return lk_cluster_simple(&x->arena, device, r->gpus, 0, 0, &x->cluster, err);
}

static lk_status check_ranks(const struct answer *x, lk_error *err) {
	if (x->p.ranks > RANKS) {
		lk_fail(err, LK_ERR_INPUT, "--gpus", "%d ranks are more than are searched", x->p.ranks);
		return lk_hint(err, "give at most %d", RANKS);
	}
	for (int i = 1; i < x->cluster.groups; i++)
		if (x->cluster.node[i].device != x->cluster.node[0].device) {
			lk_fail(err, LK_ERR_INPUT, "--cluster", "ranks on %s and on %s", x->cluster.node[0].device->name, x->cluster.node[i].device->name);
			return lk_hint(err, "give devices of one kind");
		}
	return LK_OK;
}

/* All ranks as one group. */
static lk_group_shape whole_network(const lk_cluster *c, int ranks) {
	const lk_node *node = &c->node[0];
	int in_node = ranks < node->gpus ? ranks : node->gpus;
	return (lk_group_shape){.node = node, .ranks = ranks, .nodes = (ranks + node->gpus - 1) / node->gpus, .ranks_per_node = in_node,
	                        .sharing = 1, .oversubscription = c->oversubscription};
}

static lk_status read_device(struct answer *x, const lk_shard_request *r, lk_error *err) {
	lk_shard_device *at = &x->p.at;
	const lk_device *device = x->cluster.node[0].device;
	if (r->calibration) LK_TRY(lk_calibration_use(r->calibration, err));
	lk_profile_base(lk_calibration_current(), &x->constants);
	/* L2 over memory: as in cost/kernel/embedding.c */
	*at = (lk_shard_device){.device = device, .memory_rate = device->memory_rate * x->constants.memory_efficiency,
	                        .host_rate = fmax(device->pcie_rate, 1), .floor_s = x->constants.kernel_floor_s};
	at->l2_rate = lk_lookup_l2_gain * at->memory_rate;
	x->p.network = whole_network(&x->cluster, x->p.ranks);
	if (device->arch != LK_ARCH_CPU) return LK_OK;
	lk_host_lookup *host = LK_NEW(&x->arena, lk_host_lookup);
	if (!host) return lk_oom(err);
	const lk_calibration_row *row = lk_calibration_find(lk_calibration_current(), "lookup", device->name, "");
	if (lk_host_lookup_of(row, host)) {
		at->host = host, at->floor_s = 0;
		return LK_OK;
	}
	if (row)
		lk_fail(err, LK_ERR_INPUT, "--calibration", "what was measured of lookups on \"%.40s\" is of another version: it has no %s",
		        device->name, lk_host_lookup_missing(row));
	else lk_fail(err, LK_ERR_INPUT, "--cluster", "lookups on \"%.40s\" were not measured", device->name);
	return lk_hint(err, "measure them (docs/SHARD.md): bench-lookup shares > a.csv; bench-lookup fit a.csv %.40s > b.csv; then --calibration b.csv", device->name);
}

static lk_status read_kinds(const lk_shard_request *r, unsigned *out, lk_error *err) {
	char text[128], *next = text, *word;
	*out = (1u << LK_SHARD_KINDS) - 1;
	if (!r->kinds) return LK_OK;
	lk_copy(text, sizeof text, r->kinds);
	for (*out = 0; (word = strsep(&next, ",|"));) {
		int kind = 0;
		while (kind < LK_SHARD_KINDS && !lk_same_name(word, lk_shard_kind_names[kind])) kind++;
		if (kind == LK_SHARD_KINDS) {
			lk_fail(err, LK_ERR_INPUT, "--kinds", "\"%.40s\" is no kind of placement", word);
			return lk_hint(err, "give some of table,column,row,data");
		}
		*out |= 1u << kind;
	}
	return LK_OK;
}

static lk_status read_tables(struct answer *x, const lk_shard_request *r, lk_error *err) {
	lk_shard_tables tables = {0};
	lk_stream *in;
	unsigned kinds;
	LK_TRY(read_kinds(r, &kinds, err));
	LK_TRY(lk_stream_open(r->tables, &in, err));
	lk_status status = lk_shard_tables_read(&x->arena, in, x->p.batch, &tables, err);
	lk_stream_close(in);
	lk_shard_table *copy = status == LK_OK ? LK_ARRAY(&x->arena, lk_shard_table, tables.count) : NULL;
	if (status == LK_OK && !copy) status = lk_oom(err);
	for (size_t i = 0; i < tables.count && status == LK_OK; i++) {
		copy[i] = tables.at[i];
		copy[i].allowed &= kinds;
		if (copy[i].allowed) continue;
		lk_fail(err, LK_ERR_INPUT, copy[i].where, "table \"%.60s\": --kinds leaves none of the kinds that the file allows", copy[i].name);
		status = lk_hint(err, "widen --kinds");
	}
	x->p.tables = copy, x->p.count = (uint32_t)tables.count;
	lk_vec_free(&tables);
	return status;
}

/* Bytes of optimizer state: for each number, and for each row. FBGEMM's "exact" optimizers. */
static void read_numbers(lk_shard_problem *p, const lk_shard_request *r) {
	static const double elements[] = {4, 2, 2};
	static const struct { double number, row; } states[] = {{0, 4}, {4, 0}, {0, 0}, {8, 0}};
	p->element = elements[r->dtype];
	p->state = states[r->optimizer].number, p->row_state = states[r->optimizer].row;
	p->capacity = p->at.device->memory_bytes * (1 - r->reserve);
	p->host_capacity = r->host_gib * 0x1p30;
	p->cache_share = r->cache, p->dense_s = r->dense_ms * 1e-3, p->seed = (uint64_t)r->seed;
}

static lk_status read_request(struct answer *x, const lk_shard_request *r, lk_error *err) {
	x->p.arena = &x->arena;
	x->p.batch = r->batch > 0 ? r->batch : 65536;
	LK_TRY(read_cluster(x, r, err));
	LK_TRY(check_ranks(x, err));
	if (x->p.batch < x->p.ranks) {
		lk_fail(err, LK_ERR_INPUT, "--batch", "%.0f samples on %d ranks", x->p.batch, x->p.ranks);
		return lk_hint(err, "give at least one for each rank");
	}
	LK_TRY(read_device(x, r, err));
	LK_TRY(read_tables(x, r, err));
	read_numbers(&x->p, r);
	lk_shard_share(&x->p);
	return LK_OK;
}

/* ---- results ---- */

/* Lookups, forward and backward: slowest rank over mean. */
static double imbalance_of(const lk_shard_problem *p, const lk_shard_load *load) {
	double most = 0, sum = 0;
	for (int r = 0; r < p->ranks; r++) {
		double w = load->rank[r].forward_s + load->rank[r].backward_s;
		most = fmax(most, w), sum += w;
	}
	return sum > 0 ? most * p->ranks / sum : 1;
}

static lk_status fill_pieces(struct answer *x, const lk_shard_pieces *pieces, lk_error *err) {
	const lk_shard_problem *p = &x->p;
	lk_shard_placed *out = LK_ARRAY(&x->arena, lk_shard_placed, pieces->count);
	if (!out) return lk_oom(err);
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		const lk_shard_table *t = &p->tables[piece->table];
		bool row = piece->kind == LK_SHARD_ROW;
		double k = piece->parts, at = piece->part;
		out[i] = (lk_shard_placed){.name = t->name, .kind = lk_shard_kind_names[piece->kind], .where = piece->host ? "host" : "device",
		                           .rank = piece->rank, .part = piece->part, .parts = piece->parts, .rows = t->rows,
		                           .dim = piece->cost.columns > 0 ? piece->cost.columns : t->dim, .pooling = t->pooling / (row ? k : 1),
		                           .forward_s = piece->cost.forward_s, .backward_s = piece->cost.backward_s};
		if (row) out[i].rows = floor(t->rows * (at + 1) / k) - floor(t->rows * at / k);
		out[i].bytes = out[i].rows * (out[i].dim * (p->element + p->state) + p->row_state);
	}
	x->a.pieces = out, x->a.piece_count = (int)pieces->count;
	return LK_OK;
}

static lk_status fill_ranks(struct answer *x, const lk_shard_pieces *pieces, const lk_shard_load *load, lk_error *err) {
	const lk_shard_problem *p = &x->p;
	lk_shard_rank *out = LK_ARRAY(&x->arena, lk_shard_rank, p->ranks);
	if (!out) return lk_oom(err);
	for (int r = 0; r < p->ranks; r++) {
		const lk_shard_cost *c = &load->rank[r];
		out[r] = (lk_shard_rank){r, 0, c->device_bytes, c->host_bytes, c->forward_s, c->backward_s, c->columns,
		                         lk_shard_exchange_s(p, c->columns, c->columns, c->columns * p->ranks)};
	}
	for (size_t i = 0; i < pieces->count; i++)
		for (int r = 0; r < p->ranks; r++)
			if (pieces->at[i].rank == r || pieces->at[i].kind == LK_SHARD_DATA) out[r].pieces++;
	x->a.ranks = out, x->a.rank_count = p->ranks;
	return LK_OK;
}

static lk_status fill(struct answer *x, const lk_shard_pieces *pieces, const char *graph, lk_error *err) {
	const lk_shard_problem *p = &x->p;
	lk_shard_load load;
	LK_TRY(lk_shard_load_of(&x->arena, p, pieces, &load, err));
	LK_TRY(lk_shard_simulate(p, &load, &x->a.step_s, err));
	x->a.fits = lk_shard_fits(p, &load);
	x->a.index_s = load.index_s, x->a.forward_s = load.forward_s, x->a.exchange_s = load.exchange_s, x->a.dense_s = p->dense_s;
	x->a.backward_s = load.backward_s, x->a.reduce_s = load.reduce_s;
	x->a.imbalance = imbalance_of(p, &load);
	/* the step is in whole picoseconds */
	x->a.bound_s = lk_shard_bound(p), x->a.gap = x->a.bound_s > 0 ? fmax(x->a.step_s / x->a.bound_s - 1, 0) : 0;
	LK_TRY(fill_pieces(x, pieces, err));
	LK_TRY(fill_ranks(x, pieces, &load, err));
	lk_graph *step = NULL;
	lk_costs costs;
	if (!graph) return LK_OK;
	LK_TRY(lk_shard_graph(&x->arena, p, &load, &step, &costs, err));
	for (uint32_t i = 0; i < step->ops.count; i++) step->ops.measured_ps[i] = costs.at[i].duration_ps;
	lk_status status = lk_graph_write(step, graph, err);
	lk_graph_free(step);
	return status;
}

/* ---- sharders ---- */

static lk_status choose(const lk_shard_request *r, int *out, lk_error *err) {
	const char *names[16];
	*out = lk_sharder_search;
	if (!r->sharder) return LK_OK;
	for (int i = 0; i < lk_sharder_count; i++) {
		names[i] = lk_sharders[i].name;
		if (lk_same_name(r->sharder, names[i])) return *out = i, LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, "--sharder", "\"%.40s\" is not known", r->sharder);
	const char *near = lk_nearest(r->sharder, names, (size_t)lk_sharder_count);
	return lk_hint(err, "%s%s", near ? "did you mean " : "give search, naive, random, ", near ? near : "size-greedy, ...");
}

static bool whole_allowed(const lk_shard_problem *p) {
	for (uint32_t t = 0; t < p->count; t++)
		if (!(p->tables[t].allowed & 1u << LK_SHARD_TABLE)) return false;
	return true;
}

/* Runs one; a placement that it does not find is a reason, not an error. */
static lk_status try_one(struct answer *x, const lk_sharder *sharder, lk_shard_plan *plan, lk_shard_tried *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_error refused = {0};
	double begin = now();
	*out = (lk_shard_tried){.name = sharder->name, .step_s = NAN, .imbalance = NAN};
	lk_status status = LK_OK;
	if (sharder->search || whole_allowed(&x->p)) status = sharder->run(&x->p, plan, &refused);
	else lk_fail(&refused, status = LK_ERR_INPUT, NULL, "it places whole tables, and --kinds leaves them out");
	out->seconds = now() - begin;
	if (status == LK_OK) status = lk_shard_load_of(&arena, &x->p, &plan->pieces, &load, &refused);
	if (status == LK_OK) status = lk_shard_simulate(&x->p, &load, &out->step_s, &refused);
	if (status == LK_OK) out->fits = lk_shard_fits(&x->p, &load), out->imbalance = imbalance_of(&x->p, &load);
	lk_arena_free(&arena);
	if (status != LK_OK && status != LK_ERR_INPUT) return *err = refused, status;
	if (status == LK_OK) return LK_OK;
	char line[1024];
	out->reason = lk_arena_strdup(&x->arena, lk_error_text(&refused, line, sizeof line));
	return out->reason ? LK_OK : lk_oom(err);
}

static lk_status try_all(struct answer *x, const lk_shard_request *r, lk_error *err) {
	int chosen;
	LK_TRY(choose(r, &chosen, err));
	lk_shard_tried *tried = LK_ARRAY(&x->arena, lk_shard_tried, lk_sharder_count);
	if (!tried) return lk_oom(err);
	for (int i = 0; i < lk_sharder_count; i++) {
		lk_shard_plan plan = {0};
		lk_status status = try_one(x, &lk_sharders[i], &plan, &tried[i], err);
		if (status == LK_OK && i == chosen && !tried[i].reason) status = fill(x, &plan.pieces, r->graph, err);
		lk_vec_free(&plan.pieces);
		LK_TRY(status);
	}
	x->a.tried = tried, x->a.tried_count = lk_sharder_count;
	x->a.sharder = tried[chosen].name;
	if (!x->a.fits) x->a.reason = tried[chosen].reason;
	return LK_OK;
}

/* ---- what does not fit ---- */

/* So many ranks, or so much host memory for each. */
static lk_status has_room(const struct answer *x, double ranks, double host_gib, bool *fits, lk_error *err) {
	lk_shard_problem p = x->p;
	*fits = false;
	if (ranks > RANKS) return LK_OK;
	p.ranks = (int)ranks, p.host_capacity = host_gib * 0x1p30;
	lk_shard_share(&p);
	return lk_shard_has_room(&p, fits, err);
}

/* The least whole number from `least` on that suffices, of ranks or of GiB of host memory; 0: none was found. */
static lk_status least_remedy(const struct answer *x, double least, bool ranks, double *out, lk_error *err) {
	double lacking = fmax(least, 1) - 1, enough = fmax(least, 1);
	bool fits = false;
	for (int i = 0; i < 12 && !fits; i++) {
		LK_TRY(has_room(x, ranks ? enough : x->p.ranks, ranks ? x->p.host_capacity / 0x1p30 : enough, &fits, err));
		if (!fits) lacking = enough, enough = ceil(enough * (i < 4 ? 1.1 : 2));
	}
	*out = fits ? enough : 0;
	while (fits && enough - lacking > 1) {
		bool here;
		double middle = floor((lacking + enough) / 2);
		LK_TRY(has_room(x, ranks ? middle : x->p.ranks, ranks ? x->p.host_capacity / 0x1p30 : middle, &here, err));
		*(here ? &enough : &lacking) = middle, *out = enough;
	}
	return LK_OK;
}

/* What would do: more GPUs for all bytes, or host memory for what is too much. Both were tried. */
static lk_status explain_lack(struct answer *x, lk_error *err) {
	const lk_shard_problem *p = &x->p;
	double all = x->a.table_bytes, room = p->capacity * p->ranks, ranks, gib;
	char has[32], host[32], gpus[32] = "", memory[48] = "";
	if (!(all > room)) return LK_OK;
	LK_TRY(least_remedy(x, ceil(all / p->capacity), true, &ranks, err));
	LK_TRY(least_remedy(x, ceil((all - room) / (1 - p->cache_share + 1e-9) / p->ranks / 0x1p30), false, &gib, err));
	if (ranks > 0) snprintf(gpus, sizeof gpus, "give --gpus %.0f", ranks);
	if (gib > 0) snprintf(memory, sizeof memory, "%s--host-memory %.0f", ranks > 0 ? ", or " : "give ", gib);
	lk_format_bytes(room, has, sizeof has), lk_format_bytes(all, host, sizeof host);
	x->a.reason = lk_arena_printf(&x->arena, "tables and optimizer states take %s, %d ranks hold %s%s%s%s", host, p->ranks, has,
	                              *gpus || *memory ? "; " : "", gpus, memory);
	return x->a.reason ? LK_OK : lk_oom(err);
}

static double all_tables(const lk_shard_problem *p) {
	double sum = 0;
	for (uint32_t t = 0; t < p->count; t++)
		sum += p->tables[t].rows * (p->tables[t].dim * (p->element + p->state) + p->row_state);
	return sum;
}

/* ---- the command ---- */

static const char *reproduce(lk_arena *arena, const lk_shard_request *r) {
	static const char *const but[] = {"plan", "graph", "table", "output", "file", "html", NULL};
	lk_shard_request usual;
	lk_shard_defaults(&usual);
	return lk_command(arena, &(lk_question){
		.verb = &lk_shard_verb, .request = r, .usual = &usual, .but = but, .operands = &r->tables, .operand_count = 1});
}

static lk_status describe(struct answer *x, const lk_shard_request *r, lk_error *err) {
	lk_shard_answer *a = &x->a;
	const lk_shard_problem *p = &x->p;
	a->batch = p->batch, a->tables = (int)p->count, a->table_bytes = all_tables(p);
	a->capacity_bytes = p->capacity, a->host_capacity_bytes = p->host_capacity;
	a->cluster = lk_arena_printf(&x->arena, "%d of %s", p->ranks, x->cluster.text);
	a->basis = p->at.host ? "lookups by caches and bandwidths measured on this processor; collectives by the model of the cluster"
	                      : "lookups by traffic and L2 hits, at the memory rate of the data sheet times the usual efficiency; NCCL's collectives";
	a->reproduce = reproduce(&x->arena, r);
	return a->cluster && a->reproduce ? LK_OK : lk_oom(err);
}

static lk_status ask(struct answer *x, const lk_shard_request *r, lk_error *err) {
	LK_TRY(read_request(x, r, err));
	LK_TRY(describe(x, r, err));
	LK_TRY(try_all(x, r, err));
	return x->a.fits ? LK_OK : explain_lack(x, err);
}

lk_status lk_shard(const lk_shard_request *request, lk_shard_answer **out, lk_error *err) {
	struct answer *x = calloc(1, sizeof *x);
	*out = NULL;
	if (!x) return lk_oom(err);
	x->a.memory_owner = x;
	lk_status status = ask(x, request, err);
	if (status == LK_OK) status = lk_inputs_find(&x->arena, &lk_shard_verb, request, &request->tables, request->tables ? 1 : 0, &x->a.inputs, err);
	if (status == LK_OK) *out = &x->a;
	else lk_shard_free(&x->a);
	return status;
}

void lk_shard_free(lk_shard_answer *a) {
	if (!a) return;
	struct answer *x = a->memory_owner;
	lk_arena_free(&x->arena);
	free(x);
}
