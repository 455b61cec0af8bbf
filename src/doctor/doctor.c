/* doctor.c: `lockstep doctor`: this build, then its data, then what it uses of the machine. */
#include "base/check.h"
#include "doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/catalogue.h"

struct answer {
	lk_arena arena; /* first: lk_arena_free_owner */
	lk_doctor public;
};

/* ---- this build ---- */

static const char *feature_mend(const char *feature) {
	static const struct {
		const char *feature, *mend;
	} mends[] = {
		{"isal", "apt install libisal-dev && make (in the sources)"},
		{"mpi", "apt install libopenmpi-dev && make"},
	};
	for (size_t i = 0; i < sizeof mends / sizeof *mends; i++)
		if (strcmp(mends[i].feature, feature) == 0) return mends[i].mend;
	return NULL;
}

static lk_status doctor_build(const lk_doctor_request *request, lk_findings *out, lk_error *err) {
	const char *commit = request->commit ? lk_arena_printf(out->arena, "%s, commit %s",
	                                                       lk_version(), request->commit)
	                                     : lk_version();
	if (!commit) return lk_oom(err);
	LK_TRY(lk_doctor_add(out, &(lk_finding){.part = "build", .name = "lockstep", .what = commit},
	                     err));
	const lk_feature *feature;
	for (int i = 0; (feature = lk_feature_at(i)); i++) {
		lk_finding finding = {.part = "build", .name = feature->name, .use = feature->what};
		if (feature->here) finding.what = "built in";
		else {
			finding.state = LK_FINDING_MISSING;
			finding.mend = feature_mend(feature->name);
		}
		LK_TRY(lk_doctor_add(out, &finding, err));
	}
	if (request->serves) return LK_OK;
	return lk_doctor_add(out,
	                     &(lk_finding){.state = LK_FINDING_MISSING,
	                                   .part = "build",
	                                   .name = "serve",
	                                   .use = "lockstep serve",
	                                   .mend = "apt install libmicrohttpd-dev && make"},
	                     err);
}

/* ---- all findings ---- */

static lk_status doctor_fill(const lk_doctor_request *request, lk_findings *findings,
                             lk_doctor *out, lk_error *err) {
	LK_TRY(doctor_build(request, findings, err));
	LK_TRY(lk_doctor_data(request, findings, err));
	LK_TRY(lk_doctor_system(request, findings, err));
	LK_ASSERT(findings->rows.count > 0);
	lk_finding *kept = LK_ARRAY(findings->arena, lk_finding, findings->rows.count);
	if (!kept) return lk_oom(err);
	for (size_t i = 0; i < findings->rows.count; i++) {
		kept[i] = findings->rows.at[i];
		out->broken |= kept[i].state == LK_FINDING_BROKEN;
	}
	out->findings = kept;
	out->count = (int)findings->rows.count;
	return LK_OK;
}

lk_status lk_doctor_find(const lk_doctor_request *request, lk_doctor **out, lk_error *err) {
	struct answer *answer = calloc(1, sizeof *answer);
	if (!answer) return lk_oom(err);
	lk_findings findings = {.arena = &answer->arena};
	answer->public.memory_owner = answer;
	lk_status status = doctor_fill(request, &findings, &answer->public, err);
	lk_vec_free(&findings.rows);
	if (status == LK_OK) *out = &answer->public;
	else lk_doctor_free(&answer->public);
	return status;
}

void lk_doctor_free(lk_doctor *doctor) {
	if (doctor) lk_arena_free_owner(doctor->memory_owner);
}
