/* measured_read.c: a file, a folder or standard input as what a run measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/stream.h"
#include "measured/measured_internal.h"
#include "system/listing.h"

enum { DEPTH = 6, PATH_BYTES = 4096 };
static const size_t MOST_BYTES = (size_t)1 << 30;
/* Of a file in a folder; larger JSON is a trace. */
static const size_t MOST_OF_FOLDER = (size_t)1 << 28, MOST_OF_JSON = (size_t)1 << 24;

static lk_status read_file(lk_hits *hits, const char *path, size_t most, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	LK_TRY(lk_stream_slurp(path, most, &text, &size, err));
	lk_status status = lk_hits_text(hits, text, size, path, err);
	free(text);
	return status;
}

/* Files of a folder that may state what was measured: by their endings, and those of MLflow's
 * metrics, which have none. */
static bool may_state(const char *folder, const char *name) {
	static const char *const endings[] = {".log",  ".txt", ".out", ".err",   ".jsonl", ".csv",
	                                      ".json", ".gz",  ".zst", "stdout", "stderr"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(name, endings[i])) return true;
	return strstr(name, "tfevents") || lk_ends_in(folder, "metrics") || strstr(folder, "metrics/");
}

static lk_status read_folder(lk_hits *hits, const char *folder, int depth, lk_error *err) {
	lk_listing listing;
	LK_TRY(lk_listing_read(folder, NULL, &listing, err));
	lk_status status = LK_OK;
	for (size_t i = 0; i < listing.count && status == LK_OK; i++) {
		char path[PATH_BYTES];
		struct stat about;
		int length = snprintf(path, sizeof path, "%s/%s", folder, listing.names[i]);
		if (length < 0 || length >= PATH_BYTES || *listing.names[i] == '.') continue;
		if (stat(path, &about) != 0) continue;
		if (S_ISDIR(about.st_mode) && depth < DEPTH)
			status = read_folder(hits, path, depth + 1, err);
		if (!S_ISREG(about.st_mode) || !may_state(folder, listing.names[i])) continue;
		bool json =
			lk_ends_in(path, ".json") || lk_ends_in(path, ".gz") || lk_ends_in(path, ".zst");
		lk_status read = read_file(hits, path, json ? MOST_OF_JSON : MOST_OF_FOLDER, NULL);
		if (read == LK_ERR_MEMORY) status = lk_oom(err); /* others: a file of something else */
	}
	lk_listing_free(&listing);
	return status;
}

lk_status lk_measured_read(const char *path, lk_measured *out, lk_error *err) {
	struct stat about;
	lk_hits hits;
	memset(out, 0, sizeof *out);
	lk_hits_open(&hits);
	bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
	lk_status status =
		folder ? read_folder(&hits, path, 0, err) : read_file(&hits, path, MOST_BYTES, err);
	if (status == LK_OK) status = lk_hits_result(&hits, path, out, err);
	lk_hits_close(&hits);
	if (status == LK_OK && folder && out->step_s <= 0 && out->memory_bytes <= 0) {
		lk_measured_free(out);
		lk_fail(err, LK_ERR_INPUT, path, "no file in this folder states steps or memory of a run");
		return lk_hint(err, "name the file");
	}
	return status;
}

lk_status lk_measured_text(const char *text, size_t size, const char *name, lk_measured *out,
                           lk_error *err) {
	lk_hits hits;
	memset(out, 0, sizeof *out);
	lk_hits_open(&hits);
	lk_status status = lk_hits_text(&hits, text, size, name, err);
	if (status == LK_OK) status = lk_hits_result(&hits, name, out, err);
	lk_hits_close(&hits);
	return status;
}
