/* explain_log.c: what a log of a run says without a trace and a job: its steady step, tails, drift,
 * slow steps and their period, and what stands out. */
#include "lockstep/run_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/noun.h"
#include "base/stats.h"
#include "base/text.h"
#include "explain/explain.h"
#include "io/stream.h"
#include "measured/measured.h"
#include "trace/read/read.h"

static const double SLOW = 1.5; /* times the median: a step that saved, evaluated or waited */

typedef struct run_log_work {
	lk_run_log log; /* first: the result is the work */
	lk_arena arena;
	lk_measured measured;
	const char *findings[8];
} run_log_work;

/* ---- which files are logs ---- */

/* Whether a text that begins with a bracket is no JSON: "[2025-05-01 12:00:00]", "{'loss': 1}". */
static bool begins_as_log(const char *head, size_t size) {
	static const char blanks[] = " \t\r\n";
	size_t at = 0;
	while (at < size && strchr(blanks, head[at])) at++;
	if (at >= size || (head[at] != '[' && head[at] != '{')) return false;
	const char *follows = head[at++] == '[' ? "[{]" : "\"}";
	while (at < size && strchr(blanks, head[at])) at++;
	return at < size && !strchr(follows, head[at]);
}

/* Whether no reader of traces takes the file: by its head. */
static bool head_is_no_trace(const char *path) {
	enum { METRICS_BYTES = 1 << 24 }; /* larger JSON is a trace whose events come late */
	struct stat about;
	lk_stream *in = NULL;
	const char *head = NULL;
	size_t size = 0;
	bool other = false;
	if (lk_stream_open(path, &in, NULL) != LK_OK) return false;
	if (lk_stream_peek(in, LK_TRACE_HEAD, &head, &size, NULL) == LK_OK) {
		lk_trace_kind kind = lk_trace_kind_of(head, size);
		bool text = !memchr(head, '\0', size), none = kind == LK_TRACE_OTHER;
		bool small = stat(path, &about) != 0 || about.st_size < METRICS_BYTES;
		other = (kind == LK_TRACE_OTHER_JSON && small) ||
		        (text && (none || begins_as_log(head, size))) ||
		        strstr(lk_file_name(path), "tfevents");
	}
	lk_stream_close(in);
	return other;
}

/* Whether nobody takes the file for a trace. */
static bool is_named_log(const char *path) {
	static const char *const endings[] = {".log", ".out", ".err", ".txt"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(path, endings[i])) return true;
	return false;
}

static bool may_be_log(const lk_explain_request *request) {
	struct stat about;
	lk_arena arena = {0};
	lk_error none; /* of traces, that there are none */
	const char *const *names;
	uint32_t count;
	if (request->trace_count != 1) return false;
	bool standard = strcmp(request->traces[0], "-") == 0;
	if ((standard ? fstat(STDIN_FILENO, &about) : stat(request->traces[0], &about)) != 0)
		return false;
	if (!S_ISDIR(about.st_mode))
		return S_ISREG(about.st_mode) && head_is_no_trace(request->traces[0]);
	bool traces = lk_trace_files_list(&arena, request->traces, 1, &names, &count, &none) == LK_OK;
	for (uint32_t i = 0; traces && i < count; i++)
		if (!head_is_no_trace(names[i])) break;
		else if (i + 1 == count) traces = false; /* only JSON of other kinds */
	lk_arena_free(&arena);
	return !traces;
}

/* ---- steps ---- */

static double known(double number) {
	return number > 0 ? number : NAN;
}

static double median_of(const double *times, size_t count) {
	return count > 0 ? lk_median(times, count) : NAN;
}

/* Whether the steps that are slow come at one distance; that, or 0. */
static int64_t slow_period(const lk_run_log *log) {
	int64_t period = 0, last = -1;
	int seen = 0;
	for (int i = 0; i < log->step_count; i++) {
		if (!log->steps[i].slow) continue;
		int64_t distance = log->steps[i].number - last;
		if (seen == 1) period = distance;
		if (seen > 1 && distance != period) return 0;
		last = log->steps[i].number;
		seen++;
	}
	return seen > 2 ? period : 0;
}

/* Whether a step is among the first of its run, of a file of several runs. */
static bool begins_run(const lk_measured *run, int64_t number) {
	for (size_t i = 0; i < run->run_count; i++)
		if (number > run->run_after[i] && number <= run->run_after[i] + (int64_t)run->first_steps)
			return true;
	return false;
}

static lk_status take_log_steps(run_log_work *work, lk_error *err) {
	lk_run_log *log = &work->log;
	const lk_measured *run = &work->measured;
	lk_log_step *steps = lk_arena_array(&work->arena, run->steps + 1, sizeof *steps);
	double all = 0, beyond = 0;
	if (!steps) return lk_oom(err);
	for (size_t i = 0; i < run->steps; i++) {
		bool first = i < run->first_steps || begins_run(run, run->step_numbers[i]),
			 slow = !first && run->step_times_s[i] > SLOW * run->step_s;
		steps[i] = (lk_log_step){run->step_numbers[i], run->step_times_s[i], first, slow};
		log->slow_count += slow;
		all += first ? 0 : run->step_times_s[i];
		beyond += slow ? run->step_times_s[i] - run->step_s : 0;
	}
	size_t steady = run->steps - run->first_steps, third = steady / 3;
	const double *times = run->step_times_s + run->first_steps;
	log->steps = steps;
	log->step_count = (int)run->steps;
	log->first_count = (int)run->first_steps;
	log->first_s = run->first_steps > 0 ? run->step_times_s[0] : NAN;
	log->slow_share = steady > 0 ? lk_share(beyond, all) : NAN;
	log->drift =
		third < 3 ? NAN : median_of(times + steady - third, third) / median_of(times, third) - 1;
	log->slow_every = slow_period(log);
	return LK_OK;
}

static lk_status take_log_changes(run_log_work *work, lk_error *err) {
	lk_run_log *log = &work->log;
	const lk_measured *run = &work->measured;
	log->restarts = run->restarts;
	log->repeated_steps = run->repeated_steps;
	log->restart_s = (double)run->repeated_steps * run->step_s;
	return lk_log_divide(&work->arena, run->step_times_s + run->first_steps,
	                     run->step_numbers + run->first_steps, run->steps - run->first_steps,
	                     &log->stretches, &log->stretch_count, err);
}

static lk_status take_log_parts(run_log_work *work, lk_error *err) {
	const lk_measured *run = &work->measured;
	lk_log_part *parts = lk_arena_array(&work->arena, run->part_count + 1, sizeof *parts);
	if (!parts) return lk_oom(err);
	for (size_t i = 0; i < run->part_count; i++)
		parts[i] = (lk_log_part){run->parts[i].name, run->parts[i].seconds,
		                         run->step_s > 0 ? run->parts[i].seconds / run->step_s : NAN};
	work->log.parts = parts;
	work->log.part_count = (int)run->part_count;
	return LK_OK;
}

static void take_log_numbers(run_log_work *work) {
	lk_run_log *log = &work->log;
	const lk_measured *run = &work->measured;
	log->source = run->source;
	log->step_s = known(run->step_s);
	log->step_low_s = known(run->step_low_s);
	log->step_high_s = known(run->step_high_s);
	log->tokens_per_s = known(run->tokens_per_s);
	log->samples_per_s = known(run->samples_per_s);
	log->tokens_per_s_gpu = known(run->tokens_per_s_gpu);
	log->tflops_gpu = known(run->tflops_gpu);
	log->mfu = known(run->mfu);
	log->memory_bytes = known(run->memory_bytes);
	log->memory_kind = lk_memory_kind_name(run->memory_kind);
	log->gpus = run->gpus;
	log->global_batch = run->global_batch;
	log->seq_len = run->seq_len;
	log->gpu = run->gpu_name;
	log->gpu_memory_bytes = known(run->gpu_memory_bytes);
	log->power_w = known(run->power_w);
	log->power_limit_w = known(run->power_limit_w);
	log->clock_hz = known(run->clock_hz);
	log->utilisation = known(run->utilisation);
	log->throttled = run->throttled;
}

/* ---- what stands out ---- */

static void find_slow(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	lk_text found = lk_text_begin(text, size);
	if (!(log->slow_share > 0.01)) return;
	lk_text_add(&found, "%d slow %s %.1f %% of the time", log->slow_count,
	            lk_noun(log->slow_count, "step costs", "steps cost"), 100 * log->slow_share);
	if (log->slow_every > 0)
		lk_text_add(&found,
		            ", one every %lld steps: what saves or evaluates at that interval can run "
		            "asynchronously or less often",
		            (long long)log->slow_every);
	else
		lk_text_add(&found,
		            ", at no regular interval: look at data loading, storage and the network");
}

static void find_tail(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	if (!(log->step_high_s > 1.1 * log->step_s) || log->slow_share > 0.01) return; /* find_slow */
	lk_text found = lk_text_begin(text, size);
	lk_text_add(
		&found,
		"one step in twenty takes %.0f %% longer than the median: a trace of some steps of each "
		"rank shows whom the others wait for (lockstep explain TRACES)",
		100 * (log->step_high_s / log->step_s - 1));
}

/* The stretch that costs most, of a run whose speed changes; drift says it of two. */
static void find_stretch(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	const lk_log_stretch *worst = NULL;
	double all = 0;
	char cost[32];
	for (int i = 0; i < log->stretch_count; i++) {
		if (!worst || log->stretches[i].cost_s > worst->cost_s) worst = &log->stretches[i];
		all += log->stretches[i].cost_s;
	}
	if (!worst || !(worst->slower > 0.01)) return;
	lk_text found = lk_text_begin(text, size);
	lk_text_add(&found,
	            "the speed changes %d %s: steps %lld to %lld take %.1f %% longer than the fastest "
	            "stretch, and slower stretches cost %s in all; look at what changed there: nodes, "
	            "clocks, data, a neighbour",
	            log->stretch_count - 1, lk_noun(log->stretch_count - 1, "time", "times"),
	            (long long)worst->first, (long long)worst->last, 100 * worst->slower,
	            lk_format_seconds(all, cost, sizeof cost));
}

static void find_restarts(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	char cost[32];
	if (!log->restarts) return;
	lk_text found = lk_text_begin(text, size);
	lk_text_add(&found, "%d %s repeated %lld steps, %s: checkpoints at shorter intervals lose less",
	            log->restarts, lk_noun(log->restarts, "restart", "restarts"),
	            (long long)log->repeated_steps,
	            lk_format_seconds(log->restart_s, cost, sizeof cost));
}

static void find_drift(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	if (!(fabs(log->drift) > 0.03) || log->stretch_count > 1) return; /* find_stretch */
	lk_text found = lk_text_begin(text, size);
	lk_text_add(&found, "the last third of the steps takes %.1f %% %s than the first: %s",
	            100 * fabs(log->drift), log->drift > 0 ? "longer" : "less time",
	            log->drift > 0 ? "look at clocks, at longer sequences and at memory that fragments"
	                           : "sequences, the batch or a neighbour on the machine changed");
}

/* Parts that wait for data, by the names that frameworks give them. */
static void find_data(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	for (int i = 0; i < log->part_count; i++) {
		const lk_log_part *part = &log->parts[i];
		if (!strstr(part->name, "batch-generator") && !strstr(part->name, "data")) continue;
		if (!(part->share > 0.05)) continue;
		lk_text found = lk_text_begin(text, size);
		lk_text_add(&found, "%s takes %.0f %% of a step: the loader is late; give it more workers",
		            part->name, 100 * part->share);
	}
}

static void find_clocks(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	lk_text found = lk_text_begin(text, size);
	if (log->throttled)
		lk_text_add(&found, "nvidia-smi reports that power or temperature holds the clocks down");
	else if (log->power_w > 0.97 * log->power_limit_w)
		lk_text_add(&found, "the GPUs run at their power limit, which holds their clocks down");
}

static void find_full(run_log_work *work, char *text, size_t size) {
	const lk_run_log *log = &work->log;
	if (!(log->memory_bytes > 0.95 * log->gpu_memory_bytes)) return;
	lk_text found = lk_text_begin(text, size);
	lk_text_add(&found,
	            "memory is %.0f %% full: the caching allocator may have to free and ask again",
	            100 * log->memory_bytes / log->gpu_memory_bytes);
}

static lk_status take_findings(run_log_work *work, lk_error *err) {
	static void (*const finders[])(run_log_work *, char *,
	                               size_t) = {find_slow,  find_tail, find_stretch, find_restarts,
	                                          find_drift, find_data, find_clocks,  find_full};
	_Static_assert(sizeof finders / sizeof *finders <= sizeof work->findings / sizeof(char *),
	               "room for all findings");
	for (size_t i = 0; i < sizeof finders / sizeof *finders; i++) {
		char text[300] = "";
		finders[i](work, text, sizeof text);
		if (!*text) continue;
		const char *kept = lk_arena_strdup(&work->arena, text);
		if (!kept) return lk_oom(err);
		work->findings[work->log.finding_count++] = kept;
	}
	work->log.findings = work->findings;
	return LK_OK;
}

/* ---- the answer ---- */

static const char *check_log(const lk_run_log *log) {
	LK_HOLDS(!(log->step_low_s > log->step_s) && !(log->step_s > log->step_high_s));
	LK_HOLDS(!(log->slow_share > 1) && log->slow_count <= log->step_count);
	for (int i = 0; i < log->step_count; i++) LK_HOLDS(log->steps[i].seconds > 0);
	return NULL;
}

static lk_status make_log(run_log_work *work, const lk_explain_request *request, lk_error *err) {
	const char *quoted = lk_shell_quote(&work->arena, request->traces[0]);
	if (!quoted) return lk_oom(err);
	work->log.memory_owner = work;
	work->log.top = request->top;
	work->log.reproduce = lk_arena_printf(&work->arena, "lockstep explain %s", quoted);
	if (!work->log.reproduce) return lk_oom(err);
	take_log_numbers(work);
	LK_TRY(take_log_steps(work, err));
	if (work->measured.steps > 0) LK_TRY(take_log_changes(work, err));
	LK_TRY(take_log_parts(work, err));
	LK_TRY(take_findings(work, err));
	work->log.failed_check = lk_failed_check(check_log(&work->log));
	return LK_OK;
}

lk_status lk_run_log_asked(const lk_explain_request *request, bool *asked, lk_error *err) {
	lk_measured run;
	*asked = false;
	if (!may_be_log(request)) return LK_OK;
	if (strcmp(request->traces[0], "-") == 0) { /* it can be read only once */
		*asked = true;
		return LK_OK;
	}
	lk_status status = lk_measured_read(request->traces[0], &run, err);
	if (status == LK_ERR_INPUT && is_named_log(request->traces[0])) return status;
	if (status == LK_ERR_INPUT || status == LK_ERR_IO) return LK_OK;
	LK_TRY(status);
	lk_measured_free(&run);
	*asked = true;
	return LK_OK;
}

lk_status lk_run_log_read(const lk_explain_request *request, lk_run_log **out, lk_error *err) {
	lk_measured run;
	*out = NULL;
	LK_TRY(lk_measured_read(request->traces[0], &run, err));
	run_log_work *work = calloc(1, sizeof *work);
	if (!work) {
		lk_measured_free(&run);
		return lk_oom(err);
	}
	work->measured = run;
	lk_status status = make_log(work, request, err);
	if (status == LK_OK) *out = &work->log;
	else lk_run_log_free(&work->log);
	return status;
}

void lk_run_log_free(lk_run_log *log) {
	if (!log) return;
	run_log_work *work = (run_log_work *)(void *)log;
	lk_measured_free(&work->measured);
	lk_arena_free(&work->arena);
	free(work);
}
