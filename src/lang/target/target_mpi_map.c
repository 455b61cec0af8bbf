/* target_mpi_map.c: MAP steps in C: a function with loops over the elements that a rank holds. Numbers are computed before
 * the loops; each named value is a variable inside; stores come last; reductions are kept in double and stored after. */
#include "lang/target/target_pass.h"

#include <string.h>

enum { POINTER = 160, SUMS = 64, INDEX = 256 };

static const lc_node *node(const lc_pass *pass, int id) { return &pass->p->nodes.at[id]; }
static lc_dtype format(const lc_pass *pass, int id) { return (lc_dtype)node(pass, id)->dtype; }
static char variable(int loop) { return (char)('i' + loop); }

/* ---- names ---- */

/* "p_r"; of a slice that is read in place "pv_r", for the slice itself may be stored, too. */
static char *place_name(const lc_pass *pass, const char *prefix, const lc_place *at, char out[LC_IDENTIFIER]) {
	char view[24];
	if (at->view < 0) return lc_mpi_named(pass->c, prefix, at->id, out);
	snprintf(view, sizeof view, "%.16s%s", prefix, *prefix ? "v" : "");
	return lc_mpi_named(pass->c, view, at->view, out);
}

static void put_stride_name(const lc_pass *pass, const lc_place *at, int loop, FILE *out) {
	char name[LC_IDENTIFIER];
	const char *kind = at->view >= 0 ? "v" : at->kind == LC_PLACE_WHOLE ? "w" : "";
	fprintf(out, "s%s_%s_%c", kind, place_name(pass, "", at, name), variable(loop));
}

static char *value_name(const lc_pass *pass, int id, char out[LC_IDENTIFIER]) {
	const lc_node *n = node(pass, id);
	if (n->op == LC_SCALAR) return lc_identifier("c_", n->name, out);
	return lc_value_identifier(pass->p, "v", id, out);
}

/* ---- indices ---- */

/* Strides are products of extents: of the loops below where the place is as dense as the pass, else variables s_NAME_i. */
static void put_stride(const lc_pass *pass, const lc_place *at, int loop, FILE *out) {
	if (!lc_place_dense(pass->p, &pass->loops, at)) {
		fputc('*', out);
		put_stride_name(pass, at, loop, out);
		return;
	}
	for (int below = loop + 1; below < pass->loops.count; below++) fprintf(out, "*n_%c", variable(below));
}

/* Whether the place's elements follow each other along a loop. */
static bool steps_by_one(const lc_pass *pass, const lc_place *at, int loop) {
	int from, rank;
	lc_place_stride(pass->p, &pass->loops, at, loop, &from, &rank);
	return from == rank;
}

static void put_index(const lc_pass *pass, const lc_place *at, FILE *out) {
	bool begun = false;
	for (int l = 0; l < pass->loops.count; l++) {
		if (!lc_place_moves(&pass->loops, at, l)) continue;
		fprintf(out, begun ? " + %c" : "%c", variable(l));
		begun = true;
		if (!steps_by_one(pass, at, l)) put_stride(pass, at, l, out);
	}
	if (!begun) fputc('0', out);
}

/* ---- expressions ---- */

/* In a ring: the last addition of its reduce-scatter, of what came and of what this rank has. */
static void put_arrived(const lc_pass *pass, const lc_place *at, FILE *out) {
	char index[2][INDEX];
	for (int i = 0; i < 2; i++) {
		FILE *text = fmemopen(index[i], sizeof index[i], "w");
		if (!text) return;
		fprintf(text, i ? "p_mine[" : "p_arrived[");
		put_index(pass, at, text);
		fputs(i ? "]" : " - first]", text);
		fclose(text);
	}
	lc_put_join(node(pass, at->id), index[0], index[1], out);
}

static void put_load(const lc_pass *pass, int place, lc_dtype t, FILE *out) {
	const lc_place *at = &pass->places.at[place];
	if (pass->arrives && at->kind == LC_PLACE_PART && at->id == pass->step->scatter) {
		put_arrived(pass, at, out);
		return;
	}
	char name[LC_IDENTIFIER];
	bool called = strcmp(lc_load_call(t), "(") != 0;
	if (called) fputs(lc_load_call(t), out);
	fprintf(out, "%s[", place_name(pass, "p", at, name));
	put_index(pass, at, out);
	fputs(called ? "])" : "]", out);
}

static bool put_leaf(void *context, int id, int view, FILE *out) {
	const lc_pass *pass = context;
	char name[LC_IDENTIFIER];
	(void)view; /* steps keep in memory what slices are read of */
	if (pass->source[id] == LC_LOADED) put_load(pass, pass->place[id], format(pass, id), out);
	else if (pass->source[id] == LC_NUMBER || lc_pass_stands_alone(pass, id)) fputs(value_name(pass, id, name), out);
	else return false;
	return true;
}

static bool is_rounded(void *context, int id) {
	const lc_pass *pass = context;
	return pass->source[id] == LC_LOADED || node(pass, id)->op == LC_SCALAR || (pass->source[id] == LC_NUMBER && pass->place[id] >= 0);
}

static void put_place(void *context, int id, int view, FILE *out) {
	const lc_pass *pass = context;
	const lc_place *at = &pass->places.at[pass->whole[id]];
	char name[LC_IDENTIFIER];
	(void)view;
	fprintf(out, "w_%s + (uint64_t)(", place_name(pass, "", at, name));
	put_index(pass, at, out);
	fprintf(out, "), %s", node(pass, id)->list >= 0 ? "(uint32_t)item" : "0");
}

static lc_text text_of(lc_pass *pass) {
	return (lc_text){pass->p, pass->c->out, put_leaf, is_rounded, put_place, pass, -1};
}

/* What a value is made of, as it will be stored or kept. */
static void put_made(lc_pass *pass, int id, bool stored) {
	lc_text t = text_of(pass);
	int taken = lc_pass_taken(pass->p, id);
	if (taken < 0) lc_put_operation(&t, id, stored);
	else if (pass->source[taken] == LC_COMPUTED && !lc_pass_stands_alone(pass, taken)) put_made(pass, taken, stored);
	else lc_put_value(&t, taken, format(pass, id));
}

/* ---- before the loops ---- */

static void put_number(lc_pass *pass, int id) {
	const lc_node *n = node(pass, id);
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER], part[POINTER];
	const char *type = lc_register_type(format(pass, id));
	if (pass->place[id] >= 0) lc_mpi_part(pass->c, id, part, sizeof part);
	fprintf(out, "\tconst %s %s = ", type, value_name(pass, id, name));
	if (n->op == LC_SCALAR) fprintf(out, "(%s)run->sizes->scalar[%d]", type, lc_mpi_scalar(pass->c, id));
	else if (n->op == LC_SIZE) lc_mpi_size(pass->c, id, out);
	else if (pass->place[id] >= 0)
		fprintf(out, "%s*(const %s *)%s%sdata)", lc_load_call(format(pass, id)), lc_memory_type(format(pass, id)), LC_OF(part));
	else put_made(pass, id, false);
	fputs(";\n", out);
}

static bool is_stored(const lc_pass *pass, int owner) {
	for (size_t i = 0; i < pass->stores.count; i++)
		if (lc_mpi_owner(pass->c, pass->stores.at[i]) == owner) return true;
	return false;
}

/* A state that is read in slices and written in one pass is one memory by two pointers. */
static bool aliased(const lc_pass *pass, const lc_place *at) {
	int found = 0;
	for (size_t i = 0; i < pass->places.count; i++)
		found += lc_mpi_root(pass->c, pass->places.at[i].id) == lc_mpi_root(pass->c, at->id) && pass->places.at[i].kind != LC_PLACE_WHOLE;
	for (int i = 0; i < pass->step->gathers.count; i++) found += lc_mpi_root(pass->c, pass->step->gathers.at[i]) == lc_mpi_root(pass->c, at->id);
	return found > 1;
}

/* The gather that takes a value which lies nowhere else; -1. */
static int gather_of(const lc_pass *pass, int id) {
	const lc_ids *gathers = &pass->step->gathers;
	for (int i = 0; i < gathers->count; i++)
		if (node(pass, gathers->at[i])->in[0] == id && pass->c->steps->storage[id] < 0) return gathers->at[i];
	return -1;
}

/* The ends of a ring: what arrives, and where gathers take their slices from. */
static bool put_ends(lc_pass *pass, const lc_place *at) {
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER], part[POINTER], space[POINTER];
	const char *type = lc_memory_type(format(pass, at->id));
	int gather = gather_of(pass, at->id), outer = pass->loops.count ? pass->loops.first[1] : 0;
	if (at->id == pass->step->scatter) {
		fprintf(out, "\tconst %s *restrict p_arrived = arrived, *restrict p_mine = (const %s *)(%s)->data + skip;\n", type, type,
		        lc_mpi_part(pass->c, node(pass, at->id)->in[0], part, sizeof part));
		fprintf(out, "\tconst int64_t first = from * rt_product(%s, %d, %d);\n",
		        lc_mpi_part(pass->c, pass->step->space, space, sizeof space), outer, node(pass, pass->step->space)->rank);
	} else if (gather >= 0) {
		bool into = lc_mpi_root(pass->c, gather) != gather; /* the state that it is gathered into, which may be read beside */
		fprintf(out, "\t%s *%s%s = (%s *)(%s)->data + skip;\n", type, into ? "" : "restrict ", place_name(pass, "p", at, name), type,
		        lc_mpi_part(pass->c, gather, part, sizeof part));
	}
	return gather >= 0 || at->id == pass->step->scatter;
}

static void put_pointer(lc_pass *pass, const lc_place *at) {
	lc_dtype t = format(pass, at->id);
	char name[LC_IDENTIFIER], part[POINTER], view[POINTER];
	bool written = at->view < 0 && (is_stored(pass, at->id) || pass->source[at->id] == LC_RESULT);
	lc_mpi_part(pass->c, at->id, part, sizeof part);
	if (pass->arrives && at->view < 0 && put_ends(pass, at)) return;
	fprintf(pass->c->out, "\t%s%s *%s%s = ", written ? "" : "const ", lc_memory_type(t), aliased(pass, at) ? "" : "restrict ",
	        place_name(pass, "p", at, name));
	if (at->view < 0) fprintf(pass->c->out, "%s%sdata;\n", LC_OF(part));
	else
		fprintf(pass->c->out, "(const %s *)%s%sdata + rt_view(%s, %s);\n", lc_memory_type(t), LC_OF(part),
		        lc_mpi_part(pass->c, at->view, view, sizeof view), part);
}

static void put_strides(lc_pass *pass, const lc_place *at) {
	char part[POINTER];
	int from, rank;
	for (int l = 0; l < pass->loops.count; l++) {
		if (!lc_place_moves(&pass->loops, at, l) || steps_by_one(pass, at, l) || lc_place_dense(pass->p, &pass->loops, at)) continue;
		lc_place_stride(pass->p, &pass->loops, at, l, &from, &rank);
		fputs("\tconst int64_t ", pass->c->out);
		put_stride_name(pass, at, l, pass->c->out);
		fprintf(pass->c->out, " = %s(%s, %d, %d);\n", at->kind == LC_PLACE_WHOLE ? "rt_whole_product" : "rt_product", lc_mpi_part(pass->c, at->id, part, sizeof part),
		        from, rank);
	}
}

/* Single numbers that are only read are variables, not pointers. */
static bool needs_pointer(const lc_pass *pass, const lc_place *at) {
	if (at->kind == LC_PLACE_WHOLE) return false;
	return node(pass, at->id)->rank > 0 || is_stored(pass, at->id) || pass->source[at->id] == LC_RESULT;
}

static void put_places(lc_pass *pass) {
	char name[LC_IDENTIFIER], part[POINTER];
	for (size_t i = 0; i < pass->places.count; i++) {
		const lc_place *at = &pass->places.at[i];
		if (needs_pointer(pass, at)) put_pointer(pass, at);
		if (at->kind == LC_PLACE_WHOLE)
			fprintf(pass->c->out, "\tconst uint64_t w_%s = rt_place(%s);\n", place_name(pass, "", at, name),
			        lc_mpi_part(pass->c, at->id, part, sizeof part));
		put_strides(pass, at);
	}
}

/* Whether a loop goes from .. to. */
static bool is_ranged(const lc_pass *pass, int l) { return l == pass->cut_loop || (l == 0 && pass->ranged); }

static void put_bounds(lc_pass *pass) {
	char part[POINTER];
	lc_mpi_part(pass->c, pass->step->space, part, sizeof part);
	for (int l = 0; l < pass->loops.count; l++) {
		int end = pass->loops.first[l + 1];
		if (l == pass->cut_loop)
			fprintf(pass->c->out, "\tconst int64_t trips = rt_product(%s, %d, %d);\n\tfrom *= trips, to *= trips;\n", part,
			        pass->loops.first[l] + 1, end);
		if (l == 0 && is_ranged(pass, l)) continue;
		fprintf(pass->c->out, "\tconst int64_t n_%c = rt_product(%s, %d, %d);\n", variable(l), part, pass->loops.first[l], end);
		if (l == pass->cut_loop) fprintf(pass->c->out, "\t(void)n_%c;\n", variable(l));
	}
}

/* ---- reductions ---- */

static const char *sum_type(lc_dtype t) { return lc_is_real(t) ? "double" : t == LC_U64 ? "uint64_t" : "int64_t"; }
static const char *sum_suffix(lc_dtype t) { return lc_is_real(t) ? "" : t == LC_U64 ? "u" : "l"; }

/* How many outer loops the result moves along, if those are all that it moves along; else -1: sums lie in memory. A total
 * adds up over the tensors of its list. */
static int outer_loops(const lc_pass *pass, int id) {
	const lc_place *at = &pass->places.at[pass->place[id]];
	int outer = 0;
	if (node(pass, id)->op == LC_TOTAL) return -1;
	while (outer < pass->loops.count && lc_place_moves(&pass->loops, at, outer)) outer++;
	for (int l = outer; l < pass->loops.count; l++)
		if (lc_place_moves(&pass->loops, at, l)) return -1;
	return outer;
}

/* One sum for all calls of a ranged pass: in a variable inside, in memory between. */
static bool carried(const lc_pass *pass, int id) { return pass->ranged && outer_loops(pass, id) == 0; }

/* Sums of floats along the inner loop are made of blocks: compilers do not reorder additions, but rt_sum's are in lanes. */
static bool blocked(const lc_pass *pass, int id) {
	int outer = outer_loops(pass, id);
	return pass->loops.count && outer >= 0 && outer < pass->loops.count && lc_is_real(format(pass, id)) && format(pass, id) != LC_F64;
}

static bool any_blocked(const lc_pass *pass) {
	for (size_t i = 0; i < pass->results.count; i++)
		if (blocked(pass, pass->results.at[i])) return true;
	return false;
}

static const char *identity(const lc_pass *pass, int id) {
	int op = node(pass, id)->op;
	lc_dtype t = format(pass, id);
	if (op != LC_RED_MAX && op != LC_RED_MIN) return "0";
	return op == LC_RED_MAX ? lc_lowest_text(t) : lc_highest_text(t);
}

static void put_sum_name(const lc_pass *pass, int id, FILE *out) {
	char name[LC_IDENTIFIER];
	const lc_place *at = &pass->places.at[pass->place[id]];
	fputs(lc_value_identifier(pass->p, "r", id, name), out);
	if (outer_loops(pass, id) >= 0) return;
	fputc('[', out);
	put_index(pass, at, out);
	fputc(']', out);
}

static void put_joined(lc_pass *pass, int id, int depth) {
	const lc_node *n = node(pass, id);
	FILE *out = pass->c->out;
	lc_text t = text_of(pass);
	lc_dtype type = format(pass, id);
	bool extreme = n->op == LC_RED_MAX || n->op == LC_RED_MIN, squares = n->op == LC_RED_NORM;
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, out);
	if (blocked(pass, id)) {
		char v = variable(pass->loops.count - 1);
		fprintf(out, "%s[%c - %c0] = %s", lc_value_identifier(pass->p, "b", id, name), v, v, squares ? "rt_squaref(" : "");
		lc_put_value(&t, n->in[0], format(pass, n->in[0]));
		fputs(squares ? ");\n" : ";\n", out);
		return;
	}
	put_sum_name(pass, id, out);
	if (lc_is_real(type) && !extreme) fputs(squares ? " += rt_square(" : " += (", out);
	else {
		fprintf(out, " = rt_%s%s(", n->op == LC_RED_MAX ? "max" : n->op == LC_RED_MIN ? "min" : "add", sum_suffix(type));
		put_sum_name(pass, id, out);
		fputs(", ", out);
	}
	lc_put_value(&t, n->in[0], format(pass, n->in[0]));
	fputs(");\n", out);
}

/* After a block of the inner loop. */
static void put_block(lc_pass *pass, int id, int depth) {
	int op = node(pass, id)->op;
	char sum[LC_IDENTIFIER], block[LC_IDENTIFIER], v = variable(pass->loops.count - 1);
	lc_value_identifier(pass->p, "r", id, sum), lc_value_identifier(pass->p, "b", id, block);
	lc_put_tabs(depth, pass->c->out);
	if (op != LC_RED_MAX && op != LC_RED_MIN) fprintf(pass->c->out, "%s += rt_sum(%s, %c1 - %c0);\n", sum, block, v, v);
	else {
		const char *way = op == LC_RED_MAX ? "max" : "min";
		fprintf(pass->c->out, "%s = rt_%s(%s, rt_block_%s(%s, %c1 - %c0));\n", sum, way, sum, way, block, v, v);
	}
}

static void put_finished(lc_pass *pass, int id, const char *sum) {
	const lc_node *n = node(pass, id), *x = node(pass, n->in[0]);
	FILE *out = pass->c->out;
	char part[POINTER];
	lc_dtype t = format(pass, id);
	bool called = strcmp(lc_store_call(t), "(") != 0, narrows = lc_is_real(t) && t != LC_F64;
	fprintf(out, "%s%s%s%s", called ? lc_store_call(t) : "", lc_is_narrow(t) ? "rt_odd(" : narrows ? "(float)(" : "", n->op == LC_RED_NORM ? "sqrt(" : "", sum);
	lc_mpi_part(pass->c, n->in[0], part, sizeof part);
	for (int d = 0; d < x->rank && n->op == LC_RED_MEAN; d++)
		if (n->dims >> d & 1) fprintf(out, " / (double)%s%swhole[%d]", LC_OF(part), d);
	fprintf(out, "%s%s%s;\n", n->op == LC_RED_NORM ? ")" : "", narrows ? ")" : "", called ? ")" : "");
}

static void begin_sum(lc_pass *pass, int id, int depth) {
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, pass->c->out);
	fprintf(pass->c->out, "%s %s = %s;\n", sum_type(format(pass, id)), lc_value_identifier(pass->p, "r", id, name), identity(pass, id));
}

static void end_sum(lc_pass *pass, int id, int depth) {
	const lc_place *at = &pass->places.at[pass->place[id]];
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, pass->c->out);
	fprintf(pass->c->out, "%s[", place_name(pass, "p", at, name));
	put_index(pass, at, pass->c->out);
	fputs("] = ", pass->c->out);
	put_finished(pass, id, lc_value_identifier(pass->p, "r", id, name));
}

/* Whether this is the last call of a ranged pass, for a total that of the last tensor. */
static void put_last(lc_pass *pass, int id) {
	char space[POINTER];
	const char *and = "";
	if (node(pass, id)->op == LC_TOTAL) {
		fprintf(pass->c->out, "item + 1 == rt_items(run, %s)", lc_mpi_number(pass->c, pass->step->space, space));
		and = " && ";
	}
	if (!pass->ranged) return;
	if (pass->loops.count)
		fprintf(pass->c->out, "%sto == rt_product(%s, 0, %d)", and, lc_mpi_part(pass->c, pass->step->space, space, sizeof space),
		        pass->loops.first[1]);
	else fprintf(pass->c->out, "%sto == 1", and);
}

/* Sums that last over calls: begun by the first for a tensor (a total: for the first tensor), stored by the last. */
static void begin_sums(lc_pass *pass, int id, int slot) {
	char name[LC_IDENTIFIER], part[POINTER];
	const char *type = sum_type(format(pass, id));
	bool total = node(pass, id)->op == LC_TOTAL;
	FILE *out = pass->c->out;
	lc_mpi_part(pass->c, id, part, sizeof part);
	lc_value_identifier(pass->p, "r", id, name);
	if (carried(pass, id)) {
		fprintf(out, "\t%s *s_%s = rt_sums(run, %d, 1), %s = from ? *s_%s : %s;\n", type, name, slot, name, name, identity(pass, id));
		return;
	}
	fprintf(out, "\t%s *%s = rt_sums(run, %d, %s%scount);\n", type, name, slot, LC_OF(part));
	if (total || pass->ranged)
		fprintf(out, "\tif (%s%s%s)\n\t", total ? "item == 0" : "", total && pass->ranged ? " && " : "", pass->ranged ? "from == 0" : "");
	fprintf(out, "\tfor (int64_t e = 0; e < %s%scount; e++) %s[e] = %s;\n", LC_OF(part), name, identity(pass, id));
}

static void end_sums(lc_pass *pass, int id) {
	char name[LC_IDENTIFIER], target[LC_IDENTIFIER], part[POINTER], sum[LC_IDENTIFIER + 4];
	FILE *out = pass->c->out;
	const lc_place *at = &pass->places.at[pass->place[id]];
	bool total = node(pass, id)->op == LC_TOTAL;
	lc_value_identifier(pass->p, "r", id, name);
	place_name(pass, "p", at, target);
	if (carried(pass, id)) fprintf(out, "\t*s_%s = %s;\n", name, name);
	if (total || pass->ranged) fputs("\tif (", out), put_last(pass, id), fputs(")\n\t", out);
	if (carried(pass, id)) {
		fprintf(out, "\t*%s = ", target);
		put_finished(pass, id, name);
		return;
	}
	lc_mpi_part(pass->c, id, part, sizeof part);
	snprintf(sum, sizeof sum, "%s[e]", name);
	fprintf(out, "\tfor (int64_t e = 0; e < %s%scount; e++) %s[e] = ", LC_OF(part), target);
	put_finished(pass, id, sum);
}

/* ---- loops ---- */

static bool stored(const lc_pass *pass, int id) {
	for (size_t i = 0; i < pass->stores.count; i++)
		if (pass->stores.at[i] == id) return true;
	return false;
}

static void put_variable(lc_pass *pass, int id, int depth) {
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, pass->c->out);
	fprintf(pass->c->out, "const %s %s = ", lc_register_type(format(pass, id)), value_name(pass, id, name));
	put_made(pass, id, stored(pass, id) && pass->uses[id] == 1);
	fputs(";\n", pass->c->out);
}

static void put_store(lc_pass *pass, int id, int depth) {
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER];
	lc_place at = lc_place_of(pass->p, pass->step->space, LC_PLACE_PART, lc_mpi_owner(pass->c, id), -1);
	lc_dtype t = format(pass, id);
	bool called = strcmp(lc_store_call(t), "(") != 0;
	lc_put_tabs(depth, out);
	fprintf(out, "%s[", place_name(pass, "p", &at, name));
	put_index(pass, &at, out);
	fprintf(out, "] = %s", called ? lc_store_call(t) : "");
	if (pass->source[id] == LC_LOADED) put_load(pass, pass->place[id], t, out);
	else if (lc_pass_stands_alone(pass, id)) fputs(value_name(pass, id, name), out);
	else put_made(pass, id, true);
	fputs(called ? ");\n" : ";\n", out);
}

static void put_body(lc_pass *pass, int depth) {
	for (int id = 0; id < (int)pass->p->nodes.count; id++)
		if (lc_pass_stands_alone(pass, id)) put_variable(pass, id, depth);
	for (size_t i = 0; i < pass->results.count; i++) put_joined(pass, pass->results.at[i], depth);
	for (size_t i = 0; i < pass->stores.count; i++) put_store(pass, pass->stores.at[i], depth);
}

/* Sums in variables: those that begin inside of so many loops. */
static void sums_at(lc_pass *pass, int loops, int depth, void (*put)(lc_pass *, int, int)) {
	for (size_t i = 0; i < pass->results.count; i++)
		if (outer_loops(pass, pass->results.at[i]) == loops && !carried(pass, pass->results.at[i])) put(pass, pass->results.at[i], depth);
}

/* In a ring, a state that is read in slices and gathered in place: one iteration reads and writes the same element. */
static bool same_slice(const lc_pass *pass, const lc_place *at) {
	if (!pass->arrives || pass->step->gathers.count == 0) return false;
	const lc_node *n = node(pass, at->view >= 0 ? at->view : at->id), *g = node(pass, pass->step->gathers.at[0]);
	return gather_of(pass, at->id) >= 0 || (n->op == LC_SLICE && n->axis == g->axis && n->d == g->d);
}

/* Whether an iteration of the inner loop reads nothing that another writes. Compilers see it in functions' restrict
 * parameters only, and test for overlaps only so many pointers. */
static bool independent(const lc_pass *pass) {
	for (size_t i = 0; i < pass->places.count; i++) {
		const lc_place *at = &pass->places.at[i];
		if (needs_pointer(pass, at) && aliased(pass, at) && !same_slice(pass, at)) return false;
	}
	for (size_t i = 0; i < pass->results.count; i++)
		if (outer_loops(pass, pass->results.at[i]) < 0) return false;
	for (size_t i = 0; i < pass->stores.count; i++) {
		lc_place at = lc_place_of(pass->p, pass->step->space, LC_PLACE_PART, lc_mpi_owner(pass->c, pass->stores.at[i]), -1);
		if (!lc_place_moves(&pass->loops, &at, pass->loops.count - 1)) return false;
	}
	return true;
}

/* The inner loop by blocks, when sums are made of them: returns the loop's depth. */
static int begin_blocks(lc_pass *pass, char v, bool ranged, int depth) {
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER], first[8] = "0", end[8];
	snprintf(end, sizeof end, "n_%c", v);
	if (ranged) strcpy(first, "from"), strcpy(end, "to");
	lc_put_tabs(depth, out);
	fprintf(out, "for (int64_t %c0 = %s, %c1; %c0 < %s; %c0 = %c1) {\n", v, first, v, v, end, v, v);
	lc_put_tabs(depth + 1, out);
	fprintf(out, "%c1 = %c0 + RT_BLOCK < %s ? %c0 + RT_BLOCK : %s;\n", v, v, end, v, end);
	for (size_t i = 0; i < pass->results.count; i++) {
		if (!blocked(pass, pass->results.at[i])) continue;
		lc_put_tabs(depth + 1, out);
		fprintf(out, "float %s[RT_BLOCK];\n", lc_value_identifier(pass->p, "b", pass->results.at[i], name));
	}
	return depth + 1;
}

static void end_blocks(lc_pass *pass, int depth) {
	for (size_t i = 0; i < pass->results.count; i++)
		if (blocked(pass, pass->results.at[i])) put_block(pass, pass->results.at[i], depth + 1);
	lc_put_tabs(depth, pass->c->out);
	fputs("}\n", pass->c->out);
}

static void put_inner(lc_pass *pass, int l, int depth) {
	FILE *out = pass->c->out;
	char v = variable(l);
	bool ranged = is_ranged(pass, l), blocks = any_blocked(pass);
	int at = blocks ? begin_blocks(pass, v, ranged, depth) : depth;
	if (independent(pass)) lc_put_tabs(at, out), fputs("RT_INDEPENDENT\n", out);
	lc_put_tabs(at, out);
	if (blocks) fprintf(out, "for (int64_t %c = %c0; %c < %c1; %c++) {\n", v, v, v, v, v);
	else if (ranged) fprintf(out, "for (int64_t %c = from; %c < to; %c++) {\n", v, v, v);
	else fprintf(out, "for (int64_t %c = 0; %c < n_%c; %c++) {\n", v, v, v, v);
	put_body(pass, at + 1);
	lc_put_tabs(at, out);
	fputs("}\n", out);
	if (blocks) end_blocks(pass, depth);
}

static void put_loop(lc_pass *pass, int l) {
	FILE *out = pass->c->out;
	char v = variable(l);
	if (l + 1 == pass->loops.count) {
		put_inner(pass, l, l + 1);
		return;
	}
	lc_put_tabs(l + 1, out);
	if (is_ranged(pass, l)) fprintf(out, "for (int64_t %c = from; %c < to; %c++) {\n", v, v, v);
	else fprintf(out, "for (int64_t %c = 0; %c < n_%c; %c++) {\n", v, v, v, v);
	sums_at(pass, l + 1, l + 2, begin_sum);
	put_loop(pass, l + 1);
	sums_at(pass, l + 1, l + 2, end_sum);
	lc_put_tabs(l + 1, out);
	fputs("}\n", out);
}

static void put_loops(lc_pass *pass) {
	FILE *out = pass->c->out;
	sums_at(pass, 0, 1, begin_sum);
	if (pass->loops.count) put_loop(pass, 0);
	else if (!pass->ranged) put_body(pass, 1);
	else {
		fputs("\tfor (int64_t i = from; i < to; i++) {\n", out);
		put_body(pass, 2);
		fputs("\t}\n", out);
	}
	sums_at(pass, 0, 1, end_sum);
}

/* ---- functions ---- */

static void put_inside(lc_pass *pass) {
	int slot = 0;
	char part[POINTER];
	lc_mpi_part(pass->c, pass->step->space, part, sizeof part);
	if (lc_mpi_may_be_absent(pass->c, pass->step->space)) fprintf(pass->c->out, "\tif (!%s%shere) return;\n", LC_OF(part));
	for (int id = 0; id < (int)pass->p->nodes.count; id++)
		if (pass->source[id] == LC_NUMBER) put_number(pass, id);
	put_places(pass);
	put_bounds(pass);
	for (size_t i = 0; i < pass->results.count; i++)
		if (outer_loops(pass, pass->results.at[i]) < 0 || carried(pass, pass->results.at[i])) begin_sums(pass, pass->results.at[i], slot++);
	put_loops(pass);
	for (size_t i = 0; i < pass->results.count; i++)
		if (outer_loops(pass, pass->results.at[i]) < 0 || carried(pass, pass->results.at[i])) end_sums(pass, pass->results.at[i]);
}

/* What a function of a pass gets besides `run`. */
typedef enum takes {
	NOTHING,
	ITEM,
	TRIPS,    /* item, from, to: along dim `cut`, or of whole tensors */
	ARRIVED,  /* of a ring: item, from, to of the outer loop, arrived, skip */
} takes;

static void put_head(FILE *out, const char *name, takes what) {
	static const char *const rest[] = {
		[NOTHING] = "", [ITEM] = ", int64_t item", [TRIPS] = ", int64_t item, int64_t from, int64_t to",
		[ARRIVED] = ", int64_t item, int64_t from, int64_t to, const void *arrived, int64_t skip",
	};
	fprintf(out, "static void %s(rt_run *run%s) {\n", name, rest[what]);
	if (what == ARRIVED) fputs("\t(void)item, (void)arrived, (void)skip;\n", out);
	if (what == TRIPS) fputs("\t(void)item, (void)from, (void)to;\n", out);
}

static lk_status touch_places(lc_pass *pass) {
	for (size_t i = 0; i < pass->places.count; i++) {
		const lc_place *at = &pass->places.at[i];
		if (at->kind != LC_PLACE_WHOLE) LK_TRY(lc_mpi_touch(pass->c, at->view >= 0 ? at->view : at->id));
	}
	return LK_OK;
}

static lk_status put_function(lc_mpi *c, const lc_step *s, const char *name, takes what, int cut) {
	lc_pass pass;
	lk_status status = lc_pass_open(c, s, &pass);
	if (status == LK_OK && pass.results.count > SUMS) {
		lk_fail(c->err, LK_ERR_INPUT, s->name, "%zu reductions in one pass", pass.results.count);
		status = lk_hint(c->err, "a pass holds up to %d", SUMS);
	}
	if (status == LK_OK) {
		pass.ranged = pass.arrives = what == ARRIVED;
		if (cut >= 0) lc_pass_cut(&pass, cut);
		put_head(c->out, name, what);
		put_inside(&pass);
		fputs("}\n\n", c->out);
		status = touch_places(&pass);
	}
	lc_pass_close(&pass);
	return status;
}

lk_status lc_mpi_range(lc_mpi *c, const lc_step *s, const char *name, int cut) { return put_function(c, s, name, TRIPS, cut); }

/* Sums that are complete inside of one trip; others are begun and stored once for a pass. */
lk_status lc_mpi_cuts(lc_mpi *c, const lc_step *s, int cut, bool *can) {
	lc_pass pass;
	lk_status status = lc_pass_open(c, s, &pass);
	*can = status == LK_OK && cut < node(&pass, s->space)->rank && node(&pass, s->space)->dim[cut] != 0;
	if (*can) lc_pass_cut(&pass, cut);
	for (size_t i = 0; i < pass.results.count && *can; i++) *can = outer_loops(&pass, pass.results.at[i]) > pass.cut_loop;
	lc_pass_close(&pass);
	return status;
}

lk_status lc_mpi_ring_pass(lc_mpi *c, const lc_step *s, const char *name) { return put_function(c, s, name, ARRIVED, -1); }

lk_status lc_mpi_outer(lc_mpi *c, const lc_step *s, int *outer) {
	lc_pass pass;
	lk_status status = lc_pass_open(c, s, &pass);
	if (status == LK_OK) *outer = pass.loops.count ? pass.loops.first[1] : 0;
	lc_pass_close(&pass);
	return status;
}

lk_status lc_mpi_map(lc_mpi *c, const lc_step *s) {
	char name[LC_IDENTIFIER], each[LC_IDENTIFIER + 4], space[LC_IDENTIFIER];
	lc_mpi_function(c, s, name);
	if (s->list < 0) return put_function(c, s, name, NOTHING, -1);
	snprintf(each, sizeof each, "%s_of", name);
	LK_TRY(put_function(c, s, each, ITEM, -1));
	fprintf(c->out, "static void %s(rt_run *run) {\n\tfor (int64_t item = 0; item < rt_items(run, %s); item++) %s_of(run, item);\n}\n\n",
	        name, lc_mpi_number(c, s->space, space), name);
	return LK_OK;
}
