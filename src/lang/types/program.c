/* program.c: the tables of operations and formats; programs, their names, and whether two are the same. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lang/types/program.h"

const lc_op_row lc_ops[LC_OP_COUNT] = {
#define ROW(symbol, name, family, operands, arguments) [LC_##symbol] = {name, LC_##family, operands, arguments},
	LC_OPS(ROW)
#undef ROW
};

const char *lc_dtype_name(lc_dtype dtype) {
	static const char *const names[LC_DTYPE_COUNT] = {
#define NAME(symbol, name, bits) [LC_##symbol] = name,
		LC_DTYPES(NAME)
#undef NAME
	};
	return (unsigned)dtype < LC_DTYPE_COUNT ? names[dtype] : "?";
}

const char *lc_reduce_name(lc_reduce reduce) {
	static const char *const names[LC_REDUCES] = {[LC_SUM] = "sum", [LC_RMAX] = "max", [LC_RMIN] = "min"};
	return (unsigned)reduce < LC_REDUCES ? names[reduce] : "?";
}

/* ---- files and programs ---- */

lc_file *lc_file_new(const char *path) {
	lc_file *file = calloc(1, sizeof *file);
	if (!file) return NULL;
	file->path = lk_arena_strdup(&file->arena, path);
	if (file->path) return file;
	lc_file_free(file);
	return NULL;
}

static void free_vectors(lc_program *p) {
	lk_vec_free(&p->lists);
	lk_vec_free(&p->dims);
	lk_vec_free(&p->nodes);
	lk_vec_free(&p->conditions);
	lk_vec_free(&p->schedules);
	lk_vec_free(&p->bundles);
}

void lc_file_free(lc_file *file) {
	if (!file) return;
	for (size_t i = 0; i < file->programs.count; i++) free_vectors(file->programs.at[i]);
	lk_vec_free(&file->programs);
	lk_arena_free(&file->arena);
	free(file);
}

lc_program *lc_program_new(lc_file *file, const char *name) {
	lc_program *p = LK_NEW(&file->arena, lc_program);
	lc_dim one;
	if (!p || !lk_push(&file->programs)) return NULL;
	*lk_last(&file->programs) = p;
	p->file = file;
	p->name = lk_arena_strdup(&file->arena, name);
	return p->name && lc_dim_number(p, 1, &one, NULL) == LK_OK ? p : NULL;
}

lc_program *lc_program_like(const lc_program *p) {
	lc_program *q = calloc(1, sizeof *q);
	if (!q) return NULL;
	q->file = p->file, q->name = p->name, q->line = p->line, q->column = p->column;
	memcpy(q->axes, p->axes, sizeof q->axes);
	memcpy(q->named, p->named, sizeof q->named);
	q->axis_count = p->axis_count, q->named_count = p->named_count;
	bool room = true;
	for (size_t i = 0; i < p->lists.count && (room = lk_push(&q->lists)); i++) q->lists.at[i] = p->lists.at[i];
	for (size_t i = 0; i < p->dims.count && room && (room = lk_push(&q->dims)); i++) q->dims.at[i] = p->dims.at[i];
	if (room) return q;
	lc_program_free(q);
	return NULL;
}

void lc_program_free(lc_program *p) {
	if (!p) return;
	free_vectors(p);
	free(p);
}

lk_status lc_wrong(const lc_program *p, int line, int column, lk_error *err, const char *fmt, ...) {
	char where[sizeof err->where], what[sizeof err->what];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	p->file->mistake.line = line, p->file->mistake.column = column;
	snprintf(where, sizeof where, line ? "%.200s:%d:%d" : "%.200s", p->file->path, line, column);
	return lk_fail(err, LK_ERR_INPUT, where, "%s", what);
}

/* ---- names ---- */

int lc_axis_find(const lc_program *p, const char *name) {
	for (int i = 0; i < p->axis_count; i++)
		if (strcmp(p->axes[i].name, name) == 0) return i;
	return -1;
}

int lc_dim_find(const lc_program *p, const char *name) {
	for (int i = 0; i < p->named_count; i++)
		if (strcmp(p->named[i].name, name) == 0) return i;
	return -1;
}

int lc_list_find(const lc_program *p, const char *name) {
	for (size_t i = 0; i < p->lists.count; i++)
		if (strcmp(p->lists.at[i], name) == 0) return (int)i;
	return -1;
}

int lc_value_find(const lc_program *p, const char *name) {
	for (size_t i = p->nodes.count; i-- > 0;)
		if (p->nodes.at[i].name && strcmp(p->nodes.at[i].name, name) == 0) return (int)i;
	return -1;
}

lk_status lc_name_free(const lc_program *p, const char *name, int line, int column, lk_error *err) {
	const char *as = lc_axis_find(p, name) >= 0   ? "a mesh axis"
	                 : lc_dim_find(p, name) >= 0  ? "a dim"
	                 : lc_list_find(p, name) >= 0 ? "a list"
	                                              : NULL;
	int value = lc_value_find(p, name);
	if (!as && value < 0) return LK_OK;
	if (as) {
		lc_wrong(p, line, column, err, "%s is %s already", name, as);
		return lk_hint(err, "choose another name");
	}
	const lc_node *n = &p->nodes.at[value];
	lc_wrong(p, line, column, err, "%s is defined already, in line %d", name, n->line);
	bool state = n->op == LC_STATE || n->op == LC_UPDATE;
	return state ? lk_hint(err, "a state changes by %s <- ...", name) : lk_hint(err, "choose another name");
}

static lk_status keep_name(lc_program *p, const char *name, const char **out, lk_error *err) {
	LK_TRY(lc_name_free(p, name, p->line, p->column, err));
	*out = lk_arena_strdup(&p->file->arena, name);
	return *out ? LK_OK : lk_oom(err);
}

lk_status lc_axis_add(lc_program *p, const char *name, int64_t size, lk_error *err) {
	if (p->axis_count == LC_AXES) return lc_wrong(p, p->line, p->column, err, "a mesh has at most %d axes", LC_AXES);
	LK_TRY(keep_name(p, name, &p->axes[p->axis_count].name, err));
	p->axes[p->axis_count++].size = size;
	return LK_OK;
}

lk_status lc_dim_declare(lc_program *p, const char *name, int list, lk_error *err) {
	if (p->named_count == LC_DIMS)
		return lc_wrong(p, p->line, p->column, err, "a program has at most %d dims", LC_DIMS);
	LK_TRY(keep_name(p, name, &p->named[p->named_count].name, err));
	p->named[p->named_count++].list = list;
	return LK_OK;
}

lk_status lc_list_add(lc_program *p, const char *name, lk_error *err) {
	const char *kept;
	if (p->lists.count == LC_DIMS)
		return lc_wrong(p, p->line, p->column, err, "a program has at most %d lists", LC_DIMS);
	LK_TRY(keep_name(p, name, &kept, err));
	if (!lk_push(&p->lists)) return lk_oom(err);
	*lk_last(&p->lists) = kept;
	return LK_OK;
}

/* ---- equality ---- */

static bool same_text(const char *a, const char *b) {
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool lc_same_layout(const lc_layout *a, const lc_layout *b) {
	if (a->kind != b->kind) return false;
	if (a->kind == LC_S) return a->dim == b->dim && a->turn == b->turn;
	if (a->kind == LC_P) return a->reduce == b->reduce;
	return a->kind != LC_ROOT || a->root == b->root;
}

bool lc_same_group(const lc_group *a, const lc_group *b) {
	if (a->axis != b->axis) return false;
	return a->axis < 0 || (a->offset == b->offset && same_text(a->index, b->index));
}

static bool same_dim(const lc_program *a, lc_dim x, const lc_program *b, lc_dim y) {
	const lc_dim_sum *s = &a->dims.at[x], *t = &b->dims.at[y];
	return s->count == t->count && memcmp(s->terms, t->terms, sizeof *s->terms * (size_t)s->count) == 0;
}

static bool same_attributes(const lc_node *x, const lc_node *y) {
	return x->axis == y->axis && x->d == y->d && x->e == y->e && x->reduce == y->reduce && x->dims == y->dims &&
	       x->keep == y->keep && x->ta == y->ta && x->tb == y->tb && x->root == y->root && x->shift == y->shift &&
	       x->stride == y->stride && x->pad == y->pad && x->symbol == y->symbol && x->key == y->key &&
	       x->number == y->number;
}

static bool same_node(const lc_program *a, const lc_node *x, const lc_program *b, const lc_node *y) {
	if (x->op != y->op || x->dtype != y->dtype || x->rank != y->rank || x->inputs != y->inputs || x->list != y->list)
		return false;
	for (int i = 0; i < x->inputs; i++)
		if (x->in[i] != y->in[i]) return false;
	for (int i = 0; i < x->rank; i++)
		if (!same_dim(a, x->dim[i], b, y->dim[i])) return false;
	for (int i = 0; i < a->axis_count; i++)
		if (!lc_same_layout(&x->layout[i], &y->layout[i])) return false;
	return lc_same_group(&x->at, &y->at) && lc_same_group(&x->from, &y->from) && same_attributes(x, y) &&
	       same_text(x->name, y->name);
}

static bool same_words(const lc_word *a, int count, const lc_word *b, int other) {
	if (count != other) return false;
	for (int i = 0; i < count; i++)
		if (strcmp(a[i].text, b[i].text) != 0) return false;
	return true;
}

static bool same_schedule(const lc_schedule *a, const lc_schedule *b) {
	if (strcmp(a->name, b->name) != 0 || a->count != b->count) return false;
	for (int i = 0; i < a->count; i++) {
		const lc_directive *x = &a->directives[i], *y = &b->directives[i];
		if (x->kind != y->kind || x->chunks != y->chunks || x->size != y->size || !same_text(x->chunk, y->chunk) ||
		    !same_text(x->order, y->order) || !same_words(x->names, x->name_count, y->names, y->name_count) ||
		    !same_words(x->results, x->result_count, y->results, y->result_count))
			return false;
	}
	return true;
}

static bool same_declarations(const lc_program *a, const lc_program *b) {
	if (a->axis_count != b->axis_count || a->named_count != b->named_count || a->lists.count != b->lists.count)
		return false;
	for (int i = 0; i < a->axis_count; i++)
		if (strcmp(a->axes[i].name, b->axes[i].name) != 0 || a->axes[i].size != b->axes[i].size) return false;
	for (int i = 0; i < a->named_count; i++)
		if (strcmp(a->named[i].name, b->named[i].name) != 0 || a->named[i].list != b->named[i].list) return false;
	for (size_t i = 0; i < a->lists.count; i++)
		if (strcmp(a->lists.at[i], b->lists.at[i]) != 0) return false;
	return true;
}

bool lc_program_equal(const lc_program *a, const lc_program *b) {
	if (strcmp(a->name, b->name) != 0 || !same_declarations(a, b)) return false;
	if (a->nodes.count != b->nodes.count || a->schedules.count != b->schedules.count) return false;
	for (size_t i = 0; i < a->nodes.count; i++)
		if (!same_node(a, &a->nodes.at[i], b, &b->nodes.at[i])) return false;
	for (size_t i = 0; i < a->schedules.count; i++)
		if (!same_schedule(&a->schedules.at[i], &b->schedules.at[i])) return false;
	return true;
}
