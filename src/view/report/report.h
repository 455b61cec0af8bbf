/* report.h: how the reports of the verbs are built (docs/guide/html.md): a head, panels, texts, and
 * the verb's whole answer. A file report_VERB.c per verb says which panels; report_page.c makes a
 * page of the document. */
#ifndef LK_VIEW_REPORT_REPORT_H
#define LK_VIEW_REPORT_REPORT_H

#include <stdio.h>

#include "io/json.h"
#include "lockstep/diff.h"
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/report.h"
#include "lockstep/validate.h"
#include "view/table/output.h"

typedef lk_json_writer lk_report;

/* ---- the frame ---- */

/* What is reported, and how. */
typedef struct lk_report_job {
	const char *verb, *title, *reproduce;
	const void *answer;
	const lk_inputs *inputs;
	/* The panels; errors of memory are to be returned. NULL: `answer` is an lk_value, the whole
	 * document. */
	lk_status (*panels)(const void *answer, lk_report *r, lk_error *err);
	/* Assumptions and warnings. */
	void (*assumptions)(const void *answer, lk_report *r);
	void (*warnings)(const void *answer, lk_report *r);
	/* The answer as JSON, as -o json writes it. */
	lk_writer *result;        /* NULL: the panels say all of it */
	const char *reproduces;   /* what the command is of, where it is not the whole question; NULL */
	const char *failed_check; /* of the answer (base/check.h); NULL: none */
} lk_report_job;

lk_status lk_report_save(const lk_report_job *job, lk_report_form form, const char *path, FILE *out,
                         lk_error *err);

/* "inputs": path, size and hash of each file. */
void lk_report_inputs(lk_report *writer, const lk_inputs *inputs);

/* ---- panels ---- */

/* Begins a panel; `note` (may be NULL) stands below its title. `wide`: takes the whole width. */
void lk_report_panel(lk_report *writer, const char *kind, const char *title, const char *note,
                     bool wide);
/* Inside of a panel: what a page with a pointer and a keyboard can do there; pictures leave it out.
 */
void lk_report_hint(lk_report *writer, const char *hint);
void lk_report_panel_end(lk_report *writer);

/* A panel "verdict": a state ("yes", "no", "plain"), a headline and a line below it. Figures and
 * facts follow, each list ended by lk_json_array_end: lk_report_figures, then lk_report_figure ...;
 * lk_report_facts, then lk_report_fact ... */
void lk_report_verdict(lk_report *writer, const char *state, const char *headline,
                       const char *detail);
void lk_report_figures(lk_report *writer);
void lk_report_figure(lk_report *writer, const char *label, const char *value, const char *range,
                      const char *note);
/* "step time", s, with its 80 % range. */
void lk_report_figure_of_step(lk_report *writer, double step_s, double low_s, double high_s);
void lk_report_facts(lk_report *writer);
void lk_report_fact(lk_report *writer, const char *label,
                    const char *text); /* NULL or "": left out */

/* An element {key, label} of "parts" or "kinds": the key chooses the colour. */
void lk_report_part(lk_report *writer, const char *key, const char *label);

/* An element of an array of texts. */
void lk_report_text(lk_report *writer, const char *text);

/* A step of a panel "waterfall". `total`: a bar from zero. */
void lk_report_fall(lk_report *writer, const char *key, const char *label, double seconds,
                    const char *note, bool total);

/* A row of a panel "bars": stacked values, one for each of its parts; `mark` (may be NULL) stands
 * out alongside them. */
void lk_report_row(lk_report *writer, const char *name, const char *mark, const double *values,
                   int count);

/* A panel "scatter": its axes ("x", "y"), then the array "series"; a series is ended by
 * lk_report_series_end. Of a point, `text` and `command` may be NULL; a click on the point shows
 * the command. */
void lk_report_axis(lk_report *writer, const char *key, const char *label, const char *unit,
                    bool log);
void lk_report_series(lk_report *writer, const char *name, const char *key, bool line);
void lk_report_point(lk_report *writer, double x, double y, const char *text, const char *command);
void lk_report_series_end(lk_report *writer);

/* A row of a panel "tornado": the value with a rate lower, and higher; NAN unknown. */
void lk_report_swing(lk_report *writer, const char *label, double low, double high);

/* A table as a panel; frees it. Only the first `most` rows (0: all), which is said; a table without
 * rows is no panel. NULL (out of memory) is an error. */
lk_status lk_report_table(lk_report *writer, const char *title, const char *note, bool wide,
                          lk_table *table, int most, lk_error *err);

/* The same with `more`, which adds to the panel's object. */
typedef lk_status lk_report_more(lk_report *r, const void *context, lk_error *err);
lk_status lk_report_table_with(lk_report *writer, const char *title, const char *note, bool wide,
                               lk_table *table, int most, lk_report_more *more, const void *context,
                               lk_error *err);

/* What a table leaves to other parts of the page: a column by its key is hidden. */
void lk_report_hide(lk_table *table, const char *key);
/* The other way round. */
void lk_report_reveal(lk_table *table, const char *key);
/* Names a column of which a terminal shows by its place what it is; `title` is a literal. */
void lk_report_rename(lk_table *table, const char *key, const char *title);
/* Numbers of a long table with so many digits. */
void lk_report_round(lk_table *table, int digits);
/* Hides those of the columns (keys, the last NULL) that say the same in every row of a table of two
 * or more, and writes what they say to `out`: "zero 1, recompute none". Returns `out`. */
char *lk_report_same(lk_table *table, const char *const *keys, char *out, size_t size);

/* ---- report_page: a report's document as a page. */

/* Fills data/web/page.html: style and script inlined, told to the browser by their hashes, the
 * document as JSON that cannot end its element. */
lk_status lk_report_page(const char *title, const char *document, size_t size, FILE *out,
                         lk_error *err);

/* ---- report_pipeline: panels of a prediction's detail: the pipeline, stages, collectives,
 * kernels. */

lk_status lk_report_pipeline(lk_report *writer, const lk_prediction *prediction, lk_error *err);

/* ---- report_versus: a measured run beside its prediction. */

/* The traced step over the predicted one, where there is one. */
lk_status lk_report_traced_step(lk_report *writer, const lk_explanation *explanation,
                                lk_error *err);
lk_status lk_report_versus(lk_report *writer, const lk_versus *versus, lk_error *err);
lk_status lk_report_expected(lk_report *writer, const lk_expected *expected, lk_error *err);

/* ---- picture: the charts of a report's document as one picture. */

lk_status lk_picture_write(const char *document, size_t size, bool png, FILE *out, lk_error *err);
/* An SVG drawn as PNG; LK_ERR_INPUT names the package that is not there. */
lk_status lk_picture_png(const char *svg, size_t size, FILE *out, lk_error *err);

/* ---- plot: predicted over measured as a picture. The public function is lk_validate_plot
 * (lockstep/validate.h). */

enum { LK_PLOT_POINTS = 3000 }; /* of more rows, about so many are drawn */

/* For XML: control characters and wrong UTF-8 as \xNN, then the signs of markup; at most `most`
 * characters. */
void lk_plot_put_text(FILE *out, const char *text, int most);
/* Marks on a logarithmic axis from 10^low to 10^high. Times and counts have marks at decades, or at
 * 1, 2, 5 and between where the axis is short; bytes at powers of two. */
enum { LK_PLOT_TICKS = 24 };
int lk_plot_ticks(double low, double high, const char *unit, double at[LK_PLOT_TICKS]);

#endif
