/* stalls.c: the verb: the first run, the plan, the rounds, the answer. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "options/command.h"
#include "stalls/stalls.h"
#include "step/traced.h"
#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"

/* ---- texts ---- */

static LK_PRINTF(2, 3) lk_status add_stalls_note(lk_stalls_work *work, const char *fmt, ...) {
	char text[600];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (!lk_push(&work->notes)) return lk_oom(work->err);
	*lk_last(&work->notes) = lk_arena_strdup(&work->arena, text);
	return *lk_last(&work->notes) ? LK_OK : lk_oom(work->err);
}

static LK_PRINTF(2, 3) void say_progress(lk_stalls_work *work, const char *fmt, ...) {
	char text[300];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (work->request->say) work->request->say(text, work->request->context);
}

static LK_PRINTF(2, 3) lk_status give_up_stalls(lk_stalls_work *work, const char *fmt, ...) {
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	work->result.reason = lk_arena_strdup(&work->arena, text);
	return work->result.reason ? LK_OK : lk_oom(work->err);
}

/* ---- which configurations ---- */

static lk_status leave_out_configuration(lk_stalls_work *work, int c, const char *why) {
	LK_ASSERT(c >= 0 && c < LK_STALLS_CONFIGURATIONS);
	work->wanted[c] = false;
	work->result.rows[c].note = why;
	return LK_OK;
}

static lk_status read_configuration_names(lk_stalls_work *work) {
	const char *at = work->request->configurations;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		work->wanted[c] = !at;
		work->result.rows[c].note = at ? "not requested" : "";
	}
	if (!at || strcmp(at, "first") == 0) return LK_OK;
	while (*at) {
		size_t length = strcspn(at, ",");
		int c = 0;
		while (c < LK_STALLS_CONFIGURATIONS &&
		       (strlen(lk_stalls_configurations[c]) != length ||
		        strncmp(at, lk_stalls_configurations[c], length) != 0))
			c++;
		if (c == LK_STALLS_CONFIGURATIONS) {
			int shown = (int)(length < 40 ? length : 40);
			lk_fail(work->err, LK_ERR_INPUT, "--configurations", "unknown configuration \"%.*s\"",
			        shown, at);
			return lk_hint(work->err,
			               "the configurations are one, null, ready, hot, cold; or first alone");
		}
		work->wanted[c] = true;
		work->result.rows[c].note = "";
		at += length + (at[length] == ',');
	}
	return LK_OK;
}

static lk_status choose_configurations(lk_stalls_work *work) {
	const lk_stalls_seen *seen = &work->first.seen;
	bool ranks = seen->ranks > 1;
	if (work->wanted[LK_STALLS_ONE] && !ranks)
		leave_out_configuration(work, LK_STALLS_ONE, "there is only one process");
	if (work->wanted[LK_STALLS_ONE] && !work->runner.one)
		leave_out_configuration(
			work, LK_STALLS_ONE,
			"how to start one process is not known; give the command with --one");
	bool mpi = seen->mpi && seen->communications > 0;
	if (work->wanted[LK_STALLS_NULL] && (!ranks || (!mpi && !seen->torch)))
		leave_out_configuration(work, LK_STALLS_NULL,
		                        "no communication over MPI or Python's torch.distributed, the only "
		                        "kinds that can be left out");
	bool loader = work->runner.python && work->runner.marker && !work->request->step_marker;
	if (work->wanted[LK_STALLS_READY] && !loader)
		leave_out_configuration(work, LK_STALLS_READY,
		                        "no DataLoader of Python's torch whose batches could be repeated");
	if (work->wanted[LK_STALLS_COLD] && !work->runner.files.count)
		leave_out_configuration(work, LK_STALLS_COLD, "no files are read in the steps");
	return LK_OK;
}

/* ---- the plan ---- */

static const char *list_wanted_configurations(lk_stalls_work *work, int *count) {
	char text[80] = "";
	*count = 0;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		if (!work->wanted[c]) continue;
		size_t used = strlen(text);
		snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
		         lk_stalls_configurations[c]);
		(*count)++;
	}
	return lk_arena_strdup(&work->arena, text);
}

static lk_status ask_for_agreement(lk_stalls_work *work, bool *yes) {
	lk_stalls_plan plan = {.repeats = work->request->repeats,
	                       .budget = work->request->budget,
	                       .status = work->first.status,
	                       .scratch = work->runner.folder};
	lk_stalls_files written = {0};
	int each;
	*yes = false;
	plan.configurations = list_wanted_configurations(work, &each);
	if (!plan.configurations) return lk_oom(work->err);
	plan.runs = each * plan.repeats;
	plan.seconds = plan.runs * work->first.wall_s;
	const char *folder = lk_stalls_run_folder(&work->runner, LK_STALLS_CONFIGURATIONS, 0);
	lk_status status = folder ? lk_stalls_files_of(folder, true, &work->arena, &written,
	                                               &plan.written_bytes, work->err)
	                          : lk_oom(work->err);
	plan.written = written.at;
	plan.written_count = (int)written.count;
	if (status == LK_OK && plan.runs && work->request->confirm)
		*yes = work->request->confirm(&plan, work->request->context);
	lk_vec_free(&written);
	return status;
}

/* ---- rounds ---- */

/* Times in calls of communication; where they are not known (recordings without ranks) they stay
 * NAN. */
static lk_status see_rank_comm(lk_stalls_work *work, const char *folder, lk_stalls_times *times,
                               lk_stalls_comm *out) {
	lk_error said = {0};
	const lk_stalls_request *request = work->request;
	*out = (lk_stalls_comm){0};
	if (!folder) return lk_oom(work->err);
	lk_status status = lk_stalls_see_comm(folder, request->warmup, request->steps, out, &said);
	if (status == LK_OK) {
		times->waiting = out->waiting;
		times->interconnect = out->interconnect;
		times->network = out->network;
	}
	if (status == LK_OK || status == LK_ERR_INPUT) return LK_OK;
	*work->err = said;
	return status;
}

static bool is_interrupt_status(int status) {
	return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP ||
	       status == 128 + SIGQUIT;
}

/* Why a run does not count; NULL: it does. */
static const char *find_run_fault(lk_stalls_work *work, lk_stalls_configuration c,
                                  const lk_stalls_run *run) {
	lk_arena *arena = &work->arena;
	double bytes = work->first.seen.loader.bytes, own = run->seen.loader.bytes;
	if (run->late) return "it took too long (--time-limit)";
	if (run->status && c == LK_STALLS_ONE)
		return lk_arena_printf(arena,
		                       "the command does not run as one process (exit status %d); give one "
		                       "that does with --one",
		                       run->status);
	if (run->status) return lk_arena_printf(arena, "it ended with exit status %d", run->status);
	if (!run->seen.steps) return "it has no steps";
	if (c == LK_STALLS_ONE && fabs(own - bytes) > 0.05 * bytes)
		return lk_arena_printf(
			arena,
			"one process does other work: it reads %.4g bytes a step, each of all ranks %.4g", own,
			bytes);
	if (c == LK_STALLS_COLD && !(run->cache.resident <= LK_CACHE_COLD))
		return isnan(run->cache.resident)
		           ? "cold not achieved: the page cache cannot be inspected"
		           : lk_arena_printf(arena,
		                             "cold not achieved: %.0f %% of the files stayed in memory",
		                             100 * run->cache.resident);
	return NULL;
}

static lk_status run_one_configuration(lk_stalls_work *work, lk_stalls_configuration c, int round) {
	LK_ASSERT(round >= 0 && round < LK_STALLS_REPEATS);
	lk_stalls_run run;
	lk_stalls_comm comm;
	lk_stalls_times *times = &work->rounds.at[c][round];
	bool ready = work->wanted[LK_STALLS_READY] && c <= LK_STALLS_READY;
	if (work->request->budget > 0)
		say_progress(work, "round %d, %s", round + 1, lk_stalls_configurations[c]);
	else
		say_progress(work, "round %d of %d, %s", round + 1, work->request->repeats,
		             lk_stalls_configurations[c]);
	work->runner.as_rank = work->runner.world > 0 ? round % work->runner.world : 0;
	LK_TRY(lk_stalls_run_again(&work->runner, c, round, ready, &run, work->err));
	if (is_interrupt_status(run.status) && !run.late)
		return lk_fail(work->err, LK_ERR_INPUT, "stalls", "interrupted");
	const char *fault = find_run_fault(work, c, &run);
	if (fault) return leave_out_configuration(work, c, fault);
	*times = run.seen.times;
	LK_TRY(see_rank_comm(work, lk_stalls_run_folder(&work->runner, c, round), times, &comm));
	lk_vec_free(&comm.sizes);
	if (run.seen.steps < work->result.steps) work->result.steps = run.seen.steps;
	work->disk_rate = fmax(work->disk_rate, run.cache.rate);
	if (c == LK_STALLS_NULL && run.wall_s > 0) {
		work->busy = run.cpu_s / run.wall_s;
		work->busy_seen = true;
	}
	work->result.rows[c].runs++;
	work->result.rows[c].resident = run.cache.resident;
	work->last[c] = run;
	return LK_OK;
}

/* How much longer a rank works than the typical one in the round's null run; 0 unknown. */
static double work_beyond_usual(const lk_stalls_work *work, int round, int rank) {
	const lk_stalls_seen *null = &work->last[LK_STALLS_NULL].seen;
	if (isnan(work->rounds.at[LK_STALLS_NULL][round].step) || !(null->times.usual > 0)) return 0;
	for (int i = 0; i < null->ranks; i++)
		if (null->by_rank[i].rank == rank) return null->working[i] - null->times.usual;
	return 0;
}

/* Correct runs without synchronisation at their end to the typical rank's time. */
static void note_uneven_runs(lk_stalls_work *work, int round) {
	lk_stalls_times *null = &work->rounds.at[LK_STALLS_NULL][round],
					*one = &work->rounds.at[LK_STALLS_ONE][round];
	if (null->usual > 0) null->uneven = null->own - null->usual;
	if (!work->request->one && work->runner.program)
		one->uneven = work_beyond_usual(work, round, work->runner.as_rank);
}

static lk_status run_round(lk_stalls_work *work, int round) {
	int order[LK_STALLS_CONFIGURATIONS];
	lk_stalls_order(round, order);
	for (int i = 0; i < LK_STALLS_CONFIGURATIONS; i++) {
		int c = order[i];
		if (work->wanted[c]) LK_TRY(run_one_configuration(work, (lk_stalls_configuration)c, round));
	}
	note_uneven_runs(work, round);
	return LK_OK;
}

/* Whether another round is wanted and fits the budget. */
static bool another_round(lk_stalls_work *work, int done, int64_t start_ns) {
	const lk_stalls_request *request = work->request;
	if (!(request->budget > 0)) return done < request->repeats;
	if (done == 0) return true;
	double spent = 1e-9 * (double)(lk_monotonic_ns() - start_ns);
	if (done == LK_STALLS_REPEATS || spent + spent / done > request->budget) return false;
	lk_stalls_answer now = {.hosts = work->first_comm.hosts};
	work->rounds.count = done;
	lk_stalls_split(&work->rounds, &now);
	return done < request->repeats || !lk_stalls_settled(&now);
}

static lk_status run_all_rounds(lk_stalls_work *work) {
	int64_t start_ns = lk_monotonic_ns();
	int done = 0;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		for (int i = 0; i < LK_STALLS_REPEATS; i++) work->rounds.at[c][i].step = NAN;
	work->rounds.first = work->first.seen.times;
	while (another_round(work, done, start_ns)) LK_TRY(run_round(work, done++));
	work->rounds.count = done;
	/* a configuration that failed in a later round does not count at all: the rounds would
	 * differ */
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		for (int i = 0; i < work->rounds.count && !work->wanted[c]; i++)
			work->rounds.at[c][i].step = NAN;
	return LK_OK;
}

/* ---- the answer ---- */

/* How many rounds would tell the largest parts apart; "" where more are not to be run. */
static const char *rounds_that_would_do(const lk_stalls_answer *answer) {
	double needed = answer->lead.rounds_needed;
	if (!(needed > answer->rounds)) return "";
	if (needed <= 20) return "; 20 rounds or fewer would do it";
	if (needed <= LK_STALLS_REPEATS) return "; 50 rounds or fewer would do it";
	return "; 50 rounds would not do it";
}

static lk_status add_stalls_notes(lk_stalls_work *work) {
	const lk_stalls_answer *answer = &work->result;
	if (answer->rounds_left_out)
		LK_TRY(
			add_stalls_note(work,
		                    "%d of %d %s left out: one of their runs is far from the others of its "
		                    "kind, so that other programs ran meanwhile",
		                    answer->rounds_left_out, answer->rounds + answer->rounds_left_out,
		                    lk_noun(answer->rounds + answer->rounds_left_out, "round", "rounds")));
	if (!answer->lead.apart && answer->rounds > 1)
		LK_TRY(add_stalls_note(work, "%s and %s cannot be told apart%s",
		                       lk_stalls_kinds[answer->lead.first],
		                       lk_stalls_kinds[answer->lead.second], rounds_that_would_do(answer)));
	if (answer->rows[LK_STALLS_NULL].runs && !work->last[LK_STALLS_NULL].seen.left_out)
		LK_TRY(add_stalls_note(work,
		                       "the null run left no call out: all are small, or point-to-point "
		                       "messages; communication is the time in their calls"));
	if (answer->rows[LK_STALLS_ONE].runs)
		LK_TRY(add_stalls_note(work, "one process is taken to do what each rank does%s",
		                       work->request->one || !work->runner.program
		                           ? ""
		                           : "; it ran as an emulated rank, another one in each round"));
	if (answer->rows[LK_STALLS_HOT].runs && answer->rows[LK_STALLS_HOT].resident < 0.95)
		LK_TRY(add_stalls_note(work, "hot not achieved: %.0f %% of the files were in memory",
		                       100 * answer->rows[LK_STALLS_HOT].resident));
	const lk_cache_state *cold = &work->last[LK_STALLS_COLD].cache;
	double read = work->last[LK_STALLS_COLD].seen.loader.bytes * answer->ranks *
	              (work->request->warmup + answer->steps);
	if (answer->rows[LK_STALLS_COLD].runs && read > cold->bytes)
		LK_TRY(
			add_stalls_note(work,
		                    "the steps read %.2g times the bytes of their files: repeated reads "
		                    "come from memory, so that the first pass stalls more than fetch shows",
		                    read / cold->bytes));
	if (work->request->recording && isnan(work->first.seen.cores))
		LK_TRY(add_stalls_note(work, "the recording is of an older form: the cores of its machine "
		                             "and the file systems of its files are not known"));
	bool unknown = false, fetch_known = lk_stalls_knows_storage(answer);
	for (int i = 0; i < answer->change_count; i++) unknown |= isnan(answer->changes[i].step_s);
	if (unknown && !fetch_known)
		LK_TRY(add_stalls_note(work, "without a cold run it is not known how long storage takes in "
		                             "a step, nor what another disk or more caching would save"));
	for (size_t i = 0; i < work->runner.unguarded.count; i++)
		LK_TRY(add_stalls_note(work, "not guarded in the further runs: %s",
		                       work->runner.unguarded.at[i]));
	if (answer->steps < work->request->steps)
		LK_TRY(add_stalls_note(work, "only %d %s counted in a run; the means are of few steps",
		                       answer->steps, lk_noun(answer->steps, "step", "steps")));
	work->result.notes = work->notes.at;
	work->result.note_count = (int)work->notes.count;
	return LK_OK;
}

static lk_status answer_from_rounds(lk_stalls_work *work) {
	lk_stalls_answer *answer = &work->result;
	answer->ranks = work->first.seen.ranks;
	answer->hosts = work->first_comm.hosts > 0 ? work->first_comm.hosts : 1;
	answer->first_s = work->first.seen.times.step;
	work->rounds.first = work->first.seen.times;
	lk_stalls_split(&work->rounds, answer);
	const lk_stalls_run *base = &work->first;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		if (strcmp(answer->base, lk_stalls_configurations[c]) == 0) base = &work->last[c];
	answer->by_rank = base->seen.by_rank;
	answer->rank_count = base->seen.ranks;
	answer->marks = base->seen.times.marks.at;
	answer->mark_count = base->seen.times.marks.count;
	LK_TRY(lk_stalls_buckets_of(work, &work->first_comm));
	LK_TRY(lk_stalls_predict(work));
	return add_stalls_notes(work);
}

static lk_status make_stalls_command(lk_stalls_work *work) {
	static const char *const but[] = {"yes", "out", NULL};
	lk_stalls_request usual;
	lk_stalls_defaults(&usual);
	work->result.reproduce =
		lk_command(&work->arena, &(lk_question){.verb = &lk_stalls_verb,
	                                            .request = work->request,
	                                            .usual = &usual,
	                                            .but = but,
	                                            .rest = work->request->command,
	                                            .rest_count = work->request->words});
	return work->result.reproduce ? LK_OK : lk_oom(work->err);
}

/* ---- the request ---- */

/* Find the files that the run reads, and those for a fast tier. */
static lk_status see_files(lk_stalls_work *work, const char *path) {
	lk_stalls_answer *answer = &work->result;
	LK_TRY(lk_stalls_profile_of(path, &work->arena, &work->profile, work->err));
	LK_TRY(lk_stalls_stage(&work->profile, work->request->staging, &work->arena, &answer->staging,
	                       work->err));
	answer->files = work->profile.files.at;
	answer->file_count = (int)work->profile.files.count;
	LK_TRY(lk_stalls_folders_of(&work->profile, &work->arena, &answer->folders,
	                            &answer->folder_count, work->err));
	if (!work->request->against) return LK_OK;
	return lk_stalls_compare_files(&work->profile, work->request->against, &work->arena,
	                               &answer->pairs, &answer->pair_count, work->err);
}

static lk_status look_at_first_run(lk_stalls_work *work, const char *folder) {
	work->result.steps = work->first.seen.steps;
	work->result.shown = folder;
	LK_TRY(see_files(work, folder));
	LK_TRY(see_rank_comm(work, folder, &work->first.seen.times, &work->first_comm));
	return make_stalls_command(work);
}

/* Options of steps, of which a log of Darshan has none. */
static lk_status refuse_step_options(const lk_stalls_request *request, lk_error *err) {
	lk_stalls_request usual;
	lk_stalls_defaults(&usual);
	const char *name;
	if (request->what_ifs) name = "--what-if";
	else if (request->cluster) name = "--cluster";
	else if (request->steps != usual.steps) name = "--steps";
	else if (request->warmup != usual.warmup) name = "--warmup";
	else return LK_OK;
	lk_fail(err, LK_ERR_INPUT, name, "has no effect with a log of Darshan, which has no steps");
	return lk_hint(err, "leave it out, or give a folder of lockstep record");
}

static lk_status analyse_recording(lk_stalls_work *work) {
	const lk_stalls_request *request = work->request;
	bool darshan;
	LK_TRY(lk_stalls_is_darshan(request->recording, &darshan, work->err));
	if (darshan) {
		LK_TRY(refuse_step_options(request, work->err));
		LK_TRY(see_files(work, request->recording));
		return make_stalls_command(work);
	}
	LK_TRY(lk_stalls_check_recording(request->recording, work->err));
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		leave_out_configuration(work, c, "nothing is run: a recording was given");
	LK_TRY(lk_stalls_see(request->recording, request->warmup, request->steps, &work->arena,
	                     &work->first.seen, NULL, work->err));
	if (!work->first.seen.steps) {
		lk_fail(work->err, LK_ERR_INPUT, request->recording,
		        "has no recording with more than %d %s", request->warmup,
		        lk_noun(request->warmup, "step", "steps"));
		return lk_hint(work->err, "give a folder that lockstep record made; --warmup is the number "
		                          "of steps that do not count");
	}
	LK_TRY(look_at_first_run(work, request->recording));
	return answer_from_rounds(work);
}

static lk_status analyse_command(lk_stalls_work *work) {
	bool yes = false;
	LK_TRY(read_configuration_names(work));
	LK_TRY(lk_stalls_runner_open(work->request, &work->arena, &work->runner, work->err));
	say_progress(work, "the command as it is, %d %s", work->request->warmup + work->request->steps,
	             lk_noun(work->request->warmup + work->request->steps, "step", "steps"));
	LK_TRY(lk_stalls_run_first(&work->runner, &work->first, work->err));
	work->result.status = work->first.status;
	if (work->request->out) work->result.kept = work->request->out;
	if (work->first.late)
		return give_up_stalls(
			work, "the time limit was reached: the command was stopped before its steps were done");
	if (work->first.status)
		return give_up_stalls(work, "the command ended with exit status %d; nothing is run again",
		                      work->first.status);
	if (!work->first.seen.steps)
		return give_up_stalls(work,
		                      "no steps: fewer than %d were seen; --step-marker names what begins "
		                      "a step, --warmup the number that do not count",
		                      work->request->warmup + 1);
	LK_TRY(
		look_at_first_run(work, lk_stalls_run_folder(&work->runner, LK_STALLS_CONFIGURATIONS, 0)));
	work->runner.per_host =
		(int)ceil((double)work->first.seen.ranks / fmax(1, work->first_comm.hosts));
	work->runner.readers =
		(int)fmin(1024, work->runner.per_host * fmax(1, work->first.seen.loader.threads));
	LK_TRY(choose_configurations(work));
	LK_TRY(ask_for_agreement(work, &yes));
	if (yes) LK_TRY(run_all_rounds(work));
	for (int c = 0; !yes && c < LK_STALLS_CONFIGURATIONS; c++)
		if (work->wanted[c]) leave_out_configuration(work, c, "not agreed to");
	if (!yes && !work->request->configurations)
		LK_TRY(add_stalls_note(work, "nothing was run again: all is estimated from the first run; "
		                             "use --yes to agree to the runs"));
	LK_TRY(answer_from_rounds(work));
	if (work->result.rows[LK_STALLS_HOT].runs)
		work->result.shown = lk_stalls_run_folder(&work->runner, LK_STALLS_HOT, 0);
	return LK_OK;
}

/* Refuse options of runs where nothing is run, because another one was given. */
static lk_status refuse_run_options(const lk_stalls_request *request, const char *because,
                                    lk_error *err) {
	lk_stalls_request usual;
	lk_stalls_defaults(&usual);
	const struct {
		const char *name;
		bool given;
	} options[] = {
		{"--repeats", request->repeats != usual.repeats},
		{"--budget", request->budget > 0},
		{"--configurations", request->configurations != NULL},
		{"--one", request->one != NULL},
		{"--time-limit", request->time_limit > 0},
		{"--yes", request->yes},
		{"--step-marker", request->step_marker != NULL},
		{"--program", request->program != NULL},
		{"--mpi", request->mpi != usual.mpi},
		{"--max-mb", request->max_mb != usual.max_mb},
		{"--batches", request->batches != usual.batches},
		{"--out", request->out != NULL},
	};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		if (!options[i].given) continue;
		lk_fail(err, LK_ERR_INPUT, options[i].name, "has no effect with %s: nothing is run",
		        because);
		return lk_hint(err, "leave one of the two out");
	}
	return LK_OK;
}

static lk_status check_what_ifs(const char *lines, lk_error *err) {
	for (const char *line = lines; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n') {
		lk_stalls_machine machine;
		char name[160];
		LK_TRY(lk_stalls_machine_of(line, &machine, name, err));
	}
	return LK_OK;
}

/* Whether no configuration is requested: only the first run. */
static bool runs_once(const lk_stalls_request *request) {
	return request->configurations && strcmp(request->configurations, "first") == 0;
}

/* Networks on machines: no command, recording or option of theirs acts. */
static lk_status check_predicted(const lk_stalls_request *request, lk_error *err) {
	lk_stalls_request usual;
	lk_stalls_defaults(&usual);
	const struct {
		const char *name;
		bool given;
	} others[] = {
		{"--recording", request->recording != NULL}, {"--cluster", request->cluster != NULL},
		{"--what-if", request->what_ifs != NULL},    {"--staging", request->staging != NULL},
		{"--steps", request->steps != usual.steps},  {"--warmup", request->warmup != usual.warmup},
	};
	LK_TRY(refuse_run_options(request, "--model", err));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i].given) {
			lk_fail(err, LK_ERR_INPUT, others[i].name, "has no effect with --model");
			return lk_hint(err, "leave one of the two out");
		}
	if (request->words)
		return lk_fail(err, LK_ERR_INPUT, "--model", "replaces the command; give one of the two");
	if (request->machines) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--machine", "is needed: which machines");
	return lk_hint(err, "lockstep machines lists them: --machine p2,p3");
}

static lk_status check_stalls_request(const lk_stalls_request *request, lk_error *err) {
	if (request->repeats < 1 || request->repeats > LK_STALLS_REPEATS)
		return lk_fail(err, LK_ERR_INPUT, "--repeats", "must be 1 to %d", LK_STALLS_REPEATS);
	if (!(request->budget >= 0 && request->budget <= 1e9))
		return lk_fail(err, LK_ERR_INPUT, "--budget", "must be 0 to 1e9 seconds");
	if (request->recording && request->words)
		return lk_fail(err, LK_ERR_INPUT, "--recording",
		               "replaces the command; give one of the two");
	if (request->against && !request->recording) {
		lk_fail(err, LK_ERR_INPUT, "--against", "compares recordings, and a command was given");
		return lk_hint(err, "give --recording too");
	}
	if (request->staging) LK_TRY(lk_stalls_staging_check(request->staging, err));
	LK_TRY(check_what_ifs(request->what_ifs, err));
	if (request->recording) LK_TRY(refuse_run_options(request, "--recording", err));
	if (request->models) return check_predicted(request, err);
	if (request->one && request->configurations && !strstr(request->configurations, "one")) {
		lk_fail(err, LK_ERR_INPUT, "--one", "has no effect: --configurations leaves one out");
		return lk_hint(err, "add one to --configurations, or leave --one out");
	}
	if (request->budget > 0 && runs_once(request)) {
		lk_fail(err, LK_ERR_INPUT, "--budget",
		        "has no effect with --configurations first: nothing is run again");
		return lk_hint(err, "leave one of the two out");
	}
	if (request->recording || request->words) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "stalls", "no command is given");
	return lk_hint(err, "give it after --, as in lockstep stalls -- mpirun -n 2 ./train");
}

static lk_status predict_machines(lk_stalls_work *work) {
	LK_TRY(lk_stalls_machines(work));
	return make_stalls_command(work);
}

lk_status lk_stalls(const lk_stalls_request *request, lk_stalls_answer **out, lk_error *err) {
	*out = NULL;
	LK_TRY(lk_cost_ready(err));
	LK_TRY(check_stalls_request(request, err));
	lk_stalls_work *work = calloc(1, sizeof *work);
	if (!work) return lk_oom(err);
	work->request = request;
	work->err = err;
	work->disk_rate = NAN;
	work->result = (lk_stalls_answer){.reason = "",
	                                  .kept = "",
	                                  .base = "first",
	                                  .memory_owner = work,
	                                  .step_s = NAN,
	                                  .low = NAN,
	                                  .high = NAN,
	                                  .drift_low = NAN,
	                                  .drift_high = NAN,
	                                  .drift_trend = NAN,
	                                  .first_s = NAN};
	work->result.part_count = LK_STALL_KINDS;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		work->result.parts[k] = lk_stalls_unknown((lk_stalls_kind)k, "");
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		work->result.rows[c] =
			(lk_stalls_row){.step_s = NAN, .low = NAN, .high = NAN, .resident = NAN, .note = ""};
	lk_status status = lk_stalls_read_links(work);
	if (status == LK_OK) {
		if (request->models) status = predict_machines(work);
		else status = request->recording ? analyse_recording(work) : analyse_command(work);
	}
	if (status == LK_OK)
		work->result.failed_check = lk_failed_check(lk_stalls_check(&work->result));
	if (status == LK_OK)
		status = lk_traces_inputs(&work->arena, &lk_stalls_verb, request, &request->recording,
		                          request->recording ? 1 : 0, &work->result.inputs, err);
	if (status != LK_OK && !work->first.ended) {
		lk_stalls_free(&work->result);
		return status;
	}
	if (status != LK_OK) {
		work->result.status = work->first.status;
		lk_fail_as(&work->result.failure, err);
	}
	*out = &work->result;
	return LK_OK;
}

void lk_stalls_free(lk_stalls_answer *answer) {
	if (!answer) return;
	lk_stalls_work *work = answer->memory_owner;
	lk_stalls_runner_close(&work->runner);
	lk_vec_free(&work->first_comm.sizes);
	lk_vec_free(&work->notes);
	lk_vec_free(&work->changes);
	lk_stalls_profile_free(&work->profile);
	lk_arena_free(&work->arena);
	free(work);
}
