/* capture_steps.c: where the training steps of a capture begin and end. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/capture/capture.h"
#include "base/sort.h"

static const char profiler_step[] = "ProfilerStep#", data_loading[] = "enumerate(DataLoader)#",
				  optimizer_step[] = "Optimizer.step#";

enum {
	REPEATS = 3 /* fewer ends, or ranges of the program, may be anything */
};

LK_ORDER_BY(steps_by_start, lk_capture_step, start_ns)

static lk_status steps_add(lk_capture_steps *out, uint32_t event, int64_t number, int64_t start,
                           int64_t end, lk_error *err) {
	if (!lk_push(out)) return lk_oom(err);
	*lk_last(out) = (lk_capture_step){event, number, start, end, true};
	return LK_OK;
}

/* First start and last end of all events, or of device work only. False: there are none. */
static bool steps_extent(const lk_capture *capture, bool device, int64_t *first, int64_t *last) {
	bool any = false;
	*first = *last = 0;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (device && !lk_event_on_device(capture->kind[i])) continue;
		if (!any || capture->start_ns[i] < *first) *first = capture->start_ns[i];
		if (!any || lk_event_end(capture, i) > *last) *last = lk_event_end(capture, i);
		any = true;
	}
	return any;
}

lk_capture_step lk_capture_whole(const lk_capture *capture) {
	lk_capture_step whole = {.event = LK_NONE, .whole = true};
	if (!steps_extent(capture, true, &whole.start_ns, &whole.end_ns) ||
	    whole.end_ns <= whole.start_ns)
		steps_extent(capture, false, &whole.start_ns, &whole.end_ns);
	return whole;
}

static lk_status annotated(const lk_capture *capture, lk_capture_steps *out, lk_error *err) {
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_NOTE) continue;
		const char *name = lk_capture_text(capture, capture->name[i]);
		if (!lk_begins_with(name, profiler_step)) continue;
		LK_TRY(steps_add(out, i, strtoll(name + strlen(profiler_step), NULL, 10),
		                 capture->start_ns[i], lk_event_end(capture, i), err));
	}
	return LK_OK;
}

/* Names of a step that programs give to ranges of their own (NVTX, record_function, roctx), with a
 * number after them or without. */
static bool names_own_step(const char *name) {
	static const char *const names[] = {"step",
	                                    "train_step",
	                                    "train step",
	                                    "training_step",
	                                    "training step",
	                                    "iteration",
	                                    "train_iteration",
	                                    "training_iteration",
	                                    "train iteration",
	                                    "training iteration",
	                                    "iter",
	                                    "train_iter",
	                                    "batch",
	                                    "train_batch",
	                                    "[pl][profile]run_training_batch"};
	size_t length = strlen(name);
	while (length > 0 && !isalpha((unsigned char)name[length - 1])) length--;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i]) == length && strncasecmp(name, names[i], length) == 0) return true;
	return false;
}

/* The number at the end of a name; `otherwise` if there is none. */
static int64_t number_at_end(const char *name, int64_t otherwise) {
	size_t at = strlen(name), end = at;
	while (at > 0 && isdigit((unsigned char)name[at - 1])) at--;
	return at < end && end - at < 16 ? strtoll(name + at, NULL, 10) : otherwise;
}

/* Steps that the program marks itself: ranges of one thread, one after another. Of ranges inside of
 * others, and of those of further threads, the first found count. */
static lk_status marked_by_program(const lk_capture *capture, lk_capture_steps *out,
                                   lk_error *err) {
	uint32_t lane = LK_NONE;
	uint32_t names = lk_intern_count(capture->names);
	bool *of = calloc(names + (size_t)1, sizeof *of);
	if (!of) return lk_oom(err);
	for (uint32_t i = 0; i < names; i++) of[i] = names_own_step(lk_capture_text(capture, i));
	lk_status status = LK_OK;
	for (uint32_t i = 0; i < capture->count && status == LK_OK; i++) {
		uint32_t parent = capture->parent[i];
		if (capture->kind[i] != LK_EVENT_NOTE || !of[capture->name[i]]) continue;
		if (parent != LK_NONE && of[capture->name[parent]]) continue;
		if (lane == LK_NONE) lane = capture->lane[i];
		if (capture->lane[i] != lane) continue;
		status = steps_add(out, i, 0, capture->start_ns[i], lk_event_end(capture, i), err);
	}
	free(of);
	LK_TRY(status);
	if (out->count < REPEATS) out->count = 0;
	lk_sort(out->at, out->count, sizeof *out->at, steps_by_start);
	for (size_t s = 0; s < out->count; s++) {
		const char *name = lk_capture_text(capture, capture->name[out->at[s].event]);
		int64_t before = s ? out->at[s - 1].number : -1, number = number_at_end(name, before + 1);
		out->at[s].number = number > before ? number : before + 1;
	}
	return LK_OK;
}

/* Steps from one start of data loading to the next; the last one ends with the last event. */
static lk_status between_loads(const lk_capture *capture, int64_t last, lk_capture_steps *out,
                               lk_error *err) {
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_NOTE ||
		    !lk_begins_with(lk_capture_text(capture, capture->name[i]), data_loading))
			continue;
		LK_TRY(steps_add(out, i, 0, capture->start_ns[i], capture->start_ns[i], err));
	}
	if (out->count < 2) {
		out->count = 0;
		return LK_OK;
	}
	lk_sort(out->at, out->count, sizeof *out->at, steps_by_start);
	for (size_t s = 0; s < out->count; s++) {
		out->at[s].number = (int64_t)s;
		out->at[s].end_ns = s + 1 < out->count ? out->at[s + 1].start_ns : last;
	}
	out->at[out->count - 1].whole = false;
	return LK_OK;
}

/* ---- repetition: a training step ends with its optimizer's step ---- */

/* Names of an optimizer's work: annotations that PyTorch makes around each of its steps, or kernels
 * that process lists of parameters. */
static bool names_optimizer(const char *name, bool notes) {
	if (notes) return lk_begins_with(name, optimizer_step);
	return strcasestr(name, "multi_tensor_apply") || strcasestr(name, "adam");
}

/* [names of the capture], to be freed; NULL when memory runs out. */
static bool *find_optimizer_names(const lk_capture *capture, bool notes) {
	uint32_t count = lk_intern_count(capture->names);
	bool *of = calloc(count + (size_t)1, sizeof *of);
	for (uint32_t i = 0; of && i < count; i++)
		of[i] = names_optimizer(lk_capture_text(capture, i), notes);
	return of;
}

/* When the host launched it: step annotations are on the host too. */
static int64_t given_at(const lk_capture *capture, uint32_t event) {
	uint32_t launch = capture->launch[event];
	bool launched = lk_event_on_device(capture->kind[event]) && launch != LK_NONE;
	return lk_event_end(capture, launched ? launch : event);
}

/* A kernel, or work of an optimizer; for the latter, the number of kernels launched before it. */
struct given {
	int64_t at;
	uint32_t event, before;
	bool ends; /* work of an optimizer */
};
typedef LK_VEC(struct given) given_list;

LK_ORDER_BY(given_order, struct given, at, event)

static lk_status list_given(const lk_capture *capture, const bool *of, lk_event_kind kind,
                            given_list *out, lk_error *err) {
	size_t endings = 0;
	for (uint32_t i = 0; i < capture->count; i++)
		endings += capture->kind[i] == kind && of[capture->name[i]];
	for (uint32_t i = 0; endings >= REPEATS && i < capture->count; i++) {
		bool ends = capture->kind[i] == kind && of[capture->name[i]];
		if (!ends && capture->kind[i] != LK_EVENT_KERNEL) continue;
		if (!lk_push(out)) return lk_oom(err);
		*lk_last(out) = (struct given){.at = given_at(capture, i), .event = i, .ends = ends};
	}
	lk_sort(out->at, out->count, sizeof *out->at, given_order);
	return LK_OK;
}

/* Keep only the work of optimizers, which ends steps. */
static void keep_endings(given_list *all) {
	uint32_t kernels = 0;
	size_t kept = 0;
	for (size_t i = 0; i < all->count; i++) {
		struct given given = all->at[i];
		given.before = kernels;
		if (given.ends) all->at[kept++] = given;
		else kernels++;
	}
	all->count = kept;
}

/* Of several pieces of one optimizer's step keep the last: few other kernels lie between pieces,
 * and all kernels of a step lie between two optimizer steps. */
static size_t keep_last_of_each(given_list *all) {
	uint32_t most = 0;
	size_t kept = 0;
	for (size_t i = 1; i < all->count; i++) {
		uint32_t between = all->at[i].before - all->at[i - 1].before;
		if (between > most) most = between;
	}
	for (size_t i = 0; i < all->count; i++)
		if (i + 1 == all->count || 4 * (all->at[i + 1].before - all->at[i].before) > most)
			all->at[kept++] = all->at[i];
	return most > 0 ? kept : 0;
}

/* Steps from the end of one optimizer's step to the next. The part before the first is cut off, the
 * part after the last is no step. */
static lk_status between_optimizers(const lk_capture *capture, bool notes, int64_t first,
                                    lk_capture_steps *out, lk_error *err) {
	given_list all = {0};
	bool *of = find_optimizer_names(capture, notes);
	lk_status status =
		of ? list_given(capture, of, notes ? LK_EVENT_NOTE : LK_EVENT_KERNEL, &all, err)
		   : lk_oom(err);
	free(of);
	keep_endings(&all);
	size_t count = status == LK_OK ? keep_last_of_each(&all) : 0;
	for (size_t i = 0; count >= REPEATS && i < count && status == LK_OK; i++) {
		int64_t end = all.at[i].at;
		status = steps_add(out, all.at[i].event, (int64_t)i, first, end, err);
		if (status == LK_OK) lk_last(out)->whole = i > 0;
		first = end;
	}
	lk_vec_free(&all);
	return status;
}

bool lk_capture_step_is_marked(const lk_capture *capture, const lk_capture_step *step) {
	return step->event != LK_NONE && capture->kind[step->event] == LK_EVENT_NOTE &&
	       !lk_begins_with(lk_capture_text(capture, capture->name[step->event]), optimizer_step);
}

/* Drop a step that mostly lies inside the one before it: it is the same step, annotated twice.
 * Clocks in whole microseconds let neighbours overlap a little. */
static void drop_repeated_steps(lk_capture_steps *steps) {
	size_t kept = 1;
	for (size_t i = 1; i < steps->count; i++) {
		const lk_capture_step *before = &steps->at[kept - 1], *step = &steps->at[i];
		int64_t common = before->end_ns - step->start_ns, own = step->end_ns - step->start_ns;
		if (common < own - common || own <= 0) steps->at[kept++] = *step;
	}
	steps->count = kept;
}

lk_status lk_capture_find_steps(const lk_capture *capture, lk_capture_steps *out, lk_error *err) {
	int64_t first, last;
	steps_extent(capture, false, &first, &last);
	out->count = 0;
	LK_TRY(annotated(capture, out, err));
	if (!out->count) LK_TRY(marked_by_program(capture, out, err));
	if (!out->count) LK_TRY(between_loads(capture, last, out, err));
	if (!out->count) LK_TRY(between_optimizers(capture, true, first, out, err));
	if (!out->count) LK_TRY(between_optimizers(capture, false, first, out, err));
	if (!out->count) { /* the whole trace is one */
		lk_capture_step whole = lk_capture_whole(capture);
		return steps_add(out, LK_NONE, 0, whole.start_ns, whole.end_ns, err);
	}
	lk_sort(out->at, out->count, sizeof *out->at, steps_by_start);
	drop_repeated_steps(out);
	return LK_OK;
}
