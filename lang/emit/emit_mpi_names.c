/* emit_mpi_names.c: names in the C+MPI target: parts of values, steps, scalars, sizes, groups. */
#include <string.h>

#include "lang/emit/emit_internal.h"
#include "base/check.h"

int lc_mpi_owner(const lc_mpi *mpi, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *value = lc_node_at(mpi->p, id);
	if (value->op == LC_UPDATE) return lc_mpi_owner(mpi, value->in[0]);
	if (value->op == LC_OUT && mpi->memory[id] != id) return lc_mpi_owner(mpi, value->in[0]);
	return id;
}

int lc_mpi_root(const lc_mpi *mpi, int id) {
	int owner = lc_mpi_owner(mpi, id);
	return mpi->memory[owner] < 0 ? owner : mpi->memory[owner];
}

char *lc_mpi_named(const lc_mpi *mpi, const char *prefix, int id, char out[LC_IDENTIFIER]) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *value = lc_node_at(mpi->p, id);
	bool plain = value->name && (value->op == LC_STATE || lc_value_find(mpi->p, value->name) == id);
	char begin[48];
	if (plain) snprintf(begin, sizeof begin, *prefix ? "%.16s_" : "%.16s", prefix);
	else snprintf(begin, sizeof begin, "%.16s%d", prefix, id);
	return lc_identifier(begin, plain ? value->name : "", out);
}

char *lc_mpi_number(const lc_mpi *mpi, int id, char out[LC_IDENTIFIER]) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	char prefix[16];
	int owner = lc_mpi_owner(mpi, id);
	const lc_node *value = lc_node_at(mpi->p, owner);
	snprintf(prefix, sizeof prefix, "t%d", mpi->number);
	if (value->name && (value->op == LC_STATE || lc_value_find(mpi->p, value->name) == owner))
		return lc_mpi_named(mpi, prefix, owner, out);
	snprintf(out, LC_IDENTIFIER, "%s_%d", prefix, owner);
	return out;
}

char *lc_mpi_part(const lc_mpi *mpi, int id, char *out, size_t size) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	char number[LC_IDENTIFIER];
	snprintf(out, size,
	         lc_node_at(mpi->p, lc_mpi_owner(mpi, id))->list < 0 ? "run->part[%s]"
	                                                             : "&run->part[%s][item]",
	         lc_mpi_number(mpi, id, number));
	return out;
}

char *lc_mpi_function(const lc_mpi *mpi, const lc_step *step, char out[LC_IDENTIFIER]) {
	char prefix[48];
	snprintf(prefix, sizeof prefix, "step%d%.24s_", mpi->number, mpi->helper);
	return lc_identifier(prefix, step->name, out);
}

int lc_mpi_scalar(const lc_mpi *mpi, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const char *name = lc_node_at(mpi->p, id)->name;
	int place = 0;
	for (size_t i = 0; i < mpi->original->nodes.count; i++) {
		const lc_node *value = &mpi->original->nodes.at[i];
		if (value->op != LC_SCALAR) continue;
		if (strcmp(value->name, name) == 0) return place;
		place++;
	}
	return 0;
}

void lc_mpi_size(const lc_mpi *mpi, int id, FILE *out) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *value = lc_node_at(mpi->p, id);
	if (value->axis >= 0) fprintf(out, "(double)run->mesh.ranks[%d]", value->axis);
	else if (mpi->p->named[value->symbol].list >= 0)
		fprintf(out, "(double)run->sizes->each[%d][item]", value->symbol);
	else fprintf(out, "(double)run->sizes->dim[%d]", value->symbol);
}

int lc_mpi_index(lc_mpi *mpi, const char *name) {
	if (!name) return -1;
	for (size_t i = 0; i < mpi->indices.count; i++)
		if (strcmp(mpi->indices.at[i], name) == 0) return (int)i;
	return -1;
}

bool lc_mpi_may_be_absent(const lc_mpi *mpi, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *value = lc_node_at(mpi->p, id);
	bool rooted = false;
	for (int a = 0; a < mpi->p->axis_count; a++) rooted |= value->layout[a].kind == LC_ROOT;
	return rooted || value->at.axis >= 0;
}

lk_status lc_mpi_touch(lc_mpi *mpi, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	if (!lk_push(&mpi->touched)) return lk_oom(mpi->err);
	*lk_last(&mpi->touched) = id;
	return LK_OK;
}
