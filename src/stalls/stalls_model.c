/* stalls_model.c: a model of the loader from the runs; its predictions for other machines, and for
 * other sizes of gradient buckets. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "stalls/stalls.h"
#include "system/parallel.h"

enum { LONGEST_CHANGE = 160 };

/* A rate without effect, bytes/s. */
static const double UNLIMITED = 1e15;

/* ---- the loader ---- */

/* On a host: at least one per rank. */
static double count_busy_cores(const lk_stalls_work *work) {
	double ranks = ceil((double)work->result.ranks / fmax(1, work->result.hosts));
	if (!work->busy_seen || work->result.hosts != 1) return ranks;
	return fmax(ranks, fmin(work->busy, fmax(lk_cores(), ranks)));
}

/* A loader that the step waits for: its times add up. */
static void model_blocking_loader(const lk_stalls_work *work, const lk_stalls_seen *hot,
                                  lk_stalls_model *model) {
	const lk_stalls_part *part = work->result.parts;
	double reading = hot->times.reading;
	model->workers = 1;
	model->preparation = lk_stalls_known(part[LK_STALL_PREPARATION].seconds);
	model->memory = model->bytes > 0 && reading > 0 ? model->bytes / reading : UNLIMITED;
}

/* A concurrent loader: rates of the stages that limited the step, bounds of the others from the
 * loader's own threads. */
static void model_pipelined_loader(const lk_stalls_work *work, const lk_stalls_seen *hot,
                                   lk_stalls_model *model) {
	const lk_stalls_part *part = work->result.parts;
	const lk_stalls_loader *loader = &hot->loader;
	double warm = work->result.step_s - lk_stalls_known(part[LK_STALL_FETCH].seconds);
	model->workers = fmax(1, loader->threads);
	model->preparation =
		part[LK_STALL_PREPARATION].named
			? warm * model->workers
			: fmin(lk_stalls_known(loader->own) + loader->busy, warm * model->workers);
	model->memory = model->bytes > 0 && loader->busy > 0
	                    ? model->bytes * model->workers / loader->busy
	                    : UNLIMITED;
}

/* Of the host: for a command, the cores that lockstep itself may use. */
static double count_host_cores(const lk_stalls_work *work) {
	return work->request->recording ? work->first.seen.cores : lk_cores();
}

static lk_stalls_model make_stalls_model(const lk_stalls_work *work) {
	const lk_stalls_answer *answer = &work->result;
	const lk_stalls_part *part = answer->parts;
	const lk_stalls_seen *hot =
		answer->rows[LK_STALLS_HOT].runs ? &work->last[LK_STALLS_HOT].seen : &work->first.seen;
	lk_stalls_model model = {.own = lk_stalls_known(part[LK_STALL_COMPUTE].seconds) +
	                                lk_stalls_known(part[LK_STALL_IMBALANCE].seconds) +
	                                lk_stalls_known(part[LK_STALL_SHARING].seconds) +
	                                lk_stalls_known(part[LK_STALL_PREEMPTED].seconds) +
	                                lk_stalls_known(part[LK_STALL_BURSTS].seconds),
	                         .writing = lk_stalls_known(part[LK_STALL_WRITING].seconds),
	                         .waiting = lk_stalls_known(part[LK_STALL_WAITING].seconds),
	                         .interconnect = lk_stalls_known(part[LK_STALL_INTERCONNECT].seconds),
	                         .network = lk_stalls_known(part[LK_STALL_NETWORK].seconds),
	                         .bytes = hot->loader.bytes,
	                         .cores = count_host_cores(work),
	                         .busy = count_busy_cores(work),
	                         .pipelined = hot->loader.apart && hot->loader_seen};
	model.hit = strcmp(answer->base, "hot") == 0;
	if (model.pipelined) model_pipelined_loader(work, hot, &model);
	else model_blocking_loader(work, hot, &model);
	lk_disk_work storage = lk_stalls_storage_of(&work->rounds, answer);
	if (lk_stalls_knows_storage(answer)) {
		storage.rate = work->disk_rate;
		storage.steps = work->runner.cold.at;
		storage.count = work->runner.cold.count;
	}
	lk_stalls_fit_disk(&model, &storage);
	return model;
}

/* ---- other machines ---- */

static lk_status fill_stalls_rates(lk_stalls_work *work, const lk_stalls_model *model) {
	lk_stalls_rates *rates = &work->result.rates;
	double compute = lk_stalls_compute_s(model), preparation = model->preparation / model->workers,
		   device = lk_stalls_device_s(model);
	double fetch = model->pipelined ? device : lk_stalls_fetch_s(model);
	*rates = (lk_stalls_rates){.pipelined = model->pipelined,
	                           .ingestion = compute > 0 ? 1 / compute : INFINITY,
	                           .preparation = preparation > 0 ? 1 / preparation : INFINITY,
	                           .fetch = fetch > 0 ? 1 / fetch : INFINITY,
	                           .bytes = model->bytes,
	                           .disk = model->disk,
	                           .memory = model->memory,
	                           .device = device,
	                           .hidden = fmin(model->hidden, device),
	                           .hit = model->hit,
	                           .workers = model->workers,
	                           .cores = model->cores,
	                           .busy = model->busy,
	                           .cores_to_hide = lk_stalls_cores_to_hide(model),
	                           .cache_to_hide = lk_stalls_cache_to_hide(model),
	                           .from = work->result.base};
	if (!lk_stalls_knows_storage(&work->result))
		rates->disk = rates->fetch = rates->cache_to_hide = rates->device = rates->hidden = NAN;
	return LK_OK;
}

static lk_status add_whatif_change(lk_stalls_work *work, const lk_stalls_model *now, double now_s,
                                   const char *line) {
	lk_stalls_machine machine;
	char name[LONGEST_CHANGE];
	LK_TRY(lk_stalls_machine_of(line, &machine, name, work->err));
	if (!lk_push(&work->changes)) return lk_oom(work->err);
	lk_stalls_change *change = lk_last(&work->changes);
	change->what = lk_arena_strdup(&work->arena, name);
	if (!change->what) return lk_oom(work->err);
	bool fetch_known = lk_stalls_knows_storage(&work->result);
	if ((!fetch_known && (machine.disk != 1 || !isnan(machine.hit))) ||
	    (isnan(now->cores) && !isnan(machine.cores))) {
		change->step_s = change->factor = change->closed_s = NAN;
		change->bottleneck = "not known";
		return LK_OK;
	}
	lk_stalls_model then = lk_stalls_on(now, &machine);
	double then_s;
	LK_TRY(lk_stalls_simulate(&then, &then_s, work->err));
	change->factor = now_s / then_s;
	change->step_s = work->result.step_s / change->factor;
	change->closed_s = work->result.step_s * lk_stalls_closed(&then, &change->bottleneck) /
	                   lk_stalls_closed(now, NULL);
	return LK_OK;
}

static lk_status add_default_changes(lk_stalls_work *work, const lk_stalls_model *model,
                                     double now_s) {
	char half[32], twice[32];
	snprintf(half, sizeof half, "cores=%g", fmax(1, floor(model->cores / 2)));
	snprintf(twice, sizeof twice, "cores=%g", 2 * model->cores);
	bool fetch = lk_stalls_knows_storage(&work->result);
	if (fetch) LK_TRY(add_whatif_change(work, model, now_s, "disk=2"));
	if (fetch) LK_TRY(add_whatif_change(work, model, now_s, "cache=1"));
	if (model->cores > 1) LK_TRY(add_whatif_change(work, model, now_s, half));
	if (!isnan(model->cores)) LK_TRY(add_whatif_change(work, model, now_s, twice));
	LK_TRY(add_whatif_change(work, model, now_s, "speed=2"));
	return work->result.hosts > 1 ? add_whatif_change(work, model, now_s, "network=10") : LK_OK;
}

lk_status lk_stalls_predict(lk_stalls_work *work) {
	lk_stalls_model model = make_stalls_model(work);
	double now_s;
	LK_TRY(fill_stalls_rates(work, &model));
	LK_TRY(lk_stalls_simulate(&model, &now_s, work->err));
	if (!work->request->what_ifs) LK_TRY(add_default_changes(work, &model, now_s));
	for (const char *line = work->request->what_ifs; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n')
		LK_TRY(add_whatif_change(work, &model, now_s, line));
	work->result.changes = work->changes.at;
	work->result.change_count = (int)work->changes.count;
	return LK_OK;
}

lk_status lk_stalls_buckets_of(lk_stalls_work *work, const lk_stalls_comm *comm) {
	lk_stalls_buckets *buckets = &work->result.buckets;
	const lk_stalls_part *part = work->result.parts;
	buckets->group = lk_arena_strdup(&work->arena, comm->group);
	double exposed = lk_stalls_known(
		part[comm->bucket_network ? LK_STALL_NETWORK : LK_STALL_INTERCONNECT].seconds);
	if (!buckets->group) return lk_oom(work->err);
	bool good =
		lk_stalls_fit_buckets(comm->sizes.at, (int)comm->sizes.count, lk_stalls_call_s(work, comm),
	                          exposed, work->result.step_s, &work->arena, buckets);
	return good ? LK_OK : lk_oom(work->err);
}
