/* plan.c: `lockstep plan`: the search for a layout. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/cli.h"
#include "lockstep/plan.h"
#include "lockstep/report.h"
#include "lockstep/view.h"

enum { BAR = 30 };

struct bar {
	struct timespec start;
	bool shown;
};

static double seconds_since(const struct timespec *start) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* A search that takes over half a second shows on a terminal how many layouts can still be among the best. */
static void show(void *context, int gpus, double done, double all) {
	struct bar *b = context;
	if (seconds_since(&b->start) < 0.5 || !isatty(STDERR_FILENO)) return;
	int filled = all > 0 ? (int)(BAR * done / all) : 0;
	b->shown = true;
	fprintf(stderr, "\r%d GPUs [", gpus);
	for (int i = 0; i < BAR; i++) fputc(i < filled ? '#' : ' ', stderr);
	fprintf(stderr, "] %.0f of %.0f layouts \x1b[K", done, all);
}

static void clear(struct bar *b) {
	if (b->shown) fputs("\r\x1b[K", stderr);
	b->shown = false;
}

static int none(const lk_plan *plan) {
	for (int i = 0; i < plan->count; i++)
		if (plan->counts[i].nothing) fprintf(stderr, "lockstep: %s\n", plan->counts[i].nothing);
	return CLI_NO;
}

static int emit(const lk_plan *plan, const lk_plan_request *r) {
	lk_error err = {0};
	const char *line;
	if (plan->best < 0) return none(plan);
	if (lk_plan_launch(plan, plan->counts[plan->best].choices, (lk_plan_emit)(r->emit - 1), &line, &err) != LK_OK)
		return cli_fail(&err);
	puts(line);
	return CLI_OK;
}

static double rate(double count, double seconds) {
	return seconds > 0 ? count / seconds : 0;
}

/* Times differ from run to run: they stand on standard error. */
static void show_speed(const lk_plan *plan) {
	for (int i = 0; i < plan->count; i++) {
		const lk_plan_count *c = &plan->counts[i];
		if (c->layouts == 0) continue;
		double tried = (double)(c->simulated + c->cut_short + c->found_too_large);
		fprintf(stderr,
				"lockstep: %d GPUs: %.0f layouts bounded, %.0f schedules walked and %.0f layouts simulated, cut short or found too large, per "
				"second and core; %.0f of %.0f simulated to the end\n",
				c->gpus, rate((double)c->bounded, c->bound_s), rate((double)c->schedules_walked, c->schedule_s), rate(tried, c->simulate_s),
				(double)c->simulated, tried);
	}
	fprintf(stderr, "lockstep: %.2f s with %d threads\n", plan->seconds, plan->threads);
}

static int answer(const lk_plan *plan, const lk_plan_request *r) {
	lk_error err = {0};
	if (r->html && lk_report_plan(plan, LK_REPORT_HTML, r->html, NULL, &err) != LK_OK) return cli_fail(&err);
	if (r->emit > 0) return emit(plan, r);
	if (lk_plan_print(plan, r->format, r->verbose, cli_colour(), r->output, stdout, &err) != LK_OK)
		return cli_fail(&err);
	if (r->verbose) show_speed(plan);
	return plan->best >= 0 ? CLI_OK : CLI_NO;
}

static lk_status check_outputs(const lk_plan_request *r, lk_error *err) {
	if (r->resume && !r->team) {
		lk_fail(err, LK_ERR_INPUT, "--resume", "only lockstep-mpi keeps finished parts");
		return lk_hint(err, "run mpirun -n K lockstep-mpi plan ..., or leave it out");
	}
	if (r->format == LK_OUTPUT_SQLITE && !r->output) {
		lk_fail(err, LK_ERR_INPUT, "--output", "the format sqlite needs a file");
		return lk_hint(err, "add --file NAME.sqlite");
	}
	return cli_check_places((const char *const[]){r->output, r->html}, 2, err);
}

/* A search asks for the same few megabytes for each layout: they are not given back to the system in between. */
static void keep_memory(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

int cli_plan_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	lk_plan_request r;
	lk_plan *plan = NULL;
	lk_error err = {0};
	struct bar b = {0};
	keep_memory();
	lk_plan_defaults(&r);
	if (lk_args_fill(args, 0, &r, &err) != LK_OK) return speaks ? cli_fail(&err) : CLI_WRONG;
	r.job.launch = args->rest, r.job.launch_count = args->rest_count;
	r.team = team;
	if (team && r.threads == 0) r.threads = team->threads;
	if (speaks) r.progress = show, r.progress_context = &b;
	clock_gettime(CLOCK_MONOTONIC, &b.start);
	lk_status status = check_outputs(&r, &err);
	if (status == LK_OK) status = lk_plan_find(&r, &plan, &err);
	clear(&b);
	int result = status != LK_OK ? (speaks ? cli_fail(&err) : CLI_WRONG) : speaks ? answer(plan, &r) : CLI_OK;
	lk_plan_free(plan);
	return result;
}

static int run(lk_args *args) {
	return cli_plan_with(args, NULL, true);
}

const cli_command cli_plan = {&lk_plan_verb, run};
