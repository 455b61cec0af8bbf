/* capture_notes.c: what few events have, found by binary search. */
#include "trace/capture/capture.h"

#include <stdlib.h>
#include "base/check.h"

int lk_note_order(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

#define FIND_NOTE(notes, event)                                                            \
	((notes).count                                                                         \
	     ? bsearch(&(event), (notes).at, (notes).count, sizeof *(notes).at, lk_note_order) \
	     : NULL)

const lk_comm_note *lk_capture_comm(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
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
