/* bench_count.c: bytes that the steps of a program move, counted from every rank's parts. */
#include <math.h>

#include "lang/tune/tune.h"

struct counting {
	const lc_steps *steps;
	const lc_sizes *sizes;
	int64_t rank;
	lc_moved moved;
};

static const int bits[LC_DTYPE_COUNT] = {
#define LC_BITS(symbol, name, bits) [LC_##symbol] = bits,
	LC_DTYPES(LC_BITS)
#undef LC_BITS
};

/* Elements of a value on this rank, over all its items. */
static lk_status local_count(const struct counting *counting, int id, double *out, lk_error *err) {
	const lc_program *program = counting->steps->p;
	const lc_node *node = &program->nodes.at[id];
	int64_t whole[LC_RANK], begin[LC_RANK], extent[LC_RANK];
	*out = 0;
	for (int64_t item = 0; item < lc_items(program, counting->sizes, node); item++) {
		double count = 1;
		LK_TRY(lc_whole_shape(program, node, counting->sizes, item, whole, err));
		if (!lc_local_part(program, node, counting->sizes, item, whole, counting->rank, begin,
		                   extent))
			continue;
		for (int d = 0; d < node->rank; d++) count *= (double)extent[d];
		*out += count;
	}
	return LK_OK;
}

static lk_status local_bytes(const struct counting *counting, int id, double *out, lk_error *err) {
	LK_TRY(local_count(counting, id, out, err));
	*out *= bits[counting->steps->p->nodes.at[id].dtype] / 8.0;
	return LK_OK;
}

/* What a pass reads or writes of a value: no more elements than it goes over, for slices are read
 * in place. */
static lk_status count_touch(struct counting *counting, const lc_step *step, const lc_ids *ids,
                             lk_error *err) {
	for (int i = 0; i < ids->count; i++) {
		const lc_node *node = &counting->steps->p->nodes.at[ids->at[i]];
		double elements, space = INFINITY;
		bool wire = step->kind == LC_STEP_RING &&
		            (lc_ids_have(&step->gathers, ids->at[i]) ||
		             (step->scatter >= 0 &&
		              counting->steps->p->nodes.at[step->scatter].in[0] == ids->at[i]));
		if (wire) continue;
		LK_TRY(local_count(counting, ids->at[i], &elements, err));
		if (step->space >= 0) LK_TRY(local_count(counting, step->space, &space, err));
		counting->moved.touched += fmin(elements, space) * bits[node->dtype] / 8;
	}
	return LK_OK;
}

/* Count what a rank sends in a collective: as rings, which send least; a root's tree counts as one
 * ring too. */
static lk_status count_send(struct counting *counting, int id, lk_error *err) {
	const lc_program *program = counting->steps->p;
	const lc_node *node = &program->nodes.at[id];
	double in, out;
	LK_TRY(local_bytes(counting, node->in[0], &in, err));
	LK_TRY(local_bytes(counting, id, &out, err));
	if (node->op == LC_SEND) {
		counting->moved.sent += in;
		counting->moved.between += in; /* 0 on ranks of other groups */
		return LK_OK;
	}
	double ranks = (double)counting->sizes->symbol[node->axis], others = (ranks - 1) / ranks;
	switch (node->op) {
	case LC_ALLREDUCE: counting->moved.sent += 2 * others * in; break;
	case LC_REDUCESCATTER:
	case LC_ALLTOALL:
	case LC_REDUCE: counting->moved.sent += others * in; break;
	case LC_ALLGATHER:
	case LC_BROADCAST: counting->moved.sent += others * out; break;
	case LC_PERMUTE: counting->moved.sent += node->shift % (int64_t)ranks == 0 ? 0 : in; break;
	default: break;
	}
	return LK_OK;
}

static lk_status count_step(struct counting *counting, const lc_step *step, lk_error *err) {
	for (int i = 0; i < step->part_count; i++) LK_TRY(count_step(counting, &step->parts[i], err));
	if (step->kind == LC_STEP_OVERLAP) return LK_OK;
	for (int i = 0; i < step->values.count; i++) {
		const lc_node *node = &counting->steps->p->nodes.at[step->values.at[i]];
		bool moves = node->op == LC_SEND || (node->op >= LC_ALLREDUCE && node->op <= LC_PERMUTE);
		if (moves) LK_TRY(count_send(counting, step->values.at[i], err));
	}
	LK_TRY(count_touch(counting, step, &step->reads, err));
	return count_touch(counting, step, &step->writes, err);
}

lk_status lc_moved_count(const lc_steps *steps, const lc_sizes *sizes, lc_moved *out,
                         lk_error *err) {
	*out = (lc_moved){0};
	int64_t ranks = lc_ranks(steps->p, sizes);
	for (int64_t rank = 0; rank < ranks; rank++) {
		struct counting c = {.steps = steps, .sizes = sizes, .rank = rank};
		for (int i = 0; i < steps->count; i++) LK_TRY(count_step(&c, &steps->at[i], err));
		out->sent = fmax(out->sent, c.moved.sent);
		out->between = fmax(out->between, c.moved.between);
		out->touched = fmax(out->touched, c.moved.touched);
	}
	return LK_OK;
}
