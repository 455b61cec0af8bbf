/* emit_mpi_sums.c: reductions inside a pass: in variables if a result belongs to the loops inside,
 * else in memory; kept in double, for floats in blocks; stored after the loops that they cover. */
#include "lang/emit/emit_internal.h"
#include "base/check.h"

#include <string.h>

enum { POINTER = 160 };

static const char *emit_sum_type(lc_dtype t) {
	if (lc_is_real(t)) return "double";
	if (t == LC_U64) return "uint64_t";
	return "int64_t";
}
static const char *sum_suffix(lc_dtype t) {
	if (lc_is_real(t)) return "";
	if (t == LC_U64) return "u";
	return "l";
}

/* How many outer loops the result moves along, if it moves along no others; else -1: sums are in
 * memory. A total adds up over the tensors of its list. */
int lc_sum_loops(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_place *at = &pass->places.at[pass->place[id]];
	int outer = 0;
	if (lc_node_at(pass->p, id)->op == LC_TOTAL) return -1;
	while (outer < pass->loops.count && lc_place_moves(pass->p, &pass->loops, at, outer)) outer++;
	for (int l = outer; l < pass->loops.count; l++)
		if (lc_place_moves(pass->p, &pass->loops, at, l)) return -1;
	return outer;
}

/* One sum for all calls of a ranged pass: in a variable inside, in memory between calls. */
bool lc_sum_carried(const lc_pass *pass, int id) {
	return pass->ranged && lc_sum_loops(pass, id) == 0;
}

/* Sums of floats along the inner loop are made in blocks: compilers do not reorder additions, but
 * rt_sum uses lanes. */
bool lc_sum_blocked(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	int outer = lc_sum_loops(pass, id);
	return pass->loops.count && outer >= 0 && outer < pass->loops.count &&
	       lc_is_real(lc_pass_format(pass, id)) && lc_pass_format(pass, id) != LC_F64;
}

bool lc_sums_blocked(const lc_pass *pass) {
	for (size_t i = 0; i < pass->results.count; i++)
		if (lc_sum_blocked(pass, pass->results.at[i])) return true;
	return false;
}

static const char *sums_identity(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	int op = lc_node_at(pass->p, id)->op;
	lc_dtype t = lc_pass_format(pass, id);
	if (op != LC_RED_MAX && op != LC_RED_MIN) return "0";
	return op == LC_RED_MAX ? lc_lowest_text(t) : lc_highest_text(t);
}

static void put_sum_name(const lc_pass *pass, int id, FILE *out) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	char name[LC_IDENTIFIER];
	const lc_place *at = &pass->places.at[pass->place[id]];
	fputs(lc_value_identifier(pass->p, "r", id, name), out);
	if (lc_sum_loops(pass, id) >= 0) return;
	fputc('[', out);
	lc_put_map_index(pass, at, out);
	fputc(']', out);
}

void lc_put_summed(lc_pass *pass, int id, int depth) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_node *value = lc_node_at(pass->p, id);
	FILE *out = pass->c->out;
	lc_text t = lc_map_text(pass);
	lc_dtype type = lc_pass_format(pass, id);
	bool extreme = value->op == LC_RED_MAX || value->op == LC_RED_MIN,
		 squares = value->op == LC_RED_NORM;
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, out);
	if (lc_sum_blocked(pass, id)) {
		char v = lc_map_variable(pass->loops.count - 1);
		fprintf(out, "%s[%c - %c0] = %s", lc_value_identifier(pass->p, "b", id, name), v, v,
		        squares ? "rt_squaref(" : "");
		lc_put_value(&t, value->in[0], lc_pass_format(pass, value->in[0]));
		fputs(squares ? ");\n" : ";\n", out);
		return;
	}
	put_sum_name(pass, id, out);
	if (lc_is_real(type) && !extreme) fputs(squares ? " += rt_square(" : " += (", out);
	else {
		fprintf(out, " = rt_%s%s(",
		        lc_reduction_word(value->op == LC_RED_MAX, value->op == LC_RED_MIN),
		        sum_suffix(type));
		put_sum_name(pass, id, out);
		fputs(", ", out);
	}
	lc_put_value(&t, value->in[0], lc_pass_format(pass, value->in[0]));
	fputs(");\n", out);
}

/* Write what follows a block of the inner loop. */
void lc_put_sum_block(lc_pass *pass, int id, int depth) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	int op = lc_node_at(pass->p, id)->op;
	char sum[LC_IDENTIFIER], block[LC_IDENTIFIER], v = lc_map_variable(pass->loops.count - 1);
	lc_value_identifier(pass->p, "r", id, sum);
	lc_value_identifier(pass->p, "b", id, block);
	lc_put_tabs(depth, pass->c->out);
	if (op != LC_RED_MAX && op != LC_RED_MIN)
		fprintf(pass->c->out, "%s += rt_sum(%s, %c1 - %c0);\n", sum, block, v, v);
	else {
		const char *way = op == LC_RED_MAX ? "max" : "min";
		fprintf(pass->c->out, "%s = rt_%s(%s, rt_block_%s(%s, %c1 - %c0));\n", sum, way, sum, way,
		        block, v, v);
	}
}

static void put_finished(lc_pass *pass, int id, const char *sum) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_node *value = lc_node_at(pass->p, id), *x = lc_node_at(pass->p, value->in[0]);
	FILE *out = pass->c->out;
	char part[POINTER];
	lc_dtype t = lc_pass_format(pass, id);
	bool called = strcmp(lc_store_call(t), "(") != 0, narrows = lc_is_real(t) && t != LC_F64;
	if (called) fputs(lc_store_call(t), out);
	if (lc_is_narrow(t)) fputs("rt_odd(", out);
	else if (narrows) fputs("(float)(", out);
	if (value->op == LC_RED_NORM) fputs("sqrt(", out);
	fputs(sum, out);
	lc_mpi_part(pass->c, value->in[0], part, sizeof part);
	for (int d = 0; d < x->rank && value->op == LC_RED_MEAN; d++)
		if (value->dims >> d & 1) fprintf(out, " / (double)%s%swhole[%d]", LC_OF(part), d);
	for (int open = (value->op == LC_RED_NORM) + narrows + called; open > 0; open--)
		fputc(')', out);
	fputs(";\n", out);
}

void lc_begin_sum(lc_pass *pass, int id, int depth) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, pass->c->out);
	fprintf(pass->c->out, "%s %s = %s;\n", emit_sum_type(lc_pass_format(pass, id)),
	        lc_value_identifier(pass->p, "r", id, name), sums_identity(pass, id));
}

void lc_end_sum(lc_pass *pass, int id, int depth) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_place *at = &pass->places.at[pass->place[id]];
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, pass->c->out);
	fprintf(pass->c->out, "%s[", lc_map_place(pass, "p", at, name));
	lc_put_map_index(pass, at, pass->c->out);
	fputs("] = ", pass->c->out);
	put_finished(pass, id, lc_value_identifier(pass->p, "r", id, name));
}

/* Write the condition for the last call of a ranged pass, for a total that of the last tensor. */
static void sums_put_last(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	char space[POINTER];
	const char *and = "";
	if (lc_node_at(pass->p, id)->op == LC_TOTAL) {
		fprintf(pass->c->out, "item + 1 == rt_items(run, %s)",
		        lc_mpi_number(pass->c, pass->step->space, space));
		and = " && ";
	}
	if (!pass->ranged) return;
	if (pass->loops.count)
		fprintf(pass->c->out, "%sto == rt_product(%s, 0, %d)", and,
		        lc_mpi_part(pass->c, pass->step->space, space, sizeof space), pass->loops.first[1]);
	else fprintf(pass->c->out, "%sto == 1", and);
}

/* Sums over several calls: begun by the first call for a tensor (for a total: the first tensor),
 * stored by the last. */
void lc_begin_sums(lc_pass *pass, int id, int slot) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	char name[LC_IDENTIFIER], part[POINTER];
	const char *type = emit_sum_type(lc_pass_format(pass, id));
	bool total = lc_node_at(pass->p, id)->op == LC_TOTAL;
	FILE *out = pass->c->out;
	lc_mpi_part(pass->c, id, part, sizeof part);
	lc_value_identifier(pass->p, "r", id, name);
	if (lc_sum_carried(pass, id)) {
		fprintf(out, "\t%s *s_%s = rt_sums(run, %d, 1), %s = from ? *s_%s : %s;\n", type, name,
		        slot, name, name, sums_identity(pass, id));
		return;
	}
	fprintf(out, "\t%s *%s = rt_sums(run, %d, %s%scount);\n", type, name, slot, LC_OF(part));
	if (total && pass->ranged) fputs("\tif (item == 0 && from == 0)\n\t", out);
	else if (total) fputs("\tif (item == 0)\n\t", out);
	else if (pass->ranged) fputs("\tif (from == 0)\n\t", out);
	fprintf(out, "\tfor (int64_t e = 0; e < %s%scount; e++) %s[e] = %s;\n", LC_OF(part), name,
	        sums_identity(pass, id));
}

void lc_end_sums(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	char name[LC_IDENTIFIER], target[LC_IDENTIFIER], part[POINTER], sum[LC_IDENTIFIER + 4];
	FILE *out = pass->c->out;
	const lc_place *at = &pass->places.at[pass->place[id]];
	bool total = lc_node_at(pass->p, id)->op == LC_TOTAL;
	lc_value_identifier(pass->p, "r", id, name);
	lc_map_place(pass, "p", at, target);
	if (lc_sum_carried(pass, id)) fprintf(out, "\t*s_%s = %s;\n", name, name);
	if (total || pass->ranged) {
		fputs("\tif (", out);
		sums_put_last(pass, id);
		fputs(")\n\t", out);
	}
	if (lc_sum_carried(pass, id)) {
		fprintf(out, "\t*%s = ", target);
		put_finished(pass, id, name);
		return;
	}
	lc_mpi_part(pass->c, id, part, sizeof part);
	snprintf(sum, sizeof sum, "%s[e]", name);
	fprintf(out, "\tfor (int64_t e = 0; e < %s%scount; e++) %s[e] = ", LC_OF(part), target);
	put_finished(pass, id, sum);
}

/* Sums in variables: those that begin inside this many loops. */
void lc_sums_at(lc_pass *pass, int loops, int depth, void (*put)(lc_pass *, int, int)) {
	for (size_t i = 0; i < pass->results.count; i++)
		if (lc_sum_loops(pass, pass->results.at[i]) == loops &&
		    !lc_sum_carried(pass, pass->results.at[i]))
			put(pass, pass->results.at[i], depth);
}
