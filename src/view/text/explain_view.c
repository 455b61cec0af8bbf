/* explain_view.c: an explanation in every format. */
#include "base/check.h"
#include "view/text/views.h"

/* The part of an explanation that is written. */
struct asked {
	const lk_explanation *x;
	int table;
};

static lk_status explain_view_write_report(const void *what, bool colour, FILE *out,
                                           lk_error *err) {
	const struct asked *asked = what;
	return lk_explain_report(asked->x, colour, out, err);
}

/* ---- fields ---- */

#define EXPLAINED(member) LK_AT(lk_explanation, member)

static const lk_answer_field critical_fields[] = {
	{"kind", NULL, LK_AT(lk_critical_part, kind)},
	{"seconds", NULL, LK_AT(lk_critical_part, seconds)},
};
static const lk_answer_record critical_record = {
	.python = "CriticalPart",
	.what = "A share of the chain of work that determines the step's time.",
	LK_RECORD(lk_critical_part, critical_fields)};

static const lk_answer_field action_fields[] = {
	{"stall", NULL, LK_AT(lk_explain_stall, kind)},
	{"what", NULL, LK_AT(lk_explain_stall, what)},
	{"lost_s", NULL, LK_AT(lk_explain_stall, lost_s)},
	{"gain_s", NULL, LK_AT(lk_explain_stall, gain_s), .known = LK_MAYBE},
	{"most_s", NULL, LK_AT(lk_explain_stall, most_s)},
	{"adds_s", NULL, LK_AT(lk_explain_stall, adds_s)},
	{"change", NULL, LK_AT(lk_explain_stall, change)},
	{"how", NULL, LK_AT(lk_explain_stall, remedy)},
};
static const lk_answer_record action_record = {
	.python = "Action",
	.what =
		"A remedy for a stall: what it gains a step in the simulation with the change of whatif "
		"(None: that cannot be simulated, and it gains most_s at most), what it adds to the gains "
		"of "
		"cheaper ones (0 of work done once), and how.",
	LK_RECORD(lk_explain_stall, action_fields)};

static void put_actions(lk_json_writer *writer, const lk_subject *subject) {
	const lk_explanation *explanation = subject->answer;
	for (int i = 0; i < explanation->action_count; i++) {
		LK_ASSERT(explanation->actions[i] >= 0 &&
		          explanation->actions[i] < explanation->stall_count);
		const lk_explain_stall *stall = &explanation->stalls[explanation->actions[i]];
		lk_json_object(writer, NULL);
		lk_json_put_fields(writer, &action_record, &(lk_subject){explanation, stall, i, NULL});
		lk_json_object_end(writer);
	}
}

static lk_table *explain_rows(const void *answer, int which) {
	return lk_explain_table(answer, which, false);
}

#define ROWS(number) .kind = LK_FIELD_ROWS, .rows = explain_rows, .which = LK_EXPLAIN_##number

static const lk_answer_field explanation_fields[] = {
	{"ranks", NULL, EXPLAINED(rank_count)},
	{"world_size", NULL, EXPLAINED(world), .known = LK_UNLESS_ZERO},
	{"step_count", NULL, EXPLAINED(step_count)},
	{"steps_annotated", NULL, EXPLAINED(annotated)},
	{"step_s", NULL, EXPLAINED(step_s), .known = LK_MAYBE},
	{"step_deviation_s", NULL, EXPLAINED(step_deviation_s), .known = LK_MAYBE},
	{"lost_steps", NULL, EXPLAINED(lost_steps)},
	{"kernel_count", NULL, EXPLAINED(kernels), .type = "num"},
	{"clock_anchors", NULL, EXPLAINED(anchors)},
	{"clock_residual_max_s", NULL, EXPLAINED(residual_max_s), .known = LK_MAYBE},
	{"kernel_roof", NULL, EXPLAINED(kernel_roof), .known = LK_MAYBE},
	{LK_INSIDE(lk_explanation, energy, lk_energy_record)},
	{"stalls", NULL, ROWS(STALLS), .of = &lk_stall_record},
	{"breakdown", NULL, ROWS(BREAKDOWN)},
	{"steps", NULL, ROWS(STEPS)},
	{"overlap", NULL, ROWS(OVERLAP)},
	{"communication", NULL, ROWS(COMMUNICATION)},
	{"stragglers", NULL, ROWS(STRAGGLERS)},
	{"stretches", NULL, ROWS(STRETCHES)},
	{"idle", NULL, ROWS(IDLE)},
	{"kernels", NULL, ROWS(KERNELS)},
	{"queue", NULL, ROWS(QUEUE)},
	{"launches", NULL, ROWS(LAUNCHES)},
	{"roofline", NULL, ROWS(ROOFLINE)},
	{"modules", NULL, ROWS(MODULES)},
	{"critical_path", NULL,
     LK_MANY(lk_explanation, critical.parts, critical.part_count, critical_record)},
	{"critical_step", NULL, EXPLAINED(critical.step), LK_IF(lk_explanation, critical.part_count)},
	{"critical_step_s", NULL, EXPLAINED(critical.step_s),
     LK_IF(lk_explanation, critical.part_count)},
	{"versus", NULL, LK_ONE(lk_explanation, versus, lk_versus_record), .known = LK_MAYBE},
	{"diagnosis", NULL, EXPLAINED(diagnosis)},
	{"actions", NULL, LK_FIELD_MANY, .of = &action_record, .put = put_actions},
	{"caveat_count", NULL, EXPLAINED(caveat_count)},
	{"warnings", NULL, LK_LIST(lk_explanation, warnings, warning_count)},
	{"reproduce", NULL, EXPLAINED(reproduce)},
};
static const lk_answer_record explanation_record = {
	.python = "Explanation",
	.what =
		"Why a run is as slow as it is. The tables have the columns of `lockstep explain -o csv`.",
	LK_RECORD(lk_explanation, explanation_fields)};
const lk_document lk_explain_document = {
	"explain", "`explain -o json`; times of tables in nanoseconds", &explanation_record,
	offsetof(lk_explanation, failed_check), NULL};

/* ---- several tables ---- */

static lk_status explain_view_write_markdown(const void *what, bool colour, FILE *out,
                                             lk_error *err) {
	const struct asked *asked = what;
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++) {
		lk_table *table = lk_explain_table(asked->x, i, true);
		if (!table) return lk_oom(err);
		lk_status status = LK_OK;
		if (lk_table_shows(table)) {
			fprintf(out, "## %s\n\n", lk_explain_tables[i]);
			status = lk_table_write(table, LK_FORMAT_MD, colour, out, err);
			fputc('\n', out);
		}
		lk_table_free(table);
		LK_TRY(status);
	}
	return LK_OK;
}

static lk_status write_sqlite(const lk_writing *writing, const struct asked *asked, lk_error *err) {
	lk_table *tables[LK_EXPLAIN_TABLES];
	int count = 0;
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++)
		if (asked->table == LK_EXPLAIN_ALL || asked->table == i)
			tables[count++] = lk_explain_table(asked->x, i, false);
	return lk_write_database(writing, tables, count, err);
}

lk_status lk_explain_print(const lk_explanation *explanation, int format, int table, bool colour,
                           const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {explanation, table};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_EXPLAIN_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "unknown table %d", table);
	if (format == LK_FORMAT_JSON)
		return lk_write_document_part(&w, &lk_explain_document, explanation, table, err);
	if (format == LK_FORMAT_SQLITE) return write_sqlite(&w, &a, err);
	if (table == LK_EXPLAIN_ALL && format == LK_FORMAT_TEXT)
		return lk_write_through(&w, explain_view_write_report, &a, err);
	if (table == LK_EXPLAIN_ALL && format == LK_FORMAT_MD)
		return lk_write_through(&w, explain_view_write_markdown, &a, err);
	/* People get the top; programs get everything. */
	bool people = format == LK_FORMAT_TEXT || format == LK_FORMAT_MD;
	int which = table == LK_EXPLAIN_ALL ? LK_EXPLAIN_BREAKDOWN : table;
	return lk_write_table(
		&w, lk_table_mark(lk_explain_table(explanation, which, people), explanation->failed_check),
		err);
}
