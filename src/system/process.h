/* process.h: run another program by its arguments, without a shell, under a time limit, and keep
 * its output. */
#ifndef LK_SYSTEM_PROCESS_H
#define LK_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

enum { LK_PROCESS_ARGUMENTS = 64 };

typedef struct lk_process {
	const char *const *arguments; /* the program first (found on the PATH), NULL last */
	const char *const
		*settings;  /* "NAME=value" in addition to this process's environment, NULL last; may be
		             * NULL */
	double seconds; /* time limit */
	size_t limit;   /* bytes kept of each output stream; the rest is discarded */
} lk_process;

typedef struct lk_process_end {
	int code;             /* exit status; 128 + the signal that ended it */
	bool late;            /* ended because of the time limit */
	char *out, *messages; /* standard output and error, ended by '\0'; to be freed */
} lk_process_end;

/* Run the program. Errors: the program does not exist, the system refused; LK_ERR_STOPPED: this
 * thread was asked to stop, and the program has been ended. The program is also asked to end when
 * this process dies. Its exit status is not an error. */
lk_status lk_process_run(const lk_process *process, lk_process_end *end, lk_error *err);
void lk_process_end_free(lk_process_end *end);
/* Whether a program of this name is on the PATH. */
bool lk_process_found(const char *name);
/* In a child: close all descriptors from `first` on, also on kernels without close_range(2), before
 * Linux 5.9. Allocates nothing. */
void lk_process_close_from(int first);

#endif
