/* library.c: functions of a shared library, resolved when needed. */
#include "system/library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

const lk_library lk_library_sqlite = {"libsqlite3.so.0", "libsqlite3-0"},
				 lk_library_http = {"libmicrohttpd.so.12", "libmicrohttpd12"},
				 lk_library_svg = {"librsvg-2.so.2", "librsvg2-2"},
				 lk_library_cuda = {"libcuda.so.1", "nvidia-driver"};

bool lk_library_linked(const lk_library *library) {
#ifdef LK_LINKED
	return library == &lk_library_sqlite || library == &lk_library_http;
#else
	(void)library;
	return false;
#endif
}

#ifdef LK_STATIC

const bool lk_library_loads = false;

void *lk_library_open(const char *file) {
	(void)file;
	return NULL;
}

void *lk_library_find(void *library, const char *name) {
	(void)library, (void)name;
	return NULL;
}

#else

const bool lk_library_loads = true;

void *lk_library_open(const char *file) {
	return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

void *lk_library_find(void *library, const char *name) {
	return dlsym(library, name);
}

static lk_status library_refused(const lk_library *library, lk_error *err) {
	const char *why = dlerror();
	lk_fail(err, LK_ERR_IO, library->file, "cannot be loaded: %.200s",
	        why ? why : "no reason was given");
	return lk_hint(err, "install it (Debian: apt install %s)", library->package);
}

static lk_status library_resolve(const lk_library *library, const char *const *names, void *calls,
                                 lk_error *err) {
	void *loaded = lk_library_open(library->file);
	if (!loaded) return library_refused(library, err);
	for (int i = 0; names[i]; i++) {
		void *found = lk_library_find(loaded, names[i]);
		if (!found) return library_refused(library, err);
		memcpy((char *)calls + i * sizeof found, &found, sizeof found);
	}
	return LK_OK;
}

lk_status lk_library_load(const lk_library *library, lk_library_once *once,
                          const char *const *names, void *calls, lk_error *err) {
	pthread_mutex_lock(&once->lock);
	lk_status status = once->done ? LK_OK : library_resolve(library, names, calls, err);
	once->done = status == LK_OK;
	pthread_mutex_unlock(&once->lock);
	return status;
}

#endif
