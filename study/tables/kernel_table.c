/* kernel_table.c: reads tables of isolated kernels (kernels_*_2026.csv.gz): one row a call of one
 * kernel. A kind of table is a row of `kinds`: which law states the time, which columns say what
 * runs, which are its sizes, and which sizes make one shape. */
#include "base/arena.h"
#include "tables/tables.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"
#include "io/csv.h"

enum { ROWS = 1 << 22, NAMES = 4096, WORDS = 4, SHAPE = 4 };

struct reader {
	lk_csv *csv;
	lk_arena *arena;
	LK_VEC(const char *) names;
	const struct kind *kind;
	lk_expert_loads loads;
};

/* Few rows have a law of their own. */
static lk_status complete_product(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	(void)reader;
	(void)err;
	if (row->call.size[0] <= LK_LAW_FEW_ROWS) row->law = &lk_law_few;
	return LK_OK;
}

/* Bytes of a stored key or value element. */
static double cache_bytes(const lk_csv *csv) {
	return strncmp(lk_csv_named(csv, "kv_dtype"), "fp8", 3) == 0 ? 1 : 2;
}

static lk_status complete_attention(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	(void)err;
	row->call.size[LK_ATTENTION_CACHE] = cache_bytes(reader->csv);
	return LK_OK;
}

static lk_status complete_mla(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	static const char *const parts[] = {"attention", "module"};
	int part = LK_MLA_ATTENTION;
	(void)err;
	while (part < LK_MLA_ABSORB && strcmp(lk_csv_named(reader->csv, "part"), parts[part]) != 0)
		part++;
	row->call.size[LK_MLA_PART] = part;
	row->call.size[LK_MLA_GENERATION] =
		strcmp(lk_csv_named(reader->csv, "phase"), "generation") == 0;
	row->call.size[LK_MLA_CACHE] = cache_bytes(reader->csv);
	return LK_OK;
}

/* Rows, experts that are hit and padding of the rank that was measured. */
static lk_status complete_experts(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	static const char skew[] = "power_law_";
	const char *distribution = lk_csv_named(reader->csv, "distribution");
	lk_expert_routing routing = {.tokens = row->call.size[LK_EXPERTS_TOKENS],
	                             .experts = row->call.size[LK_EXPERTS_EXPERTS]};
	LK_TRY(
		lk_csv_real(reader->csv, lk_csv_column(reader->csv, "topk"), 1, 1e4, &routing.topk, err));
	LK_TRY(lk_csv_real(reader->csv, lk_csv_column(reader->csv, "ep"), 1, 1e4, &routing.ranks, err));
	if (strcmp(lk_csv_named(reader->csv, "part"), "experts") != 0)
		row->refused = "experts together with their dispatch have no law";
	else if (strncmp(distribution, skew, sizeof skew - 1) == 0) {
		char *end;
		routing.skew = strtod(distribution + sizeof skew - 1, &end);
		if (*end) row->refused = "experts on several ranks at a time have no law";
	}
	if (*row->refused) return LK_OK;
	const lk_expert_load *load = lk_expert_load_of(reader->arena, &reader->loads, &routing);
	if (!load) return lk_oom(err);
	row->call.size[LK_EXPERTS_ROWS] = load->rows;
	row->call.size[LK_EXPERTS_HIT] = load->hit;
	row->call.size[LK_EXPERTS_REACH] = load->reach;
	row->call.size[LK_EXPERTS_CHOICES] = load->reach * routing.topk;
	for (int i = 0; i < LK_EXPERT_TILES; i++)
		row->call.size[LK_EXPERTS_PADDED + i] = load->padded[i];
	return LK_OK;
}

/* Apply a scale: two bytes are read and one is written; find it: two are read. */
static lk_status complete_quantize(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	(void)err;
	bool apply = strcmp(lk_csv_named(reader->csv, "op"), "apply_scale") == 0;
	row->call.size[LK_QUANTIZE_BYTES] = apply ? 3 : 2;
	return LK_OK;
}

static lk_status complete_dispatch(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	(void)err;
	if (strcmp(lk_csv_named(reader->csv, "op"), "prepare") == 0)
		row->refused = "the exchange of counts, which moves no tokens, has no law";
	return LK_OK;
}

/* ---- layers with a state ---- */

/* A kernel's words begin with these. */
static const struct state_kernel {
	const char *op, *kernel, *kind;
	lk_state_kernel what;
} state_kernels[] = {
	{"mamba2", "causal_conv1d_fn", "mamba2_convolution", LK_STATE_CONVOLUTION},
	{"mamba2", "causal_conv1d_update", "mamba2_convolution_step", LK_STATE_CONVOLUTION},
	{"mamba2", "mamba_chunk_scan", "mamba2_scan", LK_STATE_MAMBA_SCAN},
	{"gdn", "causal_conv1d_fn", "gdn_convolution", LK_STATE_CONVOLUTION},
	{"gdn", "causal_conv1d_update", "gdn_convolution_step", LK_STATE_CONVOLUTION},
	{"gdn", "chunk_gated_delta_rule", "gdn_scan", LK_STATE_DELTA_SCAN},
	{"gdn", "fused_", "gdn_step", LK_STATE_STEP},
	{"kda", "causal_conv1d_fn", "kda_convolution", LK_STATE_CONVOLUTION},
	{"kda", "causal_conv1d_update", "kda_convolution_step", LK_STATE_CONVOLUTION},
	{"kda", "chunk_kda", "kda_scan", LK_STATE_DELTA_SCAN},
	{"kda", "flashkda", "kda_scan", LK_STATE_DELTA_SCAN},
	{"kda", "fused_", "kda_step", LK_STATE_STEP},
	{"kda", "kda_fused", "kda_step", LK_STATE_STEP},
	{"mhc_pre", "", "mhc_pre", LK_STATE_MHC_PRE},
	{"mhc_post", "", "mhc_post", LK_STATE_MHC_POST},
};

static const struct state_kernel *find_state_kernel(const char *op, const char *kernel) {
	for (size_t i = 0; i < sizeof state_kernels / sizeof *state_kernels; i++) {
		const struct state_kernel *known = &state_kernels[i];
		if (strcmp(known->op, op) == 0 &&
		    strncmp(kernel, known->kernel, strlen(known->kernel)) == 0)
			return known;
	}
	return NULL;
}

static lk_status real_or_none(struct reader *reader, const char *name, double *out, lk_error *err) {
	int column = lk_csv_column(reader->csv, name);
	*out = 0;
	if (column < 0 || !*lk_csv_field(reader->csv, column)) return LK_OK;
	return lk_csv_real(reader->csv, column, 0, 1e9, out, err);
}

/* The convolution of a gated delta net covers queries, keys and values; some engines time it over
 * as many channels as the keys have. */
static double convolved(const lk_kernel_row *row, const lk_state_layer *layer) {
	bool keys = strcmp(row->series.library, "trtllm") == 0 ||
	            (strcmp(row->series.library, "sglang") == 0 &&
	             strncmp(row->series.release, "0.5.1", 5) != 0) ||
	            strncmp(row->series.release, "0.5.10", 6) == 0 ||
	            strncmp(row->series.release, "0.5.11", 6) == 0 ||
	            strncmp(row->series.release, "0.5.13", 6) == 0;
	double channels = layer->key_heads * layer->key_dim;
	return strncmp(row->series.kind, "gdn", 3) == 0 && keys
	           ? channels
	           : 2 * channels + layer->heads * layer->value_dim;
}

static lk_status complete_state(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	const struct state_kernel *known =
		find_state_kernel(lk_csv_named(reader->csv, "op"), row->series.kernel);
	lk_state_layer layer = {.batch = row->call.size[0], .length = row->call.size[1]};
	double states;
	if (!known) {
		row->refused = "whole layers of sparse attention have no law";
		return LK_OK;
	}
	LK_TRY(real_or_none(reader, "heads", &layer.heads, err));
	LK_TRY(real_or_none(reader, "k_heads", &layer.key_heads, err));
	LK_TRY(real_or_none(reader, "head_dim", &layer.key_dim, err));
	LK_TRY(real_or_none(reader, "v_head_dim", &layer.value_dim, err));
	LK_TRY(real_or_none(reader, "d_model", &layer.channels, err));
	LK_TRY(real_or_none(reader, "d_conv", &layer.window, err));
	LK_TRY(real_or_none(reader, "d_state", &states, err));
	LK_TRY(real_or_none(reader, "chunk", &layer.chunk, err));
	if (states > 0) layer.key_dim = states;
	layer.kernel = known->what;
	row->series.kind = known->kind;
	if (layer.kernel == LK_STATE_CONVOLUTION) {
		/* others run Triton's kernel, which has a thread block for few tokens */
		layer.chunk = strcmp(row->series.library, "trtllm") == 0 ? LK_CONVOLUTION_CHUNK : 8;
		layer.channels = convolved(row, &layer);
	}
	lk_state_amounts(&layer, &row->call);
	return LK_OK;
}

static const struct kind {
	const char *what;
	const lk_law *law;
	const char *series[WORDS]; /* columns whose words are the kind of the series, or "=word" */
	const char *sizes[LK_LAW_SIZES]; /* columns, in the order of the law */
	const char *shape[SHAPE];        /* columns that a fold leaves out together */
	/* sizes that no column has; NULL: none */
	lk_status (*complete)(struct reader *reader, lk_kernel_row *row, lk_error *err);
} kinds[] = {
	{"attention",
     &lk_law_attention,
     {"phase", "kv_dtype"},
     {"batch", "q_len", "kv_len", "heads", "kv_heads", "head_dim", "window", "causal"},
     {"q_len", "kv_len", "heads"},
     complete_attention},
	{"latent attention",
     &lk_law_mla,
     {"part", "phase", "kv_dtype", "gemm_dtype"},
     {"batch", "q_len", "kv_len", "heads"},
     {"q_len", "kv_len", "heads"},
     complete_mla},
	{"experts",
     &lk_law_experts,
     {"=experts"},
     {"tokens", "hidden", "inter", "experts", "tp", "gated"},
     {"hidden", "inter", "experts", "topk"},
     complete_experts},
	{"dispatch of experts",
     &lk_law_dispatch,
     {"mode", "op"},
     {"tokens", "hidden", "topk", "experts", "gpus", "sms"},
     {"hidden", "topk", "gpus"},
     complete_dispatch},
	{"layers with a state",
     &lk_law_state,
     {"op", "phase"},
     {"batch", "seq", "prefix", "heads", "k_heads", "d_model", "chunk"},
     {"d_model", "heads", "seq"},
     complete_state},
	{"linear layers", &lk_law_product, {"=linear"}, {"m", "n", "k"}, {"n", "k"}, complete_product},
	{"quantisation", &lk_law_quantize, {"op"}, {"m", "k"}, {"m", "k"}, complete_quantize},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* A text that many rows share, stored once. */
static const char *keep(struct reader *reader, const char *text) {
	for (size_t i = reader->names.count; i-- > 0;)
		if (strcmp(reader->names.at[i], text) == 0) return reader->names.at[i];
	const char *copy = lk_arena_strdup(reader->arena, text);
	if (!copy || reader->names.count == NAMES || !lk_push(&reader->names)) return copy;
	return *lk_last(&reader->names) = copy;
}

/* How many columns of a kind a table lacks, and the first of them. */
static int lacks(const lk_csv *csv, const struct kind *kind, const char **first) {
	static const char *const always[] = {"gpu", "dtype", "time_us"};
	const char *wanted[3 + LK_LAW_SIZES + WORDS];
	int count = 0, missing = 0;
	for (int i = 0; i < 3; i++) wanted[count++] = always[i];
	for (int i = 0; i < LK_LAW_SIZES && kind->sizes[i]; i++) wanted[count++] = kind->sizes[i];
	for (int i = 0; i < WORDS && kind->series[i]; i++)
		if (*kind->series[i] != '=') wanted[count++] = kind->series[i];
	for (int i = 0; i < count; i++)
		if (lk_csv_column(csv, wanted[i]) < 0 && missing++ == 0) *first = wanted[i];
	return missing;
}

static lk_status find_kind(struct reader *reader, const char *file, lk_error *err) {
	int least = INT_MAX;
	const char *column = "", *first = "";
	for (int i = 0; i < KINDS; i++) {
		int missing = lacks(reader->csv, &kinds[i], &first);
		if (missing >= least) continue;
		least = missing;
		reader->kind = &kinds[i];
		if (missing == 0) return LK_OK;
		column = first;
	}
	lk_fail(err, LK_ERR_INPUT, file, "this is not a table of isolated kernels: no column %s",
	        column);
	return lk_hint(err,
	               "a table has gpu, dtype, time_us and the sizes of its kernels, such as m, n "
	               "and k");
}

/* "context bf16" of the columns phase and kv_dtype. */
static const char *series_kind(struct reader *reader) {
	char words[128] = "";
	lk_text text = lk_text_begin(words, sizeof words);
	for (int i = 0; i < WORDS && reader->kind->series[i]; i++) {
		const char *column = reader->kind->series[i];
		const char *word = *column == '=' ? column + 1 : lk_csv_named(reader->csv, column);
		if (*word) lk_text_add(&text, "%s%s", *words ? "_" : "", word);
	}
	return keep(reader, words);
}

/* Words of a series are divided by blanks. */
static const char *keep_word(struct reader *reader, const char *column) {
	char word[160];
	lk_copy(word, sizeof word, lk_csv_named(reader->csv, column));
	for (char *c = word; *c; c++)
		if (*c == ' ') *c = '_';
	return keep(reader, word);
}

static lk_status read_sizes(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	const struct kind *kind = reader->kind;
	for (int i = 0; i < LK_LAW_SIZES && kind->sizes[i]; i++) {
		int column = lk_csv_column(reader->csv, kind->sizes[i]);
		if (!*lk_csv_field(reader->csv, column)) continue;
		LK_TRY(lk_csv_real(reader->csv, column, 0, 1e12, &row->call.size[i], err));
	}
	row->shape = 0;
	for (int i = 0; i < SHAPE && kind->shape[i]; i++) {
		const char *field = lk_csv_named(reader->csv, kind->shape[i]);
		row->shape = lk_hash_bytes(row->shape + 1, field, strlen(field));
	}
	return kind->complete ? kind->complete(reader, row, err) : LK_OK;
}

/* "m 4096 n 1024 k 8192" */
static const char *shape_text(const struct reader *reader) {
	char words[256];
	lk_text text = lk_text_begin(words, sizeof words);
	for (int i = 0; i < LK_LAW_SIZES && reader->kind->sizes[i]; i++) {
		const char *field = lk_csv_named(reader->csv, reader->kind->sizes[i]);
		if (*field) lk_text_add(&text, "%s%s %s", i ? " " : "", reader->kind->sizes[i], field);
	}
	return lk_arena_strdup(reader->arena, words);
}

/* Whether the law states a time, whatever its numbers: not where a size is 0 that cannot be. */
static bool has_time(const lk_kernel_row *row) {
	double numbers[LK_LAW_NUMBERS];
	for (int i = 0; i < row->law->count; i++) numbers[i] = row->law->numbers[i].start;
	double seconds = row->law->seconds(numbers, &row->call);
	return seconds > 0 && isfinite(seconds);
}

static lk_status read_row(struct reader *reader, lk_kernel_row *row, lk_error *err) {
	double us;
	*row = (lk_kernel_row){.law = reader->kind->law, .refused = ""};
	row->where = lk_arena_strdup(reader->arena, lk_csv_where(reader->csv));
	row->text = shape_text(reader);
	row->gpu = keep_word(reader, "gpu");
	row->series = (lk_law_series){
		.kind = series_kind(reader),
		.format = keep_word(reader, "dtype"),
		.kernel = keep_word(reader, "kernel"),
		.library = keep_word(reader, "library"),
		.release = keep_word(reader, "release"),
		.sustained = *lk_csv_named(reader->csv, "power_w") != '\0',
	};
	if (!row->where || !row->text || !row->gpu || !row->series.kind || !row->series.format ||
	    !row->series.kernel || !row->series.library || !row->series.release)
		return lk_oom(err);
	row->call.device = lk_device_find(row->gpu);
	row->call.format = lk_law_format_find(row->series.format);
	if (!row->call.device) row->refused = "the catalogue does not have this device";
	else if (!row->call.format) row->refused = "unknown number format";
	LK_TRY(read_sizes(reader, row, err));
	if (!*row->refused && !has_time(row)) row->refused = "sizes of the kernel are missing";
	LK_TRY(lk_csv_real(reader->csv, lk_csv_column(reader->csv, "time_us"), 1e-6, 1e12, &us, err));
	row->seconds = us * 1e-6;
	return LK_OK;
}

static lk_status read_rows(struct reader *reader, const char *file, lk_kernel_rows *out,
                           lk_error *err) {
	LK_TRY(find_kind(reader, file, err));
	for (;;) {
		bool more;
		LK_TRY(lk_csv_next(reader->csv, &more, err));
		if (!more) return LK_OK;
		if (out->count == ROWS) return lk_fail(err, LK_ERR_INPUT, file, "more than %d rows", ROWS);
		if (!lk_push(out)) return lk_oom(err);
		LK_TRY(read_row(reader, lk_last(out), err));
	}
}

lk_status lk_kernel_rows_read(lk_arena *arena, lk_stream *in, lk_kernel_rows *out, lk_error *err) {
	struct reader reader = {.arena = arena};
	LK_TRY(lk_csv_open(in, &reader.csv, err));
	lk_status status = read_rows(&reader, lk_stream_name(in), out, err);
	lk_csv_close(reader.csv);
	lk_vec_free(&reader.names);
	return status;
}
