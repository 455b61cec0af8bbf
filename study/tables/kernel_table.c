/* kernel_table.c: reads tables of isolated kernels (kernels_*_2026.csv.gz): one row a call of one
 * kernel. A kind of table is a row of `kinds`: which law states the time, which columns say what
 * runs, which are its sizes, and which sizes make one shape. */
#include "base/arena.h"
#include "tables/tables.h"

#include <string.h>

#include "base/stats.h"
#include "base/text.h"
#include "io/csv.h"

enum { ROWS = 1 << 22, NAMES = 4096, WORDS = 4, SHAPE = 4 };

/* Bytes of a stored key or value element. */
static double cache_bytes(const lk_csv *csv) {
	return strncmp(lk_csv_named(csv, "kv_dtype"), "fp8", 3) == 0 ? 1 : 2;
}

static void complete_attention(const lk_csv *csv, lk_kernel_row *row) {
	row->call.size[LK_ATTENTION_CACHE] = cache_bytes(csv);
}

static void complete_mla(const lk_csv *csv, lk_kernel_row *row) {
	const char *part = lk_csv_named(csv, "part");
	row->call.size[LK_MLA_PART] = strcmp(part, "attention") == 0 ? LK_MLA_ATTENTION
	                              : strcmp(part, "module") == 0  ? LK_MLA_MODULE
	                                                             : LK_MLA_ABSORB;
	row->call.size[LK_MLA_GENERATION] = strcmp(lk_csv_named(csv, "phase"), "generation") == 0;
	row->call.size[LK_MLA_CACHE] = cache_bytes(csv);
}

static const struct kind {
	const char *what;
	const lk_law *law;
	const char *series[WORDS]; /* columns whose words are the kind of the series, or "=word" */
	const char *sizes[LK_LAW_SIZES]; /* columns, in the order of the law */
	const char *shape[SHAPE];        /* columns that a fold leaves out together */
	void (*complete)(const lk_csv *csv, lk_kernel_row *row); /* sizes that are words; NULL: none */
} kinds[] = {
	{"linear layers", &lk_law_product, {"=linear"}, {"m", "n", "k"}, {"n", "k"}, NULL},
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
};

enum { KINDS = sizeof kinds / sizeof *kinds };

struct reader {
	lk_csv *csv;
	lk_arena *arena;
	LK_VEC(const char *) names;
	const struct kind *kind;
};

/* A text that many rows share, stored once. */
static const char *keep(struct reader *reader, const char *text) {
	for (size_t i = reader->names.count; i-- > 0;)
		if (strcmp(reader->names.at[i], text) == 0) return reader->names.at[i];
	const char *copy = lk_arena_strdup(reader->arena, text);
	if (!copy || reader->names.count == NAMES || !lk_push(&reader->names)) return copy;
	return *lk_last(&reader->names) = copy;
}

static bool fits(const lk_csv *csv, const struct kind *kind) {
	for (int i = 0; i < LK_LAW_SIZES && kind->sizes[i]; i++)
		if (lk_csv_column(csv, kind->sizes[i]) < 0) return false;
	for (int i = 0; i < WORDS && kind->series[i]; i++)
		if (*kind->series[i] != '=' && lk_csv_column(csv, kind->series[i]) < 0) return false;
	return true;
}

static lk_status find_kind(struct reader *reader, const char *file, lk_error *err) {
	bool kernels = lk_csv_column(reader->csv, "time_us") >= 0 &&
	               lk_csv_column(reader->csv, "gpu") >= 0 &&
	               lk_csv_column(reader->csv, "dtype") >= 0;
	for (int i = 0; kernels && i < KINDS; i++) {
		reader->kind = &kinds[i];
		if (fits(reader->csv, reader->kind)) return LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, file,
	        "this is not a table of isolated kernels: columns are missing");
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

static lk_status read_sizes(const struct reader *reader, lk_kernel_row *row, lk_error *err) {
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
	if (kind->complete) kind->complete(reader->csv, row);
	return LK_OK;
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
