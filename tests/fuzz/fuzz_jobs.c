/* fuzz_jobs.c: any bytes are a list of jobs, a cluster's log, or an error with a text; a list that
 * is read can be run with measured rates of its own making, under every policy. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "jobs/jobs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GPUS = 8, MOST = 40 };

/* As if every job had been measured with what it asks for, and with one GPU. */
static void give_rates(lk_arena *arena, lk_listed_job *job) {
	lk_jobs_rate *rates = LK_ARRAY(arena, lk_jobs_rate, 2);
	if (!rates) abort();
	int count = 0;
	if (job->job.gpus > 1) rates[count++] = (lk_jobs_rate){1, job->job.batch, 1};
	rates[count++] = (lk_jobs_rate){job->job.gpus, job->job.batch, sqrt(job->job.gpus)};
	job->job.rates = job->fixed = rates;
	job->job.rate_count = job->fixed_count = count;
	job->job.asked_per_s = rates[count - 1].per_s;
	if (!job->job.model) job->job.samples = job->duration_s;
}

static void run(lk_arena *arena, lk_job_list *list) {
	lk_jobs_request request;
	lk_jobs_course courses[MOST];
	lk_error err;
	lk_jobs_defaults(&request);
	request.gpus = GPUS;
	lk_places places = {(int[]){GPUS}, 1};
	for (size_t i = 0; i < list->count; i++) give_rates(arena, &list->at[i]);
	for (int p = 0; p < lk_policy_count; p++) {
		if (lk_jobs_simulate(&request, &places, list, &lk_policies[p], NULL, courses, NULL, &err) !=
		    LK_OK)
			abort();
		for (size_t i = 0; i < list->count; i++)
			if (!(courses[i].end_s >= courses[i].start_s &&
			      courses[i].start_s >= list->at[i].job.submit_s))
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_job_list list = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	lk_jobs_left left = {0};
	if (lk_stream_memory(data, size, "jobs.csv", &in, &err) == LK_OK) {
		lk_status status = lk_jobs_read(in, GPUS, &arena, &list, &left, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		if (status == LK_OK && list.count <= MOST) run(&arena, &list);
	}
	lk_stream_close(in);
	lk_vec_free(&list);
	lk_arena_free(&arena);
	return 0;
}
