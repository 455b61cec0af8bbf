/* lower.c: steps as operations of a step graph. */
#include "base/arena.h"
#include "lang/steps/steps.h"

#include <math.h>
#include <string.h>

#include "lang/steps/lower.h"
#include "base/check.h"

enum { MOST_OPS = 1 << 21 };

/* The ends of what a step emitted, for steps that wait for it chunk by chunk. */
struct ends {
	uint32_t at[4];
	int count;
};

struct lc_pair {
	struct lc_pair *next;
	uint32_t to, team;
};

/* Streams of computation: one per part of an overlap; everything else is on the first. */
static const uint8_t compute_streams[] = {
	LK_STREAM_COMPUTE,          LK_STREAM_COPY,
	LK_STREAM_SEND_BACKWARD,    LK_STREAM_RECV_BACKWARD,
	LK_STREAM_SEND_FORWARD_UP,  LK_STREAM_RECV_FORWARD_UP,
	LK_STREAM_SEND_BACKWARD_UP, LK_STREAM_RECV_BACKWARD_UP,
};
/* Streams of collectives: those of an axis share a communicator, and follow one another. Messages:
 * LK_STREAM_SEND_FORWARD and LK_STREAM_RECV_FORWARD. */
static const uint8_t axis_streams[LC_AXES] = {LK_STREAM_DP, LK_STREAM_TP, LK_STREAM_EP,
                                              LK_STREAM_CP};
enum {
	COMPUTE_STREAMS = sizeof compute_streams / sizeof *compute_streams,
	ALL_STREAMS = (1u << 16) - 2
};

/* ---- operations ---- */

static lk_dtype dtype_of(const lc_node *node) {
	switch (node->dtype) {
	case LC_F16: return LK_FP16;
	case LC_BF16: return LK_BF16;
	case LC_F8: return LK_FP8;
	default: return LK_FP32;
	}
}

static lk_status lower_add(lc_lowering *lowering, lk_op op, const char *name, uint8_t stream,
                           struct ends *out) {
	op.name = name;
	op.phase = LK_PHASE_OTHER;
	op.stream = stream;
	op.join = lowering->join;
	op.deps = lowering->deps;
	op.dep_count = lowering->dep_count;
	if (!lk_op_is_comm(op.kind) || !lowering->last) op.pieces = lowering->pieces;
	if (++lowering->ops > MOST_OPS) {
		lk_fail(lowering->err, LK_ERR_INPUT, lowering->p->name,
		        "more than %d operations to simulate", MOST_OPS);
		return lk_hint(lowering->err, "give shorter lists or fewer chunks");
	}
	uint32_t id = lk_graph_add(lowering->graph, &op);
	if (out && out->count < 4) out->at[out->count++] = id;
	return LK_OK;
}

/* Distance of stages that differ by one along axis a. */
static int64_t stride_of(const lc_lowering *lowering, int a) {
	LK_ASSERT(a >= 0 && a < lowering->inner);
	int64_t stride = 1;
	for (int b = a + 1; b < lowering->inner; b++) stride *= lowering->sizes->symbol[b];
	return stride;
}

/* The team of two in which the stage at place `from` of axis a, otherwise the current one, sends to
 * that at `to`. */
static lk_status pair_team(lc_lowering *lowering, int a, int64_t from, int64_t to, int32_t *team) {
	uint32_t first =
		(uint32_t)(lowering->stage + (from - lowering->place[a]) * stride_of(lowering, a));
	uint32_t second =
		(uint32_t)(lowering->stage + (to - lowering->place[a]) * stride_of(lowering, a));
	LK_ASSERT(first < lowering->stages && second < lowering->stages && first != second);
	for (const struct lc_pair *pair = lowering->pairs[first]; pair; pair = pair->next)
		if (pair->to == second) {
			*team = (int32_t)pair->team;
			return LK_OK;
		}
	uint32_t members[2] = {first < second ? first : second, first < second ? second : first};
	struct lc_pair *made = LK_NEW(&lowering->scratch, struct lc_pair);
	if (!made) return lk_oom(lowering->err);
	*made = (struct lc_pair){
		lowering->pairs[first], second,
		lk_graph_add_team(lowering->graph, lowering->p->axes[a].name, members, 2, 2, false)};
	lowering->pairs[first] = made;
	*team = (int32_t)made->team;
	return LK_OK;
}

/* Set group and channel: ranks along an axis. False: a single rank, nothing moves. */
static bool in_group(const lc_lowering *lowering, int a, lk_op *op) {
	if (lowering->sizes->symbol[a] < 2) return false;
	if (a >= lowering->inner) {
		op->group = lowering->kind_of[a];
		return true;
	}
	int64_t stride = stride_of(lowering, a),
			high = lowering->stage / (stride * lowering->sizes->symbol[a]),
			low = lowering->stage % stride;
	op->group = LK_GROUP_TEAM;
	op->channel = (int32_t)(lowering->team_of[a] + high * stride + low);
	return true;
}

/* What operations wait for: all earlier ones on any stream, or the listed ones. */
struct waiting {
	uint32_t join, entry, dep_count;
	const uint32_t *deps;
};

static uint32_t wait_for_all(lc_lowering *lowering) {
	lk_op wait = {.kind = LK_OP_WAIT,
	              .stream = LK_STREAM_COMPUTE,
	              .phase = LK_PHASE_OTHER,
	              .name = "wait",
	              .join = ALL_STREAMS};
	lowering->ops++;
	return lk_graph_add(lowering->graph, &wait);
}

/* What follows, until `one_by_one`, runs concurrently, after everything before. */
static void lower_side_by_side(lc_lowering *lowering, struct waiting *waiting) {
	*waiting = (struct waiting){lowering->join, 0, lowering->dep_count, lowering->deps};
	if (!lowering->join) return; /* it already does */
	waiting->entry = wait_for_all(lowering);
	lowering->join = 0;
	lowering->deps = &waiting->entry;
	lowering->dep_count = 1;
}

static void one_by_one(lc_lowering *lowering, const struct waiting *waiting) {
	lowering->join = waiting->join;
	lowering->deps = waiting->deps;
	lowering->dep_count = waiting->dep_count;
}

static lk_status lower_message(lc_lowering *lowering, int a, int64_t from, int64_t to, double bytes,
                               const char *name, struct ends *out) {
	bool sends = from == lowering->place[a];
	lk_op op = {.kind = sends ? LK_OP_SEND : LK_OP_RECV, .group = LK_GROUP_TEAM, .bytes = bytes};
	LK_TRY(pair_team(lowering, a, from, to, &op.channel));
	return lower_add(lowering, op, name, sends ? LK_STREAM_SEND_FORWARD : LK_STREAM_RECV_FORWARD,
	                 out);
}

/* Add a message to the rank `shift` further along the axis, and one from the rank at the same
 * distance before, at the same time. Ranks that send to a later rank issue the send first, the
 * others the receive, so that a walk through the programs never meets a circle of sends. */
static lk_status lower_exchange(lc_lowering *lowering, const lc_node *node, double bytes,
                                const char *name, struct ends *out) {
	int64_t ranks = lowering->sizes->symbol[node->axis],
			by = node->by ? node->shift * lowering->place[node->by - 1] : node->shift,
			shift = ((by % ranks) + ranks) % ranks, at = lowering->place[node->axis];
	int64_t to = (at + shift) % ranks, from = (at - shift + ranks) % ranks;
	struct waiting w;
	if (shift == 0) return LK_OK;
	lower_side_by_side(lowering, &w);
	if (to > at) LK_TRY(lower_message(lowering, node->axis, at, to, bytes, name, out));
	LK_TRY(lower_message(lowering, node->axis, from, at, bytes, name, out));
	if (to < at) LK_TRY(lower_message(lowering, node->axis, at, to, bytes, name, out));
	one_by_one(lowering, &w);
	return LK_OK;
}

static lk_op_kind graph_kind(const lc_node *node) {
	switch (node->op) {
	case LC_ALLREDUCE: return LK_OP_ALLREDUCE;
	case LC_REDUCESCATTER: return LK_OP_REDUCESCATTER;
	case LC_ALLGATHER: return LK_OP_ALLGATHER;
	case LC_ALLTOALL: return LK_OP_ALLTOALL;
	default: return LK_OP_BROADCAST;
	}
}

/* The message as nccl-tests count it: the result of a gather, else the operand. */
static lk_status lower_message_bytes(const lc_lowering *lowering, int v, int64_t item,
                                     double *out) {
	return lc_lower_value_bytes(
		lowering,
		lc_node_at(lowering->p, v)->op == LC_ALLGATHER ? v : lc_node_at(lowering->p, v)->in[0],
		item, out);
}

static lk_status lower_collective(lc_lowering *lowering, lk_op_kind kind, int v, double bytes,
                                  const char *name, struct ends *out) {
	const lc_node *value = lc_node_at(lowering->p, v);
	lk_op op = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtype_of(value), .bytes = bytes};
	if (!in_group(lowering, value->axis, &op)) return LK_OK;
	if (value->op == LC_PERMUTE) return lower_exchange(lowering, value, bytes, name, out);
	return lower_add(lowering, op, name, axis_streams[value->axis], out);
}

/* ---- steps ---- */

/* Of a product's dims a chunk has its share where it is a call; a piece of a kernel has them
 * all. */
static double share_of_dims(const lc_lowering *lowering) {
	return lowering->hosts ? lowering->share : 1;
}

/* The tensors of a step's list, or a chunk's single one; one without a list. */
static int64_t items_begin(const lc_lowering *lowering, const lc_step *step) {
	return step->list >= 0 && lowering->item > 0 ? lowering->item : 0;
}
static int64_t items_end(const lc_lowering *lowering, const lc_step *step) {
	if (step->list < 0) return 1;
	return lowering->item >= 0 ? lowering->item + 1 : lowering->sizes->items[step->list];
}

/* Cycles of a pass' arithmetic on a host; devices hide them unless arithmetic exceeds memory. */
static lk_status lower_cycles(lc_lowering *lowering, const lc_step *step, int64_t item,
                              double *out) {
	double extent[LC_RANK];
	*out = 0;
	for (int i = 0; i < step->values.count; i++) {
		const lc_node *node = lc_node_at(lowering->p, step->values.at[i]), *over = node;
		double cycles = lc_element_cycles(lowering->p, step, step->values.at[i]);
		if (cycles == 0) continue;
		if (lc_ops[node->op].family == LC_RED || lc_ops[node->op].family == LC_TOTALS)
			over = lc_node_at(lowering->p, node->in[0]);
		LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, over, item, extent, lowering->err));
		for (int d = 0; d < over->rank; d++) cycles *= extent[d];
		*out += cycles;
	}
	return LK_OK;
}

/* One pass, over all tensors of a list. */
static lk_status lower_map(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	lk_op op = {.kind = LK_OP_ELEMENTWISE, .dtype = LK_FP32, .flags = LK_OP_LISTED};
	double *known = &lowering->pass[step->values.at[step->values.count - 1]];
	for (int64_t i = items_begin(lowering, step); i < items_end(lowering, step); i++) {
		double bytes, cycles;
		if (step->list < 0 && *known > 0) bytes = *known;
		else
			LK_TRY(lc_pass_bytes(lowering->steps, step, lowering->sizes, i, &bytes, lowering->err));
		*known = bytes;
		LK_TRY(lower_cycles(lowering, step, i, &cycles));
		op.bytes += bytes * lowering->share;
		op.flops += cycles * lowering->share;
	}
	return lower_add(lowering, op, step->name, lowering->compute, out);
}

/* Whether a collective of a list makes, gathers or exchanges slices that cut across its tensors. */
static bool cuts_across(const lc_program *program, const lc_node *node) {
	const lc_node *value = lc_node_at(program, node->in[0]);
	bool slices = node->op == LC_REDUCESCATTER || node->op == LC_ALLGATHER;
	return (slices || node->op == LC_ALLTOALL) &&
	       (lc_dim_across(program, value->dim[node->d]) >= 0 ||
	        (node->op == LC_ALLTOALL && lc_dim_across(program, value->dim[node->e]) >= 0));
}

/* Join messages: of a list all tensors, of a bucket as many as fill it, and at least one.
 * `back`, if not negative, is a gather that the same kernel does as the second half of an all-
 * reduce. */
static lk_status lower_join(lc_lowering *lowering, const lc_step *step, const int *values,
                            int count, int back, struct ends *out) {
	double sum = 0, bytes, returned;
	int last = -1;
	lk_op_kind kind = LK_OP_ALLREDUCE;
	for (int k = 0; k < count; k++) {
		const lc_node *node = lc_node_at(lowering->p, values[k]);
		if (lc_ops[node->op].family != LC_COMM) continue; /* the update that it writes */
		bool one = !step->bucket || cuts_across(lowering->p, node);
		for (int64_t i = items_begin(lowering, step); i < items_end(lowering, step); i++) {
			LK_TRY(lower_message_bytes(lowering, values[k], i, &bytes));
			if (back >= 0) {
				LK_TRY(lower_message_bytes(lowering, back, i, &returned));
				bytes = (bytes + returned) / 2;
			}
			bool joins = one && i > items_begin(lowering, step);
			if (last >= 0 && !joins && sum + bytes > (double)step->bucket) {
				LK_TRY(lower_collective(lowering, kind, last, sum, step->name, NULL));
				sum = 0;
			}
			sum += bytes;
			last = values[k];
			if (back < 0) kind = graph_kind(node);
		}
	}
	return last >= 0 ? lower_collective(lowering, kind, last, sum, step->name, out) : LK_OK;
}

static lk_status lower_comm(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	return lower_join(lowering, step, step->values.at, step->values.count, -1, out);
}

/* Whether one kernel reduces, computes on what it has reduced and hands the results round, by any
 * of the algorithms of an all-reduce: on GPUs, for the first of the gathers. */
static bool lower_is_allreduce(const lc_lowering *lowering, const lc_step *step) {
	return !lowering->hosts && step->scatter >= 0 && step->gathers.count > 0 &&
	       lc_node_at(lowering->p, step->scatter)->axis ==
	           lc_node_at(lowering->p, step->gathers.at[0])->axis;
}

/* The pass overlaps with the reduce-scatter, or the all-reduce that it is a part of; other gathers
 * follow both, or overlap with a pass without reduce-scatter. */
static lk_status lower_ring(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	struct ends first = {0};
	struct waiting w;
	int gathered = lower_is_allreduce(lowering, step);
	lower_side_by_side(lowering, &w);
	if (step->scatter >= 0)
		LK_TRY(lower_join(lowering, step, &step->scatter, 1, gathered ? step->gathers.at[0] : -1,
		                  &first));
	LK_TRY(lower_map(lowering, step, &first));
	if (step->scatter >= 0 && step->gathers.count > gathered) {
		lowering->deps = first.at;
		lowering->dep_count = (uint32_t)first.count;
	} else *out = first;
	for (int k = gathered; k < step->gathers.count; k++)
		LK_TRY(lower_join(lowering, step, &step->gathers.at[k], 1, -1, out));
	if (out->count == 0) *out = first; /* on one rank nothing is gathered */
	one_by_one(lowering, &w);
	return LK_OK;
}

static lk_status lower_matmul(lc_lowering *lowering, const lc_node *value, int64_t item, int cut,
                              lk_op *op) {
	const lc_node *a = lc_node_at(lowering->p, value->in[0]),
				  *b = lc_node_at(lowering->p, value->in[1]);
	double e[LC_RANK], x[LC_RANK];
	LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, value, item, e, lowering->err));
	LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, a, item, x, lowering->err));
	op->m = e[value->rank - 2];
	op->n = e[value->rank - 1];
	op->k = x[a->rank - (value->ta ? 2 : 1)];
	op->batch = 1;
	for (int d = 0; d < value->rank - 2; d++) op->batch *= e[d];
	if (b->rank == 2) {
		op->m *= op->batch;
		op->batch = 1;
	}
	double *chunked;
	if (cut == value->rank - 1) chunked = &op->n;
	else if (cut < value->rank - 2 && b->rank > 2) chunked = &op->batch;
	else chunked = &op->m;
	if (lowering->hosts) *chunked = fmax(1, *chunked * lowering->share);
	return LK_OK;
}

static lk_status lower_conv(lc_lowering *lowering, const lc_node *value, int64_t item, lk_op *op) {
	double e[LC_RANK], w[LC_RANK];
	LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, value, item, e, lowering->err));
	LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, lc_node_at(lowering->p, value->in[1]),
	                        item, w, lowering->err));
	op->kind = LK_OP_CONV;
	op->batch = 1;
	op->m = e[0] * e[2] * e[3] * share_of_dims(lowering);
	op->n = e[1];
	op->k = w[1] * w[2] * w[3];
	return LK_OK;
}

static lk_status lower_contract(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	int v = step->values.at[0], cut = lowering->steps->cut[v];
	const lc_node *value = lc_node_at(lowering->p, v);
	for (int64_t i = items_begin(lowering, step); i < items_end(lowering, step); i++) {
		lk_op op = {.kind = LK_OP_GEMM, .dtype = (uint8_t)dtype_of(value)};
		double a, b, c;
		LK_TRY(value->op == LC_MATMUL ? lower_matmul(lowering, value, i, cut, &op)
		                              : lower_conv(lowering, value, i, &op));
		LK_TRY(lc_lower_value_bytes(lowering, value->in[0], i, &a));
		LK_TRY(lc_lower_value_bytes(lowering, value->in[1], i, &b));
		LK_TRY(lc_lower_value_bytes(lowering, v, i, &c));
		/* every chunk that is a product of its own reads an operand that is not cut whole */
		if (!lowering->hosts) /* one kernel */
			;
		else if (cut == value->rank - 1) a /= lowering->share;
		else if (cut >= value->rank - 2 || lc_node_at(lowering->p, value->in[1])->rank == 2 ||
		         value->op == LC_CONV2D)
			b /= lowering->share;
		op.bytes = a + b + c;
		op.flops = 2 * op.batch * op.m * op.n * op.k * lowering->share / share_of_dims(lowering);
		LK_TRY(lower_add(lowering, op, step->name, lowering->compute,
		                 i == items_end(lowering, step) - 1 ? out : NULL));
	}
	return LK_OK;
}

/* The share of pairs of a rank's queries and keys that are seen. Keys that are other slices of the
 * positions than the queries lie before them or after them: known where each place is a stage. */
static double pairs_seen(const lc_lowering *lowering, const lc_node *node, double queries,
                         double keys) {
	const lc_node *q = lc_node_at(lowering->p, node->in[0]),
				  *k = lc_node_at(lowering->p, node->in[1]);
	double share = node->causal ? 0.5 : 1;
	for (int a = 0; a < lowering->inner && node->part && node->causal; a++) {
		if (k->layout[a].kind != LC_S || k->layout[a].dim != q->rank - 2) continue;
		int64_t ranks = lowering->sizes->symbol[a], turn = k->layout[a].turn - q->layout[a].turn,
				of = ((lowering->place[a] - turn) % ranks + ranks) % ranks;
		if (of != lowering->place[a]) share = of < lowering->place[a] ? 1 : 0;
	}
	double window = node->window * (node->causal ? 1.0 : 2.0);
	return queries > 0 && node->window && window < keys * share ? window / keys : share;
}

/* One fused kernel; the lse alone takes half of an attention's products. */
static lk_status lower_attend(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	const lc_node *node = lc_node_at(lowering->p, step->values.at[0]);
	const lc_node *q = lc_node_at(lowering->p, node->in[0]);
	bool backward = node->op >= LC_ATTENTION_DQ, summed = backward;
	for (int i = 0; i < step->values.count; i++) {
		int op = lc_node_at(lowering->p, step->values.at[i])->op;
		summed |= op == LC_ATTENTION || op == LC_ATTENTION_MORE;
	}
	int products = summed ? 2 : 1; /* of 2 m n k */
	if (backward) products = 5;
	for (int64_t i = items_begin(lowering, step); i < items_end(lowering, step); i++) {
		lk_op op = {.kind = backward ? LK_OP_ATTENTION_BWD : LK_OP_ATTENTION,
		            .dtype = (uint8_t)dtype_of(q),
		            .flags = node->causal && !node->part ? LK_OP_CAUSAL : 0,
		            .window = node->window};
		double rows[LC_RANK], keys[LC_RANK];
		LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, q, i, rows, lowering->err));
		LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, lc_node_at(lowering->p, node->in[1]),
		                        i, keys, lowering->err));
		op.m = rows[q->rank - 2];
		op.n = keys[q->rank - 2];
		op.k = rows[q->rank - 1];
		op.batch = share_of_dims(lowering);
		for (int d = 0; d < q->rank - 2; d++) op.batch *= rows[d];
		op.flops = products * 2 * op.batch * op.m * op.n * pairs_seen(lowering, node, op.m, op.n) *
		           op.k * lowering->share / share_of_dims(lowering);
		LK_TRY(lc_pass_bytes(lowering->steps, step, lowering->sizes, i, &op.bytes, lowering->err));
		op.bytes *= lowering->share;
		LK_TRY(lower_add(lowering, op, step->name, lowering->compute,
		                 i == items_end(lowering, step) - 1 ? out : NULL));
	}
	return LK_OK;
}

/* Elements are read and written, and so are the row indices. */
static lk_status lower_rows(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	int v = step->values.at[0];
	for (int64_t i = items_begin(lowering, step); i < items_end(lowering, step); i++) {
		lk_op op = {.kind = LK_OP_PERMUTE, .dtype = (uint8_t)dtype_of(lc_node_at(lowering->p, v))};
		double rows, index;
		LK_TRY(lc_lower_value_bytes(lowering, v, i, &rows));
		index = 0;
		if (lc_ops[lc_node_at(lowering->p, v)->op].family == LC_ROWS)
			LK_TRY(lc_lower_value_bytes(lowering, lc_node_at(lowering->p, v)->in[1], i, &index));
		op.bytes = 2 * rows + index;
		LK_TRY(lower_add(lowering, op, step->name, lowering->compute,
		                 i == items_end(lowering, step) - 1 ? out : NULL));
	}
	return LK_OK;
}

static lk_status lower_send(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	int v = step->values.at[0];
	const lc_node *value = lc_node_at(lowering->p, v);
	int64_t from = lc_group_place(lowering->p, lowering->sizes, &value->from),
			to = lc_group_place(lowering->p, lowering->sizes, &value->at);
	bool concerned =
		lowering->place[value->at.axis] == from || lowering->place[value->at.axis] == to;
	for (int64_t i = items_begin(lowering, step);
	     i < items_end(lowering, step) && from != to && concerned; i++) {
		double bytes;
		LK_TRY(lc_lower_value_bytes(lowering, v, i, &bytes));
		LK_TRY(lower_message(lowering, value->at.axis, from, to, bytes, step->name,
		                     i == items_end(lowering, step) - 1 ? out : NULL));
	}
	return LK_OK;
}

/* Whether this stage takes part: it has the ranks of the step's first value that is no leaf; of a
 * send, of both groups. */
static bool lower_takes_part(const lc_lowering *lowering, const lc_step *step) {
	const lc_node *value = lc_node_at(lowering->p, step->values.at[0]);
	return step->kind == LC_STEP_SEND || lc_lowering_holds(lowering, &value->at);
}

static lk_status lower_simple(lc_lowering *lowering, const lc_step *step, struct ends *out) {
	if (!lower_takes_part(lowering, step)) return LK_OK;
	switch (step->kind) {
	case LC_STEP_MAP: return lower_map(lowering, step, out);
	case LC_STEP_CONTRACT: return lower_contract(lowering, step, out);
	case LC_STEP_ROWS: return lower_rows(lowering, step, out);
	case LC_STEP_ATTEND: return lower_attend(lowering, step, out);
	case LC_STEP_COMM: return lower_comm(lowering, step, out);
	case LC_STEP_SEND: return lower_send(lowering, step, out);
	default: return lower_ring(lowering, step, out);
	}
}

/* ---- overlap ---- */

/* Chunk k of part i waits for chunk k of the earlier parts that it reads; done: by part and
 * chunk. */
static lk_status lower_chunk(lc_lowering *lowering, const lc_step *step, int i, int64_t k,
                             int64_t chunks, uint32_t entry, struct ends *done) {
	LK_ASSERT(i >= 0 && i < step->part_count && k >= 0 && k < chunks);
	const lc_step *part = &step->parts[i];
	struct ends *own = &done[i * chunks + k];
	uint32_t deps[64];
	uint32_t count = 0;
	for (int a = 0; a < part->after.count; a++) {
		const struct ends *other = &done[part->after.at[a] * chunks + k];
		for (int e = 0; e < other->count && count < 60; e++) deps[count++] = other->at[e];
	}
	if (count == 0) deps[count++] = entry;
	lowering->deps = deps;
	lowering->dep_count = count;
	lowering->join = 0;
	lowering->compute = compute_streams[i % COMPUTE_STREAMS];
	if (step->list >= 0) lowering->item = k;
	lowering->last = k == chunks - 1;
	lk_status status = lower_simple(lowering, part, own);
	if (own->count == 0) /* nothing to do here: later parts wait for what this one waits for */
		for (uint32_t e = 0; e < count && e < 4; e++) own->at[own->count++] = deps[e];
	lowering->deps = NULL;
	lowering->dep_count = 0;
	lowering->join = ALL_STREAMS;
	lowering->compute = LK_STREAM_COMPUTE;
	lowering->item = -1;
	return status;
}

/* Whether a part reads what an earlier one writes whole, as the total of its chunks: it waits for
 * the last of them. */
static bool reads_whole(const lc_lowering *lowering, const lc_step *step) {
	for (int i = 0; i < step->part_count; i++)
		for (int a = 0; a < step->parts[i].after.count; a++) {
			const lc_ids *writes = &step->parts[step->parts[i].after.at[a]].writes;
			for (int w = 0; w < writes->count; w++)
				if (lowering->steps->cut[writes->at[w]] < 0 &&
				    lc_ids_have(&step->parts[i].reads, writes->at[w]))
					return true;
		}
	return false;
}

/* The number of chunks: a list's tensors; 1 for concurrent parts; for a ring a chunk per rank. */
static int64_t chunks_of(const lc_lowering *lowering, const lc_step *step) {
	if (step->list >= 0) return lowering->sizes->items[step->list];
	if (step->chunk_dim < 0 || reads_whole(lowering, step)) return 1;
	if (step->chunks) return step->chunks;
	for (int k = 0; k < step->values.count && step->ring; k++) {
		const lc_node *value = lc_node_at(lowering->p, step->values.at[k]);
		bool rings = value->op == LC_REDUCESCATTER || value->op == LC_ALLGATHER ||
		             value->op == LC_ALLREDUCE || value->op == LC_ALLTOALL;
		if (rings && lowering->sizes->symbol[value->axis] > 1)
			return lowering->sizes->symbol[value->axis];
	}
	return lowering->chunks;
}

/* On GPUs the chunks of a part are tiles of one kernel, which waits for flags of the tiles that it
 * reads; on hosts each is a call. Issue in waves: chunk k of part i in wave k + i, later parts
 * first, so that no message blocks another one that could go. */
static lk_status lower_overlap(lc_lowering *lowering, const lc_step *step) {
	int64_t chunks = chunks_of(lowering, step), parts = step->part_count;
	if (chunks * parts > MOST_OPS)
		return lk_fail(lowering->err, LK_ERR_INPUT, lowering->p->name,
		               "too many chunks to simulate");
	struct ends *done = LK_ARRAY(&lowering->scratch, struct ends, (size_t)(chunks * parts));
	if (!done) return lk_oom(lowering->err);
	uint32_t entry = wait_for_all(lowering);
	if (step->list < 0) lowering->share = 1.0 / (double)chunks;
	if (step->list < 0 && !lowering->hosts && chunks > 1) lowering->pieces = (double)chunks;
	lk_status status = LK_OK;
	for (int64_t wave = 0; wave < chunks + parts - 1; wave++)
		for (int i = (int)parts - 1; i >= 0 && status == LK_OK; i--)
			if (wave >= i && wave - i < chunks)
				status = lower_chunk(lowering, step, i, wave - i, chunks, entry, done);
	lowering->share = 1;
	lowering->pieces = 0;
	return status;
}

/* ---- the graph ---- */

static lk_status lower_stage(lc_lowering *lowering, uint32_t stage) {
	LK_ASSERT(stage < lowering->graph->programs.count);
	uint32_t block, rest = stage;
	lowering->stage = stage;
	lowering->share = 1;
	lowering->item = -1;
	lowering->join = ALL_STREAMS;
	lowering->compute = LK_STREAM_COMPUTE;
	for (int a = lowering->inner; a-- > 0;) {
		lowering->place[a] = rest % (uint32_t)lowering->sizes->symbol[a];
		rest /= (uint32_t)lowering->sizes->symbol[a];
	}
	lk_graph_begin_block(lowering->graph, lowering->p->name);
	lowering->block_begin = lowering->graph->ops.count;
	double pending = 0;
	for (int i = 0; i < lowering->steps->count; i++) {
		const lc_step *step = &lowering->steps->at[i];
		uint32_t first = lowering->graph->ops.count;
		struct ends unused = {0};
		if (step->kind == LC_STEP_OVERLAP) LK_TRY(lower_overlap(lowering, step));
		else LK_TRY(lower_simple(lowering, step, &unused));
		LK_TRY(lc_lower_take_memory(lowering, i, first, &pending));
	}
	LK_TRY(lk_graph_end_block(lowering->graph, &block, lowering->err));
	LK_TRY(lc_lower_hold(lowering, &lowering->graph->programs.at[stage]));
	lk_call call = {
		.block = block, .repeat = 1, .microbatch = -1, .layer = -1, .pass = LK_PHASE_OTHER};
	return lk_graph_call(lowering->graph, stage, &call, lowering->err);
}

/* Choose process groups of axes that are chains: by the axis' name if that is a known one, so that
 * tables show it. */
static void choose_groups(lc_lowering *lowering) {
	enum {
		ANY = 4 /* the first groups are for axes of other names too */
	};
	static const struct {
		const char *name;
		uint8_t kind;
	} usual[] = {
		{"tp", LK_GROUP_TP}, {"dp", LK_GROUP_DP},      {"ep", LK_GROUP_EP},
		{"cp", LK_GROUP_CP}, {"dp_i", LK_GROUP_SHARD}, {"dp_o", LK_GROUP_REPLICA},
	};
	bool taken[LK_GROUPS] = {false};
	for (int a = lowering->inner; a < lowering->p->axis_count; a++)
		for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
			if (strcmp(lowering->p->axes[a].name, usual[i].name) == 0)
				taken[lowering->kind_of[a] = usual[i].kind] = true;
	for (int a = lowering->inner; a < lowering->p->axis_count; a++)
		for (int i = 0; i < ANY && !lowering->kind_of[a]; i++)
			if (!taken[usual[i].kind]) taken[lowering->kind_of[a] = usual[i].kind] = true;
	uint32_t stride = 1;
	for (int a = lowering->p->axis_count; a-- > lowering->inner;) {
		lowering->graph->ranks.group[lowering->kind_of[a]].size =
			(uint32_t)lowering->sizes->symbol[a];
		lowering->graph->ranks.group[lowering->kind_of[a]].stride = stride;
		stride *= (uint32_t)lowering->sizes->symbol[a];
	}
}

/* The last axis along which ranks do different things: it and those before it are stages. */
static int inner_axis(const lc_program *program) {
	int last = -1;
	for (size_t v = 0; v < program->nodes.count; v++) {
		const lc_node *node = &program->nodes.at[v];
		int a = node->op == LC_PERMUTE ? node->axis : node->at.axis;
		if (node->by > a + 1) a = node->by - 1;
		if (a > last) last = a;
		if (node->from.axis > last) last = node->from.axis;
	}
	return last + 1;
}

/* The groups of an axis that is stages. */
static lk_status lower_add_teams(lc_lowering *lowering, int a) {
	uint32_t ranks = (uint32_t)lowering->sizes->symbol[a],
			 stride = (uint32_t)stride_of(lowering, a);
	uint32_t *members = LK_ARRAY(&lowering->scratch, uint32_t, ranks);
	if (!members) return lk_oom(lowering->err);
	lowering->team_of[a] = (uint32_t)lowering->graph->teams.count;
	for (uint32_t g = 0; g < lowering->stages / ranks && ranks > 1; g++) {
		for (uint32_t i = 0; i < ranks; i++)
			members[i] = g / stride * stride * ranks + i * stride + g % stride;
		lk_graph_add_team(lowering->graph, lowering->p->axes[a].name, members, ranks, ranks, false);
	}
	return LK_OK;
}

static lk_status steps_lower(lc_lowering *lowering) {
	lowering->inner = inner_axis(lowering->p);
	lowering->stages = lowering->chains = 1;
	for (int a = 0; a < lowering->p->axis_count; a++)
		*(a < lowering->inner ? &lowering->stages : &lowering->chains) *=
			(uint32_t)lowering->sizes->symbol[a];
	lowering->pairs = LK_ARRAY(&lowering->scratch, struct lc_pair *, lowering->stages);
	lowering->bytes = LK_ARRAY(&lowering->scratch, double, lowering->p->nodes.count);
	lowering->pass = LK_ARRAY(&lowering->scratch, double, lowering->p->nodes.count);
	if (!lowering->pairs || !lowering->bytes || !lowering->pass) return lk_oom(lowering->err);
	lc_life *life;
	LK_TRY(lc_lifetimes(&lowering->scratch, lowering->steps, &life, lowering->err));
	lowering->life = life;
	lk_ranks *ranks = &lowering->graph->ranks;
	ranks->world = lowering->stages * lowering->chains;
	ranks->stages = lowering->stages;
	ranks->chains = lowering->chains;
	for (int g = 0; g < LK_GROUPS; g++) ranks->group[g].size = ranks->group[g].stride = 1;
	choose_groups(lowering);
	LK_TRY(lk_graph_set_programs(lowering->graph, lowering->stages, 0, lowering->err));
	for (int a = 0; a < lowering->inner; a++) LK_TRY(lower_add_teams(lowering, a));
	for (uint32_t s = 0; s < lowering->stages; s++) LK_TRY(lower_stage(lowering, s));
	return LK_OK;
}

lk_status lc_lower(const lc_steps *steps, const lc_sizes *sizes, int64_t chunks, bool hosts,
                   lk_graph **out, lk_error *err) {
	lc_lowering l = {.steps = steps,
	                 .p = steps->p,
	                 .sizes = sizes,
	                 .chunks = chunks > 0 ? chunks : LC_CHUNKS,
	                 .hosts = hosts,
	                 .err = err};
	*out = NULL;
	if (lc_ranks(l.p, sizes) > LC_RANKS)
		return lk_fail(err, LK_ERR_INPUT, l.p->name,
		               "a mesh of %lld ranks; at most %d are simulated",
		               (long long)lc_ranks(l.p, sizes), LC_RANKS);
	l.graph = lk_graph_new();
	if (!l.graph) return lk_oom(err);
	lk_status status = steps_lower(&l);
	if (status == LK_OK) *out = l.graph;
	else lk_graph_free(l.graph);
	lk_arena_free(&l.scratch);
	return status;
}
