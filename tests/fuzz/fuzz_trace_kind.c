/* fuzz_trace_kind.c: any bytes have a kind, found within their bounds; a longer beginning never
 * turns one kind that was told into another that has no times, or the other way round; any name and
 * texts are a convolution's result or none. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/capture/capture.h"
#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory that ends where it ends. */
static lk_trace_kind kind_of(const uint8_t *data, size_t size) {
	char *exact = calloc(1, size ? size : 1);
	if (!exact) abort();
	if (size) memcpy(exact, data, size);
	lk_trace_kind kind = lk_trace_kind_of(exact, size);
	free(exact);
	return kind;
}

static bool told(lk_trace_kind kind) {
	return kind != LK_TRACE_OTHER && kind != LK_TRACE_OTHER_JSON;
}

/* Two texts, divided by the first '|'. */
static void convolve(const uint8_t *data, size_t size) {
	char text[512] = "", out[64];
	memcpy(text, data, size < sizeof text ? size : sizeof text - 1);
	char *values = strchr(text, '|');
	if (!values) return;
	*values++ = '\0';
	static const char *const names[] = {"aten::conv2d", "aten::_convolution",
	                                    "aten::cudnn_convolution", "aten::miopen_convolution"};
	for (int i = 0; i < 4; i++) {
		size_t room = i % 2 ? sizeof out : 16;
		if (lk_conv_result(names[i], text, values, out, room) &&
		    (strlen(out) >= room || out[0] != '[' || !strstr(out, "]]")))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_trace_kind whole = kind_of(data, size), half = kind_of(data, size / 2);
	if (whole > LK_TRACE_OTHER) abort();
	if (size / 2 >= 16 && told(half) && told(whole) && half != whole) abort();
	convolve(data, size);
	return 0;
}
