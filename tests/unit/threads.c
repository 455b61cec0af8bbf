/* threads.c: loaded before a program, it leaves the file $LOCKSTEP_THREADED when the program starts
 * a thread. So ./check knows which unit tests the thread sanitizer has something to look at in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *context) {
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	const char *path = getenv("LOCKSTEP_THREADED");
	int file = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) : -1;
	if (file >= 0) close(file);
	return create ? create(thread, attributes, run, context) : EAGAIN;
}
