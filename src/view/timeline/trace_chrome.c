/* trace_chrome.c: Chrome trace events ("Trace Event Format", JSON object form), as
 * chrome://tracing, Perfetto and TensorBoard read them. Names are escaped once; nothing is
 * allocated per event.
 *
 * Times. Perfetto reads ts and dur as floating point microseconds, rounds each by itself to
 * nanoseconds and drops a slice that then crosses the end of another (its statistic
 * slice_drop_overlapping_complete_event). Picoseconds in ts and dur would make it lose one in eight
 * of slices that follow each other without a gap. Both ends of a slice are therefore rounded to
 * nanoseconds here, which keeps their order, and dur is the difference; the exact values are in
 * args as start_ps and dur_ps. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "view/timeline/trace_plan.h"

struct escaped {
	const char *text; /* in JSON, without the quotes; NULL: not used so far */
	size_t length;
};

struct chrome {
	const lk_trace_plan *plan;
	lk_trace_out *out;
	lk_arena arena;
	struct escaped *names; /* by interned id */
	bool begun;            /* an event is in the file */
	size_t prefix_length;
	char prefix[96]; /* of the events of a track: pid, tid and the key of ts */
};

#define PUT(c, literal) lk_trace_put((c)->out, "" literal, sizeof(literal) - 1)

static char *digits(char *end, uint64_t value) {
	do *--end = (char)('0' + value % 10);
	while (value /= 10);
	return end;
}

static void put_unsigned(struct chrome *chrome, uint64_t value) {
	char text[24], *end = text + sizeof text, *start = digits(end, value);
	lk_trace_put(chrome->out, start, (size_t)(end - start));
}

static void put_integer(struct chrome *chrome, int64_t value) {
	if (value < 0) PUT(chrome, "-");
	put_unsigned(chrome, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Nanoseconds as microseconds with three decimals. */
static void put_us(struct chrome *chrome, uint64_t ns) {
	char text[32], *end = text + sizeof text, *start = digits(end - 4, ns / 1000);
	unsigned part = (unsigned)(ns % 1000);
	end[-4] = '.';
	end[-3] = (char)('0' + part / 100);
	end[-2] = (char)('0' + part / 10 % 10);
	end[-1] = (char)('0' + part % 10);
	lk_trace_put(chrome->out, start, (size_t)(end - start));
}

static void chrome_put_real(struct chrome *chrome, double value) {
	char text[40];
	if (fabs(value) < 9e18 && value == (double)(int64_t)value) {
		put_integer(chrome, (int64_t)value);
		return;
	}
	lk_format_shortest(value, text, sizeof text);
	lk_trace_put(chrome->out, text, strlen(text));
}

/* The characters that stand for one character of JSON text; *taken is how many bytes of `text` they
 * stand for. */
static size_t escape_one(const char *text, size_t left, char out[8], size_t *taken) {
	unsigned char byte = (unsigned char)*text;
	*taken = lk_utf8_length(text, left);
	if (!*taken) {
		*taken = 1;
		memcpy(out, "\\ufffd", 6);
		return 6;
	}
	if (byte < 0x20 || byte == 0x7f) return (size_t)snprintf(out, 8, "\\u%04x", byte);
	size_t at = 0;
	if (byte == '"' || byte == '\\') out[at++] = '\\';
	memcpy(out + at, text, *taken);
	return at + *taken;
}

static bool escape(lk_arena *arena, const char *text, struct escaped *out) {
	size_t left = strlen(text), taken;
	char *to = lk_arena_array(arena, left + 2, 6);
	if (!to) return false;
	out->text = to;
	for (; left; text += taken, left -= taken) {
		char one[8];
		size_t length = escape_one(text, left, one, &taken);
		memcpy(to, one, length);
		to += length;
	}
	out->length = (size_t)(to - out->text);
	return true;
}

static void fail_memory(struct chrome *chrome) {
	if (chrome->out->status == LK_OK) chrome->out->status = lk_oom(chrome->out->err);
}

static void chrome_put_name(struct chrome *chrome, uint32_t id) {
	LK_ASSERT(id < lk_intern_count(chrome->plan->timeline->names));
	struct escaped *name = &chrome->names[id];
	if (!name->text && !escape(&chrome->arena, lk_trace_text(chrome->plan, id), name))
		fail_memory(chrome);
	else lk_trace_put(chrome->out, name->text, name->length);
}

static void chrome_put_text(struct chrome *chrome, const char *text) {
	struct escaped once;
	if (!escape(&chrome->arena, text, &once)) fail_memory(chrome);
	else lk_trace_put(chrome->out, once.text, once.length);
}

static void begin_event(struct chrome *chrome) {
	if (chrome->begun) PUT(chrome, ",\n");
	chrome->begun = true;
}

/* ---- metadata ---- */

static void begin_metadata(struct chrome *chrome, const char *name, int64_t pid, const int64_t *tid,
                           const char *key) {
	begin_event(chrome);
	PUT(chrome, "{\"ph\":\"M\",\"name\":\"");
	lk_trace_put(chrome->out, name, strlen(name));
	PUT(chrome, "\",\"pid\":");
	put_integer(chrome, pid);
	if (tid) {
		PUT(chrome, ",\"tid\":");
		put_integer(chrome, *tid);
	}
	PUT(chrome, ",\"args\":{\"");
	lk_trace_put(chrome->out, key, strlen(key));
	PUT(chrome, "\":");
}

static void put_title(struct chrome *chrome, const char *name, int64_t pid, const int64_t *tid,
                      const char *title) {
	begin_metadata(chrome, name, pid, tid, "name");
	PUT(chrome, "\"");
	chrome_put_text(chrome, title);
	PUT(chrome, "\"}}");
}

static void put_sort_index(struct chrome *chrome, const char *name, int64_t pid, const int64_t *tid,
                           uint64_t index) {
	begin_metadata(chrome, name, pid, tid, "sort_index");
	put_unsigned(chrome, index);
	PUT(chrome, "}}");
}

static void put_metadata(struct chrome *chrome) {
	const lk_trace_plan *plan = chrome->plan;
	for (size_t i = 0; i < plan->processes.count; i++) {
		const lk_trace_process *process = &plan->processes.at[i];
		put_title(chrome, "process_name", process->pid, NULL, process->name);
		put_sort_index(chrome, "process_sort_index", process->pid, NULL, i);
		if (process->ranks <= 1) continue;
		begin_metadata(chrome, "process_labels", process->pid, NULL, "labels");
		PUT(chrome, "\"stands for ");
		put_integer(chrome, process->ranks);
		PUT(chrome, " ranks\"}}");
	}
	for (size_t i = 0; i < plan->timeline->tracks.count; i++) {
		const lk_trace_row *row = &plan->rows[i];
		int64_t pid = plan->processes.at[row->process].pid;
		put_title(chrome, "thread_name", pid, &row->tid, row->name);
		put_sort_index(chrome, "thread_sort_index", pid, &row->tid, i);
	}
}

/* ---- slices ---- */

static void chrome_begin_track(struct chrome *chrome, uint32_t track) {
	const lk_trace_row *row = &chrome->plan->rows[track];
	chrome->prefix_length = (size_t)snprintf(
		chrome->prefix, sizeof chrome->prefix, "\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":",
		chrome->plan->processes.at[row->process].pid, row->tid);
	LK_ASSERT(chrome->prefix_length < sizeof chrome->prefix);
}

static void chrome_put_arguments(struct chrome *chrome, const lk_trace_span *span) {
	const lk_slice *slice = span->slice;
	PUT(chrome, ",\"args\":{\"start_ps\":");
	put_unsigned(chrome, lk_trace_ps(chrome->plan, span->start_ps));
	PUT(chrome, ",\"dur_ps\":");
	put_unsigned(chrome, (uint64_t)span->end_ps - (uint64_t)span->start_ps);
	for (int fact = 0; fact < LK_TRACE_FACTS; fact++) {
		double number;
		uint32_t text;
		if (!lk_trace_fact(slice, fact, &number, &text)) continue;
		PUT(chrome, ",\"");
		lk_trace_put(chrome->out, lk_trace_fact_names[fact], strlen(lk_trace_fact_names[fact]));
		PUT(chrome, "\":");
		if (text) PUT(chrome, "\"");
		if (text) chrome_put_name(chrome, text);
		else chrome_put_real(chrome, number);
		if (text) PUT(chrome, "\"");
	}
	PUT(chrome, "}}");
}

static void chrome_put_slice(struct chrome *chrome, const lk_trace_span *span) {
	uint64_t start = lk_trace_ns(chrome->plan, span->start_ps),
			 end = lk_trace_ns(chrome->plan, span->end_ps);
	LK_ASSERT(start <= end);
	begin_event(chrome);
	PUT(chrome, "{\"ph\":\"X\",");
	lk_trace_put(chrome->out, chrome->prefix, chrome->prefix_length);
	put_us(chrome, start);
	PUT(chrome, ",\"dur\":");
	put_us(chrome, end - start);
	PUT(chrome, ",\"name\":\"");
	chrome_put_name(chrome, span->slice->name);
	if (span->slice->category) {
		PUT(chrome, "\",\"cat\":\"");
		chrome_put_name(chrome, span->slice->category);
	}
	PUT(chrome, "\"");
	chrome_put_arguments(chrome, span);
}

/* ---- arrows ---- */

/* An arrow starts where its slice starts and arrives where the other starts, or, if that was
 * waiting already, inside it at the time of sending. Viewers sort events by time and keep the order
 * of the file for equal times: an arrival that comes before its start in the file comes a
 * nanosecond later if the slice has room for it. */
static uint64_t chrome_arrival(const lk_trace_plan *plan, const lk_trace_arrow *arrow) {
	const lk_trace_span *to = &plan->spans[arrow->to];
	uint64_t sent = lk_trace_ns(plan, plan->spans[arrow->from].start_ps);
	uint64_t start = lk_trace_ns(plan, to->start_ps), end = lk_trace_ns(plan, to->end_ps);
	if (start > sent) return start;
	return arrow->to < arrow->from && end >= sent + 2 ? sent + 1 : sent;
}

static void put_arrow_end(struct chrome *chrome, bool sends, uint32_t id, uint64_t ns) {
	begin_event(chrome);
	if (sends) PUT(chrome, "{\"ph\":\"s\",");
	else PUT(chrome, "{\"ph\":\"f\",\"bp\":\"e\",");
	PUT(chrome, "\"cat\":\"flow\",\"name\":\"message\",\"id\":");
	put_unsigned(chrome, (uint64_t)id + 1);
	PUT(chrome, ",");
	lk_trace_put(chrome->out, chrome->prefix, chrome->prefix_length);
	put_us(chrome, ns);
	PUT(chrome, "}");
}

/* They follow their slice: at its start it is then the innermost open one, to which viewers bind
 * them. */
static void put_arrows(struct chrome *chrome, size_t span) {
	const lk_trace_plan *plan = chrome->plan;
	for (uint32_t i = plan->out_first[span]; i < plan->out_first[span + 1]; i++)
		put_arrow_end(chrome, true, i, lk_trace_ns(plan, plan->spans[span].start_ps));
	for (uint32_t i = plan->in_first[span]; i < plan->in_first[span + 1]; i++)
		put_arrow_end(chrome, false, plan->in_arrows[i],
		              chrome_arrival(plan, &plan->arrows[plan->in_arrows[i]]));
}

static void chrome_put_point(struct chrome *chrome, const lk_trace_point *point) {
	begin_event(chrome);
	PUT(chrome, "{\"ph\":\"C\",\"pid\":");
	put_integer(chrome, chrome->plan->processes.at[point->process].pid);
	PUT(chrome, ",\"ts\":");
	put_us(chrome, lk_trace_ns(chrome->plan, point->counter->time_ps));
	PUT(chrome, ",\"name\":\"");
	chrome_put_name(chrome, point->counter->name);
	PUT(chrome, "\",\"args\":{\"bytes\":");
	chrome_put_real(chrome, point->counter->value);
	PUT(chrome, "}}");
}

static void put_events(struct chrome *chrome) {
	const lk_trace_plan *plan = chrome->plan;
	PUT(chrome,
	    "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"generator\":\"lockstep\",\"origin_ps\":");
	put_integer(chrome, plan->origin_ps);
	PUT(chrome, "},\"traceEvents\":[\n");
	put_metadata(chrome);
	for (size_t i = 0; i < plan->span_count && chrome->out->status == LK_OK; i++) {
		if (!i || plan->spans[i].track != plan->spans[i - 1].track)
			chrome_begin_track(chrome, plan->spans[i].track);
		chrome_put_slice(chrome, &plan->spans[i]);
		if (plan->out_first) put_arrows(chrome, i);
	}
	for (size_t i = 0; i < plan->point_count && chrome->out->status == LK_OK; i++)
		chrome_put_point(chrome, &plan->points[i]);
	PUT(chrome, "\n]}\n");
}

lk_status lk_trace_chrome(const lk_trace_plan *plan, lk_trace_out *out) {
	struct chrome c = {.plan = plan, .out = out};
	c.names = LK_ARRAY(&c.arena, struct escaped, lk_intern_count(plan->timeline->names));
	if (!c.names) return lk_oom(out->err);
	put_events(&c);
	lk_arena_free(&c.arena);
	return out->status;
}
