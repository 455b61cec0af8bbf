/* collective_ask.c: the question of `lockstep collective`: from options and a log to a group of ranks, and from that a
 * prediction for every size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collective/collective.h"
#include "tables/tables.h"
#include "base/text.h"
#include "cost/collective/collective.h"
#include "hw/hw.h"

enum { ROWS = 100000, ELEMENT = 4, NOTES = LK_COLLECTIVE_FLAGS + 4 };

static const char *const library_names[] = {"NCCL", "MPI", "gloo"};

/* Everything that an answer owns, and what it is made of. */
struct work {
	lk_collective result; /* first: the result is the work */
	lk_arena arena;
	const lk_collective_request *request;
	lk_nccl_runs runs;
	lk_cluster cluster;
	lk_fabric fabric;
	lk_curves curves;
	lk_group_shape group;
	lk_coll_kind kind;
	LK_VEC(lk_collective_row) rows;
	const char *notes[NOTES];
	int note_count;
};

void lk_collective_defaults(lk_collective_request *request) {
	memset(request, 0, sizeof *request);
}

void lk_collective_free(lk_collective *collective) {
	if (!collective) return;
	struct work *w = collective->memory_owner;
	lk_vec_free(&w->rows);
	lk_vec_free(&w->runs);
	lk_arena_free(&w->arena);
	free(w);
}

static lk_status add_note(struct work *w, const char *text, lk_error *err) {
	if (!text) return lk_oom(err);
	if (w->note_count < NOTES) w->notes[w->note_count++] = text;
	return LK_OK;
}

/* ---- the log ---- */

static lk_status read_log(struct work *w, lk_error *err) {
	lk_stream *in;
	if (!w->request->log) return LK_OK;
	LK_TRY(lk_stream_open(w->request->log, &in, err));
	lk_status status = lk_nccl_log_read(&w->arena, in, &w->runs, err);
	lk_stream_close(in);
	LK_TRY(status);
	const lk_nccl_run *first = &w->runs.at[0];
	for (size_t i = 1; i < w->runs.count; i++) {
		const lk_nccl_run *run = &w->runs.at[i];
		if (run->kind == first->kind && run->gpus == first->gpus) continue;
		lk_fail(err, LK_ERR_INPUT, run->where, "the log holds another test, or the same one on %d GPUs", run->gpus);
		return lk_hint(err, "give one log at a time");
	}
	return LK_OK;
}

static const lk_nccl_run *log_of(const struct work *w) {
	return w->runs.count ? &w->runs.at[0] : NULL;
}

/* ---- who takes part ---- */

static lk_status no_gpus(const struct work *w, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, "--gpus",
			w->runs.count ? "the log does not say on how many GPUs it ran" : "the number of GPUs was not given");
	return lk_hint(err, "give --gpus N");
}

static lk_status device_of(const struct work *w, const lk_device **out, lk_error *err) {
	const lk_nccl_run *run = log_of(w);
	if (w->request->gpu) return lk_device_lookup(w->request->gpu, out, err);
	*out = run && *run->device ? lk_coll_device(run->device) : NULL;
	if (*out) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gpu",
			run && *run->device ? "the catalogue does not have the GPU of the log, \"%.60s\"" : "no GPU was given",
			run ? run->device : "");
	return lk_hint(err, "give --gpu NAME (`lockstep devices` lists them) or --cluster");
}

static lk_status find_cluster(struct work *w, lk_error *err) {
	const lk_collective_request *r = w->request;
	const lk_nccl_run *run = log_of(w);
	int gpus = r->gpus ? r->gpus : run ? run->gpus : 0;
	if (r->cluster) {
		if (r->gpu) return lk_fail(err, LK_ERR_INPUT, "--cluster", "--cluster and --gpu exclude one another");
		LK_TRY(lk_cluster_parse(&w->arena, r->cluster, &w->cluster, err));
		if (gpus > w->cluster.gpus)
			return lk_fail(err, LK_ERR_INPUT, "--gpus", "%d GPUs, but the cluster has %d", gpus, w->cluster.gpus);
		w->group.ranks = gpus ? gpus : w->cluster.gpus;
		return LK_OK;
	}
	const lk_device *device;
	LK_TRY(device_of(w, &device, err));
	if (gpus < 1) return no_gpus(w, err);
	w->group.ranks = gpus;
	int nodes = run && !r->gpus ? run->nodes : 0, domain = nodes > 0 && gpus % nodes == 0 ? gpus / nodes : 0;
	bool partly =
		nodes > 1 && domain > 0 && domain < device->node_gpus; /* usual nodes, not all of whose GPUs are used */
	return lk_cluster_simple(&w->arena, device, gpus, partly ? domain : 0, 0, &w->cluster, err);
}

static double speed(const lk_node *node) {
	return node->intra_rate + node->nics * node->nic_rate;
}

static void find_group(struct work *w) {
	lk_group_shape *g = &w->group;
	lk_place last = lk_cluster_place(&w->cluster, g->ranks - 1);
	g->nodes = last.node + 1;
	g->ranks_per_node = (g->ranks + g->nodes - 1) / g->nodes;
	g->sharing = w->request->sharing > 0 ? w->request->sharing : 1;
	g->oversubscription = w->cluster.oversubscription;
	g->fabric = &w->fabric;
	g->node = &w->cluster.node[0];
	for (int i = 1; i <= last.group; i++)
		if (speed(&w->cluster.node[i]) < speed(g->node)) g->node = &w->cluster.node[i];
}

static lk_status find_fabric(struct work *w, lk_error *err) {
	const char *name = w->request->fabric;
	const lk_calibration_row *row = NULL;
	if (w->request->calibration) LK_TRY(lk_calibration_use(w->request->calibration, err));
	const lk_calibration *calibration = lk_calibration_current();
	if (name) row = lk_calibration_find(calibration, "collective", name, "");
	if (name && !row) {
		char shown[80];
		lk_fail(err, LK_ERR_INPUT, "--fabric", "no fabric \"%.60s\" is calibrated",
				lk_escape(name, shown, sizeof shown));
		return lk_hint(err,
					   "`lockstep calibrate collectives LOG` makes one; without --fabric the default numbers apply");
	}
	if (!row) row = lk_calibration_find(calibration, "collective", "default", "");
	w->fabric = lk_fabric_of(row);
	lk_curves_of(calibration, row, &w->curves);
	w->fabric.curves = &w->curves;
	w->result.fabric = name ? name : "default";
	if (w->request->library != LK_LIBRARY_NCCL) return LK_OK;
	return add_note(w,
					row ? lk_arena_printf(&w->arena, "numbers of the fabric \"%s\", fitted to %d sizes (%s)",
										  row->subject, row->points, row->source)
						: "numbers of no fabric: the calibration has no row",
					err);
}

/* ---- sizes ---- */

/* "16G" as nccl-tests read it. */
static lk_status read_size(const char *text, double otherwise, const char *where, double *out, lk_error *err) {
	const char *end;
	*out = otherwise;
	if (!text) return LK_OK;
	double value = lk_read_real(text, &end);
	const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (end != text && unit && *end) value *= ldexp(1, 10 * (int)(unit - units + 1)), end++;
	if (end == text || *end || !(value >= 1 && value <= 1e15)) {
		lk_fail(err, LK_ERR_INPUT, where, "\"%.40s\" is no size", text);
		return lk_hint(err, "give bytes, as in 8, 4K or 16G");
	}
	*out = floor(value);
	return LK_OK;
}

static lk_status add_row(struct work *w, double bytes, double us, double busbw, lk_error *err) {
	if (w->rows.count >= ROWS) return lk_fail(err, LK_ERR_INPUT, "--step", "more than %d sizes", ROWS);
	if (!lk_push(&w->rows)) return lk_oom(err);
	*lk_last(&w->rows) = (lk_collective_row){
		.bytes = bytes,
		.measured_us = us,
		.measured_busbw = busbw,
		.ratio = NAN,
		.flag = "",
	};
	return LK_OK;
}

static int by_bytes(const void *a, const void *b) {
	const lk_collective_row *x = a, *y = b;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static lk_status rows_of_log(struct work *w, lk_error *err) {
	for (size_t i = 0; i < w->runs.count; i++)
		for (int p = 0; p < w->runs.at[i].count; p++) {
			const lk_nccl_point *point = &w->runs.at[i].points[p];
			LK_TRY(add_row(w, point->bytes, lk_nccl_point_us(point), point->busbw, err));
		}
	qsort(w->rows.at, w->rows.count, sizeof *w->rows.at, by_bytes);
	return LK_OK;
}

static lk_status rows_of_request(struct work *w, lk_error *err) {
	const lk_collective_request *r = w->request;
	double begin, end, step, factor = r->factor > 1 ? r->factor : 2;
	LK_TRY(read_size(r->begin, 8, "--begin", &begin, err));
	LK_TRY(read_size(r->end, fmax(begin, ldexp(1, 30)), "--end", &end, err));
	LK_TRY(read_size(r->step, 0, "--step", &step, err));
	if (end < begin) return lk_fail(err, LK_ERR_INPUT, "--end", "the largest size is below the smallest");
	for (double bytes = begin; bytes <= end; bytes = step > 0 ? bytes + step : fmax(floor(bytes * factor), bytes + 1))
		LK_TRY(add_row(w, bytes, NAN, NAN, err));
	return LK_OK;
}

/* ---- predictions ---- */

static double elements(const struct work *w, double bytes) {
	bool parts = w->kind == LK_COLL_ALLGATHER || w->kind == LK_COLL_REDUCESCATTER || w->kind == LK_COLL_ALLTOALL;
	return floor(bytes / ELEMENT / (parts ? w->group.ranks : 1));
}

static void predict(const struct work *w, lk_collective_row *row) {
	lk_coll_cost cost = {0};
	if (w->request->library == LK_LIBRARY_NCCL) {
		cost = lk_collective_cost(w->kind, &w->group, row->bytes);
		row->algo = lk_algo_name(cost.algo), row->proto = lk_proto_name(cost.proto);
		row->channels = cost.channels, row->limit = lk_coll_limit_name(cost.limit);
	} else {
		lk_host_library library = w->request->library == LK_LIBRARY_MPI ? LK_HOST_MPI : LK_HOST_GLOO;
		lk_host_cost host = lk_host_collective(library, w->kind, &w->group, row->bytes);
		cost.seconds = host.seconds;
		row->algo = host.algorithm, row->proto = "";
		row->limit = lk_coll_limit_name(host.latency_bound   ? LK_LIMIT_LATENCY
										: w->group.nodes > 1 ? LK_LIMIT_NICS
															 : LK_LIMIT_LINKS);
	}
	row->us = cost.seconds * 1e6;
	row->count = elements(w, row->bytes);
	row->algbw = row->us > 0 ? row->bytes / row->us / 1e3 : 0;
	row->busbw = row->algbw * lk_coll_busbw_factor(w->kind, w->group.ranks);
	row->ratio = row->us > 0 ? row->measured_us / row->us : NAN;
}

static lk_status fill(struct work *w, lk_error *err) {
	lk_collective *out = &w->result;
	double busbw = 0, off = 0;
	for (size_t i = 0; i < w->rows.count; i++) {
		lk_collective_row *row = &w->rows.at[i];
		predict(w, row);
		busbw += row->busbw;
		off += fabs(log(row->ratio));
	}
	out->mean_busbw = w->rows.count ? busbw / (double)w->rows.count : 0;
	out->error = w->rows.count ? expm1(off / (double)w->rows.count) : NAN;
	if (w->runs.count)
		LK_TRY(lk_collective_flag(&w->arena, w->rows.at, (int)w->rows.count, w->notes, &w->note_count, err));
	out->rows = w->rows.at, out->row_count = (int)w->rows.count;
	out->notes = w->notes, out->note_count = w->note_count;
	return LK_OK;
}

static lk_status find_kind(struct work *w, lk_error *err) {
	const lk_nccl_run *run = log_of(w);
	if (w->request->op > 0)
		w->kind = (lk_coll_kind)(w->request->op - 1);
	else if (!run)
		w->kind = LK_COLL_ALLREDUCE;
	else if (run->kind_known)
		w->kind = run->kind;
	else {
		lk_fail(err, LK_ERR_INPUT, run->where, "the log does not say which collective it is");
		return lk_hint(err, "give --op, as in --op all_reduce");
	}
	return LK_OK;
}

static lk_status answer(struct work *w, lk_error *err) {
	LK_TRY(read_log(w, err));
	LK_TRY(find_kind(w, err));
	LK_TRY(find_cluster(w, err));
	LK_TRY(find_fabric(w, err));
	find_group(w);
	LK_TRY(w->runs.count ? rows_of_log(w, err) : rows_of_request(w, err));
	lk_collective *out = &w->result;
	out->op = lk_coll_name(w->kind);
	out->library = library_names[w->request->library];
	out->log = w->request->log;
	out->cluster = w->cluster.text;
	out->gpus = w->group.ranks, out->nodes = w->group.nodes;
	return fill(w, err);
}

lk_status lk_collective_ask(const lk_collective_request *request, lk_collective **out, lk_error *err) {
	*out = NULL;
	struct work *w = calloc(1, sizeof *w);
	if (!w) return lk_oom(err);
	w->result.memory_owner = w;
	w->request = request;
	lk_status status = answer(w, err);
	if (status == LK_OK)
		*out = &w->result;
	else
		lk_collective_free(&w->result);
	return status;
}
