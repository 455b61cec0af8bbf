/* emit_mpi_map.h: what the text of a pass in C is made of: target_mpi_map.c has its loops, target_mpi_sums.c the
 * reductions inside of them. */
#ifndef LK_LANG_TARGET_MPI_MAP_H
#define LK_LANG_TARGET_MPI_MAP_H

#include "lang/emit/emit_pass.h"

/* ---- target_mpi_map.c ---- */
static inline char lc_map_variable(int loop) { return (char)('i' + loop); }
/* "p_r"; of a slice that is read in place "pv_r", for the slice itself may be stored, too. */
char *lc_map_place(const lc_pass *pass, const char *prefix, const lc_place *at, char out[LC_IDENTIFIER]);
void lc_put_map_index(const lc_pass *pass, const lc_place *at, FILE *out);
lc_text lc_map_text(lc_pass *pass);

/* ---- target_mpi_sums.c; ids are those of reductions and totals ---- */
/* How many outer loops the result moves along, if those are all that it moves along; else -1: sums lie in memory. */
int lc_sum_loops(const lc_pass *pass, int id);
/* One sum for all calls of a ranged pass: in a variable inside, in memory between. */
bool lc_sum_carried(const lc_pass *pass, int id);
/* Whether it is made of blocks of the inner loop, or any is. */
bool lc_sum_blocked(const lc_pass *pass, int id);
bool lc_sums_blocked(const lc_pass *pass);
/* An element is added; a block of them. */
void lc_put_summed(lc_pass *pass, int id, int depth);
void lc_put_sum_block(lc_pass *pass, int id, int depth);
/* Sums in variables: those that begin inside of so many loops, by lc_begin_sum or lc_end_sum. */
void lc_begin_sum(lc_pass *pass, int id, int depth);
void lc_end_sum(lc_pass *pass, int id, int depth);
void lc_sums_at(lc_pass *pass, int loops, int depth, void (*put)(lc_pass *, int, int));
/* Sums in memory, and those that last over calls. */
void lc_begin_sums(lc_pass *pass, int id, int slot);
void lc_end_sums(lc_pass *pass, int id);

#endif
