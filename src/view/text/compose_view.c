/* compose_view.c: a composed job as text, a table of its classes of ranks, or JSON. */
#include "lockstep/compose.h"

#include <math.h>

#include "base/text.h"
#include "base/noun.h"
#include "view/table/output.h"
#include "view/text/views.h"

struct shown {
	const lk_composed *composed;
	bool verbose;
};

/* ---- table ---- */

#define CLASS(member)    LK_AT(lk_compose_class, member)
#define COMPOSED(member) LK_AT(lk_composed, member)
#define PART(member)     LK_AT(lk_compose_parts, member)

static const lk_answer_field part_fields[] = {
	{"device_s", NULL, PART(device)}, {"own_s", NULL, PART(own)},
	{"files_s", NULL, PART(files)},   {"transfer_s", NULL, PART(transfer)},
	{"wait_s", NULL, PART(wait)},
};
static const lk_answer_record part_record = {.name = "Parts",
                                             LK_RECORD(lk_compose_parts, part_fields)};

static const lk_answer_field class_fields[] = {
	{"rank", "rank", CLASS(rank)},
	{"path", "path", CLASS(path), .hidden = true},
	{"ranks", "stands for", CLASS(ranks)},
	{"stands_for", "ranks", CLASS(stands_for), .known = LK_MAYBE},
	{"steps", "steps", CLASS(steps)},
	{"unlike", NULL, CLASS(unlike)},
	{"calls", "calls", CLASS(calls)},
	{"bytes", "bytes", CLASS(bytes), .shown = lk_format_bytes},
	{"own_s", "own work", CLASS(own_s), .shown = lk_format_seconds},
	{"own_low_s", "10 %", CLASS(own_low_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"own_high_s", "90 %", CLASS(own_high_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"asleep_s", "asleep", CLASS(asleep_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"device_s", "device", CLASS(device_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"device_low_s", NULL, CLASS(device_low_s), .known = LK_MAYBE},
	{"device_high_s", NULL, CLASS(device_high_s), .known = LK_MAYBE},
	{"beside_s", NULL, CLASS(beside_s), .known = LK_MAYBE},
	{"parts", NULL, LK_INSIDE(lk_compose_class, parts, part_record)},
	{"transfer_s", "transfer", CLASS(parts.transfer), .column = true, .shown = lk_format_seconds},
	{"wait_s", "waiting", CLASS(parts.wait), .column = true, .shown = lk_format_seconds},
};
static const lk_answer_record class_record = {LK_RECORD(lk_compose_class, class_fields)};

static const lk_answer_field composed_fields[] = {
	{"program", NULL, COMPOSED(program), .known = LK_MAYBE},
	{"cluster", NULL, COMPOSED(cluster)},
	{"world", NULL, COMPOSED(world)},
	{"nodes", NULL, COMPOSED(nodes)},
	{"ranks_per_node", NULL, COMPOSED(ranks_per_node)},
	{"step_s", NULL, COMPOSED(step_s)},
	{"step_low_s", NULL, COMPOSED(low_s)},
	{"step_high_s", NULL, COMPOSED(high_s)},
	{"first_step_s", NULL, COMPOSED(first_s), .known = LK_MAYBE},
	{"parts", NULL, LK_INSIDE(lk_composed, parts, part_record)},
	{"classes", NULL, LK_MANY(lk_composed, classes, class_count, class_record)},
	{"operations", NULL, COMPOSED(operations)},
	{"messages_measured", NULL, COMPOSED(messages)},
	{"notes", NULL, LK_LIST(lk_composed, notes, note_count)},
};
static const lk_answer_record composed_record = {LK_RECORD(lk_composed, composed_fields)};
const lk_document lk_compose_document = {"compose", "`compose -o json`", &composed_record,
                                         offsetof(lk_composed, failed_check), NULL};

static lk_table *compose_view_table_of(const lk_composed *composed) {
	static const char *const keys[] = {"rank",       "ranks",    "stands_for", "steps",
	                                   "calls",      "bytes",    "own_s",      "own_low_s",
	                                   "own_high_s", "asleep_s", "device_s",   "transfer_s",
	                                   "wait_s",     "path",     NULL};
	static const lk_columns columns = {"compose", &class_record, .keys = keys};
	return lk_fields_rows(&columns, composed, composed->classes, composed->class_count);
}

/* ---- text ---- */

static void compose_view_put_part(const char *name, double seconds, double step, FILE *out) {
	char time[32], share[48];
	fprintf(out, "  %-18s %10s  %8s\n", name, lk_format_seconds(seconds, time, sizeof time),
	        lk_percent(step > 0 ? seconds / step : 0, share, sizeof share));
}

static void put_answer(const lk_composed *composed, FILE *out) {
	char step[32], low[32], high[32], first[32];
	fprintf(out, "%d %s on %d %s, from recordings of %d\n\n", composed->world,
	        lk_noun(composed->world, "rank", "ranks"), composed->nodes,
	        lk_noun(composed->nodes, "node", "nodes"), composed->class_count);
	fprintf(out, "step     %s   (%s to %s)\n",
	        lk_format_seconds(composed->step_s, step, sizeof step),
	        lk_format_seconds(composed->low_s, low, sizeof low),
	        lk_format_seconds(composed->high_s, high, sizeof high));
	fprintf(out, "first    %s   from idle ranks\n\n",
	        lk_format_seconds(composed->first_s, first, sizeof first));
	fputs("a rank's step, mean\n", out);
	if (composed->parts.device > 0)
		compose_view_put_part("device", composed->parts.device, composed->step_s, out);
	compose_view_put_part("own work", composed->parts.own, composed->step_s, out);
	compose_view_put_part("files", composed->parts.files, composed->step_s, out);
	compose_view_put_part("transfer", composed->parts.transfer, composed->step_s, out);
	compose_view_put_part("waiting", composed->parts.wait, composed->step_s, out);
	fputc('\n', out);
}

static lk_status compose_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	static const char *const extras[] = {"asleep_s",   "device_s", "steps", "own_low_s",
	                                     "own_high_s", "calls",    "bytes", NULL};
	const struct shown *shown = what;
	const lk_composed *composed = shown->composed;
	put_answer(composed, out);
	LK_TRY(lk_put_fitted(compose_view_table_of(composed), extras, shown->verbose ? NULL : "-o csv",
	                     colour, out, err));
	if (composed->note_count) fputs("\nnotes\n", out);
	for (int i = 0; i < composed->note_count; i++) {
		fputs("  ", out);
		LK_TRY(lk_put_wrapped(composed->notes[i], 2, 2, out, err));
		fputc('\n', out);
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

lk_status lk_compose_print(const lk_composed *composed, int format, bool verbose, bool colour,
                           const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct shown s = {composed, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, compose_view_write_text, &s, err);
	if (format == LK_FORMAT_JSON) return lk_write_document(&w, &lk_compose_document, composed, err);
	return lk_write_table(&w, compose_view_table_of(composed), err);
}
