/* fuzz_compose.c: any bytes as recordings of ranks: one job, or an error that says why not. The
 * input is one recording, which is given once as it is and once as another rank. Worlds are kept
 * small: large ones are only slower. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/recording.h"
#include "lockstep/compose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WORLD = 32 };
static void put(const char *to, const uint8_t *data, size_t size, int32_t rank, int32_t world) {
	FILE *out = fopen(to, "wb");
	lk_recording_head head;
	if (!out) abort();
	memcpy(&head, data, sizeof head);
	head.rank = rank;
	head.world = world;
	head.mode = LK_RECORDED_AS_RANK;
	if (fwrite(&head, sizeof head, 1, out) != 1) abort();
	if (size > sizeof head && fwrite(data + sizeof head, size - sizeof head, 1, out) != 1) abort();
	if (fclose(out) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_recording_head head;
	lk_compose_request request;
	lk_composed *composed = NULL;
	lk_error err = {0};
	if (size < sizeof head) return 0;
	char folder[] = "/tmp/lockstep-fuzz-XXXXXX", path[2][64];
	if (!mkdtemp(folder)) abort();
	for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "%s/%d.lkrec", folder, i);
	memcpy(&head, data, sizeof head);
	int32_t world = (int32_t)((uint32_t)head.world % MOST_WORLD), rank = head.rank;
	put(path[0], data, size, rank, world);
	if (head.pid % 2)
		put(path[1], data, size, (int32_t)((uint32_t)world - 1 - (uint32_t)rank), world);
	lk_compose_defaults(&request);
	request.folder = folder,
	request.cluster = head.pid & 2 ? "4 node * 8 h100-sxm" : "4 node * 2 cpu, nic 1*1g";
	lk_status status = lk_compose(&request, &composed, &err);
	for (int i = 0; i < 2; i++) unlink(path[i]);
	rmdir(folder);
	if (status != LK_OK && err.status == LK_OK) abort();
	if (status == LK_OK && !(composed->step_s >= 0 && composed->low_s <= composed->step_s &&
	                         composed->high_s >= composed->step_s))
		abort();
	lk_compose_free(composed);
	return 0;
}
