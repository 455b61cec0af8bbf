/* kineto_event.c: reads one event of a JSON trace. Keys may come in any order; of a key that comes twice the last counts,
 * but the first category decides what is skipped. As soon as `ph` and `cat` tell that an event is of no use, the rest of
 * it is not looked at. */
#include "trace/kineto_event.h"

#include <ctype.h>

typedef enum how { PHASE, CATEGORY, TEXT, TIME, WHOLE, PLACE, THREE, VALUE, ARGUMENTS, NESTED } how;

typedef struct key {
	const char *name;
	uint8_t length, how;
	uint16_t where;          /* offset in lk_kineto_fields */
} key;

#define KEY(name, how, field) {name, sizeof name - 1, how, offsetof(lk_kineto_fields, field)}

static const key event_keys[] = {
	KEY("ph", PHASE, ph),        KEY("cat", CATEGORY, kind),   KEY("name", TEXT, name),
	KEY("pid", PLACE, process),  KEY("tid", PLACE, thread),    KEY("ts", TIME, start_ns),
	KEY("dur", TIME, dur_ns),    KEY("args", ARGUMENTS, name), KEY("traceEvents", NESTED, name),
};

static const key argument_keys[] = {
	KEY("External id", WHOLE, external),        KEY("external id", WHOLE, external),
	KEY("correlation", WHOLE, correlation),     KEY("Record function id", WHOLE, record),
	KEY("Sequence number", WHOLE, sequence),    KEY("stream", WHOLE, stream),
	KEY("device", WHOLE, device),               KEY("bytes", WHOLE, bytes),
	KEY("grid", THREE, grid),                   KEY("block", THREE, block),
	KEY("Input Dims", VALUE, dims),             KEY("Input dims", VALUE, dims),
	KEY("Input type", VALUE, types),            KEY("cuda_sync_kind", TEXT, sync_kind),
	KEY("wait_on_stream", WHOLE, wait_stream),  KEY("wait_on_cuda_event_record_corr_id", WHOLE, wait_record),
	KEY("Collective name", TEXT, collective),   KEY("In msg nelems", WHOLE, in_elements),
	KEY("Out msg nelems", WHOLE, out_elements), KEY("Group size", WHOLE, group_size),
	KEY("dtype", TEXT, dtype),                  KEY("Process Group Name", TEXT, group),
	KEY("Process Group Description", TEXT, group_text), KEY("Process Group Ranks", TEXT, ranks),
	KEY("Src Rank", WHOLE, source),             KEY("Dst Rank", WHOLE, target),
	KEY("name", TEXT, label),
};

/* `where` is what the category means. Old files write Operator, Kernel, Runtime: small letters stand for both. */
static const key categories[] = {
#define CATEGORY_OF(name, kind) {name, sizeof name - 1, CATEGORY, kind}
	CATEGORY_OF("cpu_op", LK_EVENT_OP),                CATEGORY_OF("operator", LK_EVENT_OP),
	CATEGORY_OF("user_annotation", LK_EVENT_NOTE),     CATEGORY_OF("cuda_runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("cuda_driver", LK_EVENT_RUNTIME),      CATEGORY_OF("runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("hip_runtime", LK_EVENT_RUNTIME),      CATEGORY_OF("xpu_runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("privateuse1_runtime", LK_EVENT_RUNTIME), CATEGORY_OF("kernel", LK_EVENT_KERNEL),
	CATEGORY_OF("gpu_memcpy", LK_EVENT_MEMCPY),        CATEGORY_OF("memcpy", LK_EVENT_MEMCPY),
	CATEGORY_OF("gpu_memset", LK_EVENT_MEMSET),        CATEGORY_OF("memset", LK_EVENT_MEMSET),
	CATEGORY_OF("cuda_sync", LK_EVENT_SYNC),
};

/* ---- keys by hash ---- */

/* The text must have 8 readable bytes, which the window's pad sees to. */
static unsigned hash_of(const char *text, size_t length) {
	uint64_t word;
	memcpy(&word, text, sizeof word);
	if (length < 8) word &= (UINT64_C(1) << 8 * length) - 1;
	return (unsigned)((word ^ length * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93) >> 40);
}

static void put(uint8_t *slots, unsigned mask, const key *keys, size_t count) {
	for (size_t i = 0; i < count; i++) {
		char text[64] = "";
		memcpy(text, keys[i].name, keys[i].length);
		unsigned at = hash_of(text, keys[i].length) & mask;
		while (slots[at]) at = (at + 1) & mask;
		slots[at] = (uint8_t)(i + 1);
	}
}

static int find(const uint8_t *slots, unsigned mask, const key *keys, lk_slice word) {
	char plain[64] = "";
	const char *text = word.at;
	size_t length = word.length;
	if (!word.plain) text = plain, length = lk_slice_text(word, plain, sizeof plain);
	for (unsigned at = hash_of(text, length) & mask; slots[at]; at = (at + 1) & mask) {
		const key *k = &keys[slots[at] - 1];
		if (k->length == length && memcmp(k->name, text, length) == 0) return slots[at] - 1;
	}
	return -1;
}

#define COUNT(keys) (sizeof(keys) / sizeof *(keys))
#define FIND(slots, keys, word) find(slots, sizeof(slots) - 1, keys, word)

void lk_keys_open(lk_keys *k) {
	memset(k, 0, sizeof *k);
	put(k->event, sizeof k->event - 1, event_keys, COUNT(event_keys));
	put(k->args, sizeof k->args - 1, argument_keys, COUNT(argument_keys));
	put(k->category, sizeof k->category - 1, categories, COUNT(categories));
}

bool lk_keys_event(const lk_keys *k, const char *text, size_t length) {
	return FIND(k->event, event_keys, ((lk_slice){text, (uint32_t)length, true})) >= 0;
}

static uint8_t kind_of(const lk_keys *k, lk_slice category) {
	int i = FIND(k->category, categories, category);
	char small[32] = "";
	if (i < 0 && category.length < sizeof small - 8) {
		for (size_t j = 0; j < category.length; j++) small[j] = (char)tolower((unsigned char)category.at[j]);
		i = FIND(k->category, categories, ((lk_slice){small, category.length, true}));
	}
	return i < 0 ? LK_KINETO_USELESS : (uint8_t)categories[i].where;
}

/* ---- values ---- */

typedef struct cursor {
	lk_kineto_fields *f;
	const lk_keys *keys;
	const char *p, *end;
	lk_event_state state;    /* why a function returned false */
} cursor;

static bool stop(cursor *c, lk_event_state state) {
	c->state = state;
	return false;
}

static bool wrong(cursor *c) {
	return stop(c, c->p >= c->end ? LK_EVENT_SHORT : LK_EVENT_DAMAGED);
}

static inline void skip_space(cursor *c) {
	while ((unsigned char)*c->p <= ' ' && c->p < c->end) c->p++;
}

/* The text whose opening quote is at the cursor. */
static inline bool read_text(cursor *c, lk_slice *out) {
	const char *first = c->p + 1, *p = first;
	bool plain = true;
	for (;; plain = false) {
		p = lk_text_stop(p);
		if (p >= c->end) return stop(c, LK_EVENT_SHORT);
		if (*p == '"') break;
		if (*p == '\\') p++;
		else c->f->controls = true;
		p++;
	}
	*out = (lk_slice){first, (uint32_t)(p - first), plain};
	c->p = p + 1;
	return true;
}

/* What is neither text nor list: up to the next separator. */
static inline bool read_bare(cursor *c, lk_slice *out) {
	const char *first = c->p;
	while ((unsigned char)*c->p > ' ' && *c->p != ',' && *c->p != '}' && *c->p != ']' && *c->p != '"' && *c->p != ':') c->p++;
	*out = (lk_slice){first, (uint32_t)(c->p - first), true};
	if (c->p >= c->end) return stop(c, LK_EVENT_SHORT);
	return c->p > first || stop(c, LK_EVENT_DAMAGED);
}

static bool read_list(cursor *c, lk_slice *out) {
	lk_skip skip = {0};
	const char *first = c->p;
	lk_skip_state state = lk_skip_on(&skip, &c->p, c->end);
	if (state != LK_SKIP_DONE) return stop(c, state == LK_SKIP_DEEP ? LK_EVENT_DEEP : LK_EVENT_SHORT);
	*out = (lk_slice){first, (uint32_t)(c->p - first), true};
	return true;
}

static inline bool read_value(cursor *c, lk_slice *out) {
	if (*c->p == '"') return read_text(c, out);
	return *c->p == '{' || *c->p == '[' ? read_list(c, out) : read_bare(c, out);
}

/* A number, also in quotes; what is none leaves the field alone. */
static bool read_number(cursor *c, lk_slice *out) {
	bool list = *c->p == '{' || *c->p == '[';
	if (!read_value(c, out)) return false;
	if (list) out->length = 0;
	char first = out->length ? *out->at : 'n';
	if (first == 'N' || first == 'I' || (first == '-' && out->length > 1 && out->at[1] == 'I')) c->f->not_finite = true;
	return true;
}

static bool read_whole(cursor *c, int64_t *out) {
	lk_slice slice;
	if (!read_number(c, &slice)) return false;
	int64_t value = lk_slice_whole(slice);
	if (value != LK_UNSAID) *out = value;
	return true;
}

static bool read_time(cursor *c, int64_t *out) {
	lk_slice slice;
	if (!read_number(c, &slice)) return false;
	if (slice.length && (unsigned char)(slice.at[slice.at[0] == '-' && slice.length > 1] - '0') < 10)
		*out = lk_slice_nanoseconds(slice);
	return true;
}

/* A process or thread: a number, or a text, whose slice follows the number in the fields. */
static bool read_place(cursor *c, int64_t *out, lk_slice *text) {
	if (*c->p != '"') return read_whole(c, out);
	return read_text(c, text);
}

static bool read_three(cursor *c, int64_t *out) {
	lk_slice list;
	bool is_list = *c->p == '[';
	if (!read_value(c, &list)) return false;
	if (!is_list) return true;
	double product = 1;
	const char *p = list.at + 1, *end = list.at + list.length;
	for (int i = 0; i < 3; i++) {
		while (p < end && ((unsigned char)*p <= ' ' || *p == ',')) p++;
		int64_t n = lk_slice_whole((lk_slice){p, (uint32_t)(end - p), true});
		while (p < end && *p != ',') p++;
		product *= n > 0 ? (double)n : 0;
	}
	*out = product < 4e9 ? (int64_t)product : 4000000000;
	return true;
}

/* ---- members ---- */

/* Whether the phase and category so far tell that nothing is kept of an event. Metadata name lanes; B and E stand for a
 * call and its return, and the E has no category. */
static bool useless(const lk_kineto_fields *f) {
	if (f->ph == 'X') return f->kind == LK_KINETO_USELESS;
	return f->ph && f->ph != 'M' && f->ph != 'B' && f->ph != 'E';
}

static bool read_arguments(cursor *c);

static bool read_member(cursor *c, const key *k) {
	lk_slice slice;
	void *where = (char *)c->f + k->where;
	switch ((how)k->how) {
	case PHASE:
		if (!read_value(c, &slice)) return false;
		c->f->ph = slice.length == 1 ? *slice.at : '?';
		return true;
	case CATEGORY:
		if (!read_value(c, &slice)) return false;
		if (c->f->kind == LK_KINETO_UNKNOWN) c->f->kind = kind_of(c->keys, slice);
		return true;
	case TEXT:
	case VALUE: return read_value(c, where);
	case TIME: return read_time(c, where);
	case WHOLE: return read_whole(c, where);
	case PLACE: return read_place(c, where, k->where == offsetof(lk_kineto_fields, thread) ? &c->f->thread_text : &c->f->process_text);
	case THREE: return read_three(c, where);
	case ARGUMENTS: return *c->p == '{' ? read_arguments(c) : read_value(c, &slice);
	case NESTED: break;
	}
	return true;
}

/* Moves to the next key and behind its colon. False with DONE: the object is over. */
static inline bool next_key(cursor *c, bool first, lk_slice *out) {
	skip_space(c);
	if (!first) {
		if (*c->p == ',') {
			c->p++;
			skip_space(c);
			if (*c->p == '}') c->f->comma = true;
		} else if (*c->p != '}') return wrong(c);
	}
	if (*c->p == '}') return c->p++, stop(c, LK_EVENT_DONE);
	if (*c->p != '"') return wrong(c);
	if (!read_text(c, out)) return false;
	skip_space(c);
	if (*c->p != ':') return wrong(c);
	c->p++;
	skip_space(c);
	return true;
}

static inline void note_seen(cursor *c, uint64_t *seen, int i) {
	if (*seen >> i & 1) c->f->twice = true;
	*seen |= UINT64_C(1) << i;
}

static bool read_arguments(cursor *c) {
	lk_slice name, unneeded;
	c->p++;
	for (bool first = true; next_key(c, first, &name); first = false) {
		int i = FIND(c->keys->args, argument_keys, name);
		if (i >= 0) note_seen(c, &c->f->seen_args, i);
		if (!(i < 0 ? read_value(c, &unneeded) : read_member(c, &argument_keys[i]))) return false;
	}
	return c->state == LK_EVENT_DONE;
}

lk_event_state lk_kineto_event(lk_kineto_fields *f, const lk_keys *keys, const char **at, const char *end, int *depth) {
	cursor c = {.f = f, .keys = keys, .p = *at + 1, .end = end};
	lk_slice name, unneeded;
	*f = (lk_kineto_fields){
		.kind = LK_KINETO_UNKNOWN, .start_ns = LK_UNSAID, .dur_ns = LK_UNSAID, .process = -1, .thread = -1, .sequence = -1,
		.stream = -1, .device = -1, .bytes = -1, .wait_stream = -1, .in_elements = -1, .out_elements = -1, .source = -1,
		.target = -1};
	for (bool first = true;; first = false) {
		const char *before = c.p;
		if (!next_key(&c, first, &name)) break;
		int i = FIND(keys->event, event_keys, name);
		if (i >= 0) note_seen(&c, &f->seen, i);
		if (i >= 0 && event_keys[i].how == NESTED) return *at = before, LK_EVENT_NESTED;
		if (!(i < 0 ? read_value(&c, &unneeded) : read_member(&c, &event_keys[i]))) break;
		if (i >= 0 && event_keys[i].how <= CATEGORY && useless(f)) return *at = c.p, *depth = 1, LK_EVENT_USELESS;
	}
	if (c.state == LK_EVENT_DONE) *at = c.p;
	else if (c.state == LK_EVENT_DAMAGED) *at = c.p;
	return c.state;
}
