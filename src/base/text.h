/* text.h: small text work that every layer needs: units, numbers with limits, nearest names, safe
 * copies. */
#ifndef LK_BASE_TEXT_H
#define LK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "lockstep/error.h"

/* Copy at most size-1 bytes; always ends with '\0'. */
void lk_copy(char *out, size_t size, const char *text);

/* A text of bounded size that grows at its end. Excess characters are cut; the text is always
 * terminated.
 *
 *     char line[80];
 *     lk_text text = lk_text_begin(line, sizeof line);
 *     lk_text_add(&text, "%d ranks", ranks); */
typedef struct lk_text {
	char *at;
	size_t size, used; /* of `at`; characters in use, less than size */
} lk_text;

/* Begin an empty text in `at`, which has `size` bytes, at least one. */
lk_text lk_text_begin(char *at, size_t size);
void lk_text_add(lk_text *text, const char *format, ...) LK_PRINTF(2, 3);
/* Whether the text was cut or has no room for another character. */
bool lk_text_full(const lk_text *text);

static inline const char *lk_bool_text(bool is) {
	return is ? "true" : "false";
}

/* In every locale. */
static inline bool lk_is_digit(char c) {
	return c >= '0' && c <= '9';
}

/* Compare names ignoring case, '-', '_', ' ' and '.'. */
bool lk_same_name(const char *a, const char *b);
/* FNV-1a from `seed` on over what lk_same_name compares: equal for equal names. */
uint32_t lk_name_hash(uint32_t seed, const char *name);
/* Whether `names`, separated by blanks, includes this one. */
bool lk_name_among(const char *names, const char *name);

/* Strict numbers: the whole text must be a number; limits are inclusive. `where` names the place in
 * the message ("--tp"). lk_parse_count also reads the suffixes k, K, M, G or B (1e9), T and Ki, Mi,
 * Gi (powers of 1024): "15T", "1.5k". */
lk_status lk_parse_int(const char *text, long long low, long long high, long long *out,
                       const char *where, lk_error *err);
lk_status lk_parse_real(const char *text, double low, double high, double *out, const char *where,
                        lk_error *err);
lk_status lk_parse_count(const char *text, double low, double high, double *out, const char *where,
                         lk_error *err);
/* Parse a whole number in everyday notation: lk_parse_int with the suffixes of lk_parse_count:
 * "8k", "1Ki". */
lk_status lk_parse_whole(const char *text, long long low, long long high, long long *out,
                         const char *where, lk_error *err);
/* Parse a duration in units of `unit_s` seconds: a number of them, or numbers with units from
 * seconds to weeks: "14d", "2 weeks", "1d 12h". The limits are in the same unit. */
lk_status lk_parse_duration(const char *text, double unit_s, double low, double high, double *out,
                            const char *where, lk_error *err);
/* Parse dollars: as lk_parse_count, with or without a leading '$': "$100k". */
lk_status lk_parse_dollars(const char *text, double low, double high, double *out,
                           const char *where, lk_error *err);
/* Days from a date such as 2026-07-20 to today, UTC; negative in the future, NAN: not a date. */
double lk_days_since(const char *date);
/* The number at the start of `text`, whatever the locale; *end is set after it, or to `text` if
 * there is none. Decimal notation only: no hexadecimal, infinity or NaN; overflow gives infinity.
 */
double lk_read_real(const char *text, const char **end);
/* LK_ERR_INPUT: "'TEXT' is not understood", with the hint. */
lk_status lk_not_understood(const char *where, const char *text, const char *hint, lk_error *err);
lk_status lk_parse_bool(const char *text, bool *out, const char *where, lk_error *err);

/* Numbers for people: "1.53 s", "812 us", "73.6 GiB", "1.8 TB/s", "405.9 G", "1,012". Each returns
 * `out`. */
char *lk_format_seconds(double seconds, char *out, size_t size);
/* In the unit of `like`, so that the ends of a range share a unit: "0.98 s" like 1.05 s. */
char *lk_format_seconds_like(double seconds, double like, char *out, size_t size);
char *lk_format_bytes(double bytes, char *out, size_t size);      /* IEC: GiB */
char *lk_format_rate(double bytes_per_s, char *out, size_t size); /* SI: GB/s */
char *lk_format_count(double count, char *out, size_t size);      /* SI: 70.6 G */
char *lk_format_thousands(double count, char *out, size_t size);  /* 11,234 */
char *lk_format_dollars(double dollars, char *out, size_t size);  /* $0.0312, $56.10, $11,234 */
char *lk_format_energy(double kwh, char *out, size_t size);       /* 56 kWh, 1.2 GWh */
char *lk_format_mass(double kg, char *out, size_t size);          /* 56 kg, 1.2 t */

/* Write 15, 16 or 17 digits, the fewest that read back as the same number; whole numbers up to 2^53
 * in full. `number` must be finite; 32 bytes are enough. */
char *lk_format_shortest(double number, char *out, size_t size);

/* Length of the UTF-8 sequence (1 to 4) at the start of `text`, which has `size` bytes; 0 if
 * invalid. */
size_t lk_utf8_length(const char *text, size_t size);

/* Whether someone who typed `typed` may have meant the different text `meant`: one letter is wrong,
 * missing, added or exchanged with its neighbour; or two in the last part of `meant`, after its
 * dots, if it has ten letters or more. */
bool lk_is_slip(const char *typed, const char *meant);

static inline bool lk_begins_with(const char *text, const char *beginning) {
	return strncmp(text, beginning, strlen(beginning)) == 0;
}
bool lk_ends_in(const char *text, const char *ending);
/* Equal texts, or both NULL. */
bool lk_same_text(const char *a, const char *b);
/* The path after its last slash. */
const char *lk_file_name(const char *path);

enum {
	LK_ID = 160 /* bytes of a repository id */
};

/* Extract the repository id from the address of its page: "Qwen/Qwen3-8B" from
 * "https://huggingface.co/Qwen/Qwen3-8B/tree/main" and from "hf.co/Qwen/Qwen3-8B". False, with
 * `out` unchanged, if the text is not the address of a network on a hub. */
bool lk_id_of_page(const char *text, char *out, size_t size);
/* Whether a text has the form of a repository id, "OWNER/NAME" (a relative path may have it too),
 * or is the address of its page. */
bool lk_id_form(const char *text);

/* Bytes of the character at `text` if it is unsafe to display; 0 if it is safe. Unsafe are control
 * characters (U+0000 to U+001F, U+007F to U+009F: terminals obey them), direction controls (U+202A
 * to U+202E, U+2066 to U+2069: a line then reads as something else), line separators (U+2028,
 * U+2029), and bytes that are not UTF-8. */
size_t lk_unsafe_length(const char *text, size_t left);
/* Replace each byte of unsafe characters by \xNN, for terminals. Returns `out`; 4 bytes per byte of
 * `text` are enough. */
char *lk_escape(const char *text, char *out, size_t size);

#endif
