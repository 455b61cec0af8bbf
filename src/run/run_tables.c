/* run_tables.c: rates of failures, kinds of recovery and of checkpoints: rows of data/runs/. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/embedded.h"
#include "run/run.h"

/* Restarts take longer on more GPUs: 454 s on 2,048, 768 s on 16,384. */
static const double RESTART_GPUS = 2048, RESTART_POWER = 0.253;

static lk_status read_table(const char *path, bool built_in, const lk_csv_table *table,
                            void *context, lk_error *err) {
	lk_stream *in;
	LK_TRY(built_in ? lk_data_open(NULL, path, &in, err) : lk_stream_open(path, &in, err));
	lk_status status = lk_csv_read(in, table, context, err);
	lk_stream_close(in);
	return status;
}

/* ---- causes ---- */

enum {
	CAUSE,
	CAUSE_RATE,
	CAUSE_NEEDED,
	CAUSE_LABEL = CAUSE_NEEDED,
	CAUSE_LOW,
	CAUSE_HIGH,
	CAUSE_REPLACES,
	CAUSE_PLANNED,
	CAUSE_COLUMNS
};
static const char *const cause_columns[CAUSE_COLUMNS] = {"cause", "per_1e6_gpu_h", "label",  "low",
                                                         "high",  "replaces",      "planned"};

struct causes_reading {
	lk_arena *arena;
	lk_run_causes *out;
};

static lk_status read_flag(const lk_csv *csv, int column, bool otherwise, bool *out,
                           lk_error *err) {
	double number;
	LK_TRY(lk_csv_real(csv, column, 0, 1, &number, err));
	*out = isnan(number) ? otherwise : number > 0;
	return LK_OK;
}

static lk_status read_cause(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct causes_reading *reading = context;
	lk_run_causes *out = reading->out;
	double rate, low, high;
	LK_TRY(lk_csv_real(csv, at[CAUSE_RATE], 0, 1e6, &rate, err));
	LK_TRY(lk_csv_real(csv, at[CAUSE_LOW], 0, 1e6, &low, err));
	LK_TRY(lk_csv_real(csv, at[CAUSE_HIGH], 0, 1e6, &high, err));
	lk_run_cause *cause = &out->at[out->count++];
	const char *label = lk_csv_field(csv, at[CAUSE_LABEL]);
	cause->key = lk_arena_strdup(reading->arena, lk_csv_field(csv, at[CAUSE]));
	cause->label = *label ? lk_arena_strdup(reading->arena, label) : cause->key;
	cause->per_gpu_h = isnan(rate) ? 0 : rate / 1e6;
	cause->low = isnan(low) ? cause->per_gpu_h : low / 1e6;
	cause->high = isnan(high) ? cause->per_gpu_h : high / 1e6;
	LK_TRY(read_flag(csv, at[CAUSE_REPLACES], true, &cause->replaces, err));
	LK_TRY(read_flag(csv, at[CAUSE_PLANNED], false, &cause->planned, err));
	return cause->key && cause->label ? LK_OK : lk_oom(err);
}

lk_status lk_run_read_causes(lk_arena *arena, const char *text, lk_run_causes *out, lk_error *err) {
	const lk_csv_table table = {
		cause_columns, CAUSE_COLUMNS, CAUSE_NEEDED, "table of failure rates",
		LK_RUN_CAUSES, read_cause,    NULL};
	bool low = text && strcmp(text, "low") == 0, high = text && strcmp(text, "high") == 0,
		 level = !text || low || high || strcmp(text, "typical") == 0;
	*out = (lk_run_causes){0};
	LK_TRY(read_table(level ? "runs/failures.csv" : text, level, &table,
	                  &(struct causes_reading){arena, out}, err));
	for (int i = 0; i < out->count; i++) {
		if (low) out->at[i].per_gpu_h = out->at[i].low;
		if (high) out->at[i].per_gpu_h = out->at[i].high;
	}
	return LK_OK;
}

void lk_run_set_rates(lk_run *run, const lk_run_causes *causes, double node_mtbf_h) {
	double stops = 0, replaced = 0, planned = 0;
	for (int i = 0; i < causes->count; i++) {
		const lk_run_cause *cause = &causes->at[i];
		(*(cause->planned ? &planned : &stops)) += cause->per_gpu_h;
		if (!cause->planned && cause->replaces) replaced += cause->per_gpu_h;
	}
	run->replaced_share = stops > 0 ? replaced / stops : 1;
	run->stops_per_h = node_mtbf_h > 0 ? run->nodes / node_mtbf_h : stops * run->gpus;
	run->planned_per_h = node_mtbf_h > 0 ? 0 : planned * run->gpus;
}

/* ---- recoveries ---- */

enum { RECOVERY_SECONDS = 7, RECOVERY_ELASTIC = 2 + RECOVERY_SECONDS, RECOVERY_COLUMNS };
static const char *const recovery_columns[RECOVERY_COLUMNS] = {
	"name",       "label",     "detect_s",  "hang_share", "hang_s",
	"diagnose_s", "replace_s", "restart_s", "in_place_s", "elastic"};

/* A row of a table that is wanted by name, and the names that there are. First in the context of
 * its reader. */
struct wanted {
	lk_arena *arena;
	const char *name; /* may end in ":..." */
	size_t length;
	void *out;
	bool found;
	char names[160];
};

static bool is_wanted(struct wanted *wanted, const lk_csv *csv, int column) {
	const char *name = lk_csv_field(csv, column);
	size_t used = strlen(wanted->names);
	snprintf(wanted->names + used, sizeof wanted->names - used, "%s%s", used ? ", " : "", name);
	bool found = strlen(name) == wanted->length && strncmp(name, wanted->name, wanted->length) == 0;
	wanted->found |= found;
	return found;
}

static lk_status find_row(const char *option, const char *path, const lk_csv_table *table,
                          struct wanted *wanted, lk_error *err) {
	LK_TRY(read_table(path, true, table, wanted, err));
	if (wanted->found) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option, "unknown name '%.*s'",
	        (int)(wanted->length < 60 ? wanted->length : 60), wanted->name);
	return lk_hint(err, "give one of %s", wanted->names);
}

static lk_status read_recovery(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct wanted *wanted = context;
	lk_run_recovery *out = wanted->out;
	if (!is_wanted(wanted, csv, at[0])) return LK_OK;
	double *const seconds[RECOVERY_SECONDS] = {&out->detect_s,   &out->hang_share, &out->hang_s,
	                                           &out->diagnose_s, &out->replace_s,  &out->restart_s,
	                                           &out->in_place_s};
	for (int i = 0; i < RECOVERY_SECONDS; i++)
		LK_TRY(lk_csv_real(csv, at[2 + i], 0, 1e7, seconds[i], err));
	LK_TRY(read_flag(csv, at[RECOVERY_ELASTIC], false, &out->elastic, err));
	out->name = lk_arena_strdup(wanted->arena, lk_csv_field(csv, at[0]));
	out->label = lk_arena_strdup(wanted->arena, lk_csv_field(csv, at[1]));
	return out->name && out->label ? LK_OK : lk_oom(err);
}

lk_status lk_run_read_recovery(lk_arena *arena, const char *name, double gpus, lk_run_recovery *out,
                               lk_error *err) {
	const lk_csv_table table = {recovery_columns,
	                            RECOVERY_COLUMNS,
	                            RECOVERY_COLUMNS,
	                            "table of recoveries",
	                            100,
	                            read_recovery,
	                            NULL};
	if (!name) name = "replace";
	struct wanted wanted = {.arena = arena, .name = name, .length = strlen(name), .out = out};
	LK_TRY(find_row("--recovery", "runs/recoveries.csv", &table, &wanted, err));
	double factor = pow(gpus / RESTART_GPUS, RESTART_POWER);
	out->restart_s *= factor;
	out->in_place_s *= factor;
	return LK_OK;
}

/* ---- checkpoints ---- */

enum { TIER_COPY = 2, TIER_WRITE, TIER_SURVIVES, TIER_LOAD, TIER_COLUMNS };
static const char *const tier_columns[TIER_COLUMNS] = {
	"name", "label", "copy_gpu_gbps", "write_node_gbps", "survives", "load"};

struct tier_reading {
	struct wanted wanted;
	const lk_run_state *state;
};

static lk_status read_tier(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct tier_reading *reading = context;
	const lk_run_state *state = reading->state;
	lk_run_tier *out = reading->wanted.out;
	double copy, write, load;
	if (!is_wanted(&reading->wanted, csv, at[0])) return LK_OK;
	LK_TRY(lk_csv_real(csv, at[TIER_COPY], 1e-3, 1e6, &copy, err));
	LK_TRY(lk_csv_real(csv, at[TIER_WRITE], 1e-3, 1e6, &write, err));
	LK_TRY(lk_csv_real(csv, at[TIER_LOAD], 0, 10, &load, err));
	LK_TRY(read_flag(csv, at[TIER_SURVIVES], true, &out->survives, err));
	out->name = lk_arena_strdup(reading->wanted.arena, lk_csv_field(csv, at[0]));
	out->label = lk_arena_strdup(reading->wanted.arena, lk_csv_field(csv, at[1]));
	out->write_s = state->bytes / (state->nodes * 1e9 * (isnan(write) ? state->node_gbps : write));
	out->stall_s = isnan(copy) ? out->write_s : state->bytes / (state->gpus * 1e9 * copy);
	out->write_s = fmax(out->write_s, out->stall_s);
	out->load_s = (isnan(load) ? 0 : load) * out->write_s;
	return out->name && out->label ? LK_OK : lk_oom(err);
}

static lk_status read_interval(const char *text, size_t length, double *out, lk_error *err) {
	char copy[32];
	snprintf(copy, sizeof copy, "%.*s", (int)length, text);
	return lk_parse_duration(copy, 1, 1e-3, 1e9, out, "--checkpoint-tiers", err);
}

lk_status lk_run_read_tiers(lk_arena *arena, const char *text, const lk_run_state *state,
                            lk_run *out, lk_error *err) {
	const lk_csv_table table = {tier_columns, TIER_COLUMNS, TIER_COLUMNS, "table of checkpoints",
	                            100,          read_tier,    NULL};
	out->tier_count = 0;
	for (const char *at = text ? text : "storage"; *at;) {
		size_t word = strcspn(at, "+"), name = strcspn(at, "+:");
		if (out->tier_count == LK_RUN_TIERS) {
			lk_fail(err, LK_ERR_INPUT, "--checkpoint-tiers", "more than %d kinds of checkpoints",
			        LK_RUN_TIERS);
			return lk_hint(err, "name at most %d, as host:1min+async:30min", LK_RUN_TIERS);
		}
		lk_run_tier *tier = &out->tiers[out->tier_count++];
		*tier = (lk_run_tier){0};
		struct tier_reading reading = {{.arena = arena, .name = at, .length = name, .out = tier},
		                               state};
		LK_TRY(
			find_row("--checkpoint-tiers", "runs/checkpoints.csv", &table, &reading.wanted, err));
		if (!at[word]) tier->interval_s = state->interval_s;
		if (at[name] == ':')
			LK_TRY(read_interval(at + name + 1, word - name - 1, &tier->interval_s, err));
		at += word + (at[word] == '+');
	}
	if (out->tier_count && out->tiers[out->tier_count - 1].survives) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--checkpoint-tiers",
	        "no checkpoint is left when a machine is lost");
	return lk_hint(err, "end with storage, async or peer, as host:1min+async:30min");
}
