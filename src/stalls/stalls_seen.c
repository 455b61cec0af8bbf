/* stalls_seen.c: a folder of recordings as the times of a step.
 *
 * The step of a run is the mean over its ranks of the mean over the counted steps: sums of parts
 * hold for means, not for medians. Recordings without steps (a launcher's, a helper's) are left
 * out. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "system/listing.h"
#include "base/arena.h"
#include "stalls/stalls.h"
#include "base/check.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/sort.h"

struct rank_times {
	lk_stalls_rank shown;
	size_t index;   /* in the order of recordings */
	double working; /* own time without what lk_stalls_steps leaves out */
};

/* For one step: its length, summed over ranks; the rest as in lk_stalls_steps. */
struct step_times {
	double length, slowest, running, fed, working;
};

struct seen_file {
	const char *path;
	double bytes;
};

struct viewer;
typedef lk_status look(struct viewer *v, const char *path, const lk_recorded_run *run,
                       const lk_recorded_steps *steps, lk_error *err);

struct viewer {
	look *look;
	int warmup, count; /* steps: left out at the beginning; analysed, at most */
	lk_stalls_seen *out;
	lk_disk_uses disks;
	LK_VEC(struct rank_times) by_rank;
	LK_VEC(struct step_times) steps;
	LK_VEC(lk_stalls_rank_mark) marks;
	/* files */
	bool written;
	lk_arena *arena;
	lk_intern *paths;
	LK_VEC(struct seen_file) files; /* by path */
	lk_stalls_profile *profile;
	const char *tier; /* of the last file */
};

/* Recordings of forked processes are read with their parent's. */
static bool is_root_recording(const char *name) {
	return lk_ends_in(name, LK_RECORDING_ENDING) && !strstr(name, LK_RECORDING_FORKED);
}

static lk_status look_at_recording(void *context, const char *path, const char *name,
                                   lk_error *err) {
	struct viewer *viewer = context;
	if (!is_root_recording(name)) return LK_OK;
	lk_recorded_run run;
	lk_recorded_steps steps = {.calls = 0};
	lk_error unreadable = {0};
	lk_intern *texts = lk_intern_new();
	if (!texts) return lk_oom(err);
	lk_status status = lk_recorded_load(path, NULL, texts, &run, &unreadable);
	if (status == LK_OK) {
		status = lk_recorded_find_steps(&run, &steps, err);
		if (status == LK_OK) status = viewer->look(viewer, path, &run, &steps, err);
		lk_vec_free(&steps.begin);
		lk_recorded_free(&run);
	} else if (status == LK_ERR_INPUT) {
		status = LK_OK; /* a recording that was only begun is empty */
	} else {
		lk_fail_as(err, &unreadable);
	}
	lk_intern_free(texts);
	return status;
}

static lk_status look_at_all_recordings(struct viewer *viewer, const char *folder, look *one,
                                        lk_error *err) {
	viewer->look = one;
	return lk_listing_visit(folder, LK_RECORDING_ENDING, look_at_recording, viewer, err);
}

lk_status lk_stalls_check_recording(const char *path, lk_error *err) {
	struct stat info;
	lk_recording recording;
	char first[PATH_MAX + NAME_MAX + 2] = ""; /* the first unreadable one */
	int readable = 0;
	bool emulated = false;
	if (stat(path, &info) != 0)
		return lk_fail(err, LK_ERR_IO, path, "cannot be opened: %s", strerror(errno));
	if (!S_ISDIR(info.st_mode)) {
		lk_fail(err, LK_ERR_INPUT, path,
		        "is neither a folder of recordings nor text of darshan-parser");
		return lk_hint(err, "give the folder that lockstep record made, or what darshan-parser "
		                    "prints of a log");
	}
	lk_listing listing;
	LK_TRY(lk_listing_read(path, LK_RECORDING_ENDING, &listing, err));
	lk_status status = LK_OK;
	for (size_t i = 0; i < listing.count && !readable; i++) {
		char name[PATH_MAX + NAME_MAX + 2];
		if (!is_root_recording(listing.names[i])) continue;
		snprintf(name, sizeof name, "%s/%s", path, listing.names[i]);
		status = lk_recording_open(name, &recording, err);
		if (status == LK_ERR_MEMORY || status == LK_ERR_IO) break;
		if (status != LK_OK && !*first) lk_copy(first, sizeof first, name);
		if (status != LK_OK) continue;
		emulated = recording.head.mode == LK_RECORDED_AS_RANK;
		lk_recording_close(&recording);
		readable++;
	}
	lk_listing_free(&listing);
	if (status == LK_ERR_MEMORY || status == LK_ERR_IO) return status;
	if (emulated) {
		lk_fail(err, LK_ERR_INPUT, path,
		        "its ranks were emulated, each alone: their communication has no times");
		return lk_hint(err, "lockstep compose predicts the step of the whole job from it");
	}
	if (readable) return LK_OK;
	if (*first) {
		LK_TRY(lk_recording_open(first, &recording, err)); /* reports why */
		lk_recording_close(&recording);
	}
	lk_fail(err, LK_ERR_INPUT, path, "has no recordings (*" LK_RECORDING_ENDING ")");
	return lk_hint(err, "give a folder that lockstep record made");
}

/* ---- times ---- */

/* The counted steps: `count` of them from step `first` on. */
static int window_of_steps(const struct viewer *viewer, const lk_recorded_steps *steps,
                           int *first) {
	int all = steps->begin.count ? (int)steps->begin.count - 1 : 0;
	*first = viewer->warmup < all ? viewer->warmup : all;
	int count = all - *first;
	return viewer->count > 0 && count > viewer->count ? viewer->count : count;
}

static bool is_main_thread_call(const lk_recorded_run *run, const lk_recorded_call *call,
                                int64_t from, int64_t to) {
	return !call->process && call->record.thread == run->main_thread &&
	       call->record.start_ns >= from && call->record.start_ns < to;
}

/* Time in read calls of the main thread, and the number of its calls of communication. */
static void add_main_thread_times(const lk_recorded_run *run, int64_t from, int64_t to,
                                  double *reading, double *comms) {
	LK_ASSERT(from <= to);
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		const lk_record_entry *entry = &call->record;
		if (!is_main_thread_call(run, call, from, to)) continue;
		if (entry->kind == LK_RECORD_READ) *reading += 1e-9 * (double)entry->io.busy_ns;
		*comms += entry->kind == LK_RECORD_COMM && entry->comm.part != LK_PART_DONE &&
		          entry->comm.part != LK_PART_MAKE;
	}
}

static lk_status quick_step_s(const lk_recorded_steps *steps, int first, int count, double *out,
                              lk_error *err) {
	double *each = malloc(((size_t)count + 1) * sizeof *each);
	if (!each) return lk_oom(err);
	for (int i = 0; i < count; i++)
		each[i] = 1e-9 * (double)(steps->begin.at[first + i + 1] - steps->begin.at[first + i]);
	*out = lk_quantile(each, (size_t)count, 0.1);
	free(each);
	return LK_OK;
}

/* ---- own times of ranks ---- */

/* Keep only steps that all ranks have. */
static bool make_steps(struct viewer *viewer, int count) {
	bool first = viewer->by_rank.count == 1;
	while (first && viewer->steps.count < (size_t)count) {
		if (!lk_push(&viewer->steps)) return false;
		*lk_last(&viewer->steps) = (struct step_times){0};
	}
	if (viewer->steps.count > (size_t)count) viewer->steps.count = (size_t)count;
	return true;
}

/* A rank's time in a step, without one cause of waiting after the other. */
static struct step_times rank_step(const double cause[LK_CAUSES], double length) {
	struct step_times out = {.length = length};
	out.slowest = length - cause[LK_CAUSE_COMM];
	out.running = out.slowest - cause[LK_CAUSE_PREEMPTED];
	out.fed = out.running - cause[LK_CAUSE_FETCH];
	out.working = out.fed - cause[LK_CAUSE_PREPARATION];
	return out;
}

static void add_rank_steps(struct viewer *viewer, const int64_t *begin,
                           double (*cause)[LK_CAUSES]) {
	for (size_t i = 0; i < viewer->steps.count; i++) {
		struct step_times *step = &viewer->steps.at[i],
						  rank = rank_step(cause[i], 1e-9 * (double)(begin[i + 1] - begin[i]));
		step->length += rank.length;
		step->slowest = fmax(step->slowest, rank.slowest);
		step->running = fmax(step->running, rank.running);
		step->fed = fmax(step->fed, rank.fed);
		step->working = fmax(step->working, rank.working);
	}
}

/* Keep what the rank's steps spend in each mark. */
static lk_status add_rank_marks(struct viewer *viewer, const lk_recorded_run *run,
                                double (*marked)[LK_CAUSES], int count, lk_error *err) {
	for (size_t i = 0; i < run->mark_names.count; i++) {
		const char *name = lk_intern_text(run->texts, run->mark_names.at[i]);
		double sum = 0;
		for (int k = 0; k < LK_CAUSES; k++) sum += marked[i][k];
		if (!(sum > 0)) continue;
		if (!lk_push(&viewer->marks)) return lk_oom(err);
		lk_stalls_rank_mark *mark = lk_last(&viewer->marks);
		*mark = (lk_stalls_rank_mark){.name = lk_arena_strdup(viewer->arena, name),
		                              .rank = viewer->by_rank.count - 1};
		if (!mark->name) return lk_oom(err);
		for (int k = 0; k < LK_CAUSES; k++) mark->cause[k] = marked[i][k] / count;
	}
	return LK_OK;
}

/* `mean`: seconds a step by cause. */
static lk_status add_rank_times(struct viewer *viewer, const lk_recorded_run *run,
                                const int64_t *begin, int count, double mean[LK_CAUSES],
                                lk_error *err) {
	lk_stalls_own split;
	double(*cause)[LK_CAUSES] = malloc((size_t)count * sizeof *cause);
	double(*marked)[LK_CAUSES] = malloc((run->mark_names.count + 1) * sizeof *marked);
	double step = 1e-9 * (double)(begin[count] - begin[0]) / count;
	lk_status status = cause && marked && lk_push(&viewer->by_rank) && make_steps(viewer, count)
	                       ? lk_recorded_find_causes(run, begin, count, cause, marked, err)
	                       : lk_oom(err);
	memset(mean, 0, LK_CAUSES * sizeof *mean);
	if (status == LK_OK) add_rank_steps(viewer, begin, cause);
	if (status == LK_OK) status = add_rank_marks(viewer, run, marked, count, err);
	for (int i = 0; status == LK_OK && i < count; i++)
		for (int k = 0; k < LK_CAUSES; k++) mean[k] += cause[i][k] / count;
	free(cause);
	free(marked);
	if (status != LK_OK) return status;
	struct step_times own = rank_step(mean, step);
	lk_stalls_see_own(run, begin, count, &split);
	if (!isnan(split.data)) { /* the thread also waits for what computes for it */
		double waits = split.data;
		split.data = fmin(waits, mean[LK_CAUSE_PREPARATION] + mean[LK_CAUSE_FETCH]);
		split.sleeping += waits - split.data;
	}
	*lk_last(&viewer->by_rank) = (struct rank_times){.shown = {.rank = run->head.rank,
	                                                           .step = step,
	                                                           .own = fmax(0, own.slowest),
	                                                           .computing = split.computing,
	                                                           .sleeping = split.sleeping,
	                                                           .storage = split.storage,
	                                                           .data = split.data,
	                                                           .preempted = split.preempted},
	                                                 .index = viewer->by_rank.count - 1,
	                                                 .working = fmax(0, own.working)};
	return LK_OK;
}

static int compare_rank_numbers(const void *a, const void *b) {
	const lk_stalls_rank *x = &((const struct rank_times *)a)->shown,
						 *y = &((const struct rank_times *)b)->shown;
	if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
	return (x->own > y->own) - (x->own < y->own);
}

static int compare_work(const void *a, const void *b) {
	const struct rank_times *x = a, *y = b;
	if (x->working != y->working) return x->working < y->working ? -1 : 1;
	return compare_rank_numbers(a, b);
}

/* The rank of the lower median: at least half of the ranks work at least as long. Sorts the
 * ranks. */
static struct rank_times typical_rank(struct viewer *viewer) {
	size_t count = viewer->by_rank.count;
	lk_sort(viewer->by_rank.at, count, sizeof *viewer->by_rank.at, compare_work);
	return viewer->by_rank.at[(count - 1) / 2];
}

static lk_status take_rank_times(struct viewer *viewer, lk_arena *arena, lk_error *err) {
	lk_stalls_times *times = &viewer->out->times;
	size_t ranks = viewer->by_rank.count, steps = viewer->steps.count;
	if (!ranks) return LK_OK;
	lk_stalls_rank *by_rank = LK_ARRAY(arena, lk_stalls_rank, ranks);
	double *at_work = LK_ARRAY(arena, double, ranks);
	enum { COLUMNS = 5 };
	double *columns = LK_ARRAY(arena, double, COLUMNS *(steps + 1)), *column[COLUMNS];
	if (!by_rank || !at_work || !columns) return lk_oom(err);
	for (size_t k = 0; k < COLUMNS; k++) column[k] = columns + k * (steps + 1);
	for (size_t i = 0; i < steps; i++) {
		const struct step_times *step = &viewer->steps.at[i];
		const double of[COLUMNS] = {step->length / (double)ranks, step->slowest, step->running,
		                            step->fed, step->working};
		for (size_t k = 0; k < COLUMNS; k++) column[k][i] = of[k];
	}
	struct rank_times typical = typical_rank(viewer);
	if (ranks > 1) times->usual = typical.working;
	lk_sort(viewer->by_rank.at, ranks, sizeof *viewer->by_rank.at, compare_rank_numbers);
	for (size_t i = 0; i < ranks; i++) {
		by_rank[i] = viewer->by_rank.at[i].shown;
		at_work[i] = viewer->by_rank.at[i].working;
		times->own += by_rank[i].own / (double)ranks;
	}
	viewer->out->by_rank = by_rank;
	viewer->out->working = at_work;
	times->steps = (lk_stalls_steps){.length = column[0],
	                                 .slowest = column[1],
	                                 .running = column[2],
	                                 .fed = column[3],
	                                 .working = column[4],
	                                 .count = (int)steps};
	return lk_stalls_join_marks(viewer->marks.at, viewer->marks.count, typical.index, (int)ranks,
	                            arena, &times->marks, err);
}

/* Of the main thread's own code, in which code between reads is preempted like any other. */
static double share_of_running(const double cause[LK_CAUSES]) {
	double code = cause[LK_CAUSE_CODE] + cause[LK_CAUSE_PREEMPTED];
	return code > 0 ? cause[LK_CAUSE_CODE] / code : 1;
}

static lk_status see_rank_recording(struct viewer *viewer, const char *path,
                                    const lk_recorded_run *run, const lk_recorded_steps *steps,
                                    lk_error *err) {
	lk_stalls_seen *seen = viewer->out;
	lk_stalls_loader l;
	double reading = 0, comms = 0, quick = NAN, cause[LK_CAUSES];
	int first, count = window_of_steps(viewer, steps, &first);
	(void)path;
	if (count < 1) return LK_OK;
	int64_t from = steps->begin.at[first], to = steps->begin.at[first + count];
	add_main_thread_times(run, from, to, &reading, &comms);
	LK_TRY(lk_stalls_see_loader(run, steps->begin.at + first, count, &l, err));
	LK_TRY(quick_step_s(steps, first, count, &quick, err));
	LK_TRY(add_rank_times(viewer, run, steps->begin.at + first, count, cause, err));
	l.handed = cause[LK_CAUSE_PREPARATION];
	if (!l.apart) l.own *= share_of_running(cause);
	LK_TRY(lk_disk_see(&viewer->disks, run, steps->begin.at + first, count, err));
	seen->steps = seen->ranks && seen->steps < count ? seen->steps : count;
	seen->ranks++;
	seen->quick_s += quick;
	seen->times.step += 1e-9 * (double)(to - from) / count;
	seen->times.reading += reading / count;
	seen->times.writing += cause[LK_CAUSE_WRITING];
	seen->communications += comms / count;
	seen->left_out += run->head.left_out;
	seen->mpi |= (run->head.seen & LK_RECORDED_MPI) != 0;
	if (run->head.cores) seen->cores = fmin(seen->cores, run->head.cores);
	seen->waits |= run->head.version >= LK_RECORDING_WAKERS;
	seen->torch |= (run->head.seen & LK_RECORDED_TORCH) != 0;
	seen->loader.bytes += l.bytes;
	seen->loader.reads += l.reads;
	seen->loader.busy += l.busy;
	seen->loader.own += l.own;
	seen->loader.threads += l.threads;
	seen->loader.apart |= l.apart;
	seen->loader.handed += l.handed;
	return LK_OK;
}

/* Preparation that delays the step: all of it if the main thread loads; with loader threads or
 * processes the time that the main thread waits for them; if that is not recorded, the excess over
 * a step whose data was ready, provided that the loader is always busy. */
static void see_rank_preparation(lk_stalls_seen *seen) {
	lk_stalls_times *times = &seen->times;
	const lk_stalls_loader *loader = &seen->loader;
	const double no_rest = 0.9, least = 1e-3;
	bool handed = loader->handed > least * times->step;
	times->reads = loader->reads > 0;
	if (loader->reads <= 0 && !handed) {
		times->preparation = NAN;
	} else if (loader->reads > 0 && !loader->apart && !handed) {
		times->preparation = loader->own;
	} else if (handed || seen->mpi || seen->waits) {
		times->preparation = loader->handed;
		times->handed = true;
	} else {
		bool bound =
			(loader->busy + loader->own) / fmax(1, loader->threads) > no_rest * times->step;
		times->preparation = bound ? fmax(0, times->step - seen->quick_s) : 0;
	}
}

lk_status lk_stalls_see(const char *folder, int warmup, int steps, lk_arena *arena,
                        lk_stalls_seen *out, lk_disk_steps *each, lk_error *err) {
	struct viewer v = {.warmup = warmup, .count = steps, .out = out, .arena = arena};
	*out = (lk_stalls_seen){.times = {.waiting = NAN, .interconnect = NAN, .network = NAN},
	                        .cores = NAN};
	lk_status status = look_at_all_recordings(&v, folder, see_rank_recording, err);
	lk_status summed = lk_disk_sum_up(&v.disks, &out->times.waited, each, err);
	if (status == LK_OK) status = take_rank_times(&v, arena, err);
	lk_vec_free(&v.by_rank);
	lk_vec_free(&v.steps);
	lk_vec_free(&v.marks);
	if (status != LK_OK || !out->ranks) return status;
	LK_TRY(summed);
	double n = out->ranks;
	out->quick_s /= n;
	out->communications /= n;
	out->times.step /= n;
	out->times.reading /= n;
	out->times.writing /= n;
	out->loader.bytes /= n;
	out->loader.reads /= n;
	out->loader.busy /= n;
	out->loader.own /= n;
	out->loader.threads /= n;
	out->loader.handed /= n;
	out->loader_seen = out->loader.reads > 0;
	see_rank_preparation(out);
	return LK_OK;
}

/* ---- files ---- */

static lk_status add_seen_file(struct viewer *viewer, const lk_recorded_run *run,
                               const lk_recorded_call *call, lk_error *err) {
	const lk_recorded_name *name =
		lk_recorded_find(&run->files, call->process, call->record.object);
	const char *path = name ? lk_intern_text(run->texts, name->name) : "";
	/* a pipe, shared memory, or its name was dropped */
	if (*path != '/' || strncmp(path, "/dev/", 5) == 0) return LK_OK;
	uint32_t number = lk_intern_id(viewer->paths, path);
	if (number == UINT32_MAX) return lk_oom(err);
	if (number > viewer->files.count) {
		if (!lk_push(&viewer->files)) return lk_oom(err);
		lk_last(&viewer->files)->path = lk_arena_strdup(viewer->arena, path);
		if (!lk_last(&viewer->files)->path) return lk_oom(err);
	}
	viewer->files.at[number - 1].bytes += (double)call->record.bytes;
	return LK_OK;
}

/* Files read before the first step, like the interpreter's, are no data; a file that was mapped
 * then is read in the steps. */
static lk_status see_recording_files(struct viewer *viewer, const char *path,
                                     const lk_recorded_run *run, const lk_recorded_steps *steps,
                                     lk_error *err) {
	int64_t from = viewer->written || !steps->begin.count ? 0 : steps->begin.at[0];
	(void)path;
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		bool moved = entry->kind == (viewer->written ? LK_RECORD_WRITE : LK_RECORD_READ) &&
		             entry->start_ns >= from,
			 mapped = entry->kind == LK_RECORD_MAP && !viewer->written;
		if (moved || mapped) LK_TRY(add_seen_file(viewer, run, &run->calls.at[i], err));
	}
	return LK_OK;
}

/* The largest first. */
static int by_seen_bytes(const void *a, const void *b) {
	const struct seen_file *x = a, *y = b;
	if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
	return strcmp(x->path, y->path);
}

lk_status lk_stalls_files_of(const char *folder, bool written, lk_arena *arena,
                             lk_stalls_files *out, double *bytes, lk_error *err) {
	struct viewer v = {.written = written, .arena = arena, .paths = lk_intern_new()};
	lk_status status =
		v.paths ? look_at_all_recordings(&v, folder, see_recording_files, err) : lk_oom(err);
	*bytes = 0;
	if (status == LK_OK && !lk_reserve(out, v.files.count)) status = lk_oom(err);
	if (status == LK_OK) lk_sort(v.files.at, v.files.count, sizeof *v.files.at, by_seen_bytes);
	for (size_t i = 0; status == LK_OK && i < v.files.count; i++) {
		out->at[out->count++] = v.files.at[i].path;
		*bytes += v.files.at[i].bytes;
	}
	lk_vec_free(&v.files);
	lk_intern_free(v.paths);
	return status;
}

/* Note a file's size and file system, as of the recording. */
static lk_status see_file_place(struct viewer *viewer, const lk_recorded_run *run, uint32_t process,
                                const lk_recorded_name *name, lk_stalls_file *file, lk_error *err) {
	const lk_recorded_name *mount = lk_recorded_find(&run->mounts, process, name->mount);
	const char *tier = mount ? lk_intern_text(run->texts, mount->name) : "";
	file->size = fmax(file->size, (double)name->bytes);
	if (file->tier && *file->tier) return LK_OK;
	if (!viewer->tier || strcmp(viewer->tier, tier) != 0)
		viewer->tier = lk_arena_strdup(viewer->arena, tier);
	file->tier = viewer->tier;
	return file->tier ? LK_OK : lk_oom(err);
}

static lk_status add_seen_read(struct viewer *viewer, const lk_recorded_run *run,
                               const lk_recorded_call *call, lk_error *err) {
	const lk_record_entry *entry = &call->record;
	const lk_recorded_name *name = lk_recorded_find(&run->files, call->process, entry->object);
	const char *path = name ? lk_intern_text(run->texts, name->name) : "";
	lk_stalls_file *file;
	if (*path != '/' || strncmp(path, "/dev/", 5) == 0 || lk_recorded_is_program(path))
		return LK_OK;
	LK_TRY(lk_stalls_file_of(viewer->profile, path, viewer->arena, &file, err));
	LK_TRY(see_file_place(viewer, run, call->process, name, file, err));
	if (entry->kind == LK_RECORD_OPEN) {
		file->opens++;
		file->read_s += 1e-9 * (double)(entry->end_ns - entry->start_ns);
		return LK_OK;
	}
	file->reads += entry->io.count;
	file->sequential += entry->io.sequential;
	file->read_bytes += (double)entry->bytes;
	file->read_s += 1e-9 * (double)entry->io.busy_ns;
	if (entry->io.count)
		file->sizes[lk_stalls_read_class((double)entry->bytes / entry->io.count)] +=
			entry->io.count;
	return LK_OK;
}

static lk_status see_recording_reads(struct viewer *viewer, const char *path,
                                     const lk_recorded_run *run, const lk_recorded_steps *steps,
                                     lk_error *err) {
	int64_t from = steps->begin.count && !steps->by_files ? steps->begin.at[0] : 0;
	(void)path;
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		if ((entry->kind != LK_RECORD_READ && entry->kind != LK_RECORD_OPEN) ||
		    entry->start_ns < from)
			continue;
		LK_TRY(add_seen_read(viewer, run, &run->calls.at[i], err));
	}
	return LK_OK;
}

static lk_status see_darshan_reads(const char *path, lk_arena *arena, lk_stalls_profile *out,
                                   lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_stalls_darshan_read(in, arena, out, err);
	lk_stream_close(in);
	return status;
}

lk_status lk_stalls_profile_of(const char *path, lk_arena *arena, lk_stalls_profile *out,
                               lk_error *err) {
	struct viewer viewer = {.arena = arena, .profile = out};
	size_t read = 0; /* files that were read, not only opened */
	bool darshan;
	LK_TRY(lk_stalls_is_darshan(path, &darshan, err));
	LK_TRY(darshan ? see_darshan_reads(path, arena, out, err)
	               : look_at_all_recordings(&viewer, path, see_recording_reads, err));
	for (size_t i = 0; i < out->files.count; i++) {
		if (out->files.at[i].reads > 0) out->files.at[read++] = out->files.at[i];
	}
	out->files.count = read;
	return LK_OK;
}
