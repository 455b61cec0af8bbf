/* ops_memory.h: memory-bound operations of a table of kernel times. */
#ifndef LK_ACCURACY_OPS_MEMORY_H
#define LK_ACCURACY_OPS_MEMORY_H

#include "fit/fit_memory.h"
#include "validate/ops_parts.h"
#include "fit/misses.h"

/* Rows of one device, operation and format. */
typedef struct lk_memory_rows {
	const lk_device *device;
	const lk_memory_kernel *kernel;
	lk_dtype dtype;
	LK_VEC(size_t) rows;          /* of the table */
	lk_memory_model whole;        /* fitted to all of them, once `fitted` */
	bool fitted;
} lk_memory_rows;

typedef struct lk_memory_table {
	const lk_op_sample *samples;
	size_t count;
	LK_VEC(lk_memory_rows) groups;
	lk_memory_point *points;      /* scratch, room for all rows */
	int *fold;                    /* [count] */
	int folds;
	bool few_widths;              /* each is a fold */
} lk_memory_table;

/* Sorts rows into groups; `why` ([count], may be NULL) gets the reason where a row has no place. Free in every case. */
lk_status lk_memory_table_sort(lk_arena *arena, const lk_op_sample *samples, size_t count, const char **why,
                               lk_memory_table *out, lk_error *err);
void lk_memory_table_free(lk_memory_table *table);
/* Fills the folds: widths, or devices. */
lk_status lk_memory_table_folds(lk_arena *arena, lk_memory_table *table, int kind, lk_error *err);

/* The group with the rows outside a fold (-1: all rows) as points. */
lk_memory_group lk_memory_table_points(lk_memory_table *table, const lk_memory_rows *rows, int fold);
/* The fit to all rows; done once. */
const lk_memory_model *lk_memory_table_whole(lk_memory_table *table, lk_memory_rows *rows);

/* "flat fp16 a40 64 us": rows that miss alike, by the predicted time. */
const char *lk_memory_range_class(lk_arena *arena, const lk_memory_rows *rows, double seconds);

/* Share of the misses of other folds that a range must hold to hold enough of a fold's: few widths miss each in its
 * own way. */
double lk_memory_inside(const lk_memory_table *table);

/* Misses of rows whose width the fit had not seen, one for each sample; and the share of them that a range holds. */
lk_status lk_ops_memory_misses(lk_arena *arena, const lk_op_samples *samples, lk_miss **out, double *share,
                               lk_error *err);

#endif
