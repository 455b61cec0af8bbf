/* lift_kinds.c: gives kernels the shapes of the operations that launch them, or a kind by name if
 * no shapes are known. */
#include "trace/lift/lift.h"

#include <stdlib.h>
#include <string.h>
#include "trace/capture/capture.h"
#include "base/check.h"
#include "base/sort.h"

/* ---- owners ---- */

static bool kinds_shaped(const lk_capture *capture, uint32_t op, lk_op *out) {
	const lk_shape_note *note = lk_capture_shape(capture, op);
	if (capture->kind[op] != LK_EVENT_OP || !note->shape) return false;
	lk_shapes_known known = lk_op_from_shapes(
		lk_capture_text(capture, capture->name[op]), lk_capture_text(capture, note->shape),
		lk_capture_text(capture, note->types), lk_capture_text(capture, note->outputs), out);
	return known == LK_SHAPES_WORK || known == LK_SHAPES_SYNC;
}

/* Cache of results by (name, shapes, types, results), so that each is parsed once: 1 known, 2
 * not. */
struct shape_memo {
	struct {
		uint32_t name, shape, types, outputs;
		uint8_t known; /* 0: free */
	} * slots;
	size_t size, used;
};

static bool remembered(struct shape_memo *memo, const lk_capture *capture, uint32_t op) {
	const lk_shape_note *note = lk_capture_shape(capture, op);
	size_t at = (capture->name[op] * 2654435761u ^ note->shape * 40503u ^ note->types ^
	             note->outputs * 69069u) &
	            (memo->size - 1);
	for (; memo->slots[at].known; at = (at + 1) & (memo->size - 1))
		if (memo->slots[at].name == capture->name[op] && memo->slots[at].shape == note->shape &&
		    memo->slots[at].types == note->types && memo->slots[at].outputs == note->outputs)
			return memo->slots[at].known == 1;
	lk_op unused = {0};
	bool known = kinds_shaped(capture, op, &unused);
	if (memo->used * 2 >= memo->size) return known; /* full: computed each time */
	memo->used++;
	memo->slots[at].name = capture->name[op];
	memo->slots[at].shape = note->shape;
	memo->slots[at].types = note->types;
	memo->slots[at].outputs = note->outputs;
	memo->slots[at].known = known ? 1 : 2;
	return known;
}

/* The innermost operation around a launch whose shapes tell what it computes. */
static uint32_t operation_of(struct shape_memo *memo, const lk_capture *capture, uint32_t work) {
	uint32_t at =
		capture->launch[work] == LK_NONE ? LK_NONE : capture->parent[capture->launch[work]];
	for (; at != LK_NONE; at = capture->parent[at])
		if (capture->kind[at] == LK_EVENT_OP && remembered(memo, capture, at)) return at;
	return LK_NONE;
}

static bool kinds_is_comm(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	return lk_work_communicates(capture, event) || lk_capture_comm(capture, event);
}

static lk_status pair_kernels(const lk_capture *capture, uint32_t *pair, lk_error *err) {
	struct shape_memo memo = {.size = 1 << 16};
	memo.slots = calloc(memo.size, sizeof *memo.slots);
	if (!memo.slots) return lk_oom(err);
	for (uint32_t i = 0; i < capture->count; i++) pair[i] = LK_NONE;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_KERNEL || kinds_is_comm(capture, i)) continue;
		uint32_t op = pair[i] = operation_of(&memo, capture, i);
		if (op != LK_NONE &&
		    (pair[op] == LK_NONE || capture->dur_ns[i] > capture->dur_ns[pair[op]]))
			pair[op] = i;
	}
	free(memo.slots);
	return LK_OK;
}

uint32_t lk_work_owner(const lk_work_kinds *kinds, uint32_t event) {
	uint32_t op = kinds->pair[event];
	return op != LK_NONE && kinds->pair[op] == event ? op : LK_NONE;
}

/* ---- unknown work ---- */

static int kinds_by_time(const void *a, const void *b) {
	const struct lk_unknown_work *x = a, *y = b;
	if (x->ns != y->ns) return x->ns > y->ns ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static lk_status list_unknown(const lk_capture *capture, lk_work_kinds *out, lk_error *err) {
	uint32_t names = lk_intern_count(capture->names), *place = calloc(names + 1, sizeof *place);
	lk_status status = place ? LK_OK : lk_oom(err);
	for (uint32_t i = 0; status == LK_OK && i < capture->count; i++) {
		if (!lk_event_on_device(capture->kind[i])) continue;
		bool known = lk_work_owner(out, i) != LK_NONE || kinds_is_comm(capture, i) ||
		             lk_capture_kind(capture, i) ||
		             (capture->kind[i] != LK_EVENT_KERNEL && lk_capture_copied(capture, i));
		out->device_ns += (double)capture->dur_ns[i];
		if (known) out->known_ns += (double)capture->dur_ns[i];
		if (known) continue;
		if (!place[capture->name[i]]) {
			if (!lk_push(&out->unknown)) status = lk_oom(err);
			if (status != LK_OK) break;
			place[capture->name[i]] = (uint32_t)out->unknown.count;
			lk_last(&out->unknown)->name = capture->name[i];
		}
		struct lk_unknown_work *work = &out->unknown.at[place[capture->name[i]] - 1];
		work->count++;
		work->ns += (double)capture->dur_ns[i];
	}
	free(place);
	lk_sort(out->unknown.at, out->unknown.count, sizeof *out->unknown.at, kinds_by_time);
	return status;
}

/* ---- names ---- */

static const struct {
	const char *part;
	lk_op_kind kind;
} names[] = {
	{"flash_bwd", LK_OP_ATTENTION_BWD},
	{"attn_bwd", LK_OP_ATTENTION_BWD}, /* Triton's and AITER's kernels on AMD ... */
	{"attnbwd", LK_OP_ATTENTION_BWD},  /* ... FlashAttention 3: FlashAttnBwd */
	{"fmha_bwd", LK_OP_ATTENTION_BWD}, /* composable_kernel, TransformerEngine */
	{"fmhabwd", LK_OP_ATTENTION_BWD},
	{"mha_bwd", LK_OP_ATTENTION_BWD},
	{"flash_bprop", LK_OP_ATTENTION_BWD}, /* cudnn_generated_..._sdpa_..._flash_bprop */
	{"attn_fwd", LK_OP_ATTENTION},
	{"attnfwd", LK_OP_ATTENTION},
	{"flash_fprop", LK_OP_ATTENTION},
	{"mha_fwd", LK_OP_ATTENTION},
	{"sdpa", LK_OP_ATTENTION},
	{"groupproblemshape", LK_OP_GROUPED_GEMM}, /* CUTLASS's grouped kernels */
	{"grouped_gemm", LK_OP_GROUPED_GEMM},
	{"groupedgemm", LK_OP_GROUPED_GEMM},
	{"group_gemm", LK_OP_GROUPED_GEMM},
	{"nvjet", LK_OP_GEMM}, /* cuBLAS 12.8 and later */
	{"cijk_", LK_OP_GEMM}, /* Tensile: rocBLAS, hipBLASLt */
	{"xmma", LK_OP_GEMM},
	{"matmul", LK_OP_GEMM},
	{"flash_fwd", LK_OP_ATTENTION},
	{"fmha", LK_OP_ATTENTION},
	{"flash", LK_OP_ATTENTION},
	{"gemm", LK_OP_GEMM},
	{"cutlass", LK_OP_GEMM},
	{"cublas", LK_OP_GEMM},
	{"gemv", LK_OP_GEMM},
	{"winograd", LK_OP_CONV},
	{"scudnn", LK_OP_CONV},
	{"wgrad", LK_OP_CONV},
	{"dgrad", LK_OP_CONV},
	{"conv", LK_OP_CONV},
	{"softmax", LK_OP_SOFTMAX},
	{"batch_norm", LK_OP_NORM},
	{"bn_", LK_OP_NORM},
	{"norm", LK_OP_NORM},
	{"embedding", LK_OP_EMBEDDING},
	{"multi_tensor_apply", LK_OP_OPTIMIZER},
	{"adam", LK_OP_OPTIMIZER},
	{"cross_entropy", LK_OP_LOSS},
	{"loss", LK_OP_LOSS},
	{"gather", LK_OP_PERMUTE},
	{"scatter", LK_OP_PERMUTE},
	{"index", LK_OP_PERMUTE},
	{"permute", LK_OP_PERMUTE},
	{"sort", LK_OP_PERMUTE},
};

lk_op_kind lk_kernel_kind(const char *name) {
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcasestr(name, names[i].part)) return names[i].kind;
	return LK_OP_ELEMENTWISE;
}

/* Classify each name once: thousands of kernels share dozens of names. */
static void name_kinds(const lk_capture *capture, uint8_t *named) {
	for (uint32_t i = 0; i < capture->count; i++)
		if (capture->kind[i] == LK_EVENT_KERNEL && !named[capture->name[i]])
			named[capture->name[i]] =
				(uint8_t)(1 + lk_kernel_kind(lk_capture_text(capture, capture->name[i])));
}

lk_status lk_work_kinds_find(const lk_capture *capture, lk_work_kinds *out, lk_error *err) {
	*out = (lk_work_kinds){.pair = malloc((capture->count + (size_t)1) * sizeof *out->pair),
	                       .named = calloc(lk_intern_count(capture->names) + (size_t)1, 1)};
	lk_status status = out->pair && out->named ? LK_OK : lk_oom(err);
	if (status == LK_OK) status = pair_kernels(capture, out->pair, err);
	if (status == LK_OK) status = list_unknown(capture, out, err);
	if (status == LK_OK) name_kinds(capture, out->named);
	if (status != LK_OK) lk_work_kinds_free(out);
	return status;
}

void lk_work_kinds_free(lk_work_kinds *kinds) {
	free(kinds->pair);
	free(kinds->named);
	lk_vec_free(&kinds->unknown);
	*kinds = (lk_work_kinds){0};
}

/* ---- kinds ---- */

static void copy_kind(const lk_capture *capture, uint32_t event, lk_op *out) {
	LK_ASSERT(event < capture->count);
	bool host = strstr(out->name, "HtoD") || strstr(out->name, "DtoH") || strstr(out->name, "Host");
	out->kind = host ? LK_OP_COPY : LK_OP_ELEMENTWISE;
	int64_t bytes = lk_capture_copied(capture, event);
	/* a copy within the device reads and writes */
	if (bytes)
		out->bytes = (double)bytes * (host || capture->kind[event] == LK_EVENT_MEMSET ? 1 : 2);
}

static void comm_bytes(const lk_capture *capture, uint32_t event, lk_op *out) {
	const lk_comm_note *note = lk_capture_comm(capture, event);
	if (!note || note->in_elements <= 0) return;
	int64_t elements =
		note->in_elements > note->out_elements ? note->in_elements : note->out_elements;
	out->bytes = (double)elements * note->element_bytes;
}

static void comm_kind(const lk_capture *capture, uint32_t event, lk_op *out) {
	LK_ASSERT(event < capture->count);
	const lk_comm_note *note = lk_capture_comm(capture, event);
	unsigned kind = LK_OP_COUNT;
	lk_comm_kernel(out->name, &kind);
	if (note && note->kind < LK_OP_COUNT) kind = note->kind;
	out->kind = kind < LK_OP_COUNT ? (uint8_t)kind : LK_OP_ALLREDUCE;
	comm_bytes(capture, event, out);
}

void lk_work_classify(const lk_capture *capture, const lk_work_kinds *kinds, uint32_t event,
                      lk_op *out) {
	LK_ASSERT(event < capture->count);
	out->name = lk_capture_text(capture, capture->name[event]);
	uint32_t owner = lk_work_owner(kinds, event);
	const lk_kind_note *stated = lk_capture_kind(capture, event);
	if (stated) {
		out->kind = stated->kind;
		out->phase = stated->phase;
		out->dtype = stated->dtype;
		out->m = stated->m;
		out->n = stated->n;
		out->k = stated->k;
		out->batch = stated->batch;
		out->flops = stated->flops;
		if (lk_op_is_comm(stated->kind)) comm_bytes(capture, event, out);
	} else if (capture->kind[event] != LK_EVENT_KERNEL) {
		copy_kind(capture, event, out);
	} else if (kinds_is_comm(capture, event)) {
		comm_kind(capture, event, out);
	} else if (owner == LK_NONE || !kinds_shaped(capture, owner, out)) {
		LK_ASSERT(kinds->named[capture->name[event]] > 0);
		out->kind = (uint8_t)(kinds->named[capture->name[event]] - 1);
	}
}
