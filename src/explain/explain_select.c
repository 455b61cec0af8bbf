/* explain_select.c: selects the part of a trace to analyse: its whole steps, or the requested
 * ones. */
#include <inttypes.h>
#include <string.h>

#include "explain/explain.h"
#include "base/text.h"

struct range {
	long long low, high;
};

static lk_status bad_steps(const char *text, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, "--steps", "\"%.40s\" is not a range of steps", text);
	return lk_hint(err, "give 4, 3-5, or all for the whole trace");
}

static lk_status select_read_range(const char *text, struct range *out, lk_error *err) {
	char low[24], high[24];
	const char *dash = strchr(text, '-');
	size_t length = dash ? (size_t)(dash - text) : strlen(text);
	if (!length || length >= sizeof low) return bad_steps(text, err);
	memcpy(low, text, length);
	low[length] = '\0';
	lk_copy(high, sizeof high, dash ? dash + 1 : low);
	const long long most = 1000000000000000;
	if (lk_parse_int(low, 0, most, &out->low, "--steps", NULL) != LK_OK ||
	    lk_parse_int(high, 0, most, &out->high, "--steps", NULL) != LK_OK || out->high < out->low)
		return bad_steps(text, err);
	return LK_OK;
}

/* Extend a single step to the end of the work that it launched. Its annotation is the host's, and
 * device work may still run when it ends; between steps, work of the step before makes up for
 * that. */
static void run_out(const lk_capture *capture, lk_capture_step *step) {
	int64_t end = step->end_ns;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (!lk_event_on_device(capture->kind[i]) || capture->launch[i] == LK_NONE) continue;
		int64_t launched = capture->start_ns[capture->launch[i]];
		if (launched < step->start_ns || launched >= step->end_ns) continue;
		if (lk_event_end(capture, i) > end) end = lk_event_end(capture, i);
	}
	step->end_ns = end;
}

static void select_keep(lk_capture_steps *steps, const struct range *range) {
	size_t whole = 0, kept = 0;
	for (size_t i = 0; i < steps->count; i++) whole += steps->at[i].whole;
	for (size_t i = 0; i < steps->count; i++) {
		const lk_capture_step *step = &steps->at[i];
		bool wanted = range ? step->number >= range->low && step->number <= range->high
		                    : step->whole || !whole;
		if (wanted && step->end_ns > step->start_ns) steps->at[kept++] = *step;
	}
	steps->count = kept;
}

static lk_status no_steps(const lk_rank_work *work, const lk_capture_step *first,
                          const lk_capture_step *last, const char *text, lk_error *err) {
	if (!text) {
		lk_fail(err, LK_ERR_INPUT, work->capture->path, "no event of it takes any time");
		return lk_hint(err, "give a trace of a profiler, with times");
	}
	lk_fail(err, LK_ERR_INPUT, "--steps", "the trace %.150s does not hold the steps %.40s",
	        work->capture->path, text);
	if (!work->annotated) return lk_hint(err, "no steps are marked in it; leave --steps out");
	return lk_hint(err, "it holds steps %" PRId64 " to %" PRId64, first->number, last->number);
}

static lk_status select_nothing(const lk_capture *capture, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, capture->path, "no event in it has a begin and a duration");
	return lk_hint(err, "explain reads what a profiler recorded: Kineto's JSON of torch.profiler "
	                    "(with activities CPU and CUDA)");
}

/* Limit of times, so that sums stay far from overflow; no run lasts for 18 years. */
static const int64_t LONGEST_NS = INT64_C(1) << 59;

static lk_status select_check_times(const lk_capture *capture, lk_error *err) {
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->start_ns[i] >= 0 && capture->start_ns[i] < LONGEST_NS &&
		    capture->dur_ns[i] < LONGEST_NS)
			continue;
		lk_fail(err, LK_ERR_INPUT, capture->path,
		        "\"%.80s\" begins or ends decades away from the other events",
		        lk_capture_text(capture, capture->name[i]));
		return lk_hint(err, "the file is damaged, or its times are not in microseconds");
	}
	return LK_OK;
}

lk_status lk_rank_select(lk_rank_work *work, const char *steps, lk_error *err) {
	const lk_capture *capture = work->capture;
	struct range r = {0, 0};
	bool all = steps && lk_same_name(steps, "all");
	if (steps && !all) LK_TRY(select_read_range(steps, &r, err));
	if (!capture->count) return select_nothing(capture, err);
	LK_TRY(select_check_times(capture, err));
	LK_TRY(lk_capture_find_steps(capture, &work->steps, err));
	size_t found = work->steps.count;
	work->first_step = 0;
	work->last_step = -1;
	work->annotated = found > 1 || work->steps.at[0].event != LK_NONE;
	work->repeated = work->annotated && !lk_capture_step_is_marked(capture, &work->steps.at[0]);
	lk_capture_step first = work->steps.at[0], last = work->steps.at[found - 1];
	if (all || !work->annotated) {
		work->steps.count = 1;
		work->steps.at[0] = lk_capture_whole(capture);
	}
	if (work->annotated && !steps) {
		work->first_step = first.number;
		work->last_step = last.number;
	}
	select_keep(&work->steps, steps && !all ? &r : NULL);
	if (!work->steps.count) return no_steps(work, &first, &last, all ? NULL : steps, err);
	if (found == 1 && !all && work->annotated) run_out(capture, &work->steps.at[0]);
	for (size_t i = 0; i < work->steps.count; i++)
		if (!lk_times_append(&work->windows.set, work->steps.at[i].start_ns,
		                     work->steps.at[i].end_ns))
			return lk_oom(err);
	return lk_times_index(&work->windows) ? LK_OK : lk_oom(err);
}
