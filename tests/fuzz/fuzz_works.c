/* fuzz_works.c: any bytes are an execution trace (PyTorch's JSON, Chakra's JSON or protobuf) whose
 * lists stay within their bounds, or an error; and what was read can be lifted to a graph that the
 * checker accepts, or is an error. */
#include <stdlib.h>

#include "trace/lift/lift.h"
#include "trace/read/read.h"
#include "../unit/works_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lists(const lk_works *works) {
	for (uint32_t i = 0; i < works->count; i++) {
		if (works->parent[i] != LK_NONE && works->parent[i] >= i) abort();
		if (works->tensor_begin[i + 1] < works->tensor_begin[i] ||
		    works->tensor_begin[i + 1] > works->tensors.count)
			abort();
		for (uint32_t d = works->data_begin[i]; d < works->data_begin[i + 1]; d++)
			if (works->data[d] >= works->count) abort();
		for (uint32_t d = works->control_begin[i]; d < works->control_begin[i + 1]; d++)
			if (works->control[d] >= works->count) abort();
		if (!lk_works_text(works, works->name[i]) || !lk_works_text(works, works->shape[i]))
			abort();
	}
	for (size_t i = 0; i < works->comms.count; i++)
		if (lk_works_comm(works, works->comms.at[i].note.event) == NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_read_limits limits = {.events = 10000, .names = 10000, .shapes = true};
	lk_error err = {0};
	lk_works *works = NULL;
	lk_graph *graph = NULL;
	lk_works_lifted report;
	if (read_works_memory(data, size, "fuzz", &limits, &works, &err) != LK_OK) {
		if (works || err.status == LK_OK) abort();
		return 0;
	}
	check_lists(works);
	const lk_works *ranks[] = {works, works};
	lk_overheads *overheads = lk_overheads_new(); /* of nothing: every mean of it is NAN */
	if (lk_works_lift(ranks, 2, overheads, &graph, &report, &err) == LK_OK) {
		if (lk_graph_check(graph, &err) != LK_OK) abort();
		lk_works_lifted_free(&report);
	} else if (graph || err.status == LK_OK) {
		abort();
	}
	lk_overheads_free(overheads);
	lk_graph_free(graph);
	lk_works_free(works);
	return 0;
}
