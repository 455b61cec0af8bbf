/* ops_table.c: reads tables of measured kernel times. Columns are found by name; those that are not known are not read. */
#include "tables/tables.h"

#include <stdio.h>
#include <string.h>

#include "io/csv.h"
#include "base/text.h"

enum { ROWS = 1 << 22, NAMES = 4096 };

/* A name that occurs in many rows, kept once. */
struct name {
	const char *text;
	const lk_device *device;
};

/* The columns of both forms; -1 where the table lacks one. */
struct reader {
	lk_csv *csv;
	lk_arena *arena;
	LK_VEC(struct name) names;
	const char *file;
	bool general;  /* the form with d0, d1, ... */
	int op, gpu, dtype, time, points, model, size[4];
};

static const char *place(const struct reader *r, const char *column, char out[256]) {
	snprintf(out, 256, "%.200s: %s", lk_csv_where(r->csv), column);
	return out;
}

/* The one copy of a name, and the device of that name. Tables are sorted: the newest names come first. */
static lk_status keep(struct reader *r, const char *text, struct name *out, lk_error *err) {
	for (size_t i = r->names.count; i-- > 0;) {
		if (strcmp(r->names.at[i].text, text) != 0) continue;
		*out = r->names.at[i];
		return LK_OK;
	}
	if (r->names.count == NAMES)
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(r->csv), "more than %d names of devices and operations", NAMES);
	const char *copy = lk_arena_strdup(r->arena, text);
	if (!copy || !lk_push(&r->names)) return lk_oom(err);
	*lk_last(&r->names) = *out = (struct name){copy, lk_device_find(copy)};
	return LK_OK;
}

static lk_status read_size(const struct reader *r, int column, const char *what, double *out, lk_error *err) {
	long long value;
	char where[256];
	LK_TRY(lk_parse_int(lk_csv_field(r->csv, column), 1, 1000000000, &value, place(r, what, where), err));
	*out = (double)value;
	return LK_OK;
}

static lk_status read_dtype(const struct reader *r, lk_dtype *out, lk_error *err) {
	const char *text = lk_csv_field(r->csv, r->dtype);
	char where[256];
	*out = LK_FP32;
	if (r->dtype < 0 || lk_dtype_parse(text, out)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, place(r, "dtype", where), "unknown number format \"%.60s\"", text);
	return lk_hint(err, "give one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
}

/* Sizes in the order batch, m, n, k. A row whose last one is empty is no product. */
static lk_status read_sizes(const struct reader *r, lk_op_sample *s, lk_error *err) {
	static const char *const general[] = {"d0", "d1", "d2", "d3"}, *const plain[] = {"", "m", "n", "k"};
	const char *const *what = r->general ? general : plain;
	s->family = *lk_csv_field(r->csv, r->size[3]) ? LK_FAMILY_GEMM : LK_FAMILY_MEMORY;
	s->batch = 1;
	if (s->family == LK_FAMILY_MEMORY) {
		int rows = r->general ? 0 : 1;
		LK_TRY(read_size(r, r->size[rows], what[rows], &s->m, err));
		return read_size(r, r->size[rows + 1], what[rows + 1], &s->n, err);
	}
	if (r->general) LK_TRY(read_size(r, r->size[0], what[0], &s->batch, err));
	LK_TRY(read_size(r, r->size[1], what[1], &s->m, err));
	LK_TRY(read_size(r, r->size[2], what[2], &s->n, err));
	return read_size(r, r->size[3], what[3], &s->k, err);
}

static lk_status read_row(struct reader *r, lk_op_sample *s, lk_error *err) {
	struct name op, gpu, model = {"", NULL};
	char where[256];
	double ms;
	LK_TRY(keep(r, lk_csv_field(r->csv, r->op), &op, err));
	LK_TRY(keep(r, lk_csv_field(r->csv, r->gpu), &gpu, err));
	if (r->model >= 0) LK_TRY(keep(r, lk_csv_field(r->csv, r->model), &model, err));
	s->op = op.text, s->gpu = gpu.text, s->model = model.text, s->device = gpu.device;
	s->where = lk_arena_strdup(r->arena, lk_csv_where(r->csv));
	if (!s->where) return lk_oom(err);
	LK_TRY(read_dtype(r, &s->dtype, err));
	LK_TRY(read_sizes(r, s, err));
	const char *time = r->general ? "latency_ms" : "time_ms";
	LK_TRY(lk_parse_real(lk_csv_field(r->csv, r->time), 1e-9, 1e9, &ms, place(r, time, where), err));
	s->seconds = ms * 1e-3;
	s->points = 1;
	const char *points = lk_csv_field(r->csv, r->points);
	long long count = 1;
	if (*points) LK_TRY(lk_parse_int(points, 1, 1000000000, &count, place(r, "n_meas", where), err));
	s->points = (int)count;
	return LK_OK;
}

static lk_status find_columns(struct reader *r, lk_error *err) {
	static const char *const general[] = {"d0", "d1", "d2", "d3"}, *const plain[] = {"", "m", "n", "k"};
	r->general = lk_csv_column(r->csv, "latency_ms") >= 0;
	r->time = lk_csv_column(r->csv, r->general ? "latency_ms" : "time_ms");
	r->op = lk_csv_column(r->csv, "op"), r->gpu = lk_csv_column(r->csv, "gpu");
	r->dtype = lk_csv_column(r->csv, "dtype"), r->points = lk_csv_column(r->csv, "n_meas");
	r->model = lk_csv_column(r->csv, "model");
	bool whole = r->time >= 0 && r->op >= 0 && r->gpu >= 0;
	for (int i = 0; i < 4; i++) {
		r->size[i] = lk_csv_column(r->csv, r->general ? general[i] : plain[i]);
		whole = whole && (r->size[i] >= 0 || (i == 0 && !r->general));
	}
	if (whole) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, r->file, "this is no table of kernel times: columns are missing");
	return lk_hint(err, "a table has gpu, op, m, n, k and time_ms, or gpu, op, d0 to d3 and latency_ms");
}

static lk_status read_rows(struct reader *r, lk_op_samples *out, lk_error *err) {
	LK_TRY(find_columns(r, err));
	for (;;) {
		bool more;
		LK_TRY(lk_csv_next(r->csv, &more, err));
		if (!more) return LK_OK;
		if (out->count == ROWS) return lk_fail(err, LK_ERR_INPUT, r->file, "more than %d rows", ROWS);
		if (!lk_push(out)) return lk_oom(err);
		LK_TRY(read_row(r, lk_last(out), err));
	}
}

lk_status lk_ops_read(lk_arena *arena, lk_stream *in, lk_op_samples *out, lk_error *err) {
	struct reader r = {.arena = arena, .file = lk_stream_name(in)};
	LK_TRY(lk_csv_open(in, &r.csv, err));
	lk_status status = read_rows(&r, out, err);
	lk_csv_close(r.csv);
	lk_vec_free(&r.names);
	return status;
}
