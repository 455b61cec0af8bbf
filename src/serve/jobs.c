/* jobs.c: jobs in a fixed number of places. */
#include "serve/serve_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "system/memory.h"

static lk_job *find_job_place(lk_job_list *jobs) {
	lk_job *oldest = NULL;
	for (int i = 0; i < LK_JOBS; i++) {
		lk_job *job = &jobs->jobs[i];
		if (job->id == 0) return job;
		if (job->ask->state == LK_ASK_DONE && (!oldest || job->id < oldest->id)) oldest = job;
	}
	return oldest;
}

const lk_job *lk_job_list_add(lk_job_list *jobs, lk_asks *asks, lk_ask *ask) {
	int own = 0;
	for (int i = 0; i < LK_JOBS; i++) {
		const lk_job *other = &jobs->jobs[i];
		own += other->id && other->ask->client == ask->client && other->ask->state != LK_ASK_DONE;
	}
	lk_job *job = own < LK_JOBS_OF_CLIENT ? find_job_place(jobs) : NULL;
	if (!job) return NULL;
	lk_job_list_remove(jobs, asks, job);
	LK_ASSERT(job->id == 0 && ask->state != LK_ASK_DONE);
	*job = (lk_job){++jobs->last, ask};
	return job;
}

const lk_job *lk_job_list_find(const lk_job_list *jobs, const char *id) {
	char text[24];
	for (int i = 0; i < LK_JOBS; i++) {
		snprintf(text, sizeof text, "%llu", jobs->jobs[i].id);
		if (jobs->jobs[i].id && strcmp(text, id) == 0) return &jobs->jobs[i];
	}
	return NULL;
}

void lk_job_list_remove(lk_job_list *jobs, lk_asks *asks, const lk_job *job) {
	LK_ASSERT(job >= jobs->jobs && job < jobs->jobs + LK_JOBS);
	lk_job *own = &jobs->jobs[job - jobs->jobs];
	lk_ask_free(asks, own->ask);
	*own = (lk_job){0};
}

void lk_job_list_free(lk_job_list *jobs, lk_asks *asks) {
	for (int i = 0; i < LK_JOBS; i++) lk_job_list_remove(jobs, asks, &jobs->jobs[i]);
}

static const char *job_state_name(const lk_ask *ask) {
	if (ask->state == LK_ASK_WAITING) return "waiting";
	if (ask->state == LK_ASK_RUNNING) return "running";
	return ask->status == 200 ? "done" : "failed";
}

/* Writes the members of a finished object: the text between its braces. */
static void put_object_members(FILE *out, const char *text, size_t size) {
	const char *end = text + size;
	while (end > text && end[-1] != '}') end--;
	fwrite(text + 1, 1, (size_t)(end - text) - 2, out);
}

char *lk_job_json(const lk_job *job, size_t *size) {
	const lk_ask *ask = job->ask;
	char *text = NULL;
	FILE *out = lk_memory_open(&text, size);
	if (!out) return NULL;
	fprintf(out, "{\"id\": \"%llu\", \"verb\": \"%s\", \"state\": \"%s\", \"progress\": ", job->id,
	        lk_question_name(ask->question.kind), job_state_name(ask));
	if (ask->progress.all > 0)
		fprintf(out, "{\"gpus\": %d, \"done\": %.0f, \"all\": %.0f}", ask->progress.gpus,
		        ask->progress.done, ask->progress.all);
	else fputs("null", out);
	if (ask->state == LK_ASK_DONE) fprintf(out, ", \"status\": %d", ask->status);
	if (ask->state == LK_ASK_DONE && ask->text && ask->status == 200) {
		fputs(", \"answer\": ", out);
		fwrite(ask->text, 1, ask->text_size, out);
	} else if (ask->state == LK_ASK_DONE && ask->text) {
		fputs(", ", out);
		put_object_members(out, ask->text, ask->text_size);
	}
	fputs("}\n", out);
	if (lk_memory_close(out)) return text;
	free(text);
	return NULL;
}
