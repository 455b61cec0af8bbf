/* run_tables.c: rates of failures, kinds of recovery and of checkpoints: rows of data/runs/, read
 * once in a context; and a run from the words of a request. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/vec.h"
#include "io/csv.h"
#include "io/embedded.h"
#include "run/run.h"
#include "system/context.h"

/* Restarts take longer on more GPUs: 454 s on 2,048, 768 s on 16,384. */
static const double RESTART_GPUS = 2048, RESTART_POWER = 0.253;

/* A row of data/runs/checkpoints.csv; NAN: as the step or the request says. */
struct checkpoint_kind {
	const char *name, *label;
	double copy_gpu_gbps, write_node_gbps, load;
	bool survives;
};

struct run_tables {
	lk_kept kept; /* first */
	lk_arena arena;
	LK_VEC(lk_run_cause) causes;
	LK_VEC(lk_run_recovery) recoveries;
	LK_VEC(struct checkpoint_kind) kinds;
};

static lk_status take_text(struct run_tables *tables, const lk_csv *csv, int column,
                           const char *otherwise, const char **out, lk_error *err) {
	const char *text = lk_csv_field(csv, column);
	*out = *text ? lk_arena_strdup(&tables->arena, text) : otherwise;
	return *out ? LK_OK : lk_oom(err);
}

static lk_status take_number(const lk_csv *csv, int column, double most, double otherwise,
                             double *out, lk_error *err) {
	LK_TRY(lk_csv_real(csv, column, 0, most, out, err));
	if (isnan(*out)) *out = otherwise;
	return LK_OK;
}

static lk_status take_truth(const lk_csv *csv, int column, bool otherwise, bool *out,
                            lk_error *err) {
	double number;
	LK_TRY(take_number(csv, column, 1, otherwise, &number, err));
	*out = number > 0;
	return LK_OK;
}

/* ---- rows ---- */

static const char *const cause_columns[] = {"cause", "per_1e6_gpu_h", "label",  "low",
                                            "high",  "replaces",      "planned"};

static lk_status read_cause(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct run_tables *tables = context;
	if (!lk_push(&tables->causes)) return lk_oom(err);
	lk_run_cause *cause = lk_last(&tables->causes);
	double rate;
	LK_TRY(take_text(tables, csv, at[0], "", &cause->key, err));
	LK_TRY(take_number(csv, at[1], 1e6, 0, &rate, err));
	LK_TRY(take_text(tables, csv, at[2], cause->key, &cause->label, err));
	LK_TRY(take_number(csv, at[3], 1e6, rate, &cause->low, err));
	LK_TRY(take_number(csv, at[4], 1e6, rate, &cause->high, err));
	LK_TRY(take_truth(csv, at[5], true, &cause->replaces, err));
	LK_TRY(take_truth(csv, at[6], false, &cause->planned, err));
	cause->per_gpu_h = rate / 1e6;
	cause->low /= 1e6;
	cause->high /= 1e6;
	return LK_OK;
}

enum { SECONDS = 7, RECOVERY_COLUMNS = 3 + SECONDS };
static const char *const recovery_columns[RECOVERY_COLUMNS] = {
	"name",   "label",      "elastic",   "detect_s",  "hang_share",
	"hang_s", "diagnose_s", "replace_s", "restart_s", "in_place_s"};

static lk_status read_recovery(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct run_tables *tables = context;
	if (!lk_push(&tables->recoveries)) return lk_oom(err);
	lk_run_recovery *out = lk_last(&tables->recoveries);
	double *const seconds[SECONDS] = {&out->detect_s,   &out->hang_share, &out->hang_s,
	                                  &out->diagnose_s, &out->replace_s,  &out->restart_s,
	                                  &out->in_place_s};
	LK_TRY(take_text(tables, csv, at[0], "", &out->name, err));
	LK_TRY(take_text(tables, csv, at[1], out->name, &out->label, err));
	LK_TRY(take_truth(csv, at[2], false, &out->elastic, err));
	for (int i = 0; i < SECONDS; i++) LK_TRY(take_number(csv, at[3 + i], 1e7, 0, seconds[i], err));
	return LK_OK;
}

static const char *const kind_columns[] = {"name",     "label", "copy_gpu_gbps", "write_node_gbps",
                                           "survives", "load"};

static lk_status read_kind(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct run_tables *tables = context;
	if (!lk_push(&tables->kinds)) return lk_oom(err);
	struct checkpoint_kind *kind = lk_last(&tables->kinds);
	LK_TRY(take_text(tables, csv, at[0], "", &kind->name, err));
	LK_TRY(take_text(tables, csv, at[1], kind->name, &kind->label, err));
	LK_TRY(take_number(csv, at[2], 1e6, NAN, &kind->copy_gpu_gbps, err));
	LK_TRY(take_number(csv, at[3], 1e6, NAN, &kind->write_node_gbps, err));
	LK_TRY(take_truth(csv, at[4], true, &kind->survives, err));
	return take_number(csv, at[5], 10, 0, &kind->load, err);
}

#define TABLE(columns, needed, what, row) \
	{ columns, sizeof(columns) / sizeof *(columns), needed, what, LK_RUN_ROWS, row, NULL }
static const lk_csv_table cause_table =
							  TABLE(cause_columns, 2, "table of failure rates", read_cause),
						  recovery_table = TABLE(recovery_columns, RECOVERY_COLUMNS,
                                                 "table of recoveries", read_recovery),
						  kind_table = TABLE(kind_columns, 6, "table of checkpoints", read_kind);

static lk_status run_read_table(lk_stream *in, const lk_csv_table *table, struct run_tables *tables,
                                lk_error *err) {
	lk_status status = lk_csv_read(in, table, tables, err);
	lk_stream_close(in);
	return status;
}

static lk_status run_read_data(const char *name, const lk_csv_table *table,
                               struct run_tables *tables, lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_data_open(NULL, name, &in, err));
	return run_read_table(in, table, tables, err);
}

/* ---- the tables of a context ---- */

static void run_tables_free(lk_kept *kept) {
	struct run_tables *tables = (struct run_tables *)kept;
	lk_arena_free(&tables->arena);
	lk_vec_free(&tables->causes);
	lk_vec_free(&tables->recoveries);
	lk_vec_free(&tables->kinds);
	free(tables);
}

static lk_status run_tables_get(const struct run_tables **out, lk_error *err) {
	*out = (const struct run_tables *)lk_context_kept(LK_CONTEXT_RUNS);
	if (*out) return LK_OK;
	struct run_tables *tables = calloc(1, sizeof *tables);
	if (!tables) return lk_oom(err);
	tables->kept.free = run_tables_free;
	lk_status status = run_read_data("runs/failures.csv", &cause_table, tables, err);
	if (status == LK_OK)
		status = run_read_data("runs/recoveries.csv", &recovery_table, tables, err);
	if (status == LK_OK) status = run_read_data("runs/checkpoints.csv", &kind_table, tables, err);
	if (status != LK_OK) {
		run_tables_free(&tables->kept);
		return status;
	}
	lk_context_keep(lk_carried_here()->context, LK_CONTEXT_RUNS, &tables->kept);
	*out = (const struct run_tables *)lk_context_kept(LK_CONTEXT_RUNS);
	return LK_OK;
}

lk_status lk_run_ready(lk_error *err) {
	const struct run_tables *tables;
	return run_tables_get(&tables, err);
}

/* ---- a run from words ---- */

enum { TYPICAL, LOW, HIGH };

static void set_rates(const lk_run_words *words, const struct run_tables *tables, int level,
                      lk_long_run *run) {
	double stops = 0, replaced = 0, planned = 0;
	for (size_t i = 0; i < tables->causes.count; i++) {
		const lk_run_cause *cause = &tables->causes.at[i];
		double rate = cause->per_gpu_h;
		if (level != TYPICAL) rate = level == LOW ? cause->low : cause->high;
		(*(cause->planned ? &planned : &stops)) += rate;
		if (!cause->planned && cause->replaces) replaced += rate;
	}
	run->replaced_share = stops > 0 ? replaced / stops : 1;
	run->stops_per_h = stops * words->gpus;
	run->planned_per_h = planned * words->gpus;
	if (!(words->node_mtbf_h > 0)) return;
	run->stops_per_h = words->nodes / words->node_mtbf_h;
	if (!words->failures) run->planned_per_h = 0;
}

static lk_status read_rates(const lk_run_words *words, const struct run_tables *tables,
                            lk_long_run *run, lk_error *err) {
	const char *text = words->failures ? words->failures : "typical";
	if (!words->failures && !(words->node_mtbf_h > 0)) return LK_OK;
	static const char *const levels[] = {[TYPICAL] = "typical", [LOW] = "low", [HIGH] = "high"};
	lk_stream *in;
	for (int level = TYPICAL; level <= HIGH; level++) {
		if (strcmp(text, levels[level]) != 0) continue;
		set_rates(words, tables, level, run);
		return LK_OK;
	}
	struct run_tables own = {0};
	lk_status status = lk_stream_open(text, &in, err);
	if (status == LK_OK) status = run_read_table(in, &cause_table, &own, err);
	if (status == LK_OK) set_rates(words, &own, TYPICAL, run);
	else if (status == LK_ERR_IO) {
		lk_error why = *err;
		lk_fail(err, LK_ERR_IO, "--failures", "%.200s: %.300s", text, why.what);
		lk_hint(err, "give low, typical, high, or a table");
	}
	lk_arena_free(&own.arena);
	lk_vec_free(&own.causes);
	return status;
}

static bool is_word(const char *name, const char *text, size_t length) {
	return strlen(name) == length && strncmp(name, text, length) == 0;
}

static lk_status refuse_word(const char *option, const char *text, size_t length, lk_error *err) {
	char shown[64];
	snprintf(shown, sizeof shown, "%.*s", (int)(length < 60 ? length : 60), text);
	return lk_fail(err, LK_ERR_INPUT, option, "unknown name '%s'", shown);
}

static lk_status find_recovery(const lk_run_words *words, const struct run_tables *tables,
                               lk_long_run *run, lk_error *err) {
	const char *name = words->recovery ? words->recovery : "replace";
	char names[160] = "";
	for (size_t i = 0; i < tables->recoveries.count; i++) {
		size_t used = strlen(names);
		run->recovery = tables->recoveries.at[i];
		double factor = pow(words->gpus / RESTART_GPUS, RESTART_POWER);
		run->recovery.restart_s *= factor;
		run->recovery.in_place_s *= factor;
		if (strcmp(run->recovery.name, name) == 0) return LK_OK;
		snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", run->recovery.name);
	}
	refuse_word("--recovery", name, strlen(name), err);
	return lk_hint(err, "give one of %s", names);
}

static lk_status fill_tier(const lk_run_words *words, const struct checkpoint_kind *kind,
                           const char *interval, size_t length, lk_run_tier *tier, lk_error *err) {
	char text[32];
	double node = isnan(kind->write_node_gbps) ? words->node_gbps : kind->write_node_gbps;
	*tier = (lk_run_tier){.name = kind->name, .label = kind->label, .survives = kind->survives};
	tier->write_s = words->bytes / (words->nodes * 1e9 * node);
	tier->stall_s = isnan(kind->copy_gpu_gbps)
	                    ? tier->write_s
	                    : words->bytes / (words->gpus * 1e9 * kind->copy_gpu_gbps);
	tier->write_s = fmax(tier->write_s, tier->stall_s);
	tier->load_s = kind->load * tier->write_s;
	if (!length) return LK_OK;
	snprintf(text, sizeof text, "%.*s", (int)length, interval);
	return lk_parse_duration(text, 1, 1e-3, 1e9, &tier->interval_s, "--checkpoint-tiers", err);
}

static lk_status refuse_kind(const struct run_tables *tables, const char *text, size_t length,
                             lk_error *err) {
	char names[160] = "";
	for (size_t i = 0; i < tables->kinds.count; i++) {
		size_t used = strlen(names);
		snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
		         tables->kinds.at[i].name);
	}
	refuse_word("--checkpoint-tiers", text, length, err);
	return lk_hint(err, "give some of %s, as in host:1min+async:30min", names);
}

/* "host:30s+async" */
static lk_status read_tiers(const lk_run_words *words, const struct run_tables *tables,
                            lk_long_run *run, lk_error *err) {
	for (const char *at = words->tiers && *words->tiers ? words->tiers : "storage"; *at;) {
		size_t word = strcspn(at, "+"), name = strcspn(at, "+:"), i = 0;
		if (run->tier_count == LK_RUN_TIERS) {
			lk_fail(err, LK_ERR_INPUT, "--checkpoint-tiers", "more than %d kinds of checkpoints",
			        LK_RUN_TIERS);
			return lk_hint(err, "name at most %d, as in host:1min+async:30min", LK_RUN_TIERS);
		}
		while (i < tables->kinds.count && !is_word(tables->kinds.at[i].name, at, name)) i++;
		if (i == tables->kinds.count) return refuse_kind(tables, at, name, err);
		size_t colon = name + (at[name] == ':');
		lk_run_tier *tier = &run->tiers[run->tier_count++];
		LK_TRY(fill_tier(words, &tables->kinds.at[i], at + colon, word - colon, tier, err));
		at += word + (at[word] == '+');
	}
	lk_run_tier *last = &run->tiers[run->tier_count - 1];
	if (!(last->interval_s > 0)) last->interval_s = words->interval_s;
	if (last->survives) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--checkpoint-tiers",
	        "no checkpoint is left when a machine is lost");
	return lk_hint(err, "end with storage, async or peer, as in host:1min+async:30min");
}

lk_status lk_run_of(const lk_run_words *words, lk_long_run *out, lk_error *err) {
	const struct run_tables *tables;
	LK_TRY(run_tables_get(&tables, err));
	*out = (lk_long_run){.gpus = words->gpus,
	                     .nodes = words->nodes,
	                     .replicas = words->replicas,
	                     .spares = words->spares > 0 ? words->spares : -1,
	                     .repair_h = words->repair_h > 0 ? words->repair_h : LK_RUN_REPAIR_H,
	                     .seed = words->seed,
	                     .samples = LK_RUN_SAMPLES};
	LK_TRY(read_rates(words, tables, out, err));
	LK_TRY(find_recovery(words, tables, out, err));
	return read_tiers(words, tables, out, err);
}
