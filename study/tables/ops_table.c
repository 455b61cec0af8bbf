/* ops_table.c: reads tables of measured kernel times. Columns are found by name; unknown columns
 * are ignored. */
#include "base/arena.h"
#include "tables/tables.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "io/csv.h"
#include "base/text.h"

enum { ROWS = 1 << 22, NAMES = 4096 };

/* A name that occurs in many rows, stored once. */
struct name {
	const char *text;
	const lk_device *device;
};

/* Columns of both forms; -1 if the table lacks one. */
struct reader {
	lk_csv *csv;
	lk_arena *arena;
	LK_VEC(struct name) names;
	const char *file;
	bool general; /* the form with d0, d1, ... */
	int op, gpu, dtype, time, points, model, size[4];
};

/* Find or store a name and its device. Tables are sorted, so the newest names are tried first. */
static lk_status ops_table_keep(struct reader *reader, const char *text, struct name *out,
                                lk_error *err) {
	for (size_t i = reader->names.count; i-- > 0;) {
		if (strcmp(reader->names.at[i].text, text) != 0) continue;
		*out = reader->names.at[i];
		return LK_OK;
	}
	if (reader->names.count == NAMES)
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(reader->csv),
		               "more than %d names of devices and operations", NAMES);
	const char *copy = lk_arena_strdup(reader->arena, text);
	if (!copy || !lk_push(&reader->names)) return lk_oom(err);
	*lk_last(&reader->names) = *out = (struct name){copy, lk_device_find(copy)};
	return LK_OK;
}

static lk_status ops_table_read_size(const struct reader *reader, int column, const char *what,
                                     double *out, lk_error *err) {
	long long value;
	char where[LK_CSV_PLACE];
	LK_TRY(lk_parse_int(lk_csv_field(reader->csv, column), 1, 1000000000, &value,
	                    lk_csv_place(reader->csv, what, where), err));
	*out = (double)value;
	return LK_OK;
}

static lk_status ops_table_read_dtype(const struct reader *reader, lk_dtype *out, lk_error *err) {
	const char *text = lk_csv_field(reader->csv, reader->dtype);
	char where[LK_CSV_PLACE];
	*out = LK_FP32;
	if (reader->dtype < 0 || lk_dtype_parse(text, out)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lk_csv_place(reader->csv, "dtype", where),
	        "unknown number format \"%.60s\"", text);
	return lk_hint(err, "give one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
}

/* Read the sizes in the order batch, m, n, k. A row whose last one is empty is not a product. */
static lk_status ops_table_read_sizes(const struct reader *reader, lk_op_sample *sample,
                                      lk_error *err) {
	static const char *const general[] = {"d0", "d1", "d2", "d3"}, *const plain[] = {"", "m", "n",
	                                                                                 "k"};
	const char *const *what = reader->general ? general : plain;
	sample->family =
		*lk_csv_field(reader->csv, reader->size[3]) ? LK_FAMILY_GEMM : LK_FAMILY_MEMORY;
	sample->batch = 1;
	if (sample->family == LK_FAMILY_MEMORY) {
		int rows = reader->general ? 0 : 1;
		LK_TRY(ops_table_read_size(reader, reader->size[rows], what[rows], &sample->m, err));
		return ops_table_read_size(reader, reader->size[rows + 1], what[rows + 1], &sample->n, err);
	}
	if (reader->general)
		LK_TRY(ops_table_read_size(reader, reader->size[0], what[0], &sample->batch, err));
	LK_TRY(ops_table_read_size(reader, reader->size[1], what[1], &sample->m, err));
	LK_TRY(ops_table_read_size(reader, reader->size[2], what[2], &sample->n, err));
	return ops_table_read_size(reader, reader->size[3], what[3], &sample->k, err);
}

static lk_status ops_table_read_row(struct reader *reader, lk_op_sample *sample, lk_error *err) {
	struct name op, gpu, model = {"", NULL};
	char where[LK_CSV_PLACE];
	double ms;
	LK_TRY(ops_table_keep(reader, lk_csv_field(reader->csv, reader->op), &op, err));
	LK_TRY(ops_table_keep(reader, lk_csv_field(reader->csv, reader->gpu), &gpu, err));
	if (reader->model >= 0)
		LK_TRY(ops_table_keep(reader, lk_csv_field(reader->csv, reader->model), &model, err));
	sample->op = op.text;
	sample->gpu = gpu.text;
	sample->model = model.text;
	sample->device = gpu.device;
	sample->where = lk_arena_strdup(reader->arena, lk_csv_where(reader->csv));
	if (!sample->where) return lk_oom(err);
	LK_TRY(ops_table_read_dtype(reader, &sample->dtype, err));
	LK_TRY(ops_table_read_sizes(reader, sample, err));
	const char *time = reader->general ? "latency_ms" : "time_ms";
	LK_TRY(lk_parse_real(lk_csv_field(reader->csv, reader->time), 1e-9, 1e9, &ms,
	                     lk_csv_place(reader->csv, time, where), err));
	sample->seconds = ms * 1e-3;
	sample->points = 1;
	const char *points = lk_csv_field(reader->csv, reader->points);
	long long count = 1;
	if (*points)
		LK_TRY(lk_parse_int(points, 1, 1000000000, &count,
		                    lk_csv_place(reader->csv, "n_meas", where), err));
	sample->points = (int)count;
	LK_ASSERT(sample->seconds > 0 && sample->points >= 1);
	return LK_OK;
}

static lk_status ops_table_find_columns(struct reader *reader, lk_error *err) {
	static const char *const general[] = {"d0", "d1", "d2", "d3"}, *const plain[] = {"", "m", "n",
	                                                                                 "k"};
	reader->general = lk_csv_column(reader->csv, "latency_ms") >= 0;
	reader->time = lk_csv_column(reader->csv, reader->general ? "latency_ms" : "time_ms");
	reader->op = lk_csv_column(reader->csv, "op");
	reader->gpu = lk_csv_column(reader->csv, "gpu");
	reader->dtype = lk_csv_column(reader->csv, "dtype");
	reader->points = lk_csv_column(reader->csv, "n_meas");
	reader->model = lk_csv_column(reader->csv, "model");
	bool whole = reader->time >= 0 && reader->op >= 0 && reader->gpu >= 0;
	for (int i = 0; i < 4; i++) {
		reader->size[i] = lk_csv_column(reader->csv, reader->general ? general[i] : plain[i]);
		whole = whole && (reader->size[i] >= 0 || (i == 0 && !reader->general));
	}
	if (whole) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, reader->file,
	        "this is not a table of kernel times: columns are missing");
	return lk_hint(err,
	               "a table has gpu, op, m, n, k and time_ms, or gpu, op, d0 to d3 and latency_ms");
}

static lk_status ops_table_read_rows(struct reader *reader, lk_op_samples *out, lk_error *err) {
	LK_TRY(ops_table_find_columns(reader, err));
	for (;;) {
		bool more;
		LK_TRY(lk_csv_next(reader->csv, &more, err));
		if (!more) return LK_OK;
		if (out->count == ROWS)
			return lk_fail(err, LK_ERR_INPUT, reader->file, "more than %d rows", ROWS);
		if (!lk_push(out)) return lk_oom(err);
		LK_TRY(ops_table_read_row(reader, lk_last(out), err));
	}
}

lk_status lk_ops_read(lk_arena *arena, lk_stream *in, lk_op_samples *out, lk_error *err) {
	struct reader r = {.arena = arena, .file = lk_stream_name(in)};
	LK_TRY(lk_csv_open(in, &r.csv, err));
	lk_status status = ops_table_read_rows(&r, out, err);
	lk_csv_close(r.csv);
	lk_vec_free(&r.names);
	return status;
}
