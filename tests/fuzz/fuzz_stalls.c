/* fuzz_stalls.c: any bytes as recordings of two ranks, on one host or two: parts of a step, or an
 * error that says why not. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/recording.h"
#include "lockstep/stalls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/lockstep-fuzz-XXXXXX";
static char path[2][PATH_MAX], stacks[PATH_MAX];

static void remove_all(void) {
	for (int i = 0; i < 2; i++) unlink(path[i]);
	unlink(stacks);
	rmdir(folder);
}

static void put(const char *to, const uint8_t *data, size_t size, int32_t rank, bool other_host) {
	FILE *out = fopen(to, "wb");
	lk_recording_head head;
	if (!out) abort();
	memcpy(&head, data, sizeof head);
	head.rank = rank;
	head.world = 2;
	head.pid += (uint32_t)rank;
	if (other_host) head.host[0] ^= 1;
	if (fwrite(&head, sizeof head, 1, out) != 1) abort();
	if (size > sizeof head && fwrite(data + sizeof head, size - sizeof head, 1, out) != 1) abort();
	if (fclose(out) != 0) abort();
}

static void begin(void) {
	if (!mkdtemp(folder)) abort();
	for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "%s/%d.lkrec", folder, i);
	snprintf(stacks, sizeof stacks, "%s/stacks", folder);
	atexit(remove_all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_recording_head head;
	lk_stalls_request request;
	lk_stalls_answer *answer = NULL;
	lk_error err = {0};
	if (size < sizeof head) return 0;
	if (!*path[0]) begin();
	memcpy(&head, data, sizeof head);
	put(path[0], data, size, 0, false);
	put(path[1], data, size, 1, head.pid & 1);
	lk_stalls_defaults(&request);
	request.recording = folder;
	request.warmup = (int)(head.pid >> 1 & 1);
	lk_status status = lk_stalls(&request, &answer, &err);
	if (status != LK_OK && (err.status == LK_OK || !*err.what)) abort();
	if (status == LK_OK) {
		for (int k = 0; k < answer->part_count; k++)
			if (answer->parts[k].seconds < 0) abort();
		if (lk_stalls_folded(answer, stacks, &err) != LK_OK) abort();
	}
	lk_stalls_free(answer);
	return 0;
}
