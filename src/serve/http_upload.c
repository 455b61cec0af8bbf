/* http_upload.c: writes the files of a form (traces, step graphs, recordings) to the folder of the
 * question as they arrive. libmicrohttpd parses the form. */
#include "serve/http.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/sort.h"
#include "base/vec.h"

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
	lk_arena arena; /* of the names */
	char folder[LK_FOLDER_SIZE];
	bool owns; /* owns the folder, until the question does */
	LK_VEC(const char *) names;
	int file; /* being written; -1: none */
	double bytes;
	unsigned status; /* of the first error; 0: none */
	lk_error err;
};

static void fail_upload(lk_upload *upload, unsigned status, const char *where, const char *what,
                        const char *hint) {
	if (upload->status) return;
	upload->status = status;
	lk_fail(&upload->err, status == 400 ? LK_ERR_INPUT : LK_ERR_IO, where, "%s", what);
	lk_hint(&upload->err, "%s", hint);
}

/* Creates a file of this name, or of the next free one if it exists. */
static int create_upload_file(const lk_upload *upload, const char *sent,
                              char name[NAME_SIZE + 16]) {
	char plain[NAME_SIZE], path[LK_FOLDER_SIZE + NAME_SIZE + 32];
	lk_folder_name(sent, plain, sizeof plain);
	for (int i = 0; i <= FILES; i++) {
		if (i == 0) snprintf(name, NAME_SIZE + 16, "%s", plain);
		else snprintf(name, NAME_SIZE + 16, "%d-%s", i, plain);
		snprintf(path, sizeof path, "%s/%s", upload->folder, name);
		int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (file >= 0 || errno != EEXIST) return file;
	}
	return -1;
}

static void begin_upload_file(lk_upload *upload, const char *sent) {
	char name[NAME_SIZE + 16];
	if (upload->file >= 0) close(upload->file);
	upload->file = -1;
	if (upload->names.count >= FILES)
		fail_upload(upload, 400, "body", "too many files", "send fewer, or use the command");
	if (upload->status) return;
	upload->file = create_upload_file(upload, sent, name);
	if (upload->file < 0 || !lk_push(&upload->names) ||
	    !(*lk_last(&upload->names) = lk_arena_strdup(&upload->arena, name)))
		fail_upload(upload, 503, "upload", "the file cannot be kept",
		            "look at the disk of the server");
}

static void write_upload_file(lk_upload *upload, const char *data, size_t size) {
	upload->bytes += (double)size;
	if (upload->bytes > upload->x->server->request->upload_mib * 1048576)
		fail_upload(upload, 413, "body", "the files are too large",
		            "send fewer, or start lockstep serve with a larger --upload");
	while (size > 0 && !upload->status) {
		ssize_t n = write(upload->file, data, size);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0)
			fail_upload(upload, 503, "upload", "the disk of the server is full or not writable",
			            "look at TMPDIR of the server");
		else {
			data += n;
			size -= (size_t)n;
		}
	}
}

static void take_form_options(lk_upload *upload, const char *data, size_t size) {
	lk_exchange *exchange = upload->x;
	if (exchange->size + size > OPTIONS_SIZE)
		fail_upload(upload, 400, "options", "more than 64 KiB", "leave out what is not needed");
	if (upload->status || size == 0) return;
	char *body = realloc(exchange->body, exchange->size + size + 1);
	if (!body) {
		fail_upload(upload, 503, "upload", "out of memory", "ask again later");
		return;
	}
	memcpy(body + exchange->size, data, size);
	exchange->body = body;
	exchange->size += size;
	body[exchange->size] = '\0';
}

static enum MHD_Result take_form_part(void *upload, enum MHD_ValueKind kind, const char *key,
                                      const char *filename, const char *type, const char *encoding,
                                      const char *data, uint64_t offset, size_t size) {
	lk_upload *own = upload;
	(void)kind, (void)type, (void)encoding;
	if (filename) {
		if (offset == 0) begin_upload_file(own, filename);
		if (!own->status) write_upload_file(own, data, size);
	} else if (key && strcmp(key, "options") == 0) {
		take_form_options(own, data, size);
	} else {
		fail_upload(own, 400, "form", "holds a field that is neither a file nor \"options\"",
		            "give options as one JSON object");
	}
	/* Errors are reported once the whole form has come. */
	return MHD_YES;
}

static int count_uploads(const lk_server *server) {
	int count = server->uploads;
	for (const lk_ask *ask = server->asks.first; ask; ask = ask->next)
		count += ask->question.trace_count > 0;
	return count;
}

lk_upload *lk_upload_new(lk_exchange *exchange) {
	lk_server *server = exchange->server;
	lk_upload *upload = calloc(1, sizeof *upload);
	if (!upload) return NULL;
	*upload = (lk_upload){.x = exchange, .file = -1};
	if (count_uploads(server) >= LK_UPLOADS)
		fail_upload(upload, 503, "server", "other files are being read", "ask again later");
	server->uploads++;
	if (!upload->status &&
	    lk_folder_below(server->folder, ++server->folders, upload->folder, &upload->err) != LK_OK)
		upload->status = 503;
	upload->owns = !upload->status;
	upload->form =
		lk_mhd.create_post_processor(exchange->connection, FORM_BUFFER, take_form_part, upload);
	if (!upload->form)
		fail_upload(upload, 400, "body", "is not a form",
		            "send multipart/form-data with a boundary");
	return upload;
}

void lk_upload_take(lk_upload *upload, const char *data, size_t size) {
	if (upload->form && !upload->status && lk_mhd.post_process(upload->form, data, size) != MHD_YES)
		fail_upload(upload, 400, "body", "the form is malformed", "send multipart/form-data");
}

static const char *wanted_files(lk_question_kind kind) {
	if (kind == LK_ASK_WHATIF) return "send traces, or the graph that predict --graph writes";
	return "send files of torch.profiler";
}

lk_ask *lk_upload_ask(lk_upload *upload, lk_exchange *exchange) {
	if (upload->form && lk_mhd.destroy_post_processor(upload->form) != MHD_YES && !upload->status)
		fail_upload(upload, 400, "body", "the form ends too early", "send it again");
	upload->form = NULL;
	bool needs_files =
		exchange->route->kind != LK_ASK_STALLS; /* networks on machines: questions.c */
	if (!upload->status && needs_files && upload->names.count == 0)
		fail_upload(upload, 400, lk_question_name(exchange->route->kind), "no file was sent",
		            wanted_files(exchange->route->kind));
	if (upload->status) {
		lk_respond_error(exchange, upload->status, &upload->err);
		return NULL;
	}
	/* The order of two distinguishes the runs of a comparison. */
	if (upload->names.count > 2)
		lk_sort(upload->names.at, upload->names.count, sizeof *upload->names.at, lk_by_text);
	upload->owns = false;
	return lk_exchange_ask(exchange, upload->folder, upload->names.at, (int)upload->names.count);
}

void lk_upload_free(lk_upload *upload) {
	LK_ASSERT(!upload || upload->x->server->uploads > 0);
	if (!upload) return;
	if (upload->form) lk_mhd.destroy_post_processor(upload->form);
	if (upload->file >= 0) close(upload->file);
	if (upload->owns) lk_folder_remove(upload->folder);
	lk_vec_free(&upload->names);
	lk_arena_free(&upload->arena);
	upload->x->server->uploads--;
	free(upload);
}
