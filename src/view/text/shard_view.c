/* shard_view.c: placements in every format, and the plan file. */
#include <math.h>
#include <string.h>

#include "io/form.h"
#include "io/json.h"

#include "base/text.h"
#include "base/noun.h"
#include "lockstep/shard.h"
#include "view/text/views.h"
#include "view/table/fields.h"

struct asked {
	const lk_shard_answer *a;
};

/* ---- fields ---- */

#define RANK(member)   LK_AT(lk_shard_rank, member)
#define PIECE(member)  LK_AT(lk_shard_placed, member)
#define TRIED(member)  LK_AT(lk_shard_tried, member)
#define ANSWER(member) LK_AT(lk_shard_answer, member)

static const lk_answer_field rank_fields[] = {
	{"rank", "rank", RANK(rank)},
	{"pieces", "pieces", RANK(pieces)},
	{"device_bytes", "device", RANK(device_bytes), .shown = lk_format_bytes},
	{"host_bytes", "host", RANK(host_bytes), .shown = lk_format_bytes},
	{"forward_s", "lookups", RANK(forward_s), .shown = lk_format_seconds},
	{"backward_s", "backward", RANK(backward_s), .shown = lk_format_seconds},
	{"columns", "columns sent", RANK(columns), .shown = lk_format_thousands},
	{"exchange_s", "exchange", RANK(exchange_s), .shown = lk_format_seconds},
};
static const lk_answer_record rank_record = {LK_RECORD(lk_shard_rank, rank_fields)};

static void find_place(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_shard_placed *)subject->record)->rank;
	if (found->number >= 0) return;
	found->number = -1;
	lk_copy(found->shown, sizeof found->shown, "all");
}

static const lk_answer_field piece_fields[] = {
	{"table", "table", PIECE(name)},
	{"kind", "kind", PIECE(kind)},
	{"memory", "memory", PIECE(where)},
	{"rank", "rank", LK_FIELD_INT, .get = find_place},
	{"part", "part", PIECE(part)},
	{"parts", "of", PIECE(parts)},
	{"rows", "rows", PIECE(rows), .shown = lk_format_thousands},
	{"dim", "dim", PIECE(dim)},
	{"pooling", "pooling", PIECE(pooling), .shown = lk_hundredths},
	{"bytes", "bytes", PIECE(bytes), .shown = lk_format_bytes},
	{"forward_s", "lookups", PIECE(forward_s), .shown = lk_format_seconds},
	{"backward_s", "backward", PIECE(backward_s), .shown = lk_format_seconds},
};
static const lk_answer_record piece_record = {LK_RECORD(lk_shard_placed, piece_fields)};

/* Over the best of all sharders. */
static void find_over_best(const lk_subject *subject, lk_field_value *found) {
	const lk_shard_answer *answer = subject->answer;
	double best = INFINITY;
	for (int i = 0; i < answer->tried_count; i++)
		best = fmin(best, isnan(answer->tried[i].step_s) ? INFINITY : answer->tried[i].step_s);
	found->number = ((const lk_shard_tried *)subject->record)->step_s / best - 1;
}

static const lk_answer_field tried_fields[] = {
	{"sharder", "sharder", TRIED(name)},
	{"step_s", "step", TRIED(step_s), .shown = lk_format_seconds},
	{"over_best", "over best", LK_FIELD_REAL, .get = find_over_best, .shown = lk_percent},
	{"imbalance", "imbalance", TRIED(imbalance), .shown = lk_thousandths},
	{"reason", "", TRIED(reason)},
};
static const lk_answer_record tried_record = {LK_RECORD(lk_shard_tried, tried_fields)};

static lk_table *shard_rows(const void *answer, int which) {
	return lk_shard_table(answer, which);
}

static const lk_answer_field answer_fields[] = {
	{"fits", NULL, ANSWER(fits)},
	{"reason", NULL, ANSWER(reason), .known = LK_MAYBE},
	{"sharder", NULL, ANSWER(sharder), .known = LK_MAYBE},
	{"cut_off", NULL, ANSWER(cut_off), .known = LK_MAYBE},
	{"step_s", NULL, ANSWER(step_s), LK_IF(lk_shard_answer, fits)},
	{"placed_s", NULL, ANSWER(placed_s), LK_IF(lk_shard_answer, fits)},
	{"bound_s", NULL, ANSWER(bound_s), LK_IF(lk_shard_answer, fits)},
	{"gap", NULL, ANSWER(gap), LK_IF(lk_shard_answer, fits)},
	{"imbalance", NULL, ANSWER(imbalance), LK_IF(lk_shard_answer, fits)},
	{"index_s", NULL, ANSWER(index_s), LK_IF(lk_shard_answer, fits)},
	{"forward_s", NULL, ANSWER(forward_s), LK_IF(lk_shard_answer, fits)},
	{"exchange_s", NULL, ANSWER(exchange_s), LK_IF(lk_shard_answer, fits)},
	{"dense_s", NULL, ANSWER(dense_s), LK_IF(lk_shard_answer, fits)},
	{"backward_s", NULL, ANSWER(backward_s), LK_IF(lk_shard_answer, fits)},
	{"reduce_s", NULL, ANSWER(reduce_s), LK_IF(lk_shard_answer, fits)},
	{"batch", NULL, ANSWER(batch), .type = "int"},
	{"tables", NULL, ANSWER(tables)},
	{"table_bytes", NULL, ANSWER(table_bytes)},
	{"capacity_bytes", NULL, ANSWER(capacity_bytes)},
	{"host_capacity_bytes", NULL, ANSWER(host_capacity_bytes)},
	{"ranks", NULL, LK_FIELD_ROWS, .rows = shard_rows, .which = LK_SHARD_RANKS},
	{"pieces", NULL, LK_FIELD_ROWS, .rows = shard_rows, .which = LK_SHARD_PIECES},
	{"sharders", NULL, LK_FIELD_ROWS, .rows = shard_rows, .which = LK_SHARD_TRIED},
	{"model", NULL, ANSWER(model), .known = LK_MAYBE},
	{"cluster", NULL, ANSWER(cluster)},
	{"basis", NULL, ANSWER(basis), .known = LK_MAYBE},
	{"reproduce", NULL, ANSWER(reproduce)},
};
static const lk_answer_record answer_record = {
	.python = "Sharding",
	.what = "Which embedding table goes on which GPU. Tables: ranks, pieces, sharders.",
	LK_RECORD(lk_shard_answer, answer_fields)};
const lk_document lk_shard_document = {"shard", "`shard -o json`", &answer_record,
                                       offsetof(lk_shard_answer, failed_check), NULL};

/* ---- tables ---- */

lk_table *lk_shard_table(const lk_shard_answer *answer, int which) {
	static const lk_columns ranks = {"ranks", &rank_record, .keys = NULL},
							pieces = {"pieces", &piece_record, .keys = NULL},
							sharders = {"sharders", &tried_record, .keys = NULL};
	if (which == LK_SHARD_RANKS)
		return lk_fields_rows(&ranks, answer, answer->ranks, answer->rank_count);
	if (which == LK_SHARD_TRIED)
		return lk_fields_rows(&sharders, answer, answer->tried, answer->tried_count);
	return lk_fields_rows(&pieces, answer, answer->pieces, answer->piece_count);
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
	const char *bold = lk_bold(colour), *plain = lk_plain(colour);
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
		LK_TRY(
			shard_view_put_table(lk_shard_table(answer, LK_SHARD_RANKS), format, colour, out, err));
		fputc('\n', out);
		LK_TRY(shard_view_put_kinds(answer, out, err));
	}
	fputc('\n', out);
	LK_TRY(shard_view_put_table(lk_shard_table(answer, LK_SHARD_TRIED), format, colour, out, err));
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
		return lk_write_document(&w, &lk_shard_document, answer, err);
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
