/* measured_result.c: the measured run of all hits: which format wins, the series of each gauge over
 * the steps, and their medians. A step that several ranks state counts once, at its slowest. The
 * first steps, which compile and fill caches, are left out of medians, and medians do not bend with
 * the few that save or evaluate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/noun.h"
#include "base/sort.h"
#include "base/stats.h"
#include "base/text.h"
#include "measured/measured_internal.h"

/* ---- which format ---- */

static bool format_has(const lk_measured_format *format, const lk_measured_key *keys) {
	for (int i = 0; format->tables[i]; i++)
		if (format->tables[i] == keys) return true;
	return false;
}

/* Matches of its own tables; bars are nobody's own. */
static size_t format_score(const lk_hits *hits, const lk_measured_format *format) {
	size_t score = 0;
	for (size_t i = 0; i < hits->hits.count; i++) {
		const lk_measured_key *keys = hits->tables[hits->hits.at[i].table].keys;
		score += hits->hits.at[i].key && keys != lk_measured_keys_bars && format_has(format, keys);
	}
	return score;
}

static const lk_measured_format *format_of(const lk_hits *hits) {
	const lk_measured_format *best = lk_measured_formats, *plain = NULL, *devices = NULL;
	size_t most = 0;
	for (const lk_measured_format *format = lk_measured_formats; format->name; format++) {
		size_t score = format_score(hits, format);
		if (format_has(format, lk_measured_keys_plain)) plain = format;
		if (format_has(format, lk_measured_keys_devices)) devices = format;
		if (score <= most || format == devices) continue;
		best = format;
		most = score;
	}
	if (most > 0) return best;
	return hits->bars.count > 0 || format_score(hits, devices) == 0 ? plain : devices;
}

/* ---- series ---- */

struct point {
	double step, value, stamp;
	uint32_t order;
};
typedef LK_VEC(struct point) point_list;
LK_ORDER_BY(points_by_step, struct point, step, order)

/* The bar that was shown longest: that of the training. */
static uint32_t main_bar(const lk_hits *hits) {
	uint32_t best = 0;
	for (size_t i = 0; i < hits->bars.count; i++)
		if (best == 0 || hits->bars.at[i].elapsed_s > hits->bars.at[best - 1].elapsed_s)
			best = (uint32_t)i + 1;
	return best;
}

/* What is asked of the hits: of one format, with the tables of devices. */
typedef struct measured_work {
	const lk_hits *hits;
	const lk_measured_format *format;
	uint32_t bar;
	lk_measured *out;
	bool found;         /* any gauge that is a measurement */
	const char *whence; /* of the time of a step, where nothing states it itself; NULL */
} measured_work;

static bool hit_counts(const measured_work *work, const lk_hit *hit, const lk_measured_key *key) {
	return hit->key == key && (hit->bar == 0 || hit->bar == work->bar);
}

/* The first row of a gauge, in the order of the tables, that has a hit above 0. */
static const lk_measured_key *key_of_gauge(const measured_work *work, enum lk_gauge gauge,
                                           const lk_measured_key *devices) {
	const lk_measured_key *const own[] = {devices, NULL};
	const lk_measured_key *const *tables = devices ? own : work->format->tables;
	for (int i = 0; tables[i]; i++)
		for (const lk_measured_key *key = tables[i]; key->key; key++) {
			for (size_t j = 0; key->gauge == gauge && j < work->hits->hits.count; j++)
				if (hit_counts(work, &work->hits->hits.at[j], key) &&
				    work->hits->hits.at[j].value > 0)
					return key;
		}
	return NULL;
}

/* Of one step that several ranks state: the slowest, the fullest; else what was stated first. */
static void points_join(point_list *points, bool largest) {
	size_t kept = 0;
	for (size_t i = 0; i < points->count; i++) {
		const struct point *at = &points->at[i];
		struct point *last = kept > 0 ? &points->at[kept - 1] : NULL;
		if (!last || isnan(at->step) || last->step != at->step) points->at[kept++] = *at;
		else if (largest && at->value > last->value) last->value = at->value;
	}
	points->count = kept;
}

/* Note whether a run went back to an earlier step. Back to the first one is another rank or another
 * run, back by one another rank that is late. */
static bool note_restart(lk_measured *out, double first, double before, double now) {
	if (!(now < before - 1 && now > first)) return false;
	out->restarts++;
	out->repeated_steps += (int64_t)(before - now) + 1;
	return true;
}

/* The points of a row in the order of steps; without steps, as they came. */
static lk_status points_of(const measured_work *work, const lk_measured_key *key, bool largest,
                           point_list *points, lk_error *err) {
	bool stepped = true;
	double before = NAN;
	for (size_t i = 0; i < work->hits->hits.count; i++) {
		const lk_hit *hit = &work->hits->hits.at[i];
		if (!hit_counts(work, hit, key) || !(hit->value > 0)) continue;
		bool restarts = key->gauge == LK_GAUGE_STEP_S && points->count &&
		                note_restart(work->out, points->at[0].step, before, hit->step);
		before = hit->step;
		if (restarts) continue; /* it compiles and fills caches like the first */
		if (!lk_push(points)) return lk_oom(err);
		*lk_last(points) = (struct point){hit->step, hit->value, hit->stamp, (uint32_t)i};
		stepped &= !isnan(hit->step);
	}
	if (stepped) lk_sort(points->at, points->count, sizeof *points->at, points_by_step);
	points_join(points, largest);
	return LK_OK;
}

/* Steps at the start that compile, allocate and fill caches: a tenth of all, at most ten, and where
 * there are two or more at least one. */
static size_t first_steps(size_t steps) {
	if (steps < 2) return 0;
	size_t tenth = steps / 10;
	if (tenth < 1) return 1;
	return tenth > 10 ? 10 : tenth;
}

static lk_status points_quantile(const point_list *points, double q, double *out, lk_error *err) {
	size_t first = first_steps(points->count), count = points->count - first;
	double *values = malloc((count ? count : 1) * sizeof *values);
	if (!values) return lk_oom(err);
	for (size_t i = 0; i < count; i++) values[i] = points->at[first + i].value;
	*out = count ? lk_quantile(values, count, q) : 0;
	free(values);
	return LK_OK;
}

/* ---- times of steps ---- */

/* Differences of moments over those of steps. */
static void points_differ(point_list *points) {
	size_t kept = 0;
	for (size_t i = 1; i < points->count; i++) {
		const struct point *before = &points->at[i - 1], *now = &points->at[i];
		double steps = now->step - before->step, seconds = now->value - before->value;
		if (!(steps > 0) || !(seconds > 0)) continue;
		points->at[kept++] = (struct point){now->step, seconds / steps, NAN, now->order};
	}
	points->count = kept;
}

/* Moments of lines that state the number of a step. */
static lk_status points_of_stamps(const measured_work *work, point_list *points, lk_error *err) {
	for (size_t i = 0; i < work->hits->hits.count; i++) {
		const lk_hit *hit = &work->hits->hits.at[i];
		const lk_measured_key *keys = work->hits->tables[hit->table].keys;
		bool own = !hit->key || format_has(work->format, keys);
		if (!own || hit->bar || isnan(hit->step) || isnan(hit->stamp)) continue;
		if (hit->key && hit->key->gauge != LK_GAUGE_STEP && !work->hits->container) continue;
		if (!lk_push(points)) return lk_oom(err);
		*lk_last(points) = (struct point){hit->step, hit->stamp, NAN, (uint32_t)i};
	}
	lk_sort(points->at, points->count, sizeof *points->at, points_by_step);
	points_join(points, false);
	points_differ(points);
	return LK_OK;
}

/* Micro-steps of one step: the numbers of both on the line stated last. */
static double micro_steps(const measured_work *work) {
	const lk_measured_key *micro = key_of_gauge(work, LK_GAUGE_MICRO, NULL);
	double count = 1;
	for (size_t i = 0; micro && i < work->hits->hits.count; i++) {
		const lk_hit *hit = &work->hits->hits.at[i];
		if (hit->key == micro && hit->step > 0 && hit->value > hit->step)
			count = hit->value / hit->step;
	}
	return round(count) > 1 ? round(count) : 1;
}

/* Times of micro-steps added up to those of steps: each is the mean of its step's times as many
 * as there are. */
static lk_status points_of_micro(const measured_work *work, const lk_measured_key *key,
                                 point_list *points, lk_error *err) {
	double each = micro_steps(work);
	size_t kept = 0;
	for (size_t i = 0; i < work->hits->hits.count; i++) {
		const lk_hit *hit = &work->hits->hits.at[i];
		if (hit->key != key || !(hit->value > 0)) continue;
		if (!lk_push(points)) return lk_oom(err);
		*lk_last(points) = (struct point){hit->step, hit->value, 1, (uint32_t)i};
	}
	for (size_t i = 0; i < points->count; i++) {
		struct point *last = kept > 0 ? &points->at[kept - 1] : NULL, now = points->at[i];
		if (last && last->step == now.step) {
			last->value += now.value;
			last->stamp++;
		} else {
			points->at[kept++] = now;
		}
	}
	points->count = kept;
	for (size_t i = 0; i < kept; i++) points->at[i].value *= each / points->at[i].stamp;
	return LK_OK;
}

/* The times of steps by the first way that the file has. */
static lk_status step_points(measured_work *work, point_list *points, lk_error *err) {
	const lk_measured_key *key = key_of_gauge(work, LK_GAUGE_STEP_S, NULL);
	if (key) return points_of(work, key, true, points, err);
	if ((key = key_of_gauge(work, LK_GAUGE_MICRO_S, NULL)))
		return points_of_micro(work, key, points, err);
	if ((key = key_of_gauge(work, LK_GAUGE_RATE, NULL))) {
		LK_TRY(points_of(work, key, false, points, err));
		for (size_t i = 0; i < points->count; i++) points->at[i].value = 1 / points->at[i].value;
		return LK_OK;
	}
	if ((key = key_of_gauge(work, LK_GAUGE_STAMP, NULL))) {
		LK_TRY(points_of(work, key, false, points, err));
		points_differ(points);
		if (points->count > 0) return LK_OK;
	}
	LK_TRY(points_of_stamps(work, points, err));
	if (points->count > 0) work->whence = "times of steps by their time stamps";
	return LK_OK;
}

static lk_status keep_steps(measured_work *work, const point_list *points, lk_error *err) {
	lk_measured *out = work->out;
	if (points->count == 0) return LK_OK;
	out->step_times_s = malloc(points->count * sizeof *out->step_times_s);
	out->step_numbers = malloc(points->count * sizeof *out->step_numbers);
	if (!out->step_times_s || !out->step_numbers) return lk_oom(err);
	out->steps = points->count;
	out->first_steps = first_steps(points->count);
	memcpy(out->run_after, work->hits->run_after, sizeof out->run_after);
	out->run_count = work->hits->run_count;
	for (size_t i = 0; i < points->count; i++) {
		double step = points->at[i].step;
		bool whole = step >= 0 && step < 0x1p53;
		out->step_times_s[i] = points->at[i].value;
		out->step_numbers[i] = whole ? (int64_t)step : (int64_t)i + 1;
	}
	LK_TRY(points_quantile(points, 0.5, &out->step_s, err));
	LK_TRY(points_quantile(points, 0.05, &out->step_low_s, err));
	LK_TRY(points_quantile(points, 0.95, &out->step_high_s, err));
	work->found = true;
	return LK_OK;
}

static lk_status take_steps(measured_work *work, lk_error *err) {
	point_list points = {0};
	lk_status status = step_points(work, &points, err);
	if (status == LK_OK) status = keep_steps(work, &points, err);
	lk_vec_free(&points);
	return status;
}

/* ---- other gauges ---- */

enum way { MEDIAN, MOST, LAST, MEAN };

static double points_value(const point_list *points, enum way way) {
	double most = 0, sum = 0;
	for (size_t i = 0; i < points->count; i++) {
		if (points->at[i].value > most) most = points->at[i].value;
		sum += points->at[i].value;
	}
	if (way == MOST) return most;
	return way == LAST ? points->at[points->count - 1].value : sum / (double)points->count;
}

static lk_status take_key(measured_work *work, const lk_measured_key *key, enum way way,
                          double *value, lk_error *err) {
	point_list points = {0};
	lk_status status = points_of(work, key, way == MOST, &points, err);
	if (status == LK_OK && way == MEDIAN) status = points_quantile(&points, 0.5, value, err);
	else if (status == LK_OK) *value = points_value(&points, way);
	lk_vec_free(&points);
	return status;
}

static lk_status take_gauge(measured_work *work, enum lk_gauge gauge, enum way way,
                            const lk_measured_key *devices, lk_error *err) {
	const lk_measured_key *key = key_of_gauge(work, gauge, devices);
	double value = 0;
	if (!key || lk_gauge_get(work->out, gauge) > 0) return LK_OK;
	LK_TRY(take_key(work, key, way, &value, err));
	if (gauge == LK_GAUGE_MFU && value > 1) value /= 100;
	if (gauge == LK_GAUGE_MEMORY) work->out->memory_kind = key->memory;
	lk_gauge_set(work->out, gauge, value);
	work->found |= gauge != LK_GAUGE_GPUS && gauge != LK_GAUGE_BATCH && gauge != LK_GAUGE_SEQ;
	return LK_OK;
}

static lk_status add_part(measured_work *work, const lk_measured_key *key, lk_error *err) {
	lk_measured *out = work->out;
	for (size_t i = 0; i < out->part_count; i++)
		if (strcmp(out->parts[i].name, key->part) == 0) return LK_OK;
	double seconds = 0;
	LK_TRY(take_key(work, key, MEDIAN, &seconds, err));
	lk_measured_part *more = realloc(out->parts, (out->part_count + 1) * sizeof *more);
	if (!more) return lk_oom(err);
	out->parts = more;
	more[out->part_count] = (lk_measured_part){strdup(key->part), seconds};
	if (!more[out->part_count].name) return lk_oom(err);
	out->part_count++;
	work->found = true;
	return LK_OK;
}

static bool has_hit(const measured_work *work, const lk_measured_key *key) {
	for (size_t i = 0; i < work->hits->hits.count; i++)
		if (work->hits->hits.at[i].key == key && work->hits->hits.at[i].value > 0) return true;
	return false;
}

static lk_status take_parts(measured_work *work, lk_error *err) {
	for (int i = 0; work->format->tables[i]; i++)
		for (const lk_measured_key *key = work->format->tables[i]; key->key; key++)
			if (key->gauge == LK_GAUGE_PART && has_hit(work, key)) LK_TRY(add_part(work, key, err));
	return LK_OK;
}

/* Tables of devices, and their number by the highest index. */
static lk_status take_devices(measured_work *work, lk_error *err) {
	static const struct {
		enum lk_gauge gauge;
		enum way way;
	} gauges[] = {{LK_GAUGE_MEMORY, MOST}, {LK_GAUGE_GPU_MEMORY, MOST},
	              {LK_GAUGE_POWER, MEAN},  {LK_GAUGE_POWER_LIMIT, MOST},
	              {LK_GAUGE_CLOCK, MEAN},  {LK_GAUGE_UTILISATION, MEAN}};
	for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
		LK_TRY(take_gauge(work, gauges[i].gauge, gauges[i].way, lk_measured_keys_devices, err));
	double last = -1;
	for (size_t i = 0; i < work->hits->hits.count; i++) {
		const lk_hit *hit = &work->hits->hits.at[i];
		if (hit->key && hit->key->gauge == LK_GAUGE_INDEX && hit->value > last) last = hit->value;
	}
	if (work->out->gpus == 0 && last >= 0 && last < 1e6) work->out->gpus = (int64_t)last + 1;
	work->out->throttled = work->hits->throttled;
	work->out->out_of_memory = work->hits->out_of_memory;
	if (!*work->hits->device) return LK_OK;
	work->out->gpu_name = strdup(work->hits->device);
	return work->out->gpu_name ? LK_OK : lk_oom(err);
}

/* The batch by the samples seen between the first and the last step. */
static lk_status batch_by_samples(measured_work *work, lk_error *err) {
	const lk_measured_key *key = key_of_gauge(work, LK_GAUGE_SAMPLES_SEEN, NULL);
	point_list points = {0};
	if (!key || work->out->global_batch > 0) return LK_OK;
	lk_status status = points_of(work, key, false, &points, err);
	if (status == LK_OK && points.count > 1) {
		const struct point *first = &points.at[0], *last = &points.at[points.count - 1];
		double batch = (last->value - first->value) / (last->step - first->step);
		if (batch >= 1 && batch < 0x1p53) work->out->global_batch = (int64_t)round(batch);
	}
	lk_vec_free(&points);
	return status;
}

/* The time of a step that only speeds state. */
static lk_status step_by_speed(measured_work *work, lk_error *err) {
	lk_measured *out = work->out;
	const lk_measured_key *run = key_of_gauge(work, LK_GAUGE_RUN_RATE, NULL);
	double rate = 0, tokens = (double)out->global_batch * (double)out->seq_len;
	double speed =
		out->tokens_per_s > 0 ? out->tokens_per_s : out->tokens_per_s_gpu * (double)out->gpus;
	if (out->step_s > 0) return LK_OK;
	if (run) LK_TRY(take_key(work, run, LAST, &rate, err));
	if (rate > 0) {
		out->step_s = 1 / rate;
		work->whence = "time of a step as the mean of the run";
	} else if (out->samples_per_s > 0 && out->global_batch > 0) {
		out->step_s = (double)out->global_batch / out->samples_per_s;
		work->whence = "time of a step by its samples per second";
	} else if (speed > 0 && tokens > 0) {
		out->step_s = tokens / speed;
		work->whence = "time of a step by its tokens per second";
	}
	work->found |= out->step_s > 0;
	return LK_OK;
}

/* ---- the result ---- */

static lk_status name_source(measured_work *work, lk_error *err) {
	char shown[32], text[256];
	const lk_measured *out = work->out;
	lk_text source = lk_text_begin(text, sizeof text);
	bool devices = format_has(work->format, lk_measured_keys_devices);
	const char *container = work->hits->container;
	lk_text_add(&source, "%s of %s",
	            container ? container
	            : devices ? "table"
	                      : "log",
	            work->format->name);
	if (out->steps > 0)
		lk_text_add(&source, ", %s %s",
		            lk_format_thousands((double)out->steps, shown, sizeof shown),
		            lk_noun((double)out->steps, "step", "steps"));
	if (work->whence) lk_text_add(&source, ", %s", work->whence);
	work->out->source = strdup(text);
	return work->out->source ? LK_OK : lk_oom(err);
}

/* As many names of formats as there is room for. */
static lk_status refuse_nothing(const char *name, lk_error *err) {
	char names[190];
	lk_text list = lk_text_begin(names, sizeof names);
	lk_fail(err, LK_ERR_INPUT, name, "it states nothing that a run measured");
	for (const lk_measured_format *format = lk_measured_formats; format->name; format++)
		if (list.used + strlen(format->name) + 3 < sizeof names)
			lk_text_add(&list, "%s%s", list.used ? ", " : "", format->name);
	return lk_hint(err, "read are logs, CSV, JSON and events of %s and others", names);
}

static lk_status take_all(measured_work *work, lk_error *err) {
	static const struct {
		enum lk_gauge gauge;
		enum way way;
	} gauges[] = {
		{LK_GAUGE_TOKENS, MEDIAN}, {LK_GAUGE_TOKENS_GPU, MEDIAN}, {LK_GAUGE_SAMPLES, MEDIAN},
		{LK_GAUGE_TFLOPS, MEDIAN}, {LK_GAUGE_MFU, MEDIAN},        {LK_GAUGE_MEMORY, MOST},
		{LK_GAUGE_GPUS, MOST},     {LK_GAUGE_BATCH, LAST},        {LK_GAUGE_SEQ, LAST}};
	LK_TRY(take_steps(work, err));
	for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
		LK_TRY(take_gauge(work, gauges[i].gauge, gauges[i].way, NULL, err));
	LK_TRY(take_parts(work, err));
	LK_TRY(take_devices(work, err));
	LK_TRY(batch_by_samples(work, err));
	LK_TRY(step_by_speed(work, err));
	return name_source(work, err);
}

lk_status lk_hits_result(const lk_hits *hits, const char *name, lk_measured *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	measured_work work = {
		.hits = hits, .format = format_of(hits), .bar = main_bar(hits), .out = out};
	lk_status status = take_all(&work, err);
	if (status == LK_OK && !work.found) status = refuse_nothing(name, err);
	if (status != LK_OK) lk_measured_free(out);
	return status;
}
