/* explain_view.h: what the files that print explanations and differences share. */
#ifndef LK_VIEW_EXPLAIN_VIEW_H
#define LK_VIEW_EXPLAIN_VIEW_H

#include "io/json.h"
#include "lockstep/explain.h"
#include "view/table/output.h"

/* One table of an explanation (LK_EXPLAIN_STALLS and on); NULL when memory is out. People get the top rows and the
 * begin of long names, programs everything. */
lk_table *lk_explain_table(const lk_explanation *x, int which, bool people);

/* Cells: nanoseconds as a time with its unit, seconds likewise; a share as per cent (machines read per cent as well, as
 * HTA has it). NAN: empty. */
void lk_put_ns(lk_table *t, double ns);
void lk_put_seconds(lk_table *t, double seconds);
void lk_put_pctg(lk_table *t, double part, double whole);
void lk_put_count(lk_table *t, double count);
/* The name of a kernel; people get the begin of long ones. */
void lk_put_name(lk_table *t, const char *name, bool people);

/* The rows as an array of objects inside a document. */
void lk_json_put_table(lk_json_writer *w, const char *key, const lk_table *table);
/* The report for people. */
lk_status lk_explain_report(const lk_explanation *x, bool colour, FILE *out, lk_error *err);

#endif
