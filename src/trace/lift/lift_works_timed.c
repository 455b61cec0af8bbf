/* lift_works_timed.c: a rank's works with explicit dependencies (Chakra) as operations of a step
 * graph. Each waits for its dependencies, and for the previous work on its thread or stream.
 * Durations are the trace's, if it has any. They are whole microseconds, so device work without one
 * took less than that. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/lift/lift_internal.h"
#include "base/check.h"

struct timed {
	lk_lifter *l;
	const lk_works *w;
	bool device_timed;
	bool control;             /* control dependencies affect the order too */
	uint32_t *order, ordered; /* works, each after its dependencies */
	uint32_t *place;          /* of the operation; LK_NONE: not added yet */
	int64_t *inner_ns;        /* of works of the host: time of those inside of them */
	uint8_t *state;
	LK_VEC(uint32_t) stack;
	uint64_t circles; /* dependencies that close a cycle */
};

enum { NEW, OPEN, DONE };

/* Dependency number `at` of a work, data first; LK_NONE after the last. */
static uint32_t dependency(const lk_works *works, uint32_t work, uint32_t at, bool control) {
	uint32_t data = works->data_begin[work + 1] - works->data_begin[work];
	if (at < data) return works->data[works->data_begin[work] + at];
	uint32_t place = works->control_begin[work] + (at - data);
	return control && place < works->control_begin[work + 1] ? works->control[place] : LK_NONE;
}

/* Put a work after everything it depends on; otherwise in the order of ids. */
static bool timed_put_in_order(struct timed *timed, uint32_t work) {
	if (timed->state[work] != NEW) return true;
	if (!lk_push(&timed->stack)) return false;
	*lk_last(&timed->stack) = work;
	while (timed->stack.count) {
		uint32_t top = *lk_last(&timed->stack);
		bool first = timed->state[top] == NEW, waits = false;
		if (first) timed->state[top] = OPEN;
		for (uint32_t i = 0, on;
		     first && (on = dependency(timed->w, top, i, timed->control)) != LK_NONE; i++) {
			timed->circles += timed->state[on] == OPEN;
			if (timed->state[on] != NEW) continue;
			waits = true;
			if (!lk_push(&timed->stack)) return false;
			*lk_last(&timed->stack) = on;
		}
		if (waits) continue;
		LK_ASSERT(top < timed->w->count &&
		          timed->ordered < timed->w->count + (timed->state[top] != OPEN));
		timed->stack.count--;
		if (timed->state[top] == OPEN) timed->order[timed->ordered++] = top;
		timed->state[top] = DONE;
	}
	return true;
}

static bool put_all_in_order(struct timed *timed, bool control) {
	timed->control = control;
	timed->circles = timed->ordered = 0;
	memset(timed->state, NEW, timed->w->count);
	for (uint32_t i = 0; i < timed->w->count; i++)
		if (!timed_put_in_order(timed, i)) return false;
	return true;
}

/* Drop control dependencies that the order violates (the converter of PyTorch traces writes them
 * from a kernel to the operation around its launch). */
static bool timed_depend(struct timed *timed, uint32_t work) {
	for (uint32_t i = 0, on; (on = dependency(timed->w, work, i, true)) != LK_NONE; i++)
		if (timed->place[on] == LK_NONE) timed->l->report->dropped++;
		else if (!lk_lifter_depend(timed->l, timed->place[on])) return false;
	return true;
}

/* Simulators' traces state flops and bytes; a product with these flops is assumed to be square. */
static bool timed_price(struct timed *timed, uint32_t work, lk_op *op) {
	op->bytes = timed->w->bytes[work];
	op->flops = timed->w->flops[work];
	op->dtype = LK_BF16; /* not in the trace; the common format in training */
	if (op->flops > 0) {
		op->kind = LK_OP_GEMM;
		op->m = op->n = op->k = cbrt(op->flops / 2);
		op->batch = 1;
	}
	if (op->flops > 0 || op->bytes > 0) {
		timed->l->report->priced++;
		return true;
	}
	return lk_lift_unpriced(timed->l, work);
}

static lk_op_kind kind_by_name(const char *name) {
	if (strncmp(name, "Memcpy", 6) == 0 || strncmp(name, "Memset", 6) == 0)
		return strstr(name, "DtoD") || name[3] == 's' ? LK_OP_ELEMENTWISE : LK_OP_COPY;
	return strstr(name, "gemm") ? LK_OP_GEMM : LK_OP_ELEMENTWISE;
}

static bool on_device(const lk_works *works, uint32_t work) {
	return works->kind[work] == LK_NODE_DEVICE || works->kind[work] == LK_NODE_MEMORY;
}

bool lk_works_device_timed(const lk_works *works) {
	for (uint32_t i = 0; works->timed && i < works->count; i++)
		if (works->duration_ns[i] > 0 && on_device(works, i)) return true;
	return false;
}

static bool timed_encloses(const lk_works *works, uint32_t outer, uint32_t inner) {
	return works->start_ns[outer] >= 0 && !on_device(works, outer) &&
	       works->thread[outer] == works->thread[inner] &&
	       works->start_ns[outer] <= works->start_ns[inner] &&
	       works->start_ns[inner] + works->duration_ns[inner] <=
	           works->start_ns[outer] + works->duration_ns[outer];
}

/* Converters write an operation of the host with the time of those that it calls, which depend on
 * it by control: each runs for its own time alone. */
static void timed_find_inner(struct timed *timed) {
	const lk_works *works = timed->w;
	for (uint32_t i = 0; i < works->count; i++) {
		if (on_device(works, i) || works->start_ns[i] < 0 || works->duration_ns[i] <= 0) continue;
		for (uint32_t d = works->control_begin[i]; d < works->control_begin[i + 1]; d++) {
			uint32_t outer = works->control[d];
			if (outer == LK_NONE || outer == i || !timed_encloses(works, outer, i)) continue;
			timed->inner_ns[outer] += works->duration_ns[i];
			break;
		}
	}
}

static bool timed_add(struct timed *timed, uint32_t work) {
	const lk_works *works = timed->w;
	const lk_work_comm *comm = lk_works_comm(works, work);
	bool device = on_device(works, work);
	lk_op op = {.phase = LK_PHASE_OTHER,
	            .name = lk_works_text(works, works->name[work]),
	            .kind = device ? LK_OP_ELEMENTWISE : LK_OP_HOST};
	/* Streams not given: one for computation, one for communication. */
	int64_t thread = works->thread[work] < 0 && comm ? -2 : works->thread[work];
	if (!lk_lift_add_stream(timed->l, device, thread, &op.stream) || !timed_depend(timed, work))
		return false;
	int64_t ns = works->duration_ns[work];
	if (ns > 0) ns = ns > timed->inner_ns[work] ? ns - timed->inner_ns[work] : 0;
	if (device) op.kind = kind_by_name(op.name);
	bool communicates = comm && lk_lift_comm(timed->l, comm, &op);
	if (device ? timed->device_timed : works->timed) {
		timed->l->report->timed += ns >= 0;
		op.measured_ps = ns > 0 && ns < INT64_MAX / 1000 ? ns * 1000 : device;
	} else if (communicates) timed->l->report->priced++;
	else if (device && !timed_price(timed, work, &op)) return false;
	timed->place[work] = lk_lifter_add(timed->l, &op);
	return true;
}

lk_status lk_lift_by_dependencies(lk_lifter *lifter) {
	size_t n = lifter->w->count + 1;
	struct timed t = {.l = lifter,
	                  .w = lifter->w,
	                  .device_timed = lk_works_device_timed(lifter->w),
	                  .order = malloc(n * sizeof *t.order),
	                  .place = malloc(n * sizeof *t.place),
	                  .state = malloc(n),
	                  .inner_ns = calloc(n, sizeof *t.inner_ns)};
	bool good = t.order && t.place && t.state && t.inner_ns && put_all_in_order(&t, true);
	if (good) timed_find_inner(&t);
	if (good && t.circles) good = put_all_in_order(&t, false);
	for (uint32_t i = 0; good && i < lifter->w->count; i++) t.place[i] = LK_NONE;
	for (uint32_t i = 0; good && !t.circles && i < t.ordered; i++) good = timed_add(&t, t.order[i]);
	free(t.order);
	free(t.place);
	free(t.state);
	free(t.inner_ns);
	lk_vec_free(&t.stack);
	if (!good) return lk_oom(lifter->err);
	if (t.circles) {
		lk_fail(t.l->err, LK_ERR_INPUT, t.w->path,
		        "%llu data dependencies lead back to the node that has them",
		        (unsigned long long)t.circles);
		return lk_hint(t.l->err, "a trace with circles cannot be run; write it again");
	}
	return LK_OK;
}
