/* record.c: runs a command with the probe, then summarises its recordings. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "record/record.h"
#include "base/check.h"
#include "base/text.h"
#include "system/listing.h"
#include "base/noun.h"
#include "base/sort.h"
#include "trace/read/read.h"

enum {
	STATUS_TIME_OVER = 124 /* as timeout(1) */
};

struct record_work {
	lk_record_answer result;
	LK_VEC(lk_record_process) processes;
	LK_VEC(lk_record_file) files;
	lk_intern *paths; /* of the files; a path's number is its index + 1 */
	lk_record_scratch scratch;
	lk_arena arena;
	int unbegun;           /* processes that could not begin their recording */
	char folder[PATH_MAX]; /* absolute */
	int locked;            /* the folder, open and locked while it is recorded into; -1 */
};

/* ---- the folder ---- */

/* Lock the folder, so that of two commands that record into one empty folder the second is refused.
 * File systems without locks cannot do this. */
static lk_status lock_recording_folder(struct record_work *work, const char *out, lk_error *err) {
	work->locked = open(work->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (work->locked < 0 || flock(work->locked, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, out, "another lockstep records into it");
	return lk_hint(err, "wait for it, or name another folder with --out");
}

static void close_recording_folder(struct record_work *work) {
	if (work->locked >= 0) close(work->locked);
	work->locked = -1;
}

static lk_status make_recording_folder(struct record_work *work, const char *out, lk_error *err) {
	if (mkdir(out, 0700) != 0 && errno != EEXIST) {
		lk_fail(err, LK_ERR_IO, out, "cannot be made: %s", strerror(errno));
		return lk_hint(err, "--out names another folder");
	}
	if (!realpath(out, work->folder))
		return lk_fail(err, LK_ERR_IO, out, "cannot be found: %s", strerror(errno));
	LK_TRY(lock_recording_folder(work, out, err));
	bool empty;
	LK_TRY(lk_record_is_empty_folder(work->folder, &empty, err));
	if (empty) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, out,
	        "is not an empty folder; recordings are never mixed or overwritten");
	return lk_hint(err, "remove it, or name another one with --out");
}

/* ---- summary of a process ---- */

static void add_device_times(lk_record_process *process, const lk_record_entry *entry,
                             double seconds) {
	if (entry->kind == LK_RECORD_DEVICE_WORK) process->work_s += seconds;
	if (entry->kind == LK_RECORD_PROXY) {
		process->network_wait_s += 1e-9 * (double)entry->proxy.network_ns;
		process->device_wait_s += 1e-9 * (double)entry->proxy.device_ns;
		process->peer_wait_s += 1e-9 * (double)entry->proxy.peer_ns;
	}
	if (entry->kind != LK_RECORD_DEVICE_CALL) return;
	process->device_calls += entry->device.count;
	bool waits =
		entry->device.what >= LK_DEVICE_WAIT_STREAM && entry->device.what <= LK_DEVICE_WAIT_ALL;
	if (waits) process->device_s += seconds;
}

/* A call that waited for several requests left a record for each. */
static bool is_same_waiting_call(const lk_record_entry *a, const lk_record_entry *b) {
	return a && a->kind == LK_RECORD_COMM && b->kind == LK_RECORD_COMM &&
	       a->comm.part == LK_PART_DONE && b->comm.part == LK_PART_DONE && a->thread == b->thread &&
	       a->start_ns == b->start_ns && a->end_ns == b->end_ns;
}

static void add_call_to_process(lk_record_process *process, const lk_record_entry *before,
                                const lk_record_entry *entry, bool pipe) {
	double seconds =
		is_same_waiting_call(before, entry) ? 0 : 1e-9 * (double)(entry->end_ns - entry->start_ns);
	if (entry->kind == LK_RECORD_COMM) {
		process->comms += entry->comm.part != LK_PART_DONE;
		process->comm_bytes += entry->comm.part == LK_PART_MAKE ? 0 : (double)entry->bytes;
		process->comm_s += seconds;
	} else if (entry->kind == LK_RECORD_READ) {
		process->reads += entry->io.count;
		process->read_bytes += (double)entry->bytes;
		process->read_s += 1e-9 * (double)entry->io.busy_ns;
	} else if (entry->kind == LK_RECORD_SENT || entry->kind == LK_RECORD_RECEIVED) {
		process->socket_bytes += pipe ? 0 : (double)entry->bytes;
	} else if (entry->kind == LK_RECORD_WRITE) {
		process->writes += entry->io.count;
		process->write_bytes += (double)entry->bytes;
	}
	add_device_times(process, entry, seconds);
	if (1e-9 * (double)entry->end_ns > process->wall_s)
		process->wall_s = 1e-9 * (double)entry->end_ns;
}

/* ---- files ---- */

static lk_status find_or_add_file(struct record_work *work, const lk_recorded_run *run,
                                  const lk_record_entry *entry, lk_record_file **out,
                                  lk_error *err) {
	LK_ASSERT(run->texts != NULL);
	const lk_recorded_name *name = lk_recorded_find(&run->files, 0, entry->object);
	const char *path = name ? lk_intern_text(run->texts, name->name) : "";
	uint32_t number = *path ? lk_intern_id(work->paths, path) : 0;
	*out = NULL;
	if (number == UINT32_MAX) return lk_oom(err);
	if (number == 0) return LK_OK; /* its name was dropped */
	if (number > work->files.count) {
		if (!lk_push(&work->files)) return lk_oom(err);
		lk_last(&work->files)->path = lk_arena_strdup(&work->arena, path);
		if (!lk_last(&work->files)->path) return lk_oom(err);
	}
	*out = &work->files.at[number - 1];
	return LK_OK;
}

static lk_status add_file_traffic(struct record_work *work, const lk_recorded_run *run,
                                  lk_error *err) {
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		lk_record_file *file = NULL;
		if (entry->kind != LK_RECORD_READ && entry->kind != LK_RECORD_WRITE) continue;
		LK_TRY(find_or_add_file(work, run, entry, &file, err));
		if (!file) continue;
		double seconds = 1e-9 * (double)entry->io.busy_ns;
		if (entry->kind == LK_RECORD_WRITE) {
			file->writes += entry->io.count;
			file->write_bytes += (double)entry->bytes;
			file->write_s += seconds;
			continue;
		}
		file->reads += entry->io.count;
		file->sequential += entry->io.sequential;
		file->read_bytes += (double)entry->bytes;
		file->read_s += seconds;
		file->most = fmax(file->most, (double)entry->io.most);
	}
	return LK_OK;
}

static int compare_file_times(const void *a, const void *b) {
	const lk_record_file *x = a, *y = b;
	double s = x->read_s + x->write_s, t = y->read_s + y->write_s;
	if (s != t) return s > t ? -1 : 1;
	return strcmp(x->path, y->path);
}

static lk_status describe_process(struct record_work *work, const char *path,
                                  const lk_recorded_run *run, const lk_recorded_steps *steps,
                                  lk_error *err) {
	const lk_recording_head *head = &run->head;
	char program[4 * sizeof head->program];
	if (!lk_push(&work->processes)) return lk_oom(err);
	lk_record_process *process = lk_last(&work->processes);
	*process = (lk_record_process){
		.path = lk_arena_strdup(&work->arena, path),
		.rank = head->rank,
		.world = head->world,
		.program = lk_arena_strdup(&work->arena, lk_escape(head->program, program, sizeof program)),
		.forked = head->root != 0,
		.whole = head->end_ns > 0,
		.dropped = run->dropped,
		.growth_errno = (int)head->growth_errno,
		.mode = (int)head->mode,
		.delay_us = (int)head->delay_us,
		.slowed = (head->seen & LK_RECORDED_SLOWED) != 0,
		.left_out = head->left_out,
		.cost_s = 1e-9 * head->cost_ns,
		.files = (int)run->files.count,
		.steps = lk_record_count_steps(steps)};
	for (size_t i = 0; i < run->calls.count; i++)
		add_call_to_process(process, i ? &run->calls.at[i - 1].record : NULL,
		                    &run->calls.at[i].record, lk_recorded_by_pipe(run, &run->calls.at[i]));
	if (head->end_ns > 0 && 1e-9 * (double)head->end_ns > process->wall_s)
		process->wall_s = 1e-9 * (double)head->end_ns;
	process->outside_s = NAN;
	if (process->steps)
		process->outside_s =
			fmax(0, process->wall_s -
		                1e-9 * (double)(steps->begin.at[process->steps] - steps->begin.at[0]));
	return process->path && process->program ? lk_record_step_time(steps, &process->step_s, err)
	                                         : lk_oom(err);
}

static lk_status add_recorded_process(void *context, const char *path, const char *name,
                                      lk_error *err) {
	struct record_work *work = context;
	if (*name == '.') return LK_OK; /* it could not begin */
	lk_recorded_run run;
	lk_recorded_steps steps;
	struct stat info;
	lk_intern *texts = lk_intern_new();
	if (!texts) return lk_oom(err);
	bool loaded;
	if (stat(path, &info) == 0) work->result.bytes += (double)info.st_size;
	lk_recording_seal(path);
	lk_status status = lk_record_load(path, texts, &run, &steps, &loaded, err);
	if (status == LK_OK && loaded) {
		status = describe_process(work, path, &run, &steps, err);
		if (status == LK_OK) status = add_file_traffic(work, &run, err);
		lk_vec_free(&steps.begin);
		lk_recorded_free(&run);
	}
	lk_intern_free(texts);
	return status;
}

/* By rank, then by path; forked processes, which have ranks of their own, come last. */
static int compare_processes(const void *a, const void *b) {
	const lk_record_process *x = a, *y = b;
	if (x->forked != y->forked) return x->forked ? 1 : -1;
	if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* ---- missing calls ---- */

/* Whether communication that should have been left out went over sockets. */
static bool null_mode_saw_sockets(const struct record_work *work) {
	bool sockets = false, left_out = false;
	for (size_t i = 0; i < work->processes.count; i++) {
		sockets |= work->processes.at[i].socket_bytes > 0;
		left_out |= work->processes.at[i].left_out > 0;
	}
	return sockets && !left_out;
}

/* Why calls were dropped, and what to do. */
static const char *explain_dropped_calls(struct record_work *work, uint64_t dropped) {
	int code = 0;
	for (size_t i = 0; i < work->processes.count && !code; i++)
		if (work->processes.at[i].dropped) code = work->processes.at[i].growth_errno;
	const char *why = "the recording could not grow", *remedy = "name another folder with --out";
	if (!code)
		return lk_arena_printf(&work->arena,
		                       "%llu %s did not fit the recording; use a larger --max-mb",
		                       (unsigned long long)dropped, lk_noun(dropped, "call", "calls"));
	if (code == ENOSPC) {
		why = "the disk is full";
		remedy = "name a folder on another one with --out";
	} else if (code == EDQUOT) {
		why = "your quota of the disk is used up";
		remedy = "name a folder on another one with --out";
	} else if (code == EFBIG) {
		why = "the limit of file sizes was reached";
		remedy = "raise it with ulimit -f";
	} else why = lk_arena_printf(&work->arena, "%s: %s", why, strerror(code));
	return lk_arena_printf(&work->arena, "%llu %s lost: %s; %s", (unsigned long long)dropped,
	                       lk_noun(dropped, "call was", "calls were"), why ? why : "", remedy);
}

/* The first name in --program that no process had; NULL: all were seen. */
static const char *find_unseen_program(struct record_work *work, const lk_record_request *request) {
	for (const char *at = request->program; at && *at;) {
		size_t length = strcspn(at, ",");
		bool seen = !length;
		for (size_t i = 0; i < work->processes.count && !seen; i++) {
			const char *name = work->processes.at[i].program;
			/* names in recordings may be cut */
			seen = strncmp(name, at, strlen(name)) == 0 &&
			       (strlen(name) == length || strlen(name) > 60);
		}
		if (!seen) return lk_arena_printf(&work->arena, "%.*s", (int)length, at);
		at += length + (at[length] == ',');
	}
	return NULL;
}

static const char *explain_missing_steps(struct record_work *work,
                                         const lk_record_request *request) {
	char room[LK_PROGRAM_NAME];
	if (request->mode == LK_RECORD_MODE_NULL && null_mode_saw_sockets(work))
		return "null mode does not work for communication over sockets (gloo in C++): where one "
			   "collective ends and the next begins cannot be seen there, so that ranks could not "
			   "skip the same ones; nothing was left out";
	uint64_t dropped = 0, comms = 0;
	int steps = 0;
	for (size_t i = 0; i < work->processes.count; i++) {
		const lk_record_process *process = &work->processes.at[i];
		dropped += process->dropped;
		comms += process->comms;
		steps += process->steps;
	}
	work->result.dropped = dropped + (uint64_t)work->unbegun; /* at least one call each */
	if (work->unbegun)
		return lk_arena_printf(&work->arena,
		                       "%d %s could not begin a recording: its disk is full, or your quota "
		                       "of it is used up; name another folder with --out",
		                       work->unbegun, lk_noun(work->unbegun, "process", "processes"));
	if (!work->processes.count && lk_record_programs(request, room))
		return "nothing was recorded: no program with the recorded name started, and none called "
			   "MPI_Init (a static program cannot be recorded; --program names others)";
	if (!work->processes.count)
		return "nothing was recorded: no program called MPI_Init; --program NAME records one "
			   "without MPI";
	if (dropped) return explain_dropped_calls(work, dropped);
	const char *unseen = find_unseen_program(work, request);
	if (unseen)
		return lk_arena_printf(&work->arena, "no program %.200s was started, which --program names",
		                       unseen);
	if (!steps && request->step_marker)
		return "no steps: nothing that --step-marker names was seen";
	if (!steps && comms)
		return "no steps: the calls of communication do not repeat; --step-marker names what "
			   "begins one";
	if (!steps)
		return "no steps: neither communication nor files repeat; --step-marker, such as "
			   "read:NAME, names what begins one";
	return "";
}

/* ---- the request ---- */

/* Run the command. An error means that it did not run, or not to its end. */
static lk_status run_recorded_command(struct record_work *work, const lk_record_request *request,
                                      const char *out, lk_run_end *end, lk_error *err) {
	bool made = access(out, F_OK) != 0;
	lk_status status = make_recording_folder(work, out, err);
	if (status != LK_OK) {
		if (made) rmdir(out);
		return status;
	}
	status = lk_record_scratch_open(request, work->folder, &work->scratch, err);
	if (status == LK_OK && request->mode != LK_RECORD_MODE_RECORD)
		status = lk_record_write_python(work->scratch.path, err);
	if (status == LK_OK)
		status = lk_record_runs(request, work->folder, work->scratch.path, &work->arena, end, err);
	if (status != LK_OK) {
		lk_record_scratch_remove(&work->scratch);
		rmdir(work->folder);
	}
	return status;
}

static void set_command_end(lk_record_answer *answer, const lk_run_end *end) {
	answer->status = end->status;
	if (end->end == LK_RECORD_STEPS_DONE) answer->status = 0;
	if (end->end == LK_RECORD_TIME_OVER) answer->status = STATUS_TIME_OVER;
	answer->end = end->end;
	answer->wall_s = end->wall_s;
	answer->store_requests = end->served.requests;
	answer->store_made_up = end->served.made_up;
}

static lk_status sum_up_recordings(struct record_work *work, const lk_record_request *request,
                                   const lk_run_end *end, lk_error *err) {
	lk_record_answer *answer = &work->result;
	lk_status status = lk_record_scratch_sum(&work->scratch, &work->arena, err);
	if (status == LK_OK)
		status = lk_record_find_escapes(&work->scratch, work->folder, &work->arena, err);
	lk_record_scratch_remove(&work->scratch);
	LK_TRY(status);
	LK_TRY(lk_listing_visit(work->folder, LK_RECORDING_ENDING, add_recorded_process, work, err));
	LK_TRY(lk_record_count_unbegun(work->folder, &work->unbegun, err));
	lk_sort(work->processes.at, work->processes.count, sizeof *work->processes.at,
	        compare_processes);
	lk_sort(work->files.at, work->files.count, sizeof *work->files.at, compare_file_times);
	answer->processes = work->processes.at;
	answer->count = (int)work->processes.count;
	answer->files = work->files.at;
	answer->file_count = (int)work->files.count;
	answer->guarded = *work->scratch.path;
	answer->scratch = answer->guarded && !work->scratch.private ? work->scratch.path : NULL;
	answer->changes = work->scratch.changes.at;
	answer->change_count = (int)work->scratch.changes.count;
	answer->unguarded = work->scratch.unguarded.at;
	answer->unguarded_count = (int)work->scratch.unguarded.count;
	answer->posed = request->mode == LK_RECORD_MODE_AS_RANK;
	answer->store_wrong = lk_arena_strdup(&work->arena, end->served.wrong);
	answer->reason = explain_missing_steps(work, request);
	return answer->reason && answer->store_wrong ? LK_OK : lk_oom(err);
}

/* An answer that contradicts itself is a defect of lockstep and is not printed. */
static const char *record_check(const lk_record_answer *answer) {
	for (int i = 0; i < answer->count; i++) {
		const lk_record_process *process = &answer->processes[i];
		LK_HOLDS(process->rank < process->world || process->world == 0);
		LK_HOLDS(process->comm_s >= 0 && process->read_s >= 0 && process->wall_s >= 0);
		LK_HOLDS(!(process->step_s < 0) && !(process->outside_s < 0));
		LK_HOLDS(i == 0 || compare_processes(&process[-1], process) <= 0);
	}
	for (int i = 0; i < answer->file_count; i++) {
		const lk_record_file *file = &answer->files[i];
		LK_HOLDS(file->sequential <= file->reads && file->most <= file->read_bytes);
	}
	LK_HOLDS(isfinite(answer->wall_s) && answer->wall_s >= 0);
	return NULL;
}

lk_status lk_record(const lk_record_request *request, lk_record_answer **out, lk_error *err) {
	if (request->words < 1 || !request->command[0][0]) {
		lk_fail(err, LK_ERR_INPUT, "record", "no command is given");
		return lk_hint(err, "give it after --, as in lockstep record -- mpirun -n 2 ./train");
	}
	lk_record_request own = *request;
	LK_TRY(lk_record_check_emulated(&own, err));
	LK_TRY(lk_record_check_mpi(&own, err));
	LK_TRY(lk_record_check_libc(&own, err));
	struct record_work *work = calloc(1, sizeof *work);
	if (!work) return lk_oom(err);
	lk_run_end end = {0};
	lk_record_answer *answer = &work->result;
	*answer = (lk_record_answer){.out = request->out ? request->out : "recording",
	                             .reason = "",
	                             .store_wrong = "",
	                             .memory_owner = work};
	work->locked = -1;
	work->paths = lk_intern_new();
	answer->out = lk_arena_strdup(&work->arena, answer->out);
	lk_status status = work->paths && answer->out
	                       ? run_recorded_command(work, &own, answer->out, &end, err)
	                       : lk_oom(err);
	if (status != LK_OK) {
		close_recording_folder(work);
		lk_record_free(answer);
		return status;
	}
	/* From here on the command's end is always reported. */
	set_command_end(answer, &end);
	if (sum_up_recordings(work, &own, &end, &answer->failure) == LK_OK)
		answer->failed_check = lk_failed_check(record_check(answer));
	close_recording_folder(work);
	*out = answer;
	return LK_OK;
}

int lk_record_exit_status(const lk_record_answer *answer) {
	if (answer->status) return answer->status;
	return answer->failure.status ? LK_RECORD_FAILED : answer->dropped ? LK_RECORD_LOST : 0;
}

void lk_record_free(lk_record_answer *answer) {
	if (!answer) return;
	struct record_work *work = answer->memory_owner;
	lk_vec_free(&work->processes);
	lk_vec_free(&work->files);
	lk_record_scratch_free(&work->scratch);
	lk_intern_free(work->paths);
	lk_arena_free(&work->arena);
	free(work);
}
