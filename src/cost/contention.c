/* contention.c: how operations that run at the same time on one device slow one another.
 *
 * Communication kernels hold their SMs (non-preemptive CTAs, one per channel). A compute kernel that fills the device
 * is left with the rest: in whole waves, waves(W, f) = ceil(W / f) / ceil(W) for few waves, 1 / f for many, where f is
 * the fraction of SMs left and W the waves alone. Memory bandwidth and links are shared in proportion to demand.
 * Sources: reference measurements in docs/METHOD.md ("Contention"): wave quantisation beside a 24-channel all-gather,
 * DRAM traffic of rings.
 */
#include <math.h>

#include "cost/cost.h"

static double sm_slowdown(const lk_cost *kernel, double taken) {
	double left = 1 - taken;
	if (taken <= 0 || kernel->sm <= left) return 1;
	double waves = kernel->waves;
	if (waves > 0 && waves <= 8) return ceil(waves / left - 1e-6) / ceil(waves - 1e-6);
	return fmax(kernel->sm, 1e-3) / left;
}

void lk_contention_rates(const lk_cost *const *active, const bool *communicates, int count, double *rates) {
	double taken = 0, memory = 0, intra = 0, nic = 0;
	for (int i = 0; i < count; i++) {
		if (communicates[i]) {
			taken += active[i]->sm;
			intra += active[i]->intra;
			nic += active[i]->nic;
		}
		memory += active[i]->memory;
	}
	if (taken > 0.9) taken = 0.9;
	for (int i = 0; i < count; i++) {
		double slow = 1;
		if (communicates[i]) {
			if (active[i]->intra > 0) slow = fmax(slow, intra);
			if (active[i]->nic > 0) slow = fmax(slow, nic);
		} else {
			slow = fmax(slow, active[i]->compute * sm_slowdown(active[i], taken));
		}
		if (memory > 1 && active[i]->memory > 0) slow = fmax(slow, 1 - active[i]->memory + active[i]->memory * memory);
		rates[i] = 1 / slow;
	}
}
