/* types.h: the type rules, one file per family of operations. Each rule gets a draft whose operands are checked to
 * exist, and fills format, shape and layouts. A rule may insert slices, so that operands are looked up again after it.
 */
#ifndef LK_LANG_TYPES_H
#define LK_LANG_TYPES_H

#include "lang/types/program.h"

static inline const lc_node *lc_in(const lc_program *p, const lc_node *n, int i) { return &p->nodes.at[n->in[i]]; }

/* lc_wrong at a draft's place. */
#define lc_refuse(p, n, err, ...) lc_wrong((p), (n)->line, (n)->column, (err), __VA_ARGS__)

enum { LC_SHOWN = 48 }; /* bytes of an operand in messages */
/* "y", or the expression, cut. */
#define lc_shown(p, id, out) lc_value_text((p), (id), (out), LC_SHOWN)

/* Replaces operand i by its slice along dim d on an axis. */
lk_status lc_slice_operand(lc_program *p, lc_node *n, int i, int d, int axis, lk_error *err);
/* The error "y is partial over tp" (or sliced, local, on one rank), `why` behind it, with the collective that repairs.
 */
lk_status lc_refuse_layout(const lc_program *p, const lc_node *n, int i, int axis, const char *why, lk_error *err);
/* Joins the formats of operands first .. last; the error names a cast. */
lk_status lc_join_dtypes(const lc_program *p, const lc_node *n, int first, int last, lc_dtype *out, lk_error *err);

lk_status lc_type_map(lc_program *p, lc_node *n, lk_error *err);      /* types_map.c: MAP, dropout */
lk_status lc_type_contract(lc_program *p, lc_node *n, lk_error *err); /* types_contract.c: matmul, conv2d */
lk_status lc_type_rows(lc_program *p, lc_node *n, lk_error *err);     /* types_contract.c: gather_rows */
lk_status lc_type_red(lc_program *p, lc_node *n, lk_error *err);      /* types_red.c: reductions, total */
lk_status lc_type_comm(lc_program *p, lc_node *n, lk_error *err);     /* types_comm.c: collectives, send */

#endif
