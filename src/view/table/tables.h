/* tables.h: the tables of answers that more than one view shows. Each makes a table that the caller frees; NULL when memory
 * is out. Those of explanations are in explain_view.h. */
#ifndef LK_VIEW_TABLES_H
#define LK_VIEW_TABLES_H

#include "lockstep/plan.h"
#include "lockstep/rent.h"
#include "lockstep/shard.h"
#include "lockstep/stalls.h"
#include "lockstep/whatif.h"
#include "view/table/table.h"

lk_table *lk_plan_table(const lk_plan *plan);
lk_table *lk_rent_table(const lk_rent *rent, bool verbose);
lk_table *lk_shard_table(const lk_shard_answer *answer, int which);  /* LK_SHARD_RANKS, PIECES, TRIED */
lk_table *lk_stalls_table(const lk_stalls_answer *answer, int which); /* LK_STALLS_PARTS and on */
lk_table *lk_whatif_table(const lk_whatif *whatif);

/* "cheapest", "front", ... of a choice; NULL: nothing. */
const char *lk_rent_mark(const lk_rent *rent, int choice);

#endif
