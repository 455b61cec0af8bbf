/* rules.h: the type rules, one file per family of operations.
 *
 * Each rule gets a draft whose operands are checked to exist, and fills format, shape and layouts.
 * A rule may insert slices, so that operands are looked up again after it. */
#ifndef LK_LANG_TYPES_RULES_H
#define LK_LANG_TYPES_RULES_H

#include "lang/types/program.h"

/* Append a value: lc_add, passed to the rules because it is built on them. */
typedef lk_status lc_adder(lc_program *program, const lc_node *draft, int *id, lk_error *err);
/* Replace operand i by its slice along dim d on an axis. */
lk_status lc_slice_operand(lc_program *program, lc_node *node, int i, int d, int axis,
                           lc_adder *add, lk_error *err);
/* The error "y is partial over tp" (or sliced, local, on one rank), followed by `why`, with the
 * collective that repairs it. */
lk_status lc_refuse_layout(const lc_program *program, const lc_node *node, int i, int axis,
                           const char *why, lk_error *err);
/* The error if operand i is no integer. */
lk_status lc_check_index(const lc_program *program, const lc_node *node, int i, lk_error *err);
/* Join the formats of operands first .. last; the error suggests a cast. */
lk_status lc_join_dtypes(const lc_program *program, const lc_node *node, int first, int last,
                         lc_dtype *out, lk_error *err);

lk_status lc_type_map(lc_program *program, lc_node *node, lc_adder *add,
                      lk_error *err); /* types_map.c: MAP, dropout */
/* The layout over an axis of an element-wise result. */
lk_status lc_map_layout(lc_program *program, lc_node *node, int axis, lc_adder *add, lk_error *err);
lk_status lc_type_contract(lc_program *program, lc_node *node, lc_adder *add,
                           lk_error *err); /* types_contract.c: matmul, conv2d */
lk_status lc_type_rows(lc_program *program, lc_node *node, lc_adder *add,
                       lk_error *err); /* types_rows.c: gather_rows, add_rows */
lk_status lc_type_attend(lc_program *program, lc_node *node, lc_adder *add,
                         lk_error *err); /* types_attend.c: attention and its gradients */
lk_status lc_type_block(lc_program *program, lc_node *node,
                        lk_error *err); /* types_block.c: sorted lines, factored matrices */
lk_status lc_type_view(lc_program *program, lc_node *node, lc_adder *add,
                       lk_error *err); /* types_view.c: transpose, parts, join, ... */
lk_status lc_type_red(lc_program *program, lc_node *node,
                      lk_error *err); /* types_red.c: reductions, total */
lk_status lc_type_comm(lc_program *program, lc_node *node,
                       lk_error *err); /* types_comm.c: collectives, send */

#endif
