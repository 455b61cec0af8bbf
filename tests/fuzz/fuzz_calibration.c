/* fuzz_calibration.c: any bytes are rows of fitted numbers or an error that says where; what was
 * read is written as a text that reads back as the same rows. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cost/calibration/calibration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lk_status take(const void *bytes, size_t size, lk_calibration *out, lk_error *err) {
	lk_stream *in;
	if (lk_stream_memory(bytes, size, "c.csv", &in, err) != LK_OK) return LK_ERR_INPUT;
	lk_status status = lk_calibration_read(in, out, err);
	lk_stream_close(in);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_calibration first = {0}, again = {0};
	lk_error err = {0};
	lk_status status = take(data, size, &first, &err);
	if (status != LK_OK && !err.where[0]) abort();
	if (status == LK_OK) {
		char *text = NULL;
		size_t length = 0;
		FILE *out = open_memstream(&text, &length);
		if (!out) abort();
		lk_calibration_write(&first, out);
		fclose(out);
		if (take(text, length, &again, &err) != LK_OK || again.rows.count != first.rows.count)
			abort();
		char *twice = NULL;
		size_t more = 0;
		if (!(out = open_memstream(&twice, &more))) abort();
		lk_calibration_write(&again, out);
		fclose(out);
		if (length != more || memcmp(text, twice, length) != 0) abort();
		free(text);
		free(twice);
	}
	lk_calibration_free(&first);
	lk_calibration_free(&again);
	return 0;
}
