/* team.c: tasks divided over the processes of an MPI job, in turn: process r does tasks r, r + K, r
 * + 2K ... Results travel as bytes, so all processes must run the same program on similar machines.
 * The lists of tasks do not depend on K, so a job may be resumed with another number of processes.
 *
 * The file of finished parts is a head and one record for each finished list of tasks: number of
 * results, size of one, bytes. It is written whole under another name and renamed; the head has the
 * sum of what follows. */
#include "mpi/team.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/sum.h"
#include "system/parallel.h"

static const char magic[8] = "LKPARTS2";

struct head {
	char magic[8];
	uint64_t asked, size, sum;
};

struct record {
	uint64_t count, size;
};

/* ---- the file ---- */

static lk_status fail_damaged_parts(const char *path, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, path, "is not a complete file of finished parts");
	return lk_hint(err, "remove it, or name another file");
}

static lk_status read_parts_file(mpi_team *team, lk_error *err) {
	struct head h;
	FILE *file = fopen(team->path, "rb");
	if (!file && errno == ENOENT) return LK_OK;
	if (!file) return lk_fail(err, LK_ERR_IO, team->path, "cannot read: %s", strerror(errno));
	struct stat found;
	bool whole = fstat(fileno(file), &found) == 0 && fread(&h, sizeof h, 1, file) == 1 &&
	             memcmp(h.magic, magic, sizeof magic) == 0 &&
	             h.size == (uint64_t)found.st_size - sizeof h;
	bool other = whole && h.asked != team->asked;
	if (whole && !other) {
		team->parts = malloc(h.size + 1);
		whole = team->parts && fread(team->parts, 1, h.size, file) == h.size && fgetc(file) == EOF;
		whole = whole && lk_sum_bytes(LK_SUM_EMPTY, team->parts, h.size) == h.sum;
		team->parts_size = team->room = team->read_size = h.size;
	}
	fclose(file);
	if (other) {
		lk_fail(err, LK_ERR_INPUT, team->path,
		        "the finished parts are those of another command or version");
		return lk_hint(err, "name another file, or repeat the original command");
	}
	return whole ? LK_OK : fail_damaged_parts(team->path, err);
}

static lk_status write_parts_file(const mpi_team *team, lk_error *err) {
	char new_path[4096];
	struct head h = {.asked = team->asked,
	                 .size = team->parts_size,
	                 .sum = lk_sum_bytes(LK_SUM_EMPTY, team->parts, team->parts_size)};
	memcpy(h.magic, magic, sizeof magic);
	if (snprintf(new_path, sizeof new_path, "%s.new", team->path) >= (int)sizeof new_path)
		return lk_fail(err, LK_ERR_INPUT, team->path, "the name is too long");
	FILE *file = fopen(new_path, "wb");
	bool ok = file && fwrite(&h, sizeof h, 1, file) == 1 &&
	          fwrite(team->parts, 1, team->parts_size, file) == team->parts_size;
	ok = ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
	int code = errno;
	if (file && fclose(file) != 0) ok = false;
	if (ok && rename(new_path, team->path) == 0) return LK_OK;
	if (file) unlink(new_path);
	return lk_fail(err, LK_ERR_IO, team->path, "cannot write: %s", strerror(code));
}

static lk_status append_part(mpi_team *team, const struct record *record, const void *results,
                             lk_error *err) {
	LK_ASSERT(team->parts_size <= team->room);
	size_t bytes = (size_t)(record->count * record->size),
		   need = team->parts_size + sizeof *record + bytes;
	if (need > team->room) {
		char *grown = realloc(team->parts, need * 2);
		if (!grown) return lk_oom(err);
		team->parts = grown;
		team->room = need * 2;
	}
	memcpy(team->parts + team->parts_size, record, sizeof *record);
	memcpy(team->parts + team->parts_size + sizeof *record, results, bytes);
	team->parts_size = team->read_at = team->read_size = need;
	return team->rank == 0 ? write_parts_file(team, err) : LK_OK;
}

/* Take the next list of tasks from the file; false at its end. */
static bool take_finished_part(mpi_team *team, const struct record *asked, void *results) {
	LK_ASSERT(team->read_at <= team->read_size && team->read_size <= team->parts_size);
	struct record r;
	size_t bytes = (size_t)(asked->count * asked->size);
	if (team->read_size - team->read_at < sizeof r + bytes) return false;
	memcpy(&r, team->parts + team->read_at, sizeof r);
	if (r.count != asked->count || r.size != asked->size) return false;
	memcpy(results, team->parts + team->read_at + sizeof r, bytes);
	team->read_at += sizeof r + bytes;
	return true;
}

/* ---- tasks ---- */

struct share {
	const mpi_team *t;
	lk_plan_task *task;
	void *context;
	char *results; /* own results, in sequence */
	size_t size;
};

static lk_status run_own_task(void *context, size_t i, lk_error *err) {
	const struct share *share = context;
	return share->task(share->context, (size_t)share->t->rank + i * (size_t)share->t->size,
	                   share->results + i * share->size, err);
}

/* Agree on the same error in all processes: that of the first process with one. */
static lk_status agree_on_status(const mpi_team *team, lk_status own, lk_error *err) {
	int mine = own == LK_OK ? team->size : team->rank, first;
	MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (first == team->size) return LK_OK;
	MPI_Bcast(err, sizeof *err, MPI_BYTE, first, MPI_COMM_WORLD);
	return err->status;
}

static size_t count_own_tasks(size_t count, int rank, int size) {
	LK_ASSERT(rank >= 0 && rank < size);
	return count / (size_t)size + ((size_t)rank < count % (size_t)size);
}

/* Gather the results of all processes, in their places. */
static lk_status gather_task_results(const mpi_team *team, size_t count, size_t size,
                                     const char *own, char *results, lk_error *err) {
	int *bytes = malloc((size_t)team->size * 2 * sizeof *bytes), *begin = bytes + team->size;
	char *all = malloc(count * size + 1);
	lk_status status = bytes && all ? LK_OK : lk_oom(err);
	status = agree_on_status(team, status, err);
	for (int r = 0, at = 0; status == LK_OK && r < team->size; at += bytes[r++]) {
		begin[r] = at;
		bytes[r] = (int)(count_own_tasks(count, r, team->size) * size);
	}
	if (status == LK_OK)
		MPI_Allgatherv(own, bytes[team->rank], MPI_BYTE, all, bytes, begin, MPI_BYTE,
		               MPI_COMM_WORLD);
	for (size_t i = 0; status == LK_OK && i < count; i++)
		memcpy(results + i * size,
		       all + begin[i % (size_t)team->size] + i / (size_t)team->size * size, size);
	free(bytes);
	free(all);
	return status;
}

static lk_status run_task_list(mpi_team *team, size_t count, size_t size, lk_plan_task *task,
                               void *context, void *results, lk_error *err) {
	size_t own = count_own_tasks(count, team->rank, team->size);
	struct share s = {team, task, context, malloc(own * size + 1), size};
	lk_status status =
		s.results ? lk_parallel(own, team->team.threads, run_own_task, &s, err) : lk_oom(err);
	status = agree_on_status(team, status, err);
	if (status == LK_OK) status = gather_task_results(team, count, size, s.results, results, err);
	free(s.results);
	return status;
}

static lk_status run_team_tasks(void *self, size_t count, size_t size, lk_plan_task *task,
                                void *context, void *results, lk_error *err) {
	mpi_team *team = self;
	struct record r = {count, size};
	lk_error own = {0};
	if (team->path && take_finished_part(team, &r, results)) return LK_OK;
	LK_TRY(run_task_list(team, count, size, task, context, results, err));
	lk_status status = team->path ? append_part(team, &r, results, &own) : LK_OK;
	status = agree_on_status(team, status, &own);
	if (status != LK_OK && err) *err = own;
	return status;
}

/* ---- begin and end ---- */

static int count_local_processes(void) {
	MPI_Comm node;
	int size = 1;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &size);
	MPI_Comm_free(&node);
	return size;
}

lk_status mpi_team_open(mpi_team *team, const char *path, uint64_t asked, lk_error *err) {
	memset(team, 0, sizeof *team);
	MPI_Comm_rank(MPI_COMM_WORLD, &team->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &team->size);
	int threads = lk_cores() / count_local_processes();
	team->team =
		(lk_plan_team){.run = run_team_tasks, .self = team, .threads = threads > 0 ? threads : 1};
	team->path = path;
	team->asked = asked;
	if (!path) return LK_OK;
	lk_status status = team->rank == 0 ? read_parts_file(team, err) : LK_OK;
	LK_TRY(agree_on_status(team, status, err));
	uint64_t size = team->read_size;
	MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	if (team->rank != 0) team->parts = malloc(size + 1);
	LK_TRY(agree_on_status(team, team->parts || size == 0 ? LK_OK : lk_oom(err), err));
	team->parts_size = team->room = team->read_size = size;
	for (uint64_t at = 0; at < size; at += 1 << 30) {
		uint64_t left = size - at;
		MPI_Bcast(team->parts + at, left < 1 << 30 ? (int)left : 1 << 30, MPI_BYTE, 0,
		          MPI_COMM_WORLD);
	}
	return LK_OK;
}

void mpi_team_close(mpi_team *team) {
	free(team->parts);
}
