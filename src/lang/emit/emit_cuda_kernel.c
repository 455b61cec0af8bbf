/* emit_cuda_kernel.c: what a kernel is made of: its arguments, its numbers, the values of one element. */
#include "lang/emit/emit_cuda.h"

#include <stdlib.h>
#include <string.h>

static const lc_node *node(const lc_kernel *k, int id) { return &k->pass.p->nodes.at[id]; }
lc_dtype lc_kernel_format(const lc_kernel *k, int id) { return (lc_dtype)node(k, id)->dtype; }
static char variable(int loop) { return (char)('i' + loop); }

/* ---- names ---- */

char *lc_kernel_place_name(const lc_kernel *k, const char *prefix, const lc_place *at, char out[LC_IDENTIFIER]) {
	return lc_mpi_named(k->c, prefix, at->view >= 0 ? at->view : at->id, out);
}

static char *value_name(const lc_kernel *k, int id, char out[LC_IDENTIFIER]) {
	const lc_node *n = node(k, id);
	if (n->op == LC_SCALAR) return lc_identifier("c_", n->name, out);
	return lc_value_identifier(k->pass.p, "v", id, out);
}

static char *stored_name(const lc_kernel *k, int id, char out[LC_IDENTIFIER]) {
	return lc_value_identifier(k->pass.p, "y", id, out);
}

/* ---- indices ---- */

static bool by_one(const lc_kernel *k, const lc_place *at, int loop) {
	int from, rank;
	lc_place_stride(k->pass.p, &k->pass.loops, at, loop, &from, &rank);
	return from == rank;
}

void lc_kernel_index(const lc_kernel *k, const lc_place *at, FILE *out) {
	char name[LC_IDENTIFIER];
	bool begun = false;
	if (!k->flat && lc_place_dense(k->pass.p, &k->pass.loops, at)) {
		fputc('e', out);
		return;
	}
	for (int l = 0; l < k->pass.loops.count; l++) {
		if (!lc_place_moves(&k->pass.loops, at, l)) continue;
		fprintf(out, begun ? " + %c" : "%c", variable(l));
		begun = true;
		if (!by_one(k, at, l)) fprintf(out, "*a.s_%s_%c", lc_kernel_place_name(k, "", at, name), variable(l));
	}
	if (!begun) fputc('0', out);
}

lc_place lc_kernel_stored(const lc_kernel *k, int id) {
	return lc_place_of(k->pass.p, k->pass.step->space, LC_PLACE_PART, lc_mpi_owner(k->c, id), -1);
}

bool lc_kernel_is_shared(const lc_kernel *k, int id) {
	for (int i = 0; i < k->shared_count; i++)
		if (k->shared[i].value == id) return true;
	return false;
}

/* What is only handed on to the others stays in registers where they are reached from the kernel. */
bool lc_kernel_keeps(const lc_kernel *k, int id) { return k->shared_count == 0 || k->c->steps->storage[id] >= 0; }

/* ---- expressions: what is loaded is in variables x_NAME ---- */

static bool put_leaf(void *context, int id, int view, FILE *out) {
	lc_kernel *k = context;
	char name[LC_IDENTIFIER];
	(void)view; /* steps keep in memory what slices are read of */
	if (k->pass.source[id] == LC_LOADED) {
		const char *call = lc_load_call(lc_kernel_format(k, id));
		bool called = strcmp(call, "(") != 0;
		lc_kernel_place_name(k, "x", &k->pass.places.at[k->pass.place[id]], name);
		fprintf(out, "%s%s%s", called ? call : "", name, called ? ")" : "");
	} else if (k->pass.source[id] == LC_NUMBER || lc_pass_stands_alone(&k->pass, id)) fputs(value_name(k, id, name), out);
	else return false;
	return true;
}

static bool is_rounded(void *context, int id) {
	const lc_kernel *k = context;
	const lc_pass *pass = &k->pass;
	return pass->source[id] == LC_LOADED || node(k, id)->op == LC_SCALAR ||
		(pass->source[id] == LC_NUMBER && pass->place[id] >= 0);
}

static void put_place(void *context, int id, int view, FILE *out) {
	const lc_kernel *k = context;
	const lc_place *at = &k->pass.places.at[k->pass.whole[id]];
	char name[LC_IDENTIFIER];
	(void)view;
	fprintf(out, "a.w_%s + (uint64_t)(", lc_kernel_place_name(k, "", at, name));
	lc_kernel_index(k, at, out);
	fprintf(out, "), %s", node(k, id)->list >= 0 ? "a.item" : "0");
}

static lc_text text_of(lc_kernel *k) {
	return (lc_text){k->pass.p, k->out, put_leaf, is_rounded, put_place, k, -1};
}

void lc_kernel_value(lc_kernel *k, int id) {
	lc_text t = text_of(k);
	lc_put_value(&t, id, lc_kernel_format(k, id));
}

static void put_made(lc_kernel *k, int id, bool stored) {
	lc_text t = text_of(k);
	int taken = lc_pass_taken(k->pass.p, id);
	if (taken < 0) lc_put_operation(&t, id, stored);
	else if (k->pass.source[taken] == LC_COMPUTED && !lc_pass_stands_alone(&k->pass, taken)) put_made(k, taken, stored);
	else lc_put_value(&t, taken, lc_kernel_format(k, id));
}

/* ---- single numbers ---- */

static void declare_number(lc_kernel *k, int id) {
	const lc_node *n = node(k, id);
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	lc_dtype t = lc_kernel_format(k, id);
	value_name(k, id, name);
	if (n->op == LC_SCALAR || n->op == LC_SIZE) {
		fprintf(k->fields, "\t%s %s;\n", lc_register_type(t), name);
		fprintf(k->fills, "\ta.%s = ", name);
		if (n->op == LC_SCALAR) fprintf(k->fills, "(%s)run->sizes->scalar[%d]", lc_register_type(t), lc_mpi_scalar(k->c, id));
		else lc_mpi_size(k->c, id, k->fills);
		fputs(";\n", k->fills);
	} else if (k->pass.place[id] >= 0) {
		fprintf(k->fields, "\tconst %s *%s;\n", lc_memory_type(t), name);
		fprintf(k->fills, "\ta.%s = (const %s *)(%s)->data;\n", name, lc_memory_type(t),
			lc_mpi_part(k->c, id, part, sizeof part));
	}
}

void lc_kernel_numbers(lc_kernel *k) {
	char name[LC_IDENTIFIER];
	for (int id = 0; id < (int)k->pass.p->nodes.count; id++) {
		if (k->pass.source[id] != LC_NUMBER) continue;
		const lc_node *n = node(k, id);
		lc_dtype t = lc_kernel_format(k, id);
		value_name(k, id, name);
		lc_put_tabs(k->depth, k->out);
		fprintf(k->out, "const %s %s = ", lc_register_type(t), name);
		if (n->op == LC_SCALAR || n->op == LC_SIZE) fprintf(k->out, "a.%s", name);
		else if (k->pass.place[id] >= 0) fprintf(k->out, "%s*a.%s)", lc_load_call(t), name);
		else put_made(k, id, false);
		fputs(";\n", k->out);
	}
}

/* ---- places as arguments ---- */

static bool is_stored(const lc_kernel *k, int owner) {
	for (size_t i = 0; i < k->pass.stores.count; i++)
		if (lc_mpi_owner(k->c, k->pass.stores.at[i]) == owner) return true;
	return false;
}

static bool reached(const lc_kernel *k, int place) {
	for (int i = 0; i < k->shared_count; i++)
		if (k->shared[i].place == place) return true;
	return false;
}

static void declare_pointer(lc_kernel *k, const lc_place *at) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART], view[LC_CUDA_PART];
	const char *type = lc_memory_type(lc_kernel_format(k, at->id));
	bool written = at->view < 0 && (is_stored(k, at->id) || lc_ops[node(k, at->id)->op].family == LC_TOTALS);
	lc_kernel_place_name(k, "p", at, name);
	lc_mpi_part(k->c, at->id, part, sizeof part);
	fprintf(k->fields, "\t%s%s *%s;\n", written ? "" : "const ", type, name);
	fprintf(k->fills, "\ta.%s = (%s%s *)(%s)->data", name, written ? "" : "const ", type, part);
	if (at->view >= 0) fprintf(k->fills, " + rt_view(%s, %s)", lc_mpi_part(k->c, at->view, view, sizeof view), part);
	fputs(";\n", k->fills);
}

/* Where the others' memory is read or written: the first element of mine in what they hold. */
static void declare_offset(lc_kernel *k, const lc_place *at) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART], view[LC_CUDA_PART];
	lc_kernel_place_name(k, "o", at, name);
	fprintf(k->fields, "\tint64_t %s;\n", name);
	fprintf(k->fills, "\ta.%s = rt_view(%s, %s);\n", name, lc_mpi_part(k->c, at->view, view, sizeof view),
	        lc_mpi_part(k->c, at->id, part, sizeof part));
}

static void declare_strides(lc_kernel *k, const lc_place *at) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	int from, rank;
	if (!k->flat && lc_place_dense(k->pass.p, &k->pass.loops, at)) return;
	for (int l = 0; l < k->pass.loops.count; l++) {
		if (!lc_place_moves(&k->pass.loops, at, l) || by_one(k, at, l)) continue;
		lc_place_stride(k->pass.p, &k->pass.loops, at, l, &from, &rank);
		lc_kernel_place_name(k, "", at, name);
		fprintf(k->fields, "\tint64_t s_%s_%c;\n", name, variable(l));
		fprintf(k->fills, "\ta.s_%s_%c = rt_extents((%s)->%s, %d, %d);\n", name, variable(l),
		        lc_mpi_part(k->c, at->id, part, sizeof part), at->kind == LC_PLACE_WHOLE ? "whole" : "extent", from, rank);
	}
}

static void declare_place(lc_kernel *k, int place) {
	const lc_place *at = &k->pass.places.at[place];
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	bool single = node(k, at->id)->rank == 0 && !is_stored(k, at->id) && lc_ops[node(k, at->id)->op].family != LC_TOTALS;
	if (at->kind == LC_PLACE_RED) return;
	if (reached(k, place)) declare_offset(k, at);
	else if (at->kind == LC_PLACE_WHOLE) {
		fprintf(k->fields, "\tuint64_t %s;\n", lc_kernel_place_name(k, "w_", at, name));
		fprintf(k->fills, "\ta.%s = (uint64_t)rt_place(%s);\n", name, lc_mpi_part(k->c, at->id, part, sizeof part));
	} else if (!single && !lc_kernel_is_shared(k, at->id) && lc_kernel_keeps(k, at->id)) declare_pointer(k, at);
	declare_strides(k, at);
}

static void declare_all(lc_kernel *k) {
	char part[LC_CUDA_PART];
	bool list = k->pass.step->list >= 0;
	lc_mpi_part(k->c, k->pass.step->space, part, sizeof part);
	fprintf(k->fields, "\tint64_t count;\n");
	fprintf(k->fills, "\ta.count = (%s)->count;\n", part);
	for (int l = 1; l < k->pass.loops.count; l++) {
		fprintf(k->fields, "\tint64_t n_%c;\n", variable(l));
		fprintf(k->fills, "\ta.n_%c = rt_extents((%s)->extent, %d, %d);\n", variable(l), part, k->pass.loops.first[l],
			k->pass.loops.first[l + 1]);
	}
	if (list) {
		fprintf(k->fields, "\tuint32_t item;\n");
		fprintf(k->fills, "\ta.item = (uint32_t)item;\n");
	}
	for (int id = 0; id < (int)k->pass.p->nodes.count; id++)
		if (k->pass.source[id] == LC_NUMBER) declare_number(k, id);
	for (size_t i = 0; i < k->pass.places.count; i++) declare_place(k, (int)i);
}

/* ---- opening ---- */

static lk_status add_shared(lc_kernel *k, int value, int held, int through) {
	if (k->shared_count == LC_CUDA_SHARED || !lk_push(&k->pass.places)) return lk_oom(k->c->err);
	*lk_last(&k->pass.places) = lc_place_of(k->pass.p, k->pass.step->space, LC_PLACE_VIEW, held, through);
	k->shared[k->shared_count++] = (lc_cuda_shared){held, through, (int)k->pass.places.count - 1, value};
	return LK_OK;
}

static lk_status share(lc_kernel *k, const lc_step *s) {
	if (s->scatter >= 0) LK_TRY(add_shared(k, s->scatter, lc_mpi_owner(k->c, node(k, s->scatter)->in[0]), s->scatter));
	for (int i = 0; i < s->gathers.count; i++) {
		int g = s->gathers.at[i];
		LK_TRY(add_shared(k, g, lc_mpi_owner(k->c, g), node(k, g)->in[0]));
	}
	return LK_OK;
}

/* Four at a time: every place is passed one by one, or not at all. */
static bool in_fours(const lc_kernel *k) {
	if (!k->flat || k->pass.loops.count == 0 || k->pass.results.count) return false;
	for (size_t i = 0; i < k->pass.places.count; i++) {
		const lc_place *at = &k->pass.places.at[i];
		if (at->kind != LC_PLACE_WHOLE && lc_place_moves(&k->pass.loops, at, 0) && !by_one(k, at, 0)) return false;
	}
	return true;
}

lk_status lc_kernel_open(lc_mpi *c, const lc_step *s, bool ring, lc_kernel *out) {
	*out = (lc_kernel){.c = c, .depth = 1};
	lc_mpi_function(c, s, out->name);
	LK_TRY(lc_pass_open(c, s, &out->pass));
	if (ring) LK_TRY(share(out, s));
	out->pass.loops = lc_loops_of(c->p, s->space, out->pass.places.at, (int)out->pass.places.count);
	out->flat = out->pass.loops.count <= 1;
	out->fours = in_fours(out);
	out->fields = tmpfile(), out->fills = tmpfile();
	if (!out->fields || !out->fills) return lk_fail(c->err, LK_ERR_IO, "temporary file", "cannot be made");
	declare_all(out);
	for (size_t i = 0; i < out->pass.places.count; i++) {
		const lc_place *at = &out->pass.places.at[i];
		LK_TRY(lc_mpi_touch(c, at->id));
		if (at->view >= 0) LK_TRY(lc_mpi_touch(c, at->view));
	}
	return LK_OK;
}

void lc_kernel_close(lc_kernel *k) {
	lc_pass_close(&k->pass);
	if (k->fields) fclose(k->fields);
	if (k->fills) fclose(k->fills);
}

/* ---- one element ---- */

/* Whether an index has the loop's variable. */
static bool used(const lc_kernel *k, int loop) {
	for (size_t i = 0; i < k->pass.places.count; i++) {
		const lc_place *at = &k->pass.places.at[i];
		bool written = at->kind != LC_PLACE_RED && !lc_place_dense(k->pass.p, &k->pass.loops, at);
		if (written && (reached(k, (int)i) || !lc_kernel_is_shared(k, at->id)) &&
			lc_place_moves(&k->pass.loops, at, loop))
			return true;
	}
	return false;
}

void lc_kernel_coordinates(lc_kernel *k) {
	if (k->flat) return;
	for (int l = k->pass.loops.count; l-- > 0;) {
		if (!used(k, l)) continue;
		lc_put_tabs(k->depth, k->out);
		fprintf(k->out, "const int64_t %c = e", variable(l));
		for (int below = k->pass.loops.count - 1; below > l; below--) fprintf(k->out, " / a.n_%c", variable(below));
		if (l) fprintf(k->out, " %% a.n_%c", variable(l));
		fputs(";\n", k->out);
	}
}

void lc_kernel_each_load(lc_kernel *k, void (*put)(lc_kernel *k, int id)) {
	for (int id = 0; id < (int)k->pass.p->nodes.count; id++) {
		bool first = k->pass.source[id] == LC_LOADED;
		for (int other = 0; other < id && first; other++)
			first = !(k->pass.source[other] == LC_LOADED && k->pass.place[other] == k->pass.place[id]);
		if (first) put(k, id);
	}
}

static void put_load(lc_kernel *k, int id) {
	const lc_place *at = &k->pass.places.at[k->pass.place[id]];
	char name[LC_IDENTIFIER];
	if (lc_kernel_is_shared(k, id)) return;
	lc_put_tabs(k->depth, k->out);
	fprintf(k->out, "const %s %s = a.", lc_memory_type(lc_kernel_format(k, id)), lc_kernel_place_name(k, "x", at, name));
	fprintf(k->out, "%s[", lc_kernel_place_name(k, "p", at, name));
	lc_kernel_index(k, at, k->out);
	fputs("];\n", k->out);
}

void lc_kernel_loads(lc_kernel *k) { lc_kernel_each_load(k, put_load); }

static void put_stored(lc_kernel *k, int id) {
	char name[LC_IDENTIFIER];
	lc_dtype t = lc_kernel_format(k, id);
	bool called = strcmp(lc_store_call(t), "(") != 0;
	lc_put_tabs(k->depth, k->out);
	fprintf(k->out, "%s = %s", stored_name(k, id, name), called ? lc_store_call(t) : "");
	if (k->pass.source[id] == LC_LOADED) put_leaf(k, id, -1, k->out);
	else if (lc_pass_stands_alone(&k->pass, id)) fputs(value_name(k, id, name), k->out);
	else put_made(k, id, true);
	fputs(called ? ");\n" : ";\n", k->out);
}

void lc_kernel_values(lc_kernel *k, bool stores) {
	char name[LC_IDENTIFIER];
	for (int id = 0; id < (int)k->pass.p->nodes.count; id++) {
		if (!lc_pass_stands_alone(&k->pass, id)) continue;
		lc_put_tabs(k->depth, k->out);
		fprintf(k->out, "const %s %s = ", lc_register_type(lc_kernel_format(k, id)), value_name(k, id, name));
		put_made(k, id, false);
		fputs(";\n", k->out);
	}
	for (size_t i = 0; i < k->pass.stores.count && stores; i++) put_stored(k, k->pass.stores.at[i]);
}

void lc_kernel_stores(lc_kernel *k) {
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < k->pass.stores.count; i++) {
		lc_place at = lc_kernel_stored(k, k->pass.stores.at[i]);
		if (!lc_kernel_keeps(k, k->pass.stores.at[i])) continue;
		lc_put_tabs(k->depth, k->out);
		fprintf(k->out, "a.%s[", lc_kernel_place_name(k, "p", &at, name));
		lc_kernel_index(k, &at, k->out);
		fprintf(k->out, "] = %s;\n", stored_name(k, k->pass.stores.at[i], name));
	}
}
