/* fabric.c: a fabric's numbers between rows of a calibration and the NCCL model. */
#include "cost/fabric.h"

#include <pthread.h>
#include <stddef.h>

const char *const lk_fabric_names[LK_FABRIC_NUMBERS] = {"launch_us", "latency", "channel_us", "wire", "nic"};

static const size_t offsets[LK_FABRIC_NUMBERS] = {
	offsetof(lk_fabric, launch), offsetof(lk_fabric, latency), offsetof(lk_fabric, channel), offsetof(lk_fabric, wire),
	offsetof(lk_fabric, nic),
};

/* Stands in where the calibration has no row at all. */
static const lk_fabric plain = {.launch = 6, .latency = 1.2, .channel = .5, .wire = .97, .nic = 0};

double *lk_fabric_number(lk_fabric *fabric, int index) {
	return (double *)(void *)((char *)fabric + offsets[index]);
}

lk_fabric lk_fabric_of(const lk_calibration_row *row) {
	lk_fabric fabric = plain;
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) {
		double *number = lk_fabric_number(&fabric, i);
		*number = lk_calibration_value(row, lk_fabric_names[i], *number);
	}
	return fabric;
}

static lk_fabric usual;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
	usual = lk_fabric_of(lk_calibration_find(lk_calibration_current(), "collective", "default", ""));
}

const lk_fabric *lk_fabric_default(void) {
	pthread_once(&once, load);
	return &usual;
}
