/* shard_view.c: placements in every format, and the plan file. */
#include <math.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "lockstep/shard.h"
#include "view/text/views.h"
#include "view/table/table.h"

struct asked {
	const lk_shard_answer *a;
};

static void put_bytes(lk_table *t, double bytes) {
	char text[32];
	lk_table_number(t, bytes, lk_format_bytes(bytes, text, sizeof text));
}

static void put_count(lk_table *t, double count) {
	char text[32];
	lk_table_number(t, count, lk_format_thousands(count, text, sizeof text));
}

static void put_fixed(lk_table *t, double number, int places) {
	char text[32];
	lk_table_number(t, number, isnan(number) ? NULL : lk_fixed(number, places, text, sizeof text));
}

/* ---- tables ---- */

static lk_table *ranks(const lk_shard_answer *a) {
	static const lk_column columns[] = {
		{"rank", "rank", true, false}, {"pieces", "pieces", true, false}, {"device_bytes", "device", true, false},
		{"host_bytes", "host", true, false}, {"forward_s", "lookups", true, false}, {"backward_s", "backward", true, false},
		{"columns", "columns sent", true, false}, {"exchange_s", "exchange", true, false},
	};
	lk_table *t = lk_table_new("ranks", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; t && i < a->rank_count; i++) {
		const lk_shard_rank *r = &a->ranks[i];
		lk_table_row(t);
		lk_table_number(t, r->rank, NULL), lk_table_number(t, r->pieces, NULL);
		put_bytes(t, r->device_bytes), put_bytes(t, r->host_bytes);
		lk_put_seconds(t, r->forward_s), lk_put_seconds(t, r->backward_s);
		put_count(t, r->columns), lk_put_seconds(t, r->exchange_s);
	}
	return t;
}

static lk_table *pieces(const lk_shard_answer *a) {
	static const lk_column columns[] = {
		{"table", "table", false, false}, {"kind", "kind", false, false}, {"memory", "memory", false, false},
		{"rank", "rank", true, false}, {"part", "part", true, false}, {"parts", "of", true, false}, {"rows", "rows", true, false},
		{"dim", "dim", true, false}, {"pooling", "pooling", true, false}, {"bytes", "bytes", true, false},
		{"forward_s", "lookups", true, false}, {"backward_s", "backward", true, false},
	};
	lk_table *t = lk_table_new("pieces", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; t && i < a->piece_count; i++) {
		const lk_shard_placed *p = &a->pieces[i];
		lk_table_row(t);
		lk_table_text(t, p->name), lk_table_text(t, p->kind), lk_table_text(t, p->where);
		if (p->rank < 0) lk_table_number(t, -1, "all");
		else lk_table_number(t, p->rank, NULL);
		lk_table_number(t, p->part, NULL), lk_table_number(t, p->parts, NULL);
		put_count(t, p->rows), lk_table_number(t, p->dim, NULL), put_fixed(t, p->pooling, 2);
		put_bytes(t, p->bytes), lk_put_seconds(t, p->forward_s), lk_put_seconds(t, p->backward_s);
	}
	return t;
}

static lk_table *sharders(const lk_shard_answer *a) {
	static const lk_column columns[] = {
		{"sharder", "sharder", false, false}, {"step_s", "step", true, false}, {"over_best", "over best", true, false},
		{"imbalance", "imbalance", true, false}, {"seconds", "found in", true, false}, {"reason", "", false, false},
	};
	lk_table *t = lk_table_new("sharders", columns, (int)(sizeof columns / sizeof *columns));
	double best = INFINITY;
	for (int i = 0; i < a->tried_count; i++) best = fmin(best, isnan(a->tried[i].step_s) ? INFINITY : a->tried[i].step_s);
	for (int i = 0; t && i < a->tried_count; i++) {
		const lk_shard_tried *s = &a->tried[i];
		char over[32];
		lk_table_row(t);
		lk_table_text(t, s->name), lk_put_seconds(t, s->step_s);
		double ratio = s->step_s / best - 1;
		lk_table_number(t, ratio, isnan(ratio) ? NULL : lk_percent(ratio, over, sizeof over));
		put_fixed(t, s->imbalance, 3), lk_put_seconds(t, s->seconds), lk_table_text(t, s->reason);
	}
	return t;
}

lk_table *lk_shard_table(const lk_shard_answer *a, int which) {
	return which == LK_SHARD_RANKS ? ranks(a) : which == LK_SHARD_TRIED ? sharders(a) : pieces(a);
}

/* ---- text ---- */

static lk_status put_table(lk_table *t, lk_format format, bool colour, FILE *out, lk_error *err) {
	if (!t) return lk_oom(err);
	lk_table_hide_empty(t);
	lk_status status = lk_table_write(t, format, colour, out, err);
	lk_table_free(t);
	return status;
}

static void put_verdict(const lk_shard_answer *a, bool colour, FILE *out) {
	char bytes[32], capacity[32], step[32], bound[32], gap[32], imbalance[32];
	const char *bold = colour ? "\x1b[1m" : "", *plain = colour ? "\x1b[0m" : "";
	if (!a->fits) {
		fprintf(out, "%sDOES NOT FIT%s  %s\n", bold, plain, a->reason);
		return;
	}
	fprintf(out, "%sFITS%s  %d tables, %s with optimizer states, on %d ranks of %s for tables\n", bold, plain, a->tables,
	        lk_format_bytes(a->table_bytes, bytes, sizeof bytes), a->rank_count,
	        lk_format_bytes(a->capacity_bytes, capacity, sizeof capacity));
	fprintf(out, "embedding step %s by %s: no placement takes less than %s, %s more here; imbalance of lookups %s (slowest over mean)\n",
	        lk_format_seconds(a->step_s, step, sizeof step), a->sharder, lk_format_seconds(a->bound_s, bound, sizeof bound),
	        lk_percent(a->gap, gap, sizeof gap), lk_fixed(a->imbalance, 3, imbalance, sizeof imbalance));
}

static void put_parts(const lk_shard_answer *a, FILE *out) {
	const struct { const char *name; double seconds; } parts[] = {
		{"indices", a->index_s}, {"lookups", a->forward_s}, {"sums", a->exchange_s}, {"dense", a->dense_s},
		{"gradients of sums", a->exchange_s}, {"lookups backward", a->backward_s}, {"gradients of copies", a->reduce_s}};
	const char *between = "";
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char text[32];
		if (!(parts[i].seconds > 0)) continue;
		fprintf(out, "%s%s %s", between, parts[i].name, lk_format_seconds(parts[i].seconds, text, sizeof text));
		between = " | ";
	}
	fputs("\n\n", out);
}

static void put_kinds(const lk_shard_answer *a, FILE *out) {
	static const char *const kinds[] = {"table", "column", "row", "data"}, *const words[] = {"whole", "by columns", "by rows", "copied"};
	int host = 0, most = 0;
	const char *between = "";
	for (int k = 0; k < 4; k++) {
		int tables = 0;
		for (int i = 0; i < a->piece_count; i++) tables += a->pieces[i].part == 0 && strcmp(a->pieces[i].kind, kinds[k]) == 0;
		if (tables) fprintf(out, "%s%d %s", between, tables, words[k]), between = ", ";
	}
	for (int i = 0; i < a->piece_count; i++) {
		host += strcmp(a->pieces[i].where, "host") == 0;
		if (a->pieces[i].forward_s + a->pieces[i].backward_s > a->pieces[most].forward_s + a->pieces[most].backward_s) most = i;
	}
	if (host) fprintf(out, "; %d pieces in host memory", host);
	if (a->piece_count) {
		const lk_shard_placed *p = &a->pieces[most];
		char name[128], rows[32], work[32];
		fprintf(out, "; the longest piece: %s, %s, %s rows of %.0f, %s\n", lk_escape(p->name, name, sizeof name), p->kind,
		        lk_format_count(p->rows, rows, sizeof rows), p->dim, lk_format_seconds(p->forward_s + p->backward_s, work, sizeof work));
	}
}

static lk_status write_report(const lk_shard_answer *a, lk_format format, bool colour, FILE *out, lk_error *err) {
	put_verdict(a, colour, out);
	if (a->fits) {
		put_parts(a, out);
		LK_TRY(put_table(ranks(a), format, colour, out, err));
		fputc('\n', out);
		put_kinds(a, out);
	}
	fputc('\n', out);
	LK_TRY(put_table(sharders(a), format, colour, out, err));
	fprintf(out, "\nbasis: %s\n", a->basis);
	fputs("reproduce: ", out);
	LK_TRY(lk_put_safe(a->reproduce, out, err));
	fputc('\n', out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

static lk_status write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	return write_report(((const struct asked *)what)->a, LK_FORMAT_TEXT, colour, out, err);
}

static lk_status write_markdown(const void *what, bool colour, FILE *out, lk_error *err) {
	(void)colour;
	return write_report(((const struct asked *)what)->a, LK_FORMAT_MD, false, out, err);
}

/* ---- JSON ---- */

static void put_numbers(lk_json_writer *w, const lk_shard_answer *a) {
	const struct { const char *key; double value; } numbers[] = {
		{"step_s", a->step_s}, {"bound_s", a->bound_s}, {"gap", a->gap}, {"imbalance", a->imbalance}, {"index_s", a->index_s},
		{"forward_s", a->forward_s}, {"exchange_s", a->exchange_s}, {"dense_s", a->dense_s}, {"backward_s", a->backward_s},
		{"reduce_s", a->reduce_s}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (a->fits) lk_json_put_number(w, numbers[i].key, numbers[i].value);
		else lk_json_put_null(w, numbers[i].key);
	}
	lk_json_put_number(w, "batch", a->batch), lk_json_put_integer(w, "tables", a->tables);
	lk_json_put_number(w, "table_bytes", a->table_bytes), lk_json_put_number(w, "capacity_bytes", a->capacity_bytes);
	lk_json_put_number(w, "host_capacity_bytes", a->host_capacity_bytes);
}

static lk_status write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_shard_answer *a = ((const struct asked *)what)->a;
	static const char *const keys[] = {NULL, "ranks", "pieces", "sharders"};
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_bool(&w, "fits", a->fits);
	lk_json_put_text(&w, "reason", a->reason);
	lk_json_put_text(&w, "sharder", a->sharder);
	put_numbers(&w, a);
	for (int i = LK_SHARD_RANKS; i < LK_SHARD_TABLES; i++) {
		lk_table *t = lk_shard_table(a, i);
		if (!t) return lk_oom(err);
		lk_json_put_table(&w, keys[i], t);
		lk_table_free(t);
	}
	lk_json_put_text(&w, "cluster", a->cluster);
	lk_json_put_text(&w, "basis", a->basis);
	lk_json_put_text(&w, "reproduce", a->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_shard_print(const lk_shard_answer *answer, int table, int format, bool colour, const char *path, FILE *out,
                         lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {answer};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_SHARD_TABLES) return lk_fail(err, LK_ERR_INPUT, "--table", "there is no table %d", table);
	if (table == LK_SHARD_PLAN && format == LK_FORMAT_TEXT) return lk_write_through(&w, write_text, &a, err);
	if (table == LK_SHARD_PLAN && format == LK_FORMAT_MD) return lk_write_through(&w, write_markdown, &a, err);
	if (table == LK_SHARD_PLAN && format == LK_FORMAT_JSON) return lk_write_through(&w, write_json, &a, err);
	return lk_write_table(&w, lk_shard_table(answer, table), err);
}

/* ---- the plan file ---- */

/* TorchRec's names (torchrec.distributed.types.ShardingType, embedding_types.EmbeddingComputeKernel). */
static const char *sharding_type(const char *kind) {
	static const char *const names[][2] = {{"table", "table_wise"}, {"column", "column_wise"}, {"row", "row_wise"}, {"data", "data_parallel"}};
	for (int i = 0; i < 4; i++)
		if (strcmp(kind, names[i][0]) == 0) return names[i][1];
	return kind;
}

static const char *compute_kernel(const lk_shard_placed *p) {
	if (strcmp(p->kind, "data") == 0) return "dense";
	return strcmp(p->where, "host") == 0 ? "fused_uvm_caching" : "fused";
}

static void put_shard(lk_json_writer *w, const lk_shard_placed *p, double row, double column) {
	char place[32];
	lk_json_object(w, NULL);
	lk_json_array(w, "shard_offsets");
	lk_json_put_number(w, NULL, row), lk_json_put_number(w, NULL, column);
	lk_json_array_end(w);
	lk_json_array(w, "shard_sizes");
	lk_json_put_number(w, NULL, p->rows), lk_json_put_number(w, NULL, p->dim);
	lk_json_array_end(w);
	snprintf(place, sizeof place, "rank:%d/cuda:%d", p->rank, p->rank);
	lk_json_put_text(w, "placement", place);
	lk_json_object_end(w);
}

/* Parts of a table stand in order, one behind the other. */
static void put_entry(lk_json_writer *w, const lk_shard_answer *a, int first) {
	const lk_shard_placed *p = &a->pieces[first];
	double row = 0, column = 0;
	lk_json_object(w, p->name);
	lk_json_put_text(w, "sharding_type", sharding_type(p->kind));
	lk_json_put_text(w, "compute_kernel", compute_kernel(p));
	lk_json_array(w, "ranks");
	for (int i = 0; p->rank < 0 && i < a->rank_count; i++) lk_json_put_integer(w, NULL, i);
	for (int i = 0; p->rank >= 0 && i < p->parts; i++) lk_json_put_integer(w, NULL, p[i].rank);
	lk_json_array_end(w);
	if (p->rank < 0) {
		lk_json_put_null(w, "sharding_spec");
	} else {
		lk_json_object(w, "sharding_spec");
		lk_json_array(w, "shards");
		for (int i = 0; i < p->parts; i++) {
			put_shard(w, &p[i], row, column);
			if (strcmp(p->kind, "row") == 0) row += p[i].rows;
			else column += p[i].dim;
		}
		lk_json_array_end(w);
		lk_json_object_end(w);
	}
	lk_json_object_end(w);
}

static lk_status write_plan(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_shard_answer *a = ((const struct asked *)what)->a;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	for (int i = 0; i < a->piece_count; i += a->pieces[i].parts) put_entry(&w, a, i);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_shard_write_plan(const lk_shard_answer *answer, const char *path, lk_error *err) {
	lk_writing w = {LK_FORMAT_JSON, false, false, path, NULL};
	struct asked a = {answer};
	if (!answer->fits) return lk_fail(err, LK_ERR_INPUT, path, "there is no placement to write");
	return lk_write_through(&w, write_plan, &a, err);
}
