/* fuzz_kineto.c: any bytes are a capture that keeps its promises, or an error that names a place.
 */
#include <stdint.h>
#include <stdlib.h>
#include "trace/kineto/kineto.h"
#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_event(const lk_capture *capture, uint32_t i) {
	if (capture->kind[i] >= LK_EVENT_KINDS || capture->lane[i] >= capture->lanes.count ||
	    capture->name[i] >= lk_intern_count(capture->names))
		abort();
	if (capture->start_ns[i] < 0 || capture->dur_ns[i] < 0 ||
	    lk_event_end(capture, i) < capture->start_ns[i])
		abort();
	uint32_t parent = capture->parent[i], launch = capture->launch[i];
	if (parent != LK_NONE && (capture->lane[parent] != capture->lane[i] ||
	                          capture->start_ns[parent] > capture->start_ns[i]))
		abort();
	if (parent != LK_NONE && lk_event_end(capture, parent) < lk_event_end(capture, i)) abort();
	if (launch != LK_NONE && capture->joins[launch] != capture->joins[i]) abort();
}

static void check(const lk_capture *capture) {
	for (uint32_t i = 0; i < capture->count; i++) check_event(capture, i);
	for (size_t l = 0; l < capture->lanes.count; l++)
		for (uint32_t k = capture->lanes.at[l].begin; k + 1 < capture->lanes.at[l].end; k++)
			if (capture->start_ns[capture->order[k]] > capture->start_ns[capture->order[k + 1]])
				abort();
	for (size_t i = 0; i < capture->comms.count; i++)
		if (lk_capture_comm(capture, capture->comms.at[i].event) == NULL ||
		    (i && capture->comms.at[i - 1].event >= capture->comms.at[i].event))
			abort();
	for (size_t i = 0; i < capture->syncs.count; i++)
		if (lk_capture_sync(capture, capture->syncs.at[i].event) == NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const lk_read_limits limits = {
		.bytes = 1 << 22, .events = 100000, .names = 10000, .shapes = true};
	lk_stream *in;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "t.json", &in, &err) != LK_OK) return 0;
	lk_capture *capture = lk_capture_new("t.json", "Kineto JSON");
	if (!capture) abort();
	lk_status status = lk_kineto_read(in, &limits, capture, &err);
	if (status == LK_OK) status = lk_capture_finish(capture, &err);
	if (status == LK_OK) check(capture);
	else if (!err.where[0] || !err.what[0]) abort();
	lk_capture_free(capture);
	lk_stream_close(in);
	return 0;
}
