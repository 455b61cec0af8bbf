/* stalls_darshan.c: reads the output of `darshan-parser`: lines of module, rank, record, counter,
 * value, file, mount point and file system, separated by tabs; -1 means no value. Files of the
 * modules POSIX and STDIO are read (darshan-runtime's counters). */
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/stream.h"
#include "stalls/stalls.h"

enum { MODULE, RANK, RECORD, COUNTER, VALUE, PATH, FIELDS, LINE = 16384 };

static const char head[] = "# darshan log version";

lk_status lk_stalls_is_darshan(const char *path, bool *is, lk_error *err) {
	char first[sizeof head] = "";
	struct stat info;
	lk_stream *in;
	size_t got = 0;
	*is = false;
	if (stat(path, &info) != 0 || S_ISDIR(info.st_mode)) return LK_OK;
	lk_status status = lk_stream_open(path, &in, err);
	if (status == LK_OK) {
		status = lk_stream_read(in, first, sizeof head - 1, &got, err);
		lk_stream_close(in);
	}
	*is = status == LK_OK && got == sizeof head - 1 && memcmp(first, head, got) == 0;
	return status == LK_ERR_INPUT ? LK_OK : status; /* its reader reports its errors */
}

static void darshan_add_counter(lk_stalls_file *file, const char *counter, double value) {
	static const char *const classes[LK_STALLS_CLASSES] = {
		"0_100", "100_1K", "1K_10K",   "10K_100K", "100K_1M",
		"1M_4M", "4M_10M", "10M_100M", "100M_1G",  "1G_PLUS"};
	static const char size_read[] = "SIZE_READ_";
	if (strcmp(counter, "OPENS") == 0) file->opens += value;
	if (strcmp(counter, "READS") == 0) file->reads += value;
	if (strcmp(counter, "SEQ_READS") == 0) file->sequential += value;
	if (strcmp(counter, "BYTES_READ") == 0) file->read_bytes += value;
	if (strcmp(counter, "F_READ_TIME") == 0 || strcmp(counter, "F_META_TIME") == 0)
		file->read_s += value;
	if (strcmp(counter, "MAX_BYTE_READ") == 0 && value + 1 > file->size) file->size = value + 1;
	if (strncmp(counter, size_read, sizeof size_read - 1) != 0) return;
	for (int c = 0; c < LK_STALLS_CLASSES; c++)
		if (strcmp(counter + sizeof size_read - 1, classes[c]) == 0) file->sizes[c] += value;
}

/* "/data\tnfs4", after the path. */
static lk_status darshan_set_tier(lk_stalls_file *file, const char *text, lk_arena *arena,
                                  lk_error *err) {
	int mount = (int)strcspn(text, "\t");
	const char *type = text[mount] ? text + mount + 1 : "?";
	file->tier = lk_arena_printf(arena, "%.*s (%.*s)", mount, text, (int)strcspn(type, "\t"), type);
	return file->tier ? LK_OK : lk_oom(err);
}

/* Read one line, without its end; lines without a counter are skipped. */
static lk_status darshan_read_line(char *line, const char *where, lk_arena *arena,
                                   lk_stalls_profile *out, lk_error *err) {
	char *fields[FIELDS], *at = line;
	double value;
	lk_stalls_file *file;
	if (*line == '#' || !*line) return LK_OK;
	for (int f = 0; f < FIELDS; f++) {
		fields[f] = at;
		if (!at) return lk_fail(err, LK_ERR_INPUT, where, "is not a line of darshan-parser");
		if ((at = strchr(at, '\t'))) *at++ = '\0';
	}
	size_t length = strlen(fields[MODULE]);
	if (strcmp(fields[MODULE], "POSIX") != 0 && strcmp(fields[MODULE], "STDIO") != 0) return LK_OK;
	if (strncmp(fields[COUNTER], fields[MODULE], length) != 0 || fields[COUNTER][length] != '_')
		return LK_OK;
	LK_TRY(lk_parse_real(fields[VALUE], -1e18, 1e18, &value, where, err));
	if (*fields[PATH] != '/' || value < 0) return LK_OK; /* <STDIN>; unknown */
	LK_TRY(lk_stalls_file_of(out, fields[PATH], arena, &file, err));
	if (!file->tier && at) LK_TRY(darshan_set_tier(file, at, arena, err));
	darshan_add_counter(file, fields[COUNTER] + length + 1, value);
	return LK_OK;
}

lk_status lk_stalls_darshan_read(lk_stream *in, lk_arena *arena, lk_stalls_profile *out,
                                 lk_error *err) {
	char line[LINE], where[300], buffer[65536];
	size_t used = 0, got = 1;
	long number = 1;
	lk_status status = LK_OK;
	while (status == LK_OK && got) {
		status = lk_stream_read(in, buffer, sizeof buffer, &got, err);
		for (size_t i = 0; status == LK_OK && i < got + !got; i++) {
			bool end = !got || buffer[i] == '\n';
			if (end || used + 1 == sizeof line)
				snprintf(where, sizeof where, "%.250s:%ld", lk_stream_name(in), number);
			if (!end && used + 1 == sizeof line)
				status = lk_fail(err, LK_ERR_INPUT, where, "is longer than %d bytes", LINE - 1);
			else if (!end) line[used++] = buffer[i];
			if (!end) continue;
			line[used] = '\0';
			status = darshan_read_line(line, where, arena, out, err);
			used = 0;
			number++;
		}
	}
	return status;
}
