/* record.c: runs a command with the probe, then says what the recordings hold. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/record.h"
#include "base/stats.h"
#include "base/text.h"
#include "trace/read/read.h"

struct record_work {
	lk_record_answer result;
	LK_VEC(lk_record_process) processes;
	LK_VEC(lk_record_file) files;
	lk_intern *paths;        /* of the files; a path's place among them is its number - 1 */
	lk_record_scratch scratch;
	lk_arena arena;
	char folder[PATH_MAX];   /* absolute */
};

/* ---- the folder ---- */

static bool is_empty(const char *folder) {
	DIR *dir = opendir(folder);
	bool empty = dir != NULL;
	for (struct dirent *e; dir && empty && (e = readdir(dir));)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	if (dir) closedir(dir);
	return empty;
}

static lk_status make_folder(struct record_work *w, const char *out, lk_error *err) {
	if (mkdir(out, 0700) != 0 && errno != EEXIST) {
		lk_fail(err, LK_ERR_IO, out, "cannot be made: %s", strerror(errno));
		return lk_hint(err, "--out names another folder");
	}
	if (!realpath(out, w->folder)) return lk_fail(err, LK_ERR_IO, out, "cannot be found: %s", strerror(errno));
	if (is_empty(w->folder)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, out, "is no empty folder; recordings are never mixed or written over");
	return lk_hint(err, "remove it, or name another one with --out");
}

/* ---- recordings ---- */

typedef lk_status (*visitor)(void *context, const char *path, lk_error *err);

static lk_status visit(const char *folder, visitor visit_one, void *context, lk_error *err) {
	DIR *dir = opendir(folder);
	lk_status status = dir ? LK_OK : lk_fail(err, LK_ERR_IO, folder, "cannot be listed: %s", strerror(errno));
	for (struct dirent *e; status == LK_OK && (e = readdir(dir));) {
		char path[PATH_MAX + NAME_MAX + 2];
		if (e->d_name[0] == '.' || !lk_ends_in(e->d_name, LK_RECORDING_ENDING)) continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		status = visit_one(context, path, err);
	}
	if (dir) closedir(dir);
	return status;
}

/* One recording without those of forked processes, and its steps. False: it holds nothing yet. */
static bool load(const char *path, lk_intern *texts, lk_recorded_run *run, lk_recorded_steps *steps) {
	lk_recording recording;
	lk_error ignored;
	*steps = (lk_recorded_steps){.calls = 0};
	if (lk_recording_open(path, &recording, &ignored) != LK_OK) return false;
	bool good = lk_recorded_take(&recording, NULL, texts, run, &ignored) == LK_OK;
	if (good && lk_recorded_find_steps(run, steps, &ignored) != LK_OK) steps->begin.count = 0;
	lk_recording_close(&recording);
	return good;
}

static int count_steps(const lk_recorded_steps *steps) {
	return steps->begin.count ? (int)steps->begin.count - 1 : 0;
}

static lk_status step_time(const lk_recorded_steps *steps, double *out, lk_error *err) {
	int count = count_steps(steps);
	double *each = malloc(((size_t)count + 1) * sizeof *each);
	*out = NAN;
	if (!each) return lk_oom(err);
	for (int i = 0; i < count; i++) each[i] = 1e-9 * (double)(steps->begin.at[i + 1] - steps->begin.at[i]);
	if (count) *out = lk_median(each, (size_t)count);
	free(each);
	return LK_OK;
}

struct so_far {
	int rank;                /* that is looked for; -1 all */
	int steps;
	double step_s;
};

static lk_status most_steps(void *context, const char *path, lk_error *err) {
	struct so_far *most = context;
	lk_recorded_run run;
	lk_recorded_steps steps;
	lk_intern *texts = lk_intern_new();
	if (texts && load(path, texts, &run, &steps)) {
		bool asked = most->rank < 0 || run.head.rank == most->rank;
		if (asked && count_steps(&steps) > most->steps && step_time(&steps, &most->step_s, err) == LK_OK)
			most->steps = count_steps(&steps);
		lk_vec_free(&steps.begin);
		lk_recorded_free(&run);
	}
	lk_intern_free(texts);
	return LK_OK;
}

int lk_record_steps_so_far(const char *folder, int rank, double *step_s) {
	struct so_far most = {.rank = rank};
	lk_error ignored;
	visit(folder, most_steps, &most, &ignored);
	*step_s = most.step_s;
	return most.steps;
}

/* ---- what a process did ---- */

static void add_device(lk_record_process *p, const lk_record_entry *r, double seconds) {
	if (r->kind == LK_RECORD_DEVICE_WORK) p->work_s += seconds;
	if (r->kind == LK_RECORD_PROXY) {
		p->network_wait_s += 1e-9 * (double)r->proxy.network_ns;
		p->device_wait_s += 1e-9 * (double)r->proxy.device_ns;
		p->peer_wait_s += 1e-9 * (double)r->proxy.peer_ns;
	}
	if (r->kind != LK_RECORD_DEVICE_CALL) return;
	p->device_calls += r->device.count;
	bool waits = r->device.what >= LK_DEVICE_WAIT_STREAM && r->device.what <= LK_DEVICE_WAIT_ALL;
	if (waits) p->device_s += seconds;
}

/* A call that waited for several requests left a record for each. */
static bool is_same_wait(const lk_record_entry *a, const lk_record_entry *b) {
	return a && a->kind == LK_RECORD_COMM && b->kind == LK_RECORD_COMM && a->comm.part == LK_PART_DONE &&
	       b->comm.part == LK_PART_DONE && a->thread == b->thread && a->start_ns == b->start_ns && a->end_ns == b->end_ns;
}

static void add_call(lk_record_process *p, const lk_record_entry *before, const lk_record_entry *r, bool pipe) {
	double seconds = is_same_wait(before, r) ? 0 : 1e-9 * (double)(r->end_ns - r->start_ns);
	if (r->kind == LK_RECORD_COMM) {
		p->comms += r->comm.part != LK_PART_DONE;
		p->comm_bytes += r->comm.part == LK_PART_MAKE ? 0 : (double)r->bytes;
		p->comm_s += seconds;
	} else if (r->kind == LK_RECORD_READ) {
		p->reads += r->io.count;
		p->read_bytes += (double)r->bytes;
		p->read_s += 1e-9 * (double)r->io.busy_ns;
	} else if (r->kind == LK_RECORD_SENT || r->kind == LK_RECORD_RECEIVED) {
		p->socket_bytes += pipe ? 0 : (double)r->bytes;
	} else if (r->kind == LK_RECORD_WRITE) {
		p->writes += r->io.count;
		p->write_bytes += (double)r->bytes;
	}
	add_device(p, r, seconds);
	if (1e-9 * (double)r->end_ns > p->wall_s) p->wall_s = 1e-9 * (double)r->end_ns;
}

/* ---- files ---- */

static lk_status file_of(struct record_work *w, const lk_recorded_run *run, const lk_record_entry *r, lk_record_file **out,
                         lk_error *err) {
	const lk_recorded_name *name = lk_recorded_find(&run->files, 0, r->object);
	const char *path = name ? lk_intern_text(run->texts, name->name) : "";
	uint32_t number = *path ? lk_intern_id(w->paths, path) : 0;
	*out = NULL;
	if (number == UINT32_MAX) return lk_oom(err);
	if (number == 0) return LK_OK; /* its name was dropped */
	if (number > w->files.count) {
		if (!lk_push(&w->files)) return lk_oom(err);
		lk_last(&w->files)->path = lk_arena_strdup(&w->arena, path);
		if (!lk_last(&w->files)->path) return lk_oom(err);
	}
	*out = &w->files.at[number - 1];
	return LK_OK;
}

static lk_status add_files(struct record_work *w, const lk_recorded_run *run, lk_error *err) {
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *r = &run->calls.at[i].record;
		lk_record_file *file = NULL;
		if (r->kind != LK_RECORD_READ && r->kind != LK_RECORD_WRITE) continue;
		LK_TRY(file_of(w, run, r, &file, err));
		if (!file) continue;
		double seconds = 1e-9 * (double)r->io.busy_ns;
		if (r->kind == LK_RECORD_WRITE) {
			file->writes += r->io.count, file->write_bytes += (double)r->bytes, file->write_s += seconds;
			continue;
		}
		file->reads += r->io.count, file->sequential += r->io.sequential;
		file->read_bytes += (double)r->bytes, file->read_s += seconds;
		file->most = fmax(file->most, (double)r->io.most);
	}
	return LK_OK;
}

static int by_time(const void *a, const void *b) {
	const lk_record_file *x = a, *y = b;
	double s = x->read_s + x->write_s, t = y->read_s + y->write_s;
	return s != t ? (s > t ? -1 : 1) : strcmp(x->path, y->path);
}

static lk_status describe(struct record_work *w, const char *path, const lk_recorded_run *run, const lk_recorded_steps *steps,
                          lk_error *err) {
	const lk_recording_head *head = &run->head;
	char program[4 * sizeof head->program];
	if (!lk_push(&w->processes)) return lk_oom(err);
	lk_record_process *p = lk_last(&w->processes);
	*p = (lk_record_process){.path = lk_arena_strdup(&w->arena, path), .rank = head->rank, .world = head->world,
	                         .program = lk_arena_strdup(&w->arena, lk_escape(head->program, program, sizeof program)),
	                         .forked = head->root != 0, .whole = head->end_ns > 0, .dropped = run->dropped,
	                         .mode = (int)head->mode, .delay_us = (int)head->delay_us, .left_out = head->left_out,
	                         .cost_s = 1e-9 * head->cost_ns, .files = (int)run->files.count, .steps = count_steps(steps)};
	for (size_t i = 0; i < run->calls.count; i++)
		add_call(p, i ? &run->calls.at[i - 1].record : NULL, &run->calls.at[i].record,
		         lk_recorded_by_pipe(run, &run->calls.at[i]));
	if (head->end_ns > 0 && 1e-9 * (double)head->end_ns > p->wall_s) p->wall_s = 1e-9 * (double)head->end_ns;
	return p->path && p->program ? step_time(steps, &p->step_s, err) : lk_oom(err);
}

static lk_status add_process(void *context, const char *path, lk_error *err) {
	struct record_work *w = context;
	lk_recorded_run run;
	lk_recorded_steps steps;
	struct stat info;
	lk_intern *texts = lk_intern_new();
	if (!texts) return lk_oom(err);
	lk_status status = LK_OK;
	if (stat(path, &info) == 0) w->result.bytes += (double)info.st_size;
	if (load(path, texts, &run, &steps)) {
		status = describe(w, path, &run, &steps, err);
		if (status == LK_OK) status = add_files(w, &run, err);
		lk_vec_free(&steps.begin);
		lk_recorded_free(&run);
	}
	lk_intern_free(texts);
	return status;
}

static int by_rank(const void *a, const void *b) {
	const lk_record_process *x = a, *y = b;
	if (x->forked != y->forked) return x->forked ? 1 : -1;
	return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : strcmp(x->path, y->path);
}

/* ---- why not more ---- */

/* Whether what was to be left out went over sockets. */
static bool null_by_sockets(const struct record_work *w) {
	bool sockets = false, left_out = false;
	for (size_t i = 0; i < w->processes.count; i++)
		sockets |= w->processes.at[i].socket_bytes > 0, left_out |= w->processes.at[i].left_out > 0;
	return sockets && !left_out;
}

static const char *reason_of(struct record_work *w, const lk_record_request *r) {
	char room[LK_PROGRAM_NAME];
	if (r->mode == LK_RECORD_MODE_NULL && null_by_sockets(w))
		return "null is refused for what communicates by sockets (gloo): where one collective ends and the next begins is not "
		       "to be seen there, so that ranks could not leave out the same ones; nothing was left out";
	uint64_t dropped = 0, comms = 0;
	int steps = 0;
	for (size_t i = 0; i < w->processes.count; i++) {
		const lk_record_process *p = &w->processes.at[i];
		dropped += p->dropped, comms += p->comms, steps += p->steps;
	}
	if (!w->processes.count && lk_probe_programs(r, room))
		return "nothing was recorded: no program of the name that is recorded started, and none called MPI_Init (a static "
		       "program cannot be recorded; --program names others)";
	if (!w->processes.count)
		return "nothing was recorded: no program called MPI_Init; --program NAME records one without MPI";
	if (dropped)
		return lk_arena_printf(&w->arena, "%llu calls found no room; a larger --max-mb keeps them",
		                       (unsigned long long)dropped);
	if (!steps && r->step_marker) return "no steps: nothing that --step-marker names was seen";
	if (!steps && comms) return "no steps: the calls of communication do not repeat; --step-marker says what begins one";
	if (!steps)
		return "no steps: neither communication nor files repeat; --step-marker, such as read:NAME, says what begins one";
	return "";
}

/* ---- the question ---- */

static lk_status work(struct record_work *w, const lk_record_request *r, lk_error *err) {
	lk_run_end end = {0};
	const char *out = r->out ? r->out : "recording";
	LK_TRY(make_folder(w, out, err));
	lk_status status = lk_record_scratch_open(r, w->folder, &w->scratch, err);
	if (status == LK_OK) status = lk_record_runs(r, w->folder, w->scratch.path, &w->arena, &end, err);
	if (status == LK_OK) status = lk_record_scratch_sum(&w->scratch, &w->arena, err);
	lk_record_scratch_remove(&w->scratch);
	if (status != LK_OK) return rmdir(w->folder), status;
	LK_TRY(visit(w->folder, add_process, w, err));
	if (w->processes.count) qsort(w->processes.at, w->processes.count, sizeof *w->processes.at, by_rank);
	if (w->files.count) qsort(w->files.at, w->files.count, sizeof *w->files.at, by_time);
	lk_record_answer *x = &w->result;
	x->out = lk_arena_strdup(&w->arena, out);
	x->status = end.end == LK_RECORD_STEPS_DONE ? 0 : end.end == LK_RECORD_TIME_OVER ? 124 : end.status;
	x->end = end.end, x->wall_s = end.wall_s;
	x->processes = w->processes.at, x->count = (int)w->processes.count;
	x->files = w->files.at, x->file_count = (int)w->files.count;
	x->guarded = *w->scratch.path;
	x->scratch = x->guarded && !w->scratch.private ? w->scratch.path : NULL;
	x->changes = w->scratch.changes.at, x->change_count = (int)w->scratch.changes.count;
	x->unguarded = w->scratch.unguarded.at, x->unguarded_count = (int)w->scratch.unguarded.count;
	x->posed = r->mode == LK_RECORD_MODE_AS_RANK;
	x->store_requests = end.served.requests, x->store_made_up = end.served.made_up;
	x->store_wrong = lk_arena_strdup(&w->arena, end.served.wrong);
	x->reason = reason_of(w, r);
	return x->out && x->reason && x->store_wrong ? LK_OK : lk_oom(err);
}

lk_status lk_record(const lk_record_request *request, lk_record_answer **out, lk_error *err) {
	if (request->words < 1 || !request->command[0][0]) {
		lk_fail(err, LK_ERR_INPUT, "record", "no command is given");
		return lk_hint(err, "it stands behind --, as in lockstep record -- mpirun -n 2 ./train");
	}
	lk_record_request posed = *request;
	LK_TRY(lk_record_pose(&posed, err));
	struct record_work *w = calloc(1, sizeof *w);
	if (!w) return lk_oom(err);
	w->result.memory_owner = w;
	w->paths = lk_intern_new();
	lk_status status = w->paths ? work(w, &posed, err) : lk_oom(err);
	if (status != LK_OK) lk_record_free(&w->result);
	else *out = &w->result;
	return status;
}

void lk_record_free(lk_record_answer *answer) {
	if (!answer) return;
	struct record_work *w = answer->memory_owner;
	lk_vec_free(&w->processes);
	lk_vec_free(&w->files);
	lk_record_scratch_free(&w->scratch);
	lk_intern_free(w->paths);
	lk_arena_free(&w->arena);
	free(w);
}
