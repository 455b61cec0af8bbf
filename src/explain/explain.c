/* explain.c: why a run is slow: reads the traces, measures rank by rank, joins the ranks. */
#include "base/arena.h"
#include "explain/explain.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options/command.h"
#include "step/traced.h"
#include "base/parallel.h"

void lk_explain_defaults(lk_explain_request *request) {
	*request = (lk_explain_request){.rank = -1, .top = 10};
}

void lk_explain_free(lk_explanation *explanation) {
	if (!explanation) return;
	lk_explain_work *work = explanation->memory_owner;
	for (uint32_t r = 0; work->rank && r < work->count; r++) lk_rank_free(&work->rank[r]);
	free(work->rank);
	lk_traces_free(work->traces);
	lk_vec_free(&work->warnings);
	lk_vec_free(&work->stalls);
	lk_arena_free(&work->arena);
	free(work);
}

/* ---- warnings ---- */

/* Readers number their warnings file by file; here they are numbered anew. */
static const char *without_number(const char *text) {
	const char *at = text;
	if (*at != 'W') return text;
	for (at++; isdigit((unsigned char)*at);) at++;
	return at > text + 1 && at[0] == ':' && at[1] == ' ' ? at + 2 : text;
}

static lk_status take_warnings(lk_explain_work *work, lk_error *err) {
	const lk_traces *traces = work->traces;
	uint32_t silent = 0, unmarked = 0, shown = 0;
	bool recorded = strcmp(traces->capture[0]->format, "lockstep recording") == 0;
	for (size_t i = 0; i < traces->warnings.count; i++)
		LK_TRY(lk_explain_warn(work, err, "%s", without_number(traces->warnings.at[i])));
	for (size_t i = 0; i < traces->problems.count; i++)
		LK_TRY(lk_explain_warn(work, err, "%s", traces->problems.at[i]));
	for (uint32_t r = 0; r < work->count; r++) {
		if (!work->rank[r].shown) continue;
		shown++;
		silent += work->rank[r].device.count == 0;
		unmarked += !work->rank[r].annotated;
	}
	if (silent)
		LK_TRY(lk_explain_warn(
			work, err,
			"no work of a device in %u of %u traces: times are those of the host; profile with "
			"ProfilerActivity.CUDA to see more",
			silent, shown));
	if (unmarked)
		LK_TRY(lk_explain_warn(
			work, err, "no steps are marked in %u of %u traces: the whole trace counts as one; %s",
			unmarked, shown,
			recorded ? "record with --step-marker" : "call profiler.step() in the loop"));
	return LK_OK;
}

static lk_status warn_alone(lk_explain_work *work, lk_error *err) {
	if (!work->result.comm_count || work->count > 1 || work->rank[0].host_comms) return LK_OK;
	return lk_explain_warn(
		work, err,
		"one rank alone: waiting for other ranks cannot be distinguished from transfer; "
		"give their traces too");
}

/* ---- joining ---- */

/* The rows of all requested ranks, one after another: X(vector in the rank, array and
 * count in the result).
 */
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
			at += here;                                                    \
		}                                                                  \
		work->result.to = rows;                                            \
		work->result.number = (int)count;                                  \
	}
	ROWS(JOIN)
#undef JOIN
	qsort((void *)work->result.stretches, (size_t)work->result.stretch_count,
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

/* A step's time is the mean of its ranks; its noise is how steps differ. */
static lk_status measure_steps(lk_explain_work *work, lk_error *err) {
	lk_explanation *explanation = &work->result;
	lk_timed_list order = {0};
	bool good = lk_reserve(&order, (size_t)explanation->step_rows + 1);
	for (int i = 0; good && i < explanation->step_rows; i++)
		order.at[order.count++] = (lk_timed){(uint64_t)explanation->steps[i].number, (uint32_t)i};
	good = good && lk_timed_sort(order.at, order.count);
	double sum = 0, squares = 0;
	for (size_t first = 0, end; good && first < order.count; first = end) {
		double step = 0;
		for (end = first; end < order.count && order.at[end].key == order.at[first].key; end++)
			step += (double)explanation->steps[order.at[end].item].dur_ns * 1e-9;
		step /= (double)(end - first);
		/* Welford's recurrence: no cancellation. */
		double off = step - (explanation->step_count ? sum / explanation->step_count : 0);
		sum += step;
		explanation->step_count++;
		squares += off * (step - sum / explanation->step_count);
	}
	lk_vec_free(&order);
	explanation->step_s = explanation->step_count ? sum / explanation->step_count : NAN;
	explanation->step_deviation_s =
		explanation->step_count > 1 ? sqrt(squares / (explanation->step_count - 1)) : NAN;
	return good ? LK_OK : lk_oom(err);
}

/* Steps that profiling cut off, or that warmed something up, spoil means. */
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
	                       "%d of %d steps differ from the median by more than 30 %%: step %lld "
	                       "takes %.2f times as long; "
	                       "--steps A-B leaves some out",
	                       odd, explanation->step_rows, (long long)explanation->steps[first].number,
	                       (double)explanation->steps[first].dur_ns / median);
}

/* ---- the question ---- */

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
	LK_TRY(lk_rank_explain(rank, job->work->traces, (uint32_t)r, job->request, err));
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

static lk_status explain_work(lk_explain_work *work, const lk_explain_request *request,
                              lk_error *err) {
	lk_traces *traces = work->traces;
	work->rank = calloc(traces->count + 1, sizeof *work->rank);
	if (!work->rank) return lk_oom(err);
	work->count = traces->count;
	struct rank_job job = {work, request};
	LK_TRY(lk_parallel(traces->count, request->threads, explain_rank, &job, err));
	LK_TRY(check_rank(work, request->rank, err));
	work->result.world = traces->world;
	work->result.anchors = traces->anchors;
	work->result.residual_max_s = traces->residual_max_ns * 1e-9;
	work->result.top = request->top;
	LK_TRY(explain_reproduce(work, request, err));
	LK_TRY(lk_traces_inputs(&work->arena, &lk_explain_verb, request, request->traces,
	                        request->trace_count, &work->result.inputs, err));
	LK_TRY(join_ranks(work, err));
	LK_TRY(measure_steps(work, err));
	LK_TRY(lk_explain_kernels(work, err));
	LK_TRY(lk_explain_comms(work, err));
	LK_TRY(take_warnings(work, err));
	LK_TRY(warn_alone(work, err));
	LK_TRY(warn_odd_steps(work, err));
	LK_TRY(lk_explain_stalls(work, err));
	LK_TRY(lk_explain_hold_against(work, request, err));
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

lk_status lk_explain(const lk_explain_request *request, lk_explanation **out, lk_error *err) {
	*out = NULL;
	LK_TRY(lk_devices_ready(err));
	LK_TRY(lk_calibration_ready(err));
	/* Shapes are most of the names, and only the roofline looks at them. */
	const lk_read_limits limits = {.shapes = lk_explain_wants_shapes(request)};
	lk_traces *traces;
	LK_TRY(lk_traces_read(request->traces, (uint32_t)request->trace_count, &limits,
	                      request->threads, &traces, err));
	LK_TRY(lk_explain_make(traces, request, out, err));
	lk_status status = lk_explain_simulate(*out, err);
	if (status == LK_OK) status = lk_explain_diagnose((*out)->memory_owner, err);
	if (status != LK_OK) lk_explain_free(*out);
	return status;
}
