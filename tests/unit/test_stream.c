/* test_stream.c: plain, gzip and zstd input read in pieces of any size; cut and damaged input is
 * never silently short; output appears complete or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>
#include "base/stats.h"
#include "io/stream.h"
#include "scratch.h"

static uint64_t draw(uint64_t *seed, uint64_t below) {
	return lk_hash64((*seed)++) % below;
}

/* ---- packing ---- */

typedef enum form { PLAIN, GZIP, ZSTD } form;

/* Packs `size` bytes as one gzip member or zstd frame behind `out`; returns the bytes written. */
static size_t pack(form how, const unsigned char *data, size_t size, unsigned char *out,
                   size_t room) {
	if (how == PLAIN) {
		memcpy(out, data, size);
		return size;
	}
	if (how == ZSTD) {
		size_t written = ZSTD_compress(out, room, data, size, 1);
		assert_false(ZSTD_isError(written));
		return written;
	}
	z_stream z = {0};
	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (unsigned char *)data;
	z.avail_in = (uInt)size;
	z.next_out = out;
	z.avail_out = (uInt)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	size_t written = room - z.avail_out;
	deflateEnd(&z);
	return written;
}

/* Some text, some noise, so that the packed form has blocks of both kinds. It never begins like a
 * packed file. */
static void fill(unsigned char *data, size_t size, uint64_t *seed) {
	for (size_t i = 0; i < size; i++)
		data[i] = i / 1000 % 2 ? (unsigned char)draw(seed, 256) : (unsigned char)("step "[i % 5]);
}

static lk_status read_all(lk_stream *stream, unsigned char *out, size_t room, size_t *size,
                          uint64_t *seed, lk_error *err) {
	*size = 0;
	for (;;) {
		size_t wish = 1 + (size_t)draw(seed, draw(seed, 2) ? 10 : 60000), got;
		if (wish > room - *size) wish = room - *size;
		lk_status status = lk_stream_read(stream, out + *size, wish, &got, err);
		*size += got;
		if (status != LK_OK || got == 0) return status;
		/* fewer bytes than asked for: only at the end */
		unsigned char byte;
		if (got < wish)
			return lk_stream_read(stream, &byte, 1, &got, err) == LK_OK && got ? LK_ERR_INTERNAL
			                                                                   : LK_OK;
	}
}

enum { SIZE = 400000 };
static unsigned char data[SIZE], packed[2 * SIZE], back[SIZE + 100];

/* ---- reading ---- */

static void all_forms_read_back(void **state) {
	(void)state;
	uint64_t seed = 4;
	char folder[64], path[96];
	snprintf(path, sizeof path, "%s/file", new_folder(folder));
	fill(data, SIZE, &seed);
	for (int i = 0; i < 120; i++) {
		form how = (form)(i % 3);
		bool from_file = draw(&seed, 2);
		size_t size = (size_t)draw(&seed, draw(&seed, 2) ? SIZE : 20), used = 0, length = 0, got;
		/* several members or frames, some empty */
		for (uint64_t members = how == PLAIN ? 1 : 1 + draw(&seed, 4); members > 0; members--) {
			size_t part = members == 1 ? size - used : (size_t)draw(&seed, size - used + 1);
			length += pack(how, data + used, part, packed + length, sizeof packed - length);
			used += part;
		}
		if (how == GZIP && draw(&seed, 2)) {
			memset(packed + length, 0, 600);
			length += 600;
		}
		lk_stream *stream;
		lk_error err;
		if (from_file) write_bytes(path, packed, length);
		assert_int_equal(from_file ? lk_stream_open(path, &stream, &err)
		                           : lk_stream_memory(packed, length, "m", &stream, &err),
		                 LK_OK);
		assert_string_equal(lk_stream_name(stream), from_file ? path : "m");
		assert_int_equal(read_all(stream, back, sizeof back, &got, &seed, &err), LK_OK);
		assert_int_equal(got, size);
		assert_memory_equal(back, data, size);
		lk_stream_close(stream);
	}
	unlink(path);
	rmdir(folder);
}

/* Wherever packed input is cut, an error is reported; what came before it is a beginning of the
 * data. */
static void cut_input_is_an_error(void **state) {
	(void)state;
	uint64_t seed = 5;
	fill(data, 3000, &seed);
	for (form how = GZIP; how <= ZSTD; how++) {
		size_t first = pack(how, data, 1800, packed, sizeof packed);
		size_t length = first + pack(how, data + 1800, 1200, packed + first, sizeof packed - first);
		/* Fewer than four bytes do not show what they are. */
		for (size_t cut = 4; cut < length; cut++) {
			lk_stream *stream;
			lk_error err;
			size_t got;
			assert_int_equal(lk_stream_memory(packed, cut, "m", &stream, &err), LK_OK);
			assert_int_equal(read_all(stream, back, sizeof back, &got, &seed, &err),
			                 cut == first ? LK_OK : LK_ERR_INPUT);
			assert_memory_equal(back, data, got);
			lk_stream_close(stream);
		}
	}
}

/* gzip holds a checksum: with one changed byte behind its header it is refused, or read as before
 * where the byte held bits that stand for nothing. */
static void damage_is_seen(void **state) {
	(void)state;
	uint64_t seed = 6;
	fill(data, 3000, &seed);
	int refused = 0;
	for (int i = 0; i < 3000; i++) {
		form how = i % 2 ? GZIP : ZSTD;
		size_t length = pack(how, data, 3000, packed, sizeof packed), got;
		size_t at = 10 + (size_t)draw(&seed, length - 10);
		packed[at] ^= (unsigned char)(1 + draw(&seed, 255));
		lk_stream *stream;
		lk_error err;
		assert_int_equal(lk_stream_memory(packed, length, "m", &stream, &err), LK_OK);
		lk_status status = read_all(stream, back, sizeof back, &got, &seed, &err);
		if (how == GZIP)
			assert_true(status == LK_ERR_INPUT || (got == 3000 && memcmp(back, data, got) == 0));
		refused += status == LK_ERR_INPUT;
		lk_stream_close(stream);
	}
	assert_true(refused > 1400);
}

static void what_follows_gzip_is_checked(void **state) {
	(void)state;
	static const char *const tails[] = {"garbage", "\x1f\x8b\x08", "\x1f"};
	uint64_t seed = 6;
	fill(data, 100, &seed);
	for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
		size_t length = pack(GZIP, data, 100, packed, sizeof packed), got;
		memcpy(packed + length, tails[i], strlen(tails[i]));
		lk_stream *stream;
		lk_error err;
		assert_int_equal(lk_stream_memory(packed, length + strlen(tails[i]), "m", &stream, &err),
		                 LK_OK);
		assert_int_equal(read_all(stream, back, sizeof back, &got, &seed, &err), LK_ERR_INPUT);
		lk_stream_close(stream);
	}
}

static void missing_and_unfit_files(void **state) {
	(void)state;
	lk_stream *stream;
	lk_error err;
	char *text;
	size_t size;
	assert_int_equal(lk_stream_open("/absent/file", &stream, &err), LK_ERR_IO);
	assert_string_equal(err.where, "/absent/file");
	assert_null(stream);
	assert_int_equal(lk_stream_slurp("/tmp", 100, &text, &size, &err), LK_ERR_IO);
	assert_int_equal(lk_stream_slurp("", 100, &text, &size, &err), LK_ERR_IO);
	assert_null(text);
	lk_stream_close(NULL);
}

static void slurp_has_a_limit(void **state) {
	(void)state;
	char folder[64], path[96], *text;
	size_t size;
	lk_error err;
	uint64_t seed = 8;
	snprintf(path, sizeof path, "%s/file", new_folder(folder));
	fill(data, SIZE, &seed);
	static const size_t sizes[] = {0, 1, 16383, 16384, 16385, SIZE};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		write_bytes(path, data, sizes[i]);
		assert_int_equal(lk_stream_slurp(path, sizes[i], &text, &size, &err), LK_OK);
		assert_int_equal(size, sizes[i]);
		assert_memory_equal(text, data, size);
		assert_int_equal(text[size], 0);
		free(text);
		if (!sizes[i]) continue;
		assert_int_equal(lk_stream_slurp(path, sizes[i] - 1, &text, &size, &err), LK_ERR_INPUT);
		assert_null(text);
	}
	unlink(path);
	rmdir(folder);
}

/* ---- writing ---- */

static void is_file(const char *path, const char *content) {
	char *text;
	size_t size;
	lk_error err;
	assert_int_equal(lk_stream_slurp(path, 1 << 24, &text, &size, &err), LK_OK);
	assert_int_equal(size, strlen(content));
	assert_memory_equal(text, content, size);
	free(text);
}

static void files_are_replaced_whole(void **state) {
	(void)state;
	char folder[64], path[96], link[96];
	struct stat info;
	lk_sink *sink;
	lk_error err;
	new_folder(folder);
	snprintf(path, sizeof path, "%s/out", folder);
	snprintf(link, sizeof link, "%s/link", folder);
	write_bytes(path, "old", 3);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(lk_sink_open(link, &sink, &err), LK_OK);
	assert_int_equal(lk_sink_write(sink, "new ", 4, &err), LK_OK);
	is_file(path, "old"); /* until it is complete */
	lk_sink_printf(sink, "%d%s", 7, "!");
	fprintf(lk_sink_file(sink), " file");
	lk_sink_printf(sink, " behind");
	assert_int_equal(lk_sink_commit(sink, &err), LK_OK);
	is_file(path, "new 7! file behind");
	assert_int_equal(lstat(link, &info), 0);
	assert_true(S_ISLNK(info.st_mode));
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0640);
	assert_int_equal(lk_sink_open(path, &sink, &err), LK_OK);
	lk_sink_printf(sink, "never seen");
	lk_sink_abandon(sink);
	lk_sink_abandon(NULL);
	is_file(path, "new 7! file behind");
	unlink(link);
	unlink(path);
	assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
}

/* Whoever is killed while writing leaves nothing beside what was there. */
static void killed_writers_leave_nothing(void **state) {
	(void)state;
	char folder[64], path[96];
	int probe = open(new_folder(folder), O_TMPFILE | O_WRONLY, 0600), how;
	if (probe < 0) { /* this file system has no files without names */
		rmdir(folder);
		skip();
	}
	close(probe);
	snprintf(path, sizeof path, "%s/out", folder);
	write_bytes(path, "old", 3);
	pid_t writer = fork();
	assert_true(writer >= 0);
	if (writer == 0) {
		lk_sink *sink;
		if (lk_sink_open(path, &sink, NULL) != LK_OK) _exit(1);
		for (int i = 0; i < 100000; i++) lk_sink_printf(sink, "line %d\n", i);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(writer, &how, 0), writer);
	assert_true(WIFSIGNALED(how));
	is_file(path, "old");
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
}

static void gz_is_packed(void **state) {
	(void)state;
	char folder[64], path[96];
	lk_sink *sink;
	lk_error err;
	struct stat info;
	snprintf(path, sizeof path, "%s/out.json.gz", new_folder(folder));
	assert_int_equal(lk_sink_open(path, &sink, &err), LK_OK);
	size_t size = 3000000;
	char *text = malloc(size + 1);
	assert_non_null(text);
	memset(text, 'x', size);
	text[size] = '\0';
	lk_sink_printf(sink, "%s", text);
	assert_int_equal(lk_sink_commit(sink, &err), LK_OK);
	is_file(path, text);
	assert_int_equal(stat(path, &info), 0);
	assert_true((size_t)info.st_size < size / 100);
	free(text);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
}

static void refusals_are_reported(void **state) {
	(void)state;
	lk_sink *sink;
	lk_error err;
	struct stat before, after;
	assert_int_equal(lk_sink_open("/absent/file", &sink, &err), LK_ERR_IO);
	assert_null(sink);
	assert_string_equal(err.where, "/absent/file");
	assert_int_equal(lk_sink_open("/tmp", &sink, &err), LK_ERR_IO);
	/* a device is written, not replaced */
	assert_int_equal(stat("/dev/null", &before), 0);
	assert_int_equal(lk_sink_open("/dev/null", &sink, &err), LK_OK);
	lk_sink_printf(sink, "x");
	assert_int_equal(lk_sink_commit(sink, &err), LK_OK);
	assert_int_equal(stat("/dev/null", &after), 0);
	assert_true(before.st_ino == after.st_ino && S_ISCHR(after.st_mode));
	if (access("/dev/full", W_OK) != 0) return;
	for (int how = 0; how < 3; how++) {
		assert_int_equal(lk_sink_open("/dev/full", &sink, &err), LK_OK);
		for (int i = 0; how == 0 && i < 100; i++) lk_sink_printf(sink, "%10000d", i);
		for (int i = 0; how == 1 && i < 100000; i++) fprintf(lk_sink_file(sink), "%d", i);
		if (how == 2) lk_sink_printf(sink, "held back until the end");
		assert_int_equal(lk_sink_commit(sink, &err), LK_ERR_IO);
		assert_non_null(strstr(err.what, strerror(ENOSPC)));
	}
}

/* What is looked at is what is read, however often, and of a cut file as much as is sound. */
static void looking_takes_nothing(void **state) {
	(void)state;
	uint64_t seed = 77;
	for (int i = 0; i < 60; i++) {
		form how = (form)(i % 3);
		size_t size = 1 + (size_t)draw(&seed, SIZE - 1), length, got, taken = 0;
		fill(data, size, &seed);
		length = pack(how, data, size, packed, sizeof packed);
		bool cut = how != PLAIN && draw(&seed, 2);
		lk_stream *stream;
		lk_error err = {0};
		assert_int_equal(lk_stream_memory(packed, cut ? length / 2 : length, "x", &stream, &err),
		                 LK_OK);
		assert_int_equal(lk_stream_plain(stream), how == PLAIN);
		lk_status status = LK_OK;
		while (status == LK_OK) {
			const char *ahead;
			assert_int_equal(
				lk_stream_peek(stream, 1 + (size_t)draw(&seed, 50000), &ahead, &got, &err), LK_OK);
			assert_true(taken + got <= size);
			assert_memory_equal(ahead, data + taken, got);
			status = lk_stream_read(stream, back, 1 + (size_t)draw(&seed, 60000), &got, &err);
			assert_memory_equal(back, data + taken, got);
			taken += got;
			if (status == LK_OK && !got) break;
		}
		assert_int_equal(status == LK_OK, !cut);
		if (!cut) assert_int_equal(taken, size);
		else assert_non_null(strstr(err.what, "ends early"));
		lk_stream_close(stream);
	}
}

/* Blanks without end: refused after 64 MiB, whatever packs them; as many bytes as a trace may
 * expand to are read. */
static void what_expands_without_end_is_refused(void **state) {
	(void)state;
	const size_t member = 16u << 20, room = 1u << 20;
	unsigned char *blanks = malloc(member), *bomb = malloc(8 * room), *piece = malloc(1u << 16);
	memset(blanks, ' ', member);
	for (form how = GZIP; how <= ZSTD; how++) {
		size_t one = pack(how, blanks, member, bomb, room), got = 1, all = 0;
		lk_stream *in;
		lk_error err = {0};
		lk_status status = LK_OK;
		for (int i = 1; i < 8; i++) memcpy(bomb + (size_t)i * one, bomb, one);
		assert_int_equal(lk_stream_memory(bomb, 8 * one, "bomb", &in, &err), LK_OK);
		while (status == LK_OK && got > 0) {
			status = lk_stream_read(in, piece, 1u << 16, &got, &err);
			all += got;
		}
		assert_int_equal(status, LK_ERR_INPUT);
		assert_non_null(strstr(err.what, "expands to over 256 times its size"));
		assert_true(all >= 64u << 20 && all < 66u << 20);
		lk_stream_close(in);
	}
	assert_int_equal(lk_stream_expands(1, 64u << 20, "x", NULL), LK_OK);
	assert_int_equal(lk_stream_expands(1u << 20, 256u << 20, "x", NULL), LK_OK);
	assert_int_equal(lk_stream_expands(1u << 20, (257u << 20), "x", NULL), LK_ERR_INPUT);
	free(blanks);
	free(bomb);
	free(piece);
}

static void other_packers_are_named(void **state) {
	(void)state;
	static const struct {
		const char *name, *bytes, *by;
		size_t size;
	} files[] = {{".json",
	              "\xfd"
	              "7zXZ\0\0\4",
	              "xz", 8},
	             {".json", "BZh91AY&SY\x1b", "bzip2", 11},
	             {".json", "\x04\x22\x4d\x18\x64", "lz4", 5},
	             {".json.br", "\x0b\x02\x80{", "brotli", 4},
	             {".json", "7z\xbc\xaf\x27\x1c\0\4", "7-Zip", 8}};
	char said[64], path[64];
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		lk_stream *in;
		lk_error err = {0};
		FILE *file = fopen(new_file(path, files[i].name), "w");
		assert_non_null(file);
		fwrite(files[i].bytes, 1, files[i].size, file);
		fclose(file);
		assert_int_equal(lk_stream_open(path, &in, &err), LK_ERR_INPUT);
		remove(path);
		snprintf(said, sizeof said, "is packed by %s,", files[i].by);
		assert_non_null(strstr(err.what, said));
		assert_null(in);
	}
	lk_stream *in;
	lk_error err = {0};
	assert_int_equal(lk_stream_memory("7z\xbc\xaf\x27\x1c", 6, "part", &in, &err), LK_OK);
	lk_stream_close(in);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_expands_without_end_is_refused),
		cmocka_unit_test(other_packers_are_named),
		cmocka_unit_test(all_forms_read_back),
		cmocka_unit_test(looking_takes_nothing),
		cmocka_unit_test(cut_input_is_an_error),
		cmocka_unit_test(damage_is_seen),
		cmocka_unit_test(what_follows_gzip_is_checked),
		cmocka_unit_test(missing_and_unfit_files),
		cmocka_unit_test(slurp_has_a_limit),
		cmocka_unit_test(files_are_replaced_whole),
		cmocka_unit_test(killed_writers_leave_nothing),
		cmocka_unit_test(gz_is_packed),
		cmocka_unit_test(refusals_are_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
