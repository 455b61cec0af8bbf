/* compile.h: shared by the actions of `lockstep compile`: the file that was read, and the selected
 * part of it. */
#ifndef LK_LANG_COMPILE_H
#define LK_LANG_COMPILE_H

#include "graph/graph.h"
#include "io/json.h"
#include "lang/run/run.h"
#include "lang/types/program.h"
#include "lockstep/compile.h"
#include "view/table/fields.h"

struct lk_compile {
	lc_file *file;
	char *text;
	size_t size;
	bool no;                  /* verify found a difference */
	const char *failed_check; /* lk_compile_failed_check */
};

#define LC_PLAIN "plain" /* name of the program without a schedule, where a schedule is named */

/* One action per file: compile_NAME.c. If the answer is no (verify finds a difference) it reports
 * that and sets answer->no. */
typedef lk_status lc_action(lk_compile *answer, const lk_compile_request *request, FILE *out,
                            lk_error *err);
lc_action lc_do_check, lc_do_print, lc_do_run, lc_do_rewrite, lc_do_verify, lc_do_emit;

/* Read the text again if --sizes gives an axis another number of ranks than the text: loops depend
 * on the mesh. */
lk_status lc_resize(lk_compile *answer, const lk_compile_request *request, lk_error *err);
/* The program that --program names, or the only one. */
lk_status lc_pick_program(const lk_compile *answer, const lk_compile_request *request,
                          lc_program **out, lk_error *err);
/* NULL or "plain": *out NULL. */
lk_status lc_pick_schedule(const lc_program *program, const char *name, const lc_schedule **out,
                           lk_error *err);

/* Refuse missing dims: sizes would be chosen, small ones, whose times are meaningless. */
lk_status lc_check_dims(const lc_program *program, const char *sizes, lk_error *err);
/* Whether a text of sizes gives a size for this name. */
bool lc_sizes_name(const char *sizes, const char *name);
/* compile_graph.c: a program with a schedule (NULL: none) as a step graph of all ranks. */
lk_status lc_schedule_graph(const lc_program *program, const lc_schedule *schedule,
                            const lc_sizes *sizes, lk_graph **out, lk_error *err);

/* A program as an object: declarations, schedules and, if wanted, values. */
void lc_json_program(lk_json_writer *writer, const lc_program *program, bool values);

/* An answer as JSON. */
lk_status lc_put_document(const lk_document *document, const void *answer, FILE *out,
                          lk_error *err);
/* Fields of several answers: the name of the program; what a comparison of programs tried, and how
 * sure it is. */
extern const lk_answer_record lc_program_name_record, lc_tried_record, lc_certain_record;
/* The JSON of the actions. */
extern const lk_document lc_run_document, lc_compare_document, lc_verify_document;

/* compile_check.c: validators (base/check.h). */
const char *lc_summary_check(const lc_summary *summary, bool field);
const char *lc_verdict_check(const lc_verdict *verdict);

/* ---- compile_given.c: read numbers of leaves from a JSON file into `options`, whose arrays the
 * arena owns. LK_ERR_INPUT: other names or counts than the program's, lists, leaves that differ
 * from rank to rank. */
lk_status lc_given_read(const char *path, const lc_program *program, const lc_sizes *sizes,
                        lk_arena *arena, lc_run_options *options, lk_error *err);

/* ---- compile_compare.c: results of an emitted program, compared with the interpreter. */

/* Read request->compare/SCHEDULE.RANK of every rank (form in emit.h) and report how far each result
 * is from that of `run`, which has kept all its values. Sets answer->no if it is further than
 * rounding explains (run_bound.c), or if rounding could explain any difference. Frees `run`. */
lk_status lc_compare(lk_compile *answer, lc_run *run, const lk_compile_request *request, FILE *out,
                     lk_error *err);

#endif
