/* threads.c: loaded before a unit-test program (cmocka). ./check runs with the thread sanitizer the
 * tests that it has something to look at in, and no others.
 *
 *   LOCKSTEP_THREADED=FILE   FILE gets the names of the tests that start a thread, a line each time
 *   LOCKSTEP_ONLY=FILE       of the program's tests those that FILE names are run */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef int group_runner(const char *, const struct CMUnitTest *, size_t, CMFixtureFunction,
                         CMFixtureFunction);

static const struct CMUnitTest *tests; /* those that are run, in order */
static size_t begun;                   /* of them */

static const char *setting(const char *name) {
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *context) {
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	const char *path = setting("LOCKSTEP_THREADED");
	int file = path && begun ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
	if (file >= 0) dprintf(file, "%s\n", tests[begun - 1].name);
	if (file >= 0) close(file);
	return create ? create(thread, attributes, run, context) : EAGAIN;
}

/* Runs before each test: cmocka does not say which one it is at. */
static int begin_test(void **state) {
	const struct CMUnitTest *test = &tests[begun++];
	return test->setup_func ? test->setup_func(state) : 0;
}

static int is_named(const char *path, const char *name) {
	char line[256];
	int found = 0;
	FILE *file = fopen(path, "r");
	while (file && !found && fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = '\0';
		found = strcmp(line, name) == 0;
	}
	if (file) fclose(file);
	return found;
}

int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *const all,
                            const size_t count, CMFixtureFunction setup,
                            CMFixtureFunction teardown) {
	group_runner *run;
	*(void **)&run = dlsym(RTLD_NEXT, "_cmocka_run_group_tests");
	const char *only = setting("LOCKSTEP_ONLY");
	struct CMUnitTest *kept = calloc(2 * count, sizeof *kept), *watched = kept + count;
	size_t used = 0;
	if (!run || !kept) return 1;
	for (size_t i = 0; i < count; i++)
		if (!only || is_named(only, all[i].name)) kept[used++] = all[i];
	for (size_t i = 0; i < used; i++) {
		watched[i] = kept[i];
		watched[i].setup_func = begin_test;
	}
	tests = kept;
	begun = 0;
	int failed = run(name, watched, used, setup, teardown);
	free(kept);
	return failed;
}
