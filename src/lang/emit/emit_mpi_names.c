/* emit_mpi_names.c: how the C+MPI target calls things: parts of values, steps, scalars, sizes, groups. */
#include <string.h>

#include "lang/emit/emit_internal.h"

static const lc_node *node(const lc_mpi *c, int id) { return &c->p->nodes.at[id]; }

int lc_mpi_owner(const lc_mpi *c, int id) {
	const lc_node *n = node(c, id);
	if (n->op == LC_UPDATE) return lc_mpi_owner(c, n->in[0]);
	if (n->op == LC_OUT && c->memory[id] != id) return lc_mpi_owner(c, n->in[0]);
	return id;
}

int lc_mpi_root(const lc_mpi *c, int id) {
	int owner = lc_mpi_owner(c, id);
	return c->memory[owner] < 0 ? owner : c->memory[owner];
}

char *lc_mpi_named(const lc_mpi *c, const char *prefix, int id, char out[LC_IDENTIFIER]) {
	const lc_node *n = node(c, id);
	bool plain = n->name && (n->op == LC_STATE || lc_value_find(c->p, n->name) == id);
	char begin[48];
	if (plain) snprintf(begin, sizeof begin, *prefix ? "%.16s_" : "%.16s", prefix);
	else snprintf(begin, sizeof begin, "%.16s%d", prefix, id);
	return lc_identifier(begin, plain ? n->name : "", out);
}

char *lc_mpi_number(const lc_mpi *c, int id, char out[LC_IDENTIFIER]) {
	char prefix[16];
	int owner = lc_mpi_owner(c, id);
	const lc_node *n = node(c, owner);
	snprintf(prefix, sizeof prefix, "t%d", c->number);
	if (n->name && (n->op == LC_STATE || lc_value_find(c->p, n->name) == owner)) return lc_mpi_named(c, prefix, owner, out);
	snprintf(out, LC_IDENTIFIER, "%s_%d", prefix, owner);
	return out;
}

char *lc_mpi_part(const lc_mpi *c, int id, char *out, size_t size) {
	char number[LC_IDENTIFIER];
	snprintf(out, size, node(c, lc_mpi_owner(c, id))->list < 0 ? "run->part[%s]" : "&run->part[%s][item]",
	         lc_mpi_number(c, id, number));
	return out;
}

char *lc_mpi_function(const lc_mpi *c, const lc_step *s, char out[LC_IDENTIFIER]) {
	char prefix[48];
	snprintf(prefix, sizeof prefix, "step%d%.24s_", c->number, c->helper);
	return lc_identifier(prefix, s->name, out);
}

int lc_mpi_scalar(const lc_mpi *c, int id) {
	const char *name = node(c, id)->name;
	int place = 0;
	for (size_t i = 0; i < c->original->nodes.count; i++) {
		const lc_node *n = &c->original->nodes.at[i];
		if (n->op != LC_SCALAR) continue;
		if (strcmp(n->name, name) == 0) return place;
		place++;
	}
	return 0;
}

void lc_mpi_size(const lc_mpi *c, int id, FILE *out) {
	const lc_node *n = node(c, id);
	if (n->axis >= 0) fprintf(out, "(double)run->mesh.ranks[%d]", n->axis);
	else if (c->p->named[n->symbol].list >= 0) fprintf(out, "(double)run->sizes->each[%d][item]", n->symbol);
	else fprintf(out, "(double)run->sizes->dim[%d]", n->symbol);
}

int lc_mpi_index(lc_mpi *c, const char *name) {
	if (!name) return -1;
	for (size_t i = 0; i < c->indices.count; i++)
		if (strcmp(c->indices.at[i], name) == 0) return (int)i;
	return -1;
}

bool lc_mpi_may_be_absent(const lc_mpi *c, int id) {
	const lc_node *n = node(c, id);
	bool rooted = false;
	for (int a = 0; a < c->p->axis_count; a++) rooted |= n->layout[a].kind == LC_ROOT;
	return rooted || n->at.axis >= 0;
}

lk_status lc_mpi_touch(lc_mpi *c, int id) {
	if (!lk_push(&c->touched)) return lk_oom(c->err);
	*lk_last(&c->touched) = id;
	return LK_OK;
}
