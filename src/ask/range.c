/* range.c: the 80 % range of a predicted step time.
 *
 * ln(predicted / measured) is taken as normal with mean 0 and a deviation sigma that depends on the kind of job
 * alone, so that 80 % of the measured times lie within a factor exp(1.2816 * sigma). `lockstep validate` prints the
 * share of runs that did (`coverage`). Software moves step times of mixture-of-experts jobs far more than those of
 * dense ones: up to 1.8 times between releases of one stack, against 1.18 times. */
#include "ask/range.h"

#include <math.h>

static const double quantile_90 = 1.2815515655446004; /* of the standard normal distribution */

typedef struct kind {
	double sigma;
	const char *basis;
} kind;

static const kind dense = {0.14, "dense networks: deviation of ln(predicted / measured) 0.14"};
static const kind experts = {0.30, "mixture of experts: deviation of ln(predicted / measured) 0.30"};

void lk_range_of(const lk_job *job, double seconds, double *low, double *high, const char **basis) {
	const kind *k = job->model.experts > 0 ? &experts : &dense;
	double factor = exp(quantile_90 * k->sigma);
	*low = seconds / factor;
	*high = seconds * factor;
	if (basis) *basis = k->basis;
}
