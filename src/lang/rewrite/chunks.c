/* chunks.c: along which dims values that feed each other can be cut into chunks alike. A dim of an operand is one of the
 * result, or is summed over or repeated: then a chunk needs all of the operand. Collectives take chunks along any dim,
 * also the one that they scatter or gather, for every rank's slice is cut. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

/* ---- dims ---- */

static int matmul_dim(const lc_node *n, const lc_node *x, int k, int d) {
	bool turned = k == 0 ? n->ta : n->tb;
	int stays = k == 0 ? x->rank - (turned ? 1 : 2) : x->rank - (turned ? 2 : 1);
	if (d == stays) return k == 0 ? n->rank - 2 : n->rank - 1;
	return d < x->rank - 2 && x->dim[d] != 0 ? d + n->rank - x->rank : -1;
}

static int reduced_dim(const lc_node *n, int d) {
	int at = d;
	if (n->dims >> d & 1) return -1;
	for (int below = 0; below < d && !n->keep; below++) at -= n->dims >> below & 1;
	return at;
}

int lc_dim_to(const lc_program *p, int id, int k, int d) {
	const lc_node *n = &p->nodes.at[id], *x = &p->nodes.at[n->in[k]];
	switch (lc_ops[n->op].family) {
	case LC_MAP: case LC_DROP: {
		int at = d + n->rank - x->rank;
		return x->dim[d] == 0 && n->dim[at] != 0 ? -1 : at;
	}
	case LC_CONTRACT:
		if (n->op == LC_MATMUL) return matmul_dim(n, x, k, d);
		return d ? -1 : k;
	case LC_ROWS: return k == 1 ? d : d == 1 ? n->rank - 1 : -1;
	case LC_RED: return reduced_dim(n, d);
	case LC_EFFECT: return n->op == LC_UPDATE && k == 0 ? -1 : d;
	default: return d; /* total, collectives, send */
	}
}

/* The dim of operand k that becomes dim d, or -1. */
static int dim_from(const lc_program *p, int id, int k, int d) {
	const lc_node *x = &p->nodes.at[p->nodes.at[id].in[k]];
	for (int e = 0; e < x->rank; e++)
		if (lc_dim_to(p, id, k, e) == d) return e;
	return -1;
}

/* ---- one dim for all ---- */

struct cutter {
	const lc_program *p;
	const uint8_t *set;
	int *dim;            /* [values] -1: none */
	int at;              /* the value that cannot be cut as the others are */
	bool changed;
};

static bool give(struct cutter *c, int id, int dim) {
	if (c->dim[id] == dim) return true;
	if (dim < 0 || c->dim[id] >= 0) return c->at = id, false;
	c->dim[id] = dim;
	c->changed = true;
	return true;
}

static bool spread_one(struct cutter *c, int id) {
	const lc_node *n = &c->p->nodes.at[id];
	for (int k = lc_first_read(n); k < n->inputs; k++) {
		int u = n->in[k];
		if (!c->set[u]) continue;
		if (c->dim[u] >= 0) {
			int to = lc_dim_to(c->p, id, k, c->dim[u]);
			if (to < 0) return c->at = id, false;
			if (!give(c, id, to)) return false;
		} else if (c->dim[id] >= 0) {
			int from = dim_from(c->p, id, k, c->dim[id]);
			if (from >= 0 && !give(c, u, from)) return false;
		}
	}
	return true;
}

static bool spread(struct cutter *c, int anchor, int dim) {
	int count = (int)c->p->nodes.count;
	memset(c->dim, 0xff, sizeof *c->dim * (size_t)count);
	c->dim[anchor] = dim;
	do {
		c->changed = false;
		for (int i = 0; i < count; i++)
			if (c->set[i] && !spread_one(c, i)) return false;
		for (int i = count; i-- > 0;)
			if (c->set[i] && !spread_one(c, i)) return false;
	} while (c->changed);
	return true;
}

/* Whether a chunk reads of a state's old version what another chunk has overwritten. */
static bool reads_updated(struct cutter *c, int update) {
	int version = c->p->nodes.at[update].in[0];
	for (int i = version + 1; i < update && c->dim[update] >= 0; i++) {
		const lc_node *n = &c->p->nodes.at[i];
		for (int k = lc_first_read(n); k < n->inputs; k++) {
			if (!c->set[i] || n->in[k] != version || c->dim[i] < 0) continue;
			if (lc_dim_to(c->p, i, k, c->dim[update]) != c->dim[i]) return c->at = i, true;
		}
	}
	return false;
}

static bool keeps_states(struct cutter *c) {
	for (size_t i = 0; i < c->p->nodes.count; i++)
		if (c->set[i] && c->p->nodes.at[i].op == LC_UPDATE && reads_updated(c, (int)i)) return false;
	return true;
}

static bool is_collective(const lc_node *n) {
	return (lc_ops[n->op].family == LC_COMM && n->op != LC_SLICE && n->op != LC_LOCAL && n->op != LC_SLICED) ||
	       n->op == LC_SEND;
}

static bool scatters(const lc_node *n) {
	return n->op == LC_REDUCESCATTER || n->op == LC_ALLGATHER || n->op == LC_ALLTOALL;
}

/* Where dims are counted: the first collective, or the first value with dims. */
static int find_anchor(const lc_program *p, const uint8_t *set) {
	int anchor = -1;
	for (int i = 0; i < (int)p->nodes.count; i++) {
		if (!set[i] || p->nodes.at[i].rank == 0) continue;
		if (is_collective(&p->nodes.at[i])) return i;
		if (anchor < 0 || p->nodes.at[i].rank > p->nodes.at[anchor].rank) anchor = i;
	}
	return anchor;
}

/* The k-th dim to try: the last but one, those before it, then the last. */
static int candidate(const lc_node *n, int k) { return n->rank == 1 ? 0 : k < n->rank - 1 ? n->rank - 2 - k : n->rank - 1; }

static bool wanted(const lc_node *n, int d, const lc_bundle *bundle) {
	if (n->dim[d] == 0) return false;
	if (bundle->order && strcmp(bundle->order, "ring") == 0) {
		if (scatters(n) && d != n->d && !(n->op == LC_ALLTOALL && d == n->e)) return false;
	}
	if (!bundle->chunk || !*bundle->chunk || n->rank == 1) return true;
	if (strcmp(bundle->chunk, "batches") == 0) return d < n->rank - 2;
	return (strcmp(bundle->chunk, "cols") == 0) == (d == n->rank - 1);
}

static bool one_list(const lc_program *p, const uint8_t *set) {
	int list = -1;
	for (size_t i = 0; i < p->nodes.count; i++) {
		int own = p->nodes.at[i].list;
		if (!set[i] || own < 0) continue;
		if (list >= 0 && own != list) return false;
		list = own;
	}
	return list >= 0;
}

static lk_status no_dim(const struct cutter *c, const lc_directive *d, int anchor, lk_error *err) {
	const lc_node *n = &c->p->nodes.at[c->at >= 0 ? c->at : anchor];
	char type[128];
	lc_type_text(c->p, n, type, sizeof type);
	lc_wrong(c->p, d->line, d->column, err, "no dim%s%s%s can be cut for all that overlaps: %s, %s, stands against it",
	         d->chunk && *d->chunk ? " among the " : "", d->chunk ? d->chunk : "",
	         d->order && strcmp(d->order, "ring") == 0 ? " in the ring's order" : "", lc_part_name(n), type);
	return lk_hint(err, "overlap less, or leave out what must be whole");
}

lk_status lc_chunk_dims(const lc_program *p, const uint8_t *set, const lc_directive *d, int *dims, lk_error *err) {
	struct cutter c = {.p = p, .set = set, .dim = dims, .at = -1};
	int anchor = find_anchor(p, set);
	lc_bundle like = {.chunk = d->chunk, .order = d->order};
	memset(dims, 0xff, sizeof *dims * p->nodes.count);
	if (one_list(p, set)) return LK_OK; /* chunks are the tensors */
	if (anchor < 0) return lc_wrong(p, d->line, d->column, err, "numbers alone have no chunks");
	const lc_node *n = &p->nodes.at[anchor];
	for (int k = 0; k < n->rank; k++)
		if (wanted(n, candidate(n, k), &like) && spread(&c, anchor, candidate(n, k)) && keeps_states(&c)) return LK_OK;
	return no_dim(&c, d, anchor, err);
}
