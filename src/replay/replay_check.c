/* replay_check.c: invariants of every answer of `replay`.
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */
#include <math.h>

#include "base/check.h"
#include "base/stats.h"
#include "replay/replay.h"

static bool is_share(double share) {
	return share >= 0 && share <= 1 + 1e-9;
}

/* Kernels may continue after the step that launched them: a part can be longer than the step. */
static const char *replay_check_step(const lk_replay_step *step) {
	LK_HOLDS(lk_is_time(step->measured_s) && lk_is_time(step->baseline_s));
	if (step->left_out) return NULL;
	LK_HOLDS(isfinite(step->predicted_s) && step->predicted_s >= 0);
	/* works hold no host calls, and not always kernels */
	LK_HOLDS(isnan(step->host_known) || is_share(step->host_known));
	LK_HOLDS(isnan(step->device_known) || is_share(step->device_known));
	for (size_t i = 0; i < step->part_count; i++) {
		LK_HOLDS(lk_is_time(step->parts[i].measured_s));
		LK_HOLDS(lk_is_time(step->parts[i].predicted_s));
	}
	return NULL;
}

const char *lk_replay_check(const lk_replay *replay) {
	size_t predicted = 0, compared = 0;
	double distance = 0;
	for (size_t i = 0; i < replay->rank_count; i++)
		for (size_t s = 0; s < replay->ranks[i].step_count; s++) {
			const lk_replay_step *step = &replay->ranks[i].steps[s];
			LK_HOLDS_ALL(replay_check_step(step));
			if (step->left_out) continue;
			predicted++;
			if (!(step->measured_s > 0 && step->predicted_s > 0)) continue;
			distance += fabs(log(step->predicted_s / step->measured_s));
			compared++;
		}
	LK_HOLDS(replay->predicted == predicted);
	LK_HOLDS(isnan(replay->geomean_error) || replay->geomean_error >= 0);
	LK_HOLDS(compared < predicted || !predicted ||
	         fabs(log1p(replay->geomean_error) - distance / (double)compared) <= 1e-9);
	LK_HOLDS(isnan(replay->baseline_error) || replay->baseline_error >= 0);
	LK_HOLDS(replay->parts_error >= 0 && replay->residual_s >= 0);
	LK_HOLDS(isnan(replay->device_known_shape) || is_share(replay->device_known_shape));
	return NULL;
}
