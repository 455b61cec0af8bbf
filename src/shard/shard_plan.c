/* shard_plan.c: reads a placement in TorchRec's terms, as written by `lockstep shard --plan`:
 *
 *     {"lockstep_placement": 1,
 *      "t0": {"sharding_type": "column_wise", "compute_kernel": "fused", "ranks": [3, 1],
 *             "sharding_spec": {"shards": [{"shard_offsets": [0, 0], "shard_sizes": [1000, 64],
 *                                           "placement": "rank:3/cuda:3"}, ...]}}, ...}
 *
 * Parts are placed by "ranks"; sizes, if the plan has them, must be those of equal parts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/intern.h"
#include "base/text.h"
#include "base/noun.h"
#include "io/form.h"
#include "io/json.h"
#include "shard/shard.h"

enum { PLAN_LIMIT = 256 << 20 };

const char *const lk_shard_types[LK_SHARD_KINDS + 1] = {"table_wise", "column_wise", "row_wise",
                                                        "data_parallel", NULL};

struct reader {
	const lk_shard_problem *problem;
	const char *file;
	lk_shard_pieces *out;
};

static lk_status plan_fail(const struct reader *reader, const lk_value *at, const char *table,
                           lk_error *err, const char *what, const char *hint) {
	char where[256], shown[64];
	snprintf(where, sizeof where, "%.200s:%d:%d", reader->file, at->line, at->column);
	lk_fail(err, LK_ERR_INPUT, where, "table \"%s\": %s", lk_escape(table, shown, sizeof shown),
	        what);
	return lk_hint(err, "%s", hint);
}

static lk_status read_type(const struct reader *reader, const lk_value *entry, const char *table,
                           lk_shard_kind *kind, bool *host, lk_error *err) {
	const lk_value *type = lk_json_get(entry, "sharding_type"),
				   *kernel = lk_json_get(entry, "compute_kernel");
	int found = 0;
	while (type && type->kind == LK_JSON_STRING && found < LK_SHARD_KINDS &&
	       strcmp(type->text, lk_shard_types[found]) != 0)
		found++;
	if (!type || type->kind != LK_JSON_STRING || found == LK_SHARD_KINDS)
		return plan_fail(reader, type ? type : entry, table, err,
		                 "its sharding_type is missing or not modelled",
		                 "give table_wise, column_wise, row_wise or data_parallel");
	*kind = (lk_shard_kind)found;
	*host = kernel && kernel->kind == LK_JSON_STRING && strstr(kernel->text, "uvm") != NULL;
	return LK_OK;
}

static lk_status read_rank(const struct reader *reader, const lk_value *value, const char *table,
                           int *out, lk_error *err) {
	int ranks = reader->problem->ranks;
	if (value->kind == LK_JSON_NUMBER && value->number >= 0 && value->number < ranks &&
	    value->number == floor(value->number)) {
		*out = (int)value->number;
		return LK_OK;
	}
	char hint[96];
	snprintf(hint, sizeof hint, "give ranks from 0 to %d, or more GPUs", ranks - 1);
	return plan_fail(reader, value, table, err, "a rank that the job does not have", hint);
}

static bool is_pair(const lk_value *sizes) {
	return sizes && sizes->kind == LK_JSON_ARRAY && sizes->count == 2 &&
	       sizes->items[0].kind == LK_JSON_NUMBER && sizes->items[1].kind == LK_JSON_NUMBER;
}

/* If the plan states the shards' sizes, they must be those of the pieces. */
static lk_status check_shards(const struct reader *reader, const lk_value *entry, const char *table,
                              const lk_shard_piece *pieces, int parts, lk_error *err) {
	const lk_value *shards = lk_json_get(lk_json_get(entry, "sharding_spec"), "shards");
	if (!shards || shards->kind != LK_JSON_ARRAY) return LK_OK;
	if (shards->count != (size_t)parts)
		return plan_fail(reader, shards, table, err, "as many shards as ranks are expected",
		                 "give one shard for each rank of \"ranks\"");
	for (int i = 0; i < parts; i++) {
		const lk_value *sizes = lk_json_get(&shards->items[i], "shard_sizes");
		double rows, columns;
		lk_shard_piece_size(reader->problem, &pieces[i], &rows, &columns);
		if (!sizes ||
		    (is_pair(sizes) && sizes->items[0].number == rows && sizes->items[1].number == columns))
			continue;
		char hint[96];
		snprintf(hint, sizeof hint, "the model's has %.0f %s and %.0f columns", rows,
		         lk_noun(rows, "row", "rows"), columns);
		return plan_fail(reader, sizes, table, err, "a shard of another size", hint);
	}
	return LK_OK;
}

static lk_status read_entry(const struct reader *reader, const lk_value *entry, uint32_t table,
                            lk_error *err) {
	const char *name = reader->problem->tables[table].name;
	lk_shard_kind kind = LK_SHARD_TABLE;
	bool host = false;
	LK_TRY(read_type(reader, entry, name, &kind, &host, err));
	const lk_value *ranks = lk_json_get(entry, "ranks");
	bool copied = kind == LK_SHARD_DATA;
	if (!copied && (!ranks || ranks->kind != LK_JSON_ARRAY || ranks->count < 1))
		return plan_fail(reader, ranks ? ranks : entry, name, err, "its ranks are missing",
		                 "give \"ranks\": a list with the rank of each part");
	if (copied && ranks && ranks->count != (size_t)reader->problem->ranks)
		return plan_fail(reader, ranks, name, err, "a copy is not on every rank",
		                 "name all ranks: copies on some of them are not modelled");
	int parts = copied ? 1 : (int)ranks->count;
	double most = fmax(lk_shard_most_parts(reader->problem, table, kind), 1);
	if (parts > most)
		return plan_fail(reader, ranks, name, err, "more parts than such a table can have",
		                 "give at most one for each rank and for 8 columns; whole tables have one");
	size_t first = reader->out->count;
	LK_TRY(lk_shard_add_parts(reader->problem, reader->out, table, kind, parts, host, err));
	for (int i = 0; i < parts && !copied; i++)
		LK_TRY(read_rank(reader, &ranks->items[i], name, &reader->out->at[first + i].rank, err));
	return check_shards(reader, entry, name, &reader->out->at[first], parts, err);
}

/* Match names of the plan by their position in it. */
static lk_status read_all(const struct reader *reader, const lk_value *root, lk_error *err) {
	uint32_t count = reader->problem->count, known = 0;
	lk_intern *names = lk_intern_new();
	if (!names) return lk_oom(err);
	lk_status status = LK_OK;
	for (uint32_t t = 0; t < count && status == LK_OK; t++)
		if (lk_intern_id(names, reader->problem->tables[t].name) == UINT32_MAX)
			status = lk_oom(err);
	bool *seen = status == LK_OK ? LK_ARRAY(reader->problem->arena, bool, count) : NULL;
	if (status == LK_OK && !seen) status = lk_oom(err);
	uint32_t base = status == LK_OK ? lk_intern_find(names, reader->problem->tables[0].name) : 0;
	for (size_t i = 0; i < root->count && status == LK_OK; i++) {
		if (strncmp(root->keys[i], "lockstep_", 9) == 0) continue; /* its form, its seal */
		uint32_t id = lk_intern_find(names, root->keys[i]);
		if (id == UINT32_MAX || id < base) {
			status = plan_fail(reader, &root->items[i], root->keys[i], err,
			                   "the model has no such table",
			                   "its tables are t0, t1, ... in the order of the model's file");
			continue;
		}
		LK_ASSERT(id - base < count); /* names are distinct, and were counted in sequence */
		seen[id - base] = true;
		known++;
		status = read_entry(reader, &root->items[i], id - base, err);
	}
	for (uint32_t t = 0; t < count && status == LK_OK && known < count; t++)
		if (!seen[t])
			status = plan_fail(reader, root, reader->problem->tables[t].name, err,
			                   "the plan does not place it", "place every table of the model");
	lk_intern_free(names);
	return status;
}

lk_status lk_shard_read_plan(const lk_shard_problem *problem, const char *path, lk_shard_plan *out,
                             lk_error *err) {
	const struct reader reader = {problem, path, &out->pieces};
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in = NULL;
	lk_value *root = NULL;
	char *text = NULL;
	size_t size = 0;
	LK_TRY(lk_stream_slurp(path, PLAN_LIMIT, &text, &size, err));
	lk_status status = lk_stream_memory(text, size, path, &in, err);
	if (status == LK_OK) status = lk_json_document(&arena, in, &root, err);
	if (status == LK_OK && root->kind != LK_JSON_OBJECT) {
		lk_fail(err, LK_ERR_INPUT, path, "this is not a plan of tables");
		status = lk_hint(err, "give what `lockstep shard --model MODEL --plan FILE` writes");
	}
	if (status == LK_OK) status = lk_form_check_member(LK_FORM_PLACEMENT, root, path, err);
	if (status == LK_OK) status = read_all(&reader, root, err);
	lk_stream_close(in);
	free(text);
	lk_arena_free(&arena);
	return status;
}
