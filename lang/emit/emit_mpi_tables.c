/* emit_mpi_tables.c: data of a schedule's functions: which values have parts, their table, shapes
 * and conditions. */
#include <string.h>

#include "base/arena.h"
#include "lang/run/run.h"
#include "lang/emit/emit_internal.h"
#include "base/check.h"

/* ---- memory and parts ---- */

/* Values that a ring, or a part of an overlap, passes on have memory of their own. */
static void tables_keep(lc_mpi *mpi, int id) {
	if (mpi->memory[id] < 0) mpi->memory[id] = id;
}

static void keep_handed(lc_mpi *mpi, const lc_step *step) {
	if (step->kind == LC_STEP_RING) {
		if (step->scatter >= 0) tables_keep(mpi, step->scatter);
		for (int i = 0; i < step->gathers.count; i++)
			tables_keep(mpi, lc_node_at(mpi->p, step->gathers.at[i])->in[0]);
	}
	for (int i = 0; i < step->part_count; i++) keep_handed(mpi, &step->parts[i]);
}

static void need_spaces(lc_mpi *mpi, const lc_step *step) {
	if (step->space >= 0) mpi->part[lc_mpi_owner(mpi, step->space)] = true;
	for (int i = 0; i < step->part_count; i++) need_spaces(mpi, &step->parts[i]);
}

static bool tables_shaped(const lc_node *node) {
	return node->op == LC_SLICE || node->op == LC_DROPOUT;
}

lk_status lc_mpi_plan(lc_mpi *mpi) {
	mpi->memory = LK_ARRAY(&mpi->arena, int, (size_t)lc_node_count(mpi->p));
	mpi->part = LK_ARRAY(&mpi->arena, bool, (size_t)lc_node_count(mpi->p));
	if (!mpi->memory || !mpi->part) return lk_oom(mpi->err);
	LK_TRY(lc_lifetimes(&mpi->arena, mpi->steps, &mpi->life, mpi->err));
	memcpy(mpi->memory, mpi->steps->storage, sizeof *mpi->memory * (size_t)lc_node_count(mpi->p));
	for (int i = 0; i < mpi->steps->count; i++) keep_handed(mpi, &mpi->steps->at[i]);
	for (int i = 0; i < mpi->steps->count; i++) need_spaces(mpi, &mpi->steps->at[i]);
	for (int id = 0; id < lc_node_count(mpi->p); id++) {
		const lc_node *value = lc_node_at(mpi->p, id);
		if (mpi->memory[id] >= 0 || tables_shaped(value)) mpi->part[lc_mpi_owner(mpi, id)] = true;
		bool reduces = lc_ops[value->op].family == LC_RED || value->op == LC_TOTAL ||
		               value->op == LC_SLICE || lc_relabels(value);
		if (reduces) mpi->part[lc_mpi_owner(mpi, value->in[0])] = true;
	}
	return LK_OK;
}

/* ---- the table of values ---- */

static void tables_put_layouts(const lc_mpi *mpi, const lc_node *node) {
	static const char *const ways[] = {
		[LC_R] = "RT_R", [LC_S] = "RT_S", [LC_P] = "RT_P", [LC_ROOT] = "RT_ROOT", [LC_L] = "RT_L"};
	fputc('{', mpi->out);
	for (int a = 0; a < mpi->p->axis_count; a++) {
		const lc_layout *layout = &node->layout[a];
		int dim = 0, at = 0;
		if (layout->kind == LC_S) {
			dim = layout->dim;
			at = layout->turn;
		}
		if (layout->kind == LC_ROOT) at = layout->root;
		fprintf(mpi->out, "%s{%s, %d, %d}", lc_comma(a), ways[layout->kind], dim, at);
	}
	fputs("}, ", mpi->out);
}

static const char *tables_kind_of(const lc_mpi *mpi, int id, int *of) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *value = lc_node_at(mpi->p, id);
	*of = -1;
	if (value->op == LC_INPUT) return "RT_INPUT";
	if (value->op == LC_STATE) return "RT_STATE";
	if (mpi->memory[id] < 0) return "RT_SHAPE";
	if (mpi->memory[id] == id) return "RT_OWN";
	bool relabelled = value->op == LC_SLICE || lc_relabels(value);
	*of = relabelled ? lc_mpi_owner(mpi, value->in[0]) : mpi->memory[id];
	return value->op == LC_SLICE ? "RT_VIEW" : "RT_SHARED";
}

static void tables_put_value(lc_mpi *mpi, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *value = lc_node_at(mpi->p, id);
	char of_name[LC_IDENTIFIER];
	int of;
	const char *kind = tables_kind_of(mpi, id, &of);
	fputs("\t{", mpi->out);
	lc_put_string(value->name ? value->name : "", mpi->out);
	unsigned across = 0;
	for (int d = 0; d < value->rank; d++)
		across |= (lc_dim_across(mpi->p, value->dim[d]) >= 0 ? 1u : 0u) << d;
	fprintf(mpi->out, ", %s, %d, %d, %u, %s, %s, ", lc_format_name((lc_dtype)value->dtype),
	        value->rank, value->list, across, kind,
	        of >= 0 ? lc_mpi_number(mpi, of, of_name) : "-1");
	tables_put_layouts(mpi, value);
	int index = -1;
	int64_t offset = 0;
	if (value->at.axis >= 0) {
		index = lc_mpi_index(mpi, value->at.index);
		offset = value->at.offset;
	}
	fprintf(mpi->out, "%d, %d, %lld, %d, %d},\n", value->at.axis, index, (long long)offset,
	        mpi->life[id].first, mpi->life[id].last);
}

static void tables_put_values(lc_mpi *mpi) {
	char name[LC_IDENTIFIER];
	fputs("enum {\n", mpi->out);
	for (int id = 0; id < lc_node_count(mpi->p); id++)
		if (mpi->part[id]) fprintf(mpi->out, "\t%s,\n", lc_mpi_number(mpi, id, name));
	fprintf(mpi->out, "\tt%d__count\n};\n\n", mpi->number);
	fputs("/* Name, format, dims, list, dims across it, memory and whose, layout over each axis, "
	      "group, steps. */\n",
	      mpi->out);
	fprintf(mpi->out, "static const rt_value values%d[] = {\n", mpi->number);
	for (int id = 0; id < lc_node_count(mpi->p); id++)
		if (mpi->part[id]) tables_put_value(mpi, id);
	fputs("};\n\n", mpi->out);
}

/* ---- sizes as variables ---- */

struct used {
	bool symbol[LC_SYMBOLS];
};

static void use_dim(const lc_mpi *mpi, lc_dim d, struct used *used) {
	const lc_dim_sum *sum = &mpi->p->dims.at[d];
	for (int i = 0; i < sum->count; i++)
		for (int s = 0; s < LC_SYMBOLS; s++) used->symbol[s] |= sum->terms[i].power[s] != 0;
}

/* Returns whether any belongs to a list. */
static void put_symbols(const lc_mpi *mpi, const struct used *used) {
	char name[LC_IDENTIFIER];
	for (int a = 0; a < mpi->p->axis_count; a++)
		if (used->symbol[a])
			fprintf(mpi->out, "\tconst int64_t %s = mesh->ranks[%d];\n",
			        lc_identifier("q_", mpi->p->axes[a].name, name), a);
	for (int d = 0; d < mpi->p->named_count; d++) {
		if (!used->symbol[LC_AXES + d]) continue;
		bool list = mpi->p->named[d].list >= 0;
		lc_identifier("d_", mpi->p->named[d].name, name);
		fprintf(mpi->out,
		        list ? "\tconst int64_t *%s = sizes->each[%d];\n"
		             : "\tconst int64_t %s = sizes->dim[%d];\n",
		        name, d);
	}
}

static const lc_dim_names plain_names = {"", "", "item"};

static bool tables_same_shape(const lc_node *a, const lc_node *b) {
	return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof *a->dim * a->rank) == 0;
}

static lk_status put_case(lc_mpi *mpi, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *value = lc_node_at(mpi->p, id);
	char name[LC_IDENTIFIER];
	for (int other = id; other < lc_node_count(mpi->p); other++)
		if (mpi->part[other] && tables_same_shape(value, lc_node_at(mpi->p, other)))
			fprintf(mpi->out, "\tcase %s:\n", lc_mpi_number(mpi, other, name));
	for (int d = 0; d < value->rank; d++) {
		fprintf(mpi->out, "\t\twhole[%d] = ", d);
		LK_TRY(lc_put_dim(mpi->p, value->dim[d], &plain_names, mpi->out, mpi->err));
		fputs(";\n", mpi->out);
	}
	fputs("\t\tbreak;\n", mpi->out);
	return LK_OK;
}

static bool shape_done(const lc_mpi *mpi, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	for (int other = 0; other < id; other++)
		if (mpi->part[other] &&
		    tables_same_shape(lc_node_at(mpi->p, other), lc_node_at(mpi->p, id)))
			return true;
	return false;
}

static lk_status put_shapes(lc_mpi *mpi) {
	struct used u = {{false}};
	for (int id = 0; id < lc_node_count(mpi->p); id++)
		for (int d = 0; d < lc_node_at(mpi->p, id)->rank && mpi->part[id]; d++)
			use_dim(mpi, lc_node_at(mpi->p, id)->dim[d], &u);
	fprintf(mpi->out,
	        "static void shape%d(const rt_sizes *sizes, const rt_mesh *mesh, int value, int64_t "
	        "item, int64_t whole[RT_RANK]) {\n",
	        mpi->number);
	put_symbols(mpi, &u);
	fputs("\t(void)sizes, (void)mesh, (void)item;\n\tswitch (value) {\n", mpi->out);
	for (int id = 0; id < lc_node_count(mpi->p); id++)
		if (mpi->part[id] && lc_node_at(mpi->p, id)->rank && !shape_done(mpi, id))
			LK_TRY(put_case(mpi, id));
	fputs("\t}\n}\n\n", mpi->out);
	return LK_OK;
}

/* ---- divisibility conditions ---- */

static lk_status put_condition(lc_mpi *mpi, const lc_condition *at, int list) {
	char value[256], divisor[256], text[600];
	if (list >= 0)
		fprintf(mpi->out, "\tfor (int64_t item = 0; item < sizes->items[%d]; item++)\n\t", list);
	fputs("\tif (rt_over(", mpi->out);
	LK_TRY(lc_put_dim(mpi->p, at->value, &plain_names, mpi->out, mpi->err));
	fputs(", ", mpi->out);
	LK_TRY(lc_put_dim(mpi->p, at->divisor, &plain_names, mpi->out, mpi->err));
	fputs(") < 0) return ", mpi->out);
	snprintf(text, sizeof text, "%s %% %s == 0",
	         lc_dim_text(mpi->p, at->value, value, sizeof value),
	         lc_dim_text(mpi->p, at->divisor, divisor, sizeof divisor));
	lc_put_string(text, mpi->out);
	fputs(";\n", mpi->out);
	return LK_OK;
}

static lk_status put_conditions(lc_mpi *mpi) {
	struct used u = {{false}};
	for (size_t i = 0; i < mpi->p->conditions.count; i++) {
		use_dim(mpi, mpi->p->conditions.at[i].value, &u);
		use_dim(mpi, mpi->p->conditions.at[i].divisor, &u);
	}
	fprintf(mpi->out, "static const char *wrong%d(const rt_sizes *sizes, const rt_mesh *mesh) {\n",
	        mpi->number);
	put_symbols(mpi, &u);
	fputs("\t(void)sizes, (void)mesh;\n", mpi->out);
	for (size_t i = 0; i < mpi->p->conditions.count; i++) {
		const lc_condition *at = &mpi->p->conditions.at[i];
		int list = lc_dim_list(mpi->p, at->value);
		LK_TRY(put_condition(mpi, at, list >= 0 ? list : lc_dim_list(mpi->p, at->divisor)));
	}
	fputs("\treturn NULL;\n}\n\n", mpi->out);
	return LK_OK;
}

/* ---- inputs that index rows ---- */

static lk_status tables_put_bounds(lc_mpi *mpi) {
	lc_dim rows[LC_VALUES];
	char name[LC_IDENTIFIER];
	struct used u = {{false}};
	for (int pass = 0; pass < 2; pass++) {
		for (int id = 0; id < lc_node_count(mpi->p); id++) {
			const lc_node *value = lc_node_at(mpi->p, id);
			if ((value->op != LC_INPUT && value->op != LC_STATE) ||
			    !lc_is_integer((lc_dtype)value->dtype))
				continue;
			int found = lc_index_rows(mpi->p, id, rows, LC_VALUES);
			for (int i = 0; i < found && !pass; i++) use_dim(mpi, rows[i], &u);
			if (!pass || !found) continue;
			fprintf(mpi->out, "\tif (value == %s) return ", lc_mpi_number(mpi, id, name));
			for (int i = 1; i < found; i++) fputs("rt_minl(", mpi->out);
			for (int i = 0; i < found; i++) {
				if (i) fputs(", ", mpi->out);
				LK_TRY(lc_put_dim(mpi->p, rows[i], &plain_names, mpi->out, mpi->err));
				if (i) fputc(')', mpi->out);
			}
			fputs(";\n", mpi->out);
		}
		if (pass) continue;
		fprintf(mpi->out,
		        "/* Whole numbers are drawn below this. */\nstatic int64_t bound%d(const rt_sizes "
		        "*sizes, const rt_mesh *mesh, int value, int64_t item) {\n",
		        mpi->number);
		put_symbols(mpi, &u);
		fputs("\t(void)sizes, (void)mesh, (void)value, (void)item;\n", mpi->out);
	}
	fputs("\treturn 8;\n}\n\n", mpi->out);
	return LK_OK;
}

/* ---- results, passes ---- */

static lk_status tables_put_results(lc_mpi *mpi) {
	int ids[LC_VALUES], found;
	char name[LC_IDENTIFIER];
	LK_TRY(lc_results(mpi->p, ids, LC_VALUES, &found, mpi->err));
	fprintf(mpi->out, "static const int results%d[] = {", mpi->number);
	for (int i = 0; i < found; i++) fprintf(mpi->out, "%s, ", lc_mpi_number(mpi, ids[i], name));
	fputs("-1};\n", mpi->out);
	return LK_OK;
}

lk_status lc_mpi_tables(lc_mpi *mpi) {
	tables_put_values(mpi);
	LK_TRY(put_shapes(mpi));
	LK_TRY(put_conditions(mpi));
	LK_TRY(tables_put_bounds(mpi));
	return tables_put_results(mpi);
}
