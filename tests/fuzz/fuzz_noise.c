/* fuzz_noise.c: any bytes are a table of noise or an error with a text; draws of rows that are read
 * are finite and not below their limit. */
#include <math.h>
#include <stdlib.h>

#include "noise/noise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw(const lk_noise *noise) {
	static const uint32_t units[] = {0, 1, 7};
	for (int level = 0; level < LK_NOISE_LEVELS; level++) {
		lk_noise_sampler sampler;
		if (!lk_noise_sampler_make(noise, (lk_noise_level)level, 2, &sampler)) continue;
		double one = lk_noise_draw(&sampler, 3, 7), most = lk_noise_draw_most(&sampler, 3, 1e4);
		double largest = lk_noise_draw_largest(&sampler, 3, units, 3);
		if (!isfinite(one) || one < -2 || !isfinite(most) || !(largest >= one)) abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_stream *in = NULL;
	lk_error err = {0};
	lk_noise noise;
	if (lk_stream_memory(data, size, "noise.csv", &in, &err) == LK_OK) {
		lk_status status = lk_noise_read_stream(in, &noise, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		if (status == LK_OK) draw(&noise);
	}
	lk_stream_close(in);
	return 0;
}
