/* calibration_current.c: the rows in use: those of data/calibration as packed by the build,
 * overridden by those of the request's file. */
#include "cost/calibration/calibration.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "system/context.h"
#include "base/check.h"
#include "base/trees.h"
#include "cost/calibration/calibration_packed.h"

/* Rows with what models make of them: those of a context, or of a request. Requests inside of one
 * that names the same file share its rows. */
typedef struct lk_laid_calibration {
	lk_kept kept; /* first; in a context */
	lk_calibration rows;
	pthread_mutex_t lock; /* of the rest */
	lk_arena arena;
	_Atomic(const void *) made[LK_CALIBRATION_PARTS];
	char *path; /* of the request's file; NULL: in a context */
	atomic_int holders;
} laid_rows;

static void laid_drop(laid_rows *laid) {
	if (!laid || atomic_fetch_sub(&laid->holders, 1) > 1) return;
	lk_calibration_free(&laid->rows);
	lk_arena_free(&laid->arena);
	pthread_mutex_destroy(&laid->lock);
	free(laid->path);
	free(laid);
}

static void laid_free(lk_kept *kept) {
	laid_drop((laid_rows *)kept);
}

static laid_rows *laid_new(void) {
	laid_rows *laid = calloc(1, sizeof *laid);
	if (!laid) return NULL;
	if (pthread_mutex_init(&laid->lock, NULL) != 0) {
		free(laid);
		return NULL;
	}
	laid->kept.free = laid_free;
	atomic_init(&laid->holders, 1);
	return laid;
}

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

/* Lays the rows of a file on top. */
static lk_status laid_read(const char *path, laid_rows *laid, lk_error *err) {
	size_t below = laid->rows.rows.count;
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_calibration_read(in, &laid->rows, err);
	lk_stream_close(in);
	return status == LK_OK ? check_trees(&laid->rows, below, err) : status;
}

/* ---- those of a context ---- */

/* Rows as models read them, out of the offsets of the packed ones. */
static lk_status calibration_unpack(lk_calibration *into, lk_error *err) {
	const lk_calibration_packed *packed = &lk_calibration_built_in;
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

/* Built-in rows, under those of a file (NULL: none). The build read what is built in: without a file
 * an error can only be memory. */
static lk_status calibration_load(const char *path, laid_rows **out, lk_error *err) {
	laid_rows *laid = laid_new();
	if (!laid) return lk_oom(err);
	lk_status status = calibration_unpack(&laid->rows, err);
	if (status == LK_OK && path) status = laid_read(path, laid, err);
	if (status == LK_OK) *out = laid;
	else laid_drop(laid);
	return status;
}

lk_status lk_context_calibration(lk_context *context, const char *path, lk_error *err) {
	laid_rows *laid = NULL;
	LK_TRY(calibration_load(path, &laid, err));
	if (lk_context_keep(context, LK_CONTEXT_CALIBRATION, &laid->kept)) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, path, "the calibration is already in use and cannot change");
}

static laid_rows *context_rows(void) {
	return (laid_rows *)lk_context_kept(LK_CONTEXT_CALIBRATION);
}

/* After an error nothing is in use, and the next one who asks loads again. */
lk_status lk_calibration_ready(lk_error *err) {
	laid_rows *laid = NULL;
	if (context_rows()) return LK_OK;
	LK_TRY(calibration_load(NULL, &laid, err));
	lk_context_keep(lk_carried_here()->context, LK_CONTEXT_CALIBRATION, &laid->kept);
	return LK_OK;
}

/* ---- those in use ---- */

/* NULL: the context's cannot be loaded. */
static laid_rows *rows_in_use(lk_error *err) {
	laid_rows *laid = lk_carried_here()->on;
	if (!laid) laid = context_rows();
	if (laid || lk_calibration_ready(err) != LK_OK) return laid;
	return context_rows();
}

const lk_calibration *lk_calibration_current(void) {
	static const lk_calibration none;
	lk_error unused;
	const laid_rows *laid = rows_in_use(&unused);
	return laid ? &laid->rows : &none;
}

lk_status lk_calibration_made(lk_calibration_part part, lk_calibration_maker *make,
                              const void **out, lk_error *err) {
	laid_rows *in = rows_in_use(err);
	if (!in) return LK_ERR_MEMORY;
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

/* ---- those of a request ---- */

static lk_status laid_copy(const lk_calibration *below, laid_rows *laid, lk_error *err) {
	if (!lk_calibration_reserve(&laid->rows, below->rows.count)) return lk_oom(err);
	for (size_t i = 0; i < below->rows.count; i++)
		lk_calibration_enter(&laid->rows, &below->rows.at[i]);
	return LK_OK;
}

static lk_status laid_open(const char *path, laid_rows **out, lk_error *err) {
	laid_rows *laid = laid_new();
	if (!laid) return lk_oom(err);
	laid->path = strdup(path);
	lk_status status = laid->path ? laid_copy(&context_rows()->rows, laid, err) : lk_oom(err);
	if (status == LK_OK) status = laid_read(path, laid, err);
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
