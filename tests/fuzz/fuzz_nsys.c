/* fuzz_nsys.c: any bytes after SQLite's magic are a database of Nsight Systems or AMD that can be
 * read, or an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_read_limits limits = {.events = 10000, .names = 10000, .shapes = true};
	lk_error err = {0};
	char path[] = "/tmp/fuzz_nsys.XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) abort();
	fwrite(data, 1, size, file);
	fclose(file);
	lk_capture *capture = lk_capture_new(path, "");
	if (!capture) abort();
	bool amd = false;
	lk_status status = lk_rocpd_found(path, &amd, &err);
	if (status == LK_OK)
		status = (amd ? lk_rocpd_read : lk_nsys_read)(path, &limits, capture, &err);
	if (status == LK_OK) status = lk_capture_finish(capture, &err);
	if (status != LK_OK && err.status == LK_OK) abort();
	lk_capture_free(capture);
	remove(path);
	return 0;
}
