/* fuzz_topology.c: whatever nvidia-smi may print is a matrix of links or none; the pairs that are
 * joined are counted within it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/host/meter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_topology topology;
	char *text = malloc(size + 1);
	if (!text) return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (lk_topology_read(text, &topology)) {
		int pairs, joined = lk_topology_joined(&topology, &pairs);
		if (topology.gpus < 1 || topology.gpus > LK_TOPOLOGY_GPUS || joined < 0 || joined > pairs)
			abort();
	}
	free(text);
	return 0;
}
