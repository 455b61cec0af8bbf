/* report.h: answers as pictures: one report per verb, as a self-contained HTML file or as the JSON
 * document that such a file shows. docs/guide/html.md has the form of the document.
 *
 *     lk_predict_request request = ...; request.detail = true;
 *     lk_prediction *prediction = ...;
 *     lk_report_predict(prediction, LK_REPORT_HTML, "job.html", NULL, &err);
 *
 * A report is written to `path` (a temporary file, then renamed; *.gz is compressed), or to `out`
 * if it is NULL. Texts are always escaped. Errors: LK_ERR_IO, LK_ERR_MEMORY; a file that could not
 * be completed is left unchanged. */
#ifndef LOCKSTEP_REPORT_H
#define LOCKSTEP_REPORT_H

#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/explain.h"
#include "lockstep/plan.h"
#include "lockstep/post_plan.h"
#include "lockstep/predict.h"
#include "lockstep/rent.h"
#include "lockstep/shard.h"
#include "lockstep/stalls.h"
#include "lockstep/view.h"
#include "lockstep/whatif.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The form of a report. */
typedef enum lk_report_form {
	LK_REPORT_JSON,   /* the document */
	LK_REPORT_HTML,   /* a self-contained page that shows it, without network access */
	LK_REPORT_CHARTS, /* only its charts, as a picture, by the extension of `path`: .svg, or .png if
	                   * librsvg is installed; LK_ERR_INPUT: another extension, no librsvg, no
	                   * chart */
} lk_report_form;

/* Pipeline, kernels and sensitivities are included if the prediction was made with `detail`. This
 * and the other reports are written to `path`, completely or not at all, or to `out` if it is NULL.
 * LK_ERR_IO: it cannot be written; LK_ERR_MEMORY. */
lk_status lk_report_predict(const lk_prediction *prediction, lk_report_form form, const char *path,
                            FILE *out, lk_error *err);

/* Many predictions as one report: the best one, the Pareto front, the step over the swept values, a
 * table with the command of each row. LK_ERR_IO: it cannot be written; LK_ERR_MEMORY. */
lk_status lk_report_sweep(const lk_sweep_row *rows, size_t count, lk_report_form form,
                          const char *path, FILE *out, lk_error *err);

/* Reports of the other verbs; as above: LK_ERR_IO, LK_ERR_MEMORY. */
lk_status lk_report_explain(const lk_explanation *explanation, lk_report_form form,
                            const char *path, FILE *out, lk_error *err);
lk_status lk_report_whatif(const lk_whatif *whatif, lk_report_form form, const char *path,
                           FILE *out, lk_error *err);
lk_status lk_report_plan(const lk_plan *plan, lk_report_form form, const char *path, FILE *out,
                         lk_error *err);
/* Likewise for a step of reinforcement learning: the best way to run it, where the time of each way
 * goes, all ways. LK_ERR_IO: it cannot be written; LK_ERR_MEMORY. */
lk_status lk_report_post_plan(const lk_post_plan *plan, lk_report_form form, const char *path,
                              FILE *out, lk_error *err);
lk_status lk_report_shard(const lk_shard_answer *answer, lk_report_form form, const char *path,
                          FILE *out, lk_error *err);
lk_status lk_report_rent(const lk_rent *rent, lk_report_form form, const char *path, FILE *out,
                         lk_error *err);
lk_status lk_report_stalls(const lk_stalls_answer *answer, lk_report_form form, const char *path,
                           FILE *out, lk_error *err);

/* The option table of `lockstep html`, which turns answers into pages; its request has no
 * fields. */
typedef struct lk_html_request {
	char nothing;
} lk_html_request;
extern const lk_verb lk_html_verb;

/* The report of an answer given as JSON: the output of -o json of any verb, or the document of a
 * report (LK_REPORT_JSON), which is shown unchanged. Messages name `name`. Single values become
 * figures and facts, the parts of a step and memory pictures, arrays of objects tables.
 * LK_ERR_INPUT: not JSON, or not an answer of lockstep; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_report_answer(const char *json, size_t size, const char *name, lk_report_form form,
                           const char *path, FILE *out, lk_error *err);

/* The parts of a page, for programs that show reports themselves: the style sheet and the script.
 * With both in a page, `lockstepReport(element, document)` shows a document in an element.
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_report_style(FILE *out, lk_error *err);
lk_status lk_report_script(FILE *out, lk_error *err);
/* "uPlot 1.6.32", the package that draws curves in this build, and its licence; NULL: curves are
 * plain SVG. */
const char *lk_report_charts(const char **licence);

#ifdef __cplusplus
}
#endif
#endif
