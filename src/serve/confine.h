/* confine.h: what the child of a question may use. */
#ifndef LK_SERVE_CONFINE_H
#define LK_SERVE_CONFINE_H

#include <stdbool.h>

typedef struct lk_limits {
	double memory_bytes;    /* address space */
	double cpu_seconds;     /* of all threads together */
	int nice;               /* how far it gives way to others */
} lk_limits;

/* For a process with one thread that is about to answer a question, in whose working folder the files of the
 * question lie. lk_confine_limits: the limits hold from now on. lk_confine_files: files can be read below the
 * working folder, written there too where `writing` is true, and used nowhere else; nothing can be run or connected.
 * What was taken stays taken: a second call can only take more. False where the kernel cannot. */
void lk_confine_limits(const lk_limits *limits);
bool lk_confine_files(bool writing);

#endif
