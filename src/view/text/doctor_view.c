/* doctor_view.c: findings as a table; in text with the commands below it. */
#include <string.h>

#include "lockstep/doctor.h"
#include "view/table/output.h"
#include "view/table/table.h"

static const char *const state_names[] = {"ok", "old", "missing", "broken"};

static const lk_column columns[] = {
	{"state", "", false, false},    {"part", "", false, false},
	{"name", "what", false, false}, {"what", "found", false, false},
	{"use", "for", false, false},   {"mend", "mended by", false, true},
};
enum {
	COLUMNS = sizeof columns / sizeof *columns
};

/* `all`: those of the families of calibrations too. */
static lk_table *findings_table(const lk_doctor *doctor, bool all) {
	lk_table *table = lk_table_new("findings", columns, COLUMNS);
	for (int i = 0; table && i < doctor->count; i++) {
		const lk_finding *finding = &doctor->findings[i];
		if (!all && strcmp(finding->part, "calibration") == 0) continue;
		lk_table_row(table);
		lk_table_text(table, state_names[finding->state]);
		lk_table_text(table, finding->part);
		lk_table_text(table, finding->name);
		lk_table_text(table, finding->what);
		lk_table_text(table, finding->use);
		lk_table_text(table, finding->mend);
	}
	return table;
}

struct findings {
	const lk_doctor *doctor;
	bool verbose;
};

static lk_status write_findings(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct findings *findings = what;
	const lk_doctor *doctor = findings->doctor;
	lk_table *table = findings_table(doctor, findings->verbose);
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	bool any = false;
	for (int i = 0; i < doctor->count && status == LK_OK; i++) {
		if (!doctor->findings[i].mend) continue;
		if (!any) fputs("\nWhat would mend it, on Debian:\n", out);
		any = true;
		fputs("  ", out);
		status = lk_put_safe(doctor->findings[i].name, out, err);
		fputs("\n      ", out);
		if (status == LK_OK) status = lk_put_safe(doctor->findings[i].mend, out, err);
		fputc('\n', out);
	}
	return status;
}

lk_status lk_doctor_print(const lk_doctor *doctor, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	LK_TRY(lk_writing_check(&w, err));
	struct findings findings = {doctor, verbose};
	return format == LK_FORMAT_TEXT ? lk_write_through(&w, write_findings, &findings, err)
	                                : lk_write_table(&w, findings_table(doctor, true), err);
}
