/* noise_draw.c: draws of noise. Every draw is a hash of (seed, level, unit, row): independent of
 * the order and of the number of threads.
 *
 * The largest of n independent draws of distribution F is F^-1(u^(1/n)) of one uniform u; and the
 * unit with the largest uniform has the largest spread, so only that unit needs its quantile. */
#include "noise/noise.h"

#include <math.h>

#include "base/stats.h"

bool lk_noise_sampler_make(const lk_noise *noise, lk_noise_level level, double quiet_s,
                           lk_noise_sampler *out) {
	*out = (lk_noise_sampler){.quiet_s = quiet_s, .salt = lk_hash64((uint64_t)level + 1)};
	double squares = 0;
	for (int i = 0; i < noise->count; i++) {
		const lk_noise_row *row = &noise->row[i];
		double scale = row->seconds ? 1 : quiet_s;
		if (row->level != level || row->chance <= 0) continue;
		if (!row->delay) {
			double sigma = row->low * scale / quiet_s;
			squares += sigma * sigma;
			continue;
		}
		out->chance[out->delays] = row->chance;
		out->low_s[out->delays] = row->low * scale;
		out->ratio[out->delays++] = log(row->high / row->low);
	}
	out->sigma = sqrt(squares);
	return squares > 0 || out->delays > 0;
}

static uint64_t draw_key(const lk_noise_sampler *sampler, uint64_t seed) {
	return lk_hash64(seed ^ sampler->salt);
}

/* A delay of row i, of a number that is uniform in 0..1; 0 if the row does not act. */
static double draw_delay(const lk_noise_sampler *sampler, int i, double uniform) {
	double chance = sampler->chance[i], beyond = uniform - (1 - chance);
	return beyond > 0 ? sampler->low_s[i] * exp(sampler->ratio[i] * beyond / chance) : 0;
}

static double draw_spread(const lk_noise_sampler *sampler, double uniform) {
	double sigma = sampler->sigma;
	return sampler->quiet_s * expm1(sigma * lk_normal_quantile(uniform) - sigma * sigma / 2);
}

/* The place of a unit's draw of row i; -1: its spread. */
static uint64_t draw_place(uint64_t unit, int i) {
	return unit * (LK_NOISE_ROWS + 1) + (uint64_t)(i + 1);
}

static double unit_delays(const lk_noise_sampler *sampler, uint64_t key, uint64_t unit) {
	double sum = 0;
	for (int i = 0; i < sampler->delays; i++)
		sum += draw_delay(sampler, i, lk_uniform(key, draw_place(unit, i)));
	return sum;
}

double lk_noise_draw(const lk_noise_sampler *sampler, uint64_t seed, uint64_t unit) {
	uint64_t key = draw_key(sampler, seed);
	double spread =
		sampler->sigma > 0 ? draw_spread(sampler, lk_uniform(key, draw_place(unit, -1))) : 0;
	return spread + unit_delays(sampler, key, unit);
}

double lk_noise_draw_largest(const lk_noise_sampler *sampler, uint64_t seed, const uint32_t *units,
                             size_t count) {
	uint64_t key = draw_key(sampler, seed);
	double largest = -INFINITY, top = 0;
	uint32_t first = count ? units[0] : 0;
	for (size_t i = 0; i < count; i++) {
		double uniform = sampler->sigma > 0 ? lk_uniform(key, draw_place(units[i], -1)) : 0.5;
		double delays = unit_delays(sampler, key, units[i]);
		if (uniform > top) top = uniform, first = units[i];
		if (delays > 0) largest = fmax(largest, lk_noise_draw(sampler, seed, units[i]));
	}
	return count ? fmax(largest, lk_noise_draw(sampler, seed, first)) : 0;
}

double lk_noise_draw_most(const lk_noise_sampler *sampler, uint64_t seed, double count) {
	uint64_t key = draw_key(sampler, seed);
	double most = sampler->sigma > 0 ? draw_spread(sampler, pow(lk_uniform(key, 0), 1 / count)) : 0;
	for (int i = 0; i < sampler->delays; i++) {
		double uniform = pow(lk_uniform(key, (uint64_t)i + 1), 1 / count);
		most = fmax(most, draw_delay(sampler, i, uniform));
	}
	return most;
}
