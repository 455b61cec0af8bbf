/* tune_wisdom.c: results of searches, in a text file: one line per program, sizes and cluster.
 *
 *     # lockstep wisdom 1
 *     HASH <tab> simulated|measured <tab> SECONDS <tab> PLAIN SECONDS <tab> WHERE <tab> DIRECTIVE;
 *         DIRECTIVE; ...
 *
 * The file may come from anywhere: a line is used only if all of it is valid, and a schedule is
 * parsed and applied like a user's, never trusted. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "system/memory.h"
#include "io/form.h"
#include "io/stream.h"
#include "base/text.h"
#include "lang/tune/tune.h"
#include "lang/syntax/parse.h"

enum { FILE_LIMIT = 1 << 24, ENTRIES = 65536, WARNINGS = 8, FIELDS = 6 };

static const char *const kinds[] = {"simulated", "measured"};
static const char head[] = "# lockstep wisdom ";

/* ---- reading ---- */

static lk_status wisdom_warn(lk_wisdom *wisdom, const char *path, int line, const char *why,
                             lk_error *err) {
	if (wisdom->warnings.count > WARNINGS) return LK_OK;
	bool last = wisdom->warnings.count == WARNINGS;
	if (!lk_push(&wisdom->warnings)) return lk_oom(err);
	*lk_last(&wisdom->warnings) =
		last ? "and more lines of it were ignored"
			 : lk_arena_printf(&wisdom->arena, "%s:%d: %s; the line is ignored", path, line, why);
	return *lk_last(&wisdom->warnings) ? LK_OK : lk_oom(err);
}

static bool read_hash(const char *text, uint64_t *out) {
	char *end;
	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
	*out = strtoull(text, &end, 16);
	return true;
}

static bool read_seconds(const char *text, double *out) {
	return lk_parse_real(text, 1e-12, 1e9, out, "", NULL) == LK_OK;
}

/* Cut the line at its tabs. Returns why it is invalid, or NULL. */
static const char *read_entry(char *line, lk_wise *out) {
	char *field[FIELDS];
	for (int i = 0; i < FIELDS; i++) {
		field[i] = line;
		char *tab = line ? strchr(line, '\t') : NULL;
		if (tab) *tab++ = '\0';
		if (!line) return "it has too few fields";
		line = tab;
	}
	if (line) return "it has too many fields";
	if (!read_hash(field[0], &out->hash)) return "its first field is not a hash of 16 digits";
	out->measured = strcmp(field[1], kinds[1]) == 0;
	if (!out->measured && strcmp(field[1], kinds[0]) != 0)
		return "it is neither simulated nor measured";
	if (!read_seconds(field[2], &out->seconds) || !read_seconds(field[3], &out->plain))
		return "it has no times";
	out->where = field[4];
	out->schedule = field[5];
	return NULL;
}

static lk_status read_lines(lk_wisdom *wisdom, const char *path, char *text, lk_error *err) {
	int number = 0;
	for (char *line; (line = strsep(&text, "\n"));) {
		lk_wise entry = {0};
		number++;
		if (*line == '\0' || *line == '#') continue;
		const char *why =
			wisdom->entries.count == ENTRIES ? "too many entries" : read_entry(line, &entry);
		if (why) LK_TRY(wisdom_warn(wisdom, path, number, why, err));
		else LK_TRY(lk_wisdom_keep(wisdom, &entry, err));
	}
	return LK_OK;
}

lk_status lk_wisdom_parse(const char *name, const char *text, size_t size, lk_wisdom *out,
                          lk_error *err) {
	*out = (lk_wisdom){0};
	if (size == 0) return LK_OK;
	if (size > FILE_LIMIT || memchr(text, '\0', size) || size < sizeof head - 1 ||
	    memcmp(text, head, sizeof head - 1) != 0) {
		lk_fail(err, LK_ERR_INPUT, name, "this is not a wisdom file");
		return lk_hint(err,
		               "name a new file, or one that lockstep wrote"); /* it would be overwritten */
	}
	char *lines = lk_arena_strndup(&out->arena, text, size);
	if (lines) LK_TRY(lk_form_check_line(lines, name, err));
	return lines ? read_lines(out, name, lines, err) : lk_oom(err);
}

lk_status lk_wisdom_read(const char *path, lk_wisdom *out, lk_error *err) {
	struct stat there;
	char *text;
	size_t size;
	*out = (lk_wisdom){0};
	if (stat(path, &there) != 0 && errno == ENOENT) return LK_OK;
	LK_TRY(lk_stream_slurp(path, FILE_LIMIT, &text, &size, err));
	lk_status status = lk_wisdom_parse(path, text, size, out, err);
	free(text);
	return status;
}

void lk_wisdom_free(lk_wisdom *wisdom) {
	lk_vec_free(&wisdom->entries);
	lk_vec_free(&wisdom->warnings);
	lk_arena_free(&wisdom->arena);
}

/* ---- entries ---- */

const lk_wise *lk_wisdom_find(const lk_wisdom *wisdom, uint64_t hash, const char *where) {
	for (size_t i = 0; i < wisdom->entries.count; i++)
		if (wisdom->entries.at[i].hash == hash && strcmp(wisdom->entries.at[i].where, where) == 0)
			return &wisdom->entries.at[i];
	return NULL;
}

lk_status lk_wisdom_keep(lk_wisdom *wisdom, const lk_wise *entry, lk_error *err) {
	lk_wise *old = (lk_wise *)(uintptr_t)lk_wisdom_find(wisdom, entry->hash, entry->where);
	if (old && old->measured && !entry->measured) return LK_OK;
	lk_wise kept = *entry;
	kept.where = lk_arena_strdup(&wisdom->arena, entry->where);
	kept.schedule = lk_arena_strdup(&wisdom->arena, entry->schedule);
	if (!kept.where || !kept.schedule) return lk_oom(err);
	if (old) {
		*old = kept;
		return LK_OK;
	}
	if (!lk_push(&wisdom->entries)) return lk_oom(err);
	*lk_last(&wisdom->entries) = kept;
	return LK_OK;
}

lk_status lk_wisdom_write(const lk_wisdom *wisdom, const char *path, lk_error *err) {
	lk_sink *sink;
	char form[64];
	LK_TRY(lk_sink_open(path, &sink, err));
	lk_sink_printf(sink, "%s: program, how, seconds, plain seconds, sizes and cluster, schedule\n",
	               lk_form_line(LK_FORM_WISDOM, form, sizeof form));
	for (size_t i = 0; i < wisdom->entries.count; i++) {
		const lk_wise *wise = &wisdom->entries.at[i];
		lk_sink_printf(sink, "%016llx\t%s\t%.9g\t%.9g\t%s\t%s\n", (unsigned long long)wise->hash,
		               kinds[wise->measured], wise->seconds, wise->plain, wise->where,
		               wise->schedule);
	}
	return lk_sink_commit(sink, err);
}

/* ---- keys ---- */

/* A list's sizes, which may be thousands, as their number and hash. */
static void wisdom_put_list(const int64_t *sizes, int64_t count, FILE *out) {
	uint64_t hash = 0xcbf29ce484222325u;
	for (int64_t i = 0; i < count; i++) hash = (hash ^ (uint64_t)sizes[i]) * 0x100000001b3u;
	fprintf(out, "%lldx%016llx", (long long)count, (unsigned long long)hash);
}

static void put_where(const lc_program *program, const lc_sizes *sizes, const lk_cluster *cluster,
                      FILE *out) {
	for (int a = 0; a < program->axis_count; a++)
		fprintf(out, "%s%s=%lld", a ? "," : "", program->axes[a].name, (long long)sizes->symbol[a]);
	for (int d = 0; d < program->named_count; d++) {
		fprintf(out, ",%s=", program->named[d].name);
		if (sizes->each[d])
			wisdom_put_list(sizes->each[d], sizes->items[program->named[d].list], out);
		else fprintf(out, "%lld", (long long)sizes->symbol[LC_AXES + d]);
	}
	for (size_t i = 0; i < sizes->indices.count; i++)
		fprintf(out, ",%s=%lld", sizes->indices.at[i].name, (long long)sizes->indices.at[i].value);
	fprintf(out, " on ");
	for (const char *c = cluster->text; *c; c++) fputc((unsigned char)*c < ' ' ? '?' : *c, out);
}

const char *lk_wisdom_where(lk_wisdom *wisdom, const lc_program *program, const lc_sizes *sizes,
                            const lk_cluster *cluster) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = lk_memory_open(&text, &size);
	if (!out) return NULL;
	put_where(program, sizes, cluster, out);
	const char *kept = lk_memory_text(out, &text) ? lk_arena_strdup(&wisdom->arena, text) : NULL;
	free(text);
	return kept;
}

/* ---- schedules ---- */

char *lk_wisdom_text(lk_arena *arena, const lc_schedule *schedule) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = lk_memory_open(&text, &size);
	if (!out) return NULL;
	for (int i = 0; i < schedule->count; i++) {
		if (i) fputs("; ", out);
		lc_print_directive(&schedule->directives[i], out);
	}
	char *kept = lk_memory_text(out, &text) ? lk_arena_strdup(arena, text) : NULL;
	free(text);
	return kept;
}

lk_status lk_wisdom_schedule(const lc_program *program, const char *directives, lc_file **file,
                             const lc_schedule **out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	*file = NULL;
	FILE *all = lk_memory_open(&text, &size);
	if (!all) return lk_oom(err);
	lc_print_program(program, all);
	fprintf(all, "schedule best for %s { %s }\n", program->name, directives);
	lk_status status =
		lk_memory_text(all, &text) ? lc_parse("wisdom", text, size, file, err) : lk_oom(err);
	free(text);
	LK_TRY(status);
	const lc_program *q = (*file)->programs.at[0];
	if ((*file)->programs.count != 1 || q->schedules.count != 1)
		return lk_fail(err, LK_ERR_INPUT, "wisdom", "an entry holds more than directives");
	*out = &q->schedules.at[0];
	return LK_OK;
}
