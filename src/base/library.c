/* library.c: functions of a shared library, found when they are needed. */
#include "base/library.h"

#include <dlfcn.h>

static lk_status library_refused(const char *file, const char *package, lk_error *err) {
	const char *why = dlerror();
	lk_fail(err, LK_ERR_IO, file, "cannot be loaded: %.200s", why ? why : "no reason was given");
	return lk_hint(err, "install it (Debian: apt install %s)", package);
}

lk_status lk_library_load(const char *file, const char *package, const char *const *names,
                          void **calls, lk_error *err) {
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library) return library_refused(file, package, err);
	for (int i = 0; names[i]; i++)
		if (!(calls[i] = dlsym(library, names[i]))) return library_refused(file, package, err);
	return LK_OK;
}
