/* rewrite.h: programs from programs: one file per directive. Each returns a new program that
 * computes the same, or the reason why not.
 *
 * A rewrite builds anew: values are added in order to a program made by lc_program_like, through
 * lc_add, so that what comes out is well typed by construction. Names by which later directives
 * know a value stay in part_of.
 *
 *   split a -> (rs,ag)       rewrite_split.c         all-reduce = reduce-scatter, all-gather (also
 *                            reduce, broadcast)
 *   reorder ag past {..}     rewrite_reorder.c       f(gather(x), r) = gather(f(x, slice(r))), also
 *                            past send
 *   slice m, v               rewrite_slice.c         a state that is only used in slices is kept
 *                            sliced
 *   fuse F={..}              rewrite_fuse.c          one pass; convex sets only
 *   overlap {..} chunk       rewrite_overlap.c       chunk by chunk; parts must be independent
 *                            along the chunks
 *   bucket {..} size B       rewrite_bucket.c        joined messages
 *   hierarchical a -> (..)   rewrite_hierarchical.c  the axis becomes two: groups, and ranks of a
 *                            group */
#ifndef LK_LANG_REWRITE_H
#define LK_LANG_REWRITE_H

#include "lang/types/program.h"

/* Names every value's statement in part_of. The parser calls it. */
void lc_name_parts(lc_program *program);
/* The ids that a name of a schedule stands for: a label, or all values of that part_of. 0: unknown.
 */
int lc_part(const lc_program *program, const char *name, int *ids, int limit);

/* Applies one directive. On LK_ERR_INPUT, err says why it is not legal, at the directive's place.
 */
lk_status lc_rewrite(const lc_program *program, const lc_directive *directive, lc_program **out,
                     lk_error *err);
/* Applies directive `which` of a schedule to what those before made of the program: a split that
 * names no dim takes one that suits the rest. */
lk_status lc_rewrite_next(const lc_program *program, const lc_schedule *schedule, int which,
                          lc_program **out, lk_error *err);
/* Applies all of a schedule in order; with none (s NULL) a copy. */
lk_status lc_rewrite_all(const lc_program *program, const lc_schedule *schedule, lc_program **out,
                         lk_error *err);

/* Makes what was rewritten ready to be written down: names where statements need them, and every
 * statement in part_of; no directive but fuse, overlap and bucket knows the parts of a split after
 * it. */
lk_status lc_settle_rewritten(lc_program *program, lk_error *err);
/* The bundles of a settled program as a schedule, in the file's arena. */
lk_status lc_bundles_schedule(const lc_program *program, const char *name, lc_schedule *out,
                              lk_error *err);

/* Whether exactly these values can be one pass; with `out`, and where they can, the program in
 * which they are. */
lk_status lc_rewrite_fuse_set(const lc_program *program, const uint8_t *set, bool *legal,
                              lc_program **out, lk_error *err);

/* For each value the dim along which an overlap cuts it into chunks; -1: all values outside, those
 * that every chunk needs as a whole, and all where chunks are the tensors of a list or parts run
 * side by side. */
lk_status lc_overlap_dims(const lc_program *program, int bundle, int *dims, lk_error *err);

/* The directives worth trying on p next, for a search: every one is well formed, though lc_rewrite
 * may refuse it. Names that they introduce are new; all memory is from the file's arena. `nodes`:
 * ranks of a group for hierarchical, 0 none. */
typedef LK_VEC(lc_directive) lc_moves;
lk_status lc_rewrite_moves(const lc_program *program, int64_t nodes, lc_moves *out, lk_error *err);
/* Equal for programs that do the same in the same way: names, order of independent values and
 * numbering do not count. */
uint64_t lc_program_hash(const lc_program *program);
/* Whether all directives apply. */
lk_status lc_schedule_check(const lc_program *program, const lc_schedule *schedule, lk_error *err);

#endif
