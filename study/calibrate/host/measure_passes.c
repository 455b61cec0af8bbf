/* measure_passes.c: a pass over memory as emitted in C by lockstep compile, with the same text of
 * its runtime (data/target/numbers.h), with the data in the cache: core cycles per element, while
 * all cores run it, like ranks do: some cores may be two threads of one. Predictions of compiled
 * programs scale the cycles of their passes by it (lang/tune/timed_host.c). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/clock.h"
#include "calibrate/host/meter.h"

#include <../data/target/numbers.h> /* the text in emitted programs, next to src */

enum {
	PASS_ELEMENTS = 4096,
	PASS_ROUNDS = 128 /* in a repetition */
};

struct passes {
	uint16_t x[PASS_ELEMENTS], y[PASS_ELEMENTS], out[PASS_ELEMENTS];
};

RT_LOOPS static void passes_gelu(struct passes *passes) {
	const uint16_t *restrict x = passes->x, *restrict y = passes->y;
	uint16_t *restrict out = passes->out;
	RT_INDEPENDENT
	for (int64_t i = 0; i < PASS_ELEMENTS; i++)
		out[i] = rt_to_bf16(rt_geluf(rt_from_bf16(x[i]) + rt_from_bf16(y[i])));
}

static void passes_repeat(void *context, int thread, int threads) {
	struct passes *passes = (struct passes *)context + thread;
	(void)threads;
	for (int i = 0; i < PASS_ROUNDS; i++) {
		passes_gelu(passes);
		passes->y[i] = passes->out[i]; /* so that none is optimised away */
	}
}

struct passes_bench {
	lk_team *team;
	struct passes *of_core;
};

static double time_passes(void *context) {
	struct passes_bench *bench = context;
	double start = lk_clock_s();
	lk_team_run(bench->team, passes_repeat, bench->of_core);
	return lk_clock_s() - start;
}

lk_status lk_measure_passes(lk_meter *meter, double seconds) {
	const lk_device *device = &meter->host->device;
	int cores = lk_team_size(meter->team);
	struct passes_bench bench = {
		.team = meter->team,
		.of_core = LK_ARRAY(&meter->host->arena, struct passes, (size_t)cores),
	};
	if (!bench.of_core) return lk_oom(meter->err);
	if (device->clock_hz <= 0) return LK_OK;
	for (int core = 0; core < cores; core++)
		for (int i = 0; i < PASS_ELEMENTS; i++) {
			bench.of_core[core].x[i] = rt_to_bf16((float)(i % 97) * 0.05f - 2.4f);
			bench.of_core[core].y[i] = rt_to_bf16((float)(i % 31) * 0.1f - 1.5f);
		}
	lk_sample taken = lk_repeat(time_passes, &bench, seconds, 8);
	return lk_meter_time(meter, "pass", "GELU of bf16, all cores", "cycles",
	                     PASS_ROUNDS * PASS_ELEMENTS, 1 / device->clock_hz, &taken);
}
