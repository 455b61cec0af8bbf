/* predict_run.c: the whole training: days, what stops it, what that costs. `run` simulates it;
 * where a closed form is exact the goodput is that. */
#include <math.h>

#include "base/noun.h"
#include "base/text.h"
#include "predict/predict_internal.h"

/* Days of work of a run whose length is not given. */
static const double OPEN_DAYS = 30, DAY = 86400;

lk_run_words lk_predict_run_words(const lk_predict_request *request, double gpus, double nodes,
                                  double replicas, double bytes) {
	double gbps = request->checkpoint_write_gbps;
	return (lk_run_words){.gpus = gpus,
	                      .nodes = nodes,
	                      .replicas = replicas,
	                      .failures = request->failures,
	                      .node_mtbf_h = request->mtbf_hours,
	                      .recovery = request->recovery,
	                      .tiers = request->checkpoint_tiers,
	                      .interval_s = request->checkpoint_minutes * 60,
	                      .bytes = bytes,
	                      .node_gbps = gbps > 0 ? gbps : LK_CHECKPOINT_WRITE,
	                      .spares = request->spares,
	                      .repair_h = request->repair_hours,
	                      .seed = request->seed};
}

static void add_figure(lk_run_forecast *out, const char *key, const char *label,
                       lk_run_quantiles of, double times) {
	lk_run_figure *figure = &out->figures[out->figure_count++];
	*figure = (lk_run_figure){
		.mean = of.mean * times, .p5 = of.p5 * times, .p50 = of.p50 * times, .p95 = of.p95 * times};
	lk_copy(figure->key, sizeof figure->key, key);
	lk_copy(figure->label, sizeof figure->label, label);
}

static void add_parts(const lk_long_run *run, const lk_run_days *days, bool length,
                      lk_run_forecast *out) {
	for (int i = 0; i < LK_RUN_PARTS; i++) {
		if (!(days->part_days[i] > 0)) continue;
		lk_run_time *time = &out->times[out->time_count++];
		time->share = days->part_days[i] / days->days.mean;
		time->days = length ? days->part_days[i] : 0;
		lk_copy(time->key, sizeof time->key, lk_run_part_key((lk_run_part)i));
		lk_copy(time->label, sizeof time->label, lk_run_part_label((lk_run_part)i));
	}
	for (int i = 0; i < run->tier_count; i++) {
		const lk_run_tier *tier = &run->tiers[i];
		lk_run_saved *saved = &out->saved[out->saved_count++];
		*saved = (lk_run_saved){
			.interval_s = tier->interval_s, .stall_s = tier->stall_s, .write_s = tier->write_s};
		lk_copy(saved->name, sizeof saved->name, tier->name);
		lk_copy(saved->label, sizeof saved->label, tier->label);
	}
}

static lk_status refuse_run(const lk_predict_request *request, const lk_long_run *run,
                            lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, request->mtbf_hours > 0 ? "--mtbf" : "--failures",
	        "no useful work is left: %.0f %s, which stop every %.3g hours; %.3g s to write a "
	        "checkpoint",
	        run->nodes, lk_noun(run->nodes, "node", "nodes"), 1 / run->stops_per_h,
	        run->tiers[0].write_s);
	return lk_hint(err,
	               "give %s or a faster --checkpoint-write, or leave --checkpoint-interval out",
	               request->mtbf_hours > 0 ? "a longer --mtbf" : "lower rates");
}

lk_status lk_predict_forecast(lk_prediction *prediction, const lk_predict_request *request,
                              lk_long_run *phases, int count, lk_error *err) {
	lk_run_forecast *out = &prediction->run;
	const lk_long_run *longest = phases;
	lk_run_days days;
	double closed = 0, work_days = 0;
	bool length = request->tokens > 0 || request->run;
	for (int i = 0; i < count; i++) {
		lk_long_run *run = &phases[i];
		double goodput = lk_run_goodput(run);
		if (goodput <= 0) return refuse_run(request, run, err);
		if (count == 1 && lk_run_is_closed(run)) closed = goodput;
		lk_run_settle(run);
		work_days += run->work_s / DAY;
		if (run->work_s > longest->work_s) longest = run;
	}
	LK_TRY(lk_run_simulate(phases, count, &days, err));
	prediction->goodput = closed > 0 ? closed : fmin(1, work_days / days.days.mean);
	prediction->days = length ? work_days / prediction->goodput : 0;
	prediction->gpu_hours = 24 * days.gpu_days.mean / days.days.mean * prediction->days;
	out->samples = days.samples;
	out->mtbf_hours = longest->stops_per_h > 0 ? 1 / longest->stops_per_h : 0;
	out->best_interval_s = lk_run_best_interval(longest->stops_per_h, longest->tiers[0].stall_s);
	lk_run_best_spares(longest, &out->cheapest_spares, &out->enough_spares);
	lk_copy(out->recovery, sizeof out->recovery, longest->recovery.label);
	if (length) add_figure(out, "days", "days", days.days, 1);
	add_figure(out, "goodput", "goodput", days.goodput, 1);
	if (length) add_figure(out, "stops", "unplanned stops", days.stops, 1);
	if (length && request->price_gpu > 0)
		add_figure(out, "cost_usd", "cost, with spares", days.gpu_days, 24 * request->price_gpu);
	add_parts(longest, &days, length, out);
	return LK_OK;
}

lk_status lk_predict_training(lk_prediction *prediction, const lk_predict_request *request,
                              double per_step, const lk_run_words *words, lk_error *err) {
	bool length = request->tokens > 0 && per_step > 0;
	double seconds = length ? request->tokens / per_step * prediction->step_time_s : 0;
	prediction->days = seconds / DAY;
	prediction->gpu_hours = seconds / 3600 * prediction->gpus;
	if (!(request->mtbf_hours > 0) && !request->failures) return LK_OK;
	lk_long_run run;
	LK_TRY(lk_run_of(words, &run, err));
	run.work_s = length ? seconds : OPEN_DAYS * DAY;
	prediction->checkpoint_bytes = words->bytes;
	prediction->checkpoint_write_s = run.tiers[run.tier_count - 1].write_s;
	return lk_predict_forecast(prediction, request, &run, 1, err);
}

/* Energy and carbon as the days scatter: a run that waits draws what it draws in a step. */
void lk_predict_run_energy(lk_prediction *prediction) {
	lk_run_forecast *run = &prediction->run;
	if (!run->samples || !(prediction->days > 0)) return;
	const lk_run_figure *days = &run->figures[0];
	lk_run_quantiles of = {days->mean, days->p5, days->p50, days->p95};
	double kwh = prediction->energy.training_kwh, carbon = prediction->energy.carbon_kg;
	if (kwh > 0) add_figure(run, "energy_kwh", "energy", of, kwh / prediction->days);
	if (carbon > 0) add_figure(run, "carbon_kg", "CO2e", of, carbon / prediction->days);
}
