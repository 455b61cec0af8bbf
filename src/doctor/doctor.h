/* doctor.h: shared by the files of doctor. doctor_data.c examines the data in lockstep,
 * doctor_system.c what it uses of the machine, doctor.c combines them. */
#ifndef LK_DOCTOR_DOCTOR_H
#define LK_DOCTOR_DOCTOR_H

#include "base/arena.h"
#include "base/vec.h"
#include "lockstep/doctor.h"

typedef struct lk_findings {
	LK_VEC(lk_finding) rows;
	lk_arena *arena;
} lk_findings;

/* Add a finding; its texts are valid as long as the arena. */
static inline lk_status lk_doctor_add(lk_findings *findings, const lk_finding *finding,
                                      lk_error *err) {
	if (!lk_push(&findings->rows)) return lk_oom(err);
	*lk_last(&findings->rows) = *finding;
	return LK_OK;
}

/* doctor_data.c: devices, models, calibrations, prices, defaults. */
lk_status lk_doctor_data(const lk_doctor_request *request, lk_findings *out, lk_error *err);
/* doctor_system.c: libraries, programs, the Python package. */
lk_status lk_doctor_system(const lk_doctor_request *request, lk_findings *out, lk_error *err);

#endif
