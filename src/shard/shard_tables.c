/* shard_tables.c: reads a list of embedding tables.
 *
 *     [name,]rows,dim[,pooling][,count][,skew | ,reuse][,kinds]
 *
 * Columns may have other programs' names, listed in `columns`. pooling: rows that a sample looks up
 * and sums; count: number of equal tables; skew: exponent of a Zipf law, 0 uniform; reuse: 17
 * shares of different rows by how often a batch looks them up, separated by blanks; kinds:
 * "table|column|row|data". */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "io/csv.h"
#include "base/intern.h"
#include "base/text.h"
#include "shard/shard.h"

enum {
	ROWS,
	DIM,
	NAME,
	POOLING,
	COUNT,
	SKEW,
	REUSE,
	KINDS,
	COLUMNS,
	NEEDED = NAME,    /* required columns */
	OPTIONAL = COUNT, /* columns whose fields may be empty */
	TABLES = 100000,
	REUSE_BATCH = 65536 /* samples in the reuse histograms of facebookresearch/dlrm_datasets 2021 */
};
/* Our names, and those of TorchRec (EmbeddingBagConfig, ParameterConstraints), facebookresearch's
 * dlrm and dlrm_datasets, MLPerf's recommendation_v2, HugeCTR and Keras. Of several in a file the
 * first in this list counts: TorchRec's `pooling` is a word, its number is `pooling_factor`. */
static const char *const columns[COLUMNS] = {
	[ROWS] = "rows|num_embeddings|hash_size|num_rows|vocabulary_size|vocab_size|cardinality|"
			 "num_embeddings_per_feature|max_vocabulary_size|slot_size",
	[DIM] = "dim|embedding_dim|embedding_dims|emb_dim|embedding_vec_size|embedding_vector_size|"
			"embedding_size|ev_size|output_dim",
	[NAME] = "name|table|table_name|feature|feature_name|feature_names",
	[POOLING] = "pooling_factor|pooling_factors|avg_pooling|num_indices_per_lookup|multi_hot_size|"
				"multi_hot_sizes|hotness|max_hotness|pooling",
	[COUNT] = "count|num_tables",
	[SKEW] = "skew|zipf|zipf_alpha|alpha",
	[REUSE] = "reuse",
	[KINDS] = "kinds|sharding_types|sharding_type",
};

const char *const lk_shard_kind_names[LK_SHARD_KINDS + 1] = {"table", "column", "row", "data",
                                                             NULL};

struct reader {
	lk_arena *arena;
	const lk_csv *csv;
	int at[COLUMNS];
	double batch;
	bool pooling_assumed;
	lk_shard_tables *out;
};

static const char *tables_field(const struct reader *reader, int column) {
	return lk_csv_field(reader->csv, reader->at[column]);
}

/* "file:line, column dim" */
static const char *tables_place(const struct reader *reader, int column, char out[192]) {
	snprintf(out, 192, "%.150s, column %s", lk_csv_where(reader->csv),
	         lk_csv_name(reader->csv, reader->at[column]));
	return out;
}

static lk_status tables_number(const struct reader *reader, int column, double low, double high,
                               double otherwise, double *out, lk_error *err) {
	char where[192];
	const char *text = tables_field(reader, column);
	*out = otherwise;
	if (!*text && column >= OPTIONAL) return LK_OK;
	return lk_parse_count(text, low, high, out, tables_place(reader, column, where), err);
}

static lk_status tables_whole(const struct reader *reader, int column, double low, double high,
                              double otherwise, double *out, lk_error *err) {
	char where[192];
	LK_TRY(tables_number(reader, column, low, high, otherwise, out, err));
	if (*out == floor(*out)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, tables_place(reader, column, where), "%g is not a whole number",
	        *out);
	return lk_hint(err, "give one from %.0f to %.0f", low, high);
}

static lk_status tables_read_kinds(const struct reader *reader, unsigned *out, lk_error *err) {
	char where[192], text[64], *next = text, *word;
	*out = (1u << LK_SHARD_KINDS) - 1;
	if (!*tables_field(reader, KINDS)) return LK_OK;
	lk_copy(text, sizeof text, tables_field(reader, KINDS));
	for (*out = 0; (word = strsep(&next, "|+ "));) {
		int kind = 0;
		while (kind < LK_SHARD_KINDS && !lk_same_name(word, lk_shard_kind_names[kind]) &&
		       !lk_same_name(word, lk_shard_types[kind]))
			kind++;
		if (kind == LK_SHARD_KINDS) {
			lk_fail(err, LK_ERR_INPUT, tables_place(reader, KINDS, where),
			        "\"%.40s\" is not a kind of placement", word);
			return lk_hint(err, "give table, column, row, data, or several with | between them");
		}
		*out |= 1u << kind;
	}
	return LK_OK;
}

static lk_status read_reuse(const struct reader *reader, double bins[LK_REUSE_BINS],
                            lk_error *err) {
	char where[192], text[512], *next = text, *word;
	double sum = 0;
	int count = 0;
	tables_place(reader, REUSE, where);
	lk_copy(text, sizeof text, tables_field(reader, REUSE));
	while ((word = strsep(&next, " ;"))) {
		double share;
		if (!*word) continue;
		LK_TRY(lk_parse_real(word, 0, 1, &share, where, err));
		if (count < LK_REUSE_BINS) bins[count] = share;
		count++;
		sum += share;
	}
	if (count == LK_REUSE_BINS && sum > 0.9 && sum < 1.1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "%d shares with the sum %.3g", count, sum);
	return lk_hint(
		err,
		"give 17 with the sum 1: rows looked up once, twice, up to 4, 8, ... over 32768 times");
}

static lk_status read_locality(const struct reader *reader, lk_shard_table *table, lk_error *err) {
	double skew, bins[LK_REUSE_BINS] = {0}, lookups = reader->batch * table->pooling;
	char where[192];
	lk_locality *locality = LK_NEW(reader->arena, lk_locality);
	if (!locality) return lk_oom(err);
	table->locality = locality;
	LK_TRY(tables_number(reader, SKEW, 0, 10, 0, &skew, err));
	if (!*tables_field(reader, REUSE)) {
		lk_locality_zipf(table->rows, lookups, skew, locality);
		return LK_OK;
	}
	if (*tables_field(reader, SKEW))
		return lk_fail(err, LK_ERR_INPUT, tables_place(reader, REUSE, where),
		               "skew and reuse are mutually exclusive");
	LK_TRY(read_reuse(reader, bins, err));
	lk_locality_reuse_at(bins, NULL, REUSE_BATCH, table->rows, table->pooling, reader->batch,
	                     locality);
	return LK_OK;
}

/* A size beyond any machine is a typing error; the sum over all is checked against memory later. */
static lk_status tables_check_size(const struct reader *reader, const lk_shard_table *table,
                                   lk_error *err) {
	char where[192];
	if (table->rows * table->dim <= 1e15) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, tables_place(reader, ROWS, where),
	        "%.4g rows of %.0f columns are %.3g numbers in one table", table->rows, table->dim,
	        table->rows * table->dim);
	return lk_hint(err, "give fewer rows or columns: at most 1e15 numbers");
}

static lk_status tables_add(const struct reader *reader, const lk_shard_table *table, double count,
                            lk_error *err) {
	if ((double)reader->out->count + count > TABLES) {
		lk_fail(err, LK_ERR_INPUT, lk_csv_where(reader->csv), "more than %d tables", TABLES);
		return lk_hint(err, "give fewer rows, or smaller counts");
	}
	for (int i = 0; i < (int)count; i++) {
		if (!lk_push(reader->out)) return lk_oom(err);
		lk_shard_table *shard_table = lk_last(reader->out);
		*shard_table = *table;
		if (count > 1) shard_table->name = lk_arena_printf(reader->arena, "%s_%d", table->name, i);
		if (!shard_table->name) return lk_oom(err);
	}
	return LK_OK;
}

/* 1 if the file has no such column, or TorchRec's word for how rows are combined. */
static lk_status tables_read_pooling(struct reader *reader, double *out, lk_error *err) {
	static const char *const words[] = {"sum", "mean", "none"};
	const char *text = tables_field(reader, POOLING);
	bool open = reader->at[POOLING] < 0;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		open = open || strcasecmp(text, words[i]) == 0;
	if (!open) return tables_number(reader, POOLING, 0, 1e6, 0, out, err);
	*out = 1;
	reader->pooling_assumed = true;
	return LK_OK;
}

/* The column; tables of a file without it are named t0, t1, ..., like those of a model. */
static const char *tables_name(const struct reader *reader) {
	if (reader->at[NAME] >= 0) return tables_field(reader, NAME);
	return lk_arena_printf(reader->arena, "t%zu", reader->out->count);
}

static lk_status tables_read_row(struct reader *reader, lk_error *err) {
	lk_shard_table t = {.name = tables_name(reader)};
	double count;
	char where[192];
	if (!t.name) return lk_oom(err);
	if (!*t.name) {
		lk_fail(err, LK_ERR_INPUT, tables_place(reader, NAME, where), "the table has no name");
		return lk_hint(err, "give each row its own name");
	}
	LK_TRY(tables_whole(reader, ROWS, 1, 1e12, 0, &t.rows, err));
	LK_TRY(tables_whole(reader, DIM, 1, 65536, 0, &t.dim, err));
	LK_TRY(tables_read_pooling(reader, &t.pooling, err));
	LK_TRY(tables_whole(reader, COUNT, 1, TABLES, 1, &count, err));
	LK_TRY(tables_check_size(reader, &t, err));
	LK_TRY(tables_read_kinds(reader, &t.allowed, err));
	LK_TRY(read_locality(reader, &t, err));
	t.name = lk_arena_strdup(reader->arena, t.name);
	t.where = lk_arena_strdup(reader->arena, lk_csv_where(reader->csv));
	if (!t.name || !t.where) return lk_oom(err);
	return tables_add(reader, &t, count, err);
}

/* Names are keys of the plan. */
static lk_status tables_check_names(const lk_shard_tables *tables, lk_error *err) {
	lk_intern *names = lk_intern_new();
	lk_status status = names ? LK_OK : lk_oom(err);
	for (size_t i = 0; i < tables->count && status == LK_OK; i++) {
		const lk_shard_table *table = &tables->at[i];
		bool known = lk_intern_find(names, table->name) != UINT32_MAX;
		if (!known && lk_intern_id(names, table->name) == UINT32_MAX) status = lk_oom(err);
		if (!known) continue;
		lk_fail(err, LK_ERR_INPUT, table->where, "column name: a second table \"%.60s\"",
		        table->name);
		status = lk_hint(err, "give each table its own name");
	}
	lk_intern_free(names);
	return status;
}

/* The index of a column by the first of its names in the header; -1: none. */
static int tables_find_column(const lk_csv *csv, const char *names) {
	char list[256], *next = list, *name;
	int at = -1;
	lk_copy(list, sizeof list, names);
	while (at < 0 && (name = strsep(&next, "|"))) at = lk_csv_column(csv, name);
	return at;
}

static lk_status tables_find_columns(struct reader *reader, const char *file, lk_error *err) {
	for (int column = 0; column < COLUMNS; column++)
		reader->at[column] = tables_find_column(reader->csv, columns[column]);
	for (int column = 0; column < NEEDED; column++) {
		if (reader->at[column] >= 0) continue;
		lk_fail(err, LK_ERR_INPUT, file,
		        "the column %s is missing: this is not a list of embedding tables",
		        column == ROWS ? "rows" : "dim");
		return lk_hint(err, "one has the columns name, rows, dim and pooling; num_embeddings and "
		                    "embedding_dim are read, too");
	}
	return LK_OK;
}

static lk_status tables_read_rows(struct reader *reader, lk_csv *csv, const char *file,
                                  lk_error *err) {
	LK_TRY(tables_find_columns(reader, file, err));
	for (bool more;;) {
		LK_TRY(lk_csv_next(csv, &more, err));
		if (!more) break;
		LK_TRY(tables_read_row(reader, err));
	}
	if (reader->out->count) return tables_check_names(reader->out, err);
	lk_fail(err, LK_ERR_INPUT, file, "it holds no table");
	return lk_hint(err, "give rows such as t0,1000000,64,10 under name,rows,dim,pooling");
}

lk_status lk_shard_tables_read(lk_arena *arena, lk_stream *in, double batch, lk_shard_tables *out,
                               bool *pooling_assumed, lk_error *err) {
	lk_csv *csv;
	LK_TRY(lk_csv_open(in, &csv, err));
	struct reader r = {.arena = arena, .csv = csv, .batch = batch, .out = out};
	lk_status status = tables_read_rows(&r, csv, lk_stream_name(in), err);
	lk_csv_close(csv);
	*pooling_assumed = r.pooling_assumed;
	return status;
}
