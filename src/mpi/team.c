/* team.c: tasks divided over the processes of an MPI job, in turn: process r does tasks r, r + K, r + 2K ... Results travel as
 * bytes, so all processes run the same program on machines alike. What the lists of tasks are does not depend on K, so a
 * job may be resumed with another number of processes.
 *
 * The file of finished parts is a head and one record for each list of tasks that is done: number of results, size of one,
 * bytes. It is written whole beside the old one and renamed. */
#include "mpi/team.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parallel.h"

static const char magic[8] = "LKPARTS1";

struct head {
	char magic[8];
	uint64_t asked, size;
};

struct record {
	uint64_t count, size;
};

/* ---- the file ---- */

static lk_status damaged(const char *path, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, path, "no file of finished parts, or not a whole one");
	return lk_hint(err, "remove it, or name another");
}

static lk_status read_parts(mpi_team *t, lk_error *err) {
	struct head h;
	FILE *file = fopen(t->path, "rb");
	if (!file && errno == ENOENT) return LK_OK;
	if (!file) return lk_fail(err, LK_ERR_IO, t->path, "cannot read: %s", strerror(errno));
	struct stat found;
	bool whole = fstat(fileno(file), &found) == 0 && fread(&h, sizeof h, 1, file) == 1 &&
				 memcmp(h.magic, magic, sizeof magic) == 0 && h.size == (uint64_t)found.st_size - sizeof h;
	bool other = whole && h.asked != t->asked;
	if (whole && !other) {
		t->parts = malloc(h.size + 1);
		whole = t->parts && fread(t->parts, 1, h.size, file) == h.size && fgetc(file) == EOF;
		t->parts_size = t->room = t->read_size = h.size;
	}
	fclose(file);
	if (other) {
		lk_fail(err, LK_ERR_INPUT, t->path, "the finished parts are those of another command or version");
		return lk_hint(err, "name another file, or repeat the command as it was");
	}
	return whole ? LK_OK : damaged(t->path, err);
}

static lk_status write_parts(const mpi_team *t, lk_error *err) {
	char beside[4096];
	struct head h = {.asked = t->asked, .size = t->parts_size};
	memcpy(h.magic, magic, sizeof magic);
	if (snprintf(beside, sizeof beside, "%s.new", t->path) >= (int)sizeof beside)
		return lk_fail(err, LK_ERR_INPUT, t->path, "the name is too long");
	FILE *file = fopen(beside, "wb");
	bool ok = file && fwrite(&h, sizeof h, 1, file) == 1 && fwrite(t->parts, 1, t->parts_size, file) == t->parts_size;
	ok = ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
	int code = errno;
	if (file && fclose(file) != 0) ok = false;
	if (ok && rename(beside, t->path) == 0) return LK_OK;
	if (file) unlink(beside);
	return lk_fail(err, LK_ERR_IO, t->path, "cannot write: %s", strerror(code));
}

static lk_status keep_part(mpi_team *t, const struct record *r, const void *results, lk_error *err) {
	size_t bytes = (size_t)(r->count * r->size), need = t->parts_size + sizeof *r + bytes;
	if (need > t->room) {
		char *grown = realloc(t->parts, need * 2);
		if (!grown) return lk_oom(err);
		t->parts = grown, t->room = need * 2;
	}
	memcpy(t->parts + t->parts_size, r, sizeof *r);
	memcpy(t->parts + t->parts_size + sizeof *r, results, bytes);
	t->parts_size = t->read_at = t->read_size = need;
	return t->rank == 0 ? write_parts(t, err) : LK_OK;
}

/* The next list of tasks as the file has it; false where it ends. */
static bool take_part(mpi_team *t, const struct record *asked, void *results) {
	struct record r;
	size_t bytes = (size_t)(asked->count * asked->size);
	if (t->read_size - t->read_at < sizeof r + bytes) return false;
	memcpy(&r, t->parts + t->read_at, sizeof r);
	if (r.count != asked->count || r.size != asked->size) return false;
	memcpy(results, t->parts + t->read_at + sizeof r, bytes);
	t->read_at += sizeof r + bytes;
	return true;
}

/* ---- tasks ---- */

struct share {
	const mpi_team *t;
	lk_plan_task *task;
	void *context;
	char *results; /* own ones, one after another */
	size_t size;
};

static lk_status run_own(void *context, size_t i, lk_error *err) {
	const struct share *s = context;
	return s->task(s->context, (size_t)s->t->rank + i * (size_t)s->t->size, s->results + i * s->size, err);
}

/* The same error on all processes: that of the first process that has one. */
static lk_status agree(const mpi_team *t, lk_status own, lk_error *err) {
	int mine = own == LK_OK ? t->size : t->rank, first;
	MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (first == t->size) return LK_OK;
	MPI_Bcast(err, sizeof *err, MPI_BYTE, first, MPI_COMM_WORLD);
	return err->status;
}

static size_t own_count(size_t count, int rank, int size) {
	return count / (size_t)size + ((size_t)rank < count % (size_t)size);
}

/* Own results of all processes, to their places. */
static lk_status gather(const mpi_team *t, size_t count, size_t size, const char *own, char *results, lk_error *err) {
	int *bytes = malloc((size_t)t->size * 2 * sizeof *bytes), *begin = bytes + t->size;
	char *all = malloc(count * size + 1);
	lk_status status = bytes && all ? LK_OK : lk_oom(err);
	status = agree(t, status, err);
	for (int r = 0, at = 0; status == LK_OK && r < t->size; at += bytes[r++])
		begin[r] = at, bytes[r] = (int)(own_count(count, r, t->size) * size);
	if (status == LK_OK) MPI_Allgatherv(own, bytes[t->rank], MPI_BYTE, all, bytes, begin, MPI_BYTE, MPI_COMM_WORLD);
	for (size_t i = 0; status == LK_OK && i < count; i++)
		memcpy(results + i * size, all + begin[i % (size_t)t->size] + i / (size_t)t->size * size, size);
	free(bytes);
	free(all);
	return status;
}

static lk_status run_list(mpi_team *t, size_t count, size_t size, lk_plan_task *task, void *context, void *results,
						  lk_error *err) {
	size_t own = own_count(count, t->rank, t->size);
	struct share s = {t, task, context, malloc(own * size + 1), size};
	lk_status status = s.results ? lk_parallel(own, t->team.threads, run_own, &s, err) : lk_oom(err);
	status = agree(t, status, err);
	if (status == LK_OK) status = gather(t, count, size, s.results, results, err);
	free(s.results);
	return status;
}

static lk_status run(void *self, size_t count, size_t size, lk_plan_task *task, void *context, void *results,
					 lk_error *err) {
	mpi_team *t = self;
	struct record r = {count, size};
	lk_error own = {0};
	if (t->path && take_part(t, &r, results)) return LK_OK;
	LK_TRY(run_list(t, count, size, task, context, results, err));
	lk_status status = t->path ? keep_part(t, &r, results, &own) : LK_OK;
	status = agree(t, status, &own);
	if (status != LK_OK && err) *err = own;
	return status;
}

/* ---- life ---- */

static int local_size(void) {
	MPI_Comm node;
	int size = 1;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &size);
	MPI_Comm_free(&node);
	return size;
}

lk_status mpi_team_open(mpi_team *t, const char *path, uint64_t asked, lk_error *err) {
	memset(t, 0, sizeof *t);
	MPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &t->size);
	int threads = lk_cores() / local_size();
	t->team = (lk_plan_team){.run = run, .self = t, .threads = threads > 0 ? threads : 1};
	t->path = path, t->asked = asked;
	if (!path) return LK_OK;
	lk_status status = t->rank == 0 ? read_parts(t, err) : LK_OK;
	LK_TRY(agree(t, status, err));
	uint64_t size = t->read_size;
	MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	if (t->rank != 0) t->parts = malloc(size + 1);
	LK_TRY(agree(t, t->parts || size == 0 ? LK_OK : lk_oom(err), err));
	t->parts_size = t->room = t->read_size = size;
	for (uint64_t at = 0; at < size; at += 1 << 30) {
		uint64_t left = size - at;
		MPI_Bcast(t->parts + at, left < 1 << 30 ? (int)left : 1 << 30, MPI_BYTE, 0, MPI_COMM_WORLD);
	}
	return LK_OK;
}

void mpi_team_close(mpi_team *t) {
	free(t->parts);
}
