/* bench_count.c: bytes that the steps of a program move, counted from what every rank holds. */
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

/* What this rank holds of a value, all its items. */
static lk_status local_count(const struct counting *c, int id, double *out, lk_error *err) {
	const lc_program *p = c->steps->p;
	const lc_node *n = &p->nodes.at[id];
	int64_t whole[LC_RANK], begin[LC_RANK], extent[LC_RANK];
	*out = 0;
	for (int64_t item = 0; item < lc_items(p, c->sizes, n); item++) {
		double count = 1;
		LK_TRY(lc_whole_shape(p, n, c->sizes, item, whole, err));
		if (!lc_local_part(p, n, c->sizes, whole, c->rank, begin, extent)) continue;
		for (int d = 0; d < n->rank; d++) count *= (double)extent[d];
		*out += count;
	}
	return LK_OK;
}

static lk_status local_bytes(const struct counting *c, int id, double *out, lk_error *err) {
	LK_TRY(local_count(c, id, out, err));
	*out *= bits[c->steps->p->nodes.at[id].dtype] / 8.0;
	return LK_OK;
}

static bool has(const lc_ids *ids, int id) {
	for (int i = 0; i < ids->count; i++)
		if (ids->at[i] == id) return true;
	return false;
}

/* What a pass reads or writes of a value: no more elements than it goes over, for slices are read in place. */
static lk_status touch(struct counting *c, const lc_step *s, const lc_ids *ids, lk_error *err) {
	for (int i = 0; i < ids->count; i++) {
		const lc_node *n = &c->steps->p->nodes.at[ids->at[i]];
		double elements, space = INFINITY;
		bool wire = s->kind == LC_STEP_RING && (has(&s->gathers, ids->at[i]) ||
		            (s->scatter >= 0 && c->steps->p->nodes.at[s->scatter].in[0] == ids->at[i]));
		if (wire) continue;
		LK_TRY(local_count(c, ids->at[i], &elements, err));
		if (s->space >= 0) LK_TRY(local_count(c, s->space, &space, err));
		c->moved.touched += fmin(elements, space) * bits[n->dtype] / 8;
	}
	return LK_OK;
}

/* What a rank sends in a collective: rings, which send least; a root's tree counts as one ring too. */
static lk_status send(struct counting *c, int id, lk_error *err) {
	const lc_program *p = c->steps->p;
	const lc_node *n = &p->nodes.at[id];
	double in, out;
	LK_TRY(local_bytes(c, n->in[0], &in, err));
	LK_TRY(local_bytes(c, id, &out, err));
	if (n->op == LC_SEND) {
		c->moved.sent += in, c->moved.between += in; /* 0 on ranks of other groups */
		return LK_OK;
	}
	double ranks = (double)c->sizes->symbol[n->axis], others = (ranks - 1) / ranks;
	switch (n->op) {
	case LC_ALLREDUCE: c->moved.sent += 2 * others * in; break;
	case LC_REDUCESCATTER: case LC_ALLTOALL: case LC_REDUCE: c->moved.sent += others * in; break;
	case LC_ALLGATHER: case LC_BROADCAST: c->moved.sent += others * out; break;
	case LC_PERMUTE: c->moved.sent += n->shift % (int64_t)ranks == 0 ? 0 : in; break;
	default: break;
	}
	return LK_OK;
}

static lk_status count_step(struct counting *c, const lc_step *s, lk_error *err) {
	for (int i = 0; i < s->part_count; i++) LK_TRY(count_step(c, &s->parts[i], err));
	if (s->kind == LC_STEP_OVERLAP) return LK_OK;
	for (int i = 0; i < s->values.count; i++) {
		const lc_node *n = &c->steps->p->nodes.at[s->values.at[i]];
		bool moves = n->op == LC_SEND || (n->op >= LC_ALLREDUCE && n->op <= LC_PERMUTE);
		if (moves) LK_TRY(send(c, s->values.at[i], err));
	}
	LK_TRY(touch(c, s, &s->reads, err));
	return touch(c, s, &s->writes, err);
}

lk_status lc_moved_count(const lc_steps *steps, const lc_sizes *sizes, lc_moved *out, lk_error *err) {
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
