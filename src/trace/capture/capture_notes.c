/* capture_notes.c: sparse data of events, found by binary search. */
#include "trace/capture/capture.h"

#include <stdlib.h>
#include "base/check.h"
#include "base/sort.h"

int lk_note_order(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

void lk_notes_sort(void *notes, size_t count, size_t size) {
	const char *at = notes;
	for (size_t i = 1; i < count; i++)
		if (lk_note_order(at + (i - 1) * size, at + i * size) > 0) {
			lk_sort(notes, count, size, lk_note_order);
			return;
		}
}

/* The note of an event, or NULL. Searches without unpredictable branches, as it is called for every
 * kernel many times. */
static inline const void *find_note(const void *notes, size_t count, size_t size, uint32_t event) {
	const char *at = notes;
	if (!count) return NULL;
	for (size_t left = count; left > 1;) {
		size_t half = left / 2;
		at = *(const uint32_t *)(const void *)(at + half * size) <= event ? at + half * size : at;
		left -= half;
	}
	return *(const uint32_t *)(const void *)at == event ? at : NULL;
}

#define FIND_NOTE(notes, event) find_note((notes).at, (notes).count, sizeof *(notes).at, event)

/* Without memory for the bits, lk_capture_comm searches for every event. */
void lk_capture_sort_comms(lk_capture *capture) {
	lk_notes_sort(capture->comms.at, capture->comms.count, sizeof *capture->comms.at);
	free(capture->comm_bits);
	capture->comm_bits = calloc((size_t)capture->count / 64 + 1, sizeof *capture->comm_bits);
	for (size_t i = 0; capture->comm_bits && i < capture->comms.count; i++) {
		uint32_t event = capture->comms.at[i].event;
		capture->comm_bits[event / 64] |= UINT64_C(1) << event % 64;
	}
}

const lk_comm_note *lk_capture_comm(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	if (capture->comm_bits && !(capture->comm_bits[event / 64] >> event % 64 & 1)) return NULL;
	return FIND_NOTE(capture->comms, event);
}

const lk_sync_note *lk_capture_sync(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	return FIND_NOTE(capture->syncs, event);
}

const lk_shape_note *lk_capture_shape(const lk_capture *capture, uint32_t event) {
	static const lk_shape_note nothing = {0};
	LK_ASSERT(event < capture->count);
	const lk_shape_note *note = FIND_NOTE(capture->shapes, event);
	return note ? note : &nothing;
}

int64_t lk_capture_copied(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	const lk_copy_note *note = FIND_NOTE(capture->copies, event);
	return note ? note->bytes : 0;
}

const lk_kind_note *lk_capture_kind(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	return FIND_NOTE(capture->kinds, event);
}

const lk_grad_note *lk_capture_grad(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	return FIND_NOTE(capture->grads, event);
}
