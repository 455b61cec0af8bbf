/* record_python.c: the modules of data/python, where Python finds them before a program's own. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/embedded.h"
#include "record/record.h"

#define MODULES "python/"

lk_status lk_record_write_private(const char *folder, const char *name, const char *text,
                                  size_t size, lk_error *err) {
	char path[PATH_MAX + 64];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t put = fd >= 0 ? write(fd, text, size) : -1;
	int code = errno;
	if (fd >= 0) close(fd);
	return put == (ssize_t)size
	           ? LK_OK
	           : lk_fail(err, LK_ERR_IO, path, "cannot be written: %s", strerror(code));
}

lk_status lk_record_write_python(const char *folder, lk_error *err) {
	char path[PATH_MAX + sizeof MODULES];
	const char *name, *text;
	size_t size;
	snprintf(path, sizeof path, "%s/" MODULES, folder);
	if (mkdir(path, 0700) != 0)
		return lk_fail(err, LK_ERR_IO, path, "cannot be made: %s", strerror(errno));
	for (int i = 0; (text = lk_data_file_at(i, &name, &size)) != NULL; i++)
		if (lk_begins_with(name, MODULES))
			LK_TRY(lk_record_write_private(folder, name, text, size, err));
	/* in place of the folder in which Python would keep them compiled */
	return lk_record_write_private(folder, MODULES "__pycache__", "", 0, err);
}

const char *lk_record_python_path(const char *folder, lk_arena *arena) {
	const char *before = getenv("PYTHONPATH");
	bool more = before && *before;
	return lk_arena_printf(arena, "%s/python%s%s", folder, more ? ":" : "", more ? before : "");
}
