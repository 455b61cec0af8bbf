/* plot.h: predicted over measured as a picture. The public function is lk_validate_plot (lockstep/validate.h). */
#ifndef LK_VIEW_PLOT_H
#define LK_VIEW_PLOT_H

#include "lockstep/validate.h"

enum { LK_PLOT_POINTS = 3000 }; /* of more rows, about so many are drawn */

/* Marks on a logarithmic axis from 10^low to 10^high. Times and counts have marks at decades, or at 1, 2, 5 and between
 * where the axis is short; bytes at powers of two. */
enum { LK_PLOT_TICKS = 24 };
int lk_plot_ticks(double low, double high, const char *unit, double at[LK_PLOT_TICKS]);

#endif
