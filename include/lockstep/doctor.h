/* doctor.h: which parts of lockstep and of its dependencies this machine has. */
#ifndef LOCKSTEP_DOCTOR_H
#define LOCKSTEP_DOCTOR_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Facts that the caller knows and the library does not. Texts are borrowed; zero and NULL:
 * unknown. */
typedef struct lk_doctor_request {
	const char *commit;          /* from which the program was built */
	const char *const *defaults; /* [default_count] paths of files like lockstep.toml, as for
	                              * lk_defaults_open; missing files are left out */
	int default_count;
	bool serves; /* the program has `lockstep serve` */
} lk_doctor_request;

/* The state of one part of the installation. */
typedef enum lk_finding_state {
	LK_FINDING_OK,
	LK_FINDING_OLD,     /* it works; newer numbers may be available */
	LK_FINDING_MISSING, /* what needs it is refused with its name; everything else works */
	LK_FINDING_BROKEN,  /* it should work but does not */
} lk_finding_state;

/* One part of the installation. Texts belong to the lk_doctor. */
typedef struct lk_finding {
	lk_finding_state state;
	const char *part; /* "build", "data", "calibration", "settings", "library", "program" */
	const char *name; /* "libmicrohttpd.so.12" */
	const char *what; /* findings: version, place, dates; NULL: none */
	const char *use;  /* what needs it */
	const char *mend; /* a shell command, for Debian if it installs something; NULL: none */
} lk_finding;

/* All findings, in display order. */
typedef struct lk_doctor {
	const lk_finding *findings;
	int count;
	bool broken; /* whether any part is broken */
	void *memory_owner;
} lk_doctor;

/* Examine the installation; free the answer with lk_doctor_free. Starts `python3` once, if present.
 * LK_ERR_MEMORY only: every other problem is a finding. */
lk_status lk_doctor_find(const lk_doctor_request *request, lk_doctor **out, lk_error *err);
/* Accepts NULL. */
void lk_doctor_free(lk_doctor *doctor);

/* `format`, `colour`, `path` and `out` as in view.h; only with `verbose` TEXT has one line per
 * calibration family. The table in SQLite is "findings". LK_ERR_INPUT: the format needs a path;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_doctor_print(const lk_doctor *doctor, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

/* The options of `lockstep doctor`. */
extern const lk_verb lk_doctor_verb;

#ifdef __cplusplus
}
#endif
#endif
