/* program.c: the tables of operations and formats; programs, their names, and equality of
 * programs. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "lang/types/program.h"

const lc_op_row lc_ops[LC_OP_COUNT] = {
#define ROW(symbol, name, family, operands, ...) \
	[LC_##symbol] = {name, LC_##family, operands, {__VA_ARGS__}},
	LC_OPS(ROW)
#undef ROW
};

const char *const lc_directive_names[LC_DIRECTIVES] = {
	[LC_SPLIT] = "split",
	[LC_REORDER] = "reorder",
	[LC_SLICE_STATE] = "slice",
	[LC_FUSE] = "fuse",
	[LC_OVERLAP] = "overlap",
	[LC_BUCKET] = "bucket",
	[LC_HIERARCHICAL] = "hierarchical",
	[LC_RECOMPUTE] = "recompute",
	[LC_RING] = "ring",
	[LC_ULYSSES] = "ulysses",
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
	static const char *const names[LC_REDUCES] = {
		[LC_SUM] = "sum", [LC_RMAX] = "max", [LC_RMIN] = "min"};
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

static void free_vectors(lc_program *program) {
	lk_vec_free(&program->lists);
	lk_vec_free(&program->dims);
	lk_vec_free(&program->nodes);
	lk_vec_free(&program->conditions);
	lk_vec_free(&program->schedules);
	lk_vec_free(&program->bundles);
}

void lc_file_free(lc_file *file) {
	if (!file) return;
	for (size_t i = 0; i < file->programs.count; i++) free_vectors(file->programs.at[i]);
	lk_vec_free(&file->programs);
	lk_arena_free(&file->arena);
	free(file);
}

lc_program *lc_program_new(lc_file *file, const char *name) {
	lc_program *program = LK_NEW(&file->arena, lc_program);
	lc_dim one;
	if (!program || !lk_push(&file->programs)) return NULL;
	*lk_last(&file->programs) = program;
	program->file = file;
	program->name = lk_arena_strdup(&file->arena, name);
	return program->name && lc_dim_number(program, 1, &one, NULL) == LK_OK ? program : NULL;
}

lc_program *lc_program_like(const lc_program *program) {
	lc_program *q = calloc(1, sizeof *q);
	if (!q) return NULL;
	q->file = program->file;
	q->name = program->name;
	q->line = program->line;
	q->column = program->column;
	memcpy(q->axes, program->axes, sizeof q->axes);
	memcpy(q->named, program->named, sizeof q->named);
	q->axis_count = program->axis_count;
	q->named_count = program->named_count;
	bool room = true;
	for (size_t i = 0; i < program->lists.count && (room = lk_push(&q->lists)); i++)
		q->lists.at[i] = program->lists.at[i];
	for (size_t i = 0; i < program->dims.count && room && (room = lk_push(&q->dims)); i++)
		q->dims.at[i] = program->dims.at[i];
	if (room) return q;
	lc_program_free(q);
	return NULL;
}

void lc_program_free(lc_program *program) {
	if (!program) return;
	free_vectors(program);
	free(program);
}

/* ---- names ---- */

int lc_axis_find(const lc_program *program, const char *name) {
	for (int i = 0; i < program->axis_count; i++)
		if (strcmp(program->axes[i].name, name) == 0) return i;
	return -1;
}

int lc_dim_find(const lc_program *program, const char *name) {
	for (int i = 0; i < program->named_count; i++)
		if (strcmp(program->named[i].name, name) == 0) return i;
	return -1;
}

int lc_list_find(const lc_program *program, const char *name) {
	for (size_t i = 0; i < program->lists.count; i++)
		if (strcmp(program->lists.at[i], name) == 0) return (int)i;
	return -1;
}

int lc_value_find(const lc_program *program, const char *name) {
	for (size_t i = program->nodes.count; i-- > 0;)
		if (program->nodes.at[i].name && strcmp(program->nodes.at[i].name, name) == 0)
			return (int)i;
	return -1;
}

lk_status lc_name_free(const lc_program *program, const char *name, int line, int column,
                       lk_error *err) {
	const char *as;
	if (lc_axis_find(program, name) >= 0) as = "a mesh axis";
	else if (lc_dim_find(program, name) >= 0) as = "a dim";
	else if (lc_list_find(program, name) >= 0) as = "a list";
	else as = NULL;
	int value = lc_value_find(program, name);
	if (!as && value < 0) return LK_OK;
	if (as) {
		lc_wrong(program, line, column, err, "%s is %s already", name, as);
		return lk_hint(err, "choose another name");
	}
	const lc_node *node = &program->nodes.at[value];
	lc_wrong(program, line, column, err, "%s is defined already, in line %d", name, node->line);
	bool state = node->op == LC_STATE || node->op == LC_UPDATE;
	return state ? lk_hint(err, "a state changes by %s <- ...", name)
	             : lk_hint(err, "choose another name");
}

static lk_status keep_name(lc_program *program, const char *name, const char **out, lk_error *err) {
	LK_TRY(lc_name_free(program, name, program->line, program->column, err));
	*out = lk_arena_strdup(&program->file->arena, name);
	return *out ? LK_OK : lk_oom(err);
}

lk_status lc_axis_add(lc_program *program, const char *name, int64_t size, lk_error *err) {
	if (program->axis_count == LC_AXES)
		return lc_wrong(program, program->line, program->column, err, "a mesh has at most %d axes",
		                LC_AXES);
	LK_TRY(keep_name(program, name, &program->axes[program->axis_count].name, err));
	program->axes[program->axis_count++].size = size;
	return LK_OK;
}

lk_status lc_dim_declare(lc_program *program, const char *name, int list, lk_error *err) {
	if (program->named_count == LC_DIMS)
		return lc_wrong(program, program->line, program->column, err,
		                "a program has at most %d dims", LC_DIMS);
	LK_TRY(keep_name(program, name, &program->named[program->named_count].name, err));
	program->named[program->named_count++].list = list;
	return LK_OK;
}

lk_status lc_list_add(lc_program *program, const char *name, lk_error *err) {
	const char *kept;
	if (program->lists.count == LC_DIMS)
		return lc_wrong(program, program->line, program->column, err,
		                "a program has at most %d lists", LC_DIMS);
	LK_TRY(keep_name(program, name, &kept, err));
	if (!lk_push(&program->lists)) return lk_oom(err);
	*lk_last(&program->lists) = kept;
	return LK_OK;
}

bool lc_program_has(const lc_program *program, lc_family family) {
	for (size_t i = 0; i < program->nodes.count; i++)
		if (lc_ops[program->nodes.at[i].op].family == family) return true;
	return false;
}

/* ---- equality ---- */

bool lc_same_layout(const lc_layout *a, const lc_layout *b) {
	if (a->kind != b->kind) return false;
	if (a->kind == LC_S) return a->dim == b->dim && a->turn == b->turn;
	if (a->kind == LC_P) return a->reduce == b->reduce;
	return a->kind != LC_ROOT || a->root == b->root;
}

bool lc_relabels(const lc_node *node) {
	return node->op == LC_LOCAL || node->op == LC_SLICED || node->op == LC_PARTIAL ||
	       node->op == LC_PARTS || node->op == LC_JOIN;
}

bool lc_same_group(const lc_group *a, const lc_group *b) {
	if (a->axis != b->axis) return false;
	return a->axis < 0 || (a->offset == b->offset && lk_same_text(a->index, b->index));
}

static bool same_dim(const lc_program *a, lc_dim x, const lc_program *b, lc_dim y) {
	const lc_dim_sum *sum = &a->dims.at[x], *dim_sum = &b->dims.at[y];
	return sum->count == dim_sum->count &&
	       memcmp(sum->terms, dim_sum->terms, sizeof *sum->terms * (size_t)sum->count) == 0;
}

static bool same_attributes(const lc_node *x, const lc_node *y) {
	return x->axis == y->axis && x->d == y->d && x->e == y->e && x->reduce == y->reduce &&
	       x->dims == y->dims && x->keep == y->keep && x->ta == y->ta && x->tb == y->tb &&
	       x->reverse == y->reverse && x->causal == y->causal && x->part == y->part &&
	       x->window == y->window && x->root == y->root && x->shift == y->shift && x->by == y->by &&
	       x->stride == y->stride && x->pad == y->pad && x->symbol == y->symbol &&
	       x->key == y->key && x->number == y->number;
}

static bool program_same_node(const lc_program *a, const lc_node *x, const lc_program *b,
                              const lc_node *y) {
	if (x->op != y->op || x->dtype != y->dtype || x->rank != y->rank || x->inputs != y->inputs ||
	    x->list != y->list)
		return false;
	for (int i = 0; i < x->inputs; i++)
		if (x->in[i] != y->in[i]) return false;
	for (int i = 0; i < x->rank; i++)
		if (!same_dim(a, x->dim[i], b, y->dim[i])) return false;
	for (int i = 0; i < a->axis_count; i++)
		if (!lc_same_layout(&x->layout[i], &y->layout[i])) return false;
	return lc_same_group(&x->at, &y->at) && lc_same_group(&x->from, &y->from) &&
	       same_attributes(x, y) && lk_same_text(x->name, y->name);
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
		if (x->kind != y->kind || x->chunks != y->chunks || x->size != y->size ||
		    !lk_same_text(x->chunk, y->chunk) || !lk_same_text(x->order, y->order) ||
		    !same_words(x->names, x->name_count, y->names, y->name_count) ||
		    !same_words(x->results, x->result_count, y->results, y->result_count))
			return false;
	}
	return true;
}

static bool same_declarations(const lc_program *a, const lc_program *b) {
	if (a->axis_count != b->axis_count || a->named_count != b->named_count ||
	    a->lists.count != b->lists.count)
		return false;
	for (int i = 0; i < a->axis_count; i++)
		if (strcmp(a->axes[i].name, b->axes[i].name) != 0 || a->axes[i].size != b->axes[i].size)
			return false;
	for (int i = 0; i < a->named_count; i++)
		if (strcmp(a->named[i].name, b->named[i].name) != 0 || a->named[i].list != b->named[i].list)
			return false;
	for (size_t i = 0; i < a->lists.count; i++)
		if (strcmp(a->lists.at[i], b->lists.at[i]) != 0) return false;
	return true;
}

bool lc_program_equal(const lc_program *a, const lc_program *b) {
	if (strcmp(a->name, b->name) != 0 || !same_declarations(a, b)) return false;
	if (a->nodes.count != b->nodes.count || a->schedules.count != b->schedules.count) return false;
	for (size_t i = 0; i < a->nodes.count; i++)
		if (!program_same_node(a, &a->nodes.at[i], b, &b->nodes.at[i])) return false;
	for (size_t i = 0; i < a->schedules.count; i++)
		if (!same_schedule(&a->schedules.at[i], &b->schedules.at[i])) return false;
	return true;
}
