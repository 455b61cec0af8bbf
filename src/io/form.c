/* form.c: the forms of files, and which of them can be read. */
#include "io/form.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *words;
	int newest;
} forms[LK_FORMS] = {
	[LK_FORM_CALIBRATION] = {"calibration", "a calibration", 1},
	[LK_FORM_CLUSTER] = {"cluster", "a cluster", 1},
	[LK_FORM_JOBS] = {"jobs", "a list of jobs", 1},
	[LK_FORM_OVERHEADS] = {"overheads", "a table of host overheads", 1},
	[LK_FORM_PLACEMENT] = {"placement", "a placement of tables", 1},
	[LK_FORM_WISDOM] = {"wisdom", "a wisdom file", 1},
};

static const char line_head[] = "# lockstep ";

const char *lk_form_line(lk_form form, char *out, size_t size) {
	snprintf(out, size, "%s%s %d", line_head, forms[form].name, forms[form].newest);
	return out;
}

const char *lk_form_name(lk_form form) {
	return forms[form].name;
}

lk_status lk_form_refuse(const char *what, double version, int newest, const char *where,
                         lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, where, "%s of form %.15g; this program reads %s%d", what, version,
	        newest > 1 ? "forms 1 to " : "form ", newest);
	return lk_hint(err, "read it with the lockstep that wrote it, or write it again with this one");
}

lk_status lk_form_check(lk_form form, double version, const char *where, lk_error *err) {
	int newest = forms[form].newest;
	if (version >= 1 && version <= newest && version == floor(version)) return LK_OK;
	return lk_form_refuse(forms[form].words, version, newest, where, err);
}

int lk_form_newest(lk_form form) {
	return forms[form].newest;
}

lk_status lk_form_check_line(const char *line, const char *where, lk_error *err) {
	if (strncmp(line, line_head, sizeof line_head - 1) != 0) return LK_OK;
	line += sizeof line_head - 1;
	for (int form = 0; form < LK_FORMS; form++) {
		size_t length = strlen(forms[form].name);
		if (strncmp(line, forms[form].name, length) != 0 || line[length] != ' ') continue;
		char *end;
		double version = strtod(line + length + 1, &end);
		if (end == line + length + 1) return LK_OK; /* words written by people */
		return lk_form_check((lk_form)form, version, where, err);
	}
	return LK_OK;
}
