/* form.h: versions of the files that lockstep writes and reads. A form is incremented when the
 * meaning of such a file changes; files of older forms remain readable (tests/data/forms), a newer
 * one is refused. A table or text carries it in its first line, "# lockstep NAME N", JSON in its
 * first member, "lockstep_NAME": N, an answer in its schema. A file without one has form 1: people
 * write some of them, and the first ones had none. Step graphs and recordings check it in their own
 * readers. */
#ifndef LK_IO_FORM_H
#define LK_IO_FORM_H

#include <stddef.h>

#include "io/json.h"
#include "lockstep/error.h"

typedef enum lk_form {
	LK_FORM_CALIBRATION,
	LK_FORM_CLUSTER,
	LK_FORM_JOBS,
	LK_FORM_OVERHEADS,
	LK_FORM_PLACEMENT,
	LK_FORM_WISDOM,
	LK_FORMS
} lk_form;

const char *lk_form_name(lk_form form);
int lk_form_newest(lk_form form);
/* Write "# lockstep jobs 1", without a line end; returns `out`. */
const char *lk_form_line(lk_form form, char *out, size_t size);
void lk_form_put(lk_json_writer *writer, lk_form form);

/* Report that `what`, "a calibration", has a form that this program does not read
 * (LK_ERR_INPUT). */
lk_status lk_form_refuse(const char *what, double version, int newest, const char *where,
                         lk_error *err);
/* lk_form_refuse unless the version is an integer from 1 to the newest. */
lk_status lk_form_check(lk_form form, double version, const char *where, lk_error *err);
/* Refuse forms newer than this program (LK_ERR_INPUT): by the first line of a file, whichever form
 * it states, or none; by the member of a document, if present. */
lk_status lk_form_check_line(const char *line, const char *where, lk_error *err);
lk_status lk_form_check_member(lk_form form, const lk_value *document, const char *file,
                               lk_error *err);
/* Likewise for an answer: *verb is "plan" for "lockstep/plan/1", in `size` bytes; "" if the
 * document is not an answer of lockstep. */
lk_status lk_form_check_answer(const lk_value *document, const char *file, char *verb, size_t size,
                               lk_error *err);

#endif
