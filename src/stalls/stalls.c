/* stalls.c: the question: the first run, the plan, the rounds, the answer. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "options/command.h"
#include "stalls/stalls.h"
#include "step/traced.h"
#include "base/parallel.h"
#include "base/text.h"

struct stalls_work {
	lk_stalls_answer result; /* first: the result is the work */
	const lk_stalls_request *request;
	lk_arena arena;
	lk_stalls_runner runner;
	lk_stalls_run first;
	lk_stalls_comm first_comm;
	bool wanted[LK_STALLS_CONFIGURATIONS];
	lk_stalls_rounds rounds;
	lk_stalls_run last[LK_STALLS_CONFIGURATIONS]; /* of the last good round */
	bool busy_seen;
	double busy;             /* processors at work in the null run */
	double disk_rate;        /* the largest that was seen before a cold run; NAN: none was */
	LK_VEC(const char *) notes;
	LK_VEC(lk_stalls_change) changes;
	lk_error *err;
};

/* ---- texts ---- */

static LK_PRINTF(2, 3) lk_status note(struct stalls_work *w, const char *fmt, ...) {
	char text[600];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (!lk_push(&w->notes)) return lk_oom(w->err);
	*lk_last(&w->notes) = lk_arena_strdup(&w->arena, text);
	return *lk_last(&w->notes) ? LK_OK : lk_oom(w->err);
}

static LK_PRINTF(2, 3) void say(struct stalls_work *w, const char *fmt, ...) {
	char text[300];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (w->request->say) w->request->say(text, w->request->context);
}

static LK_PRINTF(2, 3) lk_status give_up(struct stalls_work *w, const char *fmt, ...) {
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	w->result.reason = lk_arena_strdup(&w->arena, text);
	return w->result.reason ? LK_OK : lk_oom(w->err);
}

/* ---- which configurations ---- */

static lk_status leave_out(struct stalls_work *w, int c, const char *why) {
	w->wanted[c] = false;
	w->result.rows[c].note = why;
	return LK_OK;
}

static lk_status read_names(struct stalls_work *w) {
	const char *at = w->request->configurations;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		w->wanted[c] = !at;
		w->result.rows[c].note = at ? "not asked for" : "";
	}
	if (!at || strcmp(at, "first") == 0) return LK_OK;
	while (*at) {
		size_t length = strcspn(at, ",");
		int c = 0;
		while (c < LK_STALLS_CONFIGURATIONS && (strlen(lk_stalls_configurations[c]) != length ||
		                                        strncmp(at, lk_stalls_configurations[c], length) != 0))
			c++;
		if (c == LK_STALLS_CONFIGURATIONS) {
			int shown = (int)(length < 40 ? length : 40);
			lk_fail(w->err, LK_ERR_INPUT, "--configurations", "there is none of the name \"%.*s\"", shown, at);
			return lk_hint(w->err, "one, null, ready, hot, cold, or first alone");
		}
		w->wanted[c] = true, w->result.rows[c].note = "";
		at += length + (at[length] == ',');
	}
	return LK_OK;
}

static lk_status choose(struct stalls_work *w) {
	const lk_stalls_seen *s = &w->first.seen;
	bool ranks = s->ranks > 1;
	if (w->wanted[LK_STALLS_ONE] && !ranks) leave_out(w, LK_STALLS_ONE, "there is one process only");
	if (w->wanted[LK_STALLS_ONE] && !w->runner.one)
		leave_out(w, LK_STALLS_ONE, "how one process is started is not known; --one says it");
	bool mpi = s->mpi && s->communications > 0;
	if (w->wanted[LK_STALLS_NULL] && (!ranks || (!mpi && !s->torch)))
		leave_out(w, LK_STALLS_NULL, "no communication over MPI or Python's torch.distributed, which alone can be left out");
	bool loader = w->runner.python && w->runner.marker && !w->request->step_marker;
	if (w->wanted[LK_STALLS_READY] && !loader)
		leave_out(w, LK_STALLS_READY, "no DataLoader of Python's torch whose batches could be repeated");
	if (w->wanted[LK_STALLS_COLD] && !w->runner.files.count) leave_out(w, LK_STALLS_COLD, "no files are read in the steps");
	return LK_OK;
}

/* ---- the plan ---- */

static const char *list_of(struct stalls_work *w, int *count) {
	char text[80] = "";
	*count = 0;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		if (!w->wanted[c]) continue;
		size_t used = strlen(text);
		snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", lk_stalls_configurations[c]);
		(*count)++;
	}
	return lk_arena_strdup(&w->arena, text);
}

static lk_status agree(struct stalls_work *w, bool *yes) {
	lk_stalls_plan plan = {.repeats = w->request->repeats, .status = w->first.status, .scratch = w->runner.folder};
	lk_stalls_files written = {0};
	int each;
	*yes = false;
	plan.configurations = list_of(w, &each);
	if (!plan.configurations) return lk_oom(w->err);
	plan.runs = each * plan.repeats;
	plan.seconds = plan.runs * w->first.wall_s;
	const char *folder = lk_stalls_run_folder(&w->runner, LK_STALLS_CONFIGURATIONS, 0);
	lk_status status = folder ? lk_stalls_files_of(folder, true, &w->arena, &written, &plan.written_bytes, w->err)
	                          : lk_oom(w->err);
	plan.written = written.at, plan.written_count = (int)written.count;
	if (status == LK_OK && plan.runs && w->request->confirm) *yes = w->request->confirm(&plan, w->request->context);
	lk_vec_free(&written);
	return status;
}

/* ---- rounds ---- */

static void take_comm(lk_stalls_times *t, const lk_stalls_comm *c) {
	t->waiting = c->waiting, t->interconnect = c->interconnect, t->network = c->network;
}

/* Times in calls of communication; where they cannot be told (recordings without ranks) they stay NAN. */
static lk_status see_comm(struct stalls_work *w, const char *folder, lk_stalls_times *t, lk_stalls_comm *out) {
	lk_error ignored = {0};
	const lk_stalls_request *q = w->request;
	*out = (lk_stalls_comm){0};
	if (!folder) return lk_oom(w->err);
	lk_status status = lk_stalls_see_comm(folder, q->warmup, q->steps, out, &ignored);
	if (status == LK_ERR_MEMORY) return lk_oom(w->err);
	if (status == LK_OK) take_comm(t, out);
	return LK_OK;
}

static bool was_interrupted(int status) {
	return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP || status == 128 + SIGQUIT;
}

/* Why a run does not count; NULL: it does. */
static const char *fault_of(struct stalls_work *w, lk_stalls_configuration c, const lk_stalls_run *run) {
	lk_arena *a = &w->arena;
	double bytes = w->first.seen.loader.bytes, own = run->seen.loader.bytes;
	if (run->late) return "it took too long (--time-limit)";
	if (run->status && c == LK_STALLS_ONE)
		return lk_arena_printf(a, "the command does not run as one process (exit status %d); --one says how",
		                       run->status);
	if (run->status) return lk_arena_printf(a, "it ended with exit status %d", run->status);
	if (!run->seen.steps) return "it has no steps";
	if (c == LK_STALLS_ONE && fabs(own - bytes) > 0.05 * bytes)
		return lk_arena_printf(a, "one process does other work: it reads %.4g bytes a step, each of all ranks %.4g", own,
		                       bytes);
	if (c == LK_STALLS_COLD && !(run->cache.resident <= LK_CACHE_COLD))
		return isnan(run->cache.resident)
		           ? "cold not achieved: what is in the page cache cannot be looked at"
		           : lk_arena_printf(a, "cold not achieved: %.0f %% of the files stayed in memory", 100 * run->cache.resident);
	return NULL;
}

static lk_status run_one(struct stalls_work *w, lk_stalls_configuration c, int round) {
	lk_stalls_run run;
	lk_stalls_comm comm;
	lk_stalls_times *t = &w->rounds.at[c][round];
	bool ready = w->wanted[LK_STALLS_READY] && c <= LK_STALLS_READY;
	say(w, "round %d of %d, %s", round + 1, w->request->repeats, lk_stalls_configurations[c]);
	LK_TRY(lk_stalls_run_again(&w->runner, c, round, ready, &run, w->err));
	if (was_interrupted(run.status) && !run.late) return lk_fail(w->err, LK_ERR_INPUT, "stalls", "interrupted");
	const char *fault = fault_of(w, c, &run);
	if (fault) return leave_out(w, c, fault);
	*t = run.seen.times;
	LK_TRY(see_comm(w, lk_stalls_run_folder(&w->runner, c, round), t, &comm));
	lk_vec_free(&comm.sizes);
	if (run.seen.steps < w->result.steps) w->result.steps = run.seen.steps;
	w->disk_rate = fmax(w->disk_rate, run.cache.rate);
	if (c == LK_STALLS_NULL && run.wall_s > 0) w->busy = run.cpu_s / run.wall_s, w->busy_seen = true;
	w->result.rows[c].runs++;
	w->result.rows[c].resident = run.cache.resident;
	w->last[c] = run;
	return LK_OK;
}

static lk_status run_rounds(struct stalls_work *w) {
	w->rounds.count = w->request->repeats;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		for (int i = 0; i < w->rounds.count; i++) w->rounds.at[c][i].step = NAN;
	for (int round = 0; round < w->rounds.count; round++)
		for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
			if (w->wanted[c]) LK_TRY(run_one(w, (lk_stalls_configuration)c, round));
	/* what failed in a later round does not count at all: the rounds would not be alike */
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		for (int i = 0; i < w->rounds.count && !w->wanted[c]; i++) w->rounds.at[c][i].step = NAN;
	return LK_OK;
}

/* ---- the model ---- */

static double or_0(double x) { return isnan(x) ? 0 : x; }

static double rank_busy(const struct stalls_work *w) {
	double ranks = ceil((double)w->result.ranks / fmax(1, w->result.hosts)), cores = lk_cores();
	return w->busy_seen && w->result.hosts == 1 ? fmax(ranks, fmin(w->busy, fmax(cores, ranks))) : ranks;
}

/* A loader that the step waits for: its times add up. */
static void model_blocking(const struct stalls_work *w, const lk_stalls_seen *hot, lk_stalls_model *m) {
	const lk_stalls_part *p = w->result.parts;
	double reading = hot->times.reading;
	m->workers = 1;
	m->preparation = fmax(0, or_0(p[LK_STALL_PREPARATION].seconds) - reading);
	if (isnan(p[LK_STALL_PREPARATION].seconds)) m->own = fmax(0, m->own - reading);
	m->memory = m->bytes > 0 && reading > 0 ? m->bytes / reading : 1e15;
}

/* One beside it: rates of those that the step was seen to hang on, limits of the others from the loader's own threads. */
static void model_pipelined(const struct stalls_work *w, const lk_stalls_seen *hot, lk_stalls_model *m) {
	const lk_stalls_part *p = w->result.parts;
	const lk_stalls_loader *l = &hot->loader;
	double warm = w->result.step_s - or_0(p[LK_STALL_FETCH].seconds);
	m->workers = fmax(1, l->threads);
	m->preparation = p[LK_STALL_PREPARATION].named ? warm * m->workers : fmin(or_0(l->own) + l->busy, warm * m->workers);
	m->memory = m->bytes > 0 && l->busy > 0 ? m->bytes * m->workers / l->busy : 1e15;
}

static lk_stalls_model model_of(const struct stalls_work *w) {
	const lk_stalls_answer *x = &w->result;
	const lk_stalls_part *p = x->parts;
	const lk_stalls_seen *hot = x->rows[LK_STALLS_HOT].runs ? &w->last[LK_STALLS_HOT].seen : &w->first.seen;
	lk_stalls_model m = {.own = or_0(p[LK_STALL_COMPUTE].seconds) + or_0(p[LK_STALL_SHARING].seconds),
	                     .writing = or_0(p[LK_STALL_WRITING].seconds), .waiting = or_0(p[LK_STALL_WAITING].seconds),
	                     .interconnect = or_0(p[LK_STALL_INTERCONNECT].seconds), .network = or_0(p[LK_STALL_NETWORK].seconds),
	                     .bytes = hot->loader.bytes, .cores = lk_cores(), .busy = rank_busy(w),
	                     .pipelined = hot->loader.apart && hot->loader_seen};
	m.hit = strcmp(x->base, "hot") == 0;
	if (m.pipelined) model_pipelined(w, hot, &m);
	else model_blocking(w, hot, &m);
	lk_disk_work work = lk_stalls_storage_of(&w->rounds, x);
	if (!isnan(p[LK_STALL_FETCH].seconds))
		work.rate = w->disk_rate, work.steps = w->runner.cold.at, work.count = w->runner.cold.count;
	lk_stalls_fit_disk(&m, &work);
	return m;
}

static lk_status fill_rates(struct stalls_work *w, const lk_stalls_model *m) {
	lk_stalls_rates *r = &w->result.rates;
	double compute = lk_stalls_compute_s(m), preparation = m->preparation / m->workers, device = lk_stalls_device_s(m);
	double fetch = m->pipelined ? device : lk_stalls_fetch_s(m);
	*r = (lk_stalls_rates){.pipelined = m->pipelined, .ingestion = compute > 0 ? 1 / compute : INFINITY,
	                       .preparation = preparation > 0 ? 1 / preparation : INFINITY,
	                       .fetch = fetch > 0 ? 1 / fetch : INFINITY, .bytes = m->bytes, .disk = m->disk, .memory = m->memory,
	                       .device = device, .hidden = fmin(m->hidden, device),
	                       .hit = m->hit, .workers = m->workers, .cores = m->cores, .busy = m->busy,
	                       .cores_to_hide = lk_stalls_cores_to_hide(m), .cache_to_hide = lk_stalls_cache_to_hide(m),
	                       .from = w->result.base};
	if (isnan(w->result.parts[LK_STALL_FETCH].seconds))
		r->disk = r->fetch = r->cache_to_hide = r->device = r->hidden = NAN;
	return LK_OK;
}

static lk_status add_change(struct stalls_work *w, const lk_stalls_model *now, double now_s, const char *line) {
	lk_stalls_machine machine;
	char name[160];
	LK_TRY(lk_stalls_machine_of(line, &machine, name, w->err));
	lk_stalls_model then = lk_stalls_on(now, &machine);
	double then_s;
	LK_TRY(lk_stalls_simulate(&then, &then_s, w->err));
	if (!lk_push(&w->changes)) return lk_oom(w->err);
	lk_stalls_change *c = lk_last(&w->changes);
	c->what = lk_arena_strdup(&w->arena, name);
	if (!c->what) return lk_oom(w->err);
	if (isnan(w->result.parts[LK_STALL_FETCH].seconds) && (machine.disk != 1 || !isnan(machine.hit))) {
		c->step_s = c->factor = c->closed_s = NAN, c->bottleneck = "not known";
		return LK_OK;
	}
	c->factor = now_s / then_s, c->step_s = w->result.step_s / c->factor;
	c->closed_s = w->result.step_s * lk_stalls_closed(&then, &c->bottleneck) / lk_stalls_closed(now, NULL);
	return LK_OK;
}

static lk_status usual_changes(struct stalls_work *w, const lk_stalls_model *m, double now_s) {
	char half[32], twice[32];
	snprintf(half, sizeof half, "cores=%g", fmax(1, floor(m->cores / 2)));
	snprintf(twice, sizeof twice, "cores=%g", 2 * m->cores);
	bool fetch = !isnan(w->result.parts[LK_STALL_FETCH].seconds);
	if (fetch) LK_TRY(add_change(w, m, now_s, "disk=2"));
	if (fetch) LK_TRY(add_change(w, m, now_s, "cache=1"));
	if (m->cores > 1) LK_TRY(add_change(w, m, now_s, half));
	LK_TRY(add_change(w, m, now_s, twice));
	LK_TRY(add_change(w, m, now_s, "speed=2"));
	return w->result.hosts > 1 ? add_change(w, m, now_s, "network=10") : LK_OK;
}

static lk_status predict(struct stalls_work *w) {
	lk_stalls_model m = model_of(w);
	double now_s;
	LK_TRY(fill_rates(w, &m));
	LK_TRY(lk_stalls_simulate(&m, &now_s, w->err));
	if (!w->request->what_ifs) LK_TRY(usual_changes(w, &m, now_s));
	for (const char *line = w->request->what_ifs; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
		LK_TRY(add_change(w, &m, now_s, line));
	w->result.changes = w->changes.at, w->result.change_count = (int)w->changes.count;
	return LK_OK;
}

static lk_status fit_buckets(struct stalls_work *w, const lk_stalls_comm *comm) {
	lk_stalls_buckets *b = &w->result.buckets;
	const lk_stalls_part *p = w->result.parts;
	b->group = lk_arena_strdup(&w->arena, comm->group);
	double exposed = or_0(p[comm->bucket_network ? LK_STALL_NETWORK : LK_STALL_INTERCONNECT].seconds);
	if (!b->group) return lk_oom(w->err);
	bool good = lk_stalls_fit_buckets(comm->sizes.at, (int)comm->sizes.count, exposed, w->result.step_s, &w->arena, b);
	return good ? LK_OK : lk_oom(w->err);
}

/* ---- the answer ---- */

/* Differences that noise made negative count as 0: the parts are then more than the step. */
static bool contradict(const lk_stalls_answer *x) {
	double sum = 0;
	for (int k = 0; k < LK_STALL_KINDS; k++) sum += or_0(x->parts[k].seconds);
	return sum > 1.02 * x->step_s;
}

static lk_status add_notes(struct stalls_work *w) {
	const lk_stalls_answer *x = &w->result;
	if (contradict(x))
		LK_TRY(note(w, "the runs contradict one another, so that the parts are more than the step: other programs were at "
		               "work, or the runs are too short; more --repeats and --steps help"));
	if (x->rows[LK_STALLS_NULL].runs && !w->last[LK_STALLS_NULL].seen.left_out)
		LK_TRY(note(w, "the null run left no call out: all are small, or messages; communication is what their calls "
		               "took"));
	if (x->rows[LK_STALLS_ONE].runs)
		LK_TRY(note(w, "one process is taken to do what each rank does%s",
		            w->request->one || !w->runner.program ? "" : "; it posed as rank 0"));
	if (x->rows[LK_STALLS_HOT].runs && x->rows[LK_STALLS_HOT].resident < 0.95)
		LK_TRY(note(w, "hot not achieved: %.0f %% of the files were in memory", 100 * x->rows[LK_STALLS_HOT].resident));
	const lk_cache_state *cold = &w->last[LK_STALLS_COLD].cache;
	double read = w->last[LK_STALLS_COLD].seen.loader.bytes * x->ranks * (w->request->warmup + x->steps);
	if (x->rows[LK_STALLS_COLD].runs && read > cold->bytes)
		LK_TRY(note(w, "the steps read %.2g times the bytes of their files: what is read again comes from memory, so that "
		               "the first pass stalls more than fetch says", read / cold->bytes));
	bool unknown = false;
	for (int i = 0; i < x->change_count; i++) unknown |= isnan(x->changes[i].step_s);
	if (unknown)
		LK_TRY(note(w, "what storage takes of a step is not known without a cold run, nor what another disk or more in "
		               "memory would save"));
	for (size_t i = 0; i < w->runner.unguarded.count; i++)
		LK_TRY(note(w, "not guarded in the further runs: %s", w->runner.unguarded.at[i]));
	if (x->steps < w->request->steps)
		LK_TRY(note(w, "only %d steps counted in a run; the means are those of few", x->steps));
	w->result.notes = w->notes.at, w->result.note_count = (int)w->notes.count;
	return LK_OK;
}

static lk_status answer(struct stalls_work *w) {
	lk_stalls_answer *x = &w->result;
	x->ranks = w->first.seen.ranks;
	x->hosts = w->first_comm.hosts > 0 ? w->first_comm.hosts : 1;
	x->first_s = w->first.seen.times.step;
	w->rounds.first = w->first.seen.times;
	lk_stalls_split(&w->rounds, x);
	LK_TRY(fit_buckets(w, &w->first_comm));
	LK_TRY(predict(w));
	return add_notes(w);
}

static lk_status reproduce(struct stalls_work *w) {
	static const char *const but[] = {"yes", "out", "output", "table", "file", "timeline", "folded", "html", NULL};
	lk_stalls_request usual;
	lk_stalls_defaults(&usual);
	w->result.reproduce = lk_command(&w->arena, &(lk_question){
		.verb = &lk_stalls_verb, .request = w->request, .usual = &usual, .but = but, .rest = w->request->command,
		.rest_count = w->request->words});
	return w->result.reproduce ? LK_OK : lk_oom(w->err);
}

/* ---- the question ---- */

static lk_status look_at_first(struct stalls_work *w, const char *folder) {
	w->result.steps = w->first.seen.steps;
	w->result.shown = folder;
	LK_TRY(see_comm(w, folder, &w->first.seen.times, &w->first_comm));
	return reproduce(w);
}

static lk_status of_recording(struct stalls_work *w) {
	const lk_stalls_request *q = w->request;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) leave_out(w, c, "nothing is run: a recording was given");
	LK_TRY(lk_stalls_see(q->recording, q->warmup, q->steps, &w->first.seen, NULL, w->err));
	if (!w->first.seen.steps) {
		lk_fail(w->err, LK_ERR_INPUT, q->recording, "holds no recording with more than %d steps", q->warmup);
		return lk_hint(w->err, "is it a folder that lockstep record made? --warmup says how many steps do not count");
	}
	LK_TRY(look_at_first(w, q->recording));
	return answer(w);
}

static lk_status of_command(struct stalls_work *w) {
	bool yes = false;
	LK_TRY(read_names(w));
	LK_TRY(lk_stalls_runner_open(w->request, &w->arena, &w->runner, w->err));
	say(w, "the command as it is, %d steps", w->request->warmup + w->request->steps);
	LK_TRY(lk_stalls_run_first(&w->runner, &w->first, w->err));
	w->result.status = w->first.status;
	if (w->request->out) w->result.kept = w->request->out;
	if (w->first.late) return give_up(w, "the time limit is over; the command was stopped before its steps were done");
	if (w->first.status) return give_up(w, "the command ended with exit status %d; nothing is run again", w->first.status);
	if (!w->first.seen.steps)
		return give_up(w, "no steps: fewer than %d were seen; --step-marker says what begins one, --warmup how many do not "
		                  "count", w->request->warmup + 1);
	LK_TRY(look_at_first(w, lk_stalls_run_folder(&w->runner, LK_STALLS_CONFIGURATIONS, 0)));
	w->runner.per_host = (int)ceil((double)w->first.seen.ranks / fmax(1, w->first_comm.hosts));
	w->runner.readers = (int)fmin(1024, w->runner.per_host * fmax(1, w->first.seen.loader.threads));
	LK_TRY(choose(w));
	LK_TRY(agree(w, &yes));
	if (yes) LK_TRY(run_rounds(w));
	for (int c = 0; !yes && c < LK_STALLS_CONFIGURATIONS; c++)
		if (w->wanted[c]) leave_out(w, c, "not agreed to");
	if (!yes && !w->request->configurations)
		LK_TRY(note(w, "nothing was run again: all is estimated from the first run; --yes agrees to the runs"));
	LK_TRY(answer(w));
	if (w->result.rows[LK_STALLS_HOT].runs)
		w->result.shown = lk_stalls_run_folder(&w->runner, LK_STALLS_HOT, 0);
	return LK_OK;
}

static lk_status check(const lk_stalls_request *q, lk_error *err) {
	if (q->repeats < 1 || q->repeats > LK_STALLS_REPEATS)
		return lk_fail(err, LK_ERR_INPUT, "--repeats", "must be 1 to %d", LK_STALLS_REPEATS);
	if (q->recording && q->words) return lk_fail(err, LK_ERR_INPUT, "--recording", "stands in place of a command");
	if (q->recording || q->words) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "stalls", "no command is given");
	return lk_hint(err, "it stands behind --, as in lockstep stalls -- mpirun -n 2 ./train");
}

lk_status lk_stalls(const lk_stalls_request *request, lk_stalls_answer **out, lk_error *err) {
	LK_TRY(check(request, err));
	struct stalls_work *w = calloc(1, sizeof *w);
	if (!w) return lk_oom(err);
	w->request = request, w->err = err, w->disk_rate = NAN;
	w->result = (lk_stalls_answer){.reason = "", .kept = "", .base = "first", .memory_owner = w, .step_s = NAN, .first_s = NAN};
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		w->result.rows[c] = (lk_stalls_row){.step_s = NAN, .low = NAN, .high = NAN, .resident = NAN, .note = ""};
	lk_status status = request->recording ? of_recording(w) : of_command(w);
	if (status == LK_OK) status = lk_traces_inputs(&w->arena, &lk_stalls_verb, request, &request->recording, request->recording ? 1 : 0, &w->result.inputs, err);
	if (status != LK_OK) lk_stalls_free(&w->result);
	else *out = &w->result;
	return status;
}

void lk_stalls_free(lk_stalls_answer *answer) {
	if (!answer) return;
	struct stalls_work *w = answer->memory_owner;
	lk_stalls_runner_close(&w->runner);
	lk_vec_free(&w->first_comm.sizes);
	lk_vec_free(&w->notes);
	lk_vec_free(&w->changes);
	lk_arena_free(&w->arena);
	free(w);
}
