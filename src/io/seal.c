/* seal.c: where a seal is in a file, and whether it holds. */
#include "io/stream.h"

#include "base/sum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text_head[] = "# lockstep ", json_head[] = "\"lockstep_";
/* Around the 16 digits. */
static const struct {
	const char *before, *after;
} forms[] = {
	{"# lockstep seal ", "\n"},
	{",\n  \"lockstep_seal\": \"", "\"\n}\n"},
};
enum { DIGITS = 16 };

bool lk_seal_wanted(const char *bytes, size_t size) {
	if (size >= sizeof text_head - 1 && memcmp(bytes, text_head, sizeof text_head - 1) == 0)
		return true;
	size_t at = size && *bytes == '{' ? 1 : size;
	while (at < size && strchr(" \n\t", bytes[at])) at++;
	return size - at >= sizeof json_head - 1 &&
	       memcmp(bytes + at, json_head, sizeof json_head - 1) == 0;
}

size_t lk_seal_end(const char *last, size_t size, uint64_t sum, char out[LK_SEAL_ROOM]) {
	bool json = size == LK_SEAL_KEPT && memcmp(last, "\n}\n", LK_SEAL_KEPT) == 0;
	if (!json && (!size || last[size - 1] != '\n')) return 0;
	if (!json) sum = lk_sum_bytes(sum, last, size);
	return (size_t)snprintf(out, LK_SEAL_ROOM, "%.*s%s%016" PRIx64 "%s", json ? 0 : (int)size, last,
	                        forms[json].before, sum, forms[json].after);
}

/* Sum of the file's first `size` bytes. */
static bool sum_file(int fd, off_t size, uint64_t *sum) {
	char piece[1 << 15];
	*sum = LK_SUM_EMPTY;
	for (off_t at = 0; at < size;) {
		size_t wish = size - at < (off_t)sizeof piece ? (size_t)(size - at) : sizeof piece;
		ssize_t got = pread(fd, piece, wish, at);
		if (got <= 0) return false;
		*sum = lk_sum_bytes(*sum, piece, (size_t)got);
		at += got;
	}
	return true;
}

static int count_differing(const char *a, const char *b, size_t size) {
	int count = 0;
	for (size_t i = 0; i < size; i++) count += a[i] != b[i];
	return count;
}

/* The digits of a seal that ends the text; NULL: it has none. *at: where the seal begins; *whole:
 * its words are right, not one byte of them damaged. */
static const char *find_seal(const char *text, size_t size, size_t *at, bool *whole) {
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		size_t before = strlen(forms[i].before), after = strlen(forms[i].after);
		if (size < before + DIGITS + after) continue;
		*at = size - before - DIGITS - after;
		const char *digits = text + *at + before;
		int wrong = count_differing(text + *at, forms[i].before, before) +
		            count_differing(digits + DIGITS, forms[i].after, after);
		*whole = wrong == 0;
		if (wrong <= 1) return digits;
	}
	return NULL;
}

lk_status lk_seal_check(int fd, const char *name, lk_error *err) {
	struct stat info;
	char text[LK_SEAL_ROOM], wanted[DIGITS + 1];
	size_t at;
	uint64_t sum;
	if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return LK_OK;
	off_t from = info.st_size > LK_SEAL_ROOM ? info.st_size - LK_SEAL_ROOM : 0;
	ssize_t got = pread(fd, text, sizeof text, from);
	bool whole;
	const char *digits = got > 0 ? find_seal(text, (size_t)got, &at, &whole) : NULL;
	if (!digits || !sum_file(fd, from + (off_t)at, &sum)) return LK_OK;
	snprintf(wanted, sizeof wanted, "%016" PRIx64, sum);
	if (whole && memcmp(wanted, digits, DIGITS) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, name, "is not as it was written: its seal does not fit its bytes");
	return lk_hint(err, "write it again; if you changed it, empty its seal, the last line that "
	                    "says \"lockstep\"");
}
