/* measured.c: the result: its gauges by number, its end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "measured/measured_internal.h"

const char *lk_memory_kind_name(lk_memory_kind kind) {
	static const char *const names[LK_MEMORY_KINDS] = {"", "allocated", "active", "reserved",
	                                                   "device total"};
	return names[kind];
}

static double *gauge_real(lk_measured *measured, enum lk_gauge gauge) {
	switch (gauge) {
	case LK_GAUGE_STEP_S:
	case LK_GAUGE_RATE: return &measured->step_s;
	case LK_GAUGE_TOKENS: return &measured->tokens_per_s;
	case LK_GAUGE_TOKENS_GPU: return &measured->tokens_per_s_gpu;
	case LK_GAUGE_SAMPLES: return &measured->samples_per_s;
	case LK_GAUGE_TFLOPS: return &measured->tflops_gpu;
	case LK_GAUGE_MFU: return &measured->mfu;
	case LK_GAUGE_MEMORY: return &measured->memory_bytes;
	case LK_GAUGE_GPU_MEMORY: return &measured->gpu_memory_bytes;
	case LK_GAUGE_POWER: return &measured->power_w;
	case LK_GAUGE_POWER_LIMIT: return &measured->power_limit_w;
	case LK_GAUGE_CLOCK: return &measured->clock_hz;
	case LK_GAUGE_UTILISATION: return &measured->utilisation;
	default: return NULL;
	}
}

static int64_t *gauge_whole(lk_measured *measured, enum lk_gauge gauge) {
	switch (gauge) {
	case LK_GAUGE_GPUS: return &measured->gpus;
	case LK_GAUGE_BATCH: return &measured->global_batch;
	case LK_GAUGE_SEQ: return &measured->seq_len;
	default: return NULL;
	}
}

double lk_gauge_get(const lk_measured *measured, enum lk_gauge gauge) {
	lk_measured copy = *measured;
	const double *real = gauge_real(&copy, gauge);
	const int64_t *whole = gauge_whole(&copy, gauge);
	if (whole) return (double)*whole;
	return real ? *real : 0;
}

void lk_gauge_set(lk_measured *measured, enum lk_gauge gauge, double value) {
	double *real = gauge_real(measured, gauge);
	int64_t *whole = gauge_whole(measured, gauge);
	if (real) *real = gauge == LK_GAUGE_RATE ? 1 / value : value;
	if (whole) *whole = value < 0x1p53 ? (int64_t)llround(value) : 0;
}

double lk_read_number(const char *text, const char **end) {
	char plain[64];
	size_t used = 0;
	const char *at = text;
	for (; used + 1 < sizeof plain && *at; at++) {
		bool comma =
			*at == ',' && used > 0 && lk_is_digit(at[-1]) && strspn(at + 1, "0123456789") == 3;
		if (comma) continue;
		if (!strchr("0123456789.+-eE", *at)) break;
		plain[used++] = *at;
	}
	plain[used] = '\0';
	const char *stop;
	double number = lk_read_real(plain, &stop);
	*end = text;
	for (size_t read = (size_t)(stop - plain); read > 0; *end += 1)
		if (**end != ',') read--;
	return number;
}

void lk_measured_free(lk_measured *measured) {
	free(measured->source);
	free(measured->step_times_s);
	free(measured->step_numbers);
	for (size_t i = 0; i < measured->part_count; i++) free(measured->parts[i].name);
	free(measured->parts);
	free(measured->gpu_name);
	memset(measured, 0, sizeof *measured);
}
