/* plot_axis.c: where the marks of a logarithmic axis stand. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "view/report/report.h"

enum { WISHED = 4, MOST = 9 };

/* base^k for every step-th k inside; the step is a whole number so that no more than MOST come out.
 */
static int powers(double low, double high, double base, double at[LK_PLOT_TICKS]) {
	LK_ASSERT(base > 1);
	double unit = log10(base), first = ceil(low / unit - 1e-9), last = floor(high / unit + 1e-9);
	double step = ceil((last - first + 1) / MOST);
	int count = 0;
	if (step < 1) step = 1;
	for (double k = ceil(first / step) * step; k <= last && count < LK_PLOT_TICKS; k += step)
		at[count++] = pow(base, k);
	return count;
}

/* The given multiples of every decade that are inside. */
static int multiples(double low, double high, const double *of, int n, double at[LK_PLOT_TICKS]) {
	int count = 0;
	for (double decade = floor(low); decade <= high; decade++) {
		for (int i = 0; i < n && count < LK_PLOT_TICKS; i++) {
			double place = decade + log10(of[i]);
			if (place >= low - 1e-9 && place <= high + 1e-9) at[count++] = pow(10, decade) * of[i];
		}
	}
	return count;
}

int lk_plot_ticks(double low, double high, const char *unit, double at[LK_PLOT_TICKS]) {
	static const double few[] = {1, 2, 5}, many[] = {1, 1.5, 2, 3, 4, 5, 7};
	if (!isfinite(low) || !isfinite(high)) return 0;
	int count = powers(low, high, strcmp(unit, "bytes") == 0 ? 2 : 10, at);
	if (count >= WISHED) return count;
	count = multiples(low, high, few, 3, at);
	return count >= WISHED ? count : multiples(low, high, many, 7, at);
}
