/* mortem_file.c: loads a file of a known form, and what all forms share. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "pickle/pickle.h"
#include "io/stream.h"
#include "postmortem/postmortem.h"

static const size_t LARGEST = (size_t)1 << 32; /* bytes of a pickle or JSON */

lk_status lk_mortem_warn(lk_mortem *work, lk_error *err, const char *format, ...) {
	char line[600];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (!lk_push(&work->warnings)) return lk_oom(err);
	*lk_last(&work->warnings) = lk_arena_strdup(&work->arena, line);
	return *lk_last(&work->warnings) ? LK_OK : lk_oom(err);
}

lk_status lk_mortem_lacks(const char *path, const char *what, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, path, "it has no %s", what);
	return lk_hint(err, "give a memory snapshot of PyTorch, flight-recorder dumps of its ranks, a "
	                    "log with a message of memory that ran out, or NCCL's RAS output");
}

int lk_mortem_rank_of(const char *path, bool any) {
	const char *name = lk_file_name(path), *found = NULL;
	for (const char *at = name; *at; at++) {
		bool after = at - name >= 4 && strncasecmp(at - 4, "rank", 4) == 0;
		if (!after) continue;
		while (*at == '_' || *at == '-' || *at == '=') at++;
		if (lk_is_digit(*at)) found = at;
		if (!*at) break;
	}
	for (const char *at = name; !found && any && *at; at++)
		if (lk_is_digit(*at) && !strpbrk(at, "_-")) {
			found = at;
			break;
		}
	if (!found) return -1;
	long rank = strtol(found, NULL, 10);
	return rank >= 0 && rank < 1 << 20 ? (int)rank : -1;
}

lk_status lk_mortem_load(lk_arena *arena, lk_mortem_file *file, lk_error *err) {
	bool text = file->form != LK_MORTEM_SNAPSHOT && file->form != LK_MORTEM_FLIGHT;
	char *bytes;
	lk_value *root = NULL;
	lk_stream *in;
	LK_TRY(lk_stream_slurp(file->path, text ? LK_MORTEM_LOG_BYTES : LARGEST, &bytes, &file->size,
	                       err));
	lk_status status = LK_OK;
	if (text) {
		file->text = lk_arena_strndup(arena, bytes, file->size);
		if (!file->text) status = lk_oom(err);
	} else if (lk_pickle_is(bytes, file->size)) {
		status = lk_pickle_document(arena, bytes, file->size, file->path, &root, err);
	} else {
		status = lk_stream_memory(bytes, file->size, file->path, &in, err);
		if (status == LK_OK) {
			status = lk_json_document(arena, in, &root, err);
			lk_stream_close(in);
		}
	}
	file->root = root;
	free(bytes);
	return status;
}
