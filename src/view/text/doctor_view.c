/* doctor_view.c: findings as a table; in text as a list on a page of 100 columns, with the commands
 * below it. */
#include <string.h>

#include "base/text.h"
#include "lockstep/doctor.h"
#include "view/table/fields.h"

static const char *const state_names[] = {"ok", "old", "missing", "broken"};
_Static_assert(sizeof state_names / sizeof *state_names == LK_FINDING_BROKEN + 1, "a name a state");

#define FINDING(member) LK_AT(lk_finding, member)

static void find_state(const lk_subject *subject, lk_field_value *found) {
	found->text = state_names[((const lk_finding *)subject->record)->state];
}

static const lk_answer_field finding_fields[] = {
	{"state", "", LK_FIELD_TEXT, .get = find_state},
	{"part", "", FINDING(part)},
	{"name", "what", FINDING(name)},
	{"what", "found", FINDING(what)},
	{"use", "for", FINDING(use)},
	{"mend", "mended by", FINDING(mend), .hidden = true},
};
static const lk_answer_record finding_record = {LK_RECORD(lk_finding, finding_fields)};

static lk_table *findings_table(const lk_doctor *doctor) {
	static const lk_columns columns = {"findings", &finding_record, .keys = NULL};
	return lk_fields_rows(&columns, doctor, doctor->findings, doctor->count);
}

/* ---- text ---- */

enum {
	STATE = 9,  /* the longest state and two blanks */
	LINE = 4096 /* bytes of a finding that are shown */
};

struct findings {
	const lk_doctor *doctor;
	bool verbose;
};

/* Families of calibrations are shown with -v alone. */
static bool finding_is_shown(const struct findings *findings, const lk_finding *finding) {
	return findings->verbose || strcmp(finding->part, "calibration") != 0;
}

static int widest_name(const struct findings *findings) {
	int widest = 0;
	for (int i = 0; i < findings->doctor->count; i++) {
		const lk_finding *finding = &findings->doctor->findings[i];
		int width = (int)strlen(finding->name);
		if (finding_is_shown(findings, finding) && width > widest) widest = width;
	}
	return widest;
}

/* State, name and what was found; below them what needs it, unless all is well. */
static lk_status put_finding(const struct findings *findings, const lk_finding *finding, int names,
                             FILE *out, lk_error *err) {
	int indent = 2 + STATE + names + 2;
	bool uses = finding->use && (findings->verbose || finding->state != LK_FINDING_OK);
	char name[LINE];
	fprintf(out, "  %-*s%-*s  ", STATE, state_names[finding->state], names,
	        lk_escape(finding->name, name, sizeof name));
	LK_TRY(lk_put_wrapped(finding->what ? finding->what : "not found", indent, indent, out, err));
	fputc('\n', out);
	if (!uses) return LK_OK;
	fprintf(out, "%*s", indent, "");
	char line[LINE];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "for: %s", finding->use);
	LK_TRY(lk_put_wrapped(line, indent, indent, out, err));
	fputc('\n', out);
	return LK_OK;
}

/* A heading for each part of the installation. */
static lk_status put_findings(const struct findings *findings, FILE *out, lk_error *err) {
	const char *part = "";
	int names = widest_name(findings);
	for (int i = 0; i < findings->doctor->count; i++) {
		const lk_finding *finding = &findings->doctor->findings[i];
		if (!finding_is_shown(findings, finding)) continue;
		if (strcmp(part, finding->part) != 0)
			fprintf(out, "%s%s\n", *part ? "\n" : "", finding->part);
		part = finding->part;
		LK_TRY(put_finding(findings, finding, names, out, err));
	}
	return LK_OK;
}

static lk_status write_findings(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct findings *findings = what;
	const lk_doctor *doctor = findings->doctor;
	bool any = false;
	(void)colour;
	LK_TRY(put_findings(findings, out, err));
	for (int i = 0; i < doctor->count; i++) {
		if (!doctor->findings[i].mend) continue;
		if (!any) fputs("\nTo fix these, on Debian:\n", out);
		any = true;
		fputs("  ", out);
		LK_TRY(lk_put_safe(doctor->findings[i].name, out, err));
		fputs("\n      ", out);
		LK_TRY(lk_put_safe(doctor->findings[i].mend, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

lk_status lk_doctor_print(const lk_doctor *doctor, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	LK_TRY(lk_writing_check(&w, err));
	struct findings findings = {doctor, verbose};
	return format == LK_FORMAT_TEXT ? lk_write_through(&w, write_findings, &findings, err)
	                                : lk_write_table(&w, findings_table(doctor), err);
}
