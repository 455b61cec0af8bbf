/* chunks.c: dims along which values that feed each other can be cut into chunks together. A dim of
 * an operand becomes one of the result, or is summed over or repeated: then a chunk needs the whole
 * operand. Collectives take chunks along any dim, also the one that they scatter or gather, because
 * every rank's slice is cut. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"
#include "base/check.h"

/* ---- dims ---- */

static int matmul_dim(const lc_node *node, const lc_node *value, int k, int d) {
	bool turned = k == 0 ? node->ta : node->tb;
	int stays = k == 0 ? value->rank - (turned ? 1 : 2) : value->rank - (turned ? 2 : 1);
	if (d == stays) return k == 0 ? node->rank - 2 : node->rank - 1;
	return d < value->rank - 2 && value->dim[d] != 0 ? d + node->rank - value->rank : -1;
}

/* Batches, heads that are not shared, and queries of what is as the queries. */
static int attended_dim(const lc_program *program, const lc_node *node, int k, int d) {
	const lc_node *q = lc_in(program, node, 0), *keys = lc_in(program, node, 1);
	lc_role role = lc_attend_role(node, k), to = lc_attend_role(node, LC_ATTENDED);
	bool queries = role <= LC_AS_NUMBER && to <= LC_AS_NUMBER;
	if (d < q->rank - 2) return q->dim[d] == keys->dim[d] || queries ? d : -1;
	return d == q->rank - 2 && queries ? d : -1;
}

/* Dims that are divided, joined or cut do not map to a dim of the result. */
static int viewed_dim(const lc_node *node, int d) {
	switch (node->op) {
	case LC_TRANSPOSE:
		if (d == node->d) return node->e;
		return d == node->e ? node->d : d;
	case LC_PARTS:
		if (d == node->d) return -1;
		return d > node->d ? d + 1 : d;
	case LC_JOIN:
		if (d == node->d || d == node->d + 1) return -1;
		return d > node->d ? d - 1 : d;
	case LC_SPREAD: return d >= node->d ? d + 1 : d;
	default: return d == node->d ? -1 : d; /* first, last */
	}
}

int lc_dim_to(const lc_program *program, int id, int k, int d) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id], *value = &program->nodes.at[node->in[k]];
	switch (lc_ops[node->op].family) {
	case LC_MAP:
	case LC_DROP: {
		int at = d + node->rank - value->rank;
		return value->dim[d] == 0 && node->dim[at] != 0 ? -1 : at;
	}
	case LC_CONTRACT:
		if (node->op == LC_MATMUL) return matmul_dim(node, value, k, d);
		return d ? -1 : k;
	case LC_ATTEND: return attended_dim(program, node, k, d);
	case LC_BLOCK: return lc_block_dims(node, value->rank) >> d & 1 ? -1 : d;
	case LC_VIEW: return viewed_dim(node, d);
	case LC_ROWS: {
		if (node->op == LC_ADD_ROWS) return k == 0 && d == value->rank - 1 ? 1 : -1;
		if (k == 1) return d;
		if (d == 1) return node->rank - 1;
		return -1;
	}
	case LC_RED: return lc_reduced_dim(node, d);
	case LC_EFFECT: return node->op == LC_UPDATE && k == 0 ? -1 : d;
	default: return d; /* total, collectives, send */
	}
}

/* The dim of operand k that becomes dim d, or -1. */
static int dim_from(const lc_program *program, int id, int k, int d) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[program->nodes.at[id].in[k]];
	for (int e = 0; e < node->rank; e++)
		if (lc_dim_to(program, id, k, e) == d) return e;
	return -1;
}

/* ---- one dim for all ---- */

struct cutter {
	const lc_program *p;
	const uint8_t *set;
	int *dim; /* [values] -1: none */
	int at;   /* the value that cannot be cut like the others */
	bool changed;
};

static bool chunks_give(struct cutter *cutter, int id, int dim) {
	LK_ASSERT(id >= 0 && (size_t)id < cutter->p->nodes.count);
	if (cutter->dim[id] == dim) return true;
	if (dim < 0 || cutter->dim[id] >= 0) return cutter->at = id, false;
	cutter->dim[id] = dim;
	cutter->changed = true;
	return true;
}

static bool spread_one(struct cutter *cutter, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < cutter->p->nodes.count);
	const lc_node *node = &cutter->p->nodes.at[id];
	for (int k = lc_first_read(node); k < node->inputs; k++) {
		int u = node->in[k];
		if (!cutter->set[u]) continue;
		if (cutter->dim[u] >= 0) {
			int to = lc_dim_to(cutter->p, id, k, cutter->dim[u]);
			if (to < 0) return cutter->at = id, false;
			if (!chunks_give(cutter, id, to)) return false;
		} else if (cutter->dim[id] >= 0) {
			int from = dim_from(cutter->p, id, k, cutter->dim[id]);
			if (from >= 0 && !chunks_give(cutter, u, from)) return false;
		}
	}
	return true;
}

static bool chunks_spread(struct cutter *cutter, int anchor, int dim) {
	int count = (int)cutter->p->nodes.count;
	memset(cutter->dim, 0xff, sizeof *cutter->dim * (size_t)count);
	cutter->dim[anchor] = dim;
	do {
		cutter->changed = false;
		for (int i = 0; i < count; i++)
			if (cutter->set[i] && !spread_one(cutter, i)) return false;
		for (int i = count; i-- > 0;)
			if (cutter->set[i] && !spread_one(cutter, i)) return false;
	} while (cutter->changed);
	return true;
}

/* Whether a chunk reads a state's old version after another chunk has overwritten it. */
static bool reads_updated(struct cutter *cutter, int update) {
	int version = cutter->p->nodes.at[update].in[0];
	for (int i = version + 1; i < update && cutter->dim[update] >= 0; i++) {
		const lc_node *node = &cutter->p->nodes.at[i];
		for (int k = lc_first_read(node); k < node->inputs; k++) {
			if (!cutter->set[i] || node->in[k] != version || cutter->dim[i] < 0) continue;
			if (lc_dim_to(cutter->p, i, k, cutter->dim[update]) != cutter->dim[i])
				return cutter->at = i, true;
		}
	}
	return false;
}

static bool keeps_states(struct cutter *cutter) {
	for (size_t i = 0; i < cutter->p->nodes.count; i++)
		if (cutter->set[i] && cutter->p->nodes.at[i].op == LC_UPDATE &&
		    reads_updated(cutter, (int)i))
			return false;
	return true;
}

static bool scatters(const lc_node *node) {
	return node->op == LC_REDUCESCATTER || node->op == LC_ALLGATHER || node->op == LC_ALLTOALL;
}

/* Where dims are counted: the first collective, or the first value with dims. */
static int find_anchor(const lc_program *program, const uint8_t *set) {
	int anchor = -1;
	for (int i = 0; i < (int)program->nodes.count; i++) {
		if (!set[i] || program->nodes.at[i].rank == 0) continue;
		if (lc_communicates(&program->nodes.at[i])) return i;
		if (anchor < 0 || program->nodes.at[i].rank > program->nodes.at[anchor].rank) anchor = i;
	}
	return anchor;
}

/* The k-th dim to try: the last but one, then earlier ones, then the last. */
static int candidate(const lc_node *node, int k) {
	if (node->rank == 1) return 0;
	if (k < node->rank - 1) return node->rank - 2 - k;
	return node->rank - 1;
}

static bool chunks_wanted(const lc_node *node, int d, const lc_bundle *bundle) {
	if (node->dim[d] == 0) return false;
	if (bundle->order && strcmp(bundle->order, "ring") == 0) {
		if (scatters(node) && d != node->d && !(node->op == LC_ALLTOALL && d == node->e))
			return false;
	}
	if (!bundle->chunk || !*bundle->chunk || node->rank == 1) return true;
	if (strcmp(bundle->chunk, "batches") == 0) return d < node->rank - 2;
	return (strcmp(bundle->chunk, "cols") == 0) == (d == node->rank - 1);
}

static bool one_list(const lc_program *program, const uint8_t *set) {
	int list = -1;
	for (size_t i = 0; i < program->nodes.count; i++) {
		int own = program->nodes.at[i].list;
		if (!set[i] || own < 0) continue;
		if (list >= 0 && own != list) return false;
		list = own;
	}
	return list >= 0;
}

static lk_status no_dim(const struct cutter *cutter, const lc_directive *directive, int anchor,
                        lk_error *err) {
	const lc_node *node = &cutter->p->nodes.at[cutter->at >= 0 ? cutter->at : anchor];
	char type[128];
	lc_type_text(cutter->p, node, type, sizeof type);
	lc_wrong(cutter->p, directive->line, directive->column, err,
	         "no dim%s%s%s can be cut for all that overlaps: %s, %s, prevents it",
	         directive->chunk && *directive->chunk ? " among the " : "",
	         directive->chunk ? directive->chunk : "",
	         directive->order && strcmp(directive->order, "ring") == 0 ? " in the ring's order"
	                                                                   : "",
	         lc_part_name(node), type);
	return lk_hint(err, "overlap less, or leave out what must be whole");
}

lk_status lc_chunk_dims(const lc_program *program, const uint8_t *set,
                        const lc_directive *directive, int *dims, lk_error *err) {
	struct cutter c = {.p = program, .set = set, .dim = dims, .at = -1};
	int anchor = find_anchor(program, set);
	lc_bundle like = {.chunk = directive->chunk, .order = directive->order};
	memset(dims, 0xff, sizeof *dims * program->nodes.count);
	if (one_list(program, set)) return LK_OK; /* chunks are the tensors */
	if (anchor < 0)
		return lc_wrong(program, directive->line, directive->column, err,
		                "numbers alone have no chunks");
	const lc_node *node = &program->nodes.at[anchor];
	for (int k = 0; k < node->rank; k++)
		if (chunks_wanted(node, candidate(node, k), &like) &&
		    chunks_spread(&c, anchor, candidate(node, k)) && keeps_states(&c))
			return LK_OK;
	return no_dim(&c, directive, anchor, err);
}
