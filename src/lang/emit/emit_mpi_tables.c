/* emit_mpi_tables.c: what a schedule's functions work on: which values have parts, their table, shapes and conditions. */
#include <string.h>

#include "lang/run/run.h"
#include "lang/emit/emit_internal.h"

static const lc_node *node(const lc_mpi *c, int id) { return &c->p->nodes.at[id]; }
static int count(const lc_mpi *c) { return (int)c->p->nodes.count; }

/* ---- memory and parts ---- */

/* What a ring, or a part of an overlap, hands on lies in memory of its own. */
static void keep(lc_mpi *c, int id) {
	if (c->memory[id] < 0) c->memory[id] = id;
}

static void keep_handed(lc_mpi *c, const lc_step *s) {
	if (s->kind == LC_STEP_RING) {
		if (s->scatter >= 0) keep(c, s->scatter);
		for (int i = 0; i < s->gathers.count; i++) keep(c, node(c, s->gathers.at[i])->in[0]);
	}
	for (int i = 0; i < s->part_count; i++) keep_handed(c, &s->parts[i]);
}

static void need_spaces(lc_mpi *c, const lc_step *s) {
	if (s->space >= 0) c->part[lc_mpi_owner(c, s->space)] = true;
	for (int i = 0; i < s->part_count; i++) need_spaces(c, &s->parts[i]);
}

static bool shaped(const lc_node *n) { return n->op == LC_SLICE || n->op == LC_DROPOUT; }

lk_status lc_mpi_plan(lc_mpi *c) {
	c->memory = LK_ARRAY(&c->arena, int, (size_t)count(c));
	c->part = LK_ARRAY(&c->arena, bool, (size_t)count(c));
	if (!c->memory || !c->part) return lk_oom(c->err);
	memcpy(c->memory, c->steps->storage, sizeof *c->memory * (size_t)count(c));
	for (int i = 0; i < c->steps->count; i++) keep_handed(c, &c->steps->at[i]);
	for (int i = 0; i < c->steps->count; i++) need_spaces(c, &c->steps->at[i]);
	for (int id = 0; id < count(c); id++) {
		const lc_node *n = node(c, id);
		if (c->memory[id] >= 0 || shaped(n)) c->part[lc_mpi_owner(c, id)] = true;
		bool reduces = lc_ops[n->op].family == LC_RED || n->op == LC_TOTAL || n->op == LC_SLICE || n->op == LC_LOCAL || n->op == LC_SLICED;
		if (reduces) c->part[lc_mpi_owner(c, n->in[0])] = true;
	}
	return LK_OK;
}

/* ---- the table of values ---- */

static void put_layouts(const lc_mpi *c, const lc_node *n) {
	static const char *const ways[] = {[LC_R] = "RT_R", [LC_S] = "RT_S", [LC_P] = "RT_P", [LC_ROOT] = "RT_ROOT", [LC_L] = "RT_L"};
	fputc('{', c->out);
	for (int a = 0; a < c->p->axis_count; a++) {
		const lc_layout *l = &n->layout[a];
		bool sliced = l->kind == LC_S;
		fprintf(c->out, "%s{%s, %d, %d}", a ? ", " : "", ways[l->kind], sliced ? l->dim : 0,
		        sliced ? l->turn : l->kind == LC_ROOT ? l->root : 0);
	}
	fputs("}, ", c->out);
}

static const char *kind_of(const lc_mpi *c, int id, int *of) {
	const lc_node *n = node(c, id);
	*of = -1;
	if (n->op == LC_INPUT) return "RT_INPUT";
	if (n->op == LC_STATE) return "RT_STATE";
	if (c->memory[id] < 0) return "RT_SHAPE";
	if (c->memory[id] == id) return "RT_OWN";
	bool relabelled = n->op == LC_SLICE || n->op == LC_LOCAL || n->op == LC_SLICED;
	*of = relabelled ? lc_mpi_owner(c, n->in[0]) : c->memory[id];
	return n->op == LC_SLICE ? "RT_VIEW" : "RT_SHARED";
}

static void put_value(lc_mpi *c, int id) {
	const lc_node *n = node(c, id);
	char of_name[LC_IDENTIFIER];
	int of;
	const char *kind = kind_of(c, id, &of);
	fputs("\t{", c->out);
	lc_put_string(n->name ? n->name : "", c->out);
	fprintf(c->out, ", %s, %d, %d, %s, %s, ", lc_format_name((lc_dtype)n->dtype), n->rank, n->list, kind,
	        of >= 0 ? lc_mpi_number(c, of, of_name) : "-1");
	put_layouts(c, n);
	fprintf(c->out, "%d, %d, %lld},\n", n->at.axis, n->at.axis >= 0 ? lc_mpi_index(c, n->at.index) : -1,
	        (long long)(n->at.axis >= 0 ? n->at.offset : 0));
}

static void put_values(lc_mpi *c) {
	char name[LC_IDENTIFIER];
	fputs("enum {\n", c->out);
	for (int id = 0; id < count(c); id++)
		if (c->part[id]) fprintf(c->out, "\t%s,\n", lc_mpi_number(c, id, name));
	fprintf(c->out, "\tt%d__count\n};\n\n", c->number);
	fputs("/* Name, format, dims, list, memory and whose, layout over each axis, group. */\n", c->out);
	fprintf(c->out, "static const rt_value values%d[] = {\n", c->number);
	for (int id = 0; id < count(c); id++)
		if (c->part[id]) put_value(c, id);
	fputs("};\n\n", c->out);
}

/* ---- sizes as variables ---- */

struct used {
	bool symbol[LC_SYMBOLS];
};

static void use_dim(const lc_mpi *c, lc_dim d, struct used *u) {
	const lc_dim_sum *sum = &c->p->dims.at[d];
	for (int i = 0; i < sum->count; i++)
		for (int s = 0; s < LC_SYMBOLS; s++) u->symbol[s] |= sum->terms[i].power[s] != 0;
}

/* Returns whether any belongs to a list. */
static void put_symbols(const lc_mpi *c, const struct used *u) {
	char name[LC_IDENTIFIER];
	for (int a = 0; a < c->p->axis_count; a++)
		if (u->symbol[a]) fprintf(c->out, "\tconst int64_t %s = mesh->ranks[%d];\n", lc_identifier("q_", c->p->axes[a].name, name), a);
	for (int d = 0; d < c->p->named_count; d++) {
		if (!u->symbol[LC_AXES + d]) continue;
		bool list = c->p->named[d].list >= 0;
		lc_identifier("d_", c->p->named[d].name, name);
		fprintf(c->out, list ? "\tconst int64_t *%s = sizes->each[%d];\n" : "\tconst int64_t %s = sizes->dim[%d];\n", name, d);
	}
}

static const lc_dim_names plain_names = {"", "", "item"};

static bool same_shape(const lc_node *a, const lc_node *b) {
	return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof *a->dim * a->rank) == 0;
}

static lk_status put_case(lc_mpi *c, int id) {
	const lc_node *n = node(c, id);
	char name[LC_IDENTIFIER];
	for (int other = id; other < count(c); other++)
		if (c->part[other] && same_shape(n, node(c, other))) fprintf(c->out, "\tcase %s:\n", lc_mpi_number(c, other, name));
	for (int d = 0; d < n->rank; d++) {
		fprintf(c->out, "\t\twhole[%d] = ", d);
		LK_TRY(lc_put_dim(c->p, n->dim[d], &plain_names, c->out, c->err));
		fputs(";\n", c->out);
	}
	fputs("\t\tbreak;\n", c->out);
	return LK_OK;
}

static bool shape_done(const lc_mpi *c, int id) {
	for (int other = 0; other < id; other++)
		if (c->part[other] && same_shape(node(c, other), node(c, id))) return true;
	return false;
}

static lk_status put_shapes(lc_mpi *c) {
	struct used u = {{false}};
	for (int id = 0; id < count(c); id++)
		for (int d = 0; d < node(c, id)->rank && c->part[id]; d++) use_dim(c, node(c, id)->dim[d], &u);
	fprintf(c->out, "static void shape%d(const rt_sizes *sizes, const rt_mesh *mesh, int value, int64_t item, int64_t whole[RT_RANK]) {\n",
	        c->number);
	put_symbols(c, &u);
	fputs("\t(void)sizes, (void)mesh, (void)item;\n\tswitch (value) {\n", c->out);
	for (int id = 0; id < count(c); id++)
		if (c->part[id] && node(c, id)->rank && !shape_done(c, id)) LK_TRY(put_case(c, id));
	fputs("\t}\n}\n\n", c->out);
	return LK_OK;
}

/* ---- what must divide what ---- */

static lk_status put_condition(lc_mpi *c, const lc_condition *at, int list) {
	char value[256], divisor[256], text[600];
	if (list >= 0) fprintf(c->out, "\tfor (int64_t item = 0; item < sizes->items[%d]; item++)\n\t", list);
	fputs("\tif (rt_over(", c->out);
	LK_TRY(lc_put_dim(c->p, at->value, &plain_names, c->out, c->err));
	fputs(", ", c->out);
	LK_TRY(lc_put_dim(c->p, at->divisor, &plain_names, c->out, c->err));
	fputs(") < 0) return ", c->out);
	snprintf(text, sizeof text, "%s %% %s == 0", lc_dim_text(c->p, at->value, value, sizeof value),
	         lc_dim_text(c->p, at->divisor, divisor, sizeof divisor));
	lc_put_string(text, c->out);
	fputs(";\n", c->out);
	return LK_OK;
}

static lk_status put_conditions(lc_mpi *c) {
	struct used u = {{false}};
	for (size_t i = 0; i < c->p->conditions.count; i++)
		use_dim(c, c->p->conditions.at[i].value, &u), use_dim(c, c->p->conditions.at[i].divisor, &u);
	fprintf(c->out, "static const char *wrong%d(const rt_sizes *sizes, const rt_mesh *mesh) {\n", c->number);
	put_symbols(c, &u);
	fputs("\t(void)sizes, (void)mesh;\n", c->out);
	for (size_t i = 0; i < c->p->conditions.count; i++) {
		const lc_condition *at = &c->p->conditions.at[i];
		int list = lc_dim_list(c->p, at->value);
		LK_TRY(put_condition(c, at, list >= 0 ? list : lc_dim_list(c->p, at->divisor)));
	}
	fputs("\treturn NULL;\n}\n\n", c->out);
	return LK_OK;
}

/* ---- inputs that index rows ---- */

static lk_status put_bounds(lc_mpi *c) {
	lc_dim rows[LC_VALUES];
	char name[LC_IDENTIFIER];
	struct used u = {{false}};
	for (int pass = 0; pass < 2; pass++) {
		for (int id = 0; id < count(c); id++) {
			const lc_node *n = node(c, id);
			if ((n->op != LC_INPUT && n->op != LC_STATE) || !lc_is_integer((lc_dtype)n->dtype)) continue;
			int found = lc_index_rows(c->p, id, rows, LC_VALUES);
			for (int i = 0; i < found && !pass; i++) use_dim(c, rows[i], &u);
			if (!pass || !found) continue;
			fprintf(c->out, "\tif (value == %s) return ", lc_mpi_number(c, id, name));
			for (int i = 1; i < found; i++) fputs("rt_minl(", c->out);
			for (int i = 0; i < found; i++) {
				if (i) fputs(", ", c->out);
				LK_TRY(lc_put_dim(c->p, rows[i], &plain_names, c->out, c->err));
				if (i) fputc(')', c->out);
			}
			fputs(";\n", c->out);
		}
		if (pass) continue;
		fprintf(c->out, "/* Whole numbers are drawn below this. */\nstatic int64_t bound%d(const rt_sizes *sizes, const rt_mesh *mesh, int value, int64_t item) {\n",
		        c->number);
		put_symbols(c, &u);
		fputs("\t(void)sizes, (void)mesh, (void)value, (void)item;\n", c->out);
	}
	fputs("\treturn 8;\n}\n\n", c->out);
	return LK_OK;
}

/* ---- results, passes ---- */

static lk_status put_results(lc_mpi *c) {
	int ids[LC_VALUES], found;
	char name[LC_IDENTIFIER];
	LK_TRY(lc_results(c->p, ids, LC_VALUES, &found, c->err));
	fprintf(c->out, "static const int results%d[] = {", c->number);
	for (int i = 0; i < found; i++) fprintf(c->out, "%s, ", lc_mpi_number(c, ids[i], name));
	fputs("-1};\n", c->out);
	return LK_OK;
}

lk_status lc_mpi_tables(lc_mpi *c) {
	put_values(c);
	LK_TRY(put_shapes(c));
	LK_TRY(put_conditions(c));
	LK_TRY(put_bounds(c));
	return put_results(c);
}
