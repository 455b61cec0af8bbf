/* range.h: how far a predicted step time may be off. */
#ifndef LK_ASK_RANGE_H
#define LK_ASK_RANGE_H

#include "model/job.h"

/* The range that holds the measured step time in 8 of 10 cases: seconds * exp(-/+ 1.2816 * sigma), where sigma is the
 * deviation of ln(predicted / measured) for jobs of this kind. `basis` names what sigma was taken from; constant
 * text. */
void lk_range_of(const lk_job *job, double seconds, double *low, double *high, const char **basis);

#endif
