/* fuzz_explain.c: any bytes are a trace that can be explained or an error; parts of the time add up
 * to the whole. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "explain/explain.h"
#include "trace/kineto/kineto.h"
#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lk_capture *read_capture(const uint8_t *data, size_t size) {
	static const lk_read_limits limits = {.events = 10000, .names = 10000};
	lk_error err = {0};
	lk_stream *in;
	if (lk_stream_memory(data, size, "trace", &in, &err) != LK_OK) return NULL;
	lk_capture *capture = lk_capture_new("trace", "Kineto JSON");
	bool good = capture && lk_kineto_read(in, &limits, capture, &err) == LK_OK &&
	            lk_capture_finish(capture, &err) == LK_OK;
	lk_stream_close(in);
	if (good) return capture;
	lk_capture_free(capture);
	return NULL;
}

static void check(const lk_explanation *explanation) {
	for (int i = 0; i < explanation->rank_count; i++) {
		const lk_explain_rank *rank = &explanation->ranks[i];
		if (rank->idle_ns + rank->compute_ns + rank->non_compute_ns != rank->kernel_time_ns)
			abort();
		if (rank->exposed_communication_ns + rank->exposed_memory_ns != rank->non_compute_ns)
			abort();
		if (rank->idle_data_ns + rank->idle_sync_ns + rank->idle_host_ns + rank->idle_other_ns !=
		    rank->idle_ns)
			abort();
		if (rank->idle_data_ns < 0 || rank->idle_sync_ns < 0 || rank->idle_host_ns < 0 ||
		    rank->idle_other_ns < 0)
			abort();
	}
	for (int i = 0; i < explanation->step_rows; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		if (step->compute_ns + step->exposed_communication_ns + step->exposed_memory_ns +
		        step->idle_ns !=
		    step->dur_ns)
			abort();
	}
	for (int i = 0; i < explanation->stall_count; i++)
		if (!(explanation->stalls[i].lost_s > 0) || !*explanation->stalls[i].evidence) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_capture *capture = read_capture(data, size);
	lk_explain_request request;
	lk_traces *traces;
	lk_explanation *explanation;
	lk_error err = {0};
	lk_explain_defaults(&request);
	if (!capture || lk_traces_make(&capture, 1, &traces, &err) != LK_OK) return 0;
	if (lk_explain_make(traces, &request, &explanation, &err) != LK_OK) return 0;
	check(explanation);
	FILE *nowhere = fopen("/dev/null", "w");
	for (int format = 0; nowhere && format < 5; format++)
		if (lk_explain_print(explanation, format, LK_EXPLAIN_ALL, false, NULL, nowhere, &err) !=
		    LK_OK)
			abort();
	if (nowhere) fclose(nowhere);
	lk_explain_free(explanation);
	return 0;
}
