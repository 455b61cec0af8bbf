/* throughput_table.c: tables of throughput from READMEs, with their original columns: batch sizes
 * are in a text with the names of their columns ("Batch size / GPU: mixed precision, FP32=24, 10"),
 * further options in another. */
#include "base/arena.h"
#include "tables/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/csv.h"
#include "base/text.h"
#include "base/noun.h"

enum { ROWS = 100000 };
enum { FRAMEWORK, MODEL, GPU, GPUS, BATCH, PRECISION, THROUGHPUT, EXTRA, SECTION, COLUMNS };
static const char *const columns[COLUMNS] = {
	"framework", "model_path", "gpu",   "n_gpu",   "batch_cols",
	"precision", "throughput", "extra", "section",
};

/* Sequence length of fine-tuning on SQuAD if the tables state none (NVIDIA's
 * DeepLearningExamples). */
enum { SQUAD_SEQ = 384 };

/* Networks of known shape, by the end of their path. */
static const struct {
	const char *path, *preset;
} networks[] = {
	{"LanguageModeling/BERT", "bert-large"},
	{"/resnet50v1.5", "resnet50"},
	{"/RN50v1.5", "resnet50"},
	{"/se-resnext101-32x4d", "se-resnext101-32x4d"},
	{"/resnext101-32x4d", "resnext101-32x4d"},
};

static const char *throughput_table_preset_of(const char *path) {
	for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
		if (lk_ends_in(path, networks[i].path)) return networks[i].preset;
	return NULL;
}

/* ---- numbers in texts ---- */

/* Value of the field "NAME...=VALUE;..." whose name begins with `name`; "" if there is none.
 * `label` gets the rest of the name. */
static const char *throughput_table_field(const char *text, const char *name, char *label,
                                          size_t size) {
	for (const char *at = text; *at;) {
		size_t length = strcspn(at, ";"), named = strcspn(at, "=");
		if (strncasecmp(at, name, strlen(name)) == 0 && named < length) {
			snprintf(label, size, "%.*s", (int)(named - strlen(name)), at + strlen(name));
			return at + named + 1;
		}
		at += length + (at[length] == ';');
	}
	*label = '\0';
	return "";
}

static int throughput_table_numbers_of(const char *text, double out[2]) {
	int count = 0;
	for (const char *at = text; *at && *at != ';' && count < 2;) {
		const char *end;
		double value = lk_read_real(at, &end);
		/* digits in names ("FP32", "TF32") do not count */
		bool named =
			at > text && ((at[-1] >= 'A' && at[-1] <= 'Z') || (at[-1] >= 'a' && at[-1] <= 'z'));
		if (end == at || named || *at == '-' || *at == '+') at += end == at ? 1 : end - at;
		else {
			out[count++] = value;
			at = end;
		}
	}
	return count;
}

/* Choose the number of the precision among two: labels state their order, "(TF32 and FP16)", ":
 * mixed precision, FP32", or the values carry names, "128 (FP32) / 256 (AMP)". */
static double of_precision(const char *value, const char *label, bool mixed) {
	double both[2];
	int count = throughput_table_numbers_of(value, both);
	if (count < 2) return count ? both[0] : NAN;
	bool mixed_first = strncmp(label, ": mixed", 7) == 0;
	return both[mixed == mixed_first ? 0 : 1];
}

static double batch_of(const char *text, const char *name, bool mixed) {
	char label[80];
	const char *value = throughput_table_field(text, name, label, sizeof label);
	return of_precision(value, label, mixed);
}

/* ---- a row ---- */

/* Set the precision. Tables that label a column of A100s FP32 say TF32 in the names of their batch
 * sizes. */
static void take_precision(const char *text, const char *batch, lk_throughput_run *run) {
	bool narrow = strcmp(text, "TF32") == 0 ||
	              (strcmp(text, "FP32") == 0 && (strstr(batch, "TF32") || strstr(batch, "(TF)")));
	if (strcmp(text, "mixed") == 0) run->dtype = LK_FP16;
	else if (narrow) run->dtype = LK_TF32;
	else if (strcmp(text, "BF16") == 0) run->dtype = LK_BF16;
	else run->dtype = LK_FP32;
	run->precision = lk_dtype_name(run->dtype);
}

/* Set the device. A DGX-2 has its own variant of V100. */
static void take_device(const char *gpu, const char *section, lk_throughput_run *run) {
	run->device = lk_device_find(strstr(section, "DGX-2") ? "v100-sxm3-32" : gpu);
	if (!run->device) run->why_not = "the device is not in the catalogue";
}

static void throughput_table_take_batch(const char *batch, const char *extra,
                                        lk_throughput_run *run) {
	bool mixed = run->dtype == LK_FP16 || run->dtype == LK_BF16;
	double gpu = batch_of(batch, "Batch size / GPU", mixed),
		   all = batch_of(batch, "Accumulated Batch size / GPU", mixed);
	double steps = batch_of(extra, "Accumulation steps", mixed),
		   more = batch_of(extra, "Gradient Accumulation", mixed);
	if (isnan(steps)) steps = more;
	if (isnan(steps)) steps = 1;
	/* if the table gives the accumulated batch as the batch of a GPU */
	if (isnan(all) && steps > 1 && strncmp(extra, "Accumulation", 12) == 0) gpu /= steps;
	bool whole = gpu >= 1 && steps >= 1 && gpu == floor(gpu) && steps == floor(steps);
	if (!whole || gpu * steps * run->gpus > 1 << 28) {
		run->why_not = "the batch is not stated";
		return;
	}
	run->mbs = (int)gpu;
	run->steps = (int)steps;
}

/* BERT as NVIDIA/DeepLearningExamples runs it (scripts/run_pretraining_lamb_phase2.sh,
 * run_squad.sh): compiled by XLA, whose attention is several kernels. Gradients are reduced after
 * the backward pass, because they are accumulated (--allreduce_post_accumulation) or clipped by
 * their common norm first. */
static void throughput_table_take_bert(const char *extra, const char *section,
                                       lk_throughput_run *run) {
	char label[80];
	double seq[2];
	if (strcmp(run->model, "bert-large") != 0) return;
	run->compiled = run->unfused = run->reduces_late = true;
	if (throughput_table_numbers_of(
			throughput_table_field(extra, "Sequence length", label, sizeof label), seq))
		run->seq = (int)seq[0];
	else if (strstr(section, "SQuAD") || strstr(section, "Fine-tuning")) {
		run->seq = SQUAD_SEQ;
		run->optimizer = "adam";
	} else run->why_not = "the sequence length is not stated";
}

/* Image networks. In mixed precision TensorFlow fuses a batch norm with its activation (grappler's
 * remapper, NHWC and persistent norms: TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT in
 * NVIDIA/DeepLearningExamples@169b0818, ConvNets/runtime/runner.py). */
static void take_images(lk_throughput_run *run) {
	if (strcmp(run->model, "bert-large") != 0) run->compiled = run->dtype == LK_FP16;
}

static lk_status throughput_table_read_row(const lk_csv *csv, const int *at, lk_arena *arena,
                                           lk_throughput_run *run, lk_error *err) {
	const char *path = lk_csv_field(csv, at[MODEL]), *preset = throughput_table_preset_of(path);
	const char *extra = lk_csv_field(csv, at[EXTRA]), *section = lk_csv_field(csv, at[SECTION]);
	double throughput;
	long long gpus;
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[GPUS]), 1, 1 << 20, &gpus, lk_csv_where(csv), err));
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[THROUGHPUT]), 1e-9, 1e15, &throughput,
	                     lk_csv_where(csv), err));
	run->stack = lk_arena_strdup(arena, lk_csv_field(csv, at[FRAMEWORK]));
	run->gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU]));
	run->where = lk_arena_strdup(arena, lk_csv_where(csv));
	run->id = lk_arena_printf(arena, "%.40s %.40s %lld %s", path, lk_csv_field(csv, at[PRECISION]),
	                          gpus, lk_noun(gpus, "GPU", "GPUs"));
	if (!run->stack || !run->gpu || !run->where || !run->id) return lk_oom(err);
	run->gpus = (int)gpus;
	run->model = preset ? preset : "";
	take_precision(lk_csv_field(csv, at[PRECISION]), lk_csv_field(csv, at[BATCH]), run);
	throughput_table_take_batch(lk_csv_field(csv, at[BATCH]), extra, run);
	throughput_table_take_bert(extra, section, run);
	take_images(run);
	take_device(run->gpu, section, run);
	if (!preset) run->why_not = "the network's shapes are not known here";
	run->seconds = (double)run->gpus * run->mbs * run->steps / throughput;
	return LK_OK;
}

struct reading {
	lk_arena *arena;
	lk_throughput_runs *out;
};

static lk_status throughput_table_add_row(void *context, const lk_csv *csv, const int *at,
                                          lk_error *err) {
	struct reading *reading = context;
	return lk_push(reading->out)
	           ? throughput_table_read_row(csv, at, reading->arena, lk_last(reading->out), err)
	           : lk_oom(err);
}

lk_status lk_throughput_read(lk_arena *arena, lk_stream *in, lk_throughput_runs *out,
                             lk_error *err) {
	const lk_csv_table table = {
		columns, COLUMNS, COLUMNS, "table of throughput", ROWS, throughput_table_add_row, NULL};
	return lk_csv_read(in, &table, &(struct reading){arena, out}, err);
}
