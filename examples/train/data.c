/* data.c: the data set: a head, then records of equal size: a class and seq * dim bytes, each the
 * difference to the one before. Decoding adds them up, and smooths as many times as asked. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train.h"

typedef struct head {
	char magic[8];
	int32_t count, bytes;
} head;

struct dataset {
	int fd, passes;
	head head;
	uint8_t *record;
};

static uint32_t next(uint32_t *state) {
	*state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
	return *state;
}

static int record_bytes(const shape *s) {
	return s->seq * s->dim;
}

/* Each class has its own wave; samples differ by noise. */
void dataset_write(const char *path, int count, const shape *s, unsigned seed) {
	head h = {"LKTRAIN", count, record_bytes(s)};
	uint32_t state = seed | 1;
	FILE *file = fopen(path, "wb");
	uint8_t *record = malloc((size_t)h.bytes + 1);
	if (!file || !record || fwrite(&h, sizeof h, 1, file) != 1) die("cannot write", path);
	for (int i = 0; i < count; i++) {
		uint8_t before = 0, class = (uint8_t)(next(&state) % CLASSES);
		record[0] = class;
		for (int k = 0; k < h.bytes; k++) {
			int wave = (k * (class + 1)) % 64;
			uint8_t value =
				(uint8_t)(96 + (wave < 32 ? wave : 64 - wave) + (int)(next(&state) % 17));
			record[1 + k] = (uint8_t)(value - before);
			before = value;
		}
		if (fwrite(record, (size_t)h.bytes + 1, 1, file) != 1) die("cannot write", path);
	}
	free(record);
	if (fclose(file) != 0) die("cannot write", path);
}

dataset *dataset_open(const char *path, const shape *s, int decode_passes) {
	dataset *d = calloc(1, sizeof *d);
	if (!d) die("no memory for", path);
	d->fd = open(path, O_RDONLY);
	if (d->fd < 0 || read(d->fd, &d->head, sizeof d->head) != sizeof d->head ||
	    memcmp(d->head.magic, "LKTRAIN", 8) != 0)
		die("is no data set", path);
	if (d->head.bytes != record_bytes(s) || d->head.count < 1)
		die("was written for another shape", path);
	d->passes = decode_passes;
	d->record = malloc((size_t)d->head.bytes + 1);
	if (!d->record) die("no memory for", path);
	return d;
}

int dataset_read(dataset *d, int64_t index, float *out) {
	size_t size = (size_t)d->head.bytes + 1;
	off_t at = (off_t)sizeof d->head + (off_t)(index % d->head.count) * (off_t)size;
	if (pread(d->fd, d->record, size, at) != (ssize_t)size) die("cannot read", "the data set");
	uint8_t value = 0;
	for (int k = 0; k < d->head.bytes; k++) {
		value = (uint8_t)(value + d->record[1 + k]);
		out[k] = ((float)value - 128) / 64;
	}
	for (int pass = 0; pass < d->passes; pass++)
		for (int k = 1; k < d->head.bytes; k++) out[k] = 0.9f * out[k] + 0.1f * out[k - 1];
	return d->record[0] % CLASSES;
}

void dataset_close(dataset *d) {
	close(d->fd);
	free(d->record);
	free(d);
}
