/* mark.h: name a part of a program's work, which `lockstep stalls` then reports on its own.
 *
 *     #include <lockstep/mark.h>
 *
 *     lockstep_mark_begin("compress");
 *     compress(gradients);
 *     lockstep_mark_end();
 *
 *     { LOCKSTEP_MARK("compress"); compress(gradients); }     ends with the block (gcc, clang)
 *
 * Marks nest; time belongs to the innermost mark of its thread. Nothing is linked: the functions
 * are those of the recorder, where `lockstep record` or `lockstep stalls` has loaded it. Otherwise
 * each call is a load and a branch. With glibc before 2.34 the program needs -ldl.
 *
 * Any thread may call them, at any time; there are no errors. `name` is copied; NULL is "". */
#ifndef LOCKSTEP_MARK_H
#define LOCKSTEP_MARK_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the recorder defines; all NULL without it. */
typedef struct lockstep_mark_calls {
	void (*begin)(const char *name);
	void (*end)(void);
	int found; /* looked for */
} lockstep_mark_calls;

/* The recorder's functions, looked for once in a file; NULL: nothing is recorded. Threads that look
 * at the same time find the same. */
static inline const lockstep_mark_calls *lockstep_mark_find(void) {
	static lockstep_mark_calls calls;
	if (!__atomic_load_n(&calls.found, __ATOMIC_ACQUIRE)) {
		void *begin = dlsym(NULL, "lockstep_probe_mark_begin");
		void *end = dlsym(NULL, "lockstep_probe_mark_end");
		__atomic_store((void **)&calls.begin, &begin, __ATOMIC_RELAXED);
		__atomic_store((void **)&calls.end, &end, __ATOMIC_RELAXED);
		__atomic_store_n(&calls.found, 1, __ATOMIC_RELEASE);
	}
	return &calls;
}

/* From here on the calling thread works on `name`. */
static inline void lockstep_mark_begin(const char *name) {
	const lockstep_mark_calls *calls = lockstep_mark_find();
	if (calls->begin) calls->begin(name);
}

/* The mark that the calling thread began last ends. */
static inline void lockstep_mark_end(void) {
	const lockstep_mark_calls *calls = lockstep_mark_find();
	if (calls->end) calls->end();
}

static inline void lockstep_mark_leave(const char *const *name) {
	(void)name;
	lockstep_mark_end();
}

/* A mark until the end of the enclosing block; one in a block. */
#define LOCKSTEP_MARK(name_)                                                              \
	__attribute__((cleanup(lockstep_mark_leave))) const char *lockstep_mark_name = name_; \
	lockstep_mark_begin(lockstep_mark_name)

#ifdef __cplusplus
}
#endif
#endif
