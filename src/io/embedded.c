/* embedded.c: open a data file, from a directory that overrides the compiled-in ones. */
#include "io/embedded.h"

#include <stdio.h>
#include <unistd.h>

lk_status lk_data_open(const char *dir, const char *name, lk_stream **out, lk_error *err) {
	if (dir && *dir) {
		char path[4096];
		int length = snprintf(path, sizeof path, "%s/%s", dir, name);
		if (length < 0 || (size_t)length >= sizeof path)
			return lk_fail(err, LK_ERR_INPUT, "--data", "the path of the directory is too long");
		if (access(path, F_OK) == 0) return lk_stream_open(path, out, err);
		if (access(dir, X_OK) != 0) {
			lk_fail(err, LK_ERR_IO, dir, "cannot look into this directory");
			return lk_hint(err, "name a directory with %s in it, or leave it out", name);
		}
	}
	size_t size;
	const char *bytes = lk_data_file(name, &size);
	if (!bytes) return lk_fail(err, LK_ERR_INTERNAL, name, "no such file was compiled in");
	return lk_stream_memory(bytes, size, name, out, err);
}
