/* lift_works_shapes.c: a rank's execution trace without times as operations of a step graph.
 *
 * The host, in the terms of host_time.c, at every level of nesting: a top-level operation of a
 * thread begins T1 after the one before; of any operation T2 passes before the first thing inside,
 * T5 between two, T3 after the last; one with nothing inside takes T5. Things inside are
 * operations and launches; that one without parts launches is known from the overheads, which know
 * a T2 of it, and by its shapes.
 *
 * The device: below a top-level operation, the outermost operations whose shapes say what they do
 * are taken whole; each is one kernel, after the first launch inside, in order on the compute
 * stream. Collectives are on a stream of their own, after the compute that was launched before
 * them; compute waits for one where the trace has a wait, or reads or writes a tensor of its. The
 * host waits for results that it reads (aten::item, copies to host memory).
 *
 * The backward pass of a lookup (torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>) has
 * nothing but its gradient: it is that of the last lookup before with a result of this shape. It
 * sorts the indices, in kernels that each pass over them, then changes the rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/lift/lift_internal.h"
#include "trace/lift/lift.h"
#include "base/check.h"
#include "base/text.h"

/* What a work does on the device; | DONE: already emitted. */
enum { NONE, PIECE, SYNC, COLLECTIVE, AWAIT, UNKNOWN, DONE = 16 };

/* What has happened inside a work. */
enum {
	HAD = 1,   /* anything */
	CALLED = 2 /* a launch call of its own */
};

enum { OPEN = 64 }; /* collectives not yet waited for; the oldest is dropped */

struct shapes {
	lk_lifter *l;
	const lk_works *w;
	uint8_t *does;
	uint8_t *taken;   /* part of an operation that is taken whole */
	uint8_t *parts;   /* it has children */
	uint32_t *lookup; /* for a lookup's backward pass: the lookup; for a lookup: the previous one in
	                     the list of its shape; LK_NONE */
	uint32_t *newest; /* [texts] the last lookup with a result of this shape and without a backward
	                     pass so far; LK_NONE */
	uint32_t *above;  /* the host operation that encloses it; LK_NONE */
	uint32_t *first, *last, *next; /* host operations inside it; its next sibling */
	/* the walk */
	uint32_t host; /* the last operation of a CPU thread */
	uint8_t host_stream;
	uint8_t *had;    /* HAD | CALLED */
	uint32_t acting; /* the innermost open work with device work not yet emitted; LK_NONE */
	double pending;  /* host time not yet in an operation of the graph, seconds */
	const char *pending_name;
	uint8_t comm_stream;
	struct {
		int64_t storage, sequence;
		uint32_t op;
	} open[OPEN];
	uint32_t opened;
};

static const char *shapes_name_of(const struct shapes *shapes, uint32_t work) {
	return lk_works_text(shapes->w, shapes->w->name[work]);
}

/* ---- what works do ---- */

static bool encloses_only(const struct shapes *shapes, uint32_t work) {
	return shapes->w->kind[work] != LK_NODE_OP ||
	       strncmp(shapes_name_of(shapes, work), "autograd::engine::evaluate_function", 35) == 0;
}

/* Operations without parts that launch nothing: conversions to the present type or layout, steps of
 * autograd that pass a gradient on. */
static bool idle_alone(const char *name) {
	static const char *const names[] = {"aten::to",
	                                    "aten::contiguous",
	                                    "aten::type_as",
	                                    "aten::dropout",
	                                    "torch::autograd::AccumulateGrad",
	                                    "record_param_comms"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0) return true;
	size_t length = strlen(name);
	while (length && name[length - 1] >= '0' && name[length - 1] <= '9') length--;
	return name[length] && length >= 8 && strncmp(name + length - 8, "Backward", 8) == 0 &&
	       !strchr(name, ':');
}

/* Operations of other libraries launch kernels of their own, whatever other parts they have. */
static bool shapes_foreign(const char *name) {
	static const char *const own[] = {"aten::",
	                                  "c10d::",
	                                  "autograd::engine::",
	                                  "torch::autograd::AccumulateGrad",
	                                  "torch::distributed::",
	                                  "torch.distributed"};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (lk_begins_with(name, own[i])) return false;
	return strstr(name, "::");
}

static bool lookup_backward(const char *name) {
	return strncmp(name, "torch::autograd::CppNode<", 25) == 0 && strstr(name, "LookupFunction");
}

/* A lookup joins the list of its shape; a backward pass takes the last one there. */
static void shapes_pair_lookups(struct shapes *shapes, uint32_t work) {
	const lk_works *works = shapes->w;
	const char *name = shapes_name_of(shapes, work);
	if (works->kind[work] != LK_NODE_OP) return;
	if (strncmp(name, "fbgemm::", 8) == 0 && strstr(name, "lookup")) {
		uint32_t *newest = &shapes->newest[works->outputs[work]];
		shapes->lookup[work] = *newest;
		*newest = work;
	} else if (lookup_backward(name)) {
		uint32_t *newest = &shapes->newest[works->shape[work]], lookup = *newest;
		shapes->lookup[work] = lookup;
		if (lookup != LK_NONE) *newest = shapes->lookup[lookup];
	}
}

static lk_shapes_known shapes_ask(const struct shapes *shapes, uint32_t work, lk_op *op) {
	const lk_works *works = shapes->w;
	const char *name = op->name;
	if (lookup_backward(name)) {
		uint32_t lookup = shapes->lookup[work];
		if (lookup == LK_NONE) return LK_SHAPES_UNKNOWN;
		op->phase = LK_PHASE_BACKWARD;
		work = lookup;
		name = shapes_name_of(shapes, lookup);
	}
	return lk_op_from_shapes(name, lk_works_text(works, works->shape[work]),
	                         lk_works_text(works, works->types[work]),
	                         lk_works_text(works, works->outputs[work]), op);
}

/* A copy between host and device uses PCIe; the host waits for a copy that it will read. */
static uint8_t transfer(const struct shapes *shapes, uint32_t work, lk_op *op) {
	const lk_tensor *to = &shapes->w->tensors.at[shapes->w->tensor_begin[work]];
	op->kind = LK_OP_COPY;
	op->bytes = (double)to->elements * to->element_bytes;
	return strncmp(lk_works_text(shapes->w, to->device), "cpu", 3) == 0 ? SYNC : PIECE;
}

/* Classify a work and fill its operation; *whole: its parts are not looked at. */
static uint8_t shapes_classify(const struct shapes *shapes, uint32_t work, lk_op *op, bool *whole) {
	const lk_works *works = shapes->w;
	const lk_work_comm *comm = lk_works_comm(works, work);
	bool host, device = lk_works_on_device(works, work, &host);
	*op = (lk_op){.name = shapes_name_of(shapes, work), .phase = LK_PHASE_OTHER};
	*whole = true;
	if (comm && comm->waits) return AWAIT;
	if (comm && lk_op_is_collective(comm->note.kind)) return COLLECTIVE;
	if (comm) return UNKNOWN;
	*whole = false;
	if (encloses_only(shapes, work)) return NONE;
	lk_shapes_known known = shapes_ask(shapes, work, op);
	*whole = known != LK_SHAPES_UNKNOWN;
	if (known == LK_SHAPES_NOTHING) return NONE;
	if (!device) return NONE;
	if (known == LK_SHAPES_UNKNOWN)
		return shapes_foreign(op->name) || !(shapes->parts[work] || idle_alone(op->name)) ? UNKNOWN
		                                                                                  : NONE;
	if (host && strcmp(op->name, "aten::copy_") == 0) return transfer(shapes, work, op);
	return known == LK_SHAPES_SYNC ? SYNC : PIECE;
}

static void shapes_count(struct shapes *shapes, uint32_t work, uint8_t does, bool whole) {
	bool host;
	if (shapes->w->kind[work] != LK_NODE_OP || does == AWAIT) return;
	if (does == UNKNOWN) return; /* counted by name */
	if (does != NONE) shapes->l->report->priced++;
	else if (!whole) shapes->l->report->nothing += !shapes->parts[work];
	else if (!lk_works_on_device(shapes->w, work, &host) && host) shapes->l->report->hosts++;
	else shapes->l->report->nothing++;
}

/* Whether a work takes host time: operations, and annotations that represent one (as in
 * host_time.c). */
static bool of_host(const struct shapes *shapes, uint32_t work) {
	const char *name = shapes_name_of(shapes, work);
	if (shapes->w->kind[work] == LK_NODE_OP) return true;
	return shapes->w->kind[work] == LK_NODE_NOTE &&
	       (strncmp(name, "Optimizer.", 10) == 0 ||
	        strncmp(name, "enumerate(DataLoader)", 21) == 0);
}

/* Link a work to the host operation around it. Works are in the order of their start, so enclosing
 * ones come first. */
static void enclose(struct shapes *shapes, uint32_t work) {
	uint32_t parent = shapes->w->parent[work];
	LK_ASSERT(parent == LK_NONE || parent < work);
	uint32_t above;
	if (parent == LK_NONE) above = LK_NONE;
	else if (of_host(shapes, parent)) above = parent;
	else above = shapes->above[parent];
	shapes->above[work] = above;
	shapes->taken[work] = parent != LK_NONE && shapes->taken[parent];
	shapes->first[work] = shapes->last[work] = shapes->next[work] = LK_NONE;
	if (above == LK_NONE || !of_host(shapes, work)) return;
	if (shapes->first[above] == LK_NONE) shapes->first[above] = work;
	else shapes->next[shapes->last[above]] = work;
	shapes->last[above] = work;
}

static lk_status find_pieces(struct shapes *shapes) {
	for (uint32_t i = 0; i < shapes->w->count; i++)
		if (shapes->w->parent[i] != LK_NONE) shapes->parts[shapes->w->parent[i]] = 1;
	for (uint32_t i = 0; i < shapes->w->count; i++) {
		bool whole;
		lk_op op;
		enclose(shapes, i);
		if (shapes->taken[i]) continue;
		shapes_pair_lookups(shapes, i);
		shapes->does[i] = shapes_classify(shapes, i, &op, &whole);
		shapes->taken[i] = whole;
		shapes_count(shapes, i, shapes->does[i], whole);
		if (shapes->does[i] == UNKNOWN && !lk_lift_unpriced(shapes->l, i))
			return lk_oom(shapes->l->err);
	}
	return LK_OK;
}

/* ---- the walk ---- */

static double overhead(struct shapes *shapes, int term, const char *name) {
	bool known = true;
	double us =
		shapes->l->overheads ? lk_overheads_mean(shapes->l->overheads, term, name, &known) : 0;
	shapes->l->report->host_times += shapes->l->overheads != NULL;
	shapes->l->report->strange_overheads += !known;
	return isfinite(us) && us > 0 ? us * 1e-6 : 0;
}

static void shapes_spend(struct shapes *shapes, int term, const char *name, const char *whose) {
	shapes->pending += overhead(shapes, term, name);
	shapes->pending_name = whose;
}

static bool shapes_add_host(struct shapes *shapes, const char *name, double seconds,
                            uint32_t join) {
	if (shapes->host != LK_NONE && !lk_lifter_depend(shapes->l, shapes->host)) return false;
	shapes->host = lk_lifter_add(
		shapes->l, &(lk_op){.kind = LK_OP_HOST,
	                        .stream = shapes->host_stream,
	                        .phase = LK_PHASE_OTHER,
	                        .name = name,
	                        .m = seconds,
	                        .measured_ps = llround(fmin(seconds, 1e6) * 1e12), /* eleven days */
	                        .join = join});
	return true;
}

/* Add the host time collected since the last host operation. */
static bool add_pending(struct shapes *shapes) {
	double seconds = shapes->pending;
	shapes->pending = 0;
	return !(seconds > 0) || shapes_add_host(shapes, shapes->pending_name, seconds, 0);
}

/* Depend on the collectives whose tensors a work uses. */
static bool await_tensors(struct shapes *shapes, uint32_t work) {
	for (uint32_t t = shapes->w->tensor_begin[work]; t < shapes->w->tensor_begin[work + 1]; t++)
		for (uint32_t i = 0; i < OPEN && i < shapes->opened; i++) {
			if (shapes->open[i].storage < 0 ||
			    shapes->open[i].storage != shapes->w->tensors.at[t].storage)
				continue;
			if (!lk_lifter_depend(shapes->l, shapes->open[i].op)) return false;
			shapes->open[i].storage = -1; /* later operations of the stream follow it anyway */
		}
	return true;
}

static void open_collective(struct shapes *shapes, uint32_t work, uint32_t op) {
	int64_t sequence = lk_works_comm(shapes->w, work)->sequence;
	for (uint32_t t = shapes->w->tensor_begin[work]; t < shapes->w->tensor_begin[work + 1];
	     t++, shapes->opened++) {
		shapes->open[shapes->opened % OPEN].storage = shapes->w->tensors.at[t].storage;
		shapes->open[shapes->opened % OPEN].sequence = sequence;
		shapes->open[shapes->opened % OPEN].op = op;
	}
}

/* Handle a wait in the trace: the compute stream waits for the collective of that number. */
static bool await_sequence(struct shapes *shapes, uint32_t work) {
	int64_t sequence = lk_works_comm(shapes->w, work)->sequence;
	for (uint32_t i = 0; i < OPEN && i < shapes->opened; i++) {
		if (shapes->open[i].sequence != sequence || shapes->open[i].storage < 0) continue;
		shapes->open[i].storage = -1;
		if (!lk_lifter_depend(shapes->l, shapes->open[i].op)) return false;
	}
	if (!shapes->l->deps.count) return true;
	if (shapes->host != LK_NONE && !lk_lifter_depend(shapes->l, shapes->host)) return false;
	lk_lifter_add(shapes->l, &(lk_op){.kind = LK_OP_WAIT,
	                                  .stream = LK_STREAM_COMPUTE,
	                                  .phase = LK_PHASE_OTHER,
	                                  .name = "wait for the collective"});
	return true;
}

/* Tensors of an operation without a rule are read or written once. */
static void guess(const struct shapes *shapes, uint32_t work, lk_op *op) {
	op->kind = LK_OP_ELEMENTWISE;
	op->bytes = 0;
	for (uint32_t t = shapes->w->tensor_begin[work]; t < shapes->w->tensor_begin[work + 1]; t++)
		op->bytes +=
			(double)shapes->w->tensors.at[t].elements * shapes->w->tensors.at[t].element_bytes;
}

/* Add the kernels that find the rows changed by a lookup's gradient: rows numbered over all tables,
 * sorted, equal ones counted. */
static bool sort_indices(struct shapes *shapes, const lk_op *lookup) {
	enum {
		KERNELS = 14, /* of fbgemm on V100 and A100, besides the last one */
		INDEX = 8
	};
	for (int kernel = 0; kernel < KERNELS; kernel++) {
		lk_op op = {.kind = LK_OP_PERMUTE,
		            .stream = LK_STREAM_COMPUTE,
		            .phase = LK_PHASE_BACKWARD,
		            .dtype = lookup->dtype,
		            .name = "indices of the lookup",
		            .bytes = 2 * INDEX * lookup->m * lookup->batch * lookup->k};
		if (!lk_lifter_depend(shapes->l, shapes->host)) return false;
		lk_lifter_add(shapes->l, &op);
	}
	return true;
}

/* Add the launch of a work, and the work itself. */
static bool add_piece(struct shapes *shapes, uint32_t work) {
	lk_op op;
	bool whole;
	uint8_t does = shapes_classify(shapes, work, &op, &whole);
	const char *call = op.kind == LK_OP_COPY ? "cudaMemcpyAsync" : "cudaLaunchKernel";
	if (!add_pending(shapes) || !shapes_add_host(shapes, call, overhead(shapes, LK_T4, call), 0))
		return false;
	if (does == UNKNOWN) guess(shapes, work, &op);
	op.stream = LK_STREAM_COMPUTE;
	if (op.phase == LK_PHASE_BACKWARD && op.k > 0 && !sort_indices(shapes, &op)) return false;
	if (!lk_lifter_depend(shapes->l, shapes->host)) return false;
	if (does != COLLECTIVE) {
		if (!await_tensors(shapes, work)) return false;
		lk_lifter_add(shapes->l, &op);
		return does != SYNC ||
		       shapes_add_host(shapes, "cudaStreamSynchronize", 0, LK_JOIN(LK_STREAM_COMPUTE));
	}
	lk_lift_comm(shapes->l, lk_works_comm(shapes->w, work), &op);
	op.stream = shapes->comm_stream;
	op.join = LK_JOIN(LK_STREAM_COMPUTE);
	open_collective(shapes, work, lk_lifter_add(shapes->l, &op));
	return true;
}

static bool acts(const struct shapes *shapes, uint32_t work) {
	return shapes->does[work] != NONE && shapes->does[work] != AWAIT;
}

/* Whether an operation without parts launches something, according to the overheads. */
static bool shapes_launches(const struct shapes *shapes, uint32_t work) {
	bool known = false, host;
	if (!shapes->l->overheads || shapes->first[work] != LK_NONE ||
	    !lk_works_on_device(shapes->w, work, &host))
		return false;
	lk_overheads_mean(shapes->l->overheads, LK_T2, shapes_name_of(shapes, work), &known);
	return known;
}

/* Handle a launch inside `work`: the first one launches the acting work's kernel; further ones take
 * host time only. */
static bool shapes_launch(struct shapes *shapes, uint32_t work) {
	const char *name = shapes_name_of(shapes, work);
	shapes_spend(shapes, shapes->had[work] ? LK_T5 : LK_T2, name, name);
	shapes->had[work] |= HAD | CALLED;
	if (shapes->acting == LK_NONE) {
		shapes_spend(shapes, LK_T4, "cudaLaunchKernel", name);
		return true;
	}
	uint32_t piece = shapes->acting;
	LK_ASSERT(piece < shapes->w->count && !(shapes->does[piece] & DONE));
	shapes->acting = LK_NONE;
	shapes->does[piece] |= DONE;
	return add_piece(shapes, piece);
}

/* Spend the time of the calls that an operation makes itself according to the overheads, except the
 * launch already counted. */
static void spend_calls(struct shapes *shapes, uint32_t work) {
	const char *name = shapes_name_of(shapes, work),
			   *at = shapes->l->overheads ? lk_overheads_calls(shapes->l->overheads, name) : NULL;
	if (at && shapes->had[work] & CALLED) at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL;
	while (at && *at) {
		char call[128];
		size_t length = strcspn(at, ";");
		lk_text text = lk_text_begin(call, sizeof call);
		lk_text_add(&text, "%.*s", (int)length, at);
		shapes_spend(shapes, LK_T5, name, name);
		shapes_spend(shapes, LK_T4, call, name);
		at += length + (at[length] == ';');
	}
}

static bool shapes_enter(struct shapes *shapes, uint32_t work) {
	const char *name = shapes_name_of(shapes, work);
	uint32_t above = shapes->above[work];
	if (above != LK_NONE) {
		shapes_spend(shapes, shapes->had[above] ? LK_T5 : LK_T2, shapes_name_of(shapes, above),
		             shapes_name_of(shapes, above));
		shapes->had[above] |= HAD;
	} else if (shapes->host != LK_NONE) shapes_spend(shapes, LK_T1, name, name);
	if (shapes->does[work] == AWAIT) return add_pending(shapes) && await_sequence(shapes, work);
	if (acts(shapes, work)) shapes->acting = work;
	return !shapes_launches(shapes, work) || shapes_launch(shapes, work);
}

static bool shapes_leave(struct shapes *shapes, uint32_t work) {
	const char *name = shapes_name_of(shapes, work);
	if (acts(shapes, work) && !(shapes->does[work] & DONE)) {
		shapes->acting = work;
		if (!shapes_launch(shapes, work)) return false;
	}
	if (shapes->had[work]) spend_calls(shapes, work);
	shapes_spend(shapes, shapes->had[work] ? LK_T3 : LK_T5, name, name);
	return true;
}

/* Add an operation with everything inside, without recursion: nesting may be of any depth. */
static bool add_top(struct shapes *shapes, uint32_t top) {
	if (!lk_lift_add_stream(shapes->l, false, shapes->w->thread[top], &shapes->host_stream))
		return false;
	uint32_t at = top;
	shapes->acting = LK_NONE;
	if (!shapes_enter(shapes, at)) return false;
	for (;;) {
		if (shapes->first[at] != LK_NONE) {
			at = shapes->first[at];
			if (!shapes_enter(shapes, at)) return false;
			continue;
		}
		while (at != top && shapes->next[at] == LK_NONE) {
			if (!shapes_leave(shapes, at)) return false;
			at = shapes->above[at];
		}
		if (!shapes_leave(shapes, at)) return false;
		if (at == top) return add_pending(shapes);
		at = shapes->next[at];
		if (!shapes_enter(shapes, at)) return false;
	}
}

/* Delay the start of a rank that begins later than others. */
static bool shapes_begin(struct shapes *shapes) {
	uint32_t top = 0;
	if (shapes->w->begin_ns <= 0) return true;
	while (top < shapes->w->count && (shapes->above[top] != LK_NONE || !of_host(shapes, top)))
		top++;
	if (top == shapes->w->count) return true;
	return lk_lift_add_stream(shapes->l, false, shapes->w->thread[top], &shapes->host_stream) &&
	       shapes_add_host(shapes, "begin", (double)shapes->w->begin_ns * 1e-9, 0);
}

static lk_status shapes_walk(struct shapes *shapes) {
	lk_program *program = &shapes->l->graph->programs.at[shapes->l->rank];
	uint32_t compute = lk_intern_id(shapes->l->graph->names, "compute"),
			 comm = lk_intern_id(shapes->l->graph->names, "collectives");
	if (compute == UINT32_MAX || comm == UINT32_MAX) return lk_oom(shapes->l->err);
	program->stream_names[LK_STREAM_COMPUTE] = compute;
	shapes->comm_stream = shapes->l->streams++;
	program->stream_names[shapes->comm_stream] = comm;
	shapes->host = LK_NONE;
	if (!shapes_begin(shapes)) return lk_oom(shapes->l->err);
	for (uint32_t i = 0; i < shapes->w->count; i++)
		if (shapes->above[i] == LK_NONE && of_host(shapes, i) && !add_top(shapes, i))
			return lk_oom(shapes->l->err);
	return LK_OK;
}

lk_status lk_lift_by_shapes(lk_lifter *lifter) {
	size_t n = lifter->w->count + 1, texts = lk_intern_count(lifter->w->names) + (size_t)1;
	struct shapes *shapes = calloc(1, sizeof *shapes);
	if (!shapes) return lk_oom(lifter->err);
	*shapes = (struct shapes){.l = lifter,
	                          .w = lifter->w,
	                          .does = calloc(n, 1),
	                          .taken = calloc(n, 1),
	                          .parts = calloc(n, 1),
	                          .had = calloc(n, 1),
	                          .lookup = malloc(n * 4),
	                          .newest = malloc(texts * 4),
	                          .above = calloc(n, 4),
	                          .first = calloc(n, 4),
	                          .last = calloc(n, 4),
	                          .next = calloc(n, 4)};
	bool good = shapes->does && shapes->taken && shapes->parts && shapes->had && shapes->above &&
	            shapes->first && shapes->last && shapes->next && shapes->lookup && shapes->newest;
	if (good) {
		memset(shapes->lookup, 0xff, n * 4); /* LK_NONE */
		memset(shapes->newest, 0xff, texts * 4);
	}
	lk_status status = good ? find_pieces(shapes) : lk_oom(lifter->err);
	if (status == LK_OK) status = shapes_walk(shapes);
	free(shapes->does);
	free(shapes->taken);
	free(shapes->parts);
	free(shapes->had);
	free(shapes->lookup);
	free(shapes->newest);
	free(shapes->above);
	free(shapes->first);
	free(shapes->last);
	free(shapes->next);
	free(shapes);
	return status;
}
