/* calibration_current.c: the rows in use: those of data/calibration as the build packed them, then
 * those of the file that the user named. */
#include "cost/calibration/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/once.h"
#include "base/trees.h"
#include "cost/calibration/calibration_packed.h"

static lk_calibration current;

/* Trees that nobody could read would be left out in silence. */
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

/* Rows as models read them, out of the offsets of the packed ones. */
static lk_status calibration_load(lk_error *err) {
	const lk_calibration_packed *packed = &lk_calibration_built_in;
	lk_calibration_number *numbers =
		LK_ARRAY(&current.arena, lk_calibration_number, packed->number_count);
	if (!numbers || !lk_calibration_reserve(&current, packed->row_count)) return lk_oom(err);
	for (size_t i = 0; i < packed->number_count; i++)
		numbers[i] = (lk_calibration_number){packed->texts + packed->names[i], packed->values[i]};
	for (size_t i = 0; i < packed->row_count; i++) {
		const lk_calibration_packed_row *row = &packed->rows[i];
		lk_calibration_enter(&current, &(lk_calibration_row){
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
	lk_calibration_free(&current);
}

/* What was compiled in was read by the build: an error here can only be memory. Then nothing is in
 * use, and the next one who asks loads again. */
lk_status lk_calibration_ready(lk_error *err) {
	static lk_once once = LK_ONCE_INIT;
	return lk_once_load(&once, calibration_load, calibration_forget, err);
}

const lk_calibration *lk_calibration_current(void) {
	lk_error unused;
	lk_calibration_ready(&unused);
	return &current;
}

lk_status lk_calibration_use(const char *path, lk_error *err) {
	static const char *in_use; /* the file laid on top last: requests of a sweep all name it */
	LK_TRY(lk_calibration_ready(err));
	if (in_use && strcmp(in_use, path) == 0) return LK_OK;
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	size_t before = current.rows.count;
	lk_status status = lk_calibration_read(in, &current, err);
	lk_stream_close(in);
	if (status == LK_OK) status = check_trees(&current, before, err);
	if (status != LK_OK) lk_calibration_cut(&current, before);
	if (status == LK_OK) in_use = lk_arena_strdup(&current.arena, path);
	return status;
}
