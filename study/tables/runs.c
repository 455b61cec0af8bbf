/* runs.c: reads the rows of a table of runs. Columns are found by name, in any order; unknown
 * columns are ignored. Numbers and choices are checked here, one column each; runs_job.c checks
 * whether they make a job. */
#include "base/arena.h"
#include "tables/tables.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tables/tables_internal.h"
#include "io/csv.h"
#include "base/text.h"

#define AT(field) offsetof(lk_run_row, field)

static const struct number {
	const char *name;
	size_t offset;
	int low, high;
} numbers[] = {
	{"layers", AT(layers), 1, 1 << 16},
	{"hidden", AT(hidden), 1, 1 << 20},
	{"heads", AT(heads), 1, 1 << 16},
	{"kv_heads", AT(kv_heads), 1, 1 << 16},
	{"head_dim", AT(head_dim), 1, 1 << 16},
	{"ffn", AT(ffn), 1, 1 << 24},
	{"vocab", AT(vocab), 1, 1 << 26},
	{"seq", AT(seq), 1, 1 << 27},
	{"gated", AT(gated), 0, 1},
	{"experts", AT(experts), 0, 1 << 16},
	{"topk", AT(topk), 0, 1 << 16},
	{"expert_ffn", AT(expert_ffn), 0, 1 << 24},
	{"shared_experts", AT(shared_experts), 0, 1024},
	{"dense_layers", AT(dense_layers), 0, 1 << 16},
	{"n_gpu", AT(n_gpu), 1, 1 << 22},
	{"nvlink_domain", AT(nvlink_domain), 1, 1 << 16},
	{"tp", AT(tp), 1, 1 << 16},
	{"pp", AT(pp), 1, 1 << 12},
	{"vp", AT(vp), 1, 1 << 12},
	{"cp", AT(cp), 1, 1 << 16},
	{"ep", AT(ep), 1, 1 << 16},
	{"dp", AT(dp), 1, 1 << 22},
	{"mbs", AT(mbs), 1, 1 << 20},
	{"gbs", AT(gbs), 1, 1 << 28},
	{"seq_parallel", AT(seq_parallel), 0, 1},
	{"mtp", AT(mtp), 0, 64},
};

struct word {
	const char *text;
	int value;
};

static const struct word tasks[] = {
	{"pretrain", LK_TASK_PRETRAIN}, {"sft", LK_TASK_SFT}, {"lora", LK_TASK_LORA}, {NULL, 0}};
static const struct word attentions[] = {{"mha", LK_ATTN_HEADS},
                                         {"gqa", LK_ATTN_HEADS},
                                         {"mqa", LK_ATTN_HEADS},
                                         {"mla", LK_ATTN_MLA},
                                         {NULL, 0}};
static const struct word shardings[] = {{"none", LK_SHARD_NONE},   {"zero1", LK_SHARD_ZERO1},
                                        {"zero2", LK_SHARD_ZERO2}, {"zero3", LK_SHARD_ZERO3},
                                        {"fsdp", LK_SHARD_ZERO3},  {NULL, 0}};
static const struct word recomputes[] = {{"none", LK_RECOMPUTE_NONE},
                                         {"selective", LK_RECOMPUTE_SELECTIVE},
                                         {"full", LK_RECOMPUTE_FULL},
                                         {NULL, 0}};
static const struct word kernels[] = {
	{"flash", LK_KERNEL_FLASH}, {"unfused", LK_KERNEL_UNFUSED}, {NULL, 0}};

static const struct choice {
	const char *name;
	size_t offset;
	const struct word *words;
} choices[] = {
	{"task", AT(task), tasks},
	{"attention", AT(attention), attentions},
	{"sharding", AT(sharding), shardings},
	{"recompute", AT(recompute), recomputes},
	{"attn_kernel", AT(attn_kernel), kernels},
};

enum {
	NUMBERS = sizeof numbers / sizeof *numbers,
	CHOICES = sizeof choices / sizeof *choices,
	ROWS = 1 << 20,
};

/* State of reading the table. */
struct reader {
	const lk_csv *csv;
	lk_arena *arena;
	lk_runs *out;
	int number[NUMBERS], choice[CHOICES]; /* columns, -1 if the table lacks them */
};

static lk_status runs_read_number(const struct reader *reader, int i, lk_run_row *row,
                                  lk_error *err) {
	int *at = (int *)(void *)((char *)row + numbers[i].offset);
	const char *text = lk_csv_field(reader->csv, reader->number[i]);
	char where[LK_CSV_PLACE];
	long long value = LK_EMPTY;
	if (*text)
		LK_TRY(lk_parse_int(text, numbers[i].low, numbers[i].high, &value,
		                    lk_csv_place(reader->csv, numbers[i].name, where), err));
	LK_ASSERT(value == LK_EMPTY || (numbers[i].low <= value && value <= numbers[i].high));
	*at = (int)value;
	return LK_OK;
}

static lk_status unknown_word(const struct reader *reader, const char *column, const char *text,
                              const struct word *words, lk_error *err) {
	char where[LK_CSV_PLACE], list[200];
	lk_text known = lk_text_begin(list, sizeof list);
	lk_fail(err, LK_ERR_INPUT, lk_csv_place(reader->csv, column, where), "\"%.60s\" is not known",
	        text);
	for (const struct word *word = words; word->text; word++)
		lk_text_add(&known, "%s%s", known.used ? ", " : "", word->text);
	return lk_hint(err, "give one of %s, or leave it empty", list);
}

static lk_status runs_read_choice(const struct reader *reader, int i, lk_run_row *row,
                                  lk_error *err) {
	int *at = (int *)(void *)((char *)row + choices[i].offset);
	const char *text = lk_csv_field(reader->csv, reader->choice[i]);
	*at = LK_EMPTY;
	if (!*text) return LK_OK;
	for (const struct word *word = choices[i].words; word->text; word++) {
		if (strcmp(text, word->text) != 0) continue;
		*at = word->value;
		return LK_OK;
	}
	return unknown_word(reader, choices[i].name, text, choices[i].words, err);
}

static lk_status read_precision(const struct reader *reader, lk_run_row *row, lk_error *err) {
	const char *text = lk_csv_named(reader->csv, "precision");
	char where[LK_CSV_PLACE];
	lk_dtype dtype;
	row->precision = LK_EMPTY;
	if (!*text) return LK_OK;
	if (!lk_dtype_parse(text, &dtype)) {
		lk_fail(err, LK_ERR_INPUT, lk_csv_place(reader->csv, "precision", where),
		        "unknown number format \"%.60s\"", text);
		return lk_hint(err, "give one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
	}
	row->precision = (int)dtype;
	return LK_OK;
}

/* Read the switches, separated by ';'. Unknown ones do not change the prediction; the row's note
 * names them. */
static lk_status runs_read_options(const struct reader *reader, lk_run_row *row, lk_run *run,
                                   lk_error *err) {
	const struct {
		const char *name;
		bool *flag;
	} options[] = {{"compile", &row->compile}, {"async_tp", &row->async_tp},
	               {"rowwise", &row->rowwise}, {"te", &row->engine},
	               {"deepep", &row->by_node},  {"balanced_gate", &row->balanced}};
	for (const char *at = lk_csv_named(reader->csv, "options"); *at;) {
		size_t length = strcspn(at, ";"), i = 0, known = sizeof options / sizeof *options;
		while (i < known &&
		       (strlen(options[i].name) != length || strncmp(at, options[i].name, length) != 0))
			i++;
		if (i < known) *options[i].flag = true;
		else if (length > 0) {
			run->note = lk_arena_printf(reader->arena, "%s%soption %.*s is not modelled", run->note,
			                            *run->note ? "; " : "", length < 60 ? (int)length : 60, at);
			if (!run->note) return lk_oom(err);
		}
		at += length;
		if (*at) at++;
	}
	/* older rows say it beside how the time was taken: "published table, rowwise scales" */
	row->rowwise |= strstr(lk_csv_named(reader->csv, "method"), "rowwise") != NULL;
	return LK_OK;
}

static lk_status read_reals(const struct reader *reader, lk_run_row *row, lk_run *run,
                            lk_error *err) {
	const char *network = lk_csv_named(reader->csv, "net_gbps_per_gpu"),
			   *step = lk_csv_named(reader->csv, "step_s");
	char where[LK_CSV_PLACE];
	row->net_gbps_per_gpu = LK_EMPTY;
	run->measured_s = NAN;
	if (*network)
		LK_TRY(lk_parse_real(network, 1e-3, 1e6, &row->net_gbps_per_gpu,
		                     lk_csv_place(reader->csv, "net_gbps_per_gpu", where), err));
	if (*step)
		LK_TRY(lk_parse_real(step, 1e-9, 1e9, &run->measured_s,
		                     lk_csv_place(reader->csv, "step_s", where), err));
	return LK_OK;
}

static lk_status read_texts(const struct reader *reader, lk_run *run, lk_error *err) {
	const struct {
		const char **to;
		const char *column;
	} texts[] = {
		{&run->id, "id"},         {&run->model, "model"},     {&run->gpu, "gpu"},
		{&run->stack, "stack"},   {&run->release, "release"}, {&run->suspect, "suspect"},
		{&run->source, "source"},
	};
	run->where = lk_arena_strdup(reader->arena, lk_csv_where(reader->csv));
	if (!run->where) return lk_oom(err);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		*texts[i].to = lk_arena_strdup(reader->arena, lk_csv_named(reader->csv, texts[i].column));
		if (!*texts[i].to) return lk_oom(err);
	}
	if (!*run->id) run->id = run->where;
	run->note = run->refused = "";
	return LK_OK;
}

static lk_status runs_read_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	const struct reader *reader = context;
	(void)csv;
	(void)at;
	if (!lk_push(reader->out)) return lk_oom(err);
	lk_run *run = lk_last(reader->out);
	lk_run_row row = {0};
	LK_TRY(read_texts(reader, run, err));
	for (int i = 0; i < NUMBERS; i++) LK_TRY(runs_read_number(reader, i, &row, err));
	for (int i = 0; i < CHOICES; i++) LK_TRY(runs_read_choice(reader, i, &row, err));
	LK_TRY(read_precision(reader, &row, err));
	LK_TRY(read_reals(reader, &row, run, err));
	LK_TRY(runs_read_options(reader, &row, run, err));
	return lk_run_build(reader->arena, &row, run, err);
}

static lk_status runs_find_columns(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reader *reader = context;
	(void)at;
	(void)err;
	reader->csv = csv;
	for (int i = 0; i < NUMBERS; i++) reader->number[i] = lk_csv_column(csv, numbers[i].name);
	for (int i = 0; i < CHOICES; i++) reader->choice[i] = lk_csv_column(csv, choices[i].name);
	LK_ASSERT(reader->arena && reader->out);
	return LK_OK;
}

lk_status lk_runs_read(lk_arena *arena, lk_stream *in, lk_runs *out, lk_error *err) {
	/* A row without these cannot be predicted or scored. */
	static const char *const needed[] = {"id", "model", "gpu", "n_gpu", "gbs", "step_s"};
	enum { NEEDED = sizeof needed / sizeof *needed };
	static const lk_csv_table table = {needed, NEEDED,        NEEDED,           "table of runs",
	                                   ROWS,   runs_read_row, runs_find_columns};
	return lk_csv_read(in, &table, &(struct reader){.arena = arena, .out = out}, err);
}

lk_status lk_runs_read_files(lk_arena *arena, const char *const *paths, int count, lk_runs *out,
                             lk_error *err) {
	for (int i = 0; i < count; i++) {
		lk_stream *in = NULL;
		LK_TRY(lk_stream_open(paths[i], &in, err));
		lk_status status = lk_runs_read(arena, in, out, err);
		lk_stream_close(in);
		LK_TRY(status);
	}
	return LK_OK;
}

const char *lk_run_layout(lk_arena *arena, const lk_run *run) {
	static const char *const shardings_text[] = {"ddp", "zero1", "zero2", "zero3"};
	static const char *const recomputes_text[] = {"", " selective", " full"};
	const lk_job *job = &run->job;
	char line[160];
	lk_text text = lk_text_begin(line, sizeof line);
	const struct {
		const char *name;
		int value;
	} degrees[] = {
		{"tp", job->tp}, {"pp", job->pp}, {"vp", job->vp}, {"cp", job->cp}, {"ep", job->ep}};
	for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
		if (degrees[i].value > 1) lk_text_add(&text, "%s%d ", degrees[i].name, degrees[i].value);
	lk_text_add(&text, "dp%d mbs%d %s%s%s", job->dp, job->mbs, shardings_text[job->sharding],
	            job->sequence_parallel == LK_ON ? " sp" : "", recomputes_text[job->recompute]);
	return lk_arena_strdup(arena, line);
}

const char *lk_run_series(lk_arena *arena, const lk_run *run) {
	const lk_job *job = &run->job;
	double nic = run->cluster.groups > 0 ? run->cluster.node[0].nic_rate : 0;
	return lk_arena_printf(arena, "%s|%s|%g|%s|%s|%d|%d|%s %d|%d %d %d %d %d|%d|%d %d %d %d|%d",
	                       run->model, run->gpu, nic, run->stack, run->release, job->task, job->seq,
	                       lk_dtype_name(job->dtype), job->fp8_recipe, job->tp, job->pp, job->vp,
	                       job->cp, job->ep, job->mbs, job->sharding, job->recompute,
	                       job->attn_kernel, job->sequence_parallel, job->compile);
}
