/* shard_view.c: placements in every format, and the plan file. */
#include <math.h>
#include <string.h>

#include "io/form.h"
#include "io/json.h"

#include "base/text.h"
#include "base/noun.h"
#include "lockstep/shard.h"
#include "view/text/views.h"
#include "view/table/table.h"

struct asked {
	const lk_shard_answer *a;
};

static void shard_view_put_bytes(lk_table *table, double bytes) {
	char text[32];
	lk_table_number(table, bytes, lk_format_bytes(bytes, text, sizeof text));
}

static void shard_view_put_count(lk_table *table, double count) {
	char text[32];
	lk_table_number(table, count, lk_format_thousands(count, text, sizeof text));
}

static void shard_view_put_fixed(lk_table *table, double number, int places) {
	char text[32];
	lk_table_number(table, number,
	                isnan(number) ? NULL : lk_fixed(number, places, text, sizeof text));
}

/* ---- tables ---- */

static lk_table *ranks(const lk_shard_answer *answer) {
	static const lk_column columns[] = {
		{"rank", "rank", true, false},
		{"pieces", "pieces", true, false},
		{"device_bytes", "device", true, false},
		{"host_bytes", "host", true, false},
		{"forward_s", "lookups", true, false},
		{"backward_s", "backward", true, false},
		{"columns", "columns sent", true, false},
		{"exchange_s", "exchange", true, false},
	};
	lk_table *table = lk_table_new("ranks", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < answer->rank_count; i++) {
		const lk_shard_rank *rank = &answer->ranks[i];
		lk_table_row(table);
		lk_table_number(table, rank->rank, NULL);
		lk_table_number(table, rank->pieces, NULL);
		shard_view_put_bytes(table, rank->device_bytes);
		shard_view_put_bytes(table, rank->host_bytes);
		lk_put_seconds(table, rank->forward_s);
		lk_put_seconds(table, rank->backward_s);
		shard_view_put_count(table, rank->columns);
		lk_put_seconds(table, rank->exchange_s);
	}
	return table;
}

static lk_table *shard_view_pieces(const lk_shard_answer *answer) {
	static const lk_column columns[] = {
		{"table", "table", false, false},      {"kind", "kind", false, false},
		{"memory", "memory", false, false},    {"rank", "rank", true, false},
		{"part", "part", true, false},         {"parts", "of", true, false},
		{"rows", "rows", true, false},         {"dim", "dim", true, false},
		{"pooling", "pooling", true, false},   {"bytes", "bytes", true, false},
		{"forward_s", "lookups", true, false}, {"backward_s", "backward", true, false},
	};
	lk_table *table = lk_table_new("pieces", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < answer->piece_count; i++) {
		const lk_shard_placed *placed = &answer->pieces[i];
		lk_table_row(table);
		lk_table_text(table, placed->name);
		lk_table_text(table, placed->kind);
		lk_table_text(table, placed->where);
		if (placed->rank < 0) lk_table_number(table, -1, "all");
		else lk_table_number(table, placed->rank, NULL);
		lk_table_number(table, placed->part, NULL);
		lk_table_number(table, placed->parts, NULL);
		shard_view_put_count(table, placed->rows);
		lk_table_number(table, placed->dim, NULL);
		shard_view_put_fixed(table, placed->pooling, 2);
		shard_view_put_bytes(table, placed->bytes);
		lk_put_seconds(table, placed->forward_s);
		lk_put_seconds(table, placed->backward_s);
	}
	return table;
}

static lk_table *sharders(const lk_shard_answer *answer) {
	static const lk_column columns[] = {
		{"sharder", "sharder", false, false},
		{"step_s", "step", true, false},
		{"over_best", "over best", true, false},
		{"imbalance", "imbalance", true, false},
		{"reason", "", false, false},
	};
	lk_table *table = lk_table_new("sharders", columns, (int)(sizeof columns / sizeof *columns));
	double best = INFINITY;
	for (int i = 0; i < answer->tried_count; i++)
		best = fmin(best, isnan(answer->tried[i].step_s) ? INFINITY : answer->tried[i].step_s);
	for (int i = 0; table && i < answer->tried_count; i++) {
		const lk_shard_tried *tried = &answer->tried[i];
		char over[32];
		lk_table_row(table);
		lk_table_text(table, tried->name);
		lk_put_seconds(table, tried->step_s);
		double ratio = tried->step_s / best - 1;
		lk_table_number(table, ratio, isnan(ratio) ? NULL : lk_percent(ratio, over, sizeof over));
		shard_view_put_fixed(table, tried->imbalance, 3);
		lk_table_text(table, tried->reason);
	}
	return table;
}

lk_table *lk_shard_table(const lk_shard_answer *answer, int which) {
	if (which == LK_SHARD_RANKS) return ranks(answer);
	if (which == LK_SHARD_TRIED) return sharders(answer);
	return shard_view_pieces(answer);
}

/* ---- text ---- */

static lk_status shard_view_put_table(lk_table *table, lk_format format, bool colour, FILE *out,
                                      lk_error *err) {
	if (!table) return lk_oom(err);
	lk_table_hide_empty(table);
	lk_status status = lk_table_write(table, format, colour, out, err);
	lk_table_free(table);
	return status;
}

static lk_status shard_view_put_line(const char *line, FILE *out, lk_error *err) {
	LK_TRY(lk_put_wrapped(line, 2, 0, out, err));
	fputc('\n', out);
	return LK_OK;
}

static lk_status shard_view_put_verdict(const lk_shard_answer *answer, bool colour, FILE *out,
                                        lk_error *err) {
	char bytes[32], capacity[32], step[32], placed[32], bound[32], gap[32], imbalance[32];
	char line[600];
	const char *bold = colour ? "\x1b[1m" : "", *plain = colour ? "\x1b[0m" : "";
	if (!answer->fits) {
		fprintf(out, "%sDOES NOT FIT%s  ", bold, plain);
		LK_TRY(lk_put_wrapped(answer->reason, 2, 14, out, err));
		fputc('\n', out);
		return LK_OK;
	}
	fprintf(out, "%sFITS%s  %d %s, %s with optimizer states, on %d %s of %s for tables\n", bold,
	        plain, answer->tables, lk_noun(answer->tables, "table", "tables"),
	        lk_format_bytes(answer->table_bytes, bytes, sizeof bytes), answer->rank_count,
	        lk_noun(answer->rank_count, "rank", "ranks"),
	        lk_format_bytes(answer->capacity_bytes, capacity, sizeof capacity));
	if (answer->model) {
		snprintf(line, sizeof line, "training step %s: %s",
		         lk_format_seconds(answer->step_s, step, sizeof step), answer->model);
		LK_TRY(shard_view_put_line(line, out, err));
	}
	snprintf(line, sizeof line, "%s %s by %s: no placement takes less than %s, %s more here",
	         answer->model ? "its parts, one after another," : "embedding step",
	         lk_format_seconds(answer->placed_s, placed, sizeof placed), answer->sharder,
	         lk_format_seconds(answer->bound_s, bound, sizeof bound),
	         lk_percent(answer->gap, gap, sizeof gap));
	LK_TRY(shard_view_put_line(line, out, err));
	fprintf(out, "imbalance of lookups %s (slowest over mean)\n",
	        lk_fixed(answer->imbalance, 3, imbalance, sizeof imbalance));
	lk_put_cut_off(answer->cut_off, out);
	return LK_OK;
}

static void shard_view_put_parts(const lk_shard_answer *answer, FILE *out) {
	const struct {
		const char *name;
		double seconds;
	} parts[] = {{"indices", answer->index_s},
	             {"lookups", answer->forward_s},
	             {"sums", answer->exchange_s},
	             {"dense", answer->dense_s},
	             {"gradients of sums", answer->exchange_s},
	             {"lookups backward", answer->backward_s},
	             {"gradients of copies", answer->reduce_s}};
	int column = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char time[32], part[80];
		if (!(parts[i].seconds > 0)) continue;
		int length = snprintf(part, sizeof part, "%s %s", parts[i].name,
		                      lk_format_seconds(parts[i].seconds, time, sizeof time));
		if (column + 3 + length > LK_PAGE) column = fprintf(out, " |\n  ") - 3;
		else if (column) column += fprintf(out, " | ");
		column += fprintf(out, "%s", part);
	}
	fputs("\n\n", out);
}

static lk_status shard_view_put_kinds(const lk_shard_answer *answer, FILE *out, lk_error *err) {
	char line[600];
	lk_text all = lk_text_begin(line, sizeof line);
	static const char *const kinds[] = {"table", "column", "row", "data"}, *const words[] = {
																			   "whole",
																			   "by columns",
																			   "by rows", "copied"};
	int host = 0, most = 0;
	const char *between = "";
	for (int k = 0; k < 4; k++) {
		int tables = 0;
		for (int i = 0; i < answer->piece_count; i++)
			tables += answer->pieces[i].part == 0 && strcmp(answer->pieces[i].kind, kinds[k]) == 0;
		if (tables) {
			lk_text_add(&all, "%s%d %s", between, tables, words[k]);
			between = ", ";
		}
	}
	for (int i = 0; i < answer->piece_count; i++) {
		host += strcmp(answer->pieces[i].where, "host") == 0;
		if (answer->pieces[i].forward_s + answer->pieces[i].backward_s >
		    answer->pieces[most].forward_s + answer->pieces[most].backward_s)
			most = i;
	}
	if (host) lk_text_add(&all, "; %d %s in host memory", host, lk_noun(host, "piece", "pieces"));
	if (answer->piece_count) {
		const lk_shard_placed *placed = &answer->pieces[most];
		char rows[32], work[32];
		lk_text_add(&all, "; the longest piece: %s, %s, %s rows of %.0f, %s", placed->name,
		            placed->kind, lk_format_count(placed->rows, rows, sizeof rows), placed->dim,
		            lk_format_seconds(placed->forward_s + placed->backward_s, work, sizeof work));
	}
	return *line ? shard_view_put_line(line, out, err) : LK_OK;
}

static lk_status shard_view_write_report(const lk_shard_answer *answer, lk_format format,
                                         bool colour, FILE *out, lk_error *err) {
	LK_TRY(shard_view_put_verdict(answer, colour, out, err));
	if (answer->fits) {
		shard_view_put_parts(answer, out);
		LK_TRY(shard_view_put_table(ranks(answer), format, colour, out, err));
		fputc('\n', out);
		LK_TRY(shard_view_put_kinds(answer, out, err));
	}
	fputc('\n', out);
	LK_TRY(shard_view_put_table(sharders(answer), format, colour, out, err));
	fputs("\nbasis: ", out);
	LK_TRY(lk_put_wrapped(answer->basis, 7, 7, out, err));
	fputs("\nreproduce: ", out);
	LK_TRY(lk_put_safe(answer->reproduce, out, err));
	fputc('\n', out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

static lk_status shard_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	return shard_view_write_report(((const struct asked *)what)->a, LK_FORMAT_TEXT, colour, out,
	                               err);
}

static lk_status shard_view_write_markdown(const void *what, bool colour, FILE *out,
                                           lk_error *err) {
	(void)colour;
	return shard_view_write_report(((const struct asked *)what)->a, LK_FORMAT_MD, false, out, err);
}

/* ---- JSON ---- */

static void shard_view_put_numbers(lk_json_writer *writer, const lk_shard_answer *answer) {
	const struct {
		const char *key;
		double value;
	} numbers[] = {{"step_s", answer->step_s},       {"placed_s", answer->placed_s},
	               {"bound_s", answer->bound_s},     {"gap", answer->gap},
	               {"imbalance", answer->imbalance}, {"index_s", answer->index_s},
	               {"forward_s", answer->forward_s}, {"exchange_s", answer->exchange_s},
	               {"dense_s", answer->dense_s},     {"backward_s", answer->backward_s},
	               {"reduce_s", answer->reduce_s}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (answer->fits) lk_json_put_number(writer, numbers[i].key, numbers[i].value);
		else lk_json_put_null(writer, numbers[i].key);
	}
	lk_json_put_number(writer, "batch", answer->batch);
	lk_json_put_integer(writer, "tables", answer->tables);
	lk_json_put_number(writer, "table_bytes", answer->table_bytes);
	lk_json_put_number(writer, "capacity_bytes", answer->capacity_bytes);
	lk_json_put_number(writer, "host_capacity_bytes", answer->host_capacity_bytes);
}

static lk_status shard_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_shard_answer *answer = ((const struct asked *)what)->a;
	static const char *const keys[] = {NULL, "ranks", "pieces", "sharders"};
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/shard/1", answer->failed_check);
	lk_json_put_bool(&w, "fits", answer->fits);
	lk_json_put_text(&w, "reason", answer->reason);
	lk_json_put_text(&w, "sharder", answer->sharder);
	lk_json_put_text(&w, "cut_off", answer->cut_off);
	shard_view_put_numbers(&w, answer);
	for (int i = LK_SHARD_RANKS; i < LK_SHARD_TABLES; i++) {
		lk_table *table = lk_shard_table(answer, i);
		if (!table) return lk_oom(err);
		lk_json_put_table(&w, keys[i], table);
		lk_table_free(table);
	}
	lk_json_put_text(&w, "model", answer->model);
	lk_json_put_text(&w, "cluster", answer->cluster);
	lk_json_put_text(&w, "basis", answer->basis);
	lk_json_put_text(&w, "reproduce", answer->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_shard_print(const lk_shard_answer *answer, int table, int format, bool colour,
                         const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {answer};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_SHARD_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "unknown table %d", table);
	if (table == LK_SHARD_PLAN && format == LK_FORMAT_TEXT)
		return lk_write_through(&w, shard_view_write_text, &a, err);
	if (table == LK_SHARD_PLAN && format == LK_FORMAT_MD)
		return lk_write_through(&w, shard_view_write_markdown, &a, err);
	if (table == LK_SHARD_PLAN && format == LK_FORMAT_JSON)
		return lk_write_through(&w, shard_view_write_json, &a, err);
	return lk_write_table(&w, lk_table_mark(lk_shard_table(answer, table), answer->failed_check),
	                      err);
}

/* ---- the plan file ---- */

/* TorchRec's names (torchrec.distributed.types.ShardingType,
 * embedding_types.EmbeddingComputeKernel). */
static const char *sharding_type(const char *kind) {
	static const char *const names[][2] = {{"table", "table_wise"},
	                                       {"column", "column_wise"},
	                                       {"row", "row_wise"},
	                                       {"data", "data_parallel"}};
	for (int i = 0; i < 4; i++)
		if (strcmp(kind, names[i][0]) == 0) return names[i][1];
	return kind;
}

static const char *compute_kernel(const lk_shard_placed *placed) {
	if (strcmp(placed->kind, "data") == 0) return "dense";
	return strcmp(placed->where, "host") == 0 ? "fused_uvm_caching" : "fused";
}

static void put_shard(lk_json_writer *writer, const lk_shard_placed *placed, double row,
                      double column) {
	char place[32];
	lk_json_object(writer, NULL);
	lk_json_array(writer, "shard_offsets");
	lk_json_put_number(writer, NULL, row);
	lk_json_put_number(writer, NULL, column);
	lk_json_array_end(writer);
	lk_json_array(writer, "shard_sizes");
	lk_json_put_number(writer, NULL, placed->rows);
	lk_json_put_number(writer, NULL, placed->dim);
	lk_json_array_end(writer);
	snprintf(place, sizeof place, "rank:%d/cuda:%d", placed->rank, placed->rank);
	lk_json_put_text(writer, "placement", place);
	lk_json_object_end(writer);
}

/* Parts of a table are in order, one after the other. */
static void shard_view_put_entry(lk_json_writer *writer, const lk_shard_answer *answer, int first) {
	const lk_shard_placed *placed = &answer->pieces[first];
	double row = 0, column = 0;
	lk_json_object(writer, placed->name);
	lk_json_put_text(writer, "sharding_type", sharding_type(placed->kind));
	lk_json_put_text(writer, "compute_kernel", compute_kernel(placed));
	lk_json_array(writer, "ranks");
	for (int i = 0; placed->rank < 0 && i < answer->rank_count; i++)
		lk_json_put_integer(writer, NULL, i);
	for (int i = 0; placed->rank >= 0 && i < placed->parts; i++)
		lk_json_put_integer(writer, NULL, placed[i].rank);
	lk_json_array_end(writer);
	if (placed->rank < 0) {
		lk_json_put_null(writer, "sharding_spec");
	} else {
		lk_json_object(writer, "sharding_spec");
		lk_json_array(writer, "shards");
		for (int i = 0; i < placed->parts; i++) {
			put_shard(writer, &placed[i], row, column);
			if (strcmp(placed->kind, "row") == 0) row += placed[i].rows;
			else column += placed[i].dim;
		}
		lk_json_array_end(writer);
		lk_json_object_end(writer);
	}
	lk_json_object_end(writer);
}

static lk_status shard_view_write_plan(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_shard_answer *answer = ((const struct asked *)what)->a;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_form_put(&w, LK_FORM_PLACEMENT);
	for (int i = 0; i < answer->piece_count; i += answer->pieces[i].parts)
		shard_view_put_entry(&w, answer, i);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_shard_write_plan(const lk_shard_answer *answer, const char *path, lk_error *err) {
	lk_writing w = {LK_FORMAT_JSON, false, false, path, NULL};
	struct asked a = {answer};
	if (!answer->fits) return lk_fail(err, LK_ERR_INPUT, path, "no placement to write");
	return lk_write_through(&w, shard_view_write_plan, &a, err);
}
