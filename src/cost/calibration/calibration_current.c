/* calibration_current.c: the rows in use: those of data/calibration as packed by the build,
 * overridden by those of the request's file. */
#include "cost/calibration/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "base/carried.h"
#include "base/check.h"
#include "base/once.h"
#include "base/trees.h"
#include "cost/calibration/calibration_packed.h"

/* ---- rows with what models derive from them ---- */

struct made_rows {
	lk_calibration rows;
	pthread_mutex_t lock; /* protects the rest */
	lk_arena arena;
	_Atomic(const void *) made[LK_CALIBRATION_PARTS];
};

static struct made_rows built_in = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The rows of a file over the built-in ones. Nested requests with the same file share them. */
typedef struct lk_laid_calibration {
	struct made_rows in; /* must be first */
	char *path;
	atomic_int holders;
} laid_rows;

static struct made_rows *rows_in_use(void) {
	laid_rows *laid = lk_carried_here()->on;
	return laid ? &laid->in : &built_in;
}

lk_status lk_calibration_made(lk_calibration_part part, lk_calibration_maker *make,
                              const void **out, lk_error *err) {
	LK_TRY(lk_calibration_ready(err));
	struct made_rows *in = rows_in_use();
	*out = atomic_load(&in->made[part]);
	if (*out) return LK_OK;
	pthread_mutex_lock(&in->lock);
	lk_status status = LK_OK;
	*out = atomic_load(&in->made[part]);
	if (!*out) status = make(&in->rows, &in->arena, out, err);
	if (status == LK_OK) atomic_store(&in->made[part], *out);
	pthread_mutex_unlock(&in->lock);
	return status;
}

/* ---- built-in rows ---- */

/* Build rows in the models' form from the offsets of the packed ones. */
static lk_status calibration_load(lk_error *err) {
	const lk_calibration_packed *packed = &lk_calibration_built_in;
	lk_calibration *into = &built_in.rows;
	lk_calibration_number *numbers =
		LK_ARRAY(&into->arena, lk_calibration_number, packed->number_count);
	if (!numbers || !lk_calibration_reserve(into, packed->row_count)) return lk_oom(err);
	for (size_t i = 0; i < packed->number_count; i++)
		numbers[i] = (lk_calibration_number){packed->texts + packed->names[i], packed->values[i]};
	for (size_t i = 0; i < packed->row_count; i++) {
		const lk_calibration_packed_row *row = &packed->rows[i];
		lk_calibration_enter(into, &(lk_calibration_row){
									   .family = packed->texts + row->family,
									   .subject = packed->texts + row->subject,
									   .variant = packed->texts + row->variant,
									   .numbers = numbers + row->first_number,
									   .count = row->count,
									   .text = row->text ? packed->texts + row->text : NULL,
									   .points = row->points,
									   .error = row->error,
									   .date = packed->texts + row->date,
									   .source = packed->texts + row->source,
									   .where = packed->texts + row->where,
									   .key = row->key,
								   });
	}
	return LK_OK;
}

static void calibration_forget(void) {
	lk_calibration_free(&built_in.rows);
}

/* The build has read the compiled-in rows: an error here can only be memory. Then nothing is in
 * use, and the next call loads again. */
lk_status lk_calibration_ready(lk_error *err) {
	static lk_once once = LK_ONCE_INIT;
	return lk_once_load(&once, calibration_load, calibration_forget, err);
}

const lk_calibration *lk_calibration_current(void) {
	lk_error unused;
	lk_calibration_ready(&unused);
	return &rows_in_use()->rows;
}

/* ---- rows of a request ---- */

/* Check that trees can be read: they would otherwise be silently ignored. */
static lk_status check_trees(const lk_calibration *calibration, size_t first, lk_error *err) {
	lk_arena scratch = LK_ARENA_INIT;
	lk_status status = LK_OK;
	lk_trees *trees = malloc(sizeof *trees);
	if (!trees) return lk_oom(err);
	for (size_t i = first; i < calibration->rows.count && status == LK_OK; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (row->text) status = lk_trees_read(&scratch, row->text, row->where, trees, err);
	}
	free(trees);
	lk_arena_free(&scratch);
	return status;
}

static void laid_drop(laid_rows *laid) {
	if (!laid || atomic_fetch_sub(&laid->holders, 1) > 1) return;
	lk_calibration_free(&laid->in.rows);
	lk_arena_free(&laid->in.arena);
	pthread_mutex_destroy(&laid->in.lock);
	free(laid->path);
	free(laid);
}

static lk_status laid_read(const char *path, laid_rows *laid, lk_error *err) {
	lk_calibration *rows = &laid->in.rows;
	lk_stream *in;
	laid->path = strdup(path);
	if (!laid->path || !lk_calibration_reserve(rows, built_in.rows.rows.count)) return lk_oom(err);
	for (size_t i = 0; i < built_in.rows.rows.count; i++)
		lk_calibration_enter(rows, &built_in.rows.rows.at[i]);
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_calibration_read(in, rows, err);
	lk_stream_close(in);
	return status == LK_OK ? check_trees(rows, built_in.rows.rows.count, err) : status;
}

static lk_status laid_open(const char *path, laid_rows **out, lk_error *err) {
	laid_rows *laid = calloc(1, sizeof *laid);
	if (!laid) return lk_oom(err);
	if (pthread_mutex_init(&laid->in.lock, NULL) != 0) return free(laid), lk_oom(err);
	atomic_init(&laid->holders, 1);
	lk_status status = laid_read(path, laid, err);
	if (status == LK_OK) *out = laid;
	else laid_drop(laid);
	return status;
}

lk_status lk_calibration_begin(lk_calibration_hold *hold, const char *path, lk_error *err) {
	laid_rows *before = lk_carried_here()->on, *laid = before;
	*hold = (lk_calibration_hold){0};
	LK_TRY(lk_calibration_ready(err));
	if (path && !(before && strcmp(before->path, path) == 0)) LK_TRY(laid_open(path, &laid, err));
	else if (laid) atomic_fetch_add(&laid->holders, 1);
	*hold = (lk_calibration_hold){.laid = laid, .before = before};
	lk_carried_here()->on = laid;
	return LK_OK;
}

void lk_calibration_leave(lk_calibration_hold *hold) {
	lk_carried_here()->on = hold->before;
	hold->before = NULL;
}

void lk_calibration_release(lk_calibration_hold *hold) {
	laid_drop(hold->laid);
	hold->laid = NULL;
}

void lk_calibration_end(lk_calibration_hold *hold) {
	lk_calibration_leave(hold);
	lk_calibration_release(hold);
}
