/* refit_table.c: tables of times that new weights take from training to the engines. The first
 * words of the column give a row's transport, its layouts the sizes of groups ("TP8xDP2"). */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/csv.h"
#include "tables/tables.h"
#include "model/read/read.h"

enum { REFIT_ROWS = 100000 };
enum {
	ID,
	FRAMEWORK,
	MODEL,
	GPU,
	GPUS,
	PRECISION,
	TRANSPORT,
	SECONDS,
	NEEDED, /* the columns above are required */
	GEN_GPUS = NEEDED,
	TRAIN_LAYOUT,
	GEN_LAYOUT,
	WHAT,
	STATUS,
	COLUMNS
};
static const char *const columns[COLUMNS] = {
	"id",     "framework", "model",        "gpu",        "n_gpu", "precision", "transport",
	"time_s", "gen_gpus",  "train_layout", "gen_layout", "what",  "status",
};

/* Transports by the first words of the column. Releases of checkpoint-engine after the first send
 * in pairs over all network cards of a node, as fast as its broadcast. */
static const struct transport_name {
	const char *begins;
	lk_refit_transport is, first_release;
} transport_names[] = {
	{"checkpoint-engine broadcast", LK_REFIT_HOST, LK_REFIT_HOST},
	{"checkpoint-engine p2p", LK_REFIT_HOST, LK_REFIT_HOST_PAIRS},
	{"checkpoint-engine", LK_REFIT_PACKED, LK_REFIT_PACKED},
	{"nccl reshard", LK_REFIT_RESHARD, LK_REFIT_RESHARD},
	{"nccl xfer", LK_REFIT_RESHARD, LK_REFIT_RESHARD},
	{"nixl gpu rdma, sharded", LK_REFIT_SHARDS, LK_REFIT_SHARDS},
	{"nixl gpu rdma, full", LK_REFIT_WHOLE, LK_REFIT_WHOLE},
	{"nccl broadcast tensor by tensor", LK_REFIT_TENSORS, LK_REFIT_TENSORS},
	{"nccl", LK_REFIT_PACKED, LK_REFIT_PACKED},
	{"nixl", LK_REFIT_PACKED, LK_REFIT_PACKED},
	{"cuda ipc", LK_REFIT_IPC, LK_REFIT_IPC},
};

struct refit_reading {
	lk_arena *arena;
	lk_refit_runs *out;
};

static void take_transport(const lk_csv *csv, const int *at, lk_refit_run *run) {
	bool first = strcmp(lk_csv_field(csv, at[STATUS]), "first release") == 0;
	for (size_t i = 0; i < sizeof transport_names / sizeof *transport_names; i++) {
		const struct transport_name *name = &transport_names[i];
		if (!lk_begins_with(run->transport, name->begins)) continue;
		run->job.transport = first ? name->first_release : name->is;
		return;
	}
	run->why_not = "the transport is not known";
}

/* Multiply the sizes of a layout that begin with one of `letters` ("TPE": TP, PP and EP). */
static int layout_product(const char *layout, const char *letters) {
	double product = 1;
	for (const char *end; *layout; layout = end) {
		end = layout + 1;
		if (!isupper((unsigned char)layout[0]) || layout[1] != 'P') continue;
		double size = lk_read_real(layout + 2, &end);
		if (end > layout + 2 && size >= 1 && strchr(letters, layout[0])) product *= size;
		if (end == layout + 2) end = layout + 1;
	}
	return (int)fmin(product, 1 << 20);
}

static int count_of(const lk_csv *csv, const int *at, int column) {
	const char *text = lk_csv_field(csv, at[column]), *end;
	double number = lk_read_real(text, &end);
	return end > text && *end == '\0' && number >= 1 && number <= 1 << 20 ? (int)number : 0;
}

/* Set the engines' GPUs: as stated, else from their layout, else half of all. */
static void take_groups(const lk_csv *csv, const int *at, lk_refit_run *run) {
	const char *from = lk_csv_field(csv, at[TRAIN_LAYOUT]), *to = lk_csv_field(csv, at[GEN_LAYOUT]);
	lk_refit_job *job = &run->job;
	int training = layout_product(from, "TPED");
	job->gathered_over = layout_product(from, "TPE");
	job->engine_shards = layout_product(to, "TP");
	job->engine_gpus = count_of(csv, at, GEN_GPUS);
	run->gpus = count_of(csv, at, GPUS);
	if (job->engine_gpus == 0) job->engine_gpus = layout_product(to, "TPD");
	if (run->gpus == 0) run->gpus = training + job->engine_gpus;
	if (job->transport == LK_REFIT_IPC) job->engine_gpus = run->gpus = 8; /* each copies its own */
	if (job->transport == LK_REFIT_SHARDS || job->transport == LK_REFIT_WHOLE ||
	    job->transport == LK_REFIT_RESHARD)
		job->gathered_over = 1; /* parts are sent without gathering */
	if (*to == '\0' && run->gpus < 2) run->why_not = "the layouts are not stated";
}

static lk_status refit_take_network(lk_arena *arena, lk_refit_run *run, lk_error *err) {
	lk_model *model = LK_NEW(arena, lk_model);
	lk_cluster *cluster = LK_NEW(arena, lk_cluster);
	bool known = false;
	char name[64];
	if (!model || !cluster) return lk_oom(err);
	lk_copy(name, sizeof name, run->gpu);
	name[strcspn(name, "?")] = '\0'; /* a "?" marks a guess of the table */
	const lk_device *device = lk_device_find(name);
	run->job.model = model, run->job.cluster = cluster;
	run->job.width = strncmp(run->precision, "fp8", 3) == 0 ? 1 : 2;
	if (device) LK_TRY(lk_model_find(run->model, model, &known, err));
	if (!device)
		run->why_not = *name ? "the device is not in the catalogue" : "the GPU is not stated";
	else if (!known) run->why_not = "the network is not known";
	if (run->why_not) return LK_OK;
	return lk_cluster_simple(arena, device, run->gpus, 0, 0, cluster, err);
}

static lk_status refit_read_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct refit_reading *reading = context;
	lk_arena *arena = reading->arena;
	const char *seconds, *end;
	if (!lk_push(reading->out)) return lk_oom(err);
	lk_refit_run *run = lk_last(reading->out);
	*run = (lk_refit_run){.id = lk_arena_strdup(arena, lk_csv_field(csv, at[ID])),
	                      .where = lk_arena_strdup(arena, lk_csv_where(csv)),
	                      .software = lk_arena_strdup(arena, lk_csv_field(csv, at[FRAMEWORK])),
	                      .model = lk_arena_strdup(arena, lk_csv_field(csv, at[MODEL])),
	                      .gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU])),
	                      .precision = lk_arena_strdup(arena, lk_csv_field(csv, at[PRECISION])),
	                      .transport = lk_arena_strdup(arena, lk_csv_field(csv, at[TRANSPORT]))};
	if (!run->id || !run->where || !run->software || !run->model || !run->gpu || !run->precision ||
	    !run->transport)
		return lk_oom(err);
	seconds = lk_csv_field(csv, at[SECONDS]);
	run->seconds = lk_read_real(seconds, &end);
	take_transport(csv, at, run);
	take_groups(csv, at, run);
	LK_TRY(refit_take_network(arena, run, err));
	if (end == seconds || !(run->seconds > 0)) run->why_not = "the time is not stated";
	else if (strncmp(lk_csv_field(csv, at[WHAT]), "whole refit", 11) == 0)
		run->why_not = "it is the whole refit, with what the engines do besides";
	return LK_OK;
}

lk_status lk_refit_read(lk_arena *arena, lk_stream *in, lk_refit_runs *out, lk_error *err) {
	const lk_csv_table table = {columns,    COLUMNS,        NEEDED, "table of weight updates",
	                            REFIT_ROWS, refit_read_row, NULL};
	return lk_csv_read(in, &table, &(struct refit_reading){arena, out}, err);
}
