/* collective_view.c: a collective by size: as nccl-tests print it, or as a table. The text begins
 * its lines of prose with
 * '#', as theirs does. */
#include "lockstep/collective.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "lockstep/catalogue.h"
#include "base/noun.h"
#include "view/table/fields.h"

/* ---- text ---- */

static void collective_view_put_real(double value, int width, FILE *out) {
	if (isnan(value)) fprintf(out, " %*s", width, "-");
	else fprintf(out, value >= 1000 ? " %*.0f" : " %*.2f", width, value);
}

static void collective_view_put_heading(const lk_collective *collective, FILE *out) {
	fprintf(out, "\n#\n# %12s %13s %8s %6s | %10s %8s %8s  %-9s %-6s %3s %-8s %10s %10s", "size",
	        "count", "type", "redop", "time", "algbw", "busbw", "algo", "proto", "ch", "limit",
	        "low", "high");
	if (collective->log) fprintf(out, " | %10s %8s %7s flag", "measured", "busbw", "ratio");
	fprintf(out, "\n# %12s %13s %8s %6s | %10s %8s %8s  %-9s %-6s %3s %-8s %10s %10s", "(B)",
	        "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "", "", "", "(us)", "(us)");
	if (collective->log) fprintf(out, " | %10s %8s %7s", "(us)", "(GB/s)", "");
	fputc('\n', out);
}

static bool collective_view_reduces(const char *op) {
	return strncmp(op, "all_reduce", 10) == 0 || strncmp(op, "reduce", 6) == 0;
}

static void collective_view_put_row(const lk_collective *collective, const lk_collective_row *row,
                                    FILE *out) {
	fprintf(out, "  %12.0f %13.0f %8s %6s |", row->bytes, row->count, "float",
	        collective_view_reduces(collective->op) ? "sum" : "none");
	collective_view_put_real(row->us, 10, out);
	collective_view_put_real(row->algbw, 8, out);
	collective_view_put_real(row->busbw, 8, out);
	fprintf(out, "  %-9.20s %-6s", row->algo, row->proto);
	if (row->channels) fprintf(out, " %3d", row->channels);
	else fprintf(out, " %3s", "");
	fprintf(out, " %-8s", row->limit);
	collective_view_put_real(row->low_us, 10, out);
	collective_view_put_real(row->high_us, 10, out);
	if (collective->log) {
		fputs(" |", out);
		collective_view_put_real(row->measured_us, 10, out);
		collective_view_put_real(row->measured_busbw, 8, out);
		collective_view_put_real(row->ratio, 7, out);
		fprintf(out, " %s", row->flag);
	}
	fputc('\n', out);
}

static lk_status collective_view_write_text(const void *what, bool colour, FILE *out,
                                            lk_error *err) {
	const lk_collective *collective = what;
	(void)colour;
	fprintf(out, "# lockstep collective: %s, %s, %d %s on %d %s\n# cluster: ", collective->op,
	        collective->library, collective->gpus, lk_noun(collective->gpus, "rank", "ranks"),
	        collective->nodes, lk_noun(collective->nodes, "node", "nodes"));
	LK_TRY(lk_put_safe(collective->cluster, out, err));
	collective_view_put_heading(collective, out);
	for (int i = 0; i < collective->row_count; i++)
		collective_view_put_row(collective, &collective->rows[i], out);
	fprintf(out, "# Avg bus bandwidth    : %.4f\n", collective->mean_busbw);
	if (collective->log)
		fprintf(out, "# measured against it  : %.1f %% off (exp(mean |ln ratio|) - 1)\n",
		        100 * collective->error);
	for (int i = 0; i < collective->note_count; i++) {
		fputs("# ", out);
		LK_TRY(lk_put_safe(collective->notes[i], out, err));
		fputc('\n', out);
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* ---- the log of nccl-tests (NVIDIA/nccl-tests@0fdb00a, src/util.cu) ---- */

/* A number in a column: two decimals while they fit, then one, none, an exponent. */
static void tests_put_real(double value, int width, FILE *out) {
	int power = 0, places;
	for (double bound = 1; value >= bound && power < 40; bound *= 10) power++;
	if (power < width - 2) places = 2;
	else if (power < width - 1) places = 1;
	else places = 0;
	if (power < width + 1) fprintf(out, "  %*.*f", width, places, value);
	else fprintf(out, "  %*.*e", width, width >= 7, value);
}

/* What a test prints of a collective: its program, the operation, the root, and whether a count is
 * a rank's share of the size. */
static const struct test {
	const char *op, *program, *redop, *root;
	bool shares;
} tests[] = {
	{"all_reduce", "all_reduce_perf", "sum", "-1", false},
	{"all_gather", "all_gather_perf", "none", "-1", true},
	{"reduce_scatter", "reduce_scatter_perf", "sum", "-1", true},
	{"all_to_all", "alltoall_perf", "none", "-1", true},
	{"broadcast", "broadcast_perf", "none", "0", false},
	{"reduce", "reduce_perf", "sum", "0", false},
	{"send_recv", "sendrecv_perf", "sum", "-1", false},
};

static const struct test *test_of(const char *op) {
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (strcmp(tests[i].op, op) == 0) return &tests[i];
	return NULL;
}

static void tests_put_head(const lk_collective *collective, const struct test *test, FILE *out) {
	LK_ASSERT(collective->nodes > 0 && collective->gpus >= collective->nodes);
	int per_node = (collective->gpus + collective->nodes - 1) / collective->nodes;
	const lk_collective_row *rows = collective->rows;
	double least = 0, most = 0;
	if (collective->row_count > 0) {
		least = rows[0].bytes;
		most = rows[collective->row_count - 1].bytes;
	}
	fprintf(out,
	        "# lockstep %s: predicted, nothing was run\n"
	        "# Collective test starting: %s\n"
	        "# nThread 1 nGpus 1 minBytes %.0f maxBytes %.0f warmup iters: 0 iters: 0 agg iters: 1 "
	        "validation: 0 graph: 0\n#\n# Using devices\n",
	        lk_version(), test->program, least, most);
	for (int rank = 0; rank < collective->gpus; rank++)
		fprintf(out, "#  Rank %2d Group %2d Pid %6d on %6s%04d device %2d [0000:00:00] %s\n", rank,
		        0, 0, "node", rank / per_node, rank % per_node, collective->gpu);
	fprintf(out,
	        "#\n# %10s  %12s  %8s  %6s  %6s           out-of-place                       "
	        "in-place          \n",
	        "", "", "", "", "");
	static const char *const heads[][9] = {
		{"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"},
		{"(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", ""},
	};
	for (int i = 0; i < 2; i++) {
		fprintf(out, "# %10s  %12s  %8s  %6s  %6s", heads[i][0], heads[i][1], heads[i][2],
		        heads[i][3], heads[i][4]);
		for (int place = 0; place < 2; place++)
			fprintf(out, "  %7s  %6s  %6s  %6s", heads[i][5], heads[i][6], heads[i][7],
			        heads[i][8]);
		fputs(" \n", out); /* theirs has room for a time of day there */
	}
}

/* Both places take the predicted time; nothing was checked. */
static lk_status collective_view_write_tests(const void *what, bool colour, FILE *out,
                                             lk_error *err) {
	const lk_collective *collective = what;
	const struct test *test = test_of(collective->op);
	double sum = 0;
	(void)colour;
	LK_CHECK(test, err);
	tests_put_head(collective, test, out);
	for (int i = 0; i < collective->row_count; i++) {
		const lk_collective_row *row = &collective->rows[i];
		double bytes = row->count * 4 * (test->shares ? collective->gpus : 1);
		fprintf(out, "%12.0f  %12.0f  %8s  %6s  %6s", bytes, row->count, "float", test->redop,
		        test->root);
		for (int place = 0; place < 2; place++) {
			tests_put_real(row->us, 7, out);
			tests_put_real(row->algbw, 6, out);
			tests_put_real(row->busbw, 6, out);
			fputs("    N/A", out);
		}
		fputc('\n', out);
		sum += row->busbw;
	}
	fprintf(out, "# %-20s : %d %s\n# %-20s : %g \n#\n# Collective test concluded: %s\n",
	        "Out of bounds values", 0, "OK", "Avg bus bandwidth",
	        collective->row_count ? sum / collective->row_count : 0, test->program);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* ---- fields ---- */

#define ROW(member)    LK_AT(lk_collective_row, member)
#define ANSWER(member) LK_AT(lk_collective, member)

/* Fields of what a log measured. */
static bool has_log(const lk_subject *subject) {
	return ((const lk_collective *)subject->answer)->log;
}

static const lk_answer_field row_fields[] = {
	{"size_bytes", "size", ROW(bytes), .shown = lk_whole},
	{"count", "count", ROW(count), .shown = lk_whole},
	{"time_us", "time us", ROW(us), .shown = lk_hundredths},
	{"algbw_GBps", "algbw", ROW(algbw), .shown = lk_hundredths},
	{"busbw_GBps", "busbw", ROW(busbw), .shown = lk_hundredths},
	{"algo", "algo", ROW(algo), .known = LK_MAYBE},
	{"proto", "proto", ROW(proto), .known = LK_UNLESS_ZERO},
	{"channels", "channels", ROW(channels), .known = LK_UNLESS_ZERO},
	{"limit", "limit", ROW(limit), .known = LK_MAYBE},
	{"time_low_us", "low us", ROW(low_us), .known = LK_MAYBE, .shown = lk_hundredths},
	{"time_high_us", "high us", ROW(high_us), .known = LK_MAYBE, .shown = lk_hundredths},
	{"measured_us", "measured us", ROW(measured_us), .when = has_log, .shown = lk_hundredths},
	{"measured_busbw_GBps", "busbw", ROW(measured_busbw), .known = LK_MAYBE, .when = has_log,
     .shown = lk_hundredths},
	{"ratio", "ratio", ROW(ratio), .known = LK_MAYBE, .when = has_log, .shown = lk_hundredths},
	{"flag", "flag", ROW(flag), .known = LK_UNLESS_ZERO, .when = has_log},
};
static const lk_answer_record row_record = {LK_RECORD(lk_collective_row, row_fields)};

static const lk_answer_field answer_fields[] = {
	{"op", NULL, ANSWER(op)},
	{"library", NULL, ANSWER(library)},
	{"gpus", NULL, ANSWER(gpus)},
	{"nodes", NULL, ANSWER(nodes)},
	{"cluster", NULL, ANSWER(cluster)},
	{"fabric", NULL, ANSWER(fabric), .known = LK_MAYBE},
	{"mean_busbw_GBps", NULL, ANSWER(mean_busbw), .known = LK_MAYBE},
	{"error", NULL, ANSWER(error), .known = LK_MAYBE},
	{"notes", NULL, LK_LIST(lk_collective, notes, note_count)},
	{"rows", NULL, LK_MANY(lk_collective, rows, row_count, row_record)},
};
static const lk_answer_record answer_record = {LK_RECORD(lk_collective, answer_fields)};
const lk_document lk_collective_document = {"collective", "`collective -o json`", &answer_record,
                                            offsetof(lk_collective, failed_check), NULL};

static lk_table *collective_view_table_of(const lk_collective *collective) {
	static const char *const predicted[] = {
		"size_bytes", "count",    "time_us", "algbw_GBps",  "busbw_GBps",   "algo",
		"proto",      "channels", "limit",   "time_low_us", "time_high_us", NULL};
	static const lk_columns all = {"collective", &row_record, .keys = NULL},
							short_ones = {"collective", &row_record, .keys = predicted};
	return lk_fields_rows(collective->log ? &all : &short_ones, collective, collective->rows,
	                      collective->row_count);
}

lk_status lk_collective_print(const lk_collective *collective, int format, bool colour,
                              const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	if (format == LK_COLLECTIVE_NCCL_TESTS && strcmp(collective->library, "NCCL") != 0) {
		lk_fail(err, LK_ERR_INPUT, "--output", "nccl-tests run NCCL, not %s", collective->library);
		return lk_hint(err, "use --library nccl, or another format");
	}
	if (format == LK_COLLECTIVE_NCCL_TESTS)
		return lk_write_through(&w, collective_view_write_tests, collective, err);
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT)
		return lk_write_through(&w, collective_view_write_text, collective, err);
	if (format == LK_FORMAT_JSON)
		return lk_write_document(&w, &lk_collective_document, collective, err);
	return lk_write_table(&w, collective_view_table_of(collective), err);
}
