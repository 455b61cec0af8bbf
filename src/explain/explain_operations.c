/* explain_operations.c: the work of the steps by what it is instead of by its kernels' names: the
 * phase of the step, the part of the work, the kind of operation, its shape or size, its group.
 * Runs on other devices and other libraries, and predicted steps, so have the same rows.
 *
 * Every moment of a step belongs to at most one operation: to the computation that began first,
 * else to communication, else to a copy; so the rows' own times and the idle time add up to the
 * steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/sort.h"
#include "base/text.h"
#include "explain/explain.h"

/* ---- phases ---- */

/* What the names of annotations and operations around a launch say, the innermost first. */
static const struct {
	const char *begins;
	lk_phase phase;
} phases[] = {
	{"Optimizer.zero_grad", LK_PHASE_OTHER},
	{"Optimizer.", LK_PHASE_OPTIMIZER},
	{"autograd::engine::evaluate_function: CheckpointFunctionBackward", LK_PHASE_RECOMPUTE},
	{"autograd::engine", LK_PHASE_BACKWARD},
};
enum { NO_PHASE = LK_PHASES, MOST_PARENTS = 256, CONVOLVES = 64 };

static uint8_t phase_in_name(const char *name) {
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
		if (lk_begins_with(name, phases[i].begins)) return (uint8_t)phases[i].phase;
	return NO_PHASE;
}

/* 1 + its phase, and whether it is a convolution. */
static int trait_of_name(const char *name) {
	return (1 + phase_in_name(name)) | (strcasestr(name, "convolution") ? CONVOLVES : 0);
}

/* Of a kernel without calls around its launch, or launched with a graph: what its kind shows, else
 * the phase of the one before it. */
static uint8_t phase_by_order(uint8_t kind, const char *name, uint8_t *last) {
	if (kind == LK_OP_OPTIMIZER) return LK_PHASE_OPTIMIZER;
	if (kind == LK_OP_ATTENTION_BWD || kind == LK_OP_SCAN_BWD || strcasestr(name, "backward") ||
	    strcasestr(name, "bwd"))
		return *last = LK_PHASE_BACKWARD;
	if (kind == LK_OP_ATTENTION || kind == LK_OP_EMBEDDING) *last = LK_PHASE_FORWARD;
	return *last;
}

uint8_t lk_event_phase(const lk_capture *capture, uint32_t event, uint8_t *last) {
	const lk_kind_note *note = lk_capture_kind(capture, event);
	if (note) return note->phase;
	uint32_t at = capture->launch[event];
	for (int i = 0; at != LK_NONE && i < MOST_PARENTS; i++, at = capture->parent[at]) {
		uint8_t phase = phase_in_name(lk_capture_text(capture, capture->name[at]));
		if (phase != NO_PHASE) return *last = phase;
	}
	return phase_by_order(LK_OP_COUNT, lk_capture_text(capture, capture->name[event]), last);
}

/* ---- parts ---- */

const char *lk_operation_part(unsigned kind, unsigned phase) {
	if (lk_op_is_comm(kind)) return "communication";
	if (kind == LK_OP_COPY) return "copies";
	if (phase == LK_PHASE_OPTIMIZER) return "optimizer";
	switch (kind) {
	case LK_OP_GEMM: return "products";
	case LK_OP_GROUPED_GEMM:
	case LK_OP_PERMUTE: return "experts";
	case LK_OP_ATTENTION:
	case LK_OP_ATTENTION_BWD:
	case LK_OP_SOFTMAX:
	case LK_OP_SCAN:
	case LK_OP_SCAN_BWD: return "attention";
	case LK_OP_CONV: return "convolution";
	case LK_OP_OPTIMIZER: return "optimizer";
	case LK_OP_LOSS: return "loss";
	default: return "norms and element-wise";
	}
}

const char *lk_operation_phase(unsigned phase) {
	if (phase == LK_PHASE_WEIGHT) phase = LK_PHASE_BACKWARD;
	return lk_phase_name((lk_phase)phase);
}

/* ---- one rank ---- */

enum { MEMO = 1 << 10, SEEN = 1 << 9 };

/* A kernel of an operation with shapes, and what it computes: both recur in every layer and step,
 * and reading shapes takes most of the time. */
struct seen_work {
	uint32_t kernel, name, shape, types, outputs;
	bool used;
	lk_op op;
};

struct operations {
	lk_rank_work *work;
	lk_work_kinds kinds;
	uint8_t *named;      /* [names] trait_of_name; 0: not looked at */
	uint8_t last;        /* phase of the kernel before */
	uint32_t memo[MEMO]; /* 1 + row of a hash of its key */
	struct seen_work seen[SEEN];
	int64_t computing, copying; /* until when earlier work has claimed the time */
	size_t comm;                /* the next of work->comms */
};

static void order_numbers(double *numbers, int count) {
	for (int i = 1; i < count; i++)
		for (int k = i; k > 0 && numbers[k] > numbers[k - 1]; k--) {
			double swapped = numbers[k];
			numbers[k] = numbers[k - 1];
			numbers[k - 1] = swapped;
		}
}

/* What the operations around a launch say; *convolves: a convolution is among them, which libraries
 * run with kernels of products. */
static uint8_t operations_phase(struct operations *all, uint32_t event, unsigned kind,
                                bool *convolves) {
	const lk_capture *capture = all->work->capture;
	const char *name = lk_capture_text(capture, capture->name[event]);
	uint32_t call = capture->launch[event], at = call;
	bool graph = call != LK_NONE && strstr(lk_capture_text(capture, capture->name[call]), "Graph");
	bool within = false;
	for (int i = 0; !graph && at != LK_NONE && i < MOST_PARENTS; i++, at = capture->parent[at]) {
		uint8_t *named = &all->named[capture->name[at]];
		if (!*named) *named = (uint8_t)trait_of_name(lk_capture_text(capture, capture->name[at]));
		uint8_t phase = (uint8_t)((*named & ~CONVOLVES) - 1);
		*convolves = *convolves || *named & CONVOLVES;
		within = within || capture->kind[at] == LK_EVENT_OP;
		if (phase == NO_PHASE) continue;
		/* a forward kernel within the backward pass is computed again */
		if (phase == LK_PHASE_BACKWARD && kind == LK_OP_ATTENTION) phase = LK_PHASE_RECOMPUTE;
		return phase;
	}
	if (within && kind != LK_OP_OPTIMIZER) return LK_PHASE_FORWARD;
	return phase_by_order((uint8_t)kind, name, &all->last);
}

static void classify_once(struct operations *all, uint32_t event, lk_op *op) {
	const lk_capture *capture = all->work->capture;
	uint32_t owner = capture->kind[event] == LK_EVENT_KERNEL && !lk_capture_kind(capture, event)
	                     ? lk_work_owner(&all->kinds, event)
	                     : LK_NONE;
	if (owner == LK_NONE) {
		lk_work_classify(capture, &all->kinds, event, op);
		return;
	}
	const lk_shape_note *note = lk_capture_shape(capture, owner);
	uint32_t kernel = capture->name[event], name = capture->name[owner];
	uint32_t hash = (kernel * 2654435761u) ^ (name * 40503u) ^ (note->shape * 69069u);
	struct seen_work *seen = &all->seen[(hash >> 8) % SEEN];
	if (!seen->used || seen->kernel != kernel || seen->name != name || seen->shape != note->shape ||
	    seen->types != note->types || seen->outputs != note->outputs) {
		*seen =
			(struct seen_work){kernel, name, note->shape, note->types, note->outputs, true, *op};
		lk_work_classify(capture, &all->kinds, event, &seen->op);
	}
	*op = seen->op;
}

static void operation_key_of(struct operations *all, uint32_t event, struct lk_operation_key *key,
                             int *ranks, double *flops) {
	const lk_capture *capture = all->work->capture;
	lk_op op = {.phase = NO_PHASE};
	memset(key, 0, sizeof *key);
	classify_once(all, event, &op);
	if (capture->kind[event] != LK_EVENT_KERNEL) op.kind = LK_OP_COPY;
	key->kind = op.kind;
	key->phase = op.phase;
	key->module = all->work->module ? all->work->module[event] : 0;
	if (op.phase == NO_PHASE) {
		bool convolves = false;
		key->phase = operations_phase(all, event, op.kind, &convolves);
		if (convolves && op.kind == LK_OP_GEMM) key->kind = LK_OP_CONV;
	}
	*flops = op.flops;
	*ranks = 0;
	if (!lk_op_is_comm(op.kind)) {
		const double shape[] = {op.m, op.n, op.k};
		memcpy(key->shape, shape, sizeof shape);
		order_numbers(key->shape, 3);
		key->shape[3] = op.batch;
		return;
	}
	const lk_comm_note *note = lk_capture_comm(capture, event);
	key->bytes = op.bytes;
	if (!note) return;
	key->group = note->group;
	*ranks = note->group_size;
}

static struct lk_rank_operation *operation_row(struct operations *all,
                                               const struct lk_operation_key *key) {
	lk_rank_work *work = all->work;
	const unsigned char *bytes = (const void *)key;
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < sizeof *key; i++) hash = (hash ^ bytes[i]) * 16777619u;
	uint32_t *memo = &all->memo[hash % MEMO];
	if (*memo && memcmp(&work->operations.at[*memo - 1].key, key, sizeof *key) == 0)
		return &work->operations.at[*memo - 1];
	for (size_t i = 0; i < work->operations.count; i++)
		if (memcmp(&work->operations.at[i].key, key, sizeof *key) == 0) {
			*memo = (uint32_t)i + 1;
			return &work->operations.at[i];
		}
	if (!lk_push(&work->operations)) return NULL;
	*memo = (uint32_t)work->operations.count;
	*lk_last(&work->operations) = (struct lk_rank_operation){.longest_ns = -1};
	lk_last(&work->operations)->key = *key;
	return lk_last(&work->operations);
}

/* The part of [start, end) that is its own: of `set`, and not claimed by earlier work. */
static double claim(int64_t *claimed, const lk_times *set, int64_t start, int64_t end) {
	if (start < *claimed) start = *claimed;
	if (end > *claimed) *claimed = end;
	return start < end ? (double)lk_times_between(set, start, end) : 0;
}

static lk_status operations_add(struct operations *all, uint32_t event, lk_error *err) {
	lk_rank_work *work = all->work;
	const lk_capture *capture = work->capture;
	struct lk_operation_key key;
	double flops;
	int ranks;
	operation_key_of(all, event, &key, &ranks, &flops);
	struct lk_rank_operation *row = operation_row(all, &key);
	if (!row) return lk_oom(err);
	int64_t start = capture->start_ns[event], end = lk_event_end(capture, event);
	double ns = (double)capture->dur_ns[event];
	bool begins = lk_in_windows(work, start);
	row->count += begins;
	if (begins) row->time_ns += ns;
	if (begins) row->flops += flops;
	row->ranks = ranks;
	if (ns > row->longest_ns) {
		row->longest_ns = ns;
		row->name = capture->name[event];
	}
	if (all->comm < work->comms.count && work->comms.at[all->comm].event == event) {
		const lk_rank_comm *comm = &work->comms.at[all->comm++];
		row->own_ns += (double)comm->exposed_ns;
		row->wait_ns += fmin((double)comm->exposed_wait_ns, (double)comm->exposed_ns);
	} else if (capture->kind[event] == LK_EVENT_KERNEL) {
		row->own_ns += claim(&all->computing, &work->compute, start, end);
	} else {
		row->own_ns += claim(&all->copying, &work->exposed_memory, start, end);
	}
	return LK_OK;
}

lk_status lk_rank_operations(lk_rank_work *work, lk_error *err) {
	struct operations all = {.work = work,
	                         .last = LK_PHASE_FORWARD,
	                         .computing = INT64_MIN,
	                         .copying = INT64_MIN,
	                         .named = calloc(lk_intern_count(work->capture->names) + 1, 1)};
	if (!all.named) return lk_oom(err);
	lk_status status = lk_work_kinds_find(work->capture, &all.kinds, err);
	if (status == LK_OK) {
		for (size_t i = 0; i < work->device.count && status == LK_OK; i++)
			status = operations_add(&all, work->device.at[i], err);
		lk_work_kinds_free(&all.kinds);
	}
	free(all.named);
	return status;
}

/* ---- all ranks ---- */

const char *lk_operation_shape(lk_arena *arena, const double shape[4], double bytes) {
	char shown[96], size[32];
	double sizes[3] = {shape[0], shape[1], shape[2]};
	lk_text text = lk_text_begin(shown, sizeof shown);
	order_numbers(sizes, 3);
	if (bytes > 0) lk_text_add(&text, "%s", lk_format_bytes(bytes, size, sizeof size));
	else if (shape[3] > 1 && sizes[0] > 0) lk_text_add(&text, "%.0f * ", shape[3]);
	for (int i = 0; i < 3 && sizes[i] > 0 && !(bytes > 0); i++)
		lk_text_add(&text, "%s%.0f", i ? " x " : "", sizes[i]);
	return lk_arena_strdup(arena, shown);
}

static lk_status operation_texts(lk_explain_work *work, const lk_rank_work *rank,
                                 const struct lk_rank_operation *row, lk_explain_operation *out,
                                 lk_error *err) {
	const struct lk_operation_key *key = &row->key;
	const char *group = lk_capture_text(rank->capture, key->group),
			   *of = strstr(group, " of rank ");
	*out = (lk_explain_operation){
		.phase = lk_operation_phase(key->phase),
		.part = lk_operation_part(key->kind, key->phase),
		.kind = lk_op_kind_name((lk_op_kind)key->kind),
		.shape = lk_operation_shape(&work->arena, key->shape, key->bytes),
		.group = rank->capture->simulated && of
	                 ? lk_arena_printf(&work->arena, "%.*s", (int)(of - group), group)
	                 : lk_arena_strdup(&work->arena, group),
		.name = lk_arena_strdup(&work->arena, lk_capture_text(rank->capture, row->name)),
		.module =
			rank->module_paths
				? lk_arena_strdup(&work->arena, lk_intern_text(rank->module_paths, key->module))
				: "",
		.ranks = row->ranks,
		.bytes = key->bytes,
		.count = row->count,
		.time_ns = row->time_ns,
		.own_ns = row->own_ns,
		.wait_ns = row->wait_ns,
		.flops = row->flops,
	};
	return out->shape && out->group && out->name && out->module ? LK_OK : lk_oom(err);
}

static int operations_by_key(const void *a, const void *b) {
	const lk_explain_operation *x = a, *y = b;
	const char *const p[] = {x->phase, x->part, x->kind, x->group, x->shape, x->module};
	const char *const q[] = {y->phase, y->part, y->kind, y->group, y->shape, y->module};
	for (int i = 0; i < 6; i++) {
		int order = strcmp(p[i], q[i]);
		if (order) return order;
	}
	if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
	return x->ranks - y->ranks;
}

static int operations_by_own(const void *a, const void *b) {
	const lk_explain_operation *x = a, *y = b;
	if (x->own_ns != y->own_ns) return x->own_ns > y->own_ns ? -1 : 1;
	return operations_by_key(a, b);
}

int lk_operations_join(lk_explain_operation *rows, int count) {
	int kept = 0;
	lk_sort(rows, (size_t)count, sizeof *rows, operations_by_key);
	for (int i = 0; i < count; i++) {
		lk_explain_operation *last = kept ? &rows[kept - 1] : NULL;
		if (!last || operations_by_key(last, &rows[i]) != 0) {
			rows[kept++] = rows[i];
			continue;
		}
		if (rows[i].time_ns > last->time_ns) last->name = rows[i].name;
		last->count += rows[i].count;
		last->time_ns += rows[i].time_ns;
		last->own_ns += rows[i].own_ns;
		last->wait_ns += rows[i].wait_ns;
		last->flops += rows[i].flops;
	}
	return kept;
}

lk_status lk_explain_operations(lk_explain_work *work, lk_error *err) {
	size_t count = 0;
	for (uint32_t r = 0; r < work->count; r++)
		if (work->rank[r].shown) count += work->rank[r].operations.count;
	lk_explain_operation *rows = LK_ARRAY(&work->arena, lk_explain_operation, count);
	if (!rows) return lk_oom(err);
	count = 0;
	for (uint32_t r = 0; r < work->count; r++) {
		const lk_rank_work *rank = &work->rank[r];
		for (size_t i = 0; rank->shown && i < rank->operations.count; i++)
			LK_TRY(operation_texts(work, rank, &rank->operations.at[i], &rows[count++], err));
	}
	work->result.operation_count = lk_operations_join(rows, (int)count);
	lk_sort(rows, (size_t)work->result.operation_count, sizeof *rows, operations_by_own);
	work->result.operations = rows;
	return LK_OK;
}
