/* fuzz_nccl_info.c: any text is what NCCL prints of a cluster, or an error; nodes have what the
 * costs need. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "hw/hw_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_error err = {0};
	lk_stream *in;
	lk_cluster_draft draft = LK_CLUSTER_DRAFT_INIT;
	if (lk_stream_memory(data, size, "nccl.log", &in, &err) != LK_OK) return 0;
	if (lk_nccl_info_read(in, size % 2 ? "h100-sxm" : "", &draft, &err) == LK_OK)
		for (size_t i = 0; i < draft.runs.count; i++) {
			const lk_node *node = &draft.runs.at[i].node;
			if (!node->device || node->gpus < 1 || node->nics < 1 || !(node->nic_rate > 0) ||
			    !isfinite(node->intra_rate))
				abort();
		}
	lk_vec_free(&draft.runs);
	lk_stream_close(in);
	return 0;
}
