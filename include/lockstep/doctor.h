/* doctor.h: which parts of lockstep, and of what it uses, this machine has. */
#ifndef LOCKSTEP_DOCTOR_H
#define LOCKSTEP_DOCTOR_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller knows and the library does not. Texts are borrowed; zero and NULL: not known. */
typedef struct lk_doctor_request {
	const char *commit;          /* that the program was built from */
	const char *const *defaults; /* [default_count] paths of files like lockstep.toml, as
	                              * lk_defaults_open takes them; those that do not exist are left
	                              * out */
	int default_count;
	bool serves; /* the program has `lockstep serve` */
} lk_doctor_request;

/* How one part of the installation is. */
typedef enum lk_finding_state {
	LK_FINDING_OK,
	LK_FINDING_OLD,     /* it works; newer numbers may be had */
	LK_FINDING_MISSING, /* what needs it is refused by name; all else works */
	LK_FINDING_BROKEN,  /* it should work, and does not */
} lk_finding_state;

/* One part of the installation. Texts belong to the lk_doctor. */
typedef struct lk_finding {
	lk_finding_state state;
	const char *part; /* "build", "data", "calibration", "settings", "library", "program" */
	const char *name; /* "libmicrohttpd.so.12" */
	const char *what; /* what was found: version, place, dates; NULL nothing */
	const char *use;  /* what needs it */
	const char *mend; /* a command for a shell, on Debian where it installs something; NULL: none */
} lk_finding;

/* All findings, in the order in which they are shown. */
typedef struct lk_doctor {
	const lk_finding *findings;
	int count;
	bool broken; /* one of them is */
	void *memory_owner;
} lk_doctor;

/* The answer, to be freed by lk_doctor_free. Starts `python3`, once, if there is one. LK_ERR_MEMORY
 * alone: whatever else is wrong is a finding. */
lk_status lk_doctor_find(const lk_doctor_request *request, lk_doctor **out, lk_error *err);
/* Accepts NULL. */
void lk_doctor_free(lk_doctor *doctor);

/* `format`, `colour`, `path` and `out` as in view.h; TEXT has one line for the rows of each family
 * of calibrations with `verbose` alone. The table in SQLite is "findings". LK_ERR_INPUT for a
 * format without its path; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_doctor_print(const lk_doctor *doctor, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

/* The options of `lockstep doctor`. */
extern const lk_verb lk_doctor_verb;

#ifdef __cplusplus
}
#endif
#endif
