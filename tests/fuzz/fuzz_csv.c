/* fuzz_csv.c: any bytes are a table or an error that names a line; every row has the columns of the
 * header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "io/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_stream *in;
	lk_csv *csv = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "t.csv", &in, &err) != LK_OK) return 0;
	lk_status status = lk_csv_open(in, &csv, &err);
	size_t text = 0;
	for (bool more = status == LK_OK; more && status == LK_OK;) {
		status = lk_csv_next(csv, &more, &err);
		for (int c = 0; status == LK_OK && more && c < lk_csv_columns(csv); c++)
			text += strlen(lk_csv_field(csv, c));
	}
	if (status != LK_OK && !err.where[0]) abort();
	/* packed input may be longer than it looks */
	if (size >= 1 && data[0] != 0x1f && data[0] != 0x28 && (data[0] & 0xf0) != 0x50 && text > size)
		abort();
	lk_csv_close(csv);
	lk_stream_close(in);
	return 0;
}
