/* fuzz_measured.c: any bytes are a measured run, whose numbers are finite and agree with one
 * another, or an error with a remedy; so is any text as numbers that people type. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "measured/measured.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
	if (!holds) abort();
}

static void check_measured(const lk_measured *run) {
	const double numbers[] = {run->step_s,       run->step_low_s,    run->step_high_s,
	                          run->tokens_per_s, run->samples_per_s, run->tokens_per_s_gpu,
	                          run->tflops_gpu,   run->mfu,           run->memory_bytes};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		require(isfinite(numbers[i]) && numbers[i] >= 0);
	require(run->source != NULL);
	require(run->step_low_s <= run->step_s || run->step_s == 0);
	require(run->steps == 0 || (run->step_times_s && run->first_steps < run->steps));
	for (size_t i = 0; i < run->steps; i++) require(run->step_times_s[i] > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_measured run;
	lk_error err = {0};
	char text[200];
	lk_status status = lk_measured_text((const char *)data, size, "log", &run, &err);
	if (status == LK_OK) check_measured(&run);
	else require(*err.what && *err.hint);
	lk_measured_free(&run);
	size_t length = size < sizeof text ? size : sizeof text - 1;
	memcpy(text, data, length);
	text[length] = '\0';
	if (lk_measured_number(text, &run, &err) == LK_OK) check_measured(&run);
	lk_measured_free(&run);
	return 0;
}
