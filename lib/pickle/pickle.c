/* pickle.c: the stack machine of Lib/pickletools.py, without its opcodes that import or call.
 *
 * A list or dict grows after it was pushed, and the memo may name it before, so both hold the same
 * box. What is put into a container is copied as it is at that moment: pickles complete a value
 * before they put it anywhere, unless it contains itself, and such a value could not be a tree. */
#include "pickle/pickle.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "base/vec.h"

enum {
	PROTO = 0x80,
	MEMO_GAP = 1 << 16, /* writers number the memo without gaps */
	LONGEST_INT = 256   /* bytes; a double has no value for more than 128 */
};

/* A list or dict that may still grow. */
struct box {
	lk_value value;
	size_t capacity;
	int depth;
};

struct slot {
	lk_value value;
	struct box *box; /* then the value is the box's */
	int depth;       /* of nested containers; 0 for other values */
	bool set;        /* of the memo */
};

struct machine {
	lk_arena *arena;
	const char *name;
	const unsigned char *bytes, *at, *end;
	const unsigned char *op; /* the current one */
	LK_VEC(struct slot) stack;
	LK_VEC(struct slot) memo;
	LK_VEC(size_t) marks; /* heights of the stack */
	lk_error *err;
};

bool lk_pickle_is(const void *head, size_t size) {
	const unsigned char *byte = head;
	return size >= 3 && byte[0] == PROTO && byte[1] >= 2 && byte[1] <= 5 && byte[2] != '\0';
}

/* ---- errors ---- */

static lk_status pickle_damaged(const struct machine *machine, const char *what) {
	char where[256];
	snprintf(where, sizeof where, "%.200s: byte %zu", machine->name,
	         (size_t)(machine->op - machine->bytes));
	lk_fail(machine->err, LK_ERR_INPUT, where, "the pickle %s", what);
	return lk_hint(machine->err, "write the file again; it may be cut off");
}

/* The opcodes that are refused, by what they would do. */
static const struct {
	unsigned char op;
	const char *does;
} refused[] = {
	{'c', "imports"},
	{0x93, "imports"},
	{'R', "calls a function"},
	{'i', "creates an object"},
	{'o', "creates an object"},
	{0x81, "creates an object"},
	{0x92, "creates an object"},
	{'b', "sets the state of an object"},
	{'P', "refers to an object outside of the file"},
	{'Q', "refers to an object outside of the file"},
	{0x82, "refers to the registry of extensions"},
	{0x83, "refers to the registry of extensions"},
	{0x84, "refers to the registry of extensions"},
	{0x8f, "holds a set"},
	{0x90, "holds a set"},
	{0x91, "holds a set"},
	{0x96, "holds a bytearray"},
	{0x97, "holds a buffer outside of the file"},
	{0x98, "holds a buffer outside of the file"},
};

static int name_length(const char *from, const char *to) {
	return to - from > 80 ? 80 : (int)(to - from);
}

/* What an import names: two lines, or two texts on the stack. */
static void imported_name(const struct machine *machine, lk_text *out) {
	size_t count = machine->stack.count;
	if (*machine->op == 0x93 && count > 1) {
		const lk_value *module = &machine->stack.at[count - 2].value,
					   *name = &machine->stack.at[count - 1].value;
		if (module->kind == LK_JSON_STRING && name->kind == LK_JSON_STRING)
			lk_text_add(out, " %.80s.%.80s", module->text, name->text);
		return;
	}
	if (*machine->op != 'c') return;
	const char *at = (const char *)machine->at, *end = (const char *)machine->end;
	const char *line = memchr(at, '\n', (size_t)(end - at));
	const char *next = line ? memchr(line + 1, '\n', (size_t)(end - line - 1)) : NULL;
	if (next)
		lk_text_add(out, " %.*s.%.*s", name_length(at, line), at, name_length(line + 1, next),
		            line + 1);
}

static lk_status refuse_op(const struct machine *machine) {
	char does[240], where[256];
	lk_text text = lk_text_begin(does, sizeof does);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (refused[i].op == *machine->op) lk_text_add(&text, "%s", refused[i].does);
	if (!text.used) {
		snprintf(does, sizeof does, "has the opcode 0x%02x, which no protocol from 2 to 5 has",
		         *machine->op);
		return pickle_damaged(machine, does);
	}
	imported_name(machine, &text);
	snprintf(where, sizeof where, "%.200s: byte %zu", machine->name,
	         (size_t)(machine->op - machine->bytes));
	lk_fail(machine->err, LK_ERR_INPUT, where, "the pickle %s", does);
	return lk_hint(machine->err, "only plain data is read: None, bool, int, float, str, bytes, "
	                             "list, tuple and dict; convert the rest before dumping it");
}

/* ---- bytes ---- */

/* `size` bytes, which are then behind the reader; NULL: there are not so many. */
static const unsigned char *take_bytes(struct machine *machine, uint64_t size) {
	if (size > (uint64_t)(machine->end - machine->at)) return NULL;
	const unsigned char *bytes = machine->at;
	machine->at += size;
	return bytes;
}

/* An unsigned number of `size` bytes, at most 8, the least first. */
static bool take_count(struct machine *machine, int size, uint64_t *out) {
	LK_ASSERT(size <= 8);
	const unsigned char *bytes = take_bytes(machine, (uint64_t)size);
	if (!bytes) return false;
	*out = 0;
	for (int i = size; i-- > 0;) *out = *out << 8 | bytes[i];
	return true;
}

static lk_status cut_off(const struct machine *machine) {
	return pickle_damaged(machine, "ends within a value");
}

/* ---- the stack ---- */

static size_t fence(const struct machine *machine) {
	return machine->marks.count ? *lk_last(&machine->marks) : 0;
}

static lk_status push_slot(struct machine *machine, struct slot slot) {
	if (!lk_push(&machine->stack)) return lk_oom(machine->err);
	*lk_last(&machine->stack) = slot;
	return LK_OK;
}

static lk_status push_kind(struct machine *machine, lk_json_token kind) {
	return push_slot(machine, (struct slot){.value.kind = kind});
}

static lk_status push_number(struct machine *machine, double number) {
	return push_slot(machine, (struct slot){.value = {.kind = LK_JSON_NUMBER, .number = number}});
}

static const lk_value *slot_value(const struct slot *slot) {
	return slot->box ? &slot->box->value : &slot->value;
}

static int slot_depth(const struct slot *slot) {
	return slot->box ? slot->box->depth : slot->depth;
}

/* ---- values ---- */

static lk_status push_text(struct machine *machine, int width) {
	static const char instead[] = "\xef\xbf\xbd";
	uint64_t size;
	const unsigned char *bytes;
	if (!take_count(machine, width, &size) || !(bytes = take_bytes(machine, size)))
		return cut_off(machine);
	size_t nuls = 0;
	for (size_t i = 0; i < size; i++) nuls += bytes[i] == '\0';
	char *text = lk_arena_alloc(machine->arena, size + nuls * (sizeof instead - 2) + 1);
	if (!text) return lk_oom(machine->err);
	char *to = text;
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] == '\0') to = mempcpy(to, instead, sizeof instead - 1);
		else *to++ = (char)bytes[i];
	}
	return push_slot(machine, (struct slot){.value = {.kind = LK_JSON_STRING, .text = text}});
}

/* Two's complement of any length, the least byte first. */
static lk_status push_int(struct machine *machine, int width) {
	uint64_t size = (uint64_t)width;
	if (*machine->op == 0x8a && !take_count(machine, 1, &size)) return cut_off(machine);
	if (*machine->op == 0x8b && !take_count(machine, 4, &size)) return cut_off(machine);
	if (size > LONGEST_INT) return pickle_damaged(machine, "has an integer of over 256 bytes");
	const unsigned char *bytes = take_bytes(machine, size);
	if (!bytes) return cut_off(machine);
	bool negative = size && bytes[size - 1] >= 0x80;
	double number = 0;
	if (size <= 8) {
		uint64_t bits = negative ? UINT64_MAX : 0;
		for (size_t i = size; i-- > 0;) bits = bits << 8 | bytes[i];
		number = (double)(int64_t)bits;
	} else {
		for (size_t i = size; i-- > 0;) number = number * 256 + bytes[i];
		if (negative) number -= ldexp(1, (int)size * 8);
	}
	return push_number(machine, number);
}

static lk_status push_float(struct machine *machine) {
	const unsigned char *bytes = take_bytes(machine, 8);
	uint64_t bits = 0;
	double number;
	if (!bytes) return cut_off(machine);
	for (int i = 0; i < 8; i++) bits = bits << 8 | bytes[i];
	memcpy(&number, &bits, sizeof number);
	return push_number(machine, number);
}

/* ---- containers ---- */

static lk_status push_box(struct machine *machine, lk_json_token kind) {
	struct box *box = LK_NEW(machine->arena, struct box);
	if (!box) return lk_oom(machine->err);
	box->value.kind = kind;
	box->depth = 1;
	return push_slot(machine, (struct slot){.box = box});
}

/* Make room for `extra` members. Earlier copies keep the members that they had. */
static bool box_reserve(struct machine *machine, struct box *box, size_t extra) {
	size_t count = box->value.count, capacity = box->capacity;
	if (extra <= capacity - count) return true;
	capacity = capacity * 2 > count + extra ? capacity * 2 : count + extra;
	lk_value *items = LK_ARRAY(machine->arena, lk_value, capacity);
	const char **keys =
		box->value.kind == LK_JSON_OBJECT ? LK_ARRAY(machine->arena, const char *, capacity) : NULL;
	if (!items || (box->value.kind == LK_JSON_OBJECT && !keys)) return false;
	if (count) memcpy(items, box->value.items, count * sizeof *items);
	if (count && keys) memcpy(keys, box->value.keys, count * sizeof *keys);
	box->value.items = items;
	box->value.keys = keys;
	box->capacity = capacity;
	return true;
}

static lk_status box_deepen(struct machine *machine, int *depth, const struct slot *item) {
	if (slot_depth(item) >= LK_JSON_DEPTH) return pickle_damaged(machine, "is nested too deep");
	if (*depth <= slot_depth(item)) *depth = slot_depth(item) + 1;
	return LK_OK;
}

static lk_status key_of(struct machine *machine, const struct slot *slot, const char **out) {
	const lk_value *value = slot_value(slot);
	char digits[32];
	switch (value->kind) {
	case LK_JSON_STRING: *out = value->text; return LK_OK;
	case LK_JSON_NUMBER:
		if (!isfinite(value->number)) break;
		*out = lk_arena_strdup(machine->arena,
		                       lk_format_shortest(value->number, digits, sizeof digits));
		return *out ? LK_OK : lk_oom(machine->err);
	case LK_JSON_TRUE: *out = "true"; return LK_OK;
	case LK_JSON_FALSE: *out = "false"; return LK_OK;
	case LK_JSON_NULL: *out = "null"; return LK_OK;
	default: break;
	}
	return pickle_damaged(machine, "has a dict whose key is no text and no number");
}

/* Put the slots from `first` on into the container below them, and drop them. */
static lk_status put_members(struct machine *machine, size_t first, lk_json_token kind) {
	size_t count = machine->stack.count - first;
	bool object = kind == LK_JSON_OBJECT;
	struct box *box = first > fence(machine) ? machine->stack.at[first - 1].box : NULL;
	if (!box || box->value.kind != kind || (object && count % 2))
		return pickle_damaged(machine, "puts values into something that is no list or dict");
	if (!box_reserve(machine, box, object ? count / 2 : count)) return lk_oom(machine->err);
	const struct slot *item = machine->stack.at + first, *end = item + count;
	for (; item < end; item++) {
		const char *key = NULL;
		if (object) LK_TRY(key_of(machine, item++, &key));
		LK_TRY(box_deepen(machine, &box->depth, item));
		if (object) box->value.keys[box->value.count] = key;
		box->value.items[box->value.count++] = *slot_value(item);
	}
	machine->stack.count = first;
	return LK_OK;
}

/* Replace the slots from `first` on by the tuple of them. */
static lk_status push_tuple(struct machine *machine, size_t first) {
	size_t count = machine->stack.count - first;
	struct slot tuple = {.value = {.kind = LK_JSON_ARRAY, .count = count}, .depth = 1};
	tuple.value.items = LK_ARRAY(machine->arena, lk_value, count);
	if (!tuple.value.items) return lk_oom(machine->err);
	for (size_t i = 0; i < count; i++) {
		LK_TRY(box_deepen(machine, &tuple.depth, &machine->stack.at[first + i]));
		tuple.value.items[i] = *slot_value(&machine->stack.at[first + i]);
	}
	machine->stack.count = first;
	return push_slot(machine, tuple);
}

static lk_status push_small_tuple(struct machine *machine, size_t count) {
	if (machine->stack.count - fence(machine) < count)
		return pickle_damaged(machine, "takes more values than it has");
	return push_tuple(machine, machine->stack.count - count);
}

/* ---- marks and the memo ---- */

static lk_status pop_mark(struct machine *machine, size_t *height) {
	if (!machine->marks.count) return pickle_damaged(machine, "ends a group that it did not begin");
	*height = machine->marks.at[--machine->marks.count];
	LK_ASSERT(*height <= machine->stack.count);
	return LK_OK;
}

static lk_status push_mark(struct machine *machine) {
	if (!lk_push(&machine->marks)) return lk_oom(machine->err);
	*lk_last(&machine->marks) = machine->stack.count;
	return LK_OK;
}

/* What follows a mark: values for the container below it, or the members of a new one. */
static lk_status end_group(struct machine *machine, unsigned char op) {
	size_t first = 0;
	LK_TRY(pop_mark(machine, &first));
	switch (op) {
	case 'e': return put_members(machine, first, LK_JSON_ARRAY);
	case 'u': return put_members(machine, first, LK_JSON_OBJECT);
	case 't': return push_tuple(machine, first);
	case '1': machine->stack.count = first; return LK_OK;
	default: break;
	}
	/* LIST and DICT: an empty one below the members */
	LK_ASSERT(op == 'l' || op == 'd');
	lk_json_token kind = op == 'l' ? LK_JSON_ARRAY : LK_JSON_OBJECT;
	LK_TRY(push_box(machine, kind));
	struct slot *at = machine->stack.at + first, box = *lk_last(&machine->stack);
	memmove(at + 1, at, (machine->stack.count - first - 1) * sizeof *at);
	*at = box;
	return put_members(machine, first + 1, kind);
}

static lk_status memo_put(struct machine *machine, int width) {
	uint64_t index = machine->memo.count;
	if (width && !take_count(machine, width, &index)) return cut_off(machine);
	if (machine->stack.count <= fence(machine))
		return pickle_damaged(machine, "takes more values than it has");
	if (index > machine->memo.count + MEMO_GAP)
		return pickle_damaged(machine, "numbers its memo with gaps");
	while (machine->memo.count <= index)
		if (!lk_push(&machine->memo)) return lk_oom(machine->err);
	machine->memo.at[index] = *lk_last(&machine->stack);
	machine->memo.at[index].set = true;
	return LK_OK;
}

static lk_status memo_get(struct machine *machine, int width) {
	uint64_t index;
	if (!take_count(machine, width, &index)) return cut_off(machine);
	if (index >= machine->memo.count || !machine->memo.at[index].set)
		return pickle_damaged(machine, "refers to a value that it has not");
	return push_slot(machine, machine->memo.at[index]);
}

/* ---- running ---- */

static lk_status take_one(struct machine *machine, unsigned char op) {
	if (machine->stack.count <= fence(machine))
		return pickle_damaged(machine, "takes more values than it has");
	if (op == '2') return push_slot(machine, *lk_last(&machine->stack));
	LK_ASSERT(op == '0');
	machine->stack.count--;
	return LK_OK;
}

static lk_status put_last(struct machine *machine, size_t count, lk_json_token kind) {
	if (machine->stack.count - fence(machine) < count)
		return pickle_damaged(machine, "takes more values than it has");
	return put_members(machine, machine->stack.count - count, kind);
}

static lk_status run_op(struct machine *machine, unsigned char op) {
	switch (op) {
	case 'N': return push_kind(machine, LK_JSON_NULL);
	case 0x88: return push_kind(machine, LK_JSON_TRUE);
	case 0x89: return push_kind(machine, LK_JSON_FALSE);
	case 'J': return push_int(machine, 4);
	case 0x8a:
	case 0x8b: return push_int(machine, 0);
	case 'K':
	case 'M': {
		uint64_t number;
		if (!take_count(machine, op == 'K' ? 1 : 2, &number)) return cut_off(machine);
		return push_number(machine, (double)number);
	}
	case 'G': return push_float(machine);
	case 0x8c: /* str, and below bytes */
	case 'C':
	case 'U': return push_text(machine, 1);
	case 'X':
	case 'B':
	case 'T': return push_text(machine, 4);
	case 0x8d:
	case 0x8e: return push_text(machine, 8);
	case ']': return push_box(machine, LK_JSON_ARRAY);
	case '}': return push_box(machine, LK_JSON_OBJECT);
	case ')': return push_tuple(machine, machine->stack.count);
	case 0x85:
	case 0x86:
	case 0x87: return push_small_tuple(machine, (size_t)(op - 0x84));
	case '(': return push_mark(machine);
	case 'e':
	case 'u':
	case 't':
	case 'l':
	case 'd':
	case '1': return end_group(machine, op);
	case 'a': return put_last(machine, 1, LK_JSON_ARRAY);
	case 's': return put_last(machine, 2, LK_JSON_OBJECT);
	case 0x94: return memo_put(machine, 0);
	case 'q': return memo_put(machine, 1);
	case 'r': return memo_put(machine, 4);
	case 'h': return memo_get(machine, 1);
	case 'j': return memo_get(machine, 4);
	case '0':
	case '2': return take_one(machine, op);
	case PROTO: return take_bytes(machine, 1) ? LK_OK : cut_off(machine);
	case 0x95: return take_bytes(machine, 8) ? LK_OK : cut_off(machine);
	default: return refuse_op(machine);
	}
}

static lk_status run_all(struct machine *machine, lk_value **out) {
	while (machine->at < machine->end) {
		machine->op = machine->at++;
		if (*machine->op != '.') {
			LK_TRY(run_op(machine, *machine->op));
			continue;
		}
		if (machine->stack.count != 1 || machine->marks.count)
			return pickle_damaged(machine, "does not end with one value");
		*out = LK_NEW(machine->arena, lk_value);
		if (!*out) return lk_oom(machine->err);
		**out = *slot_value(machine->stack.at);
		return LK_OK;
	}
	machine->op = machine->at;
	return pickle_damaged(machine, "ends before its last value");
}

lk_status lk_pickle_document(lk_arena *arena, const void *bytes, size_t size, const char *name,
                             lk_value **out, lk_error *err) {
	struct machine machine = {.arena = arena, .name = name, .bytes = bytes, .err = err};
	machine.at = machine.op = bytes;
	machine.end = machine.bytes + size;
	if (!lk_pickle_is(bytes, size)) return pickle_damaged(&machine, "is not of protocol 2 to 5");
	lk_status status = run_all(&machine, out);
	lk_vec_free(&machine.stack);
	lk_vec_free(&machine.memo);
	lk_vec_free(&machine.marks);
	return status;
}
