/* record.h: what the files of record share. record_run.c runs the command, record_probe.c prepares
 * its environment, record_scratch.c keeps what it writes away from the user's files, record.c asks
 * and sums up. */
#ifndef LK_RECORD_RECORD_H
#define LK_RECORD_RECORD_H

#include <limits.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/vec.h"
#include "lockstep/record.h"
#include "rendezvous/rendezvous.h"

/* ---- record_probe.c ---- */

/* What the command's processes find in their environment. */
typedef struct lk_probe_setting {
	const char *name, *value;
} lk_probe_setting;
typedef LK_VEC(lk_probe_setting) lk_probe_settings;

/* The probe beside this program or in the library folder of its installation, and what it is told.
 * `folder` and `scratch`
 * ("" none) are absolute. */
lk_status lk_probe_settings_of(const lk_record_request *request, const char *folder,
                               const char *scratch, lk_arena *arena, lk_probe_settings *out,
                               lk_error *err);
/* The names of programs that are recorded from their start: those asked for, else the command's
 * own, of a script its interpreter's; NULL for launchers and shells. */
enum {
	LK_PROGRAM_NAME = 256
};
const char *lk_probe_programs(const lk_record_request *request, char room[LK_PROGRAM_NAME]);

/* A file that is installed with the probe, by its name there; NULL: it is not. */
const char *lk_probe_file(const char *name, lk_arena *arena);
/* Where the shell would find a program; NULL nowhere. */
const char *lk_probe_in_path(const char *name, char room[PATH_MAX]);
/* Whether a text occurs in a file. */
bool lk_probe_file_names(const char *path, const char *library);
lk_status lk_probe_set(lk_probe_settings *out, const char *name, const char *value, lk_error *err);

/* ---- record_device.c ---- */

/* What the probe is told of NCCL and CUDA, and what of lockstep takes the place of libraries. */
lk_status lk_probe_device_settings(const lk_record_request *request, lk_arena *arena,
                                   lk_probe_settings *out, lk_error *err);

/* ---- record_scratch.c ---- */

typedef struct lk_record_scratch {
	char path[PATH_MAX];              /* absolute, without links; "" the run is not guarded */
	bool private;                     /* it is removed afterwards */
	LK_VEC(lk_record_change) changes; /* by path */
	LK_VEC(const char *) unguarded;
} lk_record_scratch;

bool lk_record_is_guarded(const lk_record_request *request);
lk_status lk_record_scratch_open(const lk_record_request *request, const char *folder,
                                 lk_record_scratch *out, lk_error *err);
/* What the run changed, and what it did that could not be guarded. */
lk_status lk_record_scratch_sum(lk_record_scratch *scratch, lk_arena *arena, lk_error *err);
void lk_record_scratch_remove(lk_record_scratch *scratch); /* unless the user named it */
void lk_record_scratch_free(lk_record_scratch *scratch);

/* ---- record_run.c ---- */

typedef struct lk_run_end {
	int status;
	lk_record_end end;
	double wall_s;
	lk_store_served served; /* by the rendezvous of posed ranks */
} lk_run_end;
lk_status lk_record_command(const lk_record_request *request, const lk_probe_settings *settings,
                            const char *folder, lk_run_end *out, lk_error *err);

/* ---- record_posed.c ---- */

/* Sets the mode of a command that is to pose as ranks, or says what is wrong with it. */
lk_status lk_record_check_emulated(lk_record_request *request, lk_error *err);
/* The command as it is, or as one rank after another of a pretended world, until a run fails.
 * `folder` is absolute. */
lk_status lk_record_runs(const lk_record_request *request, const char *folder, const char *scratch,
                         lk_arena *arena, lk_run_end *out, lk_error *err);

/* ---- record.c ---- */

/* The most steps that a recording in the folder has so far, 0 while none has any; how long one of
 * them takes. `rank` -1: whatever its rank. */
int lk_record_steps_so_far(const char *folder, int rank, double *step_s);

/* ---- record_elf: what a program is linked with. */

/* Whether a file is an ELF program or library that says it needs a library whose name begins so
 * ("libnccl.so"). What it needs indirectly is not looked at. */
bool lk_elf_needs(const char *path, const char *library);

#endif
