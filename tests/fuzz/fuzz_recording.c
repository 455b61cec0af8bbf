/* fuzz_recording.c: any bytes are a recording as far as they are whole, shown as a capture whose
 * steps can be asked for, or an error. */
#include <stdlib.h>

#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lk_status show(lk_recording *recording, lk_capture *capture, lk_error *err) {
	lk_read_limits limits = {.events = 20000, .names = 20000};
	lk_capture_steps steps = {0};
	lk_recorded_run run;
	LK_TRY(lk_recorded_take(recording, &limits, capture->names, &run, err));
	lk_status status = lk_recording_show(&run, capture, err);
	lk_recorded_free(&run);
	if (status == LK_OK) status = lk_capture_finish(capture, err);
	if (status == LK_OK) status = lk_capture_find_steps(capture, &steps, err);
	lk_vec_free(&steps);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_recording recording;
	lk_error err = {0};
	if (lk_recording_of("fuzz", data, size, &recording, &err) != LK_OK) {
		if (err.status == LK_OK) abort();
		return 0;
	}
	lk_capture *capture = lk_capture_new("fuzz", "recording");
	if (!capture) abort();
	if (show(&recording, capture, &err) != LK_OK && err.status == LK_OK) abort();
	lk_capture_free(capture);
	lk_recording_close(&recording);
	return 0;
}
