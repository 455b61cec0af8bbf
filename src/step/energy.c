/* energy.c: power by what a GPU does, and what its host adds to it.
 *
 *     GPU  = idle + (board - idle) x sum over parts of share of the step x activity
 *     site = GPUs x (GPU + host share x board) x PUE
 *
 * Overlapped communication is not counted: the products beside it already draw what the board
 * may. */
#include "step/energy.h"

/* Of the board's power: idle, and what host, network cards and fans add for each GPU. */
#define LK_IDLE_SHARE 0.13
#define LK_HOST_SHARE 0.35

/* How much of the power above idle a part takes. */
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
	case LK_PART_BUBBLE: /* a kernel of NCCL waits for the message */
	case LK_PART_WAIT: return 0.2;
	case LK_PART_HOST:
	case LK_PART_COUNT: break;
	}
	return 0;
}

/* Mean over the GPUs of a cluster; 0 if one is unknown. */
static double board_watts(const lk_cluster *cluster) {
	double watts = 0, gpus = 0;
	for (int i = 0; i < cluster->groups; i++) {
		double count = (double)cluster->nodes[i] * cluster->node[i].gpus;
		if (cluster->node[i].device->power_w <= 0) return 0;
		watts += count * cluster->node[i].device->power_w;
		gpus += count;
	}
	return gpus > 0 ? watts / gpus : 0;
}

lk_energy lk_energy_of(const lk_breakdown *breakdown, const lk_cluster *cluster, int gpus,
                       double step_s, double pue) {
	double board = board_watts(cluster), all = 0, active = 0;
	for (int i = 0; i < LK_PART_COUNT; i++) {
		all += breakdown->exposed_s[i];
		active += breakdown->exposed_s[i] * activity_of((lk_part)i);
	}
	if (board <= 0 || all <= 0) return (lk_energy){0};
	if (pue <= 0) pue = LK_PUE;
	double gpu = board * (LK_IDLE_SHARE + (1 - LK_IDLE_SHARE) * active / all),
		   site = gpus * (gpu + LK_HOST_SHARE * board) * pue;
	return (lk_energy){.gpu_w = gpu,
	                   .board_w = board,
	                   .site_w = site,
	                   .pue = pue,
	                   .step_kwh = site * step_s / 3.6e6};
}

double lk_energy_machine_w(const lk_device *device, int gpus) {
	return device->power_w > 0 ? gpus * device->power_w * (1 + LK_HOST_SHARE) : 0;
}
