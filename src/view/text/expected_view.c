/* expected_view.c: a measured run against its prediction: the verdict, what was compared, and the
 * causes with how to check them. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "view/text/views.h"

enum { TEXT = 64, CHECKS = 3 };

#define COMPARED(member) LK_AT(lk_compared, member)
#define SUSPECT(member)  LK_AT(lk_suspect, member)
#define EXPECTED(member) LK_AT(lk_expected, member)

static const lk_answer_field compared_fields[] = {
	{"key", NULL, COMPARED(key)},
	{"label", "compared", COMPARED(label)},
	{"unit", NULL, COMPARED(unit)},
	{"measured", "measured", COMPARED(measured)},
	{"predicted", "predicted", COMPARED(predicted)},
	{"low", NULL, COMPARED(low)},
	{"high", NULL, COMPARED(high)},
	{"inside", NULL, COMPARED(inside)},
};
static const lk_answer_record compared_record = {
	.name = "Compared",
	.what = "A measured value and its prediction, with its 80 % range.",
	LK_RECORD(lk_compared, compared_fields)};

static const lk_answer_field suspect_fields[] = {
	{"what", "cause", SUSPECT(what), .width = 60},
	{"share", "likely", SUSPECT(share), .shown = lk_percent},
	{"step_time_s", "step", SUSPECT(step_time_s), .shown = lk_format_seconds},
	{"mfu", "MFU", SUSPECT(mfu), .shown = lk_percent},
	{"memory_bytes", "GiB", SUSPECT(memory_bytes), .shown = lk_gib},
	{"cause", NULL, SUSPECT(cause)},
	{"option", NULL, SUSPECT(option), .known = LK_UNLESS_ZERO},
	{"check", NULL, SUSPECT(check)},
	{"time_ratio", NULL, SUSPECT(time_ratio)},
	{"explains", NULL, SUSPECT(explains)},
};
static const lk_answer_record suspect_record = {
	.name = "Suspect",
	.what = "A cause that may explain a measured run, with what would be predicted under it.",
	LK_RECORD(lk_suspect, suspect_fields)};

static const lk_answer_field expected_fields[] = {
	{"measured", NULL, EXPECTED(measured)},
	{"verdict", NULL, EXPECTED(verdict)},
	{"as_expected", NULL, EXPECTED(as_expected)},
	{"step_time_s", NULL, EXPECTED(step_time_s), .known = LK_UNLESS_ZERO},
	{"mfu", NULL, EXPECTED(mfu), .known = LK_UNLESS_ZERO},
	{"time_ratio", NULL, EXPECTED(time_ratio), .known = LK_UNLESS_ZERO},
	{"compared", NULL, LK_MANY(lk_expected, compared, compared_count, compared_record)},
	{"causes", NULL, LK_MANY(lk_expected, suspects, suspect_count, suspect_record)},
	{"unchanged_share", NULL, EXPECTED(unchanged_share)},
	{"other_share", NULL, EXPECTED(other_share)},
	{"tried", NULL, EXPECTED(tried)},
	{"notes", NULL, LK_LIST(lk_expected, notes, note_count)},
};
const lk_answer_record lk_expected_record = {
	.name = "Expected",
	.what = "A measured run against its prediction, and what explains the difference.",
	LK_RECORD(lk_expected, expected_fields)};

/* "label     text", wrapped. */
static lk_status expected_put(const char *label, const char *text, FILE *out, lk_error *err) {
	int indent = fprintf(out, "%-10s ", label);
	LK_TRY(lk_put_wrapped(text, indent, indent, out, err));
	putc('\n', out);
	return LK_OK;
}

static lk_status expected_put_speed(const lk_expected *expected, double mfu, FILE *out,
                                    lk_error *err) {
	char is[TEXT], was[TEXT], step[TEXT], line[4 * TEXT];
	if (!(expected->step_time_s > 0)) return LK_OK;
	lk_format_seconds(expected->step_time_s, step, sizeof step);
	int used = 0;
	if (mfu > 0)
		used = snprintf(line, sizeof line, "MFU %s, predicted %s; ",
		                lk_percent(expected->mfu, is, sizeof is), lk_percent(mfu, was, sizeof was));
	snprintf(line + used, sizeof line - (size_t)used, "a step of %s, %.2f times the predicted one",
	         step, expected->time_ratio);
	return expected_put("measured", line, out, err);
}

static lk_status expected_put_causes(const lk_expected *expected, bool colour, FILE *out,
                                     lk_error *err) {
	const lk_columns columns = {.name = "causes", .record = &suspect_record, .people = true};
	char unchanged[TEXT], other[TEXT], text[4 * TEXT];
	lk_table *table =
		lk_fields_rows(&columns, expected, expected->suspects, expected->suspect_count);
	putc('\n', out);
	lk_status status = table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	LK_TRY(status);
	snprintf(text, sizeof text,
	         "%s something else (data, synchronisation, the host); %s nothing differs, and the "
	         "prediction errs",
	         lk_percent(expected->other_share, other, sizeof other),
	         lk_percent(expected->unchanged_share, unchanged, sizeof unchanged));
	LK_TRY(expected_put("otherwise", text, out, err));
	for (int i = 0; i < expected->suspect_count && i < CHECKS; i++) {
		char label[16];
		snprintf(label, sizeof label, "check %d", i + 1);
		LK_TRY(expected_put(label, expected->suspects[i].check, out, err));
		if (*expected->suspects[i].option) {
			fprintf(out, "%-10s ", "  predict");
			LK_TRY(lk_put_safe(expected->suspects[i].option, out, err));
			putc('\n', out);
		}
	}
	return LK_OK;
}

lk_status lk_put_expected(const lk_expected *expected, double mfu, bool colour, FILE *out,
                          lk_error *err) {
	LK_TRY(expected_put_speed(expected, mfu, out, err));
	LK_TRY(expected_put("verdict", expected->verdict, out, err));
	for (int i = 0; i < expected->note_count; i++)
		LK_TRY(expected_put("steps", expected->notes[i], out, err));
	if (expected->suspect_count > 0) LK_TRY(expected_put_causes(expected, colour, out, err));
	putc('\n', out);
	return LK_OK;
}
