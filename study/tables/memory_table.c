/* memory_table.c: rows of a table of measured memory as jobs. A column named after a flag of
 * Megatron-LM becomes that flag of a launch line, which launch/launch.c reads, so that this file
 * needs no meaning of flags. The column `env` names the machine and the software. */
#include "base/arena.h"
#include "tables/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "step/step.h"
#include "io/csv.h"
#include "base/text.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "launch/read.h"

enum {
	ROWS = 1 << 20,
	WORDS = 512,
	WORLD_MOST = 4096,
	NODE_GPUS = 8 /* of a test that states none */
};

struct reader {
	lk_arena *arena;
	const lk_csv *csv;
	lk_memory_runs *out;
	const char **names; /* [columns] of flags; NULL: no flag */
	int columns;
};

struct words {
	const char *at[WORDS];
	int count;
};

static bool memory_table_put(struct words *words, const char *word) {
	LK_ASSERT(0 <= words->count && words->count <= WORDS);
	if (!word || words->count == WORDS) return false;
	words->at[words->count++] = word;
	return true;
}

static const char *memory_table_kept(const struct reader *reader, const char *name) {
	return lk_arena_strdup(reader->arena, lk_csv_named(reader->csv, name));
}

/* ---- the machine ---- */

/* The tests' long-term-support machines were A100 nodes. */
static const char *gpu_of(const char *env) {
	if (strstr(env, "gb200")) return "gb200";
	if (strstr(env, "h100")) return "h100-sxm";
	return "a100-sxm-80";
}

/* Whether the software is from before Transformer Engine had a deterministic fused attention on
 * A100: with --deterministic-mode and no stated backend it ran the unfused one. The results of the
 * first CI clusters ("dracooci") are of that time. */
static bool early_software(const char *env) {
	return strstr(env, "dracooci") != NULL;
}

/* Reason to exclude runs that are not one plain training step of one network. */
static const char *suspicion(const char *test) {
	if (strstr(test, "distill"))
		return "distillation: a second network is in memory that the row does not describe";
	if (strstr(test, "fine_grained_offloading"))
		return "activations, the scores of attention among them, are offloaded to the host: not "
			   "modelled";
	if (strstr(test, "check_grads"))
		return "the run resumes and checks gradients: it is not a plain training step";
	return "";
}

/* ---- a launch line ---- */

static const char *program_of(const char *model) {
	if (strcmp(model, "t5") == 0) return "pretrain_t5.py";
	return strcmp(model, "bert") == 0 ? "pretrain_bert.py" : "pretrain_gpt.py";
}

static bool memory_table_put_flag(struct reader *reader, struct words *words, const char *name,
                                  const char *value) {
	char *flag = lk_arena_printf(reader->arena, "--%s", name);
	bool on = strcmp(value, "True") == 0;
	if (strcmp(value, "False") == 0) return true;
	return memory_table_put(words, flag) &&
	       (on || memory_table_put(words, lk_arena_strdup(reader->arena, value)));
}

static bool memory_table_put_text(struct words *words, char *text) {
	for (char *word = text, *end; *word; word = end) {
		word += strspn(word, " ");
		end = word + strcspn(word, " ");
		if (*end) *end++ = '\0';
		if (*word && !memory_table_put(words, word)) return false;
	}
	return true;
}

static bool memory_table_put_columns(struct reader *reader, struct words *words) {
	for (int c = 0; c < reader->columns; c++) {
		const char *value = lk_csv_field(reader->csv, c);
		if (reader->names[c] && *value &&
		    !memory_table_put_flag(reader, words, reader->names[c], value))
			return false;
	}
	const char *vocab = lk_csv_named(reader->csv, "vocab"),
			   *stated = lk_csv_named(reader->csv, "vocab-size");
	return !*vocab || *stated || memory_table_put_flag(reader, words, "vocab-size", vocab);
}

static bool put_backend(struct reader *reader, const lk_memory_run *run, struct words *words) {
	bool open = !*lk_csv_named(reader->csv, "attention-backend") &&
	            strcmp(lk_csv_named(reader->csv, "transformer-impl"), "transformer_engine") == 0;
	bool exact = strcmp(lk_csv_named(reader->csv, "deterministic-mode"), "True") == 0;
	return !(open && exact && early_software(run->env)) ||
	       memory_table_put_flag(reader, words, "attention-backend", "unfused");
}

static lk_status line_of(struct reader *reader, const lk_memory_run *run, int gpus,
                         struct words *words, lk_error *err) {
	const char *more = lk_memory_flags(reader->arena, run->model, run->test);
	bool ok = memory_table_put(words, "torchrun") && memory_table_put(words, "--nproc_per_node") &&
	          memory_table_put(words, lk_arena_printf(reader->arena, "%d", gpus)) &&
	          memory_table_put(words, program_of(run->model)) &&
	          memory_table_put_columns(reader, words) && put_backend(reader, run, words) && more &&
	          memory_table_put_text(words, lk_arena_strdup(reader->arena, more));
	return ok ? LK_OK : lk_fail(err, LK_ERR_INPUT, run->where, "the launch line is too long");
}

/* ---- a job ---- */

static lk_status memory_table_job_of(struct reader *reader, lk_memory_run *run, int gpus,
                                     lk_error *err) {
	struct words w = {.count = 0};
	lk_launch launch;
	const lk_device *device;
	LK_TRY(line_of(reader, run, gpus, &w, err));
	LK_TRY(lk_launch_read(reader->arena, w.count, w.at, run->where, &launch, err));
	LK_TRY(lk_device_lookup(run->gpu, run->where, &device, err));
	LK_TRY(lk_cluster_simple(reader->arena, device, gpus, 0, 0, &run->cluster, err));
	run->job = *launch.job;
	return lk_job_complete(&run->job, &run->cluster, err);
}

static double resident(const lk_job *job) {
	lk_resident held = lk_sizes_resident(job, job->pp - 1);
	return held.weights + held.gradients + held.optimizer;
}

/* Find the world size. The table does not state how many GPUs the release tests ran on. Only the
 * optimizer's shards depend on it, so the world size, a power of two times the model-parallel
 * ranks, is the one whose model states come nearest to the steady allocation, which is measured
 * apart from the peak. */
static lk_status memory_table_find_world(struct reader *reader, lk_memory_run *run, lk_error *err) {
	lk_memory_run best = *run;
	double nearest = INFINITY;
	lk_error first = {0};
	bool any = false;
	for (int gpus = 1; gpus <= WORLD_MOST; gpus *= 2) {
		lk_memory_run one = *run;
		lk_status status = memory_table_job_of(reader, &one, gpus, err);
		if (status == LK_ERR_MEMORY) return status;
		if (status != LK_OK) {
			if (!any) first = *err;
			continue;
		}
		double distance = fabs(log(resident(&one.job) / run->steady));
		if (!(distance < nearest * (1 - 1e-9))) continue;
		nearest = distance;
		best = one;
		any = true;
	}
	*err = first;
	if (!any) return LK_ERR_INPUT;
	*run = best;
	run->note = lk_arena_printf(
		reader->arena, "the row does not state how many GPUs; %d fit its steady allocation",
		best.job.gpus);
	return run->note ? LK_OK : lk_oom(err);
}

static lk_status memory_table_build(struct reader *reader, lk_memory_run *run, lk_error *err) {
	int nodes = atoi(lk_csv_named(reader->csv, "nodes")),
		each = atoi(lk_csv_named(reader->csv, "gpus_per_node"));
	if (nodes > 0 && each > 0 && nodes <= WORLD_MOST && each <= WORLD_MOST)
		return memory_table_job_of(reader, run, nodes * each, err);
	if (strcmp(lk_csv_named(reader->csv, "type"), "release") != 0)
		return memory_table_job_of(reader, run, NODE_GPUS, err);
	if (!(run->steady > 0))
		return lk_fail(err, LK_ERR_INPUT, run->where, "the row does not state how many GPUs");
	return memory_table_find_world(reader, run, err);
}

/* ---- rows ---- */

static lk_status memory_table_read_bytes(struct reader *reader, const char *name, double *out,
                                         lk_error *err) {
	const char *text = lk_csv_named(reader->csv, name);
	*out = NAN;
	return *text ? lk_parse_real(text, 0, 1e15, out, lk_csv_where(reader->csv), err) : LK_OK;
}

static lk_status memory_table_read_row(void *context, const lk_csv *csv, const int *at,
                                       lk_error *err) {
	struct reader *reader = context;
	(void)csv;
	(void)at;
	if (!lk_push(reader->out)) return lk_oom(err);
	lk_memory_run *run = lk_last(reader->out);
	char text[900];
	*run = (lk_memory_run){.refused = "", .suspect = "", .note = "", .class = ""};
	run->where = lk_arena_strdup(reader->arena, lk_csv_where(reader->csv));
	run->model = memory_table_kept(reader, "model");
	run->test = memory_table_kept(reader, "test");
	run->env = memory_table_kept(reader, "env");
	if (!run->where || !run->model || !run->test || !run->env) return lk_oom(err);
	run->gpu = gpu_of(run->env);
	run->suspect = suspicion(run->test);
	LK_TRY(memory_table_read_bytes(reader, "mem_alloc_bytes", &run->steady, err));
	LK_TRY(memory_table_read_bytes(reader, "mem_max_alloc_bytes", &run->peak, err));
	lk_status status = memory_table_build(reader, run, err);
	if (status == LK_ERR_MEMORY) return status;
	run->class = lk_memory_class(&run->job.model);
	if (status == LK_OK) return LK_OK;
	run->refused = lk_arena_strdup(reader->arena, lk_error_text(err, text, sizeof text));
	return run->refused ? LK_OK : lk_oom(err);
}

/* Find the columns that are flags. */
static lk_status find_flags(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reader *reader = context;
	(void)at;
	reader->csv = csv;
	reader->columns = lk_csv_columns(csv);
	reader->names = LK_ARRAY(reader->arena, const char *, (size_t)reader->columns);
	if (!reader->names) return lk_oom(err);
	for (int c = 0; c < reader->columns; c++) {
		const char *name = lk_csv_name(csv, c);
		if (lk_launch_has_flag(name)) reader->names[c] = name;
	}
	return LK_OK;
}

lk_status lk_memory_read(lk_arena *arena, lk_stream *in, lk_memory_runs *out, lk_error *err) {
	static const char *const needed[] = {"model", "test", "env", "mem_alloc_bytes",
	                                     "mem_max_alloc_bytes"};
	enum { NEEDED = sizeof needed / sizeof *needed };
	static const lk_csv_table table = {
		needed,     NEEDED,
		NEEDED,     "table of memory, with flags of Megatron-LM as columns",
		ROWS,       memory_table_read_row,
		find_flags,
	};
	return lk_csv_read(in, &table, &(struct reader){.arena = arena, .out = out}, err);
}
