/* fuzz_topology_xml.c: any text is a node or an error, and a node has what the costs need. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "hw/hw_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_error err = {0};
	lk_stream *in;
	lk_node node;
	if (lk_stream_memory(data, size, "topology", &in, &err) != LK_OK) return 0;
	if (lk_topology_xml_read(in, &node, &err) == LK_OK)
		if (!node.device || node.gpus < 1 || node.nics < 1 || !(node.nic_rate > 0) ||
		    !isfinite(node.intra_rate))
			abort();
	lk_stream_close(in);
	return 0;
}
