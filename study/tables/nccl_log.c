/* nccl_log.c: reads the output of nccl-tests.
 *
 * Text: '#' lines state how the test was started ("nThread"), which ranks ran where ("Rank 3 ... on
 * HOST device 3 [0x..] NAME") and what the columns are ("size count type redop root time algbw
 * busbw #wrong time ..."). A row is a line of numbers. Old versions have fewer columns and
 * statistics per iteration add some, so columns are found by the header. Without out-of-place
 * figures a row lacks one group. Launchers put a rank before each line, clusters a time stamp,
 * forums a quote's '>'. JSON, version 3: keys args, devices and results. */
#include "base/arena.h"
#include "tables/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/json.h"
#include "base/text.h"
#include "base/sort.h"

enum { WORDS = 64, LIMIT = 256 << 20, HOSTS = 4096, RANKS = 1 << 20 };

/* State of reading a log. */
struct reader {
	lk_arena *arena;
	lk_nccl_runs *runs;
	const char *name;
	int line;
	LK_VEC(lk_nccl_point) points; /* of the current run */
	lk_nccl_run run;
	LK_VEC(const char *) hosts; /* of the run, each once */
	int columns, times[2];      /* of the header: number of columns, and columns of the times; -1 */
};

double lk_nccl_point_us(const lk_nccl_point *point) {
	return isnan(point->us) ? point->in_place_us : point->us;
}

lk_status lk_nccl_log_text(lk_arena *arena, lk_stream *in, char **text, size_t *size,
                           lk_error *err) {
	LK_VEC(char) all = {0};
	lk_status status = LK_OK;
	for (size_t got = 1; status == LK_OK && got > 0;) {
		if (all.count > LIMIT)
			status = lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "more than 256 MiB");
		else if (!lk_reserve(&all, 65536)) status = lk_oom(err);
		else status = lk_stream_read(in, all.at + all.count, 65536, &got, err);
		if (status == LK_OK) all.count += got;
	}
	*size = all.count;
	*text = status == LK_OK ? lk_arena_alloc(arena, all.count + 1) : NULL;
	if (*text && all.count) memcpy(*text, all.at, all.count);
	lk_vec_free(&all);
	if (status != LK_OK) return status;
	if (*text) return LK_OK;
	return lk_oom(err);
}

/* ---- which collective ---- */

/* The tests, by the names of their programs without "_perf". */
static const struct {
	const char *name;
	lk_coll_kind kind;
} tests[] = {
	{"all_reduce", LK_COLL_ALLREDUCE},
	{"all_gather", LK_COLL_ALLGATHER},
	{"reduce_scatter", LK_COLL_REDUCESCATTER},
	{"alltoallv", LK_COLL_ALLTOALL},
	{"alltoall", LK_COLL_ALLTOALL},
	{"broadcast", LK_COLL_BROADCAST},
	{"sendrecv", LK_COLL_SENDRECV},
	{"reduce", LK_COLL_REDUCE},
};

/* Find "all_reduce_perf" or "alltoall_perf" somewhere in a text; without `perf` only the name. */
static bool log_find_kind(const char *text, const char *perf, lk_coll_kind *out) {
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		char name[32];
		snprintf(name, sizeof name, "%s%s", tests[i].name, perf);
		if (!strstr(text, name)) continue;
		*out = tests[i].kind;
		return true;
	}
	return false;
}

/* Find the test in a file's name: "all_gather_8gpus.txt". */
static void log_find_kind_of_file(lk_nccl_run *run, const char *path) {
	run->kind_known = log_find_kind(lk_file_name(path), "", &run->kind);
}

lk_status lk_nccl_ask_kind(const lk_nccl_run *run, const char *option, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, run->where,
	        "neither the log nor its name says which collective it is");
	return lk_hint(err,
	               "%s%skeep its line \"# Collective test starting\", or name the file after the "
	               "test: all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce or "
	               "sendrecv",
	               option ? option : "", option ? ", " : "");
}

/* Guess the test of a log that does not name it, from bus bandwidth / algorithm bandwidth: an
 * all-reduce has 2(n-1)/n. */
static void guess_kind(lk_nccl_run *run, double factor) {
	if (run->kind_known || run->gpus < 3 || !(factor > 1.05)) return;
	if (fabs(factor / lk_coll_busbw_factor(LK_COLL_ALLREDUCE, run->gpus) - 1) > .02) return;
	run->kind = LK_COLL_ALLREDUCE;
	run->kind_known = true;
}

/* ---- runs ---- */

LK_ORDER_BY(log_by_size, lk_nccl_point, bytes)

static double log_joined(double sum, int runs, double next) {
	if (isnan(next)) return sum;
	if (isnan(sum)) return next;
	return (sum * runs + next) / (runs + 1);
}

/* Merge points of equal size. */
static int log_join(lk_nccl_point *points, size_t count) {
	size_t kept = 0;
	LK_ASSERT(count > 0);
	lk_sort(points, count, sizeof *points, log_by_size);
	for (size_t i = 0; i < count; i++) {
		lk_nccl_point *last = kept ? &points[kept - 1] : NULL;
		if (!last || last->bytes != points[i].bytes) {
			points[kept++] = points[i];
			continue;
		}
		last->us = log_joined(last->us, last->runs, points[i].us);
		last->in_place_us = log_joined(last->in_place_us, last->runs, points[i].in_place_us);
		last->busbw = log_joined(last->busbw, last->runs, points[i].busbw);
		last->runs++;
	}
	return (int)kept;
}

/* End the current run if it has rows. */
static lk_status end_run(struct reader *reader, lk_error *err) {
	if (reader->points.count) {
		if (!lk_push(reader->runs)) return lk_oom(err);
		lk_nccl_run *run = lk_last(reader->runs);
		*run = reader->run;
		run->nodes = (int)reader->hosts.count;
		run->count = log_join(reader->points.at, reader->points.count);
		run->points = LK_ARRAY(reader->arena, lk_nccl_point, (size_t)run->count);
		if (!run->points) return lk_oom(err);
		memcpy(run->points, reader->points.at, (size_t)run->count * sizeof *run->points);
		bool known = run->kind_known; /* later runs of the file are of the same test unless they say
		                                 otherwise */
		lk_coll_kind kind = run->kind;
		reader->run = (lk_nccl_run){.device = "", .where = "", .kind = kind, .kind_known = known};
	}
	reader->points.count = reader->hosts.count = 0;
	reader->run.gpus = 0;
	return LK_OK;
}

static lk_status add_point(struct reader *reader, lk_nccl_point point, lk_error *err) {
	if (reader->points.count == 0) {
		reader->run.where = lk_arena_printf(reader->arena, "%s:%d", reader->name, reader->line);
		if (!reader->run.where) return lk_oom(err);
	}
	LK_ASSERT(point.bytes > 0);
	if (!lk_push(&reader->points)) return lk_oom(err);
	point.runs = 1;
	*lk_last(&reader->points) = point;
	return LK_OK;
}

static lk_status log_add_rank(struct reader *reader, const char *host, const char *device,
                              lk_error *err) {
	if (reader->run.gpus < RANKS) reader->run.gpus++;
	if (!*reader->run.device) reader->run.device = lk_arena_strdup(reader->arena, device);
	if (!reader->run.device) return lk_oom(err);
	for (size_t i = reader->hosts.count; i-- > 0;)
		if (strcmp(reader->hosts.at[i], host) == 0) return LK_OK;
	if (reader->hosts.count >= HOSTS) return LK_OK;
	LK_ASSERT(reader->run.gpus > 0);
	const char *copy = lk_arena_strdup(reader->arena, host);
	if (!copy || !lk_push(&reader->hosts)) return lk_oom(err);
	*lk_last(&reader->hosts) = copy;
	return LK_OK;
}

/* ---- text ---- */

/* Split a line into words, without the bars of `lockstep collective`. */
static int log_split(char *line, char *words[WORDS]) {
	int count = 0;
	char *state = NULL;
	for (char *w = strtok_r(line, " \t\r|", &state); w && count < WORDS;
	     w = strtok_r(NULL, " \t\r|", &state))
		words[count++] = w;
	return count;
}

static bool log_number_of(const char *word, double *out) {
	const char *end;
	double value = lk_read_real(word, &end);
	if (end == word || *end || !isfinite(value) || value < 0) return false;
	*out = value;
	return true;
}

/* Length of a time stamp, "2024-11-05T12:01:00.123456789Z", "2024-11-05 12:01:00,123"; 0: none. */
static size_t log_time_stamp(const char *text) {
	static const char form[] = "dddd-dd-dd_dd:dd:dd";
	for (size_t i = 0; i < sizeof form - 1; i++) {
		bool fits = text[i] == form[i];
		if (form[i] == 'd') fits = lk_is_digit(text[i]);
		if (form[i] == '_') fits = text[i] == 'T' || text[i] == ' ';
		if (!fits) return 0;
	}
	return sizeof form - 1 + strspn(text + sizeof form - 1, "0123456789.,:+-Z");
}

/* Length of one prefix of a line, of which there may be several: a time stamp of a cluster's log, a
 * quote's '>', the rank that a launcher prints: "[1,0]<stdout>:", "[0]", "0: ". */
static size_t log_prefix(const char *text) {
	size_t stamp = log_time_stamp(text), digits = strspn(text, "0123456789");
	if (stamp > 0) return stamp;
	if (*text == '>') return 1;
	if (*text == '[') {
		const char *end = strstr(text, ">:");
		if (end && end - text < 40) return (size_t)(end - text) + 2;
		end = text + 1 + strspn(text + 1, "0123456789,:");
		return end > text + 1 && *end == ']' ? (size_t)(end - text) + 1 + (end[1] == ':') : 0;
	}
	return digits > 0 && text[digits] == ':' ? digits + 1 : 0;
}

/* Skip the prefixes of a line. */
static char *behind_rank(char *line) {
	for (;;) {
		char *text = line + strspn(line, " \t");
		size_t length = log_prefix(text);
		if (length == 0) return line;
		line = text + length;
	}
}

/* "#  Rank  0 Group  0 Pid 12 on  host device  0 [0x07] NVIDIA A100" */
static lk_status log_read_rank(struct reader *reader, char *line, lk_error *err) {
	char host[256] = "", *on = strstr(line, " on "), *device = strchr(line, ']');
	if (!on || !device) return LK_OK;
	on += 4;
	on += strspn(on, " ");
	size_t length = strcspn(on, " ");
	snprintf(host, sizeof host, "%.*s", (int)(length < 255 ? length : 255), on);
	device += 1 + strspn(device + 1, " ");
	device[strcspn(device, "\r")] = '\0';
	if (reader->points.count) LK_TRY(end_run(reader, err));
	return log_add_rank(reader, host, device, err);
}

static void read_header(struct reader *reader, char *line) {
	char *words[WORDS];
	int count = log_split(line, words), first = count > 0 && strcmp(words[0], "#") == 0;
	reader->times[0] = reader->times[1] = -1;
	reader->columns = count - first;
	for (int i = first, found = 0; i < count && found < 2; i++)
		if (strcmp(words[i], "time") == 0 || strcmp(words[i], "cputime") == 0)
			reader->times[found++] = i - first;
}

static lk_status read_comment(struct reader *reader, char *line, lk_error *err) {
	if (strstr(line, "nThread") && strstr(line, "nGpus")) LK_TRY(end_run(reader, err));
	if (strstr(line, " Rank ") && strstr(line, "device")) return log_read_rank(reader, line, err);
	if (strstr(line, "size") && strstr(line, "count") && strstr(line, "time"))
		read_header(reader, line);
	return LK_OK;
}

/* Guess the test from the columns "size count type redop root": if the bytes of count elements are
 * less than the size, it is a rank's part of a reduce-scatter; a root means a reduce or a
 * broadcast. */
static void guess_kind_of_columns(lk_nccl_run *run, char *const *words, double bytes,
                                  double elements) {
	static const struct {
		const char *name;
		int bytes;
	} types[] = {{"float", 4}, {"half", 2},  {"bfloat16", 2}, {"double", 8}, {"int8", 1},
	             {"uint8", 1}, {"int32", 4}, {"uint32", 4},   {"int64", 8},  {"uint64", 8}};
	double root, word = 0;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(words[2], types[i].name) == 0) word = types[i].bytes;
	if (run->kind_known || word == 0 || elements == 0) return;
	bool rooted = log_number_of(words[4], &root); /* -1: no root */
	bool reduces = strcmp(words[3], "none") != 0, part = elements * word < bytes;
	if (reduces && part) run->kind = LK_COLL_REDUCESCATTER;
	else if (rooted && !part) run->kind = reduces ? LK_COLL_REDUCE : LK_COLL_BROADCAST;
	else return;
	run->kind_known = true;
}

static lk_status log_read_row(struct reader *reader, char *line, lk_error *err) {
	char *words[WORDS];
	int count = log_split(line, words), time = reader->times[0], second = reader->times[1];
	lk_nccl_point point = {.us = NAN, .in_place_us = NAN, .busbw = NAN};
	double elements;
	if (count < 6 || !log_number_of(words[0], &point.bytes) || !log_number_of(words[1], &elements))
		return LK_OK;
	if (time < 0) { /* no header was seen: two groups of four at the end, or one */
		time = count >= 11 ? count - 8 : count - 4;
		second = count >= 11 ? count - 4 : -1;
	} else if (second > 0 && count <= second) { /* the out-of-place group is missing */
		double us;
		if (time < count && log_number_of(words[time], &us)) point.in_place_us = us;
		second = -1;
	}
	if (isnan(point.in_place_us) && time < count) (void)log_number_of(words[time], &point.us);
	if (second > 0 && second < count) (void)log_number_of(words[second], &point.in_place_us);
	if (!(lk_nccl_point_us(&point) > 0) || !(point.bytes > 0))
		return LK_OK; /* nccl-tests write 0 if there is nothing to do */
	if (reader->times[0] == 5) guess_kind_of_columns(&reader->run, words, point.bytes, elements);
	double algbw, busbw;
	if (time + 2 < count && log_number_of(words[time + 1], &algbw) &&
	    log_number_of(words[time + 2], &busbw)) {
		point.busbw = busbw;
		if (algbw > 1) guess_kind(&reader->run, busbw / algbw);
	}
	return add_point(reader, point, err);
}

static lk_status log_read_text(struct reader *reader, char *text, lk_error *err) {
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next) *next++ = '\0';
		reader->line++;
		line = behind_rank(line);
		lk_coll_kind kind;
		if (log_find_kind(line, "_perf", &kind)) {
			if (reader->points.count) LK_TRY(end_run(reader, err));
			reader->run.kind = kind;
			reader->run.kind_known = true;
		}
		char *begin = line + strspn(line, " \t");
		LK_TRY(*begin == '#' ? read_comment(reader, begin, err) : log_read_row(reader, begin, err));
	}
	return end_run(reader, err);
}

/* ---- JSON ---- */

static double log_number_at(const lk_value *object, const char *key) {
	double number = lk_json_get_number(object, key, NAN);
	return number >= 0 ? number : NAN;
}

static double time_at(const lk_value *group) {
	double us = log_number_at(group, "time");
	return isnan(us) ? log_number_at(group, "cpu_time") : us;
}

static lk_status log_read_devices(struct reader *reader, const lk_value *devices, lk_error *err) {
	for (size_t i = 0; devices && devices->kind == LK_JSON_ARRAY && i < devices->count; i++) {
		const lk_value *host = lk_json_get(&devices->items[i], "hostname");
		const lk_value *device = lk_json_get(&devices->items[i], "device_info");
		bool named = host && host->kind == LK_JSON_STRING,
			 known = device && device->kind == LK_JSON_STRING;
		LK_TRY(log_add_rank(reader, named ? host->text : "", known ? device->text : "", err));
	}
	return LK_OK;
}

static lk_status read_results(struct reader *reader, const lk_value *results, lk_error *err) {
	for (size_t i = 0; results && results->kind == LK_JSON_ARRAY && i < results->count; i++) {
		const lk_value *row = &results->items[i], *out = lk_json_get(row, "out_of_place");
		const lk_value *in = lk_json_get(row, "in_place");
		lk_nccl_point point = {
			.bytes = log_number_at(row, "size"),
			.us = time_at(out),
			.in_place_us = time_at(in),
			.busbw = log_number_at(isnan(time_at(out)) ? in : out, "bus_bw"),
		};
		if (!(point.bytes > 0) || !(lk_nccl_point_us(&point) > 0)) continue;
		guess_kind(&reader->run,
		           point.busbw / log_number_at(isnan(time_at(out)) ? in : out, "alg_bw"));
		reader->line = row->line;
		LK_TRY(add_point(reader, point, err));
	}
	return LK_OK;
}

static lk_status log_read_json(struct reader *reader, const char *text, size_t size,
                               lk_error *err) {
	lk_stream *in;
	lk_value *top;
	LK_TRY(lk_stream_memory(text, size, reader->name, &in, err));
	lk_status status = lk_json_document(reader->arena, in, &top, err);
	lk_stream_close(in);
	LK_TRY(status);
	const lk_value *args = lk_json_get(top, "args");
	for (size_t i = 0; args && args->kind == LK_JSON_ARRAY && i < args->count; i++)
		if (args->items[i].kind == LK_JSON_STRING &&
		    log_find_kind(args->items[i].text, "_perf", &reader->run.kind))
			reader->run.kind_known = true;
	LK_TRY(log_read_devices(reader, lk_json_get(top, "devices"), err));
	LK_TRY(read_results(reader, lk_json_get(top, "results"), err));
	return end_run(reader, err);
}

/* ---- both ---- */

lk_status lk_nccl_log_read(lk_arena *arena, lk_stream *in, lk_nccl_runs *out, lk_error *err) {
	char *text;
	size_t size;
	LK_TRY(lk_nccl_log_text(arena, in, &text, &size, err));
	struct reader r = {
		.arena = arena,
		.runs = out,
		.name = lk_stream_name(in),
		.times = {-1, -1},
		.run = {.device = "", .where = ""},
	};
	log_find_kind_of_file(&r.run, r.name);
	bool json = text[strspn(text, " \t\r\n")] == '{';
	lk_status status = json ? log_read_json(&r, text, size, err) : log_read_text(&r, text, err);
	lk_vec_free(&r.points);
	lk_vec_free(&r.hosts);
	if (status == LK_OK && out->count == 0) {
		lk_fail(err, LK_ERR_INPUT, r.name, "no rows of nccl-tests are in it");
		return lk_hint(
			err, "paste what all_reduce_perf and its relatives print, or the file of their -J");
	}
	return status;
}
