/* lower.c: steps as operations of a step graph. */
#include "lang/steps/steps.h"

#include <string.h>

#include "lang/steps/steps_internal.h"

enum { MOST_OPS = 1 << 21 };

/* Ends of what a step emitted, for those that wait for it chunk by chunk. */
struct ends {
	uint32_t at[4];
	int count;
};

struct pair {
	struct pair *next;
	uint32_t to, team;
};

struct lowering {
	const lc_steps *steps;
	const lc_program *p;
	const lc_sizes *sizes;
	lk_graph *graph;
	lk_arena scratch;
	int64_t chunks;
	int inner;                    /* the first axis whose ranks are chains */
	uint32_t stages, chains;
	uint8_t kind_of[LC_AXES];     /* process groups of the axes that are chains */
	uint32_t team_of[LC_AXES];    /* the first team of an axis that is stages */
	struct pair **pairs;                 /* [stages] teams in which a stage sends */
	int64_t place[LC_AXES];       /* of the stage that is built */
	uint32_t stage;
	uint64_t ops;
	double *bytes, *pass;         /* [values] known already: of values without list, of passes by their last value; 0 */
	/* of the step that is lowered */
	double share;                 /* of the work: one chunk's */
	int64_t item;                 /* of the list: one chunk's, or -1 all */
	uint8_t compute;              /* the stream of its computation */
	uint32_t join;
	const uint32_t *deps;
	uint32_t dep_count;
	lk_error *err;
};

/* Computation: that of a part of an overlap each; all else on the first. */
static const uint8_t compute_streams[] = {
	LK_STREAM_COMPUTE, LK_STREAM_COPY, LK_STREAM_SEND_BACKWARD, LK_STREAM_RECV_BACKWARD, LK_STREAM_SEND_FORWARD_UP,
	LK_STREAM_RECV_FORWARD_UP, LK_STREAM_SEND_BACKWARD_UP, LK_STREAM_RECV_BACKWARD_UP,
};
/* Collectives: those of an axis are one communicator's, and follow one another. Messages: LK_STREAM_SEND_FORWARD and
 * LK_STREAM_RECV_FORWARD. */
static const uint8_t axis_streams[LC_AXES] = {LK_STREAM_DP, LK_STREAM_TP, LK_STREAM_EP, LK_STREAM_CP};
enum { COMPUTE_STREAMS = sizeof compute_streams / sizeof *compute_streams, ALL_STREAMS = (1u << 16) - 2 };

static const lc_node *node(const struct lowering *l, int v) { return &l->p->nodes.at[v]; }

/* ---- sizes ---- */

static lk_status extents_of(const lc_program *p, const lc_sizes *sizes, const lc_node *n, int64_t item,
                            int64_t out[LC_RANK], lk_error *err) {
	LK_TRY(lc_whole_shape(p, n, sizes, item, out, err));
	for (int a = 0; a < p->axis_count; a++) {
		int64_t ranks = sizes->symbol[a];
		if (n->layout[a].kind == LC_S && ranks > 0) out[n->layout[a].dim] = (out[n->layout[a].dim] + ranks - 1) / ranks;
	}
	return LK_OK;
}

static double element_bytes(lc_dtype dtype) {
	static const uint8_t bits[LC_DTYPE_COUNT] = {
#define BITS(symbol, name, width) [LC_##symbol] = width,
		LC_DTYPES(BITS)
#undef BITS
	};
	return bits[dtype] / 8.0;
}

static lk_status bytes_of(const lc_program *p, const lc_sizes *sizes, const lc_node *n, int64_t item, double *out,
                          lk_error *err) {
	int64_t extent[LC_RANK];
	LK_TRY(extents_of(p, sizes, n, item, extent, err));
	*out = element_bytes((lc_dtype)n->dtype);
	for (int d = 0; d < n->rank; d++) *out *= (double)extent[d];
	return LK_OK;
}

/* Bytes of value v, of all that a chunk takes. */
static lk_status value_bytes(const struct lowering *l, int v, int64_t item, double *out) {
	bool once = node(l, v)->list < 0;
	if (once && l->bytes[v] > 0) *out = l->bytes[v];
	else LK_TRY(bytes_of(l->p, l->sizes, node(l, v), item, out, l->err));
	if (once) l->bytes[v] = *out;
	*out *= l->share;
	return LK_OK;
}

/* Adds what reading v costs the pass of s: nothing for what it computes itself and for single numbers' arithmetic. */
static lk_status add_read(const lc_steps *steps, const lc_step *s, const lc_sizes *sizes, int64_t item, int v,
                          uint8_t *seen, double *sum, lk_error *err) {
	const lc_node *n = &steps->p->nodes.at[v];
	bool at_hand = lc_ids_have(&s->values, v) || (steps->storage[v] < 0 && n->op != LC_SLICE);
	double bytes;
	if (seen[v] || at_hand) return LK_OK;
	seen[v] = 1;
	LK_TRY(bytes_of(steps->p, sizes, n, item, &bytes, err));
	*sum += bytes;
	return LK_OK;
}

static lk_status pass_bytes(const lc_steps *steps, const lc_step *s, const lc_sizes *sizes, int64_t item, uint8_t *seen,
                            double *out, lk_error *err) {
	double bytes;
	*out = 0;
	for (int k = 0; k < s->values.count; k++) {
		int v = s->values.at[k];
		const lc_node *n = &steps->p->nodes.at[v];
		if (v == s->scatter || lc_ids_have(&s->gathers, v)) continue;
		for (int i = n->op == LC_UPDATE ? 1 : 0; i < n->inputs; i++)
			LK_TRY(add_read(steps, s, sizes, item, n->in[i], seen, out, err));
		if (steps->storage[v] < 0) continue;
		LK_TRY(bytes_of(steps->p, sizes, n, item, &bytes, err));
		*out += bytes;
	}
	for (int k = 0; k < s->gathers.count; k++) /* gathered from memory where the pass does not compute it */
		LK_TRY(add_read(steps, s, sizes, item, steps->p->nodes.at[s->gathers.at[k]].in[0], seen, out, err));
	return LK_OK;
}

lk_status lc_pass_bytes(const lc_steps *steps, const lc_step *s, const lc_sizes *sizes, int64_t item, double *out,
                        lk_error *err) {
	lk_arena scratch = LK_ARENA_INIT;
	uint8_t *seen = LK_ARRAY(&scratch, uint8_t, steps->p->nodes.count + 1);
	lk_status status = seen ? pass_bytes(steps, s, sizes, item, seen, out, err) : lk_oom(err);
	lk_arena_free(&scratch);
	return status;
}

/* ---- operations ---- */

static lk_dtype dtype_of(const lc_node *n) {
	switch (n->dtype) {
	case LC_F16: return LK_FP16;
	case LC_BF16: return LK_BF16;
	case LC_F8: return LK_FP8;
	default: return LK_FP32;
	}
}

static lk_status add(struct lowering *l, lk_op op, const char *name, uint8_t stream, struct ends *out) {
	op.name = name;
	op.phase = LK_PHASE_OTHER;
	op.stream = stream;
	op.join = l->join, op.deps = l->deps, op.dep_count = l->dep_count;
	if (++l->ops > MOST_OPS) {
		lk_fail(l->err, LK_ERR_INPUT, l->p->name, "more than %d operations to simulate", MOST_OPS);
		return lk_hint(l->err, "give shorter lists or fewer chunks");
	}
	uint32_t id = lk_graph_add(l->graph, &op);
	if (out && out->count < 4) out->at[out->count++] = id;
	return LK_OK;
}

/* How far stages stand apart that differ by one along axis a. */
static int64_t stride_of(const struct lowering *l, int a) {
	int64_t stride = 1;
	for (int b = a + 1; b < l->inner; b++) stride *= l->sizes->symbol[b];
	return stride;
}

/* The team of two in which the stage at place `from` of axis a, otherwise the one that is built, sends to that at `to`. */
static lk_status pair_team(struct lowering *l, int a, int64_t from, int64_t to, int32_t *team) {
	uint32_t first = (uint32_t)(l->stage + (from - l->place[a]) * stride_of(l, a));
	uint32_t second = (uint32_t)(l->stage + (to - l->place[a]) * stride_of(l, a));
	for (const struct pair *x = l->pairs[first]; x; x = x->next)
		if (x->to == second) return *team = (int32_t)x->team, LK_OK;
	uint32_t members[2] = {first < second ? first : second, first < second ? second : first};
	struct pair *made = LK_NEW(&l->scratch, struct pair);
	if (!made) return lk_oom(l->err);
	*made = (struct pair){l->pairs[first], second, lk_graph_add_team(l->graph, l->p->axes[a].name, members, 2, 2, false)};
	l->pairs[first] = made;
	*team = (int32_t)made->team;
	return LK_OK;
}

/* Sets group and channel: ranks along an axis. False: alone, so that nothing moves. */
static bool in_group(const struct lowering *l, int a, lk_op *op) {
	if (l->sizes->symbol[a] < 2) return false;
	if (a >= l->inner) {
		op->group = l->kind_of[a];
		return true;
	}
	int64_t stride = stride_of(l, a), high = l->stage / (stride * l->sizes->symbol[a]), low = l->stage % stride;
	op->group = LK_GROUP_TEAM;
	op->channel = (int32_t)(l->team_of[a] + high * stride + low);
	return true;
}

/* Whether this stage's ranks hold a value at a group. */
static bool here(const struct lowering *l, const lc_group *g) {
	return g->axis < 0 || l->place[g->axis] == lc_group_place(l->p, l->sizes, g);
}

/* What operations wait for: all before them on any stream, or what is listed. */
struct waiting {
	uint32_t join, entry, dep_count;
	const uint32_t *deps;
};

static uint32_t wait_for_all(struct lowering *l) {
	lk_op wait = {.kind = LK_OP_WAIT, .stream = LK_STREAM_COMPUTE, .phase = LK_PHASE_OTHER, .name = "wait", .join = ALL_STREAMS};
	l->ops++;
	return lk_graph_add(l->graph, &wait);
}

/* What follows, until `one_by_one`, runs side by side, behind all that was before. */
static void side_by_side(struct lowering *l, struct waiting *w) {
	*w = (struct waiting){l->join, 0, l->dep_count, l->deps};
	if (!l->join) return; /* it already does */
	w->entry = wait_for_all(l);
	l->join = 0, l->deps = &w->entry, l->dep_count = 1;
}

static void one_by_one(struct lowering *l, const struct waiting *w) { l->join = w->join, l->deps = w->deps, l->dep_count = w->dep_count; }

static lk_status message(struct lowering *l, int a, int64_t from, int64_t to, double bytes, const char *name, struct ends *out) {
	bool sends = from == l->place[a];
	lk_op op = {.kind = sends ? LK_OP_SEND : LK_OP_RECV, .group = LK_GROUP_TEAM, .bytes = bytes};
	LK_TRY(pair_team(l, a, from, to, &op.channel));
	return add(l, op, name, sends ? LK_STREAM_SEND_FORWARD : LK_STREAM_RECV_FORWARD, out);
}

/* A message to the rank `shift` further along the axis, and one from the rank as far behind, at the same time. Those
 * that send to a later rank issue that first, the others the receive, so that a walk through the programs never stands
 * before a circle of sends. */
static lk_status exchange(struct lowering *l, const lc_node *n, double bytes, const char *name, struct ends *out) {
	int64_t ranks = l->sizes->symbol[n->axis], shift = ((n->shift % ranks) + ranks) % ranks, at = l->place[n->axis];
	int64_t to = (at + shift) % ranks, from = (at - shift + ranks) % ranks;
	struct waiting w;
	if (shift == 0) return LK_OK;
	side_by_side(l, &w);
	if (to > at) LK_TRY(message(l, n->axis, at, to, bytes, name, out));
	LK_TRY(message(l, n->axis, from, at, bytes, name, out));
	if (to < at) LK_TRY(message(l, n->axis, at, to, bytes, name, out));
	one_by_one(l, &w);
	return LK_OK;
}

static lk_op_kind graph_kind(const lc_node *n) {
	switch (n->op) {
	case LC_ALLREDUCE: return LK_OP_ALLREDUCE;
	case LC_REDUCESCATTER: return LK_OP_REDUCESCATTER;
	case LC_ALLGATHER: return LK_OP_ALLGATHER;
	case LC_ALLTOALL: return LK_OP_ALLTOALL;
	default: return LK_OP_BROADCAST;
	}
}

/* The message as nccl-tests count it: of a gather the result, of all others the operand. */
static lk_status message_bytes(const struct lowering *l, int v, int64_t item, double *out) {
	return value_bytes(l, node(l, v)->op == LC_ALLGATHER ? v : node(l, v)->in[0], item, out);
}

static lk_status collective(struct lowering *l, int v, double bytes, const char *name, struct ends *out) {
	const lc_node *n = node(l, v);
	lk_op op = {.kind = (uint8_t)graph_kind(n), .dtype = (uint8_t)dtype_of(n), .bytes = bytes};
	if (!in_group(l, n->axis, &op)) return LK_OK;
	if (n->op == LC_PERMUTE) return exchange(l, n, bytes, name, out);
	return add(l, op, name, axis_streams[n->axis], out);
}

/* ---- steps ---- */

/* The tensors of a step's list, or the one that a chunk is; one where there is no list. */
static int64_t items_begin(const struct lowering *l, const lc_step *s) { return s->list >= 0 && l->item > 0 ? l->item : 0; }
static int64_t items_end(const struct lowering *l, const lc_step *s) {
	if (s->list < 0) return 1;
	return l->item >= 0 ? l->item + 1 : l->sizes->items[s->list];
}

static lk_status lower_map(struct lowering *l, const lc_step *s, struct ends *out) {
	for (int64_t i = items_begin(l, s); i < items_end(l, s); i++) {
		lk_op op = {.kind = LK_OP_ELEMENTWISE, .dtype = LK_FP32};
		double *known = &l->pass[s->values.at[s->values.count - 1]];
		if (s->list < 0 && *known > 0) op.bytes = *known;
		else LK_TRY(lc_pass_bytes(l->steps, s, l->sizes, i, &op.bytes, l->err));
		*known = op.bytes;
		op.bytes *= l->share;
		LK_TRY(add(l, op, s->name, l->compute, i == items_end(l, s) - 1 ? out : NULL));
	}
	return LK_OK;
}

/* Joined messages: as many tensors as fill a bucket, and at least one. */
static lk_status lower_comm(struct lowering *l, const lc_step *s, struct ends *out) {
	double sum = 0, bytes;
	int last = -1;
	for (int k = 0; k < s->values.count; k++) {
		int v = s->values.at[k];
		if (lc_ops[node(l, v)->op].family != LC_COMM) continue; /* the update that it writes */
		for (int64_t i = items_begin(l, s); i < items_end(l, s); i++) {
			LK_TRY(message_bytes(l, v, i, &bytes));
			if (last >= 0 && sum + bytes > (double)s->bucket) {
				LK_TRY(collective(l, last, sum, s->name, NULL));
				sum = 0;
			}
			sum += bytes, last = v;
		}
	}
	return last >= 0 ? collective(l, last, sum, s->name, out) : LK_OK;
}

static lk_status list_messages(struct lowering *l, const lc_step *s, int v, struct ends *out) {
	double sum = 0, bytes;
	for (int64_t i = items_begin(l, s); i < items_end(l, s); i++) {
		LK_TRY(message_bytes(l, v, i, &bytes));
		if (sum > 0 && sum + bytes > (double)s->bucket) {
			LK_TRY(collective(l, v, sum, s->name, NULL));
			sum = 0;
		}
		sum += bytes;
	}
	return collective(l, v, sum, s->name, out);
}

/* The pass beside the reduce-scatter; gathers behind both, or beside a pass that has none. */
static lk_status lower_ring(struct lowering *l, const lc_step *s, struct ends *out) {
	struct ends first = {0};
	struct waiting w;
	side_by_side(l, &w);
	if (s->scatter >= 0) LK_TRY(list_messages(l, s, s->scatter, &first));
	LK_TRY(lower_map(l, s, &first));
	if (s->scatter >= 0 && s->gathers.count) l->deps = first.at, l->dep_count = (uint32_t)first.count;
	else *out = first;
	for (int k = 0; k < s->gathers.count; k++) LK_TRY(list_messages(l, s, s->gathers.at[k], out));
	if (out->count == 0) *out = first; /* of one rank: nothing is gathered */
	one_by_one(l, &w);
	return LK_OK;
}

static lk_status lower_matmul(struct lowering *l, const lc_node *n, int64_t item, int cut, lk_op *op) {
	const lc_node *a = node(l, n->in[0]), *b = node(l, n->in[1]);
	int64_t e[LC_RANK], x[LC_RANK];
	LK_TRY(extents_of(l->p, l->sizes, n, item, e, l->err));
	LK_TRY(extents_of(l->p, l->sizes, a, item, x, l->err));
	op->m = (double)e[n->rank - 2], op->n = (double)e[n->rank - 1], op->k = (double)x[a->rank - (n->ta ? 2 : 1)];
	op->batch = 1;
	for (int d = 0; d < n->rank - 2; d++) op->batch *= (double)e[d];
	if (b->rank == 2) op->m *= op->batch, op->batch = 1;
	double *chunked = cut == n->rank - 1 ? &op->n : cut < n->rank - 2 && b->rank > 2 ? &op->batch : &op->m;
	*chunked = *chunked * l->share > 1 ? *chunked * l->share : 1;
	return LK_OK;
}

static lk_status lower_conv(struct lowering *l, const lc_node *n, int64_t item, lk_op *op) {
	int64_t e[LC_RANK], w[LC_RANK];
	LK_TRY(extents_of(l->p, l->sizes, n, item, e, l->err));
	LK_TRY(extents_of(l->p, l->sizes, node(l, n->in[1]), item, w, l->err));
	op->kind = LK_OP_CONV;
	op->batch = 1, op->m = (double)e[0] * (double)e[2] * (double)e[3] * l->share, op->n = (double)e[1];
	op->k = (double)w[1] * (double)w[2] * (double)w[3];
	return LK_OK;
}

static lk_status lower_contract(struct lowering *l, const lc_step *s, struct ends *out) {
	int v = s->values.at[0], cut = l->steps->cut[v];
	const lc_node *n = node(l, v);
	for (int64_t i = items_begin(l, s); i < items_end(l, s); i++) {
		lk_op op = {.kind = LK_OP_GEMM, .dtype = (uint8_t)dtype_of(n)};
		double a, b, c;
		LK_TRY(n->op == LC_MATMUL ? lower_matmul(l, n, i, cut, &op) : lower_conv(l, n, i, &op));
		LK_TRY(value_bytes(l, n->in[0], i, &a));
		LK_TRY(value_bytes(l, n->in[1], i, &b));
		LK_TRY(value_bytes(l, v, i, &c));
		/* an operand that is not cut is read by every chunk as a whole */
		if (cut == n->rank - 1) a /= l->share;
		else if (cut >= n->rank - 2 || node(l, n->in[1])->rank == 2 || n->op == LC_CONV2D) b /= l->share;
		op.bytes = a + b + c;
		op.flops = 2 * op.batch * op.m * op.n * op.k;
		LK_TRY(add(l, op, s->name, l->compute, i == items_end(l, s) - 1 ? out : NULL));
	}
	return LK_OK;
}

/* Rows are read and written, and so is the index. */
static lk_status lower_rows(struct lowering *l, const lc_step *s, struct ends *out) {
	int v = s->values.at[0];
	for (int64_t i = items_begin(l, s); i < items_end(l, s); i++) {
		lk_op op = {.kind = LK_OP_PERMUTE, .dtype = (uint8_t)dtype_of(node(l, v))};
		double rows, index;
		LK_TRY(value_bytes(l, v, i, &rows));
		LK_TRY(value_bytes(l, node(l, v)->in[1], i, &index));
		op.bytes = 2 * rows + index;
		LK_TRY(add(l, op, s->name, l->compute, i == items_end(l, s) - 1 ? out : NULL));
	}
	return LK_OK;
}

static lk_status lower_send(struct lowering *l, const lc_step *s, struct ends *out) {
	int v = s->values.at[0];
	const lc_node *n = node(l, v);
	int64_t from = lc_group_place(l->p, l->sizes, &n->from), to = lc_group_place(l->p, l->sizes, &n->at);
	bool concerned = l->place[n->at.axis] == from || l->place[n->at.axis] == to;
	for (int64_t i = items_begin(l, s); i < items_end(l, s) && from != to && concerned; i++) {
		double bytes;
		LK_TRY(value_bytes(l, v, i, &bytes));
		LK_TRY(message(l, n->at.axis, from, to, bytes, s->name, i == items_end(l, s) - 1 ? out : NULL));
	}
	return LK_OK;
}

/* What a step's ranks are: those of its first value that is no leaf; of a send both groups. */
static bool takes_part(const struct lowering *l, const lc_step *s) {
	const lc_node *n = node(l, s->values.at[0]);
	return s->kind == LC_STEP_SEND || here(l, &n->at);
}

static lk_status lower_simple(struct lowering *l, const lc_step *s, struct ends *out) {
	if (!takes_part(l, s)) return LK_OK;
	switch (s->kind) {
	case LC_STEP_MAP: return lower_map(l, s, out);
	case LC_STEP_CONTRACT: return lower_contract(l, s, out);
	case LC_STEP_ROWS: return lower_rows(l, s, out);
	case LC_STEP_COMM: return lower_comm(l, s, out);
	case LC_STEP_SEND: return lower_send(l, s, out);
	default: return lower_ring(l, s, out);
	}
}

/* ---- overlap ---- */

/* Chunk k of part i waits for chunk k of the parts before it that it reads from; done: of every part, by chunk. */
static lk_status lower_chunk(struct lowering *l, const lc_step *s, int i, int64_t k, int64_t chunks, uint32_t entry, struct ends *done) {
	const lc_step *part = &s->parts[i];
	struct ends *own = &done[i * chunks + k];
	uint32_t deps[64];
	uint32_t count = 0;
	for (int a = 0; a < part->after.count; a++) {
		const struct ends *other = &done[part->after.at[a] * chunks + k];
		for (int e = 0; e < other->count && count < 60; e++) deps[count++] = other->at[e];
	}
	if (count == 0) deps[count++] = entry;
	l->deps = deps, l->dep_count = count, l->join = 0;
	l->compute = compute_streams[i % COMPUTE_STREAMS];
	if (s->list >= 0) l->item = k;
	lk_status status = lower_simple(l, part, own);
	if (own->count == 0) /* nothing to do here: what waits for it waits for what it would have waited for */
		for (uint32_t e = 0; e < count && e < 4; e++) own->at[own->count++] = deps[e];
	l->deps = NULL, l->dep_count = 0, l->join = ALL_STREAMS, l->compute = LK_STREAM_COMPUTE, l->item = -1;
	return status;
}

/* Into how many chunks: a list's tensors; nothing is cut that runs side by side; a ring takes a chunk from each rank. */
static int64_t chunks_of(const struct lowering *l, const lc_step *s) {
	if (s->list >= 0) return l->sizes->items[s->list];
	if (s->chunk_dim < 0) return 1;
	if (s->chunks) return s->chunks;
	for (int k = 0; k < s->values.count && s->ring; k++) {
		const lc_node *n = node(l, s->values.at[k]);
		bool rings = n->op == LC_REDUCESCATTER || n->op == LC_ALLGATHER || n->op == LC_ALLREDUCE || n->op == LC_ALLTOALL;
		if (rings && l->sizes->symbol[n->axis] > 1) return l->sizes->symbol[n->axis];
	}
	return l->chunks;
}

/* In waves: chunk k of part i is issued in wave k + i, later parts first, so that no message stands in the queue before
 * one that could go. */
static lk_status lower_overlap(struct lowering *l, const lc_step *s) {
	int64_t chunks = chunks_of(l, s), parts = s->part_count;
	if (chunks * parts > MOST_OPS) return lk_fail(l->err, LK_ERR_INPUT, l->p->name, "too many chunks to simulate");
	struct ends *done = LK_ARRAY(&l->scratch, struct ends, (size_t)(chunks * parts));
	if (!done) return lk_oom(l->err);
	uint32_t entry = wait_for_all(l);
	if (s->list < 0) l->share = 1.0 / (double)chunks;
	lk_status status = LK_OK;
	for (int64_t wave = 0; wave < chunks + parts - 1; wave++)
		for (int i = (int)parts - 1; i >= 0 && status == LK_OK; i--)
			if (wave >= i && wave - i < chunks) status = lower_chunk(l, s, i, wave - i, chunks, entry, done);
	l->share = 1;
	return status;
}

/* ---- the graph ---- */

static lk_status lower_stage(struct lowering *l, uint32_t stage) {
	uint32_t block, rest = stage;
	l->stage = stage, l->share = 1, l->item = -1, l->join = ALL_STREAMS, l->compute = LK_STREAM_COMPUTE;
	for (int a = l->inner; a-- > 0;) l->place[a] = rest % (uint32_t)l->sizes->symbol[a], rest /= (uint32_t)l->sizes->symbol[a];
	lk_graph_begin_block(l->graph, l->p->name);
	for (int i = 0; i < l->steps->count; i++) {
		const lc_step *s = &l->steps->at[i];
		struct ends unused = {0};
		if (s->kind == LC_STEP_OVERLAP) LK_TRY(lower_overlap(l, s));
		else LK_TRY(lower_simple(l, s, &unused));
	}
	LK_TRY(lk_graph_end_block(l->graph, &block, l->err));
	lk_call call = {.block = block, .repeat = 1, .microbatch = -1, .layer = -1, .pass = LK_PHASE_OTHER};
	return lk_graph_call(l->graph, stage, &call, l->err);
}

/* Process groups of an axis that is chains: by its name where that says what it is, so that tables do too. */
static void choose_groups(struct lowering *l) {
	static const struct { const char *name; uint8_t kind; } usual[] = {
		{"tp", LK_GROUP_TP}, {"dp", LK_GROUP_DP}, {"ep", LK_GROUP_EP}, {"cp", LK_GROUP_CP},
	};
	bool taken[LK_GROUPS] = {false};
	for (int a = l->inner; a < l->p->axis_count; a++)
		for (int i = 0; i < 4; i++)
			if (strcmp(l->p->axes[a].name, usual[i].name) == 0) taken[l->kind_of[a] = usual[i].kind] = true;
	for (int a = l->inner; a < l->p->axis_count; a++)
		for (int i = 0; i < 4 && !l->kind_of[a]; i++)
			if (!taken[usual[i].kind]) taken[l->kind_of[a] = usual[i].kind] = true;
	uint32_t stride = 1;
	for (int a = l->p->axis_count; a-- > l->inner;) {
		l->graph->ranks.group[l->kind_of[a]].size = (uint32_t)l->sizes->symbol[a];
		l->graph->ranks.group[l->kind_of[a]].stride = stride;
		stride *= (uint32_t)l->sizes->symbol[a];
	}
}

/* The last axis along which ranks do different things: it and those before it are stages. */
static int inner_axis(const lc_program *p) {
	int last = -1;
	for (size_t v = 0; v < p->nodes.count; v++) {
		const lc_node *n = &p->nodes.at[v];
		int a = n->op == LC_PERMUTE ? n->axis : n->at.axis;
		if (a > last) last = a;
		if (n->from.axis > last) last = n->from.axis;
	}
	return last + 1;
}

/* The groups of an axis that is stages. */
static lk_status add_teams(struct lowering *l, int a) {
	uint32_t ranks = (uint32_t)l->sizes->symbol[a], stride = (uint32_t)stride_of(l, a);
	uint32_t *members = LK_ARRAY(&l->scratch, uint32_t, ranks);
	if (!members) return lk_oom(l->err);
	l->team_of[a] = (uint32_t)l->graph->teams.count;
	for (uint32_t g = 0; g < l->stages / ranks && ranks > 1; g++) {
		for (uint32_t i = 0; i < ranks; i++) members[i] = g / stride * stride * ranks + i * stride + g % stride;
		lk_graph_add_team(l->graph, l->p->axes[a].name, members, ranks, ranks, false);
	}
	return LK_OK;
}

static lk_status lower(struct lowering *l) {
	l->inner = inner_axis(l->p);
	l->stages = l->chains = 1;
	for (int a = 0; a < l->p->axis_count; a++) *(a < l->inner ? &l->stages : &l->chains) *= (uint32_t)l->sizes->symbol[a];
	l->pairs = LK_ARRAY(&l->scratch, struct pair *, l->stages);
	l->bytes = LK_ARRAY(&l->scratch, double, l->p->nodes.count);
	l->pass = LK_ARRAY(&l->scratch, double, l->p->nodes.count);
	if (!l->pairs || !l->bytes || !l->pass) return lk_oom(l->err);
	lk_ranks *ranks = &l->graph->ranks;
	ranks->world = l->stages * l->chains, ranks->stages = l->stages, ranks->chains = l->chains;
	for (int g = 0; g < LK_GROUPS; g++) ranks->group[g].size = ranks->group[g].stride = 1;
	choose_groups(l);
	LK_TRY(lk_graph_set_programs(l->graph, l->stages, 0, l->err));
	for (int a = 0; a < l->inner; a++) LK_TRY(add_teams(l, a));
	for (uint32_t s = 0; s < l->stages; s++) LK_TRY(lower_stage(l, s));
	return LK_OK;
}

lk_status lc_lower(const lc_steps *steps, const lc_sizes *sizes, int64_t chunks, lk_graph **out, lk_error *err) {
	struct lowering l = {.steps = steps, .p = steps->p, .sizes = sizes, .chunks = chunks > 0 ? chunks : LC_CHUNKS, .err = err};
	*out = NULL;
	if (lc_ranks(l.p, sizes) > LC_RANKS)
		return lk_fail(err, LK_ERR_INPUT, l.p->name, "a mesh of %lld ranks; at most %d are simulated",
		               (long long)lc_ranks(l.p, sizes), LC_RANKS);
	l.graph = lk_graph_new();
	if (!l.graph) return lk_oom(err);
	lk_status status = lower(&l);
	if (status == LK_OK) *out = l.graph;
	else lk_graph_free(l.graph);
	lk_arena_free(&l.scratch);
	return status;
}
