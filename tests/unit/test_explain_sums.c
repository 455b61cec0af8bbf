/* What must hold of every explanation, whatever the trace: parts add up to steps, the critical path
 * is no longer than its step and has no more of a device's work or waiting than the devices do,
 * waiting and transfer are the communication, no remedy gains more than the step, or of what cannot
 * be simulated more than its stall and the critical path have, gains add up to no more than the time
 * that is not computed, the best action comes first. Asked of the tests' own traces and of all public
 * ones. */
#include <dirent.h>
#include <math.h>
#include <string.h>

#include "data.h"
#include "lockstep/explain.h"
#include "rounds.h"

/* Of sums of rounded times. */
static const double ROUNDING_S = 2e-9;

static const char *asked; /* the trace, for messages */

#define HOLDS(condition)                                                        \
	do {                                                                        \
		if (!(condition)) fail_msg("%s: does not hold: %s", asked, #condition); \
	} while (0)

static void check_steps(const lk_explanation *explanation) {
	for (int i = 0; i < explanation->step_rows; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		HOLDS(step->compute_ns + step->exposed_communication_ns + step->exposed_memory_ns +
		          step->idle_ns ==
		      step->dur_ns);
	}
	for (int i = 0; i < explanation->rank_count; i++) {
		const lk_explain_rank *rank = &explanation->ranks[i];
		HOLDS(rank->compute_ns + rank->non_compute_ns + rank->idle_ns == rank->kernel_time_ns);
		HOLDS(rank->exposed_communication_ns + rank->exposed_memory_ns == rank->non_compute_ns);
		HOLDS(rank->idle_data_ns + rank->idle_one_off_ns + rank->idle_allocation_ns +
		          rank->idle_saving_ns + rank->idle_collecting_ns + rank->idle_preparing_ns +
		          rank->idle_computing_ns + rank->idle_sync_ns + rank->idle_host_ns +
		          rank->idle_other_ns ==
		      rank->idle_ns);
		HOLDS(rank->overlap_ns + rank->exposed_communication_ns == rank->communication_ns);
	}
}

/* Returns all communication of all ranks, kernel by kernel. */
static int64_t check_communication(const lk_explanation *explanation) {
	int64_t all = 0, exposed = 0, unions = 0, bare = 0;
	bool host = false;
	for (int i = 0; i < explanation->comm_count; i++) {
		const lk_explain_comm *comm = &explanation->comm[i];
		all += comm->kernel_ns;
		exposed += comm->exposed_ns;
		host |= comm->host;
		HOLDS(comm->matched <= comm->count);
		HOLDS(comm->wait_ns >= 0 && comm->transfer_ns >= 0);
		HOLDS(comm->wait_ns + comm->transfer_ns <= comm->kernel_ns);
		HOLDS(comm->matched < comm->count || comm->wait_ns + comm->transfer_ns == comm->kernel_ns);
		HOLDS(comm->exposed_wait_ns <= comm->wait_ns && comm->exposed_wait_ns <= comm->exposed_ns);
		HOLDS(comm->exposed_ns <= comm->kernel_ns);
	}
	for (int i = 0; i < explanation->rank_count; i++) {
		unions += explanation->ranks[i].communication_ns;
		bare += explanation->ranks[i].exposed_communication_ns;
	}
	HOLDS(host || (exposed == bare && all >= unions));
	return all;
}

static void check_path(const lk_explanation *explanation, int64_t communication_ns) {
	const lk_critical_path *path = &explanation->critical;
	double all = 0, communication = 0;
	for (int i = 0; i < path->part_count; i++) {
		HOLDS(path->parts[i].seconds > 0);
		HOLDS(!i || path->parts[i].seconds <= path->parts[i - 1].seconds);
		all += path->parts[i].seconds;
		if (strncmp(path->parts[i].kind, "communication", 13) == 0)
			communication += path->parts[i].seconds;
	}
	if (!path->part_count) return;
	HOLDS(all <= path->step_s + ROUNDING_S);
	HOLDS(explanation->step_count > 1 || all <= explanation->step_s + ROUNDING_S);
	HOLDS(communication <= (double)communication_ns * 1e-9 + ROUNDING_S);
}

/* What an action adds to the others; of work done once, what vanishes when warm. */
static double most_gain(const lk_explain_stall *stall) {
	return strcmp(stall->kind, "one-off") == 0 ? stall->most_s : stall->adds_s;
}

/* Gains together take no more than what the devices do not compute, and of computing what slow
 * kernels lose; none is of work done once. */
static void check_gains(const lk_explanation *explanation) {
	double adds = 0, slow = 0, whole = 0, compute = 0;
	for (int i = 0; i < explanation->rank_count; i++) {
		whole += (double)explanation->ranks[i].kernel_time_ns;
		compute += (double)explanation->ranks[i].compute_ns;
	}
	for (int i = 0; i < explanation->stall_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[i];
		adds += stall->adds_s;
		if (strcmp(stall->kind, "slow kernel") == 0) slow += stall->adds_s;
		HOLDS(strcmp(stall->kind, "one-off") != 0 || stall->adds_s == 0);
		HOLDS(stall->adds_s >= 0 &&
		      stall->adds_s <= (isnan(stall->gain_s) ? stall->most_s : stall->gain_s) + ROUNDING_S);
	}
	if (!explanation->kernels) return;
	HOLDS(adds - slow <= (1 - compute / whole) * explanation->step_s * (1 + 1e-6) + ROUNDING_S);
	HOLDS(slow <= compute / whole * explanation->step_s * (1 + 1e-6) + ROUNDING_S);
}

static double seconds_of_path(const lk_explanation *explanation, const char *kind) {
	const lk_critical_path *path = &explanation->critical;
	double sum = 0;
	for (int i = 0; i < path->part_count; i++)
		if (strncmp(path->parts[i].kind, kind, strlen(kind)) == 0) sum += path->parts[i].seconds;
	return sum;
}

/* The path has no more of computing, copying and waiting than the devices do in its step, all ranks
 * together. */
static void check_path_parts(const lk_explanation *explanation) {
	double compute = 0, memory = 0, idle = 0, exposed = 0;
	for (int i = 0; i < explanation->rank_count; i++)
		memory += (double)explanation->ranks[i].memory_ns * 1e-9;
	for (int i = 0; i < explanation->step_rows; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		if (step->number != explanation->critical.step) continue;
		compute += (double)step->compute_ns * 1e-9;
		exposed += (double)(step->exposed_communication_ns + step->exposed_memory_ns) * 1e-9;
		idle += (double)step->idle_ns * 1e-9;
	}
	double slack = 0.02 * explanation->critical.step_s; /* of its work that the next step runs */
	HOLDS(seconds_of_path(explanation, "computation") <= compute + slack);
	HOLDS(seconds_of_path(explanation, "copies") <= memory + slack);
	HOLDS(seconds_of_path(explanation, "device: waiting") <= idle + exposed + slack);
}

static double share_of_path(const lk_explanation *explanation, const char *kind) {
	const lk_critical_path *path = &explanation->critical;
	double all = 0, share = 0;
	for (int i = 0; i < path->part_count; i++) {
		all += path->parts[i].seconds;
		if (strncmp(path->parts[i].kind, kind, strlen(kind)) == 0) share += path->parts[i].seconds;
	}
	return share / all;
}

static void check_stalls(const lk_explanation *explanation) {
	double lost = 0;
	for (int i = 0; i < explanation->stall_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[i];
		lost += stall->lost_s;
		HOLDS(!i || stall->lost_s <= explanation->stalls[i - 1].lost_s);
		HOLDS(isnan(stall->gain_s) ||
		      (stall->gain_s >= 0 && stall->gain_s <= explanation->step_s && *stall->change));
		HOLDS(stall->most_s >= 0 && stall->most_s <= stall->lost_s);
		HOLDS(!isnan(stall->gain_s) || stall->most_s > 0 || !*stall->remedy);
		HOLDS(!(stall->gain_s > 0) || *stall->remedy);
		if (strcmp(stall->kind, "communication") == 0 && isnan(stall->gain_s) &&
		    explanation->critical.part_count)
			HOLDS(stall->most_s <=
			      share_of_path(explanation, "communication") * explanation->step_s * (1 + 1e-9));
	}
	HOLDS(!explanation->kernels || lost <= explanation->step_s * (1 + 1e-9));
	for (int i = 0; i < explanation->action_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[explanation->actions[i]];
		HOLDS(*stall->remedy != '\0');
		HOLDS(!i ||
		      most_gain(stall) <= most_gain(&explanation->stalls[explanation->actions[i - 1]]));
	}
	for (int i = 0; i < explanation->stall_count && explanation->action_count; i++)
		HOLDS(!*explanation->stalls[i].remedy ||
		      most_gain(&explanation->stalls[i]) <=
		          most_gain(&explanation->stalls[explanation->actions[0]]));
}

/* While one device idles for its host, nothing else can be on the path: what a stall lost to the
 * host the path has too, by the same name. */
static void check_path_host(const lk_explanation *explanation) {
	static const struct {
		const char *stall, *part;
	} same[] = {{"data loading", "host: data loading"},
	            {"allocation", "host: memory of the driver"},
	            {"checkpoint", "host: checkpoints"},
	            {"garbage collection", "host: garbage collection"},
	            {"preprocessing", "host: inputs"}};
	if (explanation->rank_count != 1 || explanation->step_rows != 1) return;
	for (int i = 0; i < explanation->stall_count; i++)
		for (size_t k = 0; k < sizeof same / sizeof *same; k++)
			if (strcmp(explanation->stalls[i].kind, same[k].stall) == 0)
				HOLDS(seconds_of_path(explanation, same[k].part) >=
				      explanation->stalls[i].lost_s - 0.02 * explanation->step_s);
}

static void check_trace(const char *trace, const char *steps) {
	lk_explain_request request;
	lk_explanation *explanation;
	lk_error err = {0};
	lk_explain_defaults(&request);
	request.traces = &trace;
	request.trace_count = 1;
	request.steps = steps;
	asked = trace;
	if (lk_explain(&request, &explanation, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	check_steps(explanation);
	check_path(explanation, check_communication(explanation));
	check_stalls(explanation);
	check_gains(explanation);
	if (explanation->critical.part_count) check_path_parts(explanation);
	if (explanation->critical.part_count) check_path_host(explanation);
	HOLDS(explanation->caveat_count <= explanation->warning_count);
	lk_explain_free(explanation);
}

static int check_traces(const char *folder) {
	int checked = 0;
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		char trace[900];
		if (!strstr(entry->d_name, ".json") || strncmp(entry->d_name, "memory", 6) == 0) continue;
		snprintf(trace, sizeof trace, "%s/%s", folder, entry->d_name);
		check_trace(trace, NULL);
		check_trace(trace, "all");
		checked++;
	}
	closedir(dir);
	return checked;
}

static void own_traces(void **state) {
	(void)state;
	assert_true(check_traces("tests/data") >= 3);
}

static void public_traces(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	if (!has_data(data_path("traces/kineto"))) skip();
	assert_true(check_traces(data_path("traces/kineto")) >= 13);
	check_trace(data_path("traces/dlrm8/kineto"), NULL);
}

/* Of every format, and of every cause. */
static void labelled_traces(void **state) {
	(void)state;
	char folder[600], trace[900];
	int checked = 0;
	snprintf(folder, sizeof folder, "%s", data_path("traces/labelled"));
	if (only_elsewhere() || !has_data(folder)) skip();
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (strchr(entry->d_name, '.')) continue;
		snprintf(trace, sizeof trace, "%s/%s", folder, entry->d_name);
		check_trace(trace, NULL);
		checked++;
	}
	closedir(dir);
	assert_true(checked >= 12);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_traces),
		cmocka_unit_test(public_traces),
		cmocka_unit_test(labelled_traces),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
