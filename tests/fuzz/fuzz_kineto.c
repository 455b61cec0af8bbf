/* fuzz_kineto.c: any bytes are a capture that keeps its promises, or an error that names a place. */
#include <stdint.h>
#include <stdlib.h>
#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_event(const lk_capture *c, uint32_t i) {
	if (c->kind[i] >= LK_EVENT_KINDS || c->lane[i] >= c->lanes.count || c->name[i] >= lk_intern_count(c->names)) abort();
	if (c->start_ns[i] < 0 || c->dur_ns[i] < 0 || lk_event_end(c, i) < c->start_ns[i]) abort();
	uint32_t parent = c->parent[i], launch = c->launch[i];
	if (parent != LK_NONE && (c->lane[parent] != c->lane[i] || c->start_ns[parent] > c->start_ns[i])) abort();
	if (parent != LK_NONE && lk_event_end(c, parent) < lk_event_end(c, i)) abort();
	if (launch != LK_NONE && c->correlation[launch] != c->correlation[i]) abort();
}

static void check(const lk_capture *c) {
	for (uint32_t i = 0; i < c->count; i++) check_event(c, i);
	for (size_t l = 0; l < c->lanes.count; l++)
		for (uint32_t k = c->lanes.at[l].begin; k + 1 < c->lanes.at[l].end; k++)
			if (c->start_ns[c->order[k]] > c->start_ns[c->order[k + 1]]) abort();
	for (size_t i = 0; i < c->comms.count; i++)
		if (lk_capture_comm(c, c->comms.at[i].event) == NULL || (i && c->comms.at[i - 1].event >= c->comms.at[i].event)) abort();
	for (size_t i = 0; i < c->syncs.count; i++)
		if (lk_capture_sync(c, c->syncs.at[i].event) == NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const lk_read_limits limits = {.bytes = 1 << 22, .events = 100000, .names = 10000, .shapes = true};
	lk_stream *in;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "t.json", &in, &err) != LK_OK) return 0;
	lk_capture *c = lk_capture_new("t.json", "Kineto JSON");
	if (!c) abort();
	lk_status status = lk_kineto_read(in, &limits, c, &err);
	if (status == LK_OK) status = lk_capture_finish(c, &err);
	if (status == LK_OK) check(c);
	else if (!err.where[0] || !err.what[0]) abort();
	lk_capture_free(c);
	lk_stream_close(in);
	return 0;
}
