/* trace_chrome.c: Chrome trace events ("Trace Event Format", JSON object form), as chrome://tracing, Perfetto and
 * TensorBoard read them. Names are escaped once; nothing is allocated per event.
 *
 * Times. Perfetto reads ts and dur as floating point microseconds, rounds each by itself to nanoseconds and drops a
 * slice that then crosses the end of another (its statistic slice_drop_overlapping_complete_event). Picoseconds in ts and dur
 * would make it lose one in eight of slices that follow each other without a gap. Both ends of a slice are therefore
 * rounded to nanoseconds here, which keeps their order, and dur is the difference; the exact values stand in args as
 * start_ps and dur_ps. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
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
	struct escaped *names;   /* by interned id */
	bool begun;       /* an event stands in the file */
	size_t prefix_length;
	char prefix[96];  /* of the events of a track: pid, tid and the key of ts */
};

#define PUT(c, literal) lk_trace_put((c)->out, "" literal, sizeof(literal) - 1)

static char *digits(char *end, uint64_t value) {
	do *--end = (char)('0' + value % 10);
	while (value /= 10);
	return end;
}

static void put_unsigned(struct chrome *c, uint64_t value) {
	char text[24], *end = text + sizeof text, *start = digits(end, value);
	lk_trace_put(c->out, start, (size_t)(end - start));
}

static void put_integer(struct chrome *c, int64_t value) {
	if (value < 0) PUT(c, "-");
	put_unsigned(c, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Nanoseconds as microseconds with three decimals. */
static void put_us(struct chrome *c, uint64_t ns) {
	char text[32], *end = text + sizeof text, *start = digits(end - 4, ns / 1000);
	unsigned part = (unsigned)(ns % 1000);
	end[-4] = '.';
	end[-3] = (char)('0' + part / 100);
	end[-2] = (char)('0' + part / 10 % 10);
	end[-1] = (char)('0' + part % 10);
	lk_trace_put(c->out, start, (size_t)(end - start));
}

static void put_real(struct chrome *c, double value) {
	char text[40];
	if (fabs(value) < 9e18 && value == (double)(int64_t)value) {
		put_integer(c, (int64_t)value);
		return;
	}
	lk_format_shortest(value, text, sizeof text);
	lk_trace_put(c->out, text, strlen(text));
}

/* The characters that stand for one character of JSON text; *taken is how many bytes of `text` they stand for. */
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

static void fail_memory(struct chrome *c) {
	if (c->out->status == LK_OK) c->out->status = lk_oom(c->out->err);
}

static void put_name(struct chrome *c, uint32_t id) {
	struct escaped *name = &c->names[id];
	if (!name->text && !escape(&c->arena, lk_trace_text(c->plan, id), name)) fail_memory(c);
	else lk_trace_put(c->out, name->text, name->length);
}

static void put_text(struct chrome *c, const char *text) {
	struct escaped once;
	if (!escape(&c->arena, text, &once)) fail_memory(c);
	else lk_trace_put(c->out, once.text, once.length);
}

static void begin_event(struct chrome *c) {
	if (c->begun) PUT(c, ",\n");
	c->begun = true;
}

/* ---- metadata ---- */

static void begin_metadata(struct chrome *c, const char *name, int64_t pid, const int64_t *tid, const char *key) {
	begin_event(c);
	PUT(c, "{\"ph\":\"M\",\"name\":\"");
	lk_trace_put(c->out, name, strlen(name));
	PUT(c, "\",\"pid\":");
	put_integer(c, pid);
	if (tid) {
		PUT(c, ",\"tid\":");
		put_integer(c, *tid);
	}
	PUT(c, ",\"args\":{\"");
	lk_trace_put(c->out, key, strlen(key));
	PUT(c, "\":");
}

static void put_title(struct chrome *c, const char *name, int64_t pid, const int64_t *tid, const char *title) {
	begin_metadata(c, name, pid, tid, "name");
	PUT(c, "\"");
	put_text(c, title);
	PUT(c, "\"}}");
}

static void put_sort_index(struct chrome *c, const char *name, int64_t pid, const int64_t *tid, uint64_t index) {
	begin_metadata(c, name, pid, tid, "sort_index");
	put_unsigned(c, index);
	PUT(c, "}}");
}

static void put_metadata(struct chrome *c) {
	const lk_trace_plan *plan = c->plan;
	for (size_t i = 0; i < plan->processes.count; i++) {
		const lk_trace_process *p = &plan->processes.at[i];
		put_title(c, "process_name", p->pid, NULL, p->name);
		put_sort_index(c, "process_sort_index", p->pid, NULL, i);
		if (p->ranks <= 1) continue;
		begin_metadata(c, "process_labels", p->pid, NULL, "labels");
		PUT(c, "\"stands for ");
		put_integer(c, p->ranks);
		PUT(c, " ranks\"}}");
	}
	for (size_t i = 0; i < plan->timeline->tracks.count; i++) {
		const lk_trace_row *row = &plan->rows[i];
		int64_t pid = plan->processes.at[row->process].pid;
		put_title(c, "thread_name", pid, &row->tid, row->name);
		put_sort_index(c, "thread_sort_index", pid, &row->tid, i);
	}
}

/* ---- slices ---- */

static void begin_track(struct chrome *c, uint32_t track) {
	const lk_trace_row *row = &c->plan->rows[track];
	c->prefix_length = (size_t)snprintf(c->prefix, sizeof c->prefix, "\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":",
		c->plan->processes.at[row->process].pid, row->tid);
}

static void put_arguments(struct chrome *c, const lk_trace_span *span) {
	const lk_slice *s = span->slice;
	PUT(c, ",\"args\":{\"start_ps\":");
	put_unsigned(c, lk_trace_ps(c->plan, span->start_ps));
	PUT(c, ",\"dur_ps\":");
	put_unsigned(c, (uint64_t)span->end_ps - (uint64_t)span->start_ps);
	if (s->bytes != 0 && isfinite(s->bytes)) {
		PUT(c, ",\"bytes\":");
		put_real(c, s->bytes);
	}
	if (s->flops != 0 && isfinite(s->flops)) {
		PUT(c, ",\"flops\":");
		put_real(c, s->flops);
	}
	if (s->layer >= 0) {
		PUT(c, ",\"layer\":");
		put_integer(c, s->layer);
	}
	if (s->microbatch >= 0) {
		PUT(c, ",\"microbatch\":");
		put_integer(c, s->microbatch);
	}
	PUT(c, "}}");
}

static void put_slice(struct chrome *c, const lk_trace_span *span) {
	uint64_t start = lk_trace_ns(c->plan, span->start_ps), end = lk_trace_ns(c->plan, span->end_ps);
	begin_event(c);
	PUT(c, "{\"ph\":\"X\",");
	lk_trace_put(c->out, c->prefix, c->prefix_length);
	put_us(c, start);
	PUT(c, ",\"dur\":");
	put_us(c, end - start);
	PUT(c, ",\"name\":\"");
	put_name(c, span->slice->name);
	if (span->slice->category) {
		PUT(c, "\",\"cat\":\"");
		put_name(c, span->slice->category);
	}
	PUT(c, "\"");
	put_arguments(c, span);
}

/* ---- arrows ---- */

/* An arrow starts where its slice starts and arrives where the other starts, or, if that was waiting already, inside it
 * at the time of sending. Viewers sort events by time and keep the order of the file for equal times: an arrival that
 * stands before its start in the file comes a nanosecond later if the slice has room for it. */
static uint64_t arrival(const lk_trace_plan *plan, const lk_trace_arrow *arrow) {
	const lk_trace_span *to = &plan->spans[arrow->to];
	uint64_t sent = lk_trace_ns(plan, plan->spans[arrow->from].start_ps);
	uint64_t start = lk_trace_ns(plan, to->start_ps), end = lk_trace_ns(plan, to->end_ps);
	if (start > sent) return start;
	return arrow->to < arrow->from && end >= sent + 2 ? sent + 1 : sent;
}

static void put_arrow_end(struct chrome *c, bool sends, uint32_t id, uint64_t ns) {
	begin_event(c);
	if (sends) PUT(c, "{\"ph\":\"s\",");
	else PUT(c, "{\"ph\":\"f\",\"bp\":\"e\",");
	PUT(c, "\"cat\":\"flow\",\"name\":\"message\",\"id\":");
	put_unsigned(c, (uint64_t)id + 1);
	PUT(c, ",");
	lk_trace_put(c->out, c->prefix, c->prefix_length);
	put_us(c, ns);
	PUT(c, "}");
}

/* They follow their slice: at its start it is then the innermost open one, to which viewers bind them. */
static void put_arrows(struct chrome *c, size_t span) {
	const lk_trace_plan *plan = c->plan;
	for (uint32_t i = plan->out_first[span]; i < plan->out_first[span + 1]; i++)
		put_arrow_end(c, true, i, lk_trace_ns(plan, plan->spans[span].start_ps));
	for (uint32_t i = plan->in_first[span]; i < plan->in_first[span + 1]; i++)
		put_arrow_end(c, false, plan->in_arrows[i], arrival(plan, &plan->arrows[plan->in_arrows[i]]));
}

static void put_point(struct chrome *c, const lk_trace_point *point) {
	begin_event(c);
	PUT(c, "{\"ph\":\"C\",\"pid\":");
	put_integer(c, c->plan->processes.at[point->process].pid);
	PUT(c, ",\"ts\":");
	put_us(c, lk_trace_ns(c->plan, point->counter->time_ps));
	PUT(c, ",\"name\":\"");
	put_name(c, point->counter->name);
	PUT(c, "\",\"args\":{\"bytes\":");
	put_real(c, point->counter->value);
	PUT(c, "}}");
}

static void put_events(struct chrome *c) {
	const lk_trace_plan *plan = c->plan;
	PUT(c, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"generator\":\"lockstep\",\"origin_ps\":");
	put_integer(c, plan->origin_ps);
	PUT(c, "},\"traceEvents\":[\n");
	put_metadata(c);
	for (size_t i = 0; i < plan->span_count && c->out->status == LK_OK; i++) {
		if (!i || plan->spans[i].track != plan->spans[i - 1].track) begin_track(c, plan->spans[i].track);
		put_slice(c, &plan->spans[i]);
		if (plan->out_first) put_arrows(c, i);
	}
	for (size_t i = 0; i < plan->point_count && c->out->status == LK_OK; i++) put_point(c, &plan->points[i]);
	PUT(c, "\n]}\n");
}

lk_status lk_trace_chrome(const lk_trace_plan *plan, lk_trace_out *out) {
	struct chrome c = {.plan = plan, .out = out};
	c.names = LK_ARRAY(&c.arena, struct escaped, lk_intern_count(plan->timeline->names));
	if (!c.names) return lk_oom(out->err);
	put_events(&c);
	lk_arena_free(&c.arena);
	return out->status;
}
