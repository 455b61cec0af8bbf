/* ops_memory_table.c: memory-bound rows of a table of kernel times, sorted into groups that are
 * fitted together and folds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "validate/validate.h"
#include "base/stats.h"
#include "base/sort.h"
#include "model/read/read.h"

enum { FEW_WIDTHS = 32, SHARES = 8 };

/* ---- groups ---- */

/* Networks differ in the meaning of a name: with a parallel residual an addition has three terms,
 * and there are two kinds of norms. */
static lk_status kernel_named(const lk_op_sample *sample, const lk_memory_kernel **out,
                              lk_error *err) {
	lk_model model = {0};
	bool known = false;
	const char *name = sample->op;
	if (*sample->model) LK_TRY(lk_model_find(sample->model, &model, &known, err));
	if (strcmp(name, "add") == 0 && known && model.parallel_residual) name = "add_parallel";
	if (strcmp(name, "rmsnorm_or_layernorm") == 0)
		name = known && model.norm == LK_NORM_LAYER ? "layernorm" : "rmsnorm";
	*out = lk_memory_kernel_find(name);
	return LK_OK;
}

/* Cache by name: each text of a table has one address. */
struct known_kernel {
	const char *op, *model;
	const lk_memory_kernel *kernel;
};
typedef LK_VEC(struct known_kernel) known_kernels;

static lk_status kernel_of(known_kernels *known, const lk_op_sample *sample,
                           const lk_memory_kernel **out, lk_error *err) {
	for (size_t i = known->count; i-- > 0;) {
		*out = known->at[i].kernel;
		if (known->at[i].op == sample->op && known->at[i].model == sample->model) return LK_OK;
	}
	LK_TRY(kernel_named(sample, out, err));
	if (!lk_push(known)) return lk_oom(err);
	*lk_last(known) = (struct known_kernel){sample->op, sample->model, *out};
	return LK_OK;
}

static lk_memory_rows *memory_table_group_of(lk_memory_table *table, const lk_op_sample *sample,
                                             const lk_memory_kernel *kernel) {
	for (size_t i = table->groups.count; i-- > 0;) {
		lk_memory_rows *rows = &table->groups.at[i];
		if (rows->device == sample->device && rows->kernel == kernel &&
		    rows->dtype == sample->dtype)
			return rows;
	}
	if (!lk_push(&table->groups)) return NULL;
	*lk_last(&table->groups) =
		(lk_memory_rows){.device = sample->device, .kernel = kernel, .dtype = sample->dtype};
	return lk_last(&table->groups);
}

static lk_status sort_rows(lk_memory_table *table, known_kernels *known, const char **why,
                           lk_error *err) {
	for (size_t i = 0; i < table->count; i++) {
		const lk_op_sample *sample = &table->samples[i];
		const lk_memory_kernel *kernel = NULL;
		if (sample->family != LK_FAMILY_MEMORY) continue;
		LK_TRY(kernel_of(known, sample, &kernel, err));
		const char *reason;
		if (!sample->device) reason = "the device is not in the catalogue";
		else if (!kernel) reason = "the operation is not modelled";
		else reason = NULL;
		if (why) why[i] = reason;
		if (reason) continue;
		lk_memory_rows *rows = memory_table_group_of(table, sample, kernel);
		if (!rows || !lk_push(&rows->rows)) return lk_oom(err);
		*lk_last(&rows->rows) = i;
	}
	return LK_OK;
}

lk_status lk_memory_table_sort(lk_arena *arena, const lk_op_sample *samples, size_t count,
                               const char **why, lk_memory_table *out, lk_error *err) {
	*out = (lk_memory_table){.samples = samples, .count = count};
	out->points = LK_ARRAY(arena, lk_memory_point, count);
	out->fold = LK_ARRAY(arena, int, count);
	if (!out->points || !out->fold) return lk_oom(err);
	known_kernels known = {0};
	lk_status status = sort_rows(out, &known, why, err);
	lk_vec_free(&known);
	return status;
}

void lk_memory_table_free(lk_memory_table *table) {
	for (size_t i = 0; i < table->groups.count; i++) lk_vec_free(&table->groups.at[i].rows);
	lk_vec_free(&table->groups);
}

/* ---- folds ---- */

/* With few widths, each is a fold; with many, an even share of them, by hash. */
static lk_status folds_of_widths(lk_arena *arena, lk_memory_table *table, lk_error *err) {
	double *widths = LK_ARRAY(arena, double, table->count);
	size_t rows = 0, different = 0;
	if (!widths) return lk_oom(err);
	for (size_t i = 0; i < table->count; i++)
		if (table->samples[i].family == LK_FAMILY_MEMORY) widths[rows++] = table->samples[i].n;
	lk_sort(widths, rows, sizeof *widths, lk_ascending);
	for (size_t i = 0; i < rows; i++)
		if (i == 0 || widths[i] != widths[i - 1]) widths[different++] = widths[i];
	table->few_widths = different <= FEW_WIDTHS;
	table->folds = table->few_widths ? (int)different : SHARES;
	for (size_t i = 0; i < table->count; i++) {
		double n = table->samples[i].n,
			   *place = bsearch(&n, widths, different, sizeof n, lk_ascending);
		if (place)
			table->fold[i] =
				table->few_widths ? (int)(place - widths) : (int)(lk_hash64((uint64_t)n) % SHARES);
	}
	return LK_OK;
}

static void folds_of_devices(lk_memory_table *table) {
	for (size_t i = 0; i < table->groups.count; i++) {
		size_t first = 0;
		while (table->groups.at[first].device != table->groups.at[i].device) first++;
		for (size_t r = 0; r < table->groups.at[i].rows.count; r++)
			table->fold[table->groups.at[i].rows.at[r]] = (int)first;
	}
	table->folds = (int)table->groups.count;
}

lk_status lk_memory_table_folds(lk_arena *arena, lk_memory_table *table, int kind, lk_error *err) {
	if (kind != LK_FOLDS_GPU) return folds_of_widths(arena, table, err);
	folds_of_devices(table);
	return LK_OK;
}

/* ---- fits ---- */

lk_memory_group lk_memory_table_points(lk_memory_table *table, const lk_memory_rows *rows,
                                       int fold) {
	lk_memory_group group = {rows->device, rows->kernel, rows->dtype, table->points, 0};
	for (size_t i = 0; i < rows->rows.count; i++) {
		const lk_op_sample *sample = &table->samples[rows->rows.at[i]];
		if (table->fold[rows->rows.at[i]] == fold) continue;
		table->points[group.count++] = (lk_memory_point){sample->m, sample->n, sample->seconds};
	}
	return group;
}

const lk_memory_model *lk_memory_table_whole(lk_memory_table *table, lk_memory_rows *rows) {
	if (!rows->fitted) {
		lk_memory_group group = lk_memory_table_points(table, rows, -1);
		rows->whole = lk_memory_fit(&group);
		rows->fitted = true;
	}
	return &rows->whole;
}

/* Operations that only stream have similar errors; times are grouped by octaves. */
const char *lk_memory_range_class(lk_arena *arena, const lk_memory_rows *rows, double seconds) {
	const char *kind = rows->kernel->grid == LK_GRID_FLAT ? "flat" : rows->kernel->name;
	int octave = (int)fmin(fmax(floor(log2(seconds * 1e6)), 0), 12);
	return lk_arena_printf(arena, "%s %s %s %d us", kind, lk_dtype_name(rows->dtype),
	                       rows->device->name, 1 << octave);
}

double lk_memory_inside(const lk_memory_table *table) {
	return table->few_widths ? 0.77 : 0.73;
}
