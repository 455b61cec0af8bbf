/* score_storage.c: training that reads from storage, as MLPerf Storage emulates it: accelerators
 * sleep for the time of a batch while the next ones are read.
 *
 *     samples/s = accelerators x batch / step,   step = max(compute + host, read)
 *
 * host: what a host needs to hand a batch over, from runs with one accelerator, which storage never
 * holds up (Juicedata cosmoflow 0.84 ms, simplyblock resnet50 0.88 ms). read: a batch over the
 * accelerator's share of the network cards of its host. What drives and servers deliver is not
 * published; but submitters take as many accelerators as pass, so that the rest of the time above
 * the mark that passes is about one accelerator's share:
 *
 *     busy = mark + (compute / (compute + host) - mark) / accelerators */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/csv.h"
#include "run/run.h"
#include "validate/validate.h"

enum { STORAGE_ROWS = 100000 };
static const double HOST_S = 0.86e-3;

/* mlcommons/storage, workload files. */
static const struct workload {
	const char *name, *accelerator;
	double batch, compute_s, mark;
} workloads[] = {{"unet3d", "h100", 7, 0.323, 0.9},     {"unet3d", "a100", 7, 0.636, 0.9},
                 {"resnet50", "h100", 400, 0.224, 0.9}, {"resnet50", "a100", 400, 0.435, 0.9},
                 {"cosmoflow", "h100", 1, 0.0035, 0.7}, {"cosmoflow", "a100", 1, 0.00551, 0.7}};

enum {
	SYSTEM,
	WORKLOAD,
	ACCELERATOR,
	ACCELERATORS,
	HOSTS,
	SAMPLES,
	MIB,
	BUSY,
	HARDWARE,
	ORGANISATION,
	STORAGE_COLUMNS
};
static const char *const storage_columns[STORAGE_COLUMNS] = {
	"system",        "workload",      "accelerator_emulated", "accelerators", "hosts",
	"samples_per_s", "MB_per_sample", "au_percent",           "hardware",     "organisation"};

struct storage_run {
	lk_validated row;
	const char *organisation, *workload, *accelerator;
	bool suspect;
};

struct storage_reading {
	lk_arena *arena;
	LK_VEC(struct storage_run) list;
};

/* Bytes a second of the cards of a client: "client[nic 2x200; ..." in Gb/s; INFINITY: not stated.
 */
static double client_rate(const char *hardware) {
	const char *client = strcasestr(hardware, "client"), *end;
	const char *nic = client ? strstr(client, "[nic ") : NULL;
	if (!nic || nic > client + strcspn(client, "/")) return INFINITY;
	double cards = lk_read_real(nic + 5, &end);
	double gbits = *end == 'x' ? lk_read_real(end + 1, &end) : 0;
	return cards * gbits > 0 ? cards * gbits * 1e9 / 8 : INFINITY;
}

static double storage_predict(const struct workload *work, double accelerators, double hosts,
                              double sample_bytes, const char *hardware) {
	double read_s = work->batch * sample_bytes * accelerators / hosts / client_rate(hardware);
	double free = work->compute_s / (work->compute_s + HOST_S);
	double busy = work->mark + (free - work->mark) / accelerators;
	double step = lk_run_input_step(work->compute_s, read_s, work->compute_s * (1 / busy - 1));
	return accelerators * work->batch / step;
}

static lk_status read_storage(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct storage_reading *reading = context;
	const struct workload *work = NULL;
	double accelerators, hosts, samples, mib, busy;
	LK_TRY(lk_csv_real(csv, at[ACCELERATORS], 1, 1e7, &accelerators, err));
	LK_TRY(lk_csv_real(csv, at[HOSTS], 1, 1e6, &hosts, err));
	LK_TRY(lk_csv_real(csv, at[SAMPLES], 0, 1e12, &samples, err));
	LK_TRY(lk_csv_real(csv, at[MIB], 0, 1e6, &mib, err));
	LK_TRY(lk_csv_real(csv, at[BUSY], 0, 100, &busy, err));
	if (!lk_push(&reading->list)) return lk_oom(err);
	struct storage_run *run = lk_last(&reading->list);
	const struct {
		int column;
		const char **to;
	} texts[] = {{SYSTEM, &run->row.id},
	             {WORKLOAD, &run->workload},
	             {ACCELERATOR, &run->accelerator},
	             {ORGANISATION, &run->organisation}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		*texts[i].to = lk_arena_strdup(reading->arena, lk_csv_field(csv, at[texts[i].column]));
		if (!*texts[i].to) return lk_oom(err);
	}
	run->row.where = lk_arena_strdup(reading->arena, lk_csv_where(csv));
	if (!run->row.where) return lk_oom(err);
	run->row.measured = samples;
	run->row.predicted = NAN;
	run->row.gpus = isnan(accelerators) ? 0 : (int)accelerators;
	for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
		if (strcmp(workloads[i].name, run->workload) == 0 &&
		    strcmp(workloads[i].accelerator, run->accelerator) == 0)
			work = &workloads[i];
	if (!work) run->row.reason = "the workload is not known";
	else if (isnan(accelerators) || isnan(hosts) || isnan(mib))
		run->row.reason = "accelerators, hosts or bytes of a sample are not stated";
	if (run->row.reason) return LK_OK;
	run->row.predicted =
		storage_predict(work, accelerators, hosts, mib * 0x1p20, lk_csv_field(csv, at[HARDWARE]));
	/* what the accelerators did is what they were busy with, but for the begin of an epoch */
	double did = samples / (accelerators * work->batch / work->compute_s);
	run->suspect = !isnan(busy) && fabs(did / (busy / 100) - 1) > 0.12;
	if (run->suspect)
		run->row.reason = "samples, accelerators and busy time contradict one another";
	return LK_OK;
}

static lk_status storage_score(lk_arena *arena, const struct storage_reading *reading,
                               lk_scoring *out, lk_error *err) {
	LK_TRY(lk_scoring_rows(arena, reading->list.count, out, err));
	lk_score_key *workload = lk_scoring_divide(arena, out, "workload"),
				 *submitter = lk_scoring_divide(arena, out, "submitter"),
				 *accelerator = lk_scoring_divide(arena, out, "accelerator");
	if (!workload || !submitter || !accelerator) return lk_oom(err);
	for (size_t i = 0; i < reading->list.count; i++) {
		const struct storage_run *run = &reading->list.at[i];
		lk_validated *row = &out->rows[i];
		row->id = run->row.id;
		row->where = run->row.where;
		row->model = run->workload;
		row->gpu = run->accelerator;
		row->gpus = run->row.gpus;
		row->unit = "1/s";
		row->measured = run->row.measured;
		row->predicted = run->row.predicted;
		row->reason = run->row.reason;
		out->scores[i].suspect = run->suspect;
		workload[i].name = run->workload;
		submitter[i].name = run->organisation;
		accelerator[i].name = run->accelerator;
	}
	out->unit_of_rows = "run";
	out->folds = "";
	return LK_OK;
}

lk_status lk_score_storage(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                           lk_scoring *out, lk_error *err) {
	if (request->cross) {
		lk_fail(err, LK_ERR_INPUT, "--cross-validate", "nothing is fitted to rows of --storage");
		return lk_hint(err, "leave it out");
	}
	struct storage_reading reading = {.arena = arena};
	const lk_csv_table table = {
		storage_columns, STORAGE_COLUMNS, BUSY, "table of training from storage",
		STORAGE_ROWS,    read_storage,    NULL};
	lk_status status = lk_csv_read(in, &table, &reading, err);
	if (status == LK_OK) status = storage_score(arena, &reading, out, err);
	lk_vec_free(&reading.list);
	return status;
}
