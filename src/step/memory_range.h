/* memory_range.h: the band around a predicted peak, by class of network. */
#ifndef LK_ASK_MEMORY_RANGE_H
#define LK_ASK_MEMORY_RANGE_H

#include "model/layout/job.h"

/* "bert", "gpt with experts", "gpt without experts", "t5". */
enum { LK_MEMORY_CLASSES = 4 };
extern const char *const lk_memory_classes[LK_MEMORY_CLASSES];
const char *lk_memory_class(const lk_model *model);

/* 80 % of measured peaks lie in [p exp(low / scale), p exp(high / scale)], p predicted. */
typedef struct lk_memory_band {
	double low, high, error;    /* error: exp(mean |ln(p / m)|) - 1 of the rows behind it */
	int rows;                   /* 0: nothing is known of the class */
} lk_memory_band;

double lk_memory_scale(double predicted);
/* The band of the calibration in use. */
lk_memory_band lk_memory_band_known(const char *class);
/* NAN where nothing is known. */
void lk_memory_band_apply(const lk_memory_band *band, double predicted, double *low, double *high);

#endif
