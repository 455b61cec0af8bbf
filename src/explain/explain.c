/* explain.c: why a run is slow: reads the traces, measures each rank, joins the ranks. */
#include "base/arena.h"
#include "explain/explain.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options/command.h"
#include "step/traced.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/noun.h"
#include "base/text.h"
#include "system/parallel.h"
#include "base/sort.h"
#include "trace/read/read.h"

enum {
	MOST_STEPS = 4096 /* that are searched for lost ones */
};

void lk_explain_defaults(lk_explain_request *request) {
	*request = (lk_explain_request){.rank = -1, .top = 10};
}

static void free_ranks(lk_explain_work *work) {
	for (uint32_t r = 0; work->rank && r < work->count; r++) lk_rank_free(&work->rank[r]);
	free(work->rank);
	work->rank = NULL;
}

/* What follows needs only the times of the hosts: with thousands of ranks the rest is most of the
 * memory. */
static lk_status keep_hosts(lk_explain_work *work, lk_error *err) {
	work->host = calloc(work->count + (size_t)1, sizeof *work->host);
	if (!work->host) return lk_oom(err);
	for (uint32_t r = 0; r < work->count; r++) {
		memcpy(work->host[r], work->rank[r].host, sizeof *work->host);
		memset(work->rank[r].host, 0, sizeof work->rank[r].host);
	}
	free_ranks(work);
	return LK_OK;
}

static void free_hosts(lk_explain_work *work) {
	for (uint32_t r = 0; work->host && r < work->count; r++)
		for (int c = 0; c < LK_HOST_SETS; c++) lk_times_free(&work->host[r][c]);
	free(work->host);
	work->host = NULL;
}

void lk_explain_free(lk_explanation *explanation) {
	if (!explanation) return;
	lk_explain_work *work = explanation->memory_owner;
	if (work->versus_free) work->versus_free(work->versus_owner);
	free_ranks(work);
	free_hosts(work);
	lk_traces_free(work->traces);
	lk_vec_free(&work->warnings);
	lk_vec_free(&work->stalls);
	lk_arena_free(&work->arena);
	free(work);
}

/* ---- warnings ---- */

/* Readers number their warnings per file; strip the numbers, because they are renumbered here. */
static const char *without_number(const char *text) {
	const char *at = text;
	if (*at != 'W') return text;
	for (at++; isdigit((unsigned char)*at);) at++;
	return at > text + 1 && at[0] == ':' && at[1] == ' ' ? at + 2 : text;
}

static lk_status warn_lost_steps(lk_explain_work *work, lk_error *err) {
	const lk_explanation *explanation = &work->result;
	int all = explanation->step_count + explanation->lost_steps;
	if (!explanation->lost_steps) return LK_OK;
	return lk_explain_warn(work, err,
	                       "%d of %d %s are cut off, or missing in a trace, and left out",
	                       explanation->lost_steps, all, lk_noun(all, "step", "steps"));
}

static lk_status warn_missing_ranks(lk_explain_work *work, lk_error *err) {
	int traced = (int)work->count, world = work->result.world;
	if (work->traces->capture[0]->simulated)
		return lk_explain_warn(
			work, err,
			"a simulated step, with %d of its %d %s in the file: the others are like "
			"them; what a transfer waited for is idle time",
			traced, world, lk_noun(world, "rank", "ranks"));
	for (uint32_t i = 0; i < work->count; i++)
		if (work->traces->capture[i]->emulated)
			return lk_explain_warn(work, err,
			                       "recorded as %d emulated %s of %d, each alone: times of "
			                       "communication mean nothing; lockstep compose predicts the step "
			                       "of the whole job",
			                       traced, lk_noun(traced, "rank", "ranks"), world);
	if (world > traced)
		return lk_explain_warn(
			work, err,
			"traces of %d of %d %s are missing: what they do is not known, and waiting for them "
			"cannot be distinguished from transfer; record all ranks",
			world - traced, world, lk_noun(world, "rank", "ranks"));
	bool alone = work->traces->capture[0]->world == 1; /* stated by the trace itself */
	if (!work->result.comm_count || work->count > 1 || work->rank[0].host_comms || alone)
		return LK_OK;
	return lk_explain_warn(
		work, err,
		"one rank alone: waiting for other ranks cannot be distinguished from transfer; give their "
		"traces too");
}

/* Warn about ranks on different devices: it may be intended, or traces of two runs were mixed. */
static lk_status warn_devices(lk_explain_work *work, lk_error *err) {
	const lk_explain_rank *first = NULL;
	for (uint32_t i = 0; i < work->count; i++) {
		const lk_explain_rank *rank = &work->rank[i].result;
		if (!*rank->device) continue;
		if (!first) first = rank;
		if (strcmp(first->device, rank->device) == 0) continue;
		return lk_explain_warn(work, err,
		                       "rank %d ran on %s and rank %d on %s: "
		                       "if these are two runs, compare them with lockstep diff",
		                       first->rank, first->device, rank->rank, rank->device);
	}
	return LK_OK;
}

/* Collect caveats: what changes the meaning of all results. */
static lk_status take_caveats(lk_explain_work *work, lk_error *err) {
	const lk_traces *traces = work->traces;
	for (size_t i = 0; i < traces->damages; i++)
		LK_TRY(lk_explain_warn(work, err, "%s", without_number(traces->warnings.at[i])));
	LK_TRY(warn_lost_steps(work, err));
	LK_TRY(warn_missing_ranks(work, err));
	LK_TRY(warn_devices(work, err));
	work->result.caveat_count = (int)work->warnings.count;
	return LK_OK;
}

static lk_status take_warnings(lk_explain_work *work, lk_error *err) {
	const lk_traces *traces = work->traces;
	uint32_t silent = 0, unmarked = 0, repeated = 0, shown = 0;
	bool recorded = strcmp(traces->capture[0]->format, "lockstep recording") == 0;
	for (size_t i = traces->damages; i < traces->warnings.count; i++)
		LK_TRY(lk_explain_warn(work, err, "%s", without_number(traces->warnings.at[i])));
	for (size_t i = 0; i < traces->problems.count; i++)
		LK_TRY(lk_explain_warn(work, err, "%s", traces->problems.at[i]));
	for (uint32_t r = 0; r < work->count; r++) {
		if (!work->rank[r].shown) continue;
		shown++;
		silent += work->rank[r].device.count == 0;
		unmarked += !work->rank[r].annotated;
		repeated += work->rank[r].repeated;
	}
	if (silent)
		LK_TRY(lk_explain_warn(
			work, err,
			"no work of a device in %u of %u %s: times are those of the host; profile with "
			"ProfilerActivity.CUDA to see more",
			silent, shown, lk_noun(shown, "trace", "traces")));
	if (repeated)
		LK_TRY(lk_explain_warn(
			work, err,
			"no steps are marked in %u of %u %s: a step is taken to end with the optimizer's work, "
			"and what comes before the first end is left out",
			repeated, shown, lk_noun(shown, "trace", "traces")));
	if (unmarked)
		LK_TRY(lk_explain_warn(
			work, err, "no steps are marked in %u of %u %s: the whole trace counts as one; %s",
			unmarked, shown, lk_noun(shown, "trace", "traces"),
			recorded ? "record with --step-marker" : "call profiler.step() in the loop"));
	return LK_OK;
}

/* ---- joining ---- */

/* The rows of all requested ranks, in sequence: X(vector in the rank, array and count in the
 * result). */
#define ROWS(X)                                                \
	X(step_rows, lk_explain_step, steps, step_rows)            \
	X(idle_rows, lk_explain_idle, idle, idle_count)            \
	X(stretches, lk_explain_stretch, stretches, stretch_count) \
	X(queue_rows, lk_explain_queue, queues, queue_count)

static lk_status join_rows(lk_explain_work *work, lk_error *err) {
#define JOIN(from, type, to, number)                                       \
	{                                                                      \
		size_t count = 0;                                                  \
		for (uint32_t r = 0; r < work->count; r++)                         \
			if (work->rank[r].shown) count += work->rank[r].from.count;    \
		type *rows = LK_ARRAY(&work->arena, type, count);                  \
		if (!rows) return lk_oom(err);                                     \
		size_t at = 0;                                                     \
		for (uint32_t r = 0; r < work->count; r++) {                       \
			size_t here = work->rank[r].from.count;                        \
			if (!work->rank[r].shown || !here) continue;                   \
			memcpy(rows + at, work->rank[r].from.at, here * sizeof *rows); \
			lk_vec_free(&work->rank[r].from);                              \
			at += here;                                                    \
		}                                                                  \
		work->result.to = rows;                                            \
		work->result.number = (int)count;                                  \
	}
	ROWS(JOIN)
#undef JOIN
	lk_sort((void *)work->result.stretches, (size_t)work->result.stretch_count,
	        sizeof *work->result.stretches, lk_stretch_order);
	return LK_OK;
}

static lk_status join_ranks(lk_explain_work *work, lk_error *err) {
	lk_explain_rank *ranks = LK_ARRAY(&work->arena, lk_explain_rank, work->count);
	lk_explain_launch *launches = LK_ARRAY(&work->arena, lk_explain_launch, work->count);
	if (!ranks || !launches) return lk_oom(err);
	work->result.ranks = ranks;
	work->result.launches = launches;
	work->result.annotated = true;
	for (uint32_t r = 0; r < work->count; r++) {
		const lk_rank_work *rank = &work->rank[r];
		if (!rank->shown) continue;
		ranks[work->result.rank_count++] = rank->result;
		if (rank->launch.cpu_duration.count) launches[work->result.launch_count++] = rank->launch;
		work->result.kernels += rank->result.device_events;
		work->result.annotated &= rank->annotated;
	}
	return join_rows(work, err);
}

/* A step's time is the mean over its ranks. Reads the rows from `first`, in order of steps; returns
 * the index of the next step. */
static size_t step_time(const lk_explanation *explanation, const lk_timed_list *order, size_t first,
                        double *seconds) {
	size_t end = first;
	*seconds = 0;
	for (; end < order->count && order->at[end].key == order->at[first].key; end++)
		*seconds += (double)explanation->steps[order->at[end].item].dur_ns * 1e-9;
	*seconds /= (double)(end - first);
	return end;
}

/* Find the step for the critical path: the one nearest to the mean, since losses per step are means
 * too. */
static void find_typical_step(lk_explanation *explanation, const lk_timed_list *order) {
	double step, nearest = INFINITY;
	for (size_t first = 0, end; first < order->count; first = end) {
		end = step_time(explanation, order, first, &step);
		if (!(fabs(step - explanation->step_s) < nearest)) continue;
		nearest = fabs(step - explanation->step_s);
		explanation->critical.step = explanation->steps[order->at[first].item].number;
		explanation->critical.step_s = step;
	}
}

/* Mean over the steps of all ranks, as the parts of a step are, also where a rank lacks some; the
 * noise is the deviation of the steps. */
static lk_status measure_steps(lk_explain_work *work, lk_error *err) {
	lk_explanation *explanation = &work->result;
	lk_timed_list order = {0};
	bool good = lk_reserve(&order, (size_t)explanation->step_rows + 1);
	for (int i = 0; good && i < explanation->step_rows; i++)
		order.at[order.count++] = (lk_timed){(uint64_t)explanation->steps[i].number, (uint32_t)i};
	good = good && lk_timed_sort(order.at, order.count);
	double all = 0, sum = 0, squares = 0, step;
	for (size_t i = 0; good && i < order.count; i++) all += (double)explanation->steps[i].dur_ns;
	for (size_t first = 0; good && first < order.count;) {
		first = step_time(explanation, &order, first, &step);
		/* Welford's recurrence: no cancellation. */
		double off = step - (explanation->step_count ? sum / explanation->step_count : 0);
		sum += step;
		explanation->step_count++;
		squares += off * (step - sum / explanation->step_count);
	}
	explanation->step_s = explanation->step_count ? all * 1e-9 / (double)order.count : NAN;
	explanation->step_deviation_s =
		explanation->step_count > 1 ? sqrt(squares / (explanation->step_count - 1)) : NAN;
	if (good) find_typical_step(explanation, &order);
	lk_vec_free(&order);
	return good ? LK_OK : lk_oom(err);
}

/* A profile numbers its steps consecutively: from the first to the last number of all ranks, one
 * that some rank lacks is lost. */
static void count_lost_steps(lk_explain_work *work) {
	int64_t first = INT64_MAX, last = INT64_MIN, ranks = 0, complete = 0;
	for (uint32_t r = 0; r < work->count; r++) {
		const lk_rank_work *rank = &work->rank[r];
		if (!rank->shown || rank->last_step < rank->first_step) continue;
		ranks++;
		if (rank->first_step < first) first = rank->first_step;
		if (rank->last_step > last) last = rank->last_step;
	}
	if (!ranks || last - first >= MOST_STEPS) return;
	LK_ASSERT(first <= last);
	uint32_t holds[MOST_STEPS] = {0};
	for (int i = 0; i < work->result.step_rows; i++) holds[work->result.steps[i].number - first]++;
	for (int64_t i = 0; i <= last - first; i++) complete += holds[i] >= ranks;
	work->result.lost_steps = (int)(last - first + 1 - complete);
}

/* Steps cut off by profiling, or including warm-up, distort means. */
static const double ODD_STEP = 1.3;

static lk_status warn_odd_steps(lk_explain_work *work, lk_error *err) {
	const lk_explanation *explanation = &work->result;
	lk_timed *all = malloc(((size_t)explanation->step_rows + 1) * sizeof *all);
	if (!all) return lk_oom(err);
	for (int i = 0; i < explanation->step_rows; i++)
		all[i] = (lk_timed){(uint64_t)explanation->steps[i].dur_ns, (uint32_t)i};
	bool good = lk_timed_sort(all, (size_t)explanation->step_rows);
	double median = good ? lk_stats_of(all, (size_t)explanation->step_rows).median_ns : NAN;
	free(all);
	int odd = 0, first = 0;
	for (int i = explanation->step_rows; i-- > 0;) {
		double ratio = (double)explanation->steps[i].dur_ns / median;
		if (ratio < ODD_STEP && ratio > 1 / ODD_STEP) continue;
		odd++;
		first = i;
	}
	if (!odd || explanation->step_rows < 3) return good ? LK_OK : lk_oom(err);
	return lk_explain_warn(work, err,
	                       "%d of %d %s differ from the median by more than 30 %%: step %lld takes "
	                       "%.2f times as long; --steps A-B leaves some out",
	                       odd, explanation->step_rows,
	                       lk_noun(explanation->step_rows, "step", "steps"),
	                       (long long)explanation->steps[first].number,
	                       (double)explanation->steps[first].dur_ns / median);
}

/* ---- the request ---- */

static lk_status check_rank(const lk_explain_work *work, int rank, lk_error *err) {
	for (uint32_t r = 0; r < work->count; r++)
		if (rank < 0 || work->rank[r].result.rank == rank) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--rank", "there is no trace of rank %d", rank);
	return lk_hint(err,
	               work->count == 1 ? "the trace is of rank %d"
	                                : "the traces begin with rank %d; %u ranks are traced",
	               work->rank[0].result.rank, work->count);
}

struct rank_job {
	lk_explain_work *work;
	const lk_explain_request *request;
};

static lk_status explain_rank(void *context, size_t r, lk_error *err) {
	const struct rank_job *job = context;
	lk_rank_work *rank = &job->work->rank[r];
	LK_TRY(lk_rank_explain(rank, job->work->traces, job->work->arrival, (uint32_t)r, job->request,
	                       err));
	rank->shown = job->request->rank < 0 || rank->result.rank == job->request->rank;
	return LK_OK;
}

static lk_status explain_reproduce(lk_explain_work *work, const lk_explain_request *request,
                                   lk_error *err) {
	static const char *const but[] = {"threads", "top", NULL};
	lk_explain_request usual;
	lk_explain_defaults(&usual);
	work->result.reproduce =
		lk_command(&work->arena, &(lk_question){.verb = &lk_explain_verb,
	                                            .request = request,
	                                            .usual = &usual,
	                                            .but = but,
	                                            .operands = request->traces,
	                                            .operand_count = request->trace_count});
	return work->result.reproduce ? LK_OK : lk_oom(err);
}

/* How close kernels of known shape come to what the device allows, weighted by their time. */
static double kernel_roof(const lk_explanation *explanation) {
	double known = 0, roof = 0;
	for (int i = 0; i < explanation->shaped_count; i++) {
		const lk_explain_shaped *shaped = &explanation->shaped[i];
		if (isnan(shaped->roof)) continue;
		known += shaped->total_ns;
		roof += shaped->total_ns * fmin(1, shaped->roof);
	}
	return known > 0 ? roof / known : NAN;
}

static lk_status explain_work(lk_explain_work *work, const lk_explain_request *request,
                              lk_error *err) {
	lk_traces *traces = work->traces;
	work->rank = calloc(traces->count + 1, sizeof *work->rank);
	work->arrival = lk_arrivals_find(&work->arena, traces);
	if (!work->rank || !work->arrival) return lk_oom(err);
	work->count = traces->count;
	work->whole = request->steps && lk_same_name(request->steps, "all");
	struct rank_job job = {work, request};
	LK_TRY(lk_parallel(traces->count, request->threads, explain_rank, &job, err));
	LK_TRY(check_rank(work, request->rank, err));
	work->result.world = traces->world;
	work->result.anchors = traces->one_clock ? 0 : traces->anchors;
	work->result.residual_max_s = traces->one_clock ? 0 : traces->residual_max_ns * 1e-9;
	work->result.top = request->top;
	LK_TRY(explain_reproduce(work, request, err));
	LK_TRY(lk_traces_inputs(&work->arena, &lk_explain_verb, request, request->traces,
	                        request->trace_count, &work->result.inputs, err));
	LK_TRY(join_ranks(work, err));
	lk_heap_give_back();
	LK_TRY(measure_steps(work, err));
	count_lost_steps(work);
	LK_TRY(lk_explain_kernels(work, err));
	LK_TRY(lk_explain_comms(work, err));
	if (request->operations) LK_TRY(lk_explain_operations(work, err));
	LK_TRY(lk_explain_modules(work, err));
	LK_TRY(take_caveats(work, err));
	LK_TRY(take_warnings(work, err));
	LK_TRY(warn_odd_steps(work, err));
	LK_TRY(lk_explain_hold_against(work, request, err));
	LK_TRY(lk_explain_stalls(work, err));
	work->result.kernel_roof = kernel_roof(&work->result);
	if (!lk_explain_wants_shapes(request)) work->result.shaped_count = work->result.shaped_all = 0;
	work->result.warnings = work->warnings.at;
	work->result.warning_count = (int)work->warnings.count;
	work->result.stalls = work->stalls.at;
	work->result.stall_count = (int)work->stalls.count;
	return LK_OK;
}

lk_status lk_explain_make(lk_traces *traces, const lk_explain_request *request,
                          lk_explanation **out, lk_error *err) {
	lk_explain_work *work = calloc(1, sizeof *work);
	if (!work) {
		lk_traces_free(traces);
		return lk_oom(err);
	}
	work->result.memory_owner = work;
	work->traces = traces;
	lk_status status = explain_work(work, request, err);
	if (status != LK_OK) {
		lk_explain_free(&work->result);
		return status;
	}
	*out = &work->result;
	return LK_OK;
}

static lk_status refuse_damage(const lk_traces *traces, lk_error *err) {
	for (uint32_t c = 0; c < traces->count; c++) {
		const lk_capture *capture = traces->capture[c];
		if (!capture->damages.count) {
			LK_TRY(lk_capture_check(capture, err));
			continue;
		}
		lk_fail(err, LK_ERR_INPUT, capture->path, "cannot be read in full, in %llu %s: %s",
		        (unsigned long long)capture->damaged,
		        lk_noun((double)capture->damaged, "place", "places"), capture->damages.at[0]);
		return lk_hint(err, "record it again, or leave --strict out");
	}
	return LK_OK;
}

/* Keep shapes only if needed: they are most of the names and take a sixth longer, and only the
 * roofline, the search for slow kernels and a comparison with a job use them. */
lk_read_limits lk_explain_limits(const lk_explain_request *request) {
	return (lk_read_limits){.shapes = lk_explain_wants_shapes(request) || request->operations,
	                        .shapes_below = (uint64_t)32 << 20};
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

static const char *explain_check_rank(const lk_explain_rank *rank) {
	LK_HOLDS(rank->compute_ns >= 0 && rank->idle_ns >= 0 && rank->non_compute_ns >= 0);
	LK_HOLDS(rank->compute_ns + rank->non_compute_ns + rank->idle_ns == rank->kernel_time_ns);
	LK_HOLDS(rank->exposed_communication_ns + rank->exposed_memory_ns == rank->non_compute_ns);
	LK_HOLDS(lk_idle_sum(rank) == rank->idle_ns);
	LK_HOLDS(rank->overlap_ns >= 0 && rank->overlap_ns <= rank->communication_ns);
	LK_HOLDS(rank->exposed_communication_ns <= rank->communication_ns);
	LK_HOLDS(rank->exposed_memory_ns <= rank->memory_ns);
	LK_HOLDS(rank->h2d_exposed_ns >= 0 && rank->h2d_exposed_ns <= rank->h2d_ns);
	LK_HOLDS(rank->idle_optimizer_ns + rank->idle_outside_ns <= rank->idle_host_ns);
	LK_HOLDS(rank->pinned_exposed_ns <= rank->h2d_exposed_ns);
	LK_HOLDS(rank->pageable_exposed_ns <= rank->exposed_memory_ns);
	LK_HOLDS(rank->device_events <= rank->events);
	return NULL;
}

static const char *explain_check_tables(const lk_explanation *explanation) {
	for (int i = 0; i < explanation->idle_count; i++) {
		const lk_explain_idle *idle = &explanation->idle[i];
		LK_HOLDS(idle->host_wait_ns + idle->kernel_wait_ns + idle->other_ns == idle->idle_ns);
	}
	for (int i = 0; i < explanation->stretch_count; i++) {
		const lk_explain_stretch *stretch = &explanation->stretches[i];
		LK_HOLDS(stretch->lost_ns >= 0 && stretch->lost_ns <= stretch->dur_ns);
		LK_HOLDS(i == 0 || stretch->lost_ns <= stretch[-1].lost_ns);
	}
	for (int i = 0; i < explanation->queue_count; i++) {
		const lk_explain_queue *queue = &explanation->queues[i];
		LK_HOLDS(queue->full_ns <= queue->span_ns && queue->median <= (double)queue->max);
		LK_HOLDS((double)queue->min <= queue->median && queue->median <= queue->p95);
	}
	for (int i = 0; i < explanation->launch_count; i++) {
		const lk_explain_launch *launch = &explanation->launches[i];
		LK_HOLDS(launch->short_kernels <= launch->gpu_duration.count);
	}
	for (int i = 0; i < explanation->straggler_count; i++)
		LK_HOLDS(explanation->stragglers[i].last <= explanation->stragglers[i].collectives);
	for (int i = 0; i < explanation->shaped_count; i++)
		LK_HOLDS(explanation->shaped[i].share >= 0 && explanation->shaped[i].share <= 1 + 1e-9);
	double path = 0;
	for (int i = 0; i < explanation->critical.part_count; i++)
		path += explanation->critical.parts[i].seconds;
	LK_HOLDS(path <= explanation->critical.step_s * (1 + 1e-6) + 1e-9);
	return NULL;
}

/* Indices that views follow. */
static lk_status explain_check_places(const lk_explanation *explanation, lk_error *err) {
	for (int i = 0; i < explanation->action_count; i++)
		LK_CHECK(explanation->actions[i] >= 0 && explanation->actions[i] < explanation->stall_count,
		         err);
	return LK_OK;
}

static const char *explain_check(const lk_explanation *explanation) {
	for (int i = 0; i < explanation->rank_count; i++)
		LK_HOLDS_ALL(explain_check_rank(&explanation->ranks[i]));
	for (int i = 0; i < explanation->step_rows; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		LK_HOLDS(step->compute_ns + step->exposed_communication_ns + step->exposed_memory_ns +
		             step->idle_ns ==
		         step->dur_ns);
	}
	LK_HOLDS_ALL(explain_check_tables(explanation));
	for (int i = 0; i < explanation->kernel_count; i++) {
		const lk_explain_kernel *kernel = &explanation->kernel[i];
		LK_HOLDS(kernel->share >= 0 && kernel->share <= 1 + 1e-9);
		LK_HOLDS(i == 0 || kernel->time.total_ns <= kernel[-1].time.total_ns);
		LK_HOLDS(kernel->time.min_ns <= kernel->time.median_ns &&
		         kernel->time.median_ns <= kernel->time.max_ns);
	}
	for (int i = 0; i < explanation->comm_count; i++) {
		const lk_explain_comm *comm = &explanation->comm[i];
		LK_HOLDS(comm->wait_ns >= 0 && comm->transfer_ns >= 0 && comm->exposed_ns >= 0);
		LK_HOLDS(comm->matched <= comm->count);
	}
	double adds = 0, most = explanation->step_s * (1 + 1e-6) + 1e-9;
	for (int i = 0; i < explanation->stall_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[i];
		LK_HOLDS(isfinite(stall->lost_s) && stall->lost_s >= 0);
		LK_HOLDS(!(stall->gain_s > explanation->step_s * (1 + 1e-9)));
		LK_HOLDS(stall->adds_s >= 0 &&
		         stall->adds_s <=
		             (isnan(stall->gain_s) ? stall->most_s : stall->gain_s) * (1 + 1e-9));
		adds += stall->adds_s;
		LK_HOLDS(i == 0 || stall->lost_s <= stall[-1].lost_s);
	}
	LK_HOLDS(adds <= most);
	return NULL;
}

lk_status lk_explain_files(lk_trace_files *files, const lk_explain_request *request,
                           lk_explanation **out, lk_error *err) {
	lk_traces *traces;
	*out = NULL;
	LK_TRY(lk_traces_of_files(files, &traces, err));
	lk_status status = lk_devices_ready(err);
	if (status == LK_OK) status = lk_cost_ready(err);
	if (status == LK_OK && request->strict) status = refuse_damage(traces, err);
	if (status != LK_OK) {
		lk_traces_free(traces);
		return status;
	}
	LK_TRY(lk_explain_make(traces, request, out, err));
	lk_explain_work *work = (*out)->memory_owner;
	status = keep_hosts(work, err);
	if (status == LK_OK) status = lk_explain_simulate(work, err);
	free_hosts(work);
	if (status == LK_OK) status = lk_explain_diagnose(work, err);
	if (status == LK_OK) status = explain_check_places(*out, err);
	if (status == LK_OK) {
		(*out)->failed_check = lk_failed_check(explain_check(*out));
		return LK_OK;
	}
	lk_explain_free(*out);
	*out = NULL;
	return status;
}

lk_status lk_explain(const lk_explain_request *request, lk_explanation **out, lk_error *err) {
	const lk_read_limits limits = lk_explain_limits(request);
	lk_trace_files files;
	*out = NULL;
	LK_TRY(lk_trace_files_read(request->traces, (uint32_t)request->trace_count, &limits,
	                           request->threads, &files, err));
	return lk_explain_files(&files, request, out, err);
}
