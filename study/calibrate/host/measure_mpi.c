/* measure_mpi.c: pairs of MPI processes. MPI has no common binary interface, so the measurement is
 * made by a separate program, lockstep-mpi-pairs (tools/mpi_pairs.c, built if mpicc is available),
 * under the launcher that the user names. It prints one JSON object per line; other lines (from the
 * launcher) are skipped:
 *
 *     {"ranks": 2, "nodes": 1}
 *     {"a": 0, "b": 1, "same_node": true, "what": "a to b", "bytes": 4194304, "seconds": [median,
 *         low, high],
 *      "repeats": 57}
 *     {"collective": "all_reduce", "ranks": 2, "nodes": 2, "bytes": 4194304, "alone": mean seconds,
 *         "behind": the same right after
 *      another one, "repeats": 20} */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "calibrate/host/meter.h"

enum { LINE = 4096, LINES = 4096, SHOWN = 64 };

/* ---- the program ---- */

/* Find it next to this program, else on the PATH; false if it is in neither place, or if its name
 * cannot be quoted. */
static bool mpi_find_program(char *out, size_t size) {
	static const char name[] = "lockstep-mpi-pairs";
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	self[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(self, '/');
	if (slash) slash[1] = '\0';
	if (snprintf(out, size, "%s%s", self, name) < (int)size && access(out, X_OK) == 0)
		return !strchr(out, '\'');
	const char *path = getenv("PATH");
	for (size_t part; path && *path; path += part + (path[part] == ':')) {
		part = strcspn(path, ":");
		if (snprintf(out, size, "%.*s/%s", (int)part, path, name) < (int)size &&
		    access(out, X_OK) == 0)
			return !strchr(out, '\'');
	}
	return false;
}

/* ---- its lines ---- */

static double mpi_number(const lk_value *object, const char *key, double otherwise) {
	double number = lk_json_get_number(object, key, otherwise);
	return isfinite(number) ? number : otherwise;
}

/* Rates between nodes, for their median. */
struct between {
	double rate[LINES];
	size_t count;
	int lines;
};

static lk_status take_message(lk_meter *meter, bool inside, double bytes, bool both,
                              double seconds) {
	lk_message_measured *found = NULL;
	for (size_t i = 0; i < meter->host->messages.count && !found; i++) {
		lk_message_measured *at = &meter->host->messages.at[i];
		if (at->inside == inside && at->bytes == bytes) found = at;
	}
	if (!found) {
		if (!lk_push(&meter->host->messages)) return lk_oom(meter->err);
		found = lk_last(&meter->host->messages);
		found->inside = inside;
		found->bytes = bytes;
	}
	if (both) found->both_s = seconds;
	else found->alone_s = seconds;
	return LK_OK;
}

static lk_status take_pair(lk_meter *meter, const lk_value *line, struct between *net) {
	const lk_value *taken = lk_json_get(line, "seconds"), *what = lk_json_get(line, "what");
	const lk_value *same = lk_json_get(line, "same_node");
	double bytes = mpi_number(line, "bytes", 0);
	if (!taken || taken->kind != LK_JSON_ARRAY || taken->count != 3 || !what ||
	    what->kind != LK_JSON_STRING)
		return LK_OK;
	lk_sample s = {taken->items[0].number, taken->items[1].number, taken->items[2].number,
	               (int)fmin(1e6, mpi_number(line, "repeats", 0))};
	if (!(s.median > 0 && s.low > 0 && s.high > 0 && s.repeats > 0 && bytes > 0)) return LK_OK;
	bool near = same && same->kind == LK_JSON_TRUE;
	bool both = strcmp(what->text, "exchange") == 0;
	net->lines++;
	if (both || strcmp(what->text, "message") == 0)
		return take_message(meter, near, bytes, both, s.median);
	char name[160];
	snprintf(name, sizeof name, "MPI, a = %.0f, b = %.0f, %s, %.40s, %.0f bytes",
	         mpi_number(line, "a", -1), mpi_number(line, "b", -1), near ? "same node" : "two nodes",
	         what->text, bytes);
	if (!near && bytes >= 1e6 && strcmp(what->text, "both, each") != 0 && net->count < LINES)
		net->rate[net->count++] = bytes / s.low;
	if (near && bytes >= 1e6) meter->send_rate = fmax(meter->send_rate, bytes / s.low);
	if (net->lines > SHOWN) return LK_OK;
	if (bytes < 1e3) return lk_meter_time(meter, "pair", name, "us", 1, 1e-6, &s);
	return lk_meter_rate(meter, "pair", name, "GB/s", bytes, 1e9, &s);
}

static lk_status take_collective(lk_meter *meter, const lk_value *line, struct between *net) {
	const lk_value *what = lk_json_get(line, "collective");
	lk_collective_measured c = {.ranks = (int)fmin(1e6, mpi_number(line, "ranks", 0)),
	                            .nodes = (int)fmin(1e6, mpi_number(line, "nodes", 0)),
	                            .bytes = mpi_number(line, "bytes", 0),
	                            .alone_s = mpi_number(line, "alone", 0),
	                            .behind_s = mpi_number(line, "behind", 0)};
	if (what->kind != LK_JSON_STRING || c.ranks < 2 || c.nodes < 1 ||
	    !(c.bytes >= 1 && c.alone_s > 0 && c.behind_s > 0))
		return LK_OK;
	c.what = lk_arena_strdup(&meter->host->arena, what->text);
	if (!c.what || !lk_push(&meter->host->collectives)) return lk_oom(meter->err);
	*lk_last(&meter->host->collectives) = c;
	net->lines++;
	return LK_OK;
}

static lk_status mpi_take_line(lk_meter *meter, const char *text, struct between *net) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *line;
	lk_status status = lk_stream_memory(text, strlen(text), "lockstep-mpi-pairs", &in, meter->err);
	if (status != LK_OK) return status;
	if (lk_json_document(&arena, in, &line, NULL) == LK_OK && line->kind == LK_JSON_OBJECT) {
		if (lk_json_get(line, "collective")) status = take_collective(meter, line, net);
		else if (lk_json_get(line, "nodes"))
			meter->host->nodes = (int)fmax(1, fmin(1e6, mpi_number(line, "nodes", 1)));
		else status = take_pair(meter, line, net);
	}
	lk_stream_close(in);
	lk_arena_free(&arena);
	return status;
}

static lk_status take_lines(lk_meter *meter, FILE *in, struct between *net) {
	char line[LINE];
	for (int i = 0; i < LINES && fgets(line, sizeof line, in); i++)
		if (line[0] == '{') LK_TRY(mpi_take_line(meter, line, net));
	return LK_OK;
}

lk_status lk_measure_mpi(lk_meter *meter, double seconds) {
	char program[PATH_MAX], command[2 * PATH_MAX];
	if (!meter->options->mpi)
		return lk_meter_note(meter,
		                     "pairs: without MPI (--mpi 'mpirun -n 2' measures isend and irecv)");
	lk_meter_say(meter, "MPI");
	if (!mpi_find_program(program, sizeof program)) {
		lk_fail(meter->err, LK_ERR_IO, "--mpi",
		        "lockstep-mpi-pairs is neither in the folder of lockstep nor on the PATH");
		return lk_hint(meter->err, "`make mpi` builds it where mpicc is installed");
	}
	int length =
		snprintf(command, sizeof command, "%s '%s' %.3f", meter->options->mpi, program, seconds);
	if (length >= (int)sizeof command)
		return lk_fail(meter->err, LK_ERR_INPUT, "--mpi", "the command is too long");
	FILE *in = popen(command, "r");
	if (!in) return lk_fail(meter->err, LK_ERR_IO, "--mpi", "cannot start it: %s", strerror(errno));
	struct between net = {.count = 0};
	lk_status status = take_lines(meter, in, &net);
	int ended = pclose(in);
	if (status != LK_OK) return status;
	if (ended != 0 || net.lines == 0) {
		lk_fail(meter->err, LK_ERR_IO, "--mpi", "the command %s",
		        ended ? "failed" : "measured no pair");
		return lk_hint(
			meter->err,
			"it was started as: LAUNCHER lockstep-mpi-pairs SECONDS, with two processes or more");
	}
	if (net.count) meter->net_rate = lk_median(net.rate, net.count);
	return LK_OK;
}
