/* record_steps.c: the recordings of a folder, during and after the run: their list, and the number
 * of their steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "record/record.h"
#include "system/listing.h"
#include "base/check.h"
#include "base/stats.h"

lk_status lk_record_count_unbegun(const char *folder, int *out, lk_error *err) {
	lk_listing listing;
	*out = 0;
	LK_TRY(lk_listing_read(folder, LK_RECORDING_ENDING, &listing, err));
	for (size_t i = 0; i < listing.count; i++) *out += listing.names[i][0] == '.';
	lk_listing_free(&listing);
	return LK_OK;
}

lk_status lk_record_load(const char *path, lk_intern *texts, lk_recorded_run *run,
                         lk_recorded_steps *steps, bool *out, lk_error *err) {
	lk_recording recording;
	*steps = (lk_recorded_steps){.calls = 0};
	*out = false;
	lk_status status = lk_recording_open(path, &recording, err);
	if (status == LK_ERR_INPUT) return LK_OK;
	LK_TRY(status);
	status = lk_recorded_take(&recording, NULL, texts, run, err);
	lk_recording_close(&recording);
	if (status == LK_ERR_INPUT) return LK_OK;
	LK_TRY(status);
	status = lk_recorded_find_steps(run, steps, err);
	if (status == LK_ERR_INPUT) steps->begin.count = 0;
	else if (status != LK_OK) {
		lk_vec_free(&steps->begin);
		lk_recorded_free(run);
		return status;
	}
	*out = true;
	return LK_OK;
}

int lk_record_count_steps(const lk_recorded_steps *steps) {
	LK_ASSERT(steps->begin.count != 1 || steps->begin.at != NULL);
	return steps->begin.count ? (int)steps->begin.count - 1 : 0;
}

lk_status lk_record_step_time(const lk_recorded_steps *steps, double *out, lk_error *err) {
	int count = lk_record_count_steps(steps);
	double *each = malloc(((size_t)count + 1) * sizeof *each);
	*out = NAN;
	if (!each) return lk_oom(err);
	for (int i = 0; i < count; i++)
		each[i] = 1e-9 * (double)(steps->begin.at[i + 1] - steps->begin.at[i]);
	if (count) *out = lk_median(each, (size_t)count);
	free(each);
	return LK_OK;
}

/* Steps of forked processes count only if no other process has steps, and the process communicates
 * with others: a loader does not, and may have repeated itself before the first step. */
struct so_far {
	int rank; /* the rank looked for; -1 all */
	int steps;
	double step_s;
	bool forked;
};

/* Whether it communicates by a communication library, or over connections other than pipes. */
static bool talks_to_others(const lk_recorded_run *run) {
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		lk_record_kind kind = (lk_record_kind)call->record.kind;
		bool connection = kind == LK_RECORD_SENT || kind == LK_RECORD_RECEIVED;
		if (kind == LK_RECORD_COMM || (connection && !lk_recorded_by_pipe(run, call))) return true;
	}
	return false;
}

/* Steps that only files tell may be those of a program's preparations: they count once they take
 * more than half of its time. */
static bool are_sure(const lk_recorded_run *run, const lk_recorded_steps *steps) {
	if (!steps->by_files || !steps->begin.count) return true;
	int64_t now = lk_monotonic_ns() - run->head.monotonic_ns;
	return 2 * (*lk_last(&steps->begin) - steps->begin.at[0]) >= now;
}

static lk_status keep_most_steps(void *context, const char *path, const char *name, lk_error *err) {
	struct so_far *most = context;
	if (*name == '.') return LK_OK;
	lk_recorded_run run;
	lk_recorded_steps steps;
	lk_intern *texts = lk_intern_new();
	bool loaded = false;
	lk_status status =
		texts ? lk_record_load(path, texts, &run, &steps, &loaded, err) : lk_oom(err);
	if (status == LK_OK && loaded) {
		bool wanted = most->rank < 0 || run.head.rank == most->rank, forked = run.head.root != 0;
		int count = lk_record_count_steps(&steps);
		if ((forked && !talks_to_others(&run)) || !are_sure(&run, &steps)) wanted = false;
		bool more = forked == most->forked ? count > most->steps : count > 0 && most->forked;
		if (wanted && more && lk_record_step_time(&steps, &most->step_s, err) == LK_OK) {
			most->steps = count;
			most->forked = forked;
		}
		lk_vec_free(&steps.begin);
		lk_recorded_free(&run);
	}
	lk_intern_free(texts);
	return LK_OK; /* it will be read again */
}

int lk_record_steps_so_far(const char *folder, int rank, double *step_s) {
	struct so_far most = {.rank = rank, .forked = true};
	lk_error ignored;
	lk_listing_visit(folder, LK_RECORDING_ENDING, keep_most_steps, &most, &ignored);
	*step_s = most.step_s;
	return most.steps;
}
