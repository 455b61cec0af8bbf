/* host.c: runs the measurements in turn, and makes the device from them.
 *
 * The time is divided in fixed shares. The device is all cores that the process may use, as one:
 * its peak is that of registers alone, its matrix and memory rates are measured, its call is the
 * start of all cores. It uses the fast decile of each sample: time taken by other programs is not
 * the machine's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "system/clock.h"
#include "base/text.h"
#include "base/noun.h"
#include "calibrate/host/meter.h"

struct part {
	lk_status (*measure)(lk_meter *m, double seconds);
	double share;
};

/* Measurements that a user's option can make fail come first. */
static const struct part parts[] = {
	{lk_measure_mpi, 0.16},   {lk_measure_disk, 0.10},   {lk_measure_calls, 0.08},
	{lk_measure_gemm, 0.25},  {lk_measure_passes, 0.01}, {lk_measure_memory, 0.24},
	{lk_measure_pairs, 0.10}, {lk_measure_gpus, 0.06},
};

/* Fill in what a device must have and a processor lacks: its links are the transfers between two
 * processes. */
static void complete_device(lk_meter *meter) {
	lk_host *host = meter->host;
	lk_device *device = &host->device;
	lk_copy(device->name, sizeof device->name,
	        meter->options->name ? meter->options->name : "host-cpu");
	snprintf(device->label, sizeof device->label, "%.40s, %d %s", host->processor, host->cores,
	         lk_noun(host->cores, "core", "cores"));
	snprintf(device->source, sizeof device->source, "%.120s, %.20s", host->source, host->date);
	device->arch = LK_ARCH_CPU;
	device->node_gpus = 1;
	device->pcie_rate = meter->send_rate > 0 ? meter->send_rate : device->memory_rate / 2;
	if (meter->net_rate > 0) device->nic_rate = meter->net_rate;
	host->intra_rate = host->gpus ? host->intra_rate : 0;
}

static lk_status host_measure(lk_meter *meter) {
	LK_TRY(lk_measure_facts(meter));
	meter->team = lk_team_new(meter->host->cores);
	if (!meter->team) return lk_oom(meter->err);
	if (lk_team_size(meter->team) < meter->host->cores)
		LK_TRY(lk_meter_note(meter, "only %d threads could be started", lk_team_size(meter->team)));
	meter->begun = lk_clock_s();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		LK_TRY(parts[i].measure(meter, meter->seconds * parts[i].share));
	complete_device(meter);
	return LK_OK;
}

lk_status lk_host_measure(const lk_host_options *options, lk_host *out, lk_error *err) {
	lk_meter m = {.host = out, .options = options, .seconds = options->seconds, .err = err};
	memset(out, 0, sizeof *out);
	out->nodes = 1;
	out->date = lk_arena_strdup(&out->arena, options->date ? options->date : "");
	out->source =
		lk_arena_strdup(&out->arena, options->source ? options->source : "lockstep calibrate host");
	if (!out->date || !out->source) return lk_oom(err);
	lk_status status = host_measure(&m);
	lk_team_free(m.team);
	return status;
}

void lk_host_free(lk_host *host) {
	lk_vec_free(&host->quantities);
	lk_vec_free(&host->notes);
	lk_vec_free(&host->messages);
	lk_vec_free(&host->collectives);
	lk_arena_free(&host->arena);
}
