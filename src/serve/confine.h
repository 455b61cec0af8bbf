/* confine.h: what the child of a question may use. */
#ifndef LK_SERVE_CONFINE_H
#define LK_SERVE_CONFINE_H

#include <stdbool.h>

typedef struct lk_limits {
	double memory_bytes;    /* address space */
	double cpu_seconds;     /* of all threads together */
} lk_limits;

/* Whether this kernel can confine a process to files (Landlock, Linux 5.13). */
bool lk_confine_possible(void);

/* For a process that is about to answer a question and has the working folder in which its files lie: from now on files
 * can be read below that folder and nowhere else, nothing can be written, run or connected, and the limits hold. The
 * second says whether files are confined: false where the kernel cannot. Both are for processes with one thread. */
void lk_confine_limits(const lk_limits *limits);
bool lk_confine_files(void);

#endif
