/* emit_mpi_map.c: MAP steps in C: a function with loops over a rank's elements. Numbers are
 * computed before the loops; each named value is a variable inside; stores come last; reductions
 * are kept in double and stored after. */
#include <string.h>

#include "lang/emit/emit_internal.h"
#include "base/check.h"

enum { POINTER = 160, SUMS = 64 };

/* ---- expressions ---- */

/* Write a value's operation, in the form to be stored or kept. */
static void mpi_map_put_made(lc_pass *pass, int id, bool stored) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	lc_text t = lc_map_text(pass);
	int taken = lc_pass_taken(pass->p, id);
	if (taken < 0) lc_put_operation(&t, id, stored);
	else if (pass->source[taken] == LC_COMPUTED && !lc_pass_stands_alone(pass, taken))
		mpi_map_put_made(pass, taken, stored);
	else lc_put_value(&t, taken, lc_pass_format(pass, id));
}

/* ---- before the loops ---- */

static void mpi_map_put_number(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_node *value = lc_node_at(pass->p, id);
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER], part[POINTER];
	const char *type = lc_register_type(lc_pass_format(pass, id));
	if (pass->place[id] >= 0) lc_mpi_part(pass->c, id, part, sizeof part);
	fprintf(out, "\tconst %s %s = ", type, lc_map_value_name(pass, id, name));
	if (value->op == LC_SCALAR)
		fprintf(out, "(%s)run->sizes->scalar[%d]", type, lc_mpi_scalar(pass->c, id));
	else if (value->op == LC_SIZE) lc_mpi_size(pass->c, id, out);
	else if (pass->place[id] >= 0)
		fprintf(out, "%s*(const %s *)%s%sdata)", lc_load_call(lc_pass_format(pass, id)),
		        lc_memory_type(lc_pass_format(pass, id)), LC_OF(part));
	else mpi_map_put_made(pass, id, false);
	fputs(";\n", out);
}

static bool mpi_map_is_stored(const lc_pass *pass, int owner) {
	for (size_t i = 0; i < pass->stores.count; i++)
		if (lc_mpi_owner(pass->c, pass->stores.at[i]) == owner) return true;
	return false;
}

/* Whether a state is read in slices and written in one pass: one memory by two pointers. */
static bool aliased(const lc_pass *pass, const lc_place *at) {
	int found = 0;
	for (size_t i = 0; i < pass->places.count; i++)
		found += lc_mpi_root(pass->c, pass->places.at[i].id) == lc_mpi_root(pass->c, at->id) &&
		         pass->places.at[i].kind != LC_PLACE_WHOLE;
	for (int i = 0; i < pass->step->gathers.count; i++)
		found += lc_mpi_root(pass->c, pass->step->gathers.at[i]) == lc_mpi_root(pass->c, at->id);
	return found > 1;
}

/* The gather that takes a value which lies nowhere else; -1. */
static int gather_of(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_ids *gathers = &pass->step->gathers;
	for (int i = 0; i < gathers->count; i++)
		if (lc_node_at(pass->p, gathers->at[i])->in[0] == id && pass->c->steps->storage[id] < 0)
			return gathers->at[i];
	return -1;
}

/* The ends of a ring: what arrives, and where gathers take their slices from. */
static bool put_ends(lc_pass *pass, const lc_place *at) {
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER], part[POINTER], space[POINTER];
	const char *type = lc_memory_type(lc_pass_format(pass, at->id));
	int gather = gather_of(pass, at->id), outer = pass->loops.count ? pass->loops.first[1] : 0;
	if (at->id == pass->step->scatter) {
		fprintf(out,
		        "\tconst %s *restrict p_arrived = arrived, *restrict p_mine = (const %s "
		        "*)(%s)->data + skip;\n",
		        type, type,
		        lc_mpi_part(pass->c, lc_node_at(pass->p, at->id)->in[0], part, sizeof part));
		fprintf(out, "\tconst int64_t first = from * rt_product(%s, %d, %d);\n",
		        lc_mpi_part(pass->c, pass->step->space, space, sizeof space), outer,
		        lc_node_at(pass->p, pass->step->space)->rank);
	} else if (gather >= 0) {
		bool into = lc_mpi_root(pass->c, gather) !=
		            gather; /* the state that it is gathered into, which may be read alongside */
		fprintf(out, "\t%s *%s%s = (%s *)(%s)->data + skip;\n", type, into ? "" : "restrict ",
		        lc_map_place(pass, "p", at, name), type,
		        lc_mpi_part(pass->c, gather, part, sizeof part));
	}
	return gather >= 0 || at->id == pass->step->scatter;
}

static void put_pointer(lc_pass *pass, const lc_place *at) {
	lc_dtype t = lc_pass_format(pass, at->id);
	char name[LC_IDENTIFIER], part[POINTER], view[POINTER];
	bool written =
		at->view < 0 && (mpi_map_is_stored(pass, at->id) || pass->source[at->id] == LC_RESULT);
	lc_mpi_part(pass->c, at->id, part, sizeof part);
	if (pass->arrives && at->view < 0 && put_ends(pass, at)) return;
	fprintf(pass->c->out, "\t%s%s *%s%s = ", written ? "" : "const ", lc_memory_type(t),
	        aliased(pass, at) ? "" : "restrict ", lc_map_place(pass, "p", at, name));
	if (at->view < 0) fprintf(pass->c->out, "%s%sdata;\n", LC_OF(part));
	else
		fprintf(pass->c->out, "(const %s *)%s%sdata + rt_view(%s, %s);\n", lc_memory_type(t),
		        LC_OF(part), lc_mpi_part(pass->c, at->view, view, sizeof view), part);
}

static void put_strides(lc_pass *pass, const lc_place *at) {
	char part[POINTER];
	int from, rank;
	for (int l = 0; l < pass->loops.count; l++) {
		if (!lc_place_moves(pass->p, &pass->loops, at, l) || lc_steps_by_one(pass, at, l) ||
		    lc_place_dense(pass->p, &pass->loops, at))
			continue;
		lc_place_stride(pass->p, &pass->loops, at, l, &from, &rank);
		fputs("\tconst int64_t ", pass->c->out);
		lc_put_stride_name(pass, at, l, pass->c->out);
		fprintf(pass->c->out, " = %s(%s, %d, %d);\n",
		        at->kind == LC_PLACE_WHOLE ? "rt_whole_product" : "rt_product",
		        lc_mpi_part(pass->c, at->id, part, sizeof part), from, rank);
	}
}

/* Single numbers that are only read are variables, not pointers. */
static bool needs_pointer(const lc_pass *pass, const lc_place *at) {
	if (at->kind == LC_PLACE_WHOLE) return false;
	return lc_node_at(pass->p, at->id)->rank > 0 || mpi_map_is_stored(pass, at->id) ||
	       pass->source[at->id] == LC_RESULT;
}

static void put_places(lc_pass *pass) {
	char name[LC_IDENTIFIER], part[POINTER];
	for (size_t i = 0; i < pass->places.count; i++) {
		const lc_place *at = &pass->places.at[i];
		if (needs_pointer(pass, at)) put_pointer(pass, at);
		if (at->kind == LC_PLACE_WHOLE)
			fprintf(pass->c->out, "\tconst uint64_t w_%s = rt_place(%s);\n",
			        lc_map_place(pass, "", at, name),
			        lc_mpi_part(pass->c, at->id, part, sizeof part));
		put_strides(pass, at);
	}
}

/* Whether a loop goes from `from` to `to`. */
static bool is_ranged(const lc_pass *pass, int l) {
	return l == pass->cut_loop || (l == 0 && pass->ranged);
}

static void mpi_map_put_bounds(lc_pass *pass) {
	char part[POINTER];
	lc_mpi_part(pass->c, pass->step->space, part, sizeof part);
	for (int l = 0; l < pass->loops.count; l++) {
		int end = pass->loops.first[l + 1];
		if (l == pass->cut_loop)
			fprintf(
				pass->c->out,
				"\tconst int64_t trips = rt_product(%s, %d, %d);\n\tfrom *= trips, to *= trips;\n",
				part, pass->loops.first[l] + 1, end);
		if (l == 0 && is_ranged(pass, l)) continue;
		fprintf(pass->c->out, "\tconst int64_t n_%c = rt_product(%s, %d, %d);\n",
		        lc_map_variable(l), part, pass->loops.first[l], end);
		if (l == pass->cut_loop) fprintf(pass->c->out, "\t(void)n_%c;\n", lc_map_variable(l));
	}
}

/* ---- loops ---- */

static void put_variable(lc_pass *pass, int id, int depth) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	char name[LC_IDENTIFIER];
	lc_put_tabs(depth, pass->c->out);
	fprintf(pass->c->out, "const %s %s = ", lc_register_type(lc_pass_format(pass, id)),
	        lc_map_value_name(pass, id, name));
	mpi_map_put_made(pass, id, lc_pass_stores(pass, id) && pass->uses[id] == 1);
	fputs(";\n", pass->c->out);
}

static void put_store(lc_pass *pass, int id, int depth) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER];
	lc_place at =
		lc_place_of(pass->p, pass->step->space, LC_PLACE_PART, lc_mpi_owner(pass->c, id), -1);
	lc_dtype t = lc_pass_format(pass, id);
	bool called = strcmp(lc_store_call(t), "(") != 0;
	lc_put_tabs(depth, out);
	fprintf(out, "%s[", lc_map_place(pass, "p", &at, name));
	lc_put_map_index(pass, &at, out);
	fprintf(out, "] = %s", called ? lc_store_call(t) : "");
	if (pass->source[id] == LC_LOADED) lc_put_map_load(pass, pass->place[id], t, out);
	else if (lc_pass_stands_alone(pass, id)) fputs(lc_map_value_name(pass, id, name), out);
	else mpi_map_put_made(pass, id, true);
	fputs(called ? ");\n" : ";\n", out);
}

static void put_body(lc_pass *pass, int depth) {
	for (int id = 0; id < (int)pass->p->nodes.count; id++)
		if (lc_pass_stands_alone(pass, id)) put_variable(pass, id, depth);
	for (size_t i = 0; i < pass->results.count; i++)
		lc_put_summed(pass, pass->results.at[i], depth);
	for (size_t i = 0; i < pass->stores.count; i++) put_store(pass, pass->stores.at[i], depth);
}

/* In a ring, a state that is read in slices and gathered in place: one iteration reads and writes
 * the same element. */
static bool same_slice(const lc_pass *pass, const lc_place *at) {
	if (!pass->arrives || pass->step->gathers.count == 0) return false;
	const lc_node *value = lc_node_at(pass->p, at->view >= 0 ? at->view : at->id),
				  *g = lc_node_at(pass->p, pass->step->gathers.at[0]);
	return gather_of(pass, at->id) >= 0 ||
	       (value->op == LC_SLICE && value->axis == g->axis && value->d == g->d);
}

/* Whether no iteration of the inner loop reads what another writes. Compilers see that only in
 * functions' restrict parameters, and test only a limited number of pointers for overlaps. */
static bool independent(const lc_pass *pass) {
	for (size_t i = 0; i < pass->places.count; i++) {
		const lc_place *at = &pass->places.at[i];
		if (needs_pointer(pass, at) && aliased(pass, at) && !same_slice(pass, at)) return false;
	}
	for (size_t i = 0; i < pass->results.count; i++)
		if (lc_sum_loops(pass, pass->results.at[i]) < 0) return false;
	for (size_t i = 0; i < pass->stores.count; i++) {
		lc_place at = lc_place_of(pass->p, pass->step->space, LC_PLACE_PART,
		                          lc_mpi_owner(pass->c, pass->stores.at[i]), -1);
		if (!lc_place_moves(pass->p, &pass->loops, &at, pass->loops.count - 1)) return false;
	}
	return true;
}

/* Begin the inner loop in blocks, if sums need them; returns the loop's depth. */
static int begin_blocks(lc_pass *pass, char v, bool ranged, int depth) {
	FILE *out = pass->c->out;
	char name[LC_IDENTIFIER], first[8] = "0", end[8];
	snprintf(end, sizeof end, "n_%c", v);
	if (ranged) {
		strcpy(first, "from");
		strcpy(end, "to");
	}
	lc_put_tabs(depth, out);
	fprintf(out, "for (int64_t %c0 = %s, %c1; %c0 < %s; %c0 = %c1) {\n", v, first, v, v, end, v, v);
	lc_put_tabs(depth + 1, out);
	fprintf(out, "%c1 = %c0 + RT_BLOCK < %s ? %c0 + RT_BLOCK : %s;\n", v, v, end, v, end);
	for (size_t i = 0; i < pass->results.count; i++) {
		if (!lc_sum_blocked(pass, pass->results.at[i])) continue;
		lc_put_tabs(depth + 1, out);
		fprintf(out, "float %s[RT_BLOCK];\n",
		        lc_value_identifier(pass->p, "b", pass->results.at[i], name));
	}
	return depth + 1;
}

static void end_blocks(lc_pass *pass, int depth) {
	for (size_t i = 0; i < pass->results.count; i++)
		if (lc_sum_blocked(pass, pass->results.at[i]))
			lc_put_sum_block(pass, pass->results.at[i], depth + 1);
	lc_put_tabs(depth, pass->c->out);
	fputs("}\n", pass->c->out);
}

static void put_inner(lc_pass *pass, int l, int depth) {
	FILE *out = pass->c->out;
	char v = lc_map_variable(l);
	bool ranged = is_ranged(pass, l), blocks = lc_sums_blocked(pass);
	int at = blocks ? begin_blocks(pass, v, ranged, depth) : depth;
	if (independent(pass)) {
		lc_put_tabs(at, out);
		fputs("RT_INDEPENDENT\n", out);
	}
	lc_put_tabs(at, out);
	if (blocks) fprintf(out, "for (int64_t %c = %c0; %c < %c1; %c++) {\n", v, v, v, v, v);
	else if (ranged) fprintf(out, "for (int64_t %c = from; %c < to; %c++) {\n", v, v, v);
	else fprintf(out, "for (int64_t %c = 0; %c < n_%c; %c++) {\n", v, v, v, v);
	lc_sums_at(pass, pass->loops.count, at + 1, lc_begin_sum); /* of one element each */
	put_body(pass, at + 1);
	lc_sums_at(pass, pass->loops.count, at + 1, lc_end_sum);
	lc_put_tabs(at, out);
	fputs("}\n", out);
	if (blocks) end_blocks(pass, depth);
}

static void put_loop(lc_pass *pass, int l) {
	FILE *out = pass->c->out;
	char v = lc_map_variable(l);
	if (l + 1 == pass->loops.count) {
		put_inner(pass, l, l + 1);
		return;
	}
	lc_put_tabs(l + 1, out);
	if (is_ranged(pass, l)) fprintf(out, "for (int64_t %c = from; %c < to; %c++) {\n", v, v, v);
	else fprintf(out, "for (int64_t %c = 0; %c < n_%c; %c++) {\n", v, v, v, v);
	lc_sums_at(pass, l + 1, l + 2, lc_begin_sum);
	put_loop(pass, l + 1);
	lc_sums_at(pass, l + 1, l + 2, lc_end_sum);
	lc_put_tabs(l + 1, out);
	fputs("}\n", out);
}

static void put_loops(lc_pass *pass) {
	FILE *out = pass->c->out;
	lc_sums_at(pass, 0, 1, lc_begin_sum);
	if (pass->loops.count) put_loop(pass, 0);
	else if (!pass->ranged) put_body(pass, 1);
	else {
		fputs("\tfor (int64_t i = from; i < to; i++) {\n", out);
		put_body(pass, 2);
		fputs("\t}\n", out);
	}
	lc_sums_at(pass, 0, 1, lc_end_sum);
}

/* ---- functions ---- */

static void put_inside(lc_pass *pass) {
	int slot = 0;
	char part[POINTER];
	lc_mpi_part(pass->c, pass->step->space, part, sizeof part);
	if (lc_mpi_may_be_absent(pass->c, pass->step->space))
		fprintf(pass->c->out, "\tif (!%s%shere) return;\n", LC_OF(part));
	for (int id = 0; id < (int)pass->p->nodes.count; id++)
		if (pass->source[id] == LC_NUMBER) mpi_map_put_number(pass, id);
	put_places(pass);
	mpi_map_put_bounds(pass);
	for (size_t i = 0; i < pass->results.count; i++)
		if (lc_sum_loops(pass, pass->results.at[i]) < 0 ||
		    lc_sum_carried(pass, pass->results.at[i]))
			lc_begin_sums(pass, pass->results.at[i], slot++);
	put_loops(pass);
	for (size_t i = 0; i < pass->results.count; i++)
		if (lc_sum_loops(pass, pass->results.at[i]) < 0 ||
		    lc_sum_carried(pass, pass->results.at[i]))
			lc_end_sums(pass, pass->results.at[i]);
}

/* What a function of a pass gets besides `run`. */
typedef enum takes {
	NOTHING,
	ITEM,
	TRIPS,   /* item, from, to: along dim `cut`, or of whole tensors */
	ARRIVED, /* of a ring: item, from, to of the outer loop, arrived, skip, whether nothing arrives
	          */
} takes;

static void mpi_map_put_head(FILE *out, const char *name, takes what) {
	static const char *const rest[] = {
		[NOTHING] = "",
		[ITEM] = ", int64_t item",
		[TRIPS] = ", int64_t item, int64_t from, int64_t to",
		[ARRIVED] = (", int64_t item, int64_t from, int64_t to, const void *arrived, "
	                 "int64_t skip, bool alone"),
	};
	fprintf(out, "%s void %s(rt_run *run%s) {\n",
	        what == ARRIVED ? "RT_UNFOLDED" : "RT_LOOPS static", name, rest[what]);
	if (what == ARRIVED) fputs("\t(void)item, (void)arrived, (void)skip, (void)alone;\n", out);
	if (what == TRIPS) fputs("\t(void)item, (void)from, (void)to;\n", out);
}

static lk_status touch_places(lc_pass *pass) {
	for (size_t i = 0; i < pass->places.count; i++) {
		const lc_place *at = &pass->places.at[i];
		if (at->kind != LC_PLACE_WHOLE)
			LK_TRY(lc_mpi_touch(pass->c, at->view >= 0 ? at->view : at->id));
	}
	return LK_OK;
}

static lk_status mpi_map_put_function(lc_mpi *mpi, const lc_step *step, const char *name,
                                      takes what, int cut) {
	lc_pass pass;
	lk_status status = lc_pass_open(mpi, step, &pass);
	if (status == LK_OK && pass.results.count > SUMS) {
		lk_fail(mpi->err, LK_ERR_INPUT, step->name, "%zu reductions in one pass",
		        pass.results.count);
		status = lk_hint(mpi->err, "a pass holds up to %d", SUMS);
	}
	if (status == LK_OK) {
		pass.ranged = pass.arrives = what == ARRIVED;
		if (cut >= 0) lc_pass_cut(&pass, cut);
		mpi_map_put_head(mpi->out, name, what);
		put_inside(&pass);
		fputs("}\n\n", mpi->out);
		status = touch_places(&pass);
	}
	lc_pass_close(&pass);
	return status;
}

lk_status lc_mpi_range(lc_mpi *mpi, const lc_step *step, const char *name, int cut) {
	return mpi_map_put_function(mpi, step, name, TRIPS, cut);
}

/* Sums that are complete inside of one trip; others are begun and stored once for a pass. */
lk_status lc_mpi_cuts(lc_mpi *mpi, const lc_step *step, int cut, bool *can) {
	lc_pass pass;
	lk_status status = lc_pass_open(mpi, step, &pass);
	*can = status == LK_OK && cut < lc_node_at(pass.p, step->space)->rank &&
	       lc_node_at(pass.p, step->space)->dim[cut] != 0;
	if (*can) lc_pass_cut(&pass, cut);
	for (size_t i = 0; i < pass.results.count && *can; i++)
		*can = lc_sum_loops(&pass, pass.results.at[i]) > pass.cut_loop;
	lc_pass_close(&pass);
	return status;
}

lk_status lc_mpi_ring_pass(lc_mpi *mpi, const lc_step *step, const char *name) {
	return mpi_map_put_function(mpi, step, name, ARRIVED, -1);
}

lk_status lc_mpi_outer(lc_mpi *mpi, const lc_step *step, int *outer) {
	lc_pass pass;
	lk_status status = lc_pass_open(mpi, step, &pass);
	if (status == LK_OK) *outer = pass.loops.count ? pass.loops.first[1] : 0;
	lc_pass_close(&pass);
	return status;
}

lk_status lc_mpi_map(lc_mpi *mpi, const lc_step *step) {
	char name[LC_IDENTIFIER], each[LC_IDENTIFIER + 4], space[LC_IDENTIFIER];
	lc_mpi_function(mpi, step, name);
	if (step->list < 0) return mpi_map_put_function(mpi, step, name, NOTHING, -1);
	snprintf(each, sizeof each, "%s_of", name);
	LK_TRY(mpi_map_put_function(mpi, step, each, ITEM, -1));
	fprintf(mpi->out,
	        "static void %s(rt_run *run) {\n\tfor (int64_t item = 0; item < rt_items(run, %s); "
	        "item++) %s_of(run, item);\n}\n\n",
	        name, lc_mpi_number(mpi, step->space, space), name);
	return LK_OK;
}
