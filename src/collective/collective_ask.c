/* collective_ask.c: the request of `lockstep collective`: from options and a log to a group of
 * ranks, and from that a prediction for every size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/arena.h"
#include "collective/collective.h"
#include "tables/tables.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "cost/collective/collective.h"
#include "cost/reaches.h"
#include "hw/hw.h"

enum { ROWS = 100000, ELEMENT = 4, NOTES = LK_COLLECTIVE_FLAGS + 4 };

static const char *const library_names[] = {"NCCL", "MPI", "gloo"};

/* Everything that an answer owns, and its inputs. */
struct work {
	lk_collective result; /* first: the result is the work */
	lk_arena arena;
	const lk_collective_request *request;
	lk_nccl_runs runs;
	lk_cluster cluster;
	lk_fabric fabric;
	lk_curves curves;
	lk_nccl_settings settings;
	lk_group_shape group;
	lk_coll_kind kind;
	lk_calibration_hold calibration;
	LK_VEC(lk_collective_row) rows;
	const char *notes[NOTES];
	int note_count;
};

void lk_collective_defaults(lk_collective_request *request) {
	memset(request, 0, sizeof *request);
}

void lk_collective_free(lk_collective *collective) {
	if (!collective) return;
	struct work *work = collective->memory_owner;
	lk_vec_free(&work->rows);
	lk_vec_free(&work->runs);
	lk_calibration_release(&work->calibration);
	lk_arena_free(&work->arena);
	free(work);
}

static lk_status add_note(struct work *work, const char *text, lk_error *err) {
	if (!text) return lk_oom(err);
	if (work->note_count < NOTES) work->notes[work->note_count++] = text;
	return LK_OK;
}

/* ---- the log ---- */

static lk_status read_log(struct work *work, lk_error *err) {
	lk_stream *in;
	if (!work->request->log) return LK_OK;
	LK_TRY(lk_stream_open(work->request->log, &in, err));
	lk_status status = lk_nccl_log_read(&work->arena, in, &work->runs, err);
	lk_stream_close(in);
	LK_TRY(status);
	const lk_nccl_run *first = &work->runs.at[0];
	for (size_t i = 1; i < work->runs.count; i++) {
		const lk_nccl_run *run = &work->runs.at[i];
		if (run->kind == first->kind && run->gpus == first->gpus) continue;
		lk_fail(err, LK_ERR_INPUT, run->where,
		        "the log holds another test, or the same one on %d %s", run->gpus,
		        lk_noun(run->gpus, "GPU", "GPUs"));
		return lk_hint(err, "give one log at a time");
	}
	return LK_OK;
}

static const lk_nccl_run *log_of(const struct work *work) {
	return work->runs.count ? &work->runs.at[0] : NULL;
}

/* ---- participants ---- */

static lk_status collective_ask_find_cluster(struct work *work, lk_error *err) {
	const lk_collective_request *request = work->request;
	const lk_nccl_run *run = log_of(work);
	char unknown[160];
	lk_where where = {.cluster = request->cluster, .gpu = request->gpu, .gpus = request->gpus};
	if (run) {
		LK_TRY(lk_devices_ready(err));
		where.device = *run->device ? lk_coll_device(run->device) : NULL;
		where.ranks = (uint32_t)run->gpus;
		/* default nodes, with some GPUs unused */
		int domains =
			where.device ? lk_coll_domains(where.device, run->gpus, run->nodes) : run->nodes;
		if (domains > 1 && run->gpus % domains == 0) where.domain = run->gpus / domains;
		if (*run->device) {
			snprintf(unknown, sizeof unknown,
			         "the catalogue does not have the GPU of the log, \"%.60s\"", run->device);
			where.no_gpu = unknown;
		}
		where.no_gpus = "the log does not say on how many GPUs it ran";
		/* a log's own number must fit like a given one */
		where.needed = request->gpus ? 0 : where.ranks;
	}
	return lk_where_read(&work->arena, &where, &work->cluster, &work->group.ranks, err);
}

static lk_status collective_ask_find_group(struct work *work, lk_error *err) {
	lk_group_shape *shape = &work->group;
	lk_place last = lk_cluster_place(&work->cluster, shape->ranks - 1);
	shape->nodes = last.node + 1;
	shape->ranks_per_node = (shape->ranks + shape->nodes - 1) / shape->nodes;
	shape->sharing = work->request->sharing > 0 ? work->request->sharing : 1;
	shape->oversubscription = work->cluster.oversubscription;
	shape->fabric = &work->fabric;
	shape->settings = &work->settings;
	shape->node = &work->cluster.node[0];
	for (int i = 1; i <= last.group; i++)
		if (lk_node_rate(&work->cluster.node[i]) < lk_node_rate(shape->node))
			shape->node = &work->cluster.node[i];
	if (work->request->library != LK_LIBRARY_NCCL)
		LK_TRY(lk_cluster_refuse_network(&work->cluster, "MPI and gloo", err));
	return lk_reach_alone(&work->arena, &work->cluster, shape, NULL,
	                      1U << lk_coll_traffic(work->kind, LK_ALGO_P2P) | 1U << LK_TRAFFIC_RING |
	                          1U << LK_TRAFFIC_TREE | 1U << LK_TRAFFIC_DOUBLING,
	                      &shape->reach, err);
}

static lk_status find_fabric(struct work *work, lk_error *err) {
	const char *name = work->request->fabric;
	const lk_calibration_row *row = NULL;
	const lk_calibration *calibration = lk_calibration_current();
	if (name) row = lk_calibration_find(calibration, "collective", name, "");
	if (name && !row) {
		char shown[80];
		lk_fail(err, LK_ERR_INPUT, "--fabric", "no fabric \"%.60s\" is calibrated",
		        lk_escape(name, shown, sizeof shown));
		return lk_hint(err, "`lockstep calibrate collectives LOG` makes one; without --fabric the "
		                    "default numbers apply");
	}
	if (!row) row = lk_calibration_find(calibration, "collective", "default", "");
	work->fabric = lk_fabric_of(row);
	lk_curves_of(calibration, row, &work->curves);
	work->fabric.curves = &work->curves;
	work->result.fabric = name ? name : "default";
	if (work->request->library != LK_LIBRARY_NCCL) return LK_OK;
	return add_note(work,
	                row ? lk_arena_printf(&work->arena,
	                                      "numbers of the fabric \"%s\", fitted to %d sizes (%s)",
	                                      row->subject, row->points, row->source)
	                    : "numbers of no fabric: the calibration has no row",
	                err);
}

/* ---- sizes ---- */

/* "16G", as nccl-tests read it. */
static lk_status collective_ask_read_size(const char *text, double otherwise, const char *where,
                                          double *out, lk_error *err) {
	const char *end;
	*out = otherwise;
	if (!text) return LK_OK;
	double value = lk_read_real(text, &end);
	const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (end != text && unit && *end) {
		value *= ldexp(1, 10 * (int)(unit - units + 1));
		end++;
	}
	if (end == text || *end || !(value >= 1 && value <= 1e15)) {
		lk_fail(err, LK_ERR_INPUT, where, "\"%.40s\" is not a size", text);
		return lk_hint(err, "give bytes, as in 8, 4K or 16G");
	}
	*out = floor(value);
	return LK_OK;
}

static lk_status collective_ask_add_row(struct work *work, double bytes, double us, double busbw,
                                        lk_error *err) {
	if (work->rows.count >= ROWS)
		return lk_fail(err, LK_ERR_INPUT, "--step", "more than %d sizes", ROWS);
	if (!lk_push(&work->rows)) return lk_oom(err);
	*lk_last(&work->rows) = (lk_collective_row){
		.bytes = bytes,
		.measured_us = us,
		.measured_busbw = busbw,
		.ratio = NAN,
		.flag = "",
	};
	return LK_OK;
}

LK_ORDER_BY(collective_ask_by_bytes, lk_collective_row, bytes)

static lk_status collective_ask_rows_of_log(struct work *work, lk_error *err) {
	for (size_t i = 0; i < work->runs.count; i++)
		for (int p = 0; p < work->runs.at[i].count; p++) {
			const lk_nccl_point *point = &work->runs.at[i].points[p];
			LK_TRY(collective_ask_add_row(work, point->bytes, lk_nccl_point_us(point), point->busbw,
			                              err));
		}
	lk_sort(work->rows.at, work->rows.count, sizeof *work->rows.at, collective_ask_by_bytes);
	return LK_OK;
}

static lk_status rows_of_request(struct work *work, lk_error *err) {
	const lk_collective_request *request = work->request;
	double begin, end, step, factor = request->factor > 1 ? request->factor : 2;
	LK_TRY(collective_ask_read_size(request->begin, 8, "--begin", &begin, err));
	LK_TRY(collective_ask_read_size(request->end, fmax(begin, ldexp(1, 30)), "--end", &end, err));
	LK_TRY(collective_ask_read_size(request->step, 0, "--step", &step, err));
	if (end < begin)
		return lk_fail(err, LK_ERR_INPUT, "--end", "the largest size is below the smallest");
	for (double bytes = begin; bytes <= end;
	     bytes = step > 0 ? bytes + step : fmax(floor(bytes * factor), bytes + 1))
		LK_TRY(collective_ask_add_row(work, bytes, NAN, NAN, err));
	return LK_OK;
}

/* ---- predictions ---- */

static double collective_ask_elements(const struct work *work, double bytes) {
	bool parts = work->kind == LK_COLL_ALLGATHER || work->kind == LK_COLL_REDUCESCATTER ||
	             work->kind == LK_COLL_ALLTOALL;
	return floor(bytes / ELEMENT / (parts ? work->group.ranks : 1));
}

/* The range of an NCCL time: for a requested fabric by its own errors, wider if this group was not
 * measured there. */
static void collective_ask_range(const struct work *work, lk_collective_row *row) {
	bool measured = lk_curves_have(&work->curves, work->kind, &work->group);
	double width = lk_coll_width(lk_calibration_current(), work->request->fabric, work->kind,
	                             &work->group, row->bytes, row->us, !measured);
	row->low_us = row->us * exp(-width);
	row->high_us = row->us * exp(width);
}

static lk_status collective_ask_note_range(struct work *work, lk_error *err) {
	const char *of = "on fabrics that no fit had seen";
	if (work->request->library != LK_LIBRARY_NCCL) return LK_OK;
	if (work->request->fabric &&
	    lk_coll_range_known(lk_calibration_current(), work->request->fabric, work->kind,
	                        &work->group))
		of = lk_curves_have(&work->curves, work->kind, &work->group)
		         ? "of this fabric, at sizes that no fit had seen"
		         : "of this fabric, on numbers of GPUs that no fit had seen";
	return add_note(
		work, lk_arena_printf(&work->arena, "low to high: 80 %% range, from errors %s", of), err);
}

static void collective_ask_predict(const struct work *work, lk_collective_row *row) {
	lk_coll_cost cost = {0};
	if (work->request->library == LK_LIBRARY_NCCL) {
		cost = lk_collective_cost(work->kind, &work->group, row->bytes);
		row->algo = lk_algo_name(cost.algo);
		row->proto = lk_proto_name(cost.proto);
		row->channels = cost.channels;
		row->limit = lk_coll_limit_name(cost.limit);
	} else {
		lk_host_library library =
			work->request->library == LK_LIBRARY_MPI ? LK_HOST_MPI : LK_HOST_GLOO;
		lk_host_cost host = lk_host_collective(library, work->kind, &work->group, row->bytes);
		cost.seconds = host.seconds;
		row->algo = host.algorithm;
		row->proto = "";
		row->limit = lk_coll_limit_name(host.latency_bound      ? LK_LIMIT_LATENCY
		                                : work->group.nodes > 1 ? LK_LIMIT_NICS
		                                                        : LK_LIMIT_LINKS);
	}
	row->us = cost.seconds * 1e6;
	row->low_us = row->high_us = NAN;
	if (work->request->library == LK_LIBRARY_NCCL) collective_ask_range(work, row);
	row->count = collective_ask_elements(work, row->bytes);
	row->algbw = row->us > 0 ? row->bytes / row->us / 1e3 : 0;
	row->busbw = row->algbw * lk_coll_busbw_factor(work->kind, work->group.ranks);
	row->ratio = row->us > 0 ? row->measured_us / row->us : NAN;
}

static lk_status collective_ask_fill(struct work *work, lk_error *err) {
	lk_collective *out = &work->result;
	double busbw = 0, off = 0;
	LK_TRY(collective_ask_note_range(work, err));
	for (size_t i = 0; i < work->rows.count; i++) {
		lk_collective_row *row = &work->rows.at[i];
		collective_ask_predict(work, row);
		busbw += row->busbw;
		off += fabs(log(row->ratio));
	}
	out->mean_busbw = work->rows.count ? busbw / (double)work->rows.count : 0;
	out->error = work->rows.count ? expm1(off / (double)work->rows.count) : NAN;
	if (work->runs.count)
		LK_TRY(lk_collective_flag(&work->arena, work->rows.at, (int)work->rows.count, work->notes,
		                          &work->note_count, err));
	out->rows = work->rows.at;
	out->row_count = (int)work->rows.count;
	out->notes = work->notes;
	out->note_count = work->note_count;
	return LK_OK;
}

static lk_status collective_ask_find_kind(struct work *work, lk_error *err) {
	const lk_nccl_run *run = log_of(work);
	if (work->request->op > 0) work->kind = (lk_coll_kind)(work->request->op - 1);
	else if (!run) work->kind = LK_COLL_ALLREDUCE;
	else if (run->kind_known) work->kind = run->kind;
	else return lk_nccl_ask_kind(run, "give --op, as in --op all_reduce", err);
	return LK_OK;
}

static lk_status collective_ask_check_nccl(const struct work *work, lk_error *err) {
	char idle[160];
	if (work->request->library != LK_LIBRARY_NCCL) {
		lk_fail(err, LK_ERR_INPUT, "--nccl", "it has no effect: the library is not NCCL");
		return lk_hint(err, "use --library nccl, or leave it out");
	}
	lk_nccl_settings_idle(&work->settings, work->kind, &work->group, idle, sizeof idle);
	if (!*idle) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--nccl", "no effect on these ranks: %s", idle);
	return lk_hint(err, "leave it out, or name ranks and a collective on which it acts");
}

/* Refuse options without effect for these ranks and this library. */
static lk_status check_idle(const struct work *work, lk_error *err) {
	const lk_collective_request *request = work->request;
	if (request->step && request->factor > 0) {
		lk_fail(err, LK_ERR_INPUT, "--step", "--factor also says how sizes grow");
		return lk_hint(err, "give either");
	}
	if (request->sharing > 1 && work->group.nodes < 2) {
		lk_fail(err, LK_ERR_INPUT, "--sharing", "it has no effect: one node uses no NIC");
		return lk_hint(err, "give more ranks, or leave it out");
	}
	if (request->nccl) LK_TRY(collective_ask_check_nccl(work, err));
	if (!request->fabric || request->library == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--fabric", "it has no effect: fabrics are calibrated for NCCL");
	return lk_hint(err, "use --library nccl, or leave it out");
}

static lk_status collective_ask_answer(struct work *work, lk_error *err) {
	LK_TRY(read_log(work, err));
	LK_TRY(collective_ask_find_kind(work, err));
	LK_TRY(collective_ask_find_cluster(work, err));
	LK_TRY(find_fabric(work, err));
	if (work->request->nccl)
		LK_TRY(lk_nccl_settings_read(work->request->nccl, "--nccl", &work->settings, err));
	else if (work->request->library == LK_LIBRARY_NCCL)
		LK_TRY(lk_nccl_settings_read(work->cluster.nccl, "cluster", &work->settings, err));
	LK_TRY(collective_ask_find_group(work, err));
	LK_TRY(check_idle(work, err));
	LK_TRY(work->runs.count ? collective_ask_rows_of_log(work, err) : rows_of_request(work, err));
	lk_collective *out = &work->result;
	out->op = lk_coll_name(work->kind);
	out->library = library_names[work->request->library];
	out->log = work->request->log;
	out->cluster = work->cluster.text;
	out->gpu = work->group.node->device ? work->group.node->device->label : "CPU";
	out->gpus = work->group.ranks;
	out->nodes = work->group.nodes;
	return collective_ask_fill(work, err);
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

static const char *collective_check(const lk_collective *collective) {
	for (int i = 0; i < collective->row_count; i++) {
		const lk_collective_row *row = &collective->rows[i];
		LK_HOLDS(isfinite(row->us) && row->us >= 0);
		LK_HOLDS(!(row->low_us > row->us) && !(row->high_us < row->us));
		LK_HOLDS(isfinite(row->algbw) && row->algbw >= 0 && row->busbw >= 0);
		LK_HOLDS(!(row->us > 0) ||
		         fabs(row->algbw * row->us * 1e3 - row->bytes) <= 1e-9 * row->bytes);
		LK_HOLDS(collective->log || i == 0 || row->bytes > row[-1].bytes);
		LK_HOLDS(isnan(row->ratio) ||
		         fabs(row->ratio * row->us - row->measured_us) <= 1e-9 * row->measured_us);
	}
	return NULL;
}

lk_status lk_collective_ask(const lk_collective_request *request, lk_collective **out,
                            lk_error *err) {
	*out = NULL;
	struct work *work = calloc(1, sizeof *work);
	if (!work) return lk_oom(err);
	work->result.memory_owner = work;
	work->request = request;
	lk_status status = lk_calibration_begin(&work->calibration, request->calibration, err);
	if (status == LK_OK) {
		status = lk_coll_ready(err);
		if (status == LK_OK) status = collective_ask_answer(work, err);
		lk_calibration_leave(&work->calibration);
	}
	if (status == LK_OK)
		work->result.failed_check = lk_failed_check(collective_check(&work->result));
	if (status == LK_OK) *out = &work->result;
	else lk_collective_free(&work->result);
	return status;
}
