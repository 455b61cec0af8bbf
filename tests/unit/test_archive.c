/* test_archive.c: members of tar and zip come out as they went in; cut and damaged archives are
 * errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "io/archive.h"
#include "io/stream.h"

struct bytes {
	unsigned char at[1 << 16];
	size_t count;
};

static void put(struct bytes *bytes, const void *at, size_t size) {
	assert_true(bytes->count + size <= sizeof bytes->at);
	memcpy(bytes->at + bytes->count, at, size);
	bytes->count += size;
}

/* The lowest byte first. */
static void put_number(struct bytes *bytes, uint32_t value, int size) {
	for (int i = 0; i < size; i++, value >>= 8)
		put(bytes, &(unsigned char){(unsigned char)value}, 1);
}

static void put_tar(struct bytes *tar, const char *name, char type, const char *text) {
	char header[512] = {0}, zeros[512] = {0};
	size_t size = strlen(text);
	unsigned sum = 0;
	snprintf(header, 100, "%s", name);
	snprintf(header + 124, 12, "%011o", (unsigned)size & 0xffff);
	header[156] = type;
	memcpy(header + 257, "ustar\00000", 8);
	memset(header + 148, ' ', 8);
	for (int i = 0; i < 512; i++) sum += (unsigned char)header[i];
	snprintf(header + 148, 8, "%06o", sum & 0777777);
	put(tar, header, sizeof header);
	put(tar, text, size);
	put(tar, zeros, (512 - size % 512) % 512);
}

struct zip_entry {
	const char *name, *text;
	uint32_t local, packed, sum;
	int method;
};

static void put_zip_member(struct bytes *zip, struct zip_entry *entry, bool deflated) {
	unsigned char packed[4096];
	uLong size = strlen(entry->text);
	z_stream z = {0};
	entry->local = (uint32_t)zip->count;
	entry->method = deflated ? 8 : 0;
	entry->sum = (uint32_t)crc32(0, (const Bytef *)entry->text, (uInt)size);
	z.next_in = (Bytef *)(uintptr_t)entry->text;
	z.avail_in = (uInt)size;
	z.next_out = packed;
	z.avail_out = sizeof packed;
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	entry->packed = (uint32_t)(deflated ? z.total_out : size);
	put(zip, "PK\3\4\24\0\0\0", 8);
	put_number(zip, (uint32_t)entry->method, 2);
	put_number(zip, 0, 4);
	put_number(zip, entry->sum, 4);
	put_number(zip, entry->packed, 4);
	put_number(zip, (uint32_t)size, 4);
	put_number(zip, (uint32_t)strlen(entry->name), 2);
	put_number(zip, 0, 2);
	put(zip, entry->name, strlen(entry->name));
	if (deflated) put(zip, packed, entry->packed);
	else put(zip, entry->text, size);
}

static void put_zip_directory(struct bytes *zip, const struct zip_entry *entries, int count) {
	uint32_t begin = (uint32_t)zip->count;
	for (int i = 0; i < count; i++) {
		put(zip, "PK\1\2\24\0\24\0\0\0", 10);
		put_number(zip, (uint32_t)entries[i].method, 2);
		put_number(zip, 0, 4);
		put_number(zip, entries[i].sum, 4);
		put_number(zip, entries[i].packed, 4);
		put_number(zip, (uint32_t)strlen(entries[i].text), 4);
		put_number(zip, (uint32_t)strlen(entries[i].name), 2);
		put_number(zip, 0, 12);
		put_number(zip, entries[i].local, 4);
		put(zip, entries[i].name, strlen(entries[i].name));
	}
	put(zip, "PK\5\6\0\0\0\0", 8);
	put_number(zip, (uint32_t)count, 2);
	put_number(zip, (uint32_t)count, 2);
	put_number(zip, (uint32_t)zip->count - 12 - begin, 4);
	put_number(zip, begin, 4);
	put_number(zip, 0, 2);
}

static void write_file(const char *path, const void *bytes, size_t size) {
	lk_sink *sink;
	assert_int_equal(lk_sink_open(path, &sink, NULL), LK_OK);
	assert_int_equal(lk_sink_write(sink, bytes, size, NULL), LK_OK);
	assert_int_equal(lk_sink_commit(sink, NULL), LK_OK);
}

static lk_status collect(void *context, const char *name, lk_error *err) {
	char *all = context;
	(void)err;
	if (strlen(all) + strlen(name) + 2 < 8192) strcat(strcat(all, name), "\n");
	return LK_OK;
}

static void assert_member(const char *archive, const char *member, const char *text) {
	char path[512], got[4096];
	size_t size;
	lk_stream *in;
	lk_error err = {0};
	snprintf(path, sizeof path, "%s!%s", archive, member);
	if (lk_archive_open(path, &in, &err) != LK_OK) fail_msg("%s: %s", path, err.what);
	assert_int_equal(lk_stream_read(in, got, sizeof got - 1, &size, &err), LK_OK);
	got[size] = '\0';
	assert_string_equal(got, text);
	lk_stream_close(in);
}

static char folder[64];

static int make_folder(void **state) {
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/test_archive.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
	static const char *const names[] = {"a.tar", "a.tar.gz", "a.zip", "cut", "a!b"};
	char path[128];
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

static void make_tar(struct bytes *tar) {
	char name[301] = {0}, zeros[1024] = {0};
	memset(name, 'n', 300);
	put_tar(tar, "run/", '5', "");
	put_tar(tar, "run/rank0.json", '0', "zero");
	put_tar(tar, "././@LongLink", 'L', name);
	put_tar(tar, "cut", '0', "long");
	put_tar(tar, "pax", 'x', "30 mtime=1350244992.023960108\n20 path=by pax.json\n");
	put_tar(tar, "other", '0', "pax");
	put_tar(tar, "empty", '0', "");
	put(tar, zeros, sizeof zeros);
}

static void tars(void **state) {
	(void)state;
	struct bytes tar = {.count = 0};
	char path[2][128], long_name[301] = {0};
	memset(long_name, 'n', 300);
	make_tar(&tar);
	snprintf(path[0], sizeof path[0], "%s/a.tar", folder);
	snprintf(path[1], sizeof path[1], "%s/a.tar.gz", folder);
	for (int i = 0; i < 2; i++) {
		char names[8192] = "", wanted[1024];
		write_file(path[i], tar.at, tar.count);
		assert_true(lk_archive_is(path[i]));
		assert_int_equal(lk_archive_list(path[i], collect, names, NULL), LK_OK);
		snprintf(wanted, sizeof wanted, "run/rank0.json\n%s\nby pax.json\nempty\n", long_name);
		assert_string_equal(names, wanted);
		assert_member(path[i], "run/rank0.json", "zero");
		assert_member(path[i], long_name, "long");
		assert_member(path[i], "by pax.json", "pax");
		assert_member(path[i], "empty", "");
	}
}

static void make_zip(struct bytes *zip) {
	struct zip_entry entries[] = {{.name = "run/", .text = ""},
	                              {.name = "run/rank0.json", .text = "zero zero zero zero zero"},
	                              {.name = "rank1.json", .text = "one"}};
	for (int i = 0; i < 3; i++) put_zip_member(zip, &entries[i], i == 1);
	put_zip_directory(zip, entries, 3);
}

static void zips(void **state) {
	(void)state;
	struct bytes zip = {.count = 0};
	char path[128], names[8192] = "";
	make_zip(&zip);
	snprintf(path, sizeof path, "%s/a.zip", folder);
	write_file(path, zip.at, zip.count);
	assert_true(lk_archive_is(path));
	assert_int_equal(lk_archive_list(path, collect, names, NULL), LK_OK);
	assert_string_equal(names, "run/rank0.json\nrank1.json\n");
	assert_member(path, "run/rank0.json", "zero zero zero zero zero");
	assert_member(path, "rank1.json", "one");
}

static void damaged(void **state) {
	(void)state;
	char path[128], member[160], names[8192];
	snprintf(path, sizeof path, "%s/cut", folder);
	snprintf(member, sizeof member, "%s!run/rank0.json", path);
	for (int kind = 0; kind < 2; kind++) {
		struct bytes whole = {.count = 0};
		(kind ? make_zip : make_tar)(&whole);
		for (size_t size = 0; size < whole.count; size += kind ? 1 : 97) {
			lk_error err = {0};
			lk_stream *in = NULL;
			names[0] = '\0';
			write_file(path, whole.at, size);
			lk_status status = lk_archive_list(path, collect, names, &err);
			assert_true(status == LK_OK || err.what[0]);
			if (lk_archive_open(member, &in, &err) == LK_OK) lk_stream_close(in);
		}
	}
}

/* A '!' in the name of a file that is there is no member's. */
static void marks(void **state) {
	(void)state;
	char path[128];
	snprintf(path, sizeof path, "%s/a!b", folder);
	assert_non_null(lk_archive_mark(path));
	write_file(path, "x", 1);
	assert_null(lk_archive_mark(path));
	assert_false(lk_archive_is(path));
	assert_null(lk_archive_mark("plain.json"));
	assert_null(lk_archive_mark("!"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tars),
		cmocka_unit_test(zips),
		cmocka_unit_test(damaged),
		cmocka_unit_test(marks),
	};
	return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
