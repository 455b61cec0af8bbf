/* read_trace.c: reads traces as lockstep does and says what came of each: what bench/run.sh times.
 *
 *     read_trace FILE...
 *
 * prints per file: events kept, bytes of JSON, processor seconds, MB of JSON per processor
 * second. */
#include <stdio.h>
#include <time.h>
#include "trace/capture/capture.h"
#include "trace/read/read.h"

static double processor_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int read_one(const char *path) {
	lk_capture *capture;
	lk_error err = {0};
	char text[1024];
	double start = processor_s();
	if (lk_trace_read(path, false, NULL, &capture, &(lk_works *){NULL}, &err) != LK_OK) {
		fprintf(stderr, "read_trace: %s\n", lk_error_text(&err, text, sizeof text));
		return 2;
	}
	double used = processor_s() - start;
	printf("%u %llu %.3f %.0f\n", capture->count, (unsigned long long)capture->bytes_read, used,
	       (double)capture->bytes_read / used / 1e6);
	for (size_t i = 0; i < capture->warnings.count; i++)
		fprintf(stderr, "%s\n", capture->warnings.at[i]);
	lk_capture_free(capture);
	return 0;
}

int main(int argc, char **argv) {
	if (argc < 2) {
		fputs("usage: read_trace FILE...\n", stderr);
		return 2;
	}
	int status = 0;
	for (int i = 1; i < argc; i++) status |= read_one(argv[i]);
	return status;
}
