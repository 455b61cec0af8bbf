/* expected.h: a measured run against its prediction: is it as expected, and if not, which change of
 * the job or the cluster explains what was measured? */
#ifndef LOCKSTEP_EXPECTED_H
#define LOCKSTEP_EXPECTED_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A measured value and its prediction, both in `unit`. */
typedef struct lk_compared {
	const char *key, *label; /* "step_time_s", "memory_bytes", "forward-backward"; in words */
	const char *unit;        /* "s", "tokens/s", "samples/s", "TFLOP/s", "share", "bytes", "" */
	double measured, predicted, low, high; /* 80 % range of the prediction */
	bool inside;
} lk_compared;

/* A cause that may explain the difference: a change of the job or the cluster, or two of them,
 * predicted like any other request. */
typedef struct lk_suspect {
	const char *cause;  /* "one_nic"; of two "one_nic+recompute_full" */
	const char *what;   /* in words */
	const char *option; /* as options of predict; "": no option says it */
	const char *check;  /* how to find out within a minute */
	double share;       /* probability, from the prior of the cause and how well it agrees */
	double step_time_s, mfu, memory_bytes; /* predicted with it; memory of the fullest GPU */
	double time_ratio;                     /* relative to the job as stated */
	bool explains; /* every compared value is in the range of this prediction */
} lk_suspect;

/* The comparison. Texts live as long as the answer that holds it. */
typedef struct lk_expected {
	const char *measured; /* what was measured: "200 tok/s/gpu", "log of Megatron-LM, 500 steps" */
	const char *verdict;  /* one sentence */
	bool as_expected;     /* every compared value is in the range of its prediction */
	double step_time_s, mfu; /* measured, or derived from what was measured; 0: nothing states it */
	double time_ratio;       /* measured over predicted step time; 0 likewise */
	const lk_compared *compared;
	int compared_count;
	const lk_suspect *suspects; /* the likeliest first */
	int suspect_count;
	double unchanged_share; /* probability that nothing differs: the prediction errs */
	double other_share;     /* that it is something of which there is no option */
	double scaled_kernels, scaled_links,
		scaled_host;          /* factors on their times with which the job takes what was measured;
	                     * 0: not requested, or the run says nothing of it */
	const char *scaled;       /* what was scaled by what, as a sentence; NULL: not requested */
	int tried;                /* predictions that were made to find the causes */
	const char *const *notes; /* what the steps of a log show besides their mean */
	int note_count;
} lk_expected;

#ifdef __cplusplus
}
#endif
#endif
