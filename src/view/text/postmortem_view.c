/* postmortem_view.c: what is left of a run that died or hangs, in every format. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/noun.h"
#include "base/text.h"
#include "lockstep/postmortem.h"
#include "view/text/views.h"

/* ---- fields ---- */

#define MEMORY(member) LK_AT(lk_postmortem_memory, member)
#define BYTES          .known = LK_MAYBE, .shown = lk_format_bytes
static const lk_answer_field memory_fields[] = {
	{"rank", "rank", MEMORY(rank), .known = LK_UNLESS_NEGATIVE},
	{"device", "device", MEMORY(device), .known = LK_UNLESS_NEGATIVE},
	{"source", "source", MEMORY(source)},
	{"requested_bytes", "requested", MEMORY(requested_bytes), BYTES},
	{"free_bytes", "free", MEMORY(free_bytes), BYTES},
	{"total_bytes", "of the device", MEMORY(total_bytes), BYTES},
	{"allocated_bytes", "allocated", MEMORY(allocated_bytes), BYTES},
	{"tensor_bytes", "in tensors", MEMORY(tensor_bytes), BYTES, .hidden = true},
	{"reserved_bytes", "reserved", MEMORY(reserved_bytes), BYTES},
	{"reserved_peak_bytes", "reserved, peak", MEMORY(reserved_peak_bytes), BYTES, .hidden = true},
	{"unused_bytes", "reserved, unused", MEMORY(unused_bytes), BYTES},
	{"stranded_bytes", "stranded", MEMORY(stranded_bytes), BYTES, .hidden = true},
	{"largest_free_bytes", "largest free block", MEMORY(largest_free_bytes), BYTES, .hidden = true},
	{"pending_bytes", "pending", MEMORY(pending_bytes), BYTES, .hidden = true},
	{"private_bytes", "private pools", MEMORY(private_bytes), BYTES, .hidden = true},
	{"allowed_bytes", "allowed", MEMORY(allowed_bytes), BYTES, .hidden = true},
	{"outside_bytes", "context, libraries", MEMORY(outside_bytes), BYTES},
	{"others_bytes", "other processes", MEMORY(others_bytes), BYTES},
	{"peak_bytes", "peak of tensors", MEMORY(peak_bytes), BYTES, .hidden = true},
	{"held_bytes", "held", MEMORY(held_bytes), BYTES, .hidden = true},
	{"moment", "moment", MEMORY(moment), .known = LK_MAYBE, .hidden = true},
	{"moment_s", "after", MEMORY(moment_s), .known = LK_MAYBE, .hidden = true},
	{"expandable", "expandable", MEMORY(expandable), .hidden = true},
	{"segments", "segments", MEMORY(segments), .hidden = true},
	{"blocks", "blocks", MEMORY(blocks), .hidden = true},
	{"events", "events", MEMORY(events), .hidden = true},
};
static const lk_answer_record memory_record = {LK_RECORD(lk_postmortem_memory, memory_fields)};

#define HOLDER(member) LK_AT(lk_postmortem_holder, member)
static const lk_answer_field holder_fields[] = {
	{"rank", "rank", HOLDER(rank), .known = LK_UNLESS_NEGATIVE},
	{"device", "device", HOLDER(device), .known = LK_UNLESS_NEGATIVE},
	{"bytes", "bytes", HOLDER(bytes), .shown = lk_format_bytes},
	{"share", "share", HOLDER(share), .shown = lk_percent},
	{"blocks", "blocks", HOLDER(blocks)},
	{"kind", "kind", HOLDER(kind)},
	{"where", "where", HOLDER(where)},
	{"function", "function", HOLDER(function)},
};
static const lk_answer_record holder_record = {LK_RECORD(lk_postmortem_holder, holder_fields)};

#define REMEDY(member) LK_AT(lk_postmortem_remedy, member)
static bool remedy_decided(const lk_subject *subject) {
	return ((const lk_postmortem_remedy *)subject->record)->enough >= 0;
}
static void find_enough(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_postmortem_remedy *)subject->record)->enough;
}
static const lk_answer_field remedy_fields[] = {
	{"rank", "rank", REMEDY(rank), .known = LK_UNLESS_NEGATIVE},
	{"device", "device", REMEDY(device), .known = LK_UNLESS_NEGATIVE},
	{"frees_bytes", "frees at most", REMEDY(frees_bytes), BYTES},
	{"enough", "enough", LK_FIELD_BOOL, .get = find_enough, .there = remedy_decided},
	{"change", "change", REMEDY(change)},
	{"why", "why", REMEDY(why)},
};
static const lk_answer_record remedy_record = {LK_RECORD(lk_postmortem_remedy, remedy_fields)};

#define STUCK(member) LK_AT(lk_postmortem_collective, member)
static const lk_answer_field collective_fields[] = {
	{"problem", "problem", STUCK(problem)},
	{"root", "root", STUCK(root)},
	{"operation", "operation", STUCK(operation)},
	{"sequence", "number", STUCK(sequence), .known = LK_UNLESS_NEGATIVE},
	{"group", "group", STUCK(group)},
	{"group_size", "ranks", STUCK(group_size), .known = LK_UNLESS_ZERO},
	{"absent", "not entered by", STUCK(absent)},
	{"silent", "silent", STUCK(silent)},
	{"entered", "waiting", STUCK(entered)},
	{"shape", "shape", STUCK(shape), .hidden = true},
	{"differing", "differing", STUCK(differing), .hidden = true},
	{"where", "at", STUCK(where)},
	{"absent_last", "last of the absent", STUCK(absent_last), .hidden = true},
	{"since_unix_s", "since", STUCK(since_unix_s), .known = LK_MAYBE, .hidden = true},
	{"spread_s", "spread", STUCK(spread_s), .known = LK_MAYBE, .hidden = true},
	{"timeout_s", "timeout", STUCK(timeout_s), .known = LK_MAYBE, .hidden = true},
};
static const lk_answer_record collective_record = {
	LK_RECORD(lk_postmortem_collective, collective_fields)};

#define BESIDE(member) LK_AT(lk_postmortem_part, member)
static const lk_answer_field beside_fields[] = {
	{"predicted_bytes", "predicted", BESIDE(predicted_bytes), .shown = lk_format_bytes},
	{"measured_bytes", "measured", BESIDE(measured_bytes), .shown = lk_format_bytes},
	{"delta_bytes", NULL, BESIDE(delta_bytes)},
	{"what", "memory", BESIDE(what)},
};
static const lk_answer_record beside_record = {LK_RECORD(lk_postmortem_part, beside_fields)};

#define MATCH(member) LK_AT(lk_postmortem_match, member)
static const lk_answer_field match_fields[] = {
	{"operation", "operation", MATCH(operation)},
	{"ranks", "ranks", MATCH(ranks)},
	{"sequence", "number", MATCH(sequence), .known = LK_UNLESS_NEGATIVE},
	{"group", "group of the job", MATCH(group)},
	{"count", "a step", MATCH(count), .known = LK_UNLESS_ZERO},
	{"bytes", "of each", MATCH(bytes), .known = LK_UNLESS_ZERO, .shown = lk_format_bytes},
	{"step", "of step", MATCH(step), .known = LK_UNLESS_ZERO},
};
static const lk_answer_record match_record = {LK_RECORD(lk_postmortem_match, match_fields)};

#define AGAINST(member) LK_AT(lk_postmortem_versus, member)
static const lk_answer_field against_fields[] = {
	{"job", NULL, AGAINST(job)},
	{"sentence", NULL, AGAINST(sentence)},
	{"parts", NULL, LK_MANY(lk_postmortem_versus, parts, part_count, beside_record)},
	{"collectives", NULL, LK_MANY(lk_postmortem_versus, matches, match_count, match_record)},
};
static const lk_answer_record against_record = {LK_RECORD(lk_postmortem_versus, against_fields)};

#define POSTMORTEM(member) LK_AT(lk_postmortem, member)
static const lk_answer_field postmortem_fields[] = {
	{"cause", NULL, POSTMORTEM(cause)},
	{"source", NULL, POSTMORTEM(source)},
	{"diagnosis", NULL, POSTMORTEM(diagnosis)},
	{"memory", NULL, LK_MANY(lk_postmortem, memory, memory_count, memory_record)},
	{"kinds", NULL, LK_MANY(lk_postmortem, kinds, kind_count, holder_record)},
	{"holders", NULL, LK_MANY(lk_postmortem, holders, holder_count, holder_record)},
	{"remedies", NULL, LK_MANY(lk_postmortem, remedies, remedy_count, remedy_record)},
	{"world_size", NULL, POSTMORTEM(world), .known = LK_UNLESS_ZERO},
	{"dumps", NULL, POSTMORTEM(dumps)},
	{"missing", NULL, POSTMORTEM(missing)},
	{"collectives", NULL, LK_MANY(lk_postmortem, collectives, collective_count, collective_record)},
	{"warnings", NULL, LK_LIST(lk_postmortem, warnings, warning_count)},
	{"versus", NULL, LK_ONE(lk_postmortem, versus, against_record), .known = LK_MAYBE},
	{"reproduce", NULL, POSTMORTEM(reproduce)},
};
static const lk_answer_record postmortem_record = {LK_RECORD(lk_postmortem, postmortem_fields)};
const lk_document lk_postmortem_document = {
	"postmortem", "`explain -o json` of what a run that died or hangs left behind",
	&postmortem_record, offsetof(lk_postmortem, failed_check), NULL};

/* ---- text ---- */

struct asked_rows {
	const lk_postmortem *answer;
	bool people;
};

static int shown_of(const lk_postmortem *answer, int count) {
	return answer->top > 0 && answer->top < count ? answer->top : count;
}

static lk_status put_rows(const lk_answer_record *record, const void *answer, const void *records,
                          int count, const char *heading, bool colour, FILE *out, lk_error *err) {
	if (!count) return LK_OK;
	lk_table *table =
		lk_fields_rows(&(lk_columns){heading, record, .people = true}, answer, records, count);
	if (table) lk_table_hide_empty(table);
	if (*heading) lk_put_heading(heading, colour, out);
	return lk_put_table(table, colour, out, err);
}

static lk_status postmortem_put_sentence(const char *sentence, int indent, FILE *out,
                                         lk_error *err) {
	fprintf(out, "%*s", indent, "");
	LK_TRY(lk_put_wrapped(sentence, indent, indent, out, err));
	fputc('\n', out);
	return LK_OK;
}

/* The figures of one device, one a line. */
static void put_figures(const lk_postmortem_memory *memory, FILE *out) {
	static const struct {
		size_t at;
		const char *title;
		bool even_zero;
	} lines[] = {
		{offsetof(lk_postmortem_memory, requested_bytes), "requested", true},
		{offsetof(lk_postmortem_memory, free_bytes), "free on the device", true},
		{offsetof(lk_postmortem_memory, total_bytes), "memory of the device", true},
		{offsetof(lk_postmortem_memory, reserved_bytes), "reserved by the allocator", true},
		{offsetof(lk_postmortem_memory, reserved_peak_bytes), "  at its peak", true},
		{offsetof(lk_postmortem_memory, allocated_bytes), "  allocated", true},
		{offsetof(lk_postmortem_memory, tensor_bytes), "    requested by tensors", true},
		{offsetof(lk_postmortem_memory, pending_bytes), "    freed, a stream still uses it", false},
		{offsetof(lk_postmortem_memory, private_bytes), "    in pools of CUDA graphs", false},
		{offsetof(lk_postmortem_memory, unused_bytes), "  unused", true},
		{offsetof(lk_postmortem_memory, stranded_bytes), "    that cannot be given back", true},
		{offsetof(lk_postmortem_memory, largest_free_bytes), "    largest free block", true},
		{offsetof(lk_postmortem_memory, outside_bytes), "context and libraries", true},
		{offsetof(lk_postmortem_memory, others_bytes), "other processes", true},
		{offsetof(lk_postmortem_memory, allowed_bytes), "allowed to the process", true},
		{offsetof(lk_postmortem_memory, peak_bytes), "peak of tensors in the trace", true},
	};
	char number[32];
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		double bytes = *(const double *)(const void *)((const char *)memory + lines[i].at);
		if (isnan(bytes) || (!lines[i].even_zero && !(bytes > 0))) continue;
		fprintf(out, "    %-30s  %10s\n", lines[i].title,
		        lk_format_bytes(bytes, number, sizeof number));
	}
}

static const char *moment_text(const char *moment) {
	if (strcmp(moment, "peak") == 0) return "at the peak of the trace";
	return strcmp(moment, "end") == 0 ? "when the snapshot was taken" : "when memory ran out";
}

static lk_status put_held(const lk_postmortem *answer, bool colour, FILE *out, lk_error *err) {
	char heading[160] = "what was held, by kind", time[32];
	const lk_postmortem_memory *memory = answer->memory;
	if (!answer->kind_count) return LK_OK;
	if (answer->memory_count == 1 && memory->moment) {
		lk_text text = lk_text_begin(heading, sizeof heading);
		lk_text_add(&text, "held %s", moment_text(memory->moment));
		if (!isnan(memory->moment_s))
			lk_text_add(&text, ", %s after it began",
			            lk_format_seconds(memory->moment_s, time, sizeof time));
		lk_text_add(&text, ", by kind");
	}
	LK_TRY(put_rows(&holder_record, answer, answer->kinds, answer->kind_count, heading, colour, out,
	                err));
	int shown = shown_of(answer, answer->holder_count);
	LK_TRY(put_rows(&holder_record, answer, answer->holders, shown, "by line of code", colour, out,
	                err));
	if (shown < answer->holder_count)
		fprintf(out, "and %d more (--top 0)\n", answer->holder_count - shown);
	return LK_OK;
}

/* Ranks that failed alike have the same remedies. */
static bool remedy_was_shown(const lk_postmortem *answer, int index) {
	for (int i = 0; i < index; i++)
		if (strcmp(answer->remedies[i].change, answer->remedies[index].change) == 0) return true;
	return false;
}

static lk_status put_remedies(const lk_postmortem *answer, bool colour, FILE *out, lk_error *err) {
	char frees[32];
	int shown = 0;
	if (answer->remedy_count) lk_put_heading("what frees memory", colour, out);
	for (int i = 0; i < answer->remedy_count; i++) {
		const lk_postmortem_remedy *remedy = &answer->remedies[i];
		if (remedy_was_shown(answer, i)) continue;
		char line[600];
		lk_text text = lk_text_begin(line, sizeof line);
		if (answer->memory_count > 1 && remedy->rank >= 0)
			lk_text_add(&text, "rank %d: ", remedy->rank);
		lk_text_add(&text, "%s", remedy->change);
		if (!isnan(remedy->frees_bytes))
			lk_text_add(&text, ": frees up to %s",
			            lk_format_bytes(remedy->frees_bytes, frees, sizeof frees));
		if (remedy->enough >= 0)
			lk_text_add(&text, ", %s", remedy->enough ? "can be enough" : "is not enough alone");
		fprintf(out, "%2d. ", ++shown);
		LK_TRY(lk_put_wrapped(line, 4, 4, out, err));
		fputc('\n', out);
		LK_TRY(postmortem_put_sentence(remedy->why, 4, out, err));
	}
	return LK_OK;
}

static void put_when(const lk_postmortem_collective *row, FILE *out) {
	char time[40], spread[32];
	struct tm parts;
	if (!(row->since_unix_s > 0 && row->since_unix_s < 1e11)) return;
	time_t seconds = (time_t)row->since_unix_s;
	if (!gmtime_r(&seconds, &parts)) return;
	if (!strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &parts)) return;
	fprintf(out, "    since %s UTC", time);
	if (row->spread_s > 0)
		fprintf(out, ", all within %s", lk_format_seconds(row->spread_s, spread, sizeof spread));
	if (!isnan(row->timeout_s))
		fprintf(out, "; timeout %s", lk_format_seconds(row->timeout_s, spread, sizeof spread));
	fputc('\n', out);
}

static lk_status put_collectives(const lk_postmortem *answer, bool colour, FILE *out,
                                 lk_error *err) {
	int shown = shown_of(answer, answer->collective_count);
	if (!shown) return LK_OK;
	put_when(answer->collectives, out);
	LK_TRY(put_rows(&collective_record, answer, answer->collectives, shown,
	                "collectives that did not complete", colour, out, err));
	if (shown < answer->collective_count)
		fprintf(out, "and %d more (--top 0)\n", answer->collective_count - shown);
	return LK_OK;
}

/* Against the job: the sentence, what would explain it, memory by kind, collectives. */
static lk_status put_against(const lk_postmortem_versus *against, bool colour, FILE *out,
                             lk_error *err) {
	if (!against) return LK_OK;
	const lk_expected *expected = against->predicted->expected;
	char share[32];
	lk_put_heading("against the job", colour, out);
	LK_TRY(postmortem_put_sentence(against->sentence, 4, out, err));
	for (int i = 0; expected && i < expected->suspect_count; i++) {
		const lk_suspect *cause = &expected->suspects[i];
		fprintf(out, "%2d. %6s  ", i + 1, lk_percent(cause->share, share, sizeof share));
		LK_TRY(lk_put_wrapped(cause->what, 12, 12, out, err));
		fprintf(out, "%s%s%s\n%12scheck: ", *cause->option ? " (" : "", cause->option,
		        *cause->option ? ")" : "", "");
		LK_TRY(lk_put_wrapped(cause->check, 19, 12, out, err));
		fputc('\n', out);
	}
	LK_TRY(put_rows(&beside_record, against, against->parts, against->part_count, "", colour, out,
	                err));
	return put_rows(&match_record, against, against->matches, against->match_count, "", colour, out,
	                err);
}

static const char *cause_text(const char *cause) {
	if (strcmp(cause, "none") == 0) return "nothing is stuck";
	return strcmp(cause, "memory") == 0 ? "no allocation failed" : cause;
}

static lk_status write_postmortem(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_postmortem *answer = ((const struct asked_rows *)what)->answer;
	fprintf(out, "%s", answer->source);
	if (answer->dumps)
		fprintf(out, ": %d of %d %s", answer->dumps, answer->world,
		        lk_noun(answer->world, "rank", "ranks"));
	fprintf(out, "\n\n%s%s%s\n", lk_bold(colour), cause_text(answer->cause), lk_plain(colour));
	LK_TRY(postmortem_put_sentence(answer->diagnosis, 4, out, err));
	LK_TRY(put_against(answer->versus, colour, out, err));
	if (answer->memory_count == 1) {
		lk_put_heading("memory", colour, out);
		put_figures(answer->memory, out);
	} else {
		LK_TRY(put_rows(&memory_record, answer, answer->memory,
		                shown_of(answer, answer->memory_count), "memory", colour, out, err));
	}
	LK_TRY(put_held(answer, colour, out, err));
	LK_TRY(put_collectives(answer, colour, out, err));
	LK_TRY(put_remedies(answer, colour, out, err));
	for (int i = 0; i < answer->warning_count; i++) {
		int indent = fprintf(out, "%sW%d: ", i ? "" : "\n", i + 1) - !i;
		LK_TRY(lk_put_wrapped(answer->warnings[i], indent, indent, out, err));
		fputc('\n', out);
	}
	fputs("\nreproduce: ", out);
	LK_TRY(lk_put_safe(answer->reproduce, out, err));
	fputc('\n', out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* ---- tables ---- */

/* The table of an answer: 0 of the one that csv has, 1 to 4 of all. */
enum { MAIN_TABLE, MEMORY_TABLE, HOLDER_TABLE, REMEDY_TABLE, COLLECTIVE_TABLE, POSTMORTEM_TABLES };

static lk_table *postmortem_table(const lk_postmortem *answer, int which, bool people) {
	if (which == MAIN_TABLE && answer->collective_count) which = COLLECTIVE_TABLE;
	if (which == MAIN_TABLE) which = answer->holder_count ? HOLDER_TABLE : MEMORY_TABLE;
	const struct {
		const char *name;
		const lk_answer_record *record;
		const void *rows;
		int count;
	} tables[] = {
		[MEMORY_TABLE] = {"memory", &memory_record, answer->memory, answer->memory_count},
		[HOLDER_TABLE] = {"holders", &holder_record, answer->holders, answer->holder_count},
		[REMEDY_TABLE] = {"remedies", &remedy_record, answer->remedies, answer->remedy_count},
		[COLLECTIVE_TABLE] = {"collectives", &collective_record, answer->collectives,
	                          answer->collective_count},
	};
	lk_table *table =
		lk_fields_rows(&(lk_columns){tables[which].name, tables[which].record, .all = !people},
	                   answer, tables[which].rows, tables[which].count);
	if (table && people) lk_table_hide_empty(table);
	return table;
}

lk_status lk_postmortem_print(const lk_postmortem *postmortem, int format, int table, bool colour,
                              const char *path, FILE *out, lk_error *err) {
	lk_writing writing = {format, false, colour, path, out};
	struct asked_rows asked = {postmortem, true};
	LK_TRY(lk_writing_check(&writing, err));
	if (table != LK_EXPLAIN_ALL)
		return lk_fail(err, LK_ERR_INPUT, "--table",
		               "is of traces of steps, and the files are left of a run that died or hangs");
	if (format == LK_FORMAT_JSON)
		return lk_write_document(&writing, &lk_postmortem_document, postmortem, err);
	if (format == LK_FORMAT_TEXT) return lk_write_through(&writing, write_postmortem, &asked, err);
	if (format == LK_FORMAT_SQLITE) {
		lk_table *tables[POSTMORTEM_TABLES];
		int count = 0;
		for (int i = MEMORY_TABLE; i < POSTMORTEM_TABLES; i++)
			tables[count++] = postmortem_table(postmortem, i, false);
		return lk_write_database(&writing, tables, count, err);
	}
	return lk_write_table(
		&writing,
		lk_table_mark(postmortem_table(postmortem, MAIN_TABLE, format == LK_FORMAT_MD),
	                  postmortem->failed_check),
		err);
}
