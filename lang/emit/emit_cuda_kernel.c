/* emit_cuda_kernel.c: the parts of a kernel: its arguments, its numbers, the values of one
 * element. */
#include "lang/emit/emit_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "system/memory.h"

lc_dtype lc_kernel_format(const lc_kernel *kernel, int id) {
	return (lc_dtype)lc_node_at(kernel->pass.p, id)->dtype;
}

/* ---- names ---- */

char *lc_kernel_place_name(const lc_kernel *kernel, const char *prefix, const lc_place *at,
                           char out[LC_IDENTIFIER]) {
	char view[24]; /* because the slice itself may be stored, too */
	if (at->view < 0) return lc_mpi_named(kernel->c, prefix, at->id, out);
	snprintf(view, sizeof view, "%.16sv", prefix);
	return lc_mpi_named(kernel->c, view, at->view, out);
}

static char *kernel_value_name(const lc_kernel *kernel, int id, char out[LC_IDENTIFIER]) {
	const lc_node *value = lc_node_at(kernel->pass.p, id);
	if (value->op == LC_SCALAR) return lc_identifier("c_", value->name, out);
	return lc_value_identifier(kernel->pass.p, "v", id, out);
}

static char *stored_name(const lc_kernel *kernel, int id, char out[LC_IDENTIFIER]) {
	return lc_value_identifier(kernel->pass.p, "y", id, out);
}

/* ---- indices ---- */

static bool by_one(const lc_kernel *kernel, const lc_place *at, int loop) {
	int from, rank;
	lc_place_stride(kernel->pass.p, &kernel->pass.loops, at, loop, &from, &rank);
	return from == rank;
}

void lc_kernel_index(const lc_kernel *kernel, const lc_place *at, FILE *out) {
	char name[LC_IDENTIFIER];
	bool begun = false;
	if (!kernel->flat && lc_place_dense(kernel->pass.p, &kernel->pass.loops, at)) {
		fputc('e', out);
		return;
	}
	for (int l = 0; l < kernel->pass.loops.count; l++) {
		if (!lc_place_moves(kernel->pass.p, &kernel->pass.loops, at, l)) continue;
		fprintf(out, begun ? " + %c" : "%c", lc_map_variable(l));
		begun = true;
		if (!by_one(kernel, at, l))
			fprintf(out, "*a.s_%s_%c", lc_kernel_place_name(kernel, "", at, name),
			        lc_map_variable(l));
	}
	if (!begun) fputc('0', out);
}

lc_place lc_kernel_stored(const lc_kernel *kernel, int id) {
	return lc_place_of(kernel->pass.p, kernel->pass.step->space, LC_PLACE_PART,
	                   lc_mpi_owner(kernel->c, id), -1);
}

bool lc_kernel_is_shared(const lc_kernel *kernel, int id) {
	for (int i = 0; i < kernel->shared_count; i++)
		if (kernel->shared[i].value == id) return true;
	return false;
}

/* Values only passed on to the others stay in registers if the kernel accesses the others
 * itself. */
bool lc_kernel_keeps(const lc_kernel *kernel, int id) {
	return kernel->shared_count == 0 || kernel->c->steps->storage[id] >= 0;
}

/* ---- expressions: loaded values are in variables x_NAME ---- */

static bool kernel_put_leaf(void *context, int id, int view, FILE *out) {
	lc_kernel *kernel = context;
	char name[LC_IDENTIFIER];
	(void)view; /* steps keep in memory what slices are taken of */
	if (kernel->pass.source[id] == LC_LOADED) {
		const char *call = lc_load_call(lc_kernel_format(kernel, id));
		bool called = strcmp(call, "(") != 0;
		lc_kernel_place_name(kernel, "x", &kernel->pass.places.at[kernel->pass.place[id]], name);
		if (called) fprintf(out, "%s%s)", call, name);
		else fputs(name, out);
	} else if (kernel->pass.source[id] == LC_NUMBER || lc_pass_stands_alone(&kernel->pass, id))
		fputs(kernel_value_name(kernel, id, name), out);
	else return false;
	return true;
}

static bool kernel_is_rounded(void *context, int id) {
	const lc_kernel *kernel = context;
	const lc_pass *pass = &kernel->pass;
	return pass->source[id] == LC_LOADED || lc_node_at(kernel->pass.p, id)->op == LC_SCALAR ||
	       (pass->source[id] == LC_NUMBER && pass->place[id] >= 0);
}

static void kernel_put_place(void *context, int id, int view, FILE *out) {
	const lc_kernel *kernel = context;
	const lc_place *at = &kernel->pass.places.at[kernel->pass.whole[id]];
	char name[LC_IDENTIFIER];
	(void)view;
	fprintf(out, "a.w_%s + (uint64_t)(", lc_kernel_place_name(kernel, "", at, name));
	lc_kernel_index(kernel, at, out);
	fprintf(out, "), %s", lc_node_at(kernel->pass.p, id)->list >= 0 ? "a.item" : "0");
}

static lc_text kernel_text_of(lc_kernel *kernel) {
	return (lc_text){
		kernel->pass.p, kernel->out, kernel_put_leaf, kernel_is_rounded, kernel_put_place,
		kernel,         -1};
}

void lc_kernel_value(lc_kernel *kernel, int id) {
	lc_text t = kernel_text_of(kernel);
	lc_put_value(&t, id, lc_kernel_format(kernel, id));
}

static void kernel_put_made(lc_kernel *kernel, int id, bool stored) {
	lc_text t = kernel_text_of(kernel);
	int taken = lc_pass_taken(kernel->pass.p, id);
	if (taken < 0) lc_put_operation(&t, id, stored);
	else if (kernel->pass.source[taken] == LC_COMPUTED &&
	         !lc_pass_stands_alone(&kernel->pass, taken))
		kernel_put_made(kernel, taken, stored);
	else lc_put_value(&t, taken, lc_kernel_format(kernel, id));
}

/* ---- single numbers ---- */

static void declare_number(lc_kernel *kernel, int id) {
	const lc_node *value = lc_node_at(kernel->pass.p, id);
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	lc_dtype t = lc_kernel_format(kernel, id);
	kernel_value_name(kernel, id, name);
	if (value->op == LC_SCALAR || value->op == LC_SIZE) {
		fprintf(kernel->fields, "\t%s %s;\n", lc_register_type(t), name);
		fprintf(kernel->fills, "\ta.%s = ", name);
		if (value->op == LC_SCALAR)
			fprintf(kernel->fills, "(%s)run->sizes->scalar[%d]", lc_register_type(t),
			        lc_mpi_scalar(kernel->c, id));
		else lc_mpi_size(kernel->c, id, kernel->fills);
		fputs(";\n", kernel->fills);
	} else if (kernel->pass.place[id] >= 0) {
		fprintf(kernel->fields, "\tconst %s *%s;\n", lc_memory_type(t), name);
		fprintf(kernel->fills, "\ta.%s = (const %s *)(%s)->data;\n", name, lc_memory_type(t),
		        lc_mpi_part(kernel->c, id, part, sizeof part));
	}
}

void lc_kernel_numbers(lc_kernel *kernel) {
	char name[LC_IDENTIFIER];
	for (int id = 0; id < (int)kernel->pass.p->nodes.count; id++) {
		if (kernel->pass.source[id] != LC_NUMBER) continue;
		const lc_node *value = lc_node_at(kernel->pass.p, id);
		lc_dtype t = lc_kernel_format(kernel, id);
		kernel_value_name(kernel, id, name);
		lc_put_tabs(kernel->depth, kernel->out);
		fprintf(kernel->out, "const %s %s = ", lc_register_type(t), name);
		if (value->op == LC_SCALAR || value->op == LC_SIZE) fprintf(kernel->out, "a.%s", name);
		else if (kernel->pass.place[id] >= 0)
			fprintf(kernel->out, "%s*a.%s)", lc_load_call(t), name);
		else kernel_put_made(kernel, id, false);
		fputs(";\n", kernel->out);
	}
}

/* ---- places as arguments ---- */

static bool kernel_is_stored(const lc_kernel *kernel, int owner) {
	for (size_t i = 0; i < kernel->pass.stores.count; i++)
		if (lc_mpi_owner(kernel->c, kernel->pass.stores.at[i]) == owner) return true;
	return false;
}

static bool reached(const lc_kernel *kernel, int place) {
	for (int i = 0; i < kernel->shared_count; i++)
		if (kernel->shared[i].place == place) return true;
	return false;
}

static void declare_pointer(lc_kernel *kernel, const lc_place *at) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART], view[LC_CUDA_PART];
	const char *type = lc_memory_type(lc_kernel_format(kernel, at->id));
	bool written =
		at->view < 0 && (kernel_is_stored(kernel, at->id) ||
	                     lc_ops[lc_node_at(kernel->pass.p, at->id)->op].family == LC_TOTALS);
	lc_kernel_place_name(kernel, "p", at, name);
	lc_mpi_part(kernel->c, at->id, part, sizeof part);
	fprintf(kernel->fields, "\t%s%s *%s;\n", written ? "" : "const ", type, name);
	fprintf(kernel->fills, "\ta.%s = (%s%s *)(%s)->data", name, written ? "" : "const ", type,
	        part);
	if (at->view >= 0)
		fprintf(kernel->fills, " + rt_view(%s, %s)",
		        lc_mpi_part(kernel->c, at->view, view, sizeof view), part);
	fputs(";\n", kernel->fills);
}

/* Declare the offset for other ranks' memory: the first element of this rank's part in theirs. */
static void declare_offset(lc_kernel *kernel, const lc_place *at) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART], view[LC_CUDA_PART];
	lc_kernel_place_name(kernel, "o", at, name);
	fprintf(kernel->fields, "\tint64_t %s;\n", name);
	fprintf(kernel->fills, "\ta.%s = rt_view(%s, %s);\n", name,
	        lc_mpi_part(kernel->c, at->view, view, sizeof view),
	        lc_mpi_part(kernel->c, at->id, part, sizeof part));
}

static void declare_strides(lc_kernel *kernel, const lc_place *at) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	int from, rank;
	if (!kernel->flat && lc_place_dense(kernel->pass.p, &kernel->pass.loops, at)) return;
	for (int l = 0; l < kernel->pass.loops.count; l++) {
		if (!lc_place_moves(kernel->pass.p, &kernel->pass.loops, at, l) || by_one(kernel, at, l))
			continue;
		lc_place_stride(kernel->pass.p, &kernel->pass.loops, at, l, &from, &rank);
		lc_kernel_place_name(kernel, "", at, name);
		fprintf(kernel->fields, "\tint64_t s_%s_%c;\n", name, lc_map_variable(l));
		fprintf(kernel->fills, "\ta.s_%s_%c = rt_extents((%s)->%s, %d, %d);\n", name,
		        lc_map_variable(l), lc_mpi_part(kernel->c, at->id, part, sizeof part),
		        at->kind == LC_PLACE_WHOLE ? "whole" : "extent", from, rank);
	}
}

static void declare_place(lc_kernel *kernel, int place) {
	const lc_place *at = &kernel->pass.places.at[place];
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	bool single = lc_node_at(kernel->pass.p, at->id)->rank == 0 &&
	              !kernel_is_stored(kernel, at->id) &&
	              lc_ops[lc_node_at(kernel->pass.p, at->id)->op].family != LC_TOTALS;
	if (at->kind == LC_PLACE_RED) return;
	if (reached(kernel, place)) declare_offset(kernel, at);
	else if (at->kind == LC_PLACE_WHOLE) {
		fprintf(kernel->fields, "\tuint64_t %s;\n", lc_kernel_place_name(kernel, "w_", at, name));
		fprintf(kernel->fills, "\ta.%s = (uint64_t)rt_place(%s);\n", name,
		        lc_mpi_part(kernel->c, at->id, part, sizeof part));
	} else if (!single && !lc_kernel_is_shared(kernel, at->id) && lc_kernel_keeps(kernel, at->id))
		declare_pointer(kernel, at);
	declare_strides(kernel, at);
}

static void declare_all(lc_kernel *kernel) {
	char part[LC_CUDA_PART];
	bool list = kernel->pass.step->list >= 0;
	lc_mpi_part(kernel->c, kernel->pass.step->space, part, sizeof part);
	fprintf(kernel->fields, "\tint64_t count;\n");
	fprintf(kernel->fills, "\ta.count = (%s)->count;\n", part);
	for (int l = 1; l < kernel->pass.loops.count; l++) {
		fprintf(kernel->fields, "\tint64_t n_%c;\n", lc_map_variable(l));
		fprintf(kernel->fills, "\ta.n_%c = rt_extents((%s)->extent, %d, %d);\n", lc_map_variable(l),
		        part, kernel->pass.loops.first[l], kernel->pass.loops.first[l + 1]);
	}
	if (list) {
		fprintf(kernel->fields, "\tuint32_t item;\n");
		fprintf(kernel->fills, "\ta.item = (uint32_t)item;\n");
	}
	for (int id = 0; id < (int)kernel->pass.p->nodes.count; id++)
		if (kernel->pass.source[id] == LC_NUMBER) declare_number(kernel, id);
	for (size_t i = 0; i < kernel->pass.places.count; i++) declare_place(kernel, (int)i);
}

/* ---- opening ---- */

static lk_status kernel_add_shared(lc_kernel *kernel, int value, int held, int through) {
	if (kernel->shared_count == LC_CUDA_SHARED || !lk_push(&kernel->pass.places))
		return lk_oom(kernel->c->err);
	*lk_last(&kernel->pass.places) =
		lc_place_of(kernel->pass.p, kernel->pass.step->space, LC_PLACE_VIEW, held, through);
	kernel->shared[kernel->shared_count++] =
		(lc_cuda_shared){held, through, (int)kernel->pass.places.count - 1, value};
	return LK_OK;
}

static lk_status kernel_share(lc_kernel *kernel, const lc_step *step) {
	if (step->scatter >= 0)
		LK_TRY(kernel_add_shared(
			kernel, step->scatter,
			lc_mpi_owner(kernel->c, lc_node_at(kernel->pass.p, step->scatter)->in[0]),
			step->scatter));
	for (int i = 0; i < step->gathers.count; i++) {
		int g = step->gathers.at[i];
		LK_TRY(kernel_add_shared(kernel, g, lc_mpi_owner(kernel->c, g),
		                         lc_node_at(kernel->pass.p, g)->in[0]));
	}
	return LK_OK;
}

/* Whether to process four elements at a time: each place moves element by element, or not at
 * all. */
static bool in_fours(const lc_kernel *kernel) {
	if (!kernel->flat || kernel->pass.loops.count == 0 || kernel->pass.results.count) return false;
	for (size_t i = 0; i < kernel->pass.places.count; i++) {
		const lc_place *at = &kernel->pass.places.at[i];
		if (at->kind != LC_PLACE_WHOLE &&
		    lc_place_moves(kernel->pass.p, &kernel->pass.loops, at, 0) && !by_one(kernel, at, 0))
			return false;
	}
	return true;
}

lk_status lc_kernel_open(lc_mpi *mpi, const lc_step *step, bool ring, lc_kernel *out) {
	*out = (lc_kernel){.c = mpi, .depth = 1};
	lc_mpi_function(mpi, step, out->name);
	LK_TRY(lc_pass_open(mpi, step, &out->pass));
	if (ring) LK_TRY(kernel_share(out, step));
	out->pass.loops =
		lc_loops_of(mpi->p, step->space, out->pass.places.at, (int)out->pass.places.count);
	out->flat = out->pass.loops.count <= 1;
	out->fours = in_fours(out);
	out->fields = lk_memory_open(&out->fields_text, &out->fields_size);
	out->fills = lk_memory_open(&out->fills_text, &out->fills_size);
	if (!out->fields || !out->fills) return lk_oom(mpi->err);
	declare_all(out);
	for (size_t i = 0; i < out->pass.places.count; i++) {
		const lc_place *at = &out->pass.places.at[i];
		LK_TRY(lc_mpi_touch(mpi, at->id));
		if (at->view >= 0) LK_TRY(lc_mpi_touch(mpi, at->view));
	}
	return LK_OK;
}

void lc_kernel_close(lc_kernel *kernel) {
	lc_pass_close(&kernel->pass);
	if (kernel->fields) fclose(kernel->fields);
	if (kernel->fills) fclose(kernel->fills);
	free(kernel->fields_text);
	free(kernel->fills_text);
}

/* ---- one element ---- */

/* Whether an index contains the loop's variable. */
static bool kernel_used(const lc_kernel *kernel, int loop) {
	for (size_t i = 0; i < kernel->pass.places.count; i++) {
		const lc_place *at = &kernel->pass.places.at[i];
		bool written =
			at->kind != LC_PLACE_RED && !lc_place_dense(kernel->pass.p, &kernel->pass.loops, at);
		if (written && (reached(kernel, (int)i) || !lc_kernel_is_shared(kernel, at->id)) &&
		    lc_place_moves(kernel->pass.p, &kernel->pass.loops, at, loop))
			return true;
	}
	return false;
}

void lc_kernel_coordinates(lc_kernel *kernel) {
	if (kernel->flat) return;
	for (int l = kernel->pass.loops.count; l-- > 0;) {
		if (!kernel_used(kernel, l)) continue;
		lc_put_tabs(kernel->depth, kernel->out);
		fprintf(kernel->out, "const int64_t %c = e", lc_map_variable(l));
		for (int below = kernel->pass.loops.count - 1; below > l; below--)
			fprintf(kernel->out, " / a.n_%c", lc_map_variable(below));
		if (l) fprintf(kernel->out, " %% a.n_%c", lc_map_variable(l));
		fputs(";\n", kernel->out);
	}
}

void lc_kernel_each_load(lc_kernel *kernel, void (*put)(lc_kernel *kernel, int id)) {
	for (int id = 0; id < (int)kernel->pass.p->nodes.count; id++) {
		bool first = kernel->pass.source[id] == LC_LOADED;
		for (int other = 0; other < id && first; other++)
			first = !(kernel->pass.source[other] == LC_LOADED &&
			          kernel->pass.place[other] == kernel->pass.place[id]);
		if (first) put(kernel, id);
	}
}

static void kernel_put_load(lc_kernel *kernel, int id) {
	const lc_place *at = &kernel->pass.places.at[kernel->pass.place[id]];
	char name[LC_IDENTIFIER];
	if (lc_kernel_is_shared(kernel, id)) return;
	lc_put_tabs(kernel->depth, kernel->out);
	fprintf(kernel->out, "const %s %s = a.", lc_memory_type(lc_kernel_format(kernel, id)),
	        lc_kernel_place_name(kernel, "x", at, name));
	fprintf(kernel->out, "%s[", lc_kernel_place_name(kernel, "p", at, name));
	lc_kernel_index(kernel, at, kernel->out);
	fputs("];\n", kernel->out);
}

void lc_kernel_loads(lc_kernel *kernel) {
	lc_kernel_each_load(kernel, kernel_put_load);
}

static void put_stored(lc_kernel *kernel, int id) {
	char name[LC_IDENTIFIER];
	lc_dtype t = lc_kernel_format(kernel, id);
	bool called = strcmp(lc_store_call(t), "(") != 0;
	lc_put_tabs(kernel->depth, kernel->out);
	fprintf(kernel->out, "%s = %s", stored_name(kernel, id, name), called ? lc_store_call(t) : "");
	if (kernel->pass.source[id] == LC_LOADED) kernel_put_leaf(kernel, id, -1, kernel->out);
	else if (lc_pass_stands_alone(&kernel->pass, id))
		fputs(kernel_value_name(kernel, id, name), kernel->out);
	else kernel_put_made(kernel, id, true);
	fputs(called ? ");\n" : ";\n", kernel->out);
}

void lc_kernel_values(lc_kernel *kernel, bool stores) {
	char name[LC_IDENTIFIER];
	for (int id = 0; id < (int)kernel->pass.p->nodes.count; id++) {
		if (!lc_pass_stands_alone(&kernel->pass, id)) continue;
		lc_put_tabs(kernel->depth, kernel->out);
		fprintf(kernel->out, "const %s %s = ", lc_register_type(lc_kernel_format(kernel, id)),
		        kernel_value_name(kernel, id, name));
		kernel_put_made(kernel, id, false);
		fputs(";\n", kernel->out);
	}
	for (size_t i = 0; i < kernel->pass.stores.count && stores; i++)
		put_stored(kernel, kernel->pass.stores.at[i]);
}

void lc_kernel_stores(lc_kernel *kernel) {
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < kernel->pass.stores.count; i++) {
		lc_place at = lc_kernel_stored(kernel, kernel->pass.stores.at[i]);
		if (!lc_kernel_keeps(kernel, kernel->pass.stores.at[i])) continue;
		lc_put_tabs(kernel->depth, kernel->out);
		fprintf(kernel->out, "a.%s[", lc_kernel_place_name(kernel, "p", &at, name));
		lc_kernel_index(kernel, &at, kernel->out);
		fprintf(kernel->out, "] = %s;\n", stored_name(kernel, kernel->pass.stores.at[i], name));
	}
}
