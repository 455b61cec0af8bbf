/* stalls_runs.c: runs the command in each of its configurations.
 *
 * A repeated run has its recording and its scratch folder in a private folder; its output and
 * writes are kept private, and its input is empty. Python programs get a sitecustomize module that
 * marks the loader's batches as steps, and repeats the first ones if data is to be ready; other
 * programs are unchanged. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "record/record.h"
#include "stalls/stalls.h"
#include "base/text.h"

static const double LIMIT_FACTOR = 10, LIMIT_MORE_S = 60;

/* ---- the private folder ---- */

static int remove_run_entry(const char *path, const struct stat *info, int kind,
                            struct FTW *place) {
	(void)info, (void)kind, (void)place;
	return remove(path);
}

static void remove_run_folder(const char *folder) {
	nftw(folder, remove_run_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static lk_status make_private_folder(lk_stalls_runner *runner, lk_error *err) {
	const char *kept = runner->request->out, *temporary = getenv("TMPDIR");
	if (!kept) {
		const char *where = temporary && *temporary ? temporary : "/tmp";
		int n = snprintf(runner->folder, sizeof runner->folder, "%s/lockstep-stalls-XXXXXX", where);
		if (n < (int)sizeof runner->folder && mkdtemp(runner->folder)) return LK_OK;
		return lk_fail(err, LK_ERR_IO, runner->folder, "cannot be made: %s", strerror(errno));
	}
	if (mkdir(kept, 0700) == 0)
		return realpath(kept, runner->folder) ? LK_OK
		                                      : lk_fail(err, LK_ERR_IO, kept, "cannot be found");
	lk_fail(err, LK_ERR_IO, kept, "cannot be made: %s", strerror(errno));
	return lk_hint(err, "--out must name a folder that does not exist yet");
}

static lk_status add_python_modules(lk_stalls_runner *runner, lk_error *err) {
	LK_TRY(lk_record_write_python(runner->folder, err));
	LK_TRY(lk_record_write_private(runner->folder, "python/" LK_BATCH_MARK, "", 0, err));
	if (!runner->marker) runner->marker = "open:" LK_BATCH_MARK;
	return LK_OK;
}

/* ---- one process ---- */

static bool is_process_count_option(const char *word) {
	static const char *const options[] = {
		"-n", "-np", "--np", "--n", "-c", "--nproc_per_node", "--nproc-per-node", "--ntasks"};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (strcmp(word, options[i]) == 0) return true;
	return false;
}

static bool is_rank_launcher(const char *word) {
	static const char *const names[] = {"mpirun",  "mpiexec", "orterun",
	                                    "prterun", "srun",    "torchrun"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (lk_begins_with(lk_file_name(word), names[i])) return true;
	return false;
}

/* "--nproc_per_node=8": the start of the number. */
static const char *process_count_within(const char *word) {
	const char *equals = strchr(word, '=');
	char name[32];
	if (!equals || (size_t)(equals - word) >= sizeof name) return NULL;
	snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
	return is_process_count_option(name) ? equals + 1 : NULL;
}

/* Derive the command with 1 as the number of processes for its launcher; stays NULL if that is not
 * found. */
static lk_status derive_one_process(lk_stalls_runner *runner, lk_error *err) {
	const lk_stalls_request *request = runner->request;
	const char **words = LK_ARRAY(runner->arena, const char *, (size_t)request->words + 1);
	bool launcher = false, found = false;
	if (!words) return lk_oom(err);
	for (int i = 0; i < request->words; i++) {
		const char *word = words[i] = request->command[i],
				   *within = launcher && !found ? process_count_within(word) : NULL;
		launcher |= is_rank_launcher(word);
		if (launcher && !found && i > 0 && is_process_count_option(request->command[i - 1])) {
			words[i] = "1";
			found = true;
		}
		if (within) {
			words[i] = lk_arena_printf(runner->arena, "%.*s1", (int)(within - word), word);
			if (!words[i]) return lk_oom(err);
			found = true;
		}
	}
	if (found) {
		runner->one = words;
		runner->one_words = request->words;
	}
	return LK_OK;
}

static lk_status split_one_command(lk_stalls_runner *runner, lk_error *err) {
	enum { MOST = 512 };
	const char **words = LK_ARRAY(runner->arena, const char *, MOST + 1);
	char *text = lk_arena_strdup(runner->arena, runner->request->one), *rest = NULL;
	if (!words || !text) return lk_oom(err);
	for (char *w = strtok_r(text, " \t\n", &rest); w && runner->one_words < MOST;
	     w = strtok_r(NULL, " \t\n", &rest))
		words[runner->one_words++] = w;
	if (!runner->one_words) return lk_fail(err, LK_ERR_INPUT, "--one", "is not a command");
	runner->one = words;
	return LK_OK;
}

lk_status lk_stalls_runner_open(const lk_stalls_request *request, lk_arena *arena,
                                lk_stalls_runner *out, lk_error *err) {
	char room[LK_PROGRAM_NAME];
	lk_record_request whose = {
		.command = request->command, .words = request->words, .program = request->program};
	*out = (lk_stalls_runner){.request = request, .arena = arena, .marker = request->step_marker};
	const char *program = lk_record_programs(&whose, room);
	out->python = program && strncmp(program, "python", 6) == 0;
	LK_TRY(request->one ? split_one_command(out, err) : derive_one_process(out, err));
	LK_TRY(make_private_folder(out, err));
	return out->python ? add_python_modules(out, err) : LK_OK;
}

void lk_stalls_runner_close(lk_stalls_runner *runner) {
	if (*runner->folder && !runner->request->out) remove_run_folder(runner->folder);
	*runner->folder = '\0';
	lk_vec_free(&runner->files);
	lk_vec_free(&runner->cold);
	lk_vec_free(&runner->unguarded);
}

/* ---- runs ---- */

const char *lk_stalls_run_folder(const lk_stalls_runner *runner, lk_stalls_configuration c,
                                 int round) {
	if (c == LK_STALLS_CONFIGURATIONS)
		return lk_arena_printf(runner->arena, "%s/first", runner->folder);
	return lk_arena_printf(runner->arena, "%s/%d-%s", runner->folder, round,
	                       lk_stalls_configurations[c]);
}

/* The environment for Python; NULL ends it. */
static lk_status python_settings_of(lk_stalls_runner *runner, bool ready, const char *out[4],
                                    lk_error *err) {
	int n = 0;
	if (runner->python) {
		const char *path = lk_record_python_path(runner->folder, runner->arena);
		out[n++] = path ? lk_arena_printf(runner->arena, "PYTHONPATH=%s", path) : NULL;
		out[n++] = lk_arena_printf(runner->arena, "LOCKSTEP_LOADER_MARK=%s/python/" LK_BATCH_MARK,
		                           runner->folder);
		if (ready)
			out[n++] = lk_arena_printf(runner->arena, "LOCKSTEP_LOADER_REPEAT=%d",
			                           runner->request->batches);
	}
	out[n] = NULL;
	for (int i = 0; i < n; i++)
		if (!out[i]) return lk_oom(err);
	return LK_OK;
}

static double children_cpu_seconds(void) {
	struct rusage use;
	if (getrusage(RUSAGE_CHILDREN, &use) != 0) return NAN;
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static lk_record_request record_request_of(const lk_stalls_runner *runner, const char *out,
                                           const char *const *settings) {
	const lk_stalls_request *request = runner->request;
	lk_record_request record;
	lk_record_defaults(&record);
	record.command = request->command;
	record.words = request->words;
	record.out = out;
	record.max_mb = request->max_mb;
	record.steps = request->warmup + request->steps;
	record.time_limit = request->time_limit;
	record.step_marker = runner->marker;
	record.program = request->program;
	record.mpi = request->mpi;
	record.settings = settings;
	return record;
}

/* Keep the lines on effects of repeated runs that could not be kept private, each once. */
static lk_status keep_unguarded_lines(lk_stalls_runner *runner, const lk_record_answer *answer,
                                      lk_error *err) {
	enum { MOST = 20 };
	for (int i = 0; i < answer->unguarded_count && runner->unguarded.count < MOST; i++) {
		bool known = false;
		for (size_t k = 0; k < runner->unguarded.count; k++)
			known |= strcmp(runner->unguarded.at[k], answer->unguarded[i]) == 0;
		if (known) continue;
		if (!lk_push(&runner->unguarded)) return lk_oom(err);
		*lk_last(&runner->unguarded) = lk_arena_strdup(runner->arena, answer->unguarded[i]);
		if (!*lk_last(&runner->unguarded)) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status keep_rank_program(lk_stalls_runner *runner, const lk_record_answer *answer,
                                   lk_error *err) {
	for (int i = 0; i < answer->count && !runner->program; i++) {
		const lk_record_process *process = &answer->processes[i];
		if (process->forked || process->rank < 0 || process->world < 2) continue;
		runner->program = lk_arena_strdup(runner->arena, process->program);
		runner->world = process->world;
		if (!runner->program) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status run_recorded(lk_stalls_runner *runner, const lk_record_request *record,
                              lk_disk_steps *each, lk_stalls_run *out, lk_error *err) {
	lk_record_answer *answer;
	double before = children_cpu_seconds();
	LK_TRY(lk_record(record, &answer, err));
	out->ended = true;
	out->status = answer->status;
	out->late = answer->end == LK_RECORD_TIME_OVER;
	out->wall_s = answer->wall_s;
	out->cpu_s = children_cpu_seconds() - before;
	lk_status status = answer->failure.status ? lk_fail_as(err, &answer->failure) : LK_OK;
	if (status == LK_OK) status = keep_unguarded_lines(runner, answer, err);
	if (status == LK_OK && !runner->program) status = keep_rank_program(runner, answer, err);
	lk_record_free(answer);
	LK_TRY(status);
	return lk_stalls_see(record->out, runner->request->warmup, runner->request->steps,
	                     runner->arena, &out->seen, each, err);
}

lk_status lk_stalls_run_first(lk_stalls_runner *runner, lk_stalls_run *out, lk_error *err) {
	const char *settings[4], *folder = lk_stalls_run_folder(runner, LK_STALLS_CONFIGURATIONS, 0);
	if (!folder) return lk_oom(err);
	LK_TRY(python_settings_of(runner, false, settings, err));
	lk_record_request record = record_request_of(runner, folder, settings);
	LK_TRY(run_recorded(runner, &record, NULL, out, err));
	runner->first_wall_s = out->wall_s;
	double bytes;
	return lk_stalls_files_of(folder, false, runner->arena, &runner->files, &bytes, err);
}

static void prepare_page_cache(const lk_stalls_runner *runner, lk_stalls_configuration c,
                               lk_cache_state *out) {
	if (c != LK_STALLS_COLD) {
		lk_cache_warm(runner->files.at, runner->files.count, out);
		return;
	}
	lk_cache_evict(runner->files.at, runner->files.count, out);
	double rate = out->resident <= LK_CACHE_COLD
	                  ? lk_disk_rate(runner->files.at, runner->files.count, runner->readers)
	                  : NAN;
	if (!isnan(rate)) lk_cache_evict(runner->files.at, runner->files.count, out);
	out->rate = rate;
}

/* A command that the user gives for one process is run unchanged; otherwise the process runs as an
 * emulated rank of all. */
static void set_one_process_command(const lk_stalls_runner *runner, lk_record_request *record) {
	record->command = runner->one;
	record->words = runner->one_words;
	if (runner->request->one || !runner->program) return;
	record->mode = LK_RECORD_MODE_AS_RANK;
	record->as_rank = runner->as_rank;
	record->world_size = runner->world;
	record->ranks_per_node = runner->per_host;
	if (!record->program) record->program = runner->program;
}

lk_status lk_stalls_run_again(lk_stalls_runner *runner, lk_stalls_configuration c, int round,
                              bool ready, lk_stalls_run *out, lk_error *err) {
	const char *settings[4], *folder = lk_stalls_run_folder(runner, c, round);
	const char *scratch = folder ? lk_arena_printf(runner->arena, "%s.scratch", folder) : NULL;
	const char *output = folder ? lk_arena_printf(runner->arena, "%s.output", folder) : NULL;
	*out = (lk_stalls_run){.cache = {.resident = NAN, .rate = NAN}};
	if (!scratch || !output) return lk_oom(err);
	LK_TRY(python_settings_of(runner, ready, settings, err));
	lk_record_request record = record_request_of(runner, folder, settings);
	if (c == LK_STALLS_ONE) set_one_process_command(runner, &record);
	if (c == LK_STALLS_NULL) record.mode = LK_RECORD_MODE_NULL;
	if (record.time_limit <= 0)
		record.time_limit = LIMIT_FACTOR * runner->first_wall_s + LIMIT_MORE_S;
	record.scratch = scratch;
	record.guarded = true;
	record.output = output;
	if (mkdir(scratch, 0700) != 0)
		return lk_fail(err, LK_ERR_IO, scratch, "cannot be made: %s", strerror(errno));
	prepare_page_cache(runner, c, &out->cache);
	lk_status status =
		run_recorded(runner, &record, c == LK_STALLS_COLD ? &runner->cold : NULL, out, err);
	remove_run_folder(scratch);
	return status;
}
