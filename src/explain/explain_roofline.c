/* explain_roofline.c: measurements compared with what the hardware allows: operations of known
 * shape against dense peak and memory bandwidth (Williams, Waterman, Patterson: Roofline, CACM
 * 2009), communication against the model of NCCL.
 *
 * Flops and bytes follow from shapes (op_shapes.c); the time is that of all kernels that an
 * operation launched, since some (the two gradients of a convolution) share its work. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "explain/explain.h"
#include "step/traced.h"
#include "cost/kernel/kernel.h"
#include "trace/lift/lift.h"

/* Profilers keep no shapes of tensor lists, so operations of a few bytes are left out. */
enum { SCALARS = 64, MOST_ROWS = 256 };

/* ---- sums ---- */

struct shaped_row {
	lk_explain_shaped sum;
	lk_dtype format;
	double longest_ns; /* of one kernel */
	const lk_capture *capture;
	uint32_t operation, kernel; /* events of it */
};

enum { RECENT = 1 << 8 };

struct shaped_sums {
	lk_intern *names; /* ids count up from 1, as the rows do */
	struct {
		const lk_capture *capture; /* NULL: none */
		uint32_t name, row;
		lk_shape_note note;
	} recent[RECENT]; /* operations recur in every layer: their texts are compared once */
	LK_VEC(struct shaped_row) rows;
	double known_ns, all_ns;
};

static struct shaped_row *roofline_row_by_text(struct shaped_sums *sums, const lk_capture *capture,
                                               uint32_t op, const lk_shape_note *note) {
	const char *name = lk_capture_text(capture, capture->name[op]),
			   *shape = lk_capture_text(capture, note->shape),
			   *types = lk_capture_text(capture, note->types),
			   *outputs = lk_capture_text(capture, note->outputs);
	char *key = NULL;
	int length = asprintf(&key, "%s\n%s\n%s\n%s", name, shape, types, outputs);
	if (length < 0) return NULL;
	uint32_t id = lk_intern_id(sums->names, key);
	free(key);
	if (id == UINT32_MAX) return NULL;
	if (id <= sums->rows.count) return &sums->rows.at[id - 1];
	if (!lk_push(&sums->rows)) return NULL;
	lk_op asked = {0};
	struct shaped_row *row = lk_last(&sums->rows);
	lk_op_from_shapes(name, shape, types, outputs, &asked);
	*row = (struct shaped_row){
		.capture = capture, .operation = op, .kernel = LK_NONE, .format = (lk_dtype)asked.dtype};
	row->sum = (lk_explain_shaped){.kind = lk_op_kind_name((lk_op_kind)asked.kind),
	                               .dtype = lk_dtype_name((lk_dtype)asked.dtype),
	                               .flops = asked.flops,
	                               .bytes = asked.bytes > SCALARS ? asked.bytes : 0,
	                               .roof = NAN};
	return row;
}

/* The row of an operation's name, shapes and types. */
static struct shaped_row *roofline_row_of(struct shaped_sums *sums, const lk_capture *capture,
                                          uint32_t op) {
	const lk_shape_note *note = lk_capture_shape(capture, op);
	uint32_t name = capture->name[op];
	size_t at = (name * 2654435761u ^ note->shape * 40503u ^ note->types) % RECENT;
	const lk_shape_note *known = &sums->recent[at].note;
	if (sums->recent[at].capture == capture && sums->recent[at].name == name &&
	    known->shape == note->shape && known->types == note->types &&
	    known->outputs == note->outputs)
		return &sums->rows.at[sums->recent[at].row];
	struct shaped_row *row = roofline_row_by_text(sums, capture, op, note);
	if (!row) return NULL;
	sums->recent[at].capture = capture;
	sums->recent[at].name = name;
	sums->recent[at].row = (uint32_t)(row - sums->rows.at);
	sums->recent[at].note = *note;
	return row;
}

static lk_status roofline_add_rank(struct shaped_sums *sums, const lk_rank_work *work,
                                   lk_error *err) {
	const lk_capture *capture = work->capture;
	lk_work_kinds kinds;
	lk_status status = lk_work_kinds_find(capture, &kinds, err);
	for (size_t i = 0; status == LK_OK && i < work->device.count; i++) {
		uint32_t event = work->device.at[i], op = kinds.pair[event];
		if (!lk_in_windows(work, capture->start_ns[event])) continue;
		double ns = (double)capture->dur_ns[event];
		sums->all_ns += ns;
		if (op == LK_NONE) continue;
		struct shaped_row *row = roofline_row_of(sums, capture, op);
		if (!row) status = lk_oom(err);
		if (!row) break;
		sums->known_ns += ns;
		row->sum.total_ns += ns;
		row->sum.count += lk_work_owner(&kinds, event) != LK_NONE;
		if (row->kernel == LK_NONE || ns > row->longest_ns) {
			row->capture = capture;
			row->operation = op;
			row->kernel = event;
			row->longest_ns = ns;
		}
	}
	if (status == LK_OK) lk_work_kinds_free(&kinds);
	return status;
}

/* ---- the rows ---- */

static const char *roofline_shapes_of(const struct shaped_row *row) {
	return lk_capture_text(row->capture, lk_capture_shape(row->capture, row->operation)->shape);
}

static int roofline_by_total(const void *a, const void *b) {
	const struct shaped_row *x = a, *y = b;
	if (x->sum.total_ns != y->sum.total_ns) return x->sum.total_ns > y->sum.total_ns ? -1 : 1;
	int order = strcmp(lk_capture_text(x->capture, x->capture->name[x->operation]),
	                   lk_capture_text(y->capture, y->capture->name[y->operation]));
	return order ? order : strcmp(roofline_shapes_of(x), roofline_shapes_of(y));
}

/* If the device is known: the least time by its peak and its memory, over the measured time. */
static void hold_against(lk_explain_shaped *shaped, lk_dtype format, const lk_device *device) {
	if (!device || !(device->memory_rate > 0) || !shaped->count || !(shaped->total_ns > 0)) return;
	shaped->peak_flops = lk_peak_flops(device, format);
	double compute = shaped->flops / shaped->peak_flops,
		   memory = shaped->bytes / device->memory_rate;
	shaped->memory_bound = memory > compute;
	if (shaped->flops > 0 || shaped->bytes > 0)
		shaped->roof = fmax(compute, memory) * (double)shaped->count / (shaped->total_ns * 1e-9);
}

/* Shapes do not tell whether products of fp32 numbers may run in TF32; names of kernels do, in the
 * form of CUTLASS and cuBLAS: "..._tensorop_s1688gemm_..." (mma.m16n8k8 on tf32),
 * "..._tf32f32_...". */
static lk_dtype roofline_format_of(const struct shaped_row *row) {
	const char *kernel = lk_capture_text(row->capture, row->capture->name[row->kernel]);
	bool tf32 = strstr(kernel, "tf32") || strstr(kernel, "tensorop_s1688");
	return row->format == LK_FP32 && tf32 ? LK_TF32 : row->format;
}

static lk_status roofline_take_rows(lk_explain_work *work, struct shaped_sums *sums,
                                    const lk_device *device, lk_error *err) {
	lk_explain_shaped *out = LK_ARRAY(&work->arena, lk_explain_shaped, sums->rows.count);
	if (!out) return lk_oom(err);
	lk_sort(sums->rows.at, sums->rows.count, sizeof *sums->rows.at, roofline_by_total);
	work->result.shaped_all = (int)sums->rows.count;
	if (sums->rows.count > MOST_ROWS) sums->rows.count = MOST_ROWS;
	for (size_t i = 0; i < sums->rows.count; i++) {
		const struct shaped_row *row = &sums->rows.at[i];
		out[i] = row->sum;
		out[i].operation = lk_arena_strdup(
			&work->arena, lk_capture_text(row->capture, row->capture->name[row->operation]));
		out[i].shapes = lk_arena_strdup(&work->arena, roofline_shapes_of(row));
		out[i].kernel = lk_arena_strdup(
			&work->arena, lk_capture_text(row->capture, row->capture->name[row->kernel]));
		if (!out[i].operation || !out[i].shapes || !out[i].kernel) return lk_oom(err);
		out[i].share = sums->all_ns > 0 ? row->sum.total_ns / sums->all_ns : 0;
		out[i].dtype = lk_dtype_name(roofline_format_of(row));
		hold_against(&out[i], roofline_format_of(row), device);
	}
	work->result.shaped = out;
	work->result.shaped_count = (int)sums->rows.count;
	work->result.shaped_share = sums->all_ns > 0 ? sums->known_ns / sums->all_ns : 0;
	return LK_OK;
}

static lk_status roofline_add_up(lk_explain_work *work, const lk_device *device, lk_error *err) {
	struct shaped_sums s = {.names = lk_intern_new()};
	lk_status status = s.names ? LK_OK : lk_oom(err);
	for (uint32_t r = 0; status == LK_OK && r < work->count; r++)
		if (work->rank[r].shown) status = roofline_add_rank(&s, &work->rank[r], err);
	if (status == LK_OK) status = roofline_take_rows(work, &s, device, err);
	lk_intern_free(s.names);
	lk_vec_free(&s.rows);
	return status;
}

/* ---- the hardware ---- */

/* The run's ranks in default nodes of the device named by the request or the traces. `gpus` 0:
 * unknown. */
static lk_status roofline_find_cluster(lk_explain_work *work, const lk_explain_request *request,
                                       lk_cluster *out, lk_error *err) {
	const lk_traces *traces = work->traces;
	int ranks = traces->world > (int32_t)traces->count ? traces->world : (int)traces->count;
	*out = (lk_cluster){0};
	lk_where where = {.cluster = request->cluster,
	                  .gpu = request->gpu,
	                  .device = lk_traced_device(traces),
	                  .ranks = (uint32_t)ranks,
	                  .needed = (uint32_t)ranks,
	                  .flat = "explain"};
	if (!request->cluster && !request->gpu && !where.device) return LK_OK;
	return lk_where_read(&work->arena, &where, out, NULL, err);
}

/* Why no roofline is possible, as a sentence; NULL if it is. */
static const char *unknown_device(lk_explain_work *work) {
	const lk_capture *capture = work->traces->capture[0];
	if (work->result.processors) return "these programs had no GPU";
	if (!capture->device)
		return "the traces do not name their GPU: --gpu NAME or --cluster says on which it ran";
	return lk_arena_printf(&work->arena,
	                       "the GPU that the traces name, %.100s, is not in the catalogue: --gpu "
	                       "NAME or --cluster gives one "
	                       "to hold it against",
	                       lk_capture_text(capture, capture->device));
}

/* Shapes were requested, but the traces have none. */
static lk_status nothing_shaped(lk_explain_work *work, const lk_explain_request *request,
                                lk_error *err) {
	work->result.no_roofline =
		work->result.kernels
			? "no shapes of operations are in the traces: profile with record_shapes=True"
			: "the traces have no work of a device";
	if (!request->roofline_needed) return LK_OK;
	const char *where = request->trace_count ? request->traces[0] : "traces";
	if (work->result.kernels) {
		lk_fail(err, LK_ERR_INPUT, where, "no roofline: no shapes of operations are recorded");
		return lk_hint(err, "profile with record_shapes=True");
	}
	lk_fail(err, LK_ERR_INPUT, where, "no roofline: it has no work of a device");
	return lk_hint(err, "profile with record_shapes=True and ProfilerActivity.CUDA");
}

static bool roofline_has_shapes(const lk_explain_work *work) {
	for (uint32_t r = 0; r < work->count; r++)
		if (work->rank[r].capture->shapes.count) return true;
	return false;
}

lk_status lk_explain_hold_against(lk_explain_work *work, const lk_explain_request *request,
                                  lk_error *err) {
	lk_cluster cluster;
	lk_explanation *explanation = &work->result;
	LK_TRY(roofline_find_cluster(work, request, &cluster, err));
	const lk_device *device = cluster.gpus ? cluster.node[0].device : NULL;
	LK_TRY(lk_explain_energy(work, &cluster, &request->mains, err));
	if (device) {
		explanation->held_against = lk_arena_strdup(&work->arena, device->label);
		explanation->memory_rate = device->memory_rate;
		work->tf32_speedup = lk_peak_flops(device, LK_TF32) / lk_peak_flops(device, LK_FP32);
		if (!explanation->held_against) return lk_oom(err);
	} else if (!(explanation->no_curves = unknown_device(work))) {
		return lk_oom(err);
	}
	bool wanted = lk_explain_wants_shapes(request);
	if (wanted || (device && roofline_has_shapes(work))) LK_TRY(roofline_add_up(work, device, err));
	if (wanted) explanation->no_roofline = device ? NULL : explanation->no_curves;
	if (wanted && !explanation->shaped_count) LK_TRY(nothing_shaped(work, request, err));
	return device ? lk_explain_curves(work, &cluster, err) : LK_OK;
}
