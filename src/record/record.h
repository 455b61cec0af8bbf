/* record.h: runs a command with the recorder, and summarises its recordings.
 *
 *     record_elf.c        the libraries that a program is linked with
 *     record_programs.c   the programs of a command
 *     record_settings.c   the recorder's settings
 *     record_steps.c      the recordings of a folder, and their steps so far
 *     record_run.c        the command in a process group: start, limits, end
 *     record_scratch.c    the folder for an overlaid run's writes
 *     record_python.c     modules that Python loads before the program
 *     record_emulated.c   the command as one emulated rank after another
 *     record.c            lk_record: the request and its answer */
#ifndef LK_RECORD_RECORD_H
#define LK_RECORD_RECORD_H

#include <limits.h>
#include <stdbool.h>

#include "base/vec.h"
#include "lockstep/record.h"
#include "rendezvous/rendezvous.h"
#include "trace/read/read.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* ---- record_elf.c ---- */

/* Whether a file is an ELF program or library of this machine's byte order that directly needs this
 * library ("libnccl.so.2"). */
bool lk_elf_needs(const char *path, const char *library);
/* Whether the path of a program's loader contains `part`. */
bool lk_elf_has_loader(const char *path, const char *part);

/* ---- record_programs.c ---- */

enum { LK_PROGRAM_NAME = 256 };

/* The names of programs that are recorded from their start: the requested ones, else the command's
 * program, for a script its interpreter; NULL for launchers and shells. `room` may hold the
 * answer. */
const char *lk_record_programs(const lk_record_request *request, char room[LK_PROGRAM_NAME]);
/* A library of lockstep ("liblockstep-probe.so"): next to the program, else in the lib folder of
 * its installation; NULL if it is missing. LK_ERR_MEMORY. */
lk_status lk_record_library(const char *name, lk_arena *arena, const char **out, lk_error *err);
/* Where the shell would find a program; NULL: nowhere. */
const char *lk_program_in_path(const char *name, char room[PATH_MAX]);
/* Whether a text of at most 32 bytes occurs in the first 64 MiB of a file. */
bool lk_file_contains(const char *path, const char *text);
/* Whether the command uses MPICH or a derivative: by request, by the launcher's name, or by the
 * libraries of a program of it. */
bool lk_command_uses_mpich(const lk_record_request *request);
/* Refuse --mpi if it names another library than a program of the command is built with. */
lk_status lk_record_check_mpi(const lk_record_request *request, lk_error *err);
/* Refuse a command linked with musl, into which the recorder cannot be loaded. */
lk_status lk_record_check_libc(const lk_record_request *request, lk_error *err);

/* ---- record_settings.c ---- */

/* An environment variable of the command's processes. */
typedef struct lk_record_setting {
	const char *name, *value;
} lk_record_setting;
typedef LK_VEC(lk_record_setting) lk_record_settings;

/* All settings of the recorder. `folder` and `scratch` ("" none) are absolute; texts are in the
 * arena. */
lk_status lk_record_settings_of(const lk_record_request *request, const char *folder,
                                const char *scratch, lk_arena *arena, lk_record_settings *out,
                                lk_error *err);
/* `value` NULL: memory ran out while making it. */
lk_status lk_record_set(lk_record_settings *out, const char *name, const char *value,
                        lk_error *err);

/* ---- record_steps.c ---- */

/* The number of processes that could not begin their recording: it kept its hidden name. */
lk_status lk_record_count_unbegun(const char *folder, int *out, lk_error *err);
/* Load one recording without those of forked processes, and its steps. `*out` false: it is still
 * empty. LK_ERR_IO, LK_ERR_MEMORY. */
lk_status lk_record_load(const char *path, lk_intern *texts, lk_recorded_run *run,
                         lk_recorded_steps *steps, bool *out, lk_error *err);
int lk_record_count_steps(const lk_recorded_steps *steps);
/* The median of a step's seconds; NAN without steps. */
lk_status lk_record_step_time(const lk_recorded_steps *steps, double *out, lk_error *err);
/* The most steps of any recording in the folder so far, 0 while there are none; and the time of a
 * step. `rank` -1: any rank. */
int lk_record_steps_so_far(const char *folder, int rank, double *step_s);

/* ---- record_run.c ---- */

typedef struct lk_run_end {
	int status; /* of the command; 128 + signal */
	lk_record_end end;
	double wall_s;
	lk_store_served served; /* by the rendezvous of emulated ranks */
} lk_run_end;
/* Run the command until it ends, has enough steps, or its time is over. */
lk_status lk_record_command(const lk_record_request *request, const lk_record_settings *settings,
                            const char *folder, lk_run_end *out, lk_error *err);

/* ---- record_scratch.c ---- */

typedef struct lk_record_scratch {
	char path[PATH_MAX];              /* absolute, without links; "" the run writes normally */
	bool private;                     /* it is removed afterwards */
	LK_VEC(lk_record_change) changes; /* by path */
	LK_VEC(const char *) unguarded;   /* lines about what the overlay did not reach */
} lk_record_scratch;

lk_status lk_record_is_empty_folder(const char *path, bool *out, lk_error *err);
/* Whether the run is overlaid (recorder/overlay): because it is not the real one, or by request. */
bool lk_record_is_guarded(const lk_record_request *request);
lk_status lk_record_scratch_open(const lk_record_request *request, const char *folder,
                                 lk_record_scratch *out, lk_error *err);
/* Fill `changes` and `unguarded` after the run. */
lk_status lk_record_scratch_sum(lk_record_scratch *scratch, lk_arena *arena, lk_error *err);
/* record_escapes.c: add to `unguarded` the files below the working folder that changed on the disk
 * since the folder was made; `folder`: of the recordings. */
lk_status lk_record_find_escapes(lk_record_scratch *scratch, const char *folder, lk_arena *arena,
                                 lk_error *err);
void lk_record_scratch_remove(lk_record_scratch *scratch); /* unless the user named it */
void lk_record_scratch_free(lk_record_scratch *scratch);

/* ---- record_python.c ---- */

/* Create a file that only this user can read. */
lk_status lk_record_write_private(const char *folder, const char *name, const char *text,
                                  size_t size, lk_error *err);
/* Write the modules into a new folder FOLDER/python. */
lk_status lk_record_write_python(const char *folder, lk_error *err);
/* PYTHONPATH with FOLDER/python before what is in it; NULL: no memory. */
const char *lk_record_python_path(const char *folder, lk_arena *arena);

/* ---- record_emulated.c ---- */

/* Set the mode of a command that is to run as emulated ranks, or report what is wrong with the
 * request. */
lk_status lk_record_check_emulated(lk_record_request *request, lk_error *err);
/* Run the command normally, or as one rank after another of an emulated world, until a run fails.
 * `folder` is absolute. */
lk_status lk_record_runs(const lk_record_request *request, const char *folder, const char *scratch,
                         lk_arena *arena, lk_run_end *out, lk_error *err);

#endif
