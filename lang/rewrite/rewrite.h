/* rewrite.h: programs from programs: one file per directive. Each returns a new program that
 * computes the same, or the reason why it cannot.
 *
 * A rewrite builds anew: values are added in order to a program made by lc_program_like, through
 * lc_add, so the result is well typed by construction. Names by which later directives know a value
 * stay in part_of.
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

/* Set part_of of every value to its statement's name. The parser calls it. */
void lc_name_parts(lc_program *program);
/* The ids that a name in a schedule denotes: a label, or all values of that part_of. 0: unknown. */
int lc_part(const lc_program *program, const char *name, int *ids, int limit);

/* Apply one directive. On LK_ERR_INPUT, err says why it is not legal, at the directive's place. */
lk_status lc_rewrite(const lc_program *program, const lc_directive *directive, lc_program **out,
                     lk_error *err);
/* Apply directive `which` of a schedule to the result of the earlier ones: a split without a dim
 * takes one that suits the later directives. */
lk_status lc_rewrite_next(const lc_program *program, const lc_schedule *schedule, int which,
                          lc_program **out, lk_error *err);
/* Apply all directives of a schedule in order; without a schedule (NULL) make a copy. */
lk_status lc_rewrite_all(const lc_program *program, const lc_schedule *schedule, lc_program **out,
                         lk_error *err);

/* Prepare a rewritten program for printing: names where statements need them, and every statement
 * in part_of. Afterwards only fuse, overlap and bucket still know the parts of a split. */
lk_status lc_settle_rewritten(lc_program *program, lk_error *err);
/* The bundles of a settled program as a schedule, in the file's arena. */
lk_status lc_bundles_schedule(const lc_program *program, const char *name, lc_schedule *out,
                              lk_error *err);

/* Whether exactly these values can be one pass; with `out`, also the program with that pass. */
lk_status lc_rewrite_fuse_set(const lc_program *program, const uint8_t *set, bool *legal,
                              lc_program **out, lk_error *err);

/* For each value the dim along which an overlap cuts it into chunks; -1: values outside, values
 * that every chunk needs whole, and all values if chunks are the tensors of a list or parts run
 * concurrently. */
lk_status lc_overlap_dims(const lc_program *program, int bundle, int *dims, lk_error *err);

/* The directives worth trying next on a program, for a search: well formed, though lc_rewrite may
 * refuse them. Names that they introduce are new; all memory is from the file's arena. `nodes`:
 * ranks of a group for hierarchical, 0 none. */
typedef LK_VEC(lc_directive) lc_moves;
lk_status lc_rewrite_moves(const lc_program *program, int64_t nodes, lc_moves *out, lk_error *err);
/* Equal for programs that do the same in the same way: names, order of independent values and
 * numbering do not count. */
uint64_t lc_program_hash(const lc_program *program);
/* Whether all directives apply. */
lk_status lc_schedule_check(const lc_program *program, const lc_schedule *schedule, lk_error *err);

#endif
