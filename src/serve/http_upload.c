/* http_upload.c: a form with traces, written to the folder of the question as it comes. libmicrohttpd takes it
 * apart. */
#include "serve/http.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = 128, FILES = 4096, OPTIONS_SIZE = 64 << 10, FORM_BUFFER = 64 << 10 };

struct lk_upload {
	lk_exchange *x;
	struct MHD_PostProcessor *form;
	char folder[LK_FOLDER_SIZE];
	bool owns;              /* the folder; later the question does */
	char **names;
	int count, room;
	int file;               /* that is being written; -1 none */
	double bytes;
	unsigned status;        /* of what went wrong first; 0 nothing */
	lk_error err;
};

static void fail(lk_upload *u, unsigned status, const char *where, const char *what, const char *hint) {
	if (u->status) return;
	u->status = status;
	lk_fail(&u->err, status == 400 ? LK_ERR_INPUT : LK_ERR_IO, where, "%s", what);
	lk_hint(&u->err, "%s", hint);
}

static bool remember(lk_upload *u, const char *name) {
	if (u->count == u->room) {
		int room = 2 * u->room + 8;
		char **names = realloc(u->names, (size_t)room * sizeof *names);
		if (!names) return false;
		u->names = names, u->room = room;
	}
	u->names[u->count] = strdup(name);
	return u->names[u->count] && ++u->count;
}

/* A file of this name, or, where there is one, of the next that is free. */
static int create(const lk_upload *u, const char *sent, char name[NAME_SIZE + 16]) {
	char plain[NAME_SIZE], path[LK_FOLDER_SIZE + NAME_SIZE + 32];
	lk_folder_name(sent, plain, sizeof plain);
	for (int i = 0; i <= FILES; i++) {
		if (i == 0) snprintf(name, NAME_SIZE + 16, "%s", plain);
		else snprintf(name, NAME_SIZE + 16, "%d-%s", i, plain);
		snprintf(path, sizeof path, "%s/%s", u->folder, name);
		int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (file >= 0 || errno != EEXIST) return file;
	}
	return -1;
}

static void begin_file(lk_upload *u, const char *sent) {
	char name[NAME_SIZE + 16];
	if (u->file >= 0) close(u->file);
	u->file = -1;
	if (u->count >= FILES) fail(u, 400, "body", "too many files", "send fewer, or use lockstep explain");
	if (u->status) return;
	u->file = create(u, sent, name);
	if (u->file < 0 || !remember(u, name))
		fail(u, 503, "upload", "the file cannot be kept", "look at the disk of the server");
}

static void write_file(lk_upload *u, const char *data, size_t size) {
	u->bytes += (double)size;
	if (u->bytes > u->x->server->request->upload_mib * 1048576)
		fail(u, 413, "body", "the traces are too large", "send fewer, or start lockstep serve with a larger --upload");
	while (size > 0 && !u->status) {
		ssize_t n = write(u->file, data, size);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) fail(u, 503, "upload", "the disk of the server is full or refuses", "look at TMPDIR of the server");
		else data += n, size -= (size_t)n;
	}
}

static void take_options(lk_upload *u, const char *data, size_t size) {
	lk_exchange *x = u->x;
	if (x->size + size > OPTIONS_SIZE) fail(u, 400, "options", "more than 64 KiB", "leave out what is not needed");
	if (u->status || size == 0) return;
	char *body = realloc(x->body, x->size + size + 1);
	if (!body) {
		fail(u, 503, "upload", "out of memory", "ask again later");
		return;
	}
	memcpy(body + x->size, data, size);
	x->body = body, x->size += size;
	body[x->size] = '\0';
}

static enum MHD_Result take_part(void *upload, enum MHD_ValueKind kind, const char *key, const char *filename,
								 const char *type, const char *encoding, const char *data, uint64_t offset,
								 size_t size) {
	lk_upload *u = upload;
	(void)kind, (void)type, (void)encoding;
	if (filename) {
		if (offset == 0) begin_file(u, filename);
		if (!u->status) write_file(u, data, size);
	} else if (key && strcmp(key, "options") == 0) {
		take_options(u, data, size);
	} else {
		fail(u, 400, "form", "holds a field that is neither a file nor \"options\"", "give options as one JSON object");
	}
	/* What is wrong is told when all has come; going on here costs nothing. */
	return MHD_YES;
}

static int explanations(const lk_server *s) {
	int count = s->uploads;
	for (const lk_ask *ask = s->asks.first; ask; ask = ask->next) count += ask->question.kind == LK_ASK_EXPLAIN;
	return count;
}

lk_upload *lk_upload_new(lk_exchange *x) {
	lk_server *s = x->server;
	lk_upload *u = calloc(1, sizeof *u);
	if (!u) return NULL;
	*u = (lk_upload){.x = x, .file = -1};
	if (explanations(s) >= LK_UPLOADS) fail(u, 503, "server", "other traces are being read", "ask again later");
	s->uploads++;
	if (!u->status && lk_folder_below(s->folder, ++s->folders, u->folder, &u->err) != LK_OK) u->status = 503;
	u->owns = !u->status;
	u->form = MHD_create_post_processor(x->connection, FORM_BUFFER, take_part, u);
	if (!u->form) fail(u, 400, "body", "is no form", "send multipart/form-data with a boundary");
	return u;
}

void lk_upload_take(lk_upload *u, const char *data, size_t size) {
	if (u->form && !u->status && MHD_post_process(u->form, data, size) != MHD_YES)
		fail(u, 400, "body", "the form is broken", "send multipart/form-data");
}

static int by_name(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

lk_ask *lk_upload_ask(lk_upload *u, lk_exchange *x) {
	if (u->form && MHD_destroy_post_processor(u->form) != MHD_YES && !u->status)
		fail(u, 400, "body", "the form ends too early", "send it again");
	u->form = NULL;
	if (!u->status && u->count == 0) fail(u, 400, "explain", "no trace was sent", "send files of torch.profiler");
	if (u->status) {
		lk_respond_error(x, u->status, &u->err);
		return NULL;
	}
	qsort(u->names, (size_t)u->count, sizeof *u->names, by_name);
	u->owns = false;
	return lk_exchange_ask(x, LK_ASK_EXPLAIN, u->folder, (const char *const *)u->names, u->count);
}

void lk_upload_free(lk_upload *u) {
	if (!u) return;
	if (u->form) MHD_destroy_post_processor(u->form);
	if (u->file >= 0) close(u->file);
	if (u->owns) lk_folder_remove(u->folder);
	for (int i = 0; i < u->count; i++) free(u->names[i]);
	free(u->names);
	u->x->server->uploads--;
	free(u);
}
