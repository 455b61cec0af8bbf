/* mounts.c: the file systems of files, recorded with their mounts, because the recording may be
 * read on another machine. A file's mount is the kernel's number for it, from statx, or, before
 * Linux 5.8, from /proc/self/fdinfo; /proc/self/mountinfo names it. */
#include "recorder/files/files.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif

enum {
	MOUNTS = 64,    /* of a recording; further ones stay unknown */
	LONGEST = 1024, /* longest folder of a mount; longer ones are cut */
	LONGEST_TYPE = 32,
	PIECE = 4096
};

/* A slot's `number` is stored last; slots are numbered from 1. */
static lp_age age;
static struct known_mount {
	uint64_t id;
	uint32_t taken, number;
} known[MOUNTS];

/* ---- files of /proc ---- */

typedef struct proc_file {
	int fd;
	char bytes[PIECE];
	long at, count;
} proc_file;

static void proc_open(proc_file *file, const char *path) {
	file->fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	file->at = file->count = 0;
}

static void proc_close(proc_file *file) {
	if (file->fd >= 0) syscall(SYS_close, file->fd);
}

/* The next byte; -1 at the end. */
static int proc_byte(proc_file *file) {
	if (file->at == file->count) {
		file->count = file->fd < 0 ? 0 : syscall(SYS_read, file->fd, file->bytes, PIECE);
		file->at = 0;
		if (file->count <= 0) return file->count = 0, -1;
	}
	return (unsigned char)file->bytes[file->at++];
}

/* Read the next word of the line, cut at `room`; returns the byte that ends it. */
static int proc_word(proc_file *file, char *word, size_t room) {
	size_t length = 0;
	int byte;
	while ((byte = proc_byte(file)) > ' ')
		if (length + 1 < room) word[length++] = (char)byte;
	word[length] = '\0';
	return byte;
}

static bool proc_skip_line(proc_file *file, int last) {
	while (last >= 0 && last != '\n') last = proc_byte(file);
	return last == '\n';
}

/* ---- which mount ---- */

static uint64_t mount_id_of_descriptor(int fd) {
	uint64_t id = 0;
#if defined(SYS_statx) && defined(STATX_BASIC_STATS)
	struct statx info;
	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) == 0 &&
	    (info.stx_mask & STATX_MNT_ID))
		memcpy(&id, (char *)&info + 0x90, sizeof id); /* stx_mnt_id, which is missing in old
		                                                 headers */
	if (id) return id;
#endif
	char path[40], word[LONGEST_TYPE], digits[LP_DIGITS];
	lp_join(path, sizeof path, "/proc/self/fdinfo/", lp_digits((uint64_t)fd, digits), LP_END);
	LP_TAKE(proc_file, file, 0);
	proc_open(file, path);
	for (int last = '\n'; last == '\n' && !id;) {
		last = proc_word(file, word, sizeof word);
		bool found = strcmp(word, "mnt_id:") == 0;
		if (found) last = proc_word(file, word, sizeof word);
		if (found) id = strtoull(word, NULL, 10);
		last = proc_skip_line(file, last) ? '\n' : -1;
	}
	proc_close(file);
	return id;
}

/* Decode blanks and line ends, which are octal: "\040". */
static void decode_mount_folder(char *text) {
	char *to = text;
	for (const char *at = text; *at; to++) {
		bool octal = at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' &&
		             at[2] <= '7' && at[3] >= '0' && at[3] <= '7';
		*to = octal ? (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0')) : *at;
		at += octal ? 4 : 1;
	}
	*to = '\0';
}

typedef struct mount_text {
	proc_file file;
	char folder[LONGEST], text[LONGEST + LONGEST_TYPE + 4];
} mount_text;

/* "ID PARENT DEVICE ROOT FOLDER OPTIONS [TAG...] - TYPE ...": writes "FOLDER (TYPE)". */
static bool describe_mount(uint64_t id, mount_text *out) {
	char word[LONGEST_TYPE] = "";
	proc_file *file = &out->file;
	bool found = false;
	int last;
	proc_open(file, "/proc/self/mountinfo");
	do {
		last = proc_word(file, word, sizeof word);
		found = *word && strtoull(word, NULL, 10) == id;
		for (int field = 1; found && field <= 3; field++) last = proc_word(file, word, sizeof word);
		if (found) last = proc_word(file, out->folder, sizeof out->folder);
		while (found && last == ' ' && strcmp(word, "-") != 0)
			last = proc_word(file, word, sizeof word);
		if (found) proc_word(file, word, sizeof word);
	} while (!found && proc_skip_line(file, last));
	proc_close(file);
	if (!found) return false;
	decode_mount_folder(out->folder);
	lp_join(out->text, sizeof out->text, out->folder, " (", word, ")", LP_END);
	return true;
}

static uint32_t record_mount(uint64_t id, uint32_t number) {
	LP_TAKE(mount_text, mount, 0);
	lk_record_entry record = {.object = number};
	if (!describe_mount(id, mount)) return 0;
	record.start_ns = record.end_ns = lp_now();
	lp_text(&record, LK_RECORD_MOUNT, mount->text);
	return number;
}

uint32_t lp_mount_of(int fd) {
	if (lp_is_stale(&age)) {
		memset(known, 0, sizeof known);
		lp_renewed(&age);
	}
	uint64_t id = mount_id_of_descriptor(fd);
	for (uint32_t at = 0; id && at < MOUNTS; at++) {
		struct known_mount *slot = &known[at];
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&slot->taken, &free, 1, false, __ATOMIC_ACQ_REL,
		                                __ATOMIC_RELAXED)) {
			slot->id = id;
			uint32_t number = record_mount(id, at + 1);
			__atomic_store_n(&slot->number, number, __ATOMIC_RELEASE);
			return number;
		}
		/* if another thread is describing this mount now, it counts as another mount and is
		 * recorded twice */
		uint32_t number = __atomic_load_n(&slot->number, __ATOMIC_ACQUIRE);
		if (number && slot->id == id) return number;
	}
	return 0;
}
