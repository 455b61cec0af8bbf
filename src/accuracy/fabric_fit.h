/* fabric_fit.h: the numbers of a fabric from measured collectives. */
#ifndef LK_ACCURACY_FABRIC_FIT_H
#define LK_ACCURACY_FABRIC_FIT_H

#include "accuracy/collective_rows.h"

/* Fits to the rows (pointers, all of one fabric); what they say nothing of stays as in `start`. *error: mean |ln(p/m)|. */
void lk_fabric_fit(const lk_coll_row *const *rows, size_t count, const lk_fabric *start, lk_fabric *out, double *error);

/* Predicted, in us. */
double lk_coll_row_time(const lk_coll_row *row, const lk_fabric *fabric);

#endif
