/* report_inputs.c: the files after a report by their content, so that two reports can be told to
 * be of the same. Small files are hashed whole; of large ones their size, their first and their
 * last MiB: a trace of gigabytes is not read twice. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "view/report/report.h"

enum { MIB = 1 << 20, WHOLE = 4 * MIB, MOST_HASHED = 64, MOST_NAMED = 2048, HEX = 65 };

static bool inputs_add_part(lk_sha256 *sha256, int fd, char *buffer, off_t from, off_t size) {
	while (size > 0) {
		ssize_t got = pread(fd, buffer, size < MIB ? (size_t)size : (size_t)MIB, from);
		if (got <= 0) return false;
		lk_sha256_add(sha256, buffer, (size_t)got);
		from += got;
		size -= got;
	}
	return true;
}

static bool inputs_hash(int fd, off_t size, char out[HEX]) {
	char *buffer = malloc(MIB), text[32];
	unsigned char bytes[32];
	lk_sha256 h;
	lk_sha256_begin(&h);
	bool fine = buffer != NULL;
	if (size <= WHOLE) {
		fine = fine && inputs_add_part(&h, fd, buffer, 0, size);
	} else {
		int length = snprintf(text, sizeof text, "%lld\n", (long long)size);
		lk_sha256_add(&h, text, (size_t)length);
		fine = fine && inputs_add_part(&h, fd, buffer, 0, MIB) &&
		       inputs_add_part(&h, fd, buffer, size - MIB, MIB);
	}
	lk_sha256_end(&h, bytes);
	for (int i = 0; i < 32; i++) snprintf(out + (size_t)2 * (size_t)i, 3, "%02x", bytes[i]);
	free(buffer);
	return fine;
}

static void put_input(lk_report *writer, const char *path, bool hashed) {
	struct stat info;
	char hex[HEX];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool known = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "path", path);
	if (known) lk_json_put_integer(writer, "bytes", (long long)info.st_size);
	else lk_json_put_null(writer, "bytes");
	if (known && hashed && inputs_hash(fd, info.st_size, hex))
		lk_json_put_text(writer, info.st_size <= WHOLE ? "sha256" : "sha256_ends", hex);
	lk_json_object_end(writer);
	if (fd >= 0) close(fd);
}

void lk_report_inputs(lk_report *writer, const lk_inputs *inputs) {
	int named = inputs->count < MOST_NAMED ? inputs->count : MOST_NAMED;
	lk_json_array(writer, "inputs");
	for (int i = 0; i < named; i++) put_input(writer, inputs->paths[i], i < MOST_HASHED);
	lk_json_array_end(writer);
	if (named < inputs->count)
		lk_json_put_integer(writer, "inputs_left_out", inputs->count - named);
}
