/* stalls_estimate.c: the mean of a few measurements and its 95 % interval. */
#include <math.h>

#include "base/check.h"
#include "stalls/stalls.h"

lk_estimate lk_estimate_of(const double *x, int count) {
	LK_ASSERT(count >= 0);
	double sum = 0, squares = 0;
	int n = 0;
	for (int i = 0; i < count; i++)
		if (!isnan(x[i])) {
			sum += x[i];
			n++;
		}
	if (!n) return (lk_estimate){NAN, NAN, NAN};
	double mean = sum / n;
	for (int i = 0; i < count; i++)
		if (!isnan(x[i])) squares += (x[i] - mean) * (x[i] - mean);
	double half = n > 1 ? lk_student_quantile(n - 1) * sqrt(squares / (n - 1) / n) : NAN;
	return (lk_estimate){mean, mean - half, mean + half};
}
