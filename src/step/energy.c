/* energy.c: power of a GPU by activity, and of its host.
 *
 *     GPU  = idle + (board - idle) x sum over parts of share of the step x activity
 *     site = GPUs x (GPU + host share x board) x PUE
 *
 * Overlapped communication is not counted: the products that it overlaps with already draw the
 * board's limit. */
#include "step/energy.h"
#include "base/check.h"

/* Shares of the board's power: idle, and host, network cards and fans per GPU. */
#define LK_IDLE_SHARE 0.13
#define LK_HOST_SHARE 0.35

/* The share of the power above idle that a part draws. */
static double activity_of(lk_part part) {
	switch (part) {
	case LK_PART_GEMM:
	case LK_PART_CONV: return 1;
	case LK_PART_ATTENTION: return 0.95;
	case LK_PART_MEMORY:
	case LK_PART_OPTIMIZER: return 0.4;
	case LK_PART_TP:
	case LK_PART_CP:
	case LK_PART_EP:
	case LK_PART_DP:
	case LK_PART_PP:
	case LK_PART_COPY:
	case LK_PART_BUBBLE: /* an NCCL kernel waits for the message */
	case LK_PART_WAIT: return 0.2;
	case LK_PART_HOST:
	case LK_PART_COUNT: break;
	}
	return 0;
}

double lk_energy_board_w(const lk_cluster *cluster) {
	double watts = 0, gpus = 0;
	for (int i = 0; i < cluster->groups; i++) {
		double count = (double)cluster->nodes[i] * cluster->node[i].gpus;
		if (cluster->node[i].device->power_w <= 0) return 0;
		watts += count * cluster->node[i].device->power_w;
		gpus += count;
	}
	return gpus > 0 ? watts / gpus : 0;
}

double lk_energy_pue(const lk_mains *mains) {
	return mains->pue > 0 ? mains->pue : LK_PUE;
}

/* Share of the step at full activity. */
static double energy_activity(const lk_breakdown *breakdown) {
	double all = 0, active = 0;
	for (int i = 0; i < LK_PART_COUNT; i++) {
		all += breakdown->exposed_s[i];
		active += breakdown->exposed_s[i] * activity_of((lk_part)i);
	}
	return all > 0 ? active / all : 0;
}

lk_energy lk_energy_train(lk_energy step, double hours, const lk_mains *mains) {
	step.training_kwh = step.site_watts / 1000 * hours;
	step.carbon_kg = step.training_kwh * mains->carbon / 1000;
	step.power_usd = step.training_kwh * mains->price_kwh;
	return step;
}

lk_energy lk_energy_of(const lk_breakdown *breakdown, const lk_cluster *cluster, int gpus,
                       double step_s, double hours, const lk_mains *mains) {
	LK_ASSERT(gpus > 0);
	double board = lk_energy_board_w(cluster);
	if (board <= 0) return (lk_energy){0};
	double pue = lk_energy_pue(mains),
		   gpu = board * (LK_IDLE_SHARE + (1 - LK_IDLE_SHARE) * energy_activity(breakdown)),
		   site = gpus * (gpu + LK_HOST_SHARE * board) * pue;
	lk_energy step = {
		.gpu_watts = gpu, .site_watts = site, .pue = pue, .step_kwh = site * step_s / 3.6e6};
	return lk_energy_train(step, hours, mains);
}

static const double IDLE = LK_IDLE_SHARE + LK_HOST_SHARE, FULL = 1 + LK_HOST_SHARE;

double lk_energy_full_s(const lk_breakdown *breakdown, double step_s) {
	return step_s * (IDLE + (1 - LK_IDLE_SHARE) * energy_activity(breakdown)) / FULL;
}

double lk_energy_least_s(double step_s) {
	return step_s * IDLE / FULL;
}

double lk_energy_longest_s(double full_s) {
	return full_s * FULL / IDLE;
}

double lk_energy_machine_w(const lk_device *device, int gpus) {
	LK_ASSERT(gpus > 0);
	return device->power_w > 0 ? gpus * device->power_w * (1 + LK_HOST_SHARE) : 0;
}
