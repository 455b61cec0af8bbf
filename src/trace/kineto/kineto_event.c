/* kineto_event.c: reads one event of a JSON trace. Keys may come in any order; of a duplicate key
 * the last counts, but the first category decides what is skipped. As soon as `ph` and `cat` show
 * that an event is not needed, the rest of it is not read. */
#include "trace/kineto/kineto_internal.h"

#include <ctype.h>

typedef enum how { PHASE, CATEGORY, TEXT, TIME, WHOLE, PLACE, VALUE, ARGUMENTS, NESTED } how;

struct key {
	const char *name;
	uint8_t length, how;
	uint16_t where; /* offset in lk_kineto_fields */
};

#define KEY(name, how, field) \
	{ name, sizeof name - 1, how, offsetof(lk_kineto_fields, field) }

static const struct key event_keys[] = {
	KEY("ph", PHASE, ph),       KEY("cat", CATEGORY, kind),   KEY("name", TEXT, name),
	KEY("pid", PLACE, process), KEY("tid", PLACE, thread),    KEY("ts", TIME, start_ns),
	KEY("dur", TIME, dur_ns),   KEY("args", ARGUMENTS, name), KEY("traceEvents", NESTED, name),
};

static const struct key argument_keys[] = {
	KEY("correlation", WHOLE, correlation),
	KEY("Record function id", WHOLE, record),
	KEY("stream", WHOLE, stream),
	KEY("device", WHOLE, device),
	KEY("bytes", WHOLE, bytes),
	KEY("Input Dims", VALUE, dims),
	KEY("Input dims", VALUE, dims),
	KEY("Input type", VALUE, types),
	KEY("cuda_sync_kind", TEXT, sync_kind),
	KEY("wait_on_stream", WHOLE, wait_stream),
	KEY("wait_on_cuda_event_record_corr_id", WHOLE, wait_record),
	KEY("Collective name", TEXT, collective),
	KEY("In msg nelems", WHOLE, in_elements),
	KEY("Out msg nelems", WHOLE, out_elements),
	KEY("Group size", WHOLE, group_size),
	KEY("dtype", TEXT, dtype),
	KEY("Process Group Name", TEXT, group),
	KEY("Process Group Description", TEXT, group_text),
	KEY("Process Group Ranks", TEXT, ranks),
	KEY("Src Rank", WHOLE, source),
	KEY("Dst Rank", WHOLE, target),
	KEY("Concrete Inputs", VALUE, values),
	KEY("Sequence number", WHOLE, sequence),
	KEY("Fwd thread id", WHOLE, forward_thread),
	KEY("name", TEXT, label),
};

/* `where` is the category's kind. Old files write Operator, Kernel, Runtime: lower case matches
 * both. */
static const struct key categories[] = {
#define CATEGORY_OF(name, kind) \
	{ name, sizeof name - 1, CATEGORY, kind }
	CATEGORY_OF("cpu_op", LK_EVENT_OP),
	CATEGORY_OF("operator", LK_EVENT_OP),
	CATEGORY_OF("user_annotation", LK_EVENT_NOTE),
	CATEGORY_OF("cuda_runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("cuda_driver", LK_EVENT_RUNTIME),
	CATEGORY_OF("runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("hip_runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("xpu_runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("privateuse1_runtime", LK_EVENT_RUNTIME),
	CATEGORY_OF("kernel", LK_EVENT_KERNEL),
	CATEGORY_OF("gpu_memcpy", LK_EVENT_MEMCPY),
	CATEGORY_OF("memcpy", LK_EVENT_MEMCPY),
	CATEGORY_OF("gpu_memset", LK_EVENT_MEMSET),
	CATEGORY_OF("memset", LK_EVENT_MEMSET),
	CATEGORY_OF("cuda_sync", LK_EVENT_SYNC),
	CATEGORY_OF("mtia_runtime", LK_KINETO_MTIA),
	CATEGORY_OF("mtia_ccp_events", LK_KINETO_MTIA),
	CATEGORY_OF("mtia_insight", LK_KINETO_MTIA),
	/* Frequent categories that are not needed; unknown ones are not either. */
	CATEGORY_OF("python_function", LK_KINETO_PYTHON),
	CATEGORY_OF("ac2g", LK_KINETO_USELESS),
	CATEGORY_OF("fwdbwd", LK_KINETO_USELESS),
	CATEGORY_OF("gpu_user_annotation", LK_KINETO_USELESS),
	CATEGORY_OF("cpu_instant_event", LK_KINETO_USELESS),
	CATEGORY_OF("Trace", LK_KINETO_USELESS),
};

/* ---- keys by hash ---- */

/* The first 8 bytes of a text. They must be readable, which the window's pad ensures. */
static inline uint64_t event_word_of(const char *text, size_t length) {
	uint64_t word;
	memcpy(&word, text, sizeof word);
	return length < 8 ? word & ((UINT64_C(1) << 8 * length) - 1) : word;
}

static inline size_t event_hash_of(uint64_t word, size_t length) {
	return (word ^ length * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93) >> 40;
}

static void event_put(lk_key_slot *slots, size_t mask, const struct key *keys, size_t count) {
	for (size_t i = 0; i < count; i++) {
		char text[64] = "";
		memcpy(text, keys[i].name, keys[i].length);
		uint64_t word = event_word_of(text, keys[i].length);
		size_t at = event_hash_of(word, keys[i].length) & mask;
		while (slots[at].number) at = (at + 1) & mask;
		slots[at] = (lk_key_slot){word, keys[i].length, (uint8_t)(i + 1)};
	}
}

static inline int event_find(const lk_key_slot *slots, size_t mask, const struct key *keys,
                             const char *text, size_t length) {
	uint64_t word = event_word_of(text, length);
	for (size_t at = event_hash_of(word, length) & mask; slots[at].number; at = (at + 1) & mask) {
		if (slots[at].word != word || slots[at].length != length) continue;
		int i = slots[at].number - 1;
		if (length <= 8 || memcmp(keys[i].name + 8, text + 8, length - 8) == 0) return i;
	}
	return -1;
}

/* Find a key with escapes: no profiler writes one, but it is valid JSON. */
static __attribute__((noinline)) int find_escaped(const lk_key_slot *slots, size_t mask,
                                                  const struct key *keys, lk_slice text) {
	char plain[64] = "";
	size_t length = lk_slice_text(text, plain, sizeof plain - 8);
	return event_find(slots, mask, keys, plain, length);
}

static inline int event_find_slice(const lk_key_slot *slots, size_t mask, const struct key *keys,
                                   lk_slice text) {
	return text.plain ? event_find(slots, mask, keys, text.at, text.length)
	                  : find_escaped(slots, mask, keys, text);
}

#define COUNT(array)            (sizeof(array) / sizeof *(array))
#define FIND(slots, keys, text) event_find_slice(slots, COUNT(slots) - 1, keys, text)

void lk_keys_open(lk_keys *keys) {
	memset(keys, 0, sizeof *keys);
	event_put(keys->event, COUNT(keys->event) - 1, event_keys, COUNT(event_keys));
	event_put(keys->args, COUNT(keys->args) - 1, argument_keys, COUNT(argument_keys));
	event_put(keys->category, COUNT(keys->category) - 1, categories, COUNT(categories));
}

bool lk_keys_event(const lk_keys *keys, const char *text, size_t length) {
	return FIND(keys->event, event_keys, ((lk_slice){text, (uint32_t)length, true})) >= 0;
}

bool lk_keys_begin(const lk_keys *keys, const char *p) {
	const char *end = p + LK_LOOKAHEAD;
	for (p++; p < end && (unsigned char)*p <= ' '; p++) {
	}
	if (*p != '"') return false;
	const char *key = ++p;
	while (p < end && *p != '"') p++;
	return p < end && lk_keys_event(keys, key, (size_t)(p - key));
}

static uint8_t event_kind_of(const lk_keys *keys, lk_slice category) {
	int i = FIND(keys->category, categories, category);
	if (i < 0) {
		char small[40] = "";
		size_t length = lk_slice_text(category, small, sizeof small - 8);
		for (size_t j = 0; j < length; j++) small[j] = (char)tolower((unsigned char)small[j]);
		i = FIND(keys->category, categories, ((lk_slice){small, (uint32_t)length, true}));
	}
	return i < 0 ? LK_KINETO_USELESS : (uint8_t)categories[i].where;
}

/* ---- values ---- */

struct cursor {
	lk_kineto_fields *f;
	const lk_keys *keys;
	const char *p, *end;
	lk_event_state state; /* why a function returned false */
};

static bool event_stop(struct cursor *cursor, lk_event_state state) {
	cursor->state = state;
	return false;
}

static bool event_wrong(struct cursor *cursor) {
	return event_stop(cursor, cursor->p >= cursor->end ? LK_EVENT_SHORT : LK_EVENT_DAMAGED);
}

/* Mostly there is no white space or one byte; indentation comes next. */
static inline void event_skip_space(struct cursor *cursor) {
	const char *p = cursor->p;
	if ((unsigned char)*p > ' ') return;
	if ((unsigned char)*++p <= ' ') p = lk_space_stop(p, cursor->end);
	cursor->p = p < cursor->end ? p : cursor->end;
}

/* Read the text whose opening quote is at the cursor. */
static inline bool event_read_text(struct cursor *cursor, lk_slice *out) {
	const char *first = cursor->p + 1, *p = first;
	bool plain = true;
	for (;; plain = false) {
		p = lk_text_stop(p);
		if (p >= cursor->end) return event_stop(cursor, LK_EVENT_SHORT);
		if (*p == '"') break;
		if (*p == '\\') p++;
		else cursor->f->controls = true;
		p++;
	}
	*out = (lk_slice){first, (uint32_t)(p - first), plain};
	cursor->p = p + 1;
	return true;
}

/* The next byte that ends a number or word: white space, a separator, a quote. */
static inline const char *bare_stop(const char *p) {
#ifdef __SSE2__
	for (;; p += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p), space = _mm_set1_epi8(' ');
		__m128i bracket = _mm_or_si128(x, space); /* ']' as '}' */
		__m128i stop = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8(',')),
		                            _mm_cmpeq_epi8(bracket, _mm_set1_epi8('}')));
		stop = _mm_or_si128(stop, _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')),
		                                       _mm_cmpeq_epi8(x, _mm_set1_epi8(':'))));
		stop = _mm_or_si128(stop, _mm_cmpeq_epi8(_mm_min_epu8(x, space), x));
		unsigned mask = (unsigned)_mm_movemask_epi8(stop);
		if (mask) return p + __builtin_ctz(mask);
	}
#else
	while ((unsigned char)*p > ' ' && *p != ',' && (*p | 0x20) != '}' && *p != '"' && *p != ':')
		p++;
	return p;
#endif
}

/* Read a value that is neither text nor list, up to the next separator. */
static inline bool read_bare(struct cursor *cursor, lk_slice *out) {
	const char *first = cursor->p;
	cursor->p = bare_stop(first);
	*out = (lk_slice){first, (uint32_t)(cursor->p - first), true};
	if (cursor->p >= cursor->end) return event_stop(cursor, LK_EVENT_SHORT);
	return cursor->p > first || event_stop(cursor, LK_EVENT_DAMAGED);
}

static bool event_read_list(struct cursor *cursor, lk_slice *out) {
	lk_skip skip = {0};
	const char *first = cursor->p;
	lk_skip_state state = lk_skip_on(&skip, &cursor->p, cursor->end);
	if (state != LK_SKIP_DONE)
		return event_stop(cursor, state == LK_SKIP_DEEP ? LK_EVENT_DEEP : LK_EVENT_SHORT);
	*out = (lk_slice){first, (uint32_t)(cursor->p - first), true};
	return true;
}

static inline bool event_read_value(struct cursor *cursor, lk_slice *out) {
	if (*cursor->p == '"') return event_read_text(cursor, out);
	return *cursor->p == '{' || *cursor->p == '[' ? event_read_list(cursor, out)
	                                              : read_bare(cursor, out);
}

/* Read a number, also in quotes; other values leave the field unchanged. */
static bool event_read_number(struct cursor *cursor, lk_slice *out) {
	bool list = *cursor->p == '{' || *cursor->p == '[';
	if (!event_read_value(cursor, out)) return false;
	if (list) out->length = 0;
	char first = out->length ? *out->at : 'n';
	if (first == 'N' || first == 'I' || (first == '-' && out->length > 1 && out->at[1] == 'I'))
		cursor->f->not_finite = true;
	return true;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* Parse the digits at the start of the eight bytes at `p`: returns their count, and their value.
 * Digits are counted and joined (to pairs, fours, eight) in one word, without a branch, because the
 * length of a number is unpredictable. */
static inline unsigned some_digits(const char *p, uint64_t *value) {
	uint64_t bytes;
	memcpy(&bytes, p, sizeof bytes);
	bytes ^= UINT64_C(0x3030303030303030); /* digits become 0 to 9 */
	uint64_t others =
		(((bytes & UINT64_C(0x7f7f7f7f7f7f7f7f)) + UINT64_C(0x7676767676767676)) | bytes) &
		UINT64_C(0x8080808080808080);
	unsigned count = others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
	bytes = count ? bytes << (64 - 8 * count) : 0; /* as if preceded by zeros */
	bytes = (bytes * 10 + (bytes >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
	bytes = (bytes * 100 + (bytes >> 16)) & UINT64_C(0x0000ffff0000ffff);
	*value = (bytes * 10000 + (bytes >> 32)) & UINT32_MAX;
	return count;
}
#else
static inline unsigned some_digits(const char *p, uint64_t *value) {
	unsigned count = 0;
	*value = 0;
	for (unsigned digit; count < 8 && (digit = (unsigned)((unsigned char)p[count] - '0')) < 10;
	     count++)
		*value = *value * 10 + digit;
	return count;
}
#endif

static inline const char *read_digits(const char *p, int64_t *value) {
	static const uint32_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
	uint64_t read = (uint64_t)*value, more; /* may overflow; callers check the number of digits */
	unsigned count;
	do {
		count = some_digits(p, &more);
		read = read * tens[count] + more;
		p += count;
	} while (count == 8);
	*value = (int64_t)read;
	return p;
}

/* Whether a number ends at `p`, and not because the window ends. */
static inline bool number_ends(const struct cursor *cursor, const char *p) {
	return (*p == ',' || *p == '}' || *p == ']' || (unsigned char)*p <= ' ') && p < cursor->end;
}

static bool read_whole_slowly(struct cursor *cursor, int64_t *out) {
	lk_slice slice;
	if (!event_read_number(cursor, &slice)) return false;
	int64_t value = lk_slice_whole(slice);
	if (value != LK_UNSAID) *out = value;
	return true;
}

/* Read plain digits, as nearly all numbers are, in place; everything else takes the slow path. */
static inline bool event_read_whole(struct cursor *cursor, int64_t *out) {
	const char *first = cursor->p + (*cursor->p == '-');
	int64_t value = 0;
	const char *p = read_digits(first, &value);
	if (p == first || p - first > 18 || !number_ends(cursor, p))
		return read_whole_slowly(cursor, out);
	*out = first > cursor->p ? -value : value;
	cursor->p = p;
	return true;
}

static bool read_time_slowly(struct cursor *cursor, int64_t *out) {
	lk_slice slice;
	if (!event_read_number(cursor, &slice)) return false;
	if (slice.length &&
	    (unsigned char)(slice.at[slice.at[0] == '-' && slice.length > 1] - '0') < 10)
		*out = lk_slice_nanoseconds(slice);
	return true;
}

/* Read microseconds with at most three decimals. */
static inline bool read_time(struct cursor *cursor, int64_t *out) {
	static const int thousandths[] = {1000, 100, 10, 1};
	int64_t value = 0;
	const char *p = read_digits(cursor->p, &value);
	ptrdiff_t digits = p - cursor->p, decimals = 0;
	if (*p == '.') {
		const char *point = p + 1;
		p = read_digits(point, &value);
		decimals = p - point;
	}
	if (!digits || digits > 16 || decimals > 3 || !number_ends(cursor, p))
		return read_time_slowly(cursor, out);
	uint64_t ns = (uint64_t)value * (uint64_t)thousandths[decimals]; /* 19 digits at most */
	*out = ns < (uint64_t)LK_MOST_NS ? (int64_t)ns : LK_MOST_NS;
	cursor->p = p;
	return true;
}

/* Read a process or thread: a number, or a text, whose slice follows the number in the fields. */
static bool read_place(struct cursor *cursor, int64_t *out, lk_slice *text) {
	if (*cursor->p != '"') return event_read_whole(cursor, out);
	return event_read_text(cursor, text);
}

/* ---- members ---- */

static bool read_phase(struct cursor *cursor, char *out) {
	lk_slice slice;
	char plain[4];
	if (!event_read_value(cursor, &slice)) return false;
	*out = slice.length == 1 ? *slice.at : '?';
	if (!slice.plain && lk_slice_text(slice, plain, sizeof plain) == 1) *out = plain[0];
	return true;
}

/* Python functions are kept if they are modules, or their names tell what the host does. */
static void judge_function(lk_kineto_fields *fields) {
	static const char module[] = "nn.Module: ";
	if (fields->name.length >= sizeof module &&
	    !memcmp(fields->name.at, module, sizeof module - 1)) {
		fields->kind = LK_KINETO_MODULE;
		return;
	}
	bool kept = lk_python_work(fields->name.at, fields->name.length) != 0;
	fields->kind = kept ? LK_EVENT_NOTE : LK_KINETO_USELESS;
}

/* Whether phase, category and name so far rule the event out. Metadata name lanes; B and E are a
 * call and its return, and the E has no category. */
static bool useless(lk_kineto_fields *fields) {
	if (fields->kind == LK_KINETO_PYTHON && fields->name.at) judge_function(fields);
	if (fields->ph == 'X') return fields->kind >= LK_KINETO_USELESS;
	return fields->ph && fields->ph != 'M' && fields->ph != 'B' && fields->ph != 'E';
}

/* PyTorch 1.8 to 1.10 write a profiler's step as an operator. */
static bool event_is_step(const lk_kineto_fields *fields) {
	static const char step[] = "ProfilerStep#";
	char begin[sizeof step];
	if (fields->kind != LK_EVENT_OP || fields->name.length < sizeof step - 1) return false;
	if (fields->name.plain && *fields->name.at != *step) return false; /* most operators */
	(void)lk_slice_text(fields->name, begin, sizeof begin);
	return memcmp(begin, step, sizeof begin) == 0;
}

static bool read_arguments(struct cursor *cursor);

static bool event_read_member(struct cursor *cursor, const struct key *key) {
	lk_slice slice;
	void *where = (char *)cursor->f + key->where;
	switch ((how)key->how) {
	case PHASE: return read_phase(cursor, where);
	case CATEGORY:
		if (!event_read_value(cursor, &slice)) return false;
		if (cursor->f->kind == LK_KINETO_UNKNOWN)
			cursor->f->kind = event_kind_of(cursor->keys, slice);
		return true;
	case TEXT:
	case VALUE: return event_read_value(cursor, where);
	case TIME: return read_time(cursor, where);
	case WHOLE: return event_read_whole(cursor, where);
	case PLACE:
		return read_place(cursor, where,
		                  where == &cursor->f->thread ? &cursor->f->thread_text
		                                              : &cursor->f->process_text);
	case ARGUMENTS:
		return *cursor->p == '{' ? read_arguments(cursor) : event_read_value(cursor, &slice);
	case NESTED: break;
	}
	return true;
}

/* Move to the next key and after its colon. False with DONE: the object has ended. */
static inline bool next_key(struct cursor *cursor, bool first, lk_slice *out) {
	event_skip_space(cursor);
	if (!first) {
		if (*cursor->p == ',') {
			cursor->p++;
			event_skip_space(cursor);
			if (*cursor->p == '}') cursor->f->comma = true;
		} else if (*cursor->p != '}') return event_wrong(cursor);
	}
	if (*cursor->p == '}') {
		cursor->p++;
		return event_stop(cursor, LK_EVENT_DONE);
	}
	if (*cursor->p != '"') return event_wrong(cursor);
	if (!event_read_text(cursor, out)) return false;
	event_skip_space(cursor);
	if (*cursor->p != ':') return event_wrong(cursor);
	cursor->p++;
	event_skip_space(cursor);
	return true;
}

static inline void note_seen(struct cursor *cursor, uint64_t *seen, int i) {
	if (*seen >> i & 1) cursor->f->twice = true;
	*seen |= UINT64_C(1) << i;
}

static bool read_arguments(struct cursor *cursor) {
	lk_slice name, unneeded;
	cursor->p++;
	for (bool first = true; next_key(cursor, first, &name); first = false) {
		int i = FIND(cursor->keys->args, argument_keys, name);
		if (i >= 0) note_seen(cursor, &cursor->f->seen_args, i);
		if (!(i < 0 ? event_read_value(cursor, &unneeded)
		            : event_read_member(cursor, &argument_keys[i])))
			return false;
	}
	return cursor->state == LK_EVENT_DONE;
}

lk_event_state lk_kineto_event(lk_kineto_fields *fields, const lk_keys *keys, const char **at,
                               const char *end, int *depth) {
	struct cursor c = {.f = fields, .keys = keys, .p = *at + 1, .end = end};
	lk_slice name, unneeded;
	*fields = (lk_kineto_fields){.kind = LK_KINETO_UNKNOWN,
	                             .start_ns = LK_UNSAID,
	                             .dur_ns = LK_UNSAID,
	                             .process = -1,
	                             .thread = -1,
	                             .stream = -1,
	                             .device = -1,
	                             .bytes = -1,
	                             .wait_stream = -1,
	                             .in_elements = -1,
	                             .out_elements = -1,
	                             .source = -1,
	                             .sequence = -1,
	                             .target = -1};
	for (bool first = true;; first = false) {
		const char *before = c.p;
		if (!next_key(&c, first, &name)) break;
		int i = FIND(keys->event, event_keys, name);
		if (i >= 0) note_seen(&c, &fields->seen, i);
		if (i >= 0 && event_keys[i].how == NESTED) {
			*at = before;
			return LK_EVENT_NESTED;
		}
		if (!(i < 0 ? event_read_value(&c, &unneeded) : event_read_member(&c, &event_keys[i])))
			break;
		if (i >= 0 && event_keys[i].how <= TEXT && useless(fields)) {
			*at = c.p;
			*depth = 1;
			return LK_EVENT_USELESS;
		}
	}
	if (event_is_step(fields)) fields->kind = LK_EVENT_NOTE;
	if (c.state == LK_EVENT_DONE || c.state == LK_EVENT_DAMAGED) *at = c.p;
	return c.state;
}
