/* kernels_loops.h: the loops of kernels.h, written once; kernels.c includes this file for each set
 * of vector instructions with LOOP (names), TARGET (attribute), LANES (floats of a vector), ROWS
 * (of a tile), FMA (a*b + c). */

typedef float LOOP(floats) __attribute__((vector_size(4 * LANES)));
typedef uint64_t LOOP(words) __attribute__((vector_size(4 * LANES)));

/* Twelve sums at a time: enough for the latency of two units, and few enough for the registers of
 * AVX2. */
TARGET static float LOOP(multiply_add)(long rounds, double *flops) {
	enum { SUMS = 12 };
	LOOP(floats) sum[SUMS], x = {0}, y = {0};
	for (int lane = 0; lane < LANES; lane++) x[lane] = 0.999f, y[lane] = 0.001f * (float)(lane + 1);
	for (int i = 0; i < SUMS; i++) sum[i] = y * (float)i;
	for (long r = 0; r < rounds; r++)
		for (int i = 0; i < SUMS; i++) sum[i] = FMA(sum[i], x, y);
	*flops = 2.0 * SUMS * LANES * (double)rounds;
	float total = 0;
	for (int i = 0; i < SUMS; i++)
		for (int lane = 0; lane < LANES; lane++) total += sum[i][lane];
	return total;
}

TARGET static void LOOP(tile)(long k, const float *a, const float *b, float *c, long stride,
                              bool add) {
	LOOP(floats) sum[ROWS][2];
	memset(sum, 0, sizeof sum);
	for (long p = 0; p < k; p++) {
		LOOP(floats) left, right;
		memcpy(&left, b + p * 2 * LANES, sizeof left);
		memcpy(&right, b + p * 2 * LANES + LANES, sizeof right);
		for (int i = 0; i < ROWS; i++) {
			LOOP(floats) row = a[p * ROWS + i] - (LOOP(floats)){0};
			sum[i][0] = FMA(row, left, sum[i][0]);
			sum[i][1] = FMA(row, right, sum[i][1]);
		}
	}
	for (int i = 0; i < ROWS; i++) {
		LOOP(floats) before[2];
		if (add) {
			memcpy(before, c + i * stride, sizeof before);
			sum[i][0] += before[0], sum[i][1] += before[1];
		}
		memcpy(c + i * stride, sum[i], sizeof sum[i]);
	}
}

TARGET static uint64_t LOOP(read)(const uint64_t *from, size_t count) {
	const LOOP(words) *at = (const LOOP(words) *)(const void *)from;
	LOOP(words) sum[4];
	memset(sum, 0, sizeof sum);
	for (size_t i = 0; i < count / (LANES / 2); i += 4)
		for (int j = 0; j < 4; j++) sum[j] += at[i + (size_t)j];
	uint64_t total = 0;
	for (int j = 0; j < 4; j++)
		for (int lane = 0; lane < LANES / 2; lane++) total += sum[j][lane];
	return total;
}

#undef LOOP
#undef TARGET
#undef LANES
#undef ROWS
#undef FMA
