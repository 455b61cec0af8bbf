/* score_history.c: published long runs, predicted by `run`: goodput, and days where steps and their
 * time are published. What a row states of failures, checkpoints and recovery is used; what it
 * leaves open is as `predict --failures typical` assumes. Nothing is fitted to a row or to a study,
 * but how long nobody looks at a run of people was chosen with these rows in view
 * (docs/method/runs.md).
 *
 * A row that says neither when stops were detected nor how long a restart took is one of people who
 * notice and restart it if its study is of 2022 or before, or it is one "before" something that it
 * is compared with; else a machine is replaced without them. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/csv.h"
#include "run/run.h"
#include "validate/validate.h"

enum { HISTORY_ROWS = 10000, LAST_YEAR_BY_HAND = 2022, GPUS_OF_NODE = 8 };
/* Bytes of a checkpoint for each parameter (BLOOM 176B: 2.3 TB), parameters where none are stated,
 * GB/s of a node, s between checkpoints of runs that people restart (arXiv 2410.21680: hourly is
 * typical), days of "several weeks". */
static const double PARAMETER_BYTES = 13, OPEN_PARAMETERS = 70e9, NODE_GBPS = 1;
static const double INTERVAL_BY_HAND_S = 3600, WEEKS_DAYS = 21, DAY = 86400, OPEN_DAYS = 30;

static const char *const columns[] = {"study", "run", "kind", "gpus", "goodput", "goodput_is"};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* A row as it is read; NAN: not stated. */
struct history {
	const char *where, *study, *run, *kind, *gpu, *checked, *goodput_is, *definition;
	const char *recovery; /* a row of data/runs/recoveries.csv */
	double gpus, days, stops, planned, mtbf_h, per_1000, interval_min, stall_s, write_s, bytes;
	double detect_s, restart_min, lost_h, goodput, steps, step_s;
	int year; /* that it names; 0: none */
	bool each_step;
};

struct history_reading {
	lk_arena *arena;
	LK_VEC(struct history) list;
};

/* ---- reading ---- */

/* The numbers of a field: "40", "2..60" (its middle), "18 + 6 + 11 (...)" (their sum), "10 without,
 * 1 with" (the last, of the run with it). NAN: none. */
static double read_numbers(const char *text) {
	double sum = NAN, last = NAN;
	const char *end;
	for (const char *at = text; *at;) {
		double number = lk_read_real(at, &end);
		if (*at == '(') at += strcspn(at, ")"); /* a remark */
		if (end == at || !isdigit((unsigned char)*at)) {
			at += *at != 0;
			continue;
		}
		if (end[-1] == '.' && *end == '.') end--; /* "2." of "2..60" */
		last = number;
		if (strncmp(end, "..", 2) == 0) {
			const char *high = end + 2;
			last = (number + lk_read_real(high, &end)) / 2;
		}
		if (isnan(sum)) sum = last;
		else if (strchr(text, '+')) sum += last;
		at = end;
	}
	return strstr(text, "without") ? last : sum;
}

static double history_number(const lk_csv *csv, const char *column) {
	return read_numbers(lk_csv_named(csv, column));
}

/* The GPUs of a job, where a row of a cluster says of which jobs its goodput is: the number before
 * "GPUs". */
static double gpus_of_jobs(const char *text) {
	const char *at = strstr(text, "GPUs");
	if (!at) return NAN;
	while (at > text && !isdigit((unsigned char)at[-1])) at--;
	while (at > text && (isdigit((unsigned char)at[-1]) || at[-1] == ',')) at--;
	double number = 0;
	for (; isdigit((unsigned char)*at) || *at == ','; at++)
		if (*at != ',') number = 10 * number + (*at - '0');
	return number > 0 ? number : NAN;
}

/* The last year that a text names; 0: none. */
static int year_of(const char *text) {
	int year = 0;
	for (const char *at = text; *at; at++) {
		if (at > text && isalnum((unsigned char)at[-1])) continue;
		int number = 0, digits = 0;
		while (digits < 5 && isdigit((unsigned char)at[digits]))
			number = 10 * number + (at[digits++] - '0');
		if (digits == 4 && number > 2000 && number < 2100) year = number;
	}
	return year;
}

/* Rows of a study stand together: one may name the year of all. */
static void fill_recoveries(struct history_reading *reading) {
	for (size_t i = 0; i < reading->list.count; i++) {
		struct history *row = &reading->list.at[i];
		int year = row->year;
		for (size_t j = 0; year == 0 && j < reading->list.count; j++)
			if (strcmp(reading->list.at[j].study, row->study) == 0) year = reading->list.at[j].year;
		bool stated = !isnan(row->detect_s) || !isnan(row->restart_min),
			 by_hand = (year > 0 && year <= LAST_YEAR_BY_HAND) || strstr(row->run, "before ");
		row->recovery = !stated && by_hand ? "people" : "replace";
	}
}

static lk_status read_history(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	(void)at;
	struct history_reading *reading = context;
	if (!lk_push(&reading->list)) return lk_oom(err);
	struct history *row = lk_last(&reading->list);
	*row = (struct history){.gpus = history_number(csv, "gpus"),
	                        .days = history_number(csv, "days"),
	                        .stops = history_number(csv, "unexpected"),
	                        .planned = history_number(csv, "planned"),
	                        .mtbf_h = history_number(csv, "mtbf_h"),
	                        .per_1000 = history_number(csv, "failures_per_1000_gpu_days"),
	                        .interval_min = history_number(csv, "ckpt_interval_min"),
	                        .stall_s = history_number(csv, "ckpt_stall_s"),
	                        .write_s = history_number(csv, "ckpt_write_s"),
	                        .bytes = 1e9 * history_number(csv, "ckpt_GB"),
	                        .detect_s = history_number(csv, "detect_s"),
	                        .restart_min = history_number(csv, "restart_min"),
	                        .lost_h = history_number(csv, "lost_work_h"),
	                        .goodput = history_number(csv, "goodput"),
	                        .steps = history_number(csv, "steps"),
	                        .step_s = history_number(csv, "step_s")};
	if (isnan(row->stops)) row->stops = history_number(csv, "interruptions");
	if (isnan(row->bytes)) row->bytes = 1e9 * PARAMETER_BYTES * history_number(csv, "params_B");
	row->each_step = strstr(lk_csv_named(csv, "ckpt_interval_min"), "step");
	const struct {
		const char *column, **to;
	} texts[] = {{"study", &row->study},
	             {"run", &row->run},
	             {"kind", &row->kind},
	             {"gpu", &row->gpu},
	             {"checked", &row->checked},
	             {"goodput_is", &row->goodput_is},
	             {"goodput_definition", &row->definition}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		*texts[i].to = lk_arena_strdup(reading->arena, lk_csv_named(csv, texts[i].column));
		if (!*texts[i].to) return lk_oom(err);
	}
	row->where = lk_arena_strdup(reading->arena, lk_csv_where(csv));
	if (!row->where) return lk_oom(err);
	if (strcmp(row->kind, "cluster") == 0 && !isnan(gpus_of_jobs(row->goodput_is)))
		row->gpus = gpus_of_jobs(row->goodput_is);
	row->year = year_of(row->run);
	if (isnan(row->days) && strstr(row->run, "several weeks")) row->days = WEEKS_DAYS;
	return LK_OK;
}

/* ---- prediction ---- */

static double stated_or(double stated, double otherwise) {
	return isnan(stated) ? otherwise : stated;
}

/* Stops of the job in an hour, and planned ones. */
static void history_rates(const struct history *row, lk_long_run *run) {
	bool of_job = strcmp(row->kind, "cluster") != 0;
	double hours = 24 * row->days, per_h = NAN;
	if (of_job) per_h = isnan(row->stops) ? 1 / row->mtbf_h : row->stops / hours;
	if (isnan(per_h) && of_job) per_h = 1 / row->mtbf_h;
	if (isnan(per_h)) per_h = row->per_1000 / 24e3 * row->gpus;
	if (isnan(per_h)) return;
	run->stops_per_h = per_h;
	run->planned_per_h = stated_or(row->planned / hours, 0);
}

static void history_recover(const struct history *row, lk_run_recovery *recovery) {
	if (!isnan(row->restart_min)) {
		/* it begins at the failure, unless detection is stated apart */
		recovery->restart_s = recovery->in_place_s = 60 * row->restart_min;
		recovery->replace_s = recovery->diagnose_s = 0;
		if (isnan(row->detect_s)) recovery->detect_s = recovery->hang_s = 0;
	}
	if (!isnan(row->detect_s)) recovery->detect_s = recovery->hang_s = row->detect_s;
}

static lk_status history_run(const struct history *row, const char *rates, lk_long_run *run,
                             lk_error *err) {
	lk_run_words words = {.gpus = row->gpus,
	                      .nodes = fmax(1, row->gpus / GPUS_OF_NODE),
	                      .failures = rates,
	                      .recovery = row->recovery,
	                      .bytes = stated_or(row->bytes, PARAMETER_BYTES * OPEN_PARAMETERS),
	                      .node_gbps = NODE_GBPS,
	                      .seed = 1};
	if (strcmp(row->recovery, "people") == 0) words.interval_s = INTERVAL_BY_HAND_S;
	if (!isnan(row->interval_min) && !row->each_step) words.interval_s = 60 * row->interval_min;
	if (row->each_step && !isnan(row->step_s)) words.interval_s = row->step_s;
	LK_TRY(lk_run_of(&words, run, err));
	lk_run_tier *tier = run->tiers;
	tier->write_s = stated_or(row->write_s, stated_or(row->stall_s, tier->write_s));
	tier->stall_s = fmin(stated_or(row->stall_s, tier->write_s), tier->write_s);
	history_rates(row, run);
	history_recover(row, &run->recovery);
	run->work_s = (row->days > 0 ? row->days : OPEN_DAYS) * DAY;
	lk_run_settle(run);
	return LK_OK;
}

/* ---- rows ---- */

static void history_label(const struct history *row, lk_validated *out) {
	out->id = row->run;
	out->where = row->where;
	out->model = row->study;
	out->gpu = row->gpu;
	out->gpus = (int)fmin(stated_or(row->gpus, 0), 1e9);
	out->layout = row->recovery;
}

static const char *reason_not(const struct history *row) {
	if (isnan(row->goodput)) return "no goodput is stated";
	if (!(row->gpus > 0)) return "the number of GPUs is not stated";
	return NULL;
}

/* Goodput as a row defines it: of what errors cost, of waiting for machines alone, or of all. */
static double goodput_as(const struct history *row, const lk_run_days *found, double goodput) {
	const double *part = found->part_days;
	double other = part[LK_RUN_CHECKPOINT] + part[LK_RUN_PLANNED];
	if (strstr(row->goodput_is, "alone")) return 1 - part[LK_RUN_SPARES] / found->days.mean;
	return strstr(row->definition, "error") ? goodput + other / found->days.mean : goodput;
}

struct history_goodput {
	double low, mean, high;
};

static lk_status history_goodput(const struct history *row, const char *rates,
                                 struct history_goodput *out, lk_error *err) {
	lk_long_run run;
	lk_run_days found;
	LK_TRY(history_run(row, rates, &run, err));
	LK_TRY(lk_run_simulate(&run, 1, &found, err));
	/* what is said to have been lost beyond that */
	double lost = isnan(row->lost_h) || isnan(row->days) ? 0 : row->lost_h / 24 / row->days;
	out->low = goodput_as(row, &found, found.goodput.p5) - lost;
	out->mean = goodput_as(row, &found, run.work_s / DAY / found.days.mean) - lost;
	out->high = goodput_as(row, &found, found.goodput.p95) - lost;
	return LK_OK;
}

/* Whether a row states how often its job stops. */
static bool states_stops(const struct history *row) {
	double days = strcmp(row->kind, "cluster") == 0 ? NAN : row->days;
	return !isnan(row->stops * days) || !isnan(row->mtbf_h) || !isnan(row->per_1000);
}

/* The goodput of a row, and its days if it has steps: `days` is NULL, or the next row. The range
 * holds that of failure rates where the row states none. */
static lk_status fill_history(const struct history *row, lk_validated *goodput, lk_validated *days,
                              lk_error *err) {
	struct history_goodput of, most, least;
	LK_TRY(history_goodput(row, "typical", &of, err));
	most = least = of;
	if (!states_stops(row)) {
		LK_TRY(history_goodput(row, "high", &most, err));
		LK_TRY(history_goodput(row, "low", &least, err));
	}
	goodput->unit = "%";
	goodput->low = 100 * fmin(most.low, of.mean);
	goodput->predicted = 100 * of.mean;
	goodput->high = 100 * fmax(least.high, of.mean);
	goodput->measured = 100 * row->goodput;
	if (!days) return LK_OK;
	days->unit = "d";
	days->measured = row->days;
	days->predicted = row->steps * row->step_s / DAY / of.mean;
	days->low = days->predicted * goodput->predicted / goodput->high;
	days->high = days->predicted * goodput->predicted / goodput->low;
	return LK_OK;
}

static bool has_days(const struct history *row) {
	return !isnan(row->goodput) && row->gpus > 0 && row->steps * row->step_s * row->days > 0;
}

static lk_status history_score(lk_arena *arena, const struct history_reading *reading,
                               lk_scoring *out, lk_error *err) {
	size_t count = reading->list.count, at = 0;
	for (size_t i = 0; i < reading->list.count; i++) count += has_days(&reading->list.at[i]);
	LK_TRY(lk_scoring_rows(arena, count, out, err));
	lk_score_key *figure = lk_scoring_divide(arena, out, "figure"),
				 *recovery = lk_scoring_divide(arena, out, "recovery"),
				 *stops = lk_scoring_divide(arena, out, "stops"),
				 *checked = lk_scoring_divide(arena, out, "checked");
	if (!figure || !recovery || !stops || !checked) return lk_oom(err);
	for (size_t i = 0; i < reading->list.count; i++) {
		const struct history *row = &reading->list.at[i];
		lk_validated *goodput = &out->rows[at], *days = has_days(row) ? goodput + 1 : NULL;
		size_t first = at;
		for (at += days ? 2 : 1; first < at; first++) {
			history_label(row, &out->rows[first]);
			figure[first].name = &out->rows[first] == days ? "days" : "goodput";
			recovery[first].name = row->recovery;
			stops[first].name = states_stops(row) ? "stated" : "typical";
			checked[first].name = row->checked;
		}
		goodput->reason = reason_not(row);
		if (goodput->reason) continue;
		lk_status status = fill_history(row, goodput, days, err);
		if (status == LK_ERR_INPUT) goodput->reason = lk_arena_strdup(arena, err->what);
		if (status != LK_OK && !(status == LK_ERR_INPUT && goodput->reason)) return status;
		if (status != LK_OK) continue;
		if (strncmp(row->goodput_is, "lower bound", 11) != 0) continue;
		size_t place = (size_t)(goodput - out->rows);
		out->scores[place].suspect = true;
		figure[place].name = "bound";
		goodput->reason = goodput->predicted >= goodput->measured ? "a lower bound: kept"
		                                                          : "a lower bound: broken";
	}
	out->unit_of_rows = "figure";
	out->folds = "";
	return LK_OK;
}

lk_status lk_score_history(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                           lk_scoring *out, lk_error *err) {
	if (request->cross) {
		lk_fail(err, LK_ERR_INPUT, "--cross-validate", "nothing is fitted to rows of --history");
		return lk_hint(err, "leave it out");
	}
	struct history_reading reading = {.arena = arena};
	const lk_csv_table table = {columns,      COLUMNS,      COLUMNS, "table of long runs",
	                            HISTORY_ROWS, read_history, NULL};
	lk_status status = lk_csv_read(in, &table, &reading, err);
	fill_recoveries(&reading);
	if (status == LK_OK) status = history_score(arena, &reading, out, err);
	lk_vec_free(&reading.list);
	return status;
}
