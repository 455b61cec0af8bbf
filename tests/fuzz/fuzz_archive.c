/* fuzz_archive.c: any bytes are an archive whose members can be listed and unpacked, or an error.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct members {
	char first[512];
	int count;
};

static lk_status keep_first(void *context, const char *name, lk_error *err) {
	struct members *members = context;
	(void)err;
	if (members->count++ == 0) snprintf(members->first, sizeof members->first, "%s", name);
	return LK_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char path[] = "/dev/shm/fuzz_archive.XXXXXX", member[600];
	struct members members = {.count = 0};
	lk_error err = {0};
	lk_stream *in;
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) abort();
	fwrite(data, 1, size, file);
	fclose(file);
	if (lk_archive_is(path)) {
		lk_status status = lk_archive_list(path, keep_first, &members, &err);
		if (status != LK_OK && err.status == LK_OK) abort();
		snprintf(member, sizeof member, "%s!%s", path, members.first);
		if (members.count && lk_archive_open(member, &in, &err) == LK_OK) lk_stream_close(in);
	}
	remove(path);
	return 0;
}
