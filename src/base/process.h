/* process.h: another program run by its arguments, without a shell, under a time limit; what it
 * writes is kept. */
#ifndef LK_BASE_PROCESS_H
#define LK_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

enum { LK_PROCESS_ARGUMENTS = 64 };

typedef struct lk_process {
	const char *const *arguments; /* the program first (found on the PATH), NULL last */
	const char *const
		*settings;  /* "NAME=value" alongside this process's environment, NULL last; may be NULL */
	double seconds; /* after which it is ended */
	size_t limit; /* bytes of output that are kept of each stream; what is beyond is thrown away */
} lk_process;

typedef struct lk_process_end {
	int code;             /* exit status; 128 + the signal that ended it */
	bool late;            /* ended because of the time limit */
	char *out, *messages; /* standard output and error, '\0' after; to be freed */
} lk_process_end;

/* Errors: the program is not there, the system refused; LK_ERR_STOPPED: this thread was asked to
 * stop, and the program has been ended. It is asked to end, too, when this process dies. What the
 * program says with its exit status is no error. */
lk_status lk_process_run(const lk_process *process, lk_process_end *end, lk_error *err);
void lk_process_end_free(lk_process_end *end);
/* Whether a program of this name is on the PATH. */
bool lk_process_found(const char *name);
/* In a child: closes all descriptors from the first on; also by kernels without close_range(2),
 * before Linux 5.9. Takes no memory. */
void lk_process_close_from(int first);

#endif
