/* emit_mpi_place.c: where a pass finds a number, and how the source writes it: the index of a
 * place, its load, and which values of an expression are leaves. */
#include <string.h>

#include "lang/emit/emit_internal.h"
#include "base/check.h"

enum { INDEX = 256 };

char *lc_map_place(const lc_pass *pass, const char *prefix, const lc_place *at,
                   char out[LC_IDENTIFIER]) {
	char view[24];
	if (at->view < 0) return lc_mpi_named(pass->c, prefix, at->id, out);
	snprintf(view, sizeof view, "%.16s%s", prefix, *prefix ? "v" : "");
	return lc_mpi_named(pass->c, view, at->view, out);
}

void lc_put_stride_name(const lc_pass *pass, const lc_place *at, int loop, FILE *out) {
	char name[LC_IDENTIFIER];
	const char *kind;
	if (at->view >= 0) kind = "v";
	else if (at->kind == LC_PLACE_WHOLE) kind = "w";
	else kind = "";
	fprintf(out, "s%s_%s_%c", kind, lc_map_place(pass, "", at, name), lc_map_variable(loop));
}

char *lc_map_value_name(const lc_pass *pass, int id, char out[LC_IDENTIFIER]) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_node *value = lc_node_at(pass->p, id);
	if (value->op == LC_SCALAR) return lc_identifier("c_", value->name, out);
	return lc_value_identifier(pass->p, "v", id, out);
}

static void put_stride(const lc_pass *pass, const lc_place *at, int loop, FILE *out) {
	if (!lc_place_dense(pass->p, &pass->loops, at)) {
		fputc('*', out);
		lc_put_stride_name(pass, at, loop, out);
		return;
	}
	for (int below = loop + 1; below < pass->loops.count; below++)
		fprintf(out, "*n_%c", lc_map_variable(below));
}

/* Whether the place's elements are consecutive along a loop. */
bool lc_steps_by_one(const lc_pass *pass, const lc_place *at, int loop) {
	int from, rank;
	lc_place_stride(pass->p, &pass->loops, at, loop, &from, &rank);
	return from == rank;
}

void lc_put_map_index(const lc_pass *pass, const lc_place *at, FILE *out) {
	bool begun = false;
	for (int l = 0; l < pass->loops.count; l++) {
		if (!lc_place_moves(pass->p, &pass->loops, at, l)) continue;
		fprintf(out, begun ? " + %c" : "%c", lc_map_variable(l));
		begun = true;
		if (!lc_steps_by_one(pass, at, l)) put_stride(pass, at, l, out);
	}
	if (!begun) fputc('0', out);
}

static void put_arrived(const lc_pass *pass, const lc_place *at, FILE *out) {
	char index[2][INDEX];
	for (int i = 0; i < 2; i++) {
		FILE *text = lc_text_open(pass->p, index[i], sizeof index[i]);
		if (!text) return;
		fprintf(text, i ? "p_mine[" : "p_arrived[");
		lc_put_map_index(pass, at, text);
		fputs(i ? "]" : " - first]", text);
		fclose(text);
	}
	fprintf(out, "(alone ? %s%s) : ", lc_load_call((lc_dtype)lc_node_at(pass->p, at->id)->dtype),
	        index[1]);
	lc_put_join(lc_node_at(pass->p, at->id), index[0], index[1], out);
	fputc(')', out);
}

void lc_put_map_load(const lc_pass *pass, int place, lc_dtype t, FILE *out) {
	const lc_place *at = &pass->places.at[place];
	if (pass->arrives && at->kind == LC_PLACE_PART && at->id == pass->step->scatter) {
		put_arrived(pass, at, out);
		return;
	}
	char name[LC_IDENTIFIER];
	bool called = strcmp(lc_load_call(t), "(") != 0;
	if (called) fputs(lc_load_call(t), out);
	fprintf(out, "%s[", lc_map_place(pass, "p", at, name));
	lc_put_map_index(pass, at, out);
	fputs(called ? "])" : "]", out);
}

static bool mpi_map_put_leaf(void *context, int id, int view, FILE *out) {
	const lc_pass *pass = context;
	char name[LC_IDENTIFIER];
	(void)view; /* steps keep in memory what slices are taken of */
	if (pass->source[id] == LC_LOADED)
		lc_put_map_load(pass, pass->place[id], lc_pass_format(pass, id), out);
	else if (pass->source[id] == LC_NUMBER || lc_pass_stands_alone(pass, id))
		fputs(lc_map_value_name(pass, id, name), out);
	else return false;
	return true;
}

static bool mpi_map_is_rounded(void *context, int id) {
	const lc_pass *pass = context;
	return pass->source[id] == LC_LOADED || lc_node_at(pass->p, id)->op == LC_SCALAR ||
	       (pass->source[id] == LC_NUMBER && pass->place[id] >= 0);
}

static void mpi_map_put_place(void *context, int id, int view, FILE *out) {
	const lc_pass *pass = context;
	const lc_place *at = &pass->places.at[pass->whole[id]];
	char name[LC_IDENTIFIER];
	(void)view;
	fprintf(out, "w_%s + (uint64_t)(", lc_map_place(pass, "", at, name));
	lc_put_map_index(pass, at, out);
	fprintf(out, "), %s", lc_node_at(pass->p, id)->list >= 0 ? "(uint32_t)item" : "0");
}

lc_text lc_map_text(lc_pass *pass) {
	return (lc_text){
		pass->p, pass->c->out, mpi_map_put_leaf, mpi_map_is_rounded, mpi_map_put_place, pass, -1};
}
