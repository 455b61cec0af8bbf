/* compile.h: what the actions of `lockstep compile` share: the file that was read, and which part
 * of it is meant. */
#ifndef LK_LANG_COMPILE_H
#define LK_LANG_COMPILE_H

#include "graph/graph.h"
#include "io/json.h"
#include "lang/run/run.h"
#include "lang/types/program.h"
#include "lockstep/compile.h"

struct lk_compile {
	lc_file *file;
	char *text;
	size_t size;
	bool no;                  /* the answer was no: verify found a difference */
	const char *failed_check; /* lk_compile_failed_check */
};

#define LC_PLAIN "plain" /* the program without a schedule, where a schedule is named */

/* One action, one file: compile_NAME.c. Where the answer is no (verify finds a difference) it says
 * so and sets answer->no. */
typedef lk_status lc_action(lk_compile *answer, const lk_compile_request *request, FILE *out,
                            lk_error *err);
lc_action lc_do_check, lc_do_print, lc_do_run, lc_do_rewrite, lc_do_verify, lc_do_emit;

/* Reads the text again where --sizes gives an axis that the text fixes another number of ranks:
 * loops turn as often as the mesh then says. */
lk_status lc_resize(lk_compile *answer, const lk_compile_request *request, lk_error *err);
/* The program that --program names, or the only one. */
lk_status lc_pick_program(const lk_compile *answer, const lk_compile_request *request,
                          lc_program **out, lk_error *err);
/* NULL or "plain": *out NULL. */
lk_status lc_pick_schedule(const lc_program *program, const char *name, const lc_schedule **out,
                           lk_error *err);

/* The error where a dim is not given: sizes would be chosen, small ones, whose times say nothing.
 */
lk_status lc_check_dims(const lc_program *program, const char *sizes, lk_error *err);
/* Whether a text of sizes gives a name's. */
bool lc_sizes_name(const char *sizes, const char *name);
/* compile_graph.c: what a schedule (NULL: none) makes of the program, as a step graph of all ranks.
 */
lk_status lc_schedule_graph(const lc_program *program, const lc_schedule *schedule,
                            const lc_sizes *sizes, lk_graph **out, lk_error *err);

/* A program as an object: declarations, schedules and, if wanted, values. */
void lc_json_program(lk_json_writer *writer, const lc_program *program, bool values);

/* compile_check.c: validators (base/check.h). */
const char *lc_summary_check(const lc_summary *summary, bool field);
const char *lc_verdict_check(const lc_verdict *verdict);

/* ---- compile_compare.c: what an emitted program has computed, compared with the interpreter. */

/* Reads request->compare/SCHEDULE.RANK of every rank (emit.h has the form) and says how far each
 * result is from that of `run`, which has kept all its values; answer->no where it is further than
 * rounding explains (run_bound.c), or where rounding alone could explain any difference. Frees
 * `run`.
 */
lk_status lc_compare(lk_compile *answer, lc_run *run, const lk_compile_request *request, FILE *out,
                     lk_error *err);

#endif
