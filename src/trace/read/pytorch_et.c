/* pytorch_et.c: the nodes of PyTorch's execution trace (torch.profiler's ExecutionTraceObserver),
 * streamed.
 *
 *   1.0.1             flat: inputs, input_shapes, input_types, rf_id, tid, ... are members of the
 *                     node
 *   1.0.2 .. 1.1.1    inputs and outputs are objects of values, shapes and types; the rest is a
 *                     list `attrs` of names and values; `ctrl_deps` is the parent's id
 *
 * A tensor is a list [id, storage, offset, elements, bytes of an element, device]. Communication is
 * reported by record_param_comms, whose inputs are, in this order: tensor or list of them, sequence
 * number, process group (a number, or [name, description]), rank, name of the collective,
 * in-splits, out-splits, and later world size (last). Newer traces say the same as attributes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "trace/capture/capture.h"
#include "trace/capture/works.h"
#include "trace/read/read.h"

enum { ITEMS = 16 };

/* One input of a node, as far as it describes communication. */
struct item {
	enum { OTHER, NUMBER, TEXT, LIST } kind;
	double number; /* of a list: number of elements */
	char text[96]; /* of a list: its first text */
};

struct reader {
	lk_json *json;
	const lk_read_limits *limits;
	lk_works *w;
	lk_error *err;
	lk_shape_text shape; /* under construction */
	lk_shape_text
		groups; /* the last long text among the inputs: the process groups are described in one */
	/* of the current node */
	lk_work work;
	char name[256];
	int64_t scope;
	struct item items[ITEMS];
	uint32_t item_count;
	lk_comm_note comm; /* from attributes */
	bool has_comm;
	LK_VEC(lk_capture_group)
	aliases; /* `name` of collectives' inputs, `text` the group's own name */
};

static lk_status et_next(struct reader *reader, lk_json_token *token) {
	return lk_json_next(reader->json, token, reader->err);
}

static lk_status skip_rest(struct reader *reader, lk_json_token token) {
	int depth = token == LK_JSON_OBJECT || token == LK_JSON_ARRAY;
	while (depth) {
		LK_TRY(et_next(reader, &token));
		depth += token == LK_JSON_OBJECT || token == LK_JSON_ARRAY;
		depth -= token == LK_JSON_OBJECT_END || token == LK_JSON_ARRAY_END;
	}
	return LK_OK;
}

static void keep_text(const struct reader *reader, char *out, size_t size) {
	size_t length;
	const char *text = lk_json_text(reader->json, &length);
	if (length >= size) length = size - 1;
	memcpy(out, text, length);
	out[length] = '\0';
}

/* A whole number without the rounding of a double: ids are hashes sometimes. */
static int64_t whole_text(const struct reader *reader) {
	const char *text = lk_json_text(reader->json, NULL);
	return strpbrk(text, ".eE") ? lk_works_whole(lk_json_number(reader->json))
	                            : strtoll(text, NULL, 10);
}

/* Read a number, also single in a list or in quotes (`ctrl_deps`); `none` for anything else. */
static lk_status et_read_whole(struct reader *reader, int64_t none, int64_t *out) {
	lk_json_token token;
	bool list = false;
	*out = none;
	LK_TRY(et_next(reader, &token));
	if (token == LK_JSON_ARRAY) {
		list = true;
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_ARRAY_END) return LK_OK;
	}
	if (token == LK_JSON_NUMBER || token == LK_JSON_STRING) *out = whole_text(reader);
	else LK_TRY(skip_rest(reader, token));
	while (list && token != LK_JSON_ARRAY_END) LK_TRY(et_next(reader, &token));
	return LK_OK;
}

/* ---- shapes and types ---- */

/* A value as compact JSON without quotes, interned: "[[512,13],[],[]]". */
static lk_status read_shape(struct reader *reader, bool types, uint32_t *out) {
	int depth = 0;
	bool comma = false;
	reader->shape.text.count = 0;
	do {
		lk_json_token token;
		size_t length;
		LK_TRY(et_next(reader, &token));
		bool open = token == LK_JSON_ARRAY || token == LK_JSON_OBJECT;
		bool close = token == LK_JSON_ARRAY_END || token == LK_JSON_OBJECT_END;
		const char *text = lk_json_text(reader->json, &length);
		depth += open - close;
		bool good = !comma || close || lk_shape_put(&reader->shape, ",", 1);
		if (open || close) good &= lk_shape_put(&reader->shape, open ? "[" : "]", 1);
		else if (types && token == LK_JSON_STRING)
			good &= lk_shape_put_type(&reader->shape, text, length);
		else good &= lk_shape_put(&reader->shape, text, length);
		if (!good) return lk_oom(reader->err);
		comma = !open && token != LK_JSON_KEY;
	} while (depth > 0);
	return lk_works_name(reader->w, reader->limits, lk_shape_text_of(&reader->shape), out,
	                     reader->err);
}

/* ---- values ---- */

/* The content of a list until it is recognised as a tensor. */
struct list {
	double number[5];
	char text[96];
	uint32_t count, numbers, texts;
};

static bool is_tensor(const struct list *list) {
	return list->count == 6 && list->numbers == 5 && list->texts == 1;
}

static lk_status add_tensor(struct reader *reader, const struct list *list, bool output) {
	uint32_t device;
	LK_TRY(lk_works_name(reader->w, reader->limits, list->text, &device, reader->err));
	if (!lk_push(&reader->w->tensors)) return lk_oom(reader->err);
	double bytes = list->number[4];
	*lk_last(&reader->w->tensors) =
		(lk_tensor){.id = lk_works_whole(list->number[0]),
	                .storage = lk_works_whole(list->number[1]),
	                .elements = lk_works_whole(fmax(0, list->number[3])),
	                .element_bytes = bytes >= 0 && bytes < 1024 ? (uint16_t)bytes : 0,
	                .device = device,
	                .output = output};
	return LK_OK;
}

/* The elements of a list that has begun; depth is limited by the JSON reader. */
static lk_status et_read_list(struct reader *reader, bool output, struct list *list) {
	lk_json_token token;
	*list = (struct list){0};
	for (;; list->count++) {
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_ARRAY_END)
			return is_tensor(list) ? add_tensor(reader, list, output) : LK_OK;
		if (token == LK_JSON_ARRAY) {
			struct list inner;
			LK_TRY(et_read_list(reader, output, &inner));
		} else if (token == LK_JSON_NUMBER) {
			if (list->numbers < 5) list->number[list->numbers] = lk_json_number(reader->json);
			list->numbers++;
		} else if (token == LK_JSON_STRING) {
			if (!list->texts++) keep_text(reader, list->text, sizeof list->text);
		} else LK_TRY(skip_rest(reader, token));
	}
}

static lk_status read_item(struct reader *reader, lk_json_token token, bool output) {
	struct item at = {OTHER, 0, ""};
	if (token == LK_JSON_ARRAY) {
		struct list l;
		LK_TRY(et_read_list(reader, output, &l));
		if (!is_tensor(&l)) {
			at.kind = LIST;
			at.number = l.count;
			memcpy(at.text, l.text, sizeof at.text);
		}
	} else if (token == LK_JSON_NUMBER) {
		at.kind = NUMBER;
		at.number = lk_json_number(reader->json);
	} else if (token == LK_JSON_STRING) {
		size_t length;
		const char *text = lk_json_text(reader->json, &length);
		at.kind = TEXT;
		keep_text(reader, at.text, sizeof at.text);
		reader->groups.text.count = 0;
		if (!output && length > sizeof at.text && !lk_shape_put(&reader->groups, text, length))
			return lk_oom(reader->err);
	} else LK_TRY(skip_rest(reader, token));
	if (!output && reader->item_count < ITEMS) reader->items[reader->item_count++] = at;
	return LK_OK;
}

/* A list of values whose first token was read. */
static lk_status read_values(struct reader *reader, lk_json_token token, bool output) {
	if (token != LK_JSON_ARRAY) return skip_rest(reader, token);
	for (;;) {
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_ARRAY_END) return LK_OK;
		LK_TRY(read_item(reader, token, output));
	}
}

/* ---- process groups ---- */

static lk_status et_name_value(struct reader *reader, const lk_value *value, uint32_t *out) {
	return lk_works_name(reader->w, reader->limits, value && value->text ? value->text : "", out,
	                     reader->err);
}

static lk_status name_ranks(struct reader *reader, lk_arena *arena, const lk_value *ranks,
                            uint32_t *out) {
	enum {
		EACH = 24 /* bytes for ", " and a number of 64 bits */
	};
	*out = 0;
	if (!ranks || ranks->kind != LK_JSON_ARRAY || !ranks->count) return LK_OK;
	char *list = lk_arena_array(arena, ranks->count + 1, EACH);
	if (!list) return lk_oom(reader->err);
	lk_text text = lk_text_begin(list, (ranks->count + 1) * EACH);
	for (size_t i = 0; i < ranks->count; i++)
		lk_text_add(&text, i ? ", %lld" : "[%lld",
		            (long long)lk_works_whole(ranks->items[i].number));
	lk_text_add(&text, "]");
	LK_ASSERT(!lk_text_full(&text));
	return lk_works_name(reader->w, reader->limits, list, out, reader->err);
}

/* Up to 1.0.2 collectives name the group by its address, which the description gives with the
 * name. */
static lk_status add_alias(struct reader *reader, const char *address, uint32_t name) {
	if (!lk_push(&reader->aliases)) return lk_oom(reader->err);
	lk_last(&reader->aliases)->text = name;
	return lk_works_name(reader->w, reader->limits, address, &lk_last(&reader->aliases)->name,
	                     reader->err);
}

static lk_status et_add_group(struct reader *reader, lk_arena *arena, const lk_value *group) {
	const lk_value *size = lk_json_get(group, "group_size");
	lk_capture_group g = {0};
	if (!lk_json_get(group, "pg_name")) return LK_OK;
	LK_TRY(et_name_value(reader, lk_json_get(group, "pg_name"), &g.name));
	LK_TRY(et_name_value(reader, lk_json_get(group, "pg_desc"), &g.text));
	LK_TRY(name_ranks(reader, arena, lk_json_get(group, "ranks"), &g.ranks));
	if (size && size->number > 0 && size->number < 1e9) g.size = (int32_t)size->number;
	if (!lk_push(&reader->w->groups)) return lk_oom(reader->err);
	*lk_last(&reader->w->groups) = g;
	const lk_value *alias = lk_json_get(group, "backend_id");
	return alias && alias->text ? add_alias(reader, alias->text, g.name) : LK_OK;
}

/* "## process_group:init ##" has them as JSON in a text. If that is missing, the groups stay
 * unknown. */
static lk_status et_read_groups(struct reader *reader) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *document;
	lk_error inner;
	LK_TRY(lk_stream_memory(reader->groups.text.at, reader->groups.text.count, "process groups",
	                        &in, reader->err));
	lk_status status = lk_json_document(&arena, in, &document, &inner);
	if (status == LK_ERR_MEMORY) status = lk_oom(reader->err);
	else if (status != LK_OK) {
		lk_works_warn(reader->w, "the description of the process groups cannot be read: %s",
		              inner.what);
		status = LK_OK;
	} else if (document->kind == LK_JSON_ARRAY)
		for (size_t i = 0; i < document->count && status == LK_OK; i++)
			status = et_add_group(reader, &arena, &document->items[i]);
	lk_stream_close(in);
	lk_arena_free(&arena);
	return status;
}

/* ---- communication ---- */

/* Elements of the current node's tensors. */
static int64_t et_elements(const struct reader *reader, bool output, uint8_t *bytes) {
	const lk_works *works = reader->w;
	int64_t sum = 0;
	for (size_t t = works->count ? works->tensor_begin[works->count] : 0; t < works->tensors.count;
	     t++) {
		const lk_tensor *tensor = &works->tensors.at[t];
		if (tensor->output != output || __builtin_add_overflow(sum, tensor->elements, &sum))
			continue;
		if (!*bytes && tensor->element_bytes < 256) *bytes = (uint8_t)tensor->element_bytes;
	}
	return sum;
}

static lk_status name_group(struct reader *reader, const struct item *at, uint32_t *out) {
	char text[32];
	snprintf(text, sizeof text, "%.0f", at->number);
	return lk_works_name(reader->w, reader->limits,
	                     at->kind == LIST || at->kind == TEXT ? at->text : text, out, reader->err);
}

static lk_status push_comm(struct reader *reader, lk_work_comm *comm) {
	comm->note.event = reader->w->count;
	if (comm->note.in_elements < 0)
		comm->note.in_elements = et_elements(reader, false, &comm->note.element_bytes);
	if (comm->note.out_elements < 0)
		comm->note.out_elements = et_elements(reader, true, &comm->note.element_bytes);
	if (!comm->note.element_bytes) et_elements(reader, false, &comm->note.element_bytes);
	if (!lk_push(&reader->w->comms)) return lk_oom(reader->err);
	*lk_last(&reader->w->comms) = *comm;
	return LK_OK;
}

/* What the inputs of record_param_comms say that attributes did not. */
static lk_status read_comm(struct reader *reader) {
	lk_work_comm comm = {.note = reader->comm, .sequence = -1};
	uint32_t named = 0;
	while (named < reader->item_count && reader->items[named].kind != TEXT) named++;
	if (named == reader->item_count && !reader->has_comm) return LK_OK;
	const char *name = named < reader->item_count ? reader->items[named].text : "";
	comm.waits = strcmp(name, "wait") == 0;
	if (comm.note.kind == LK_OP_COUNT) comm.note.kind = (uint8_t)lk_comm_kind(name);
	if (named >= 3 && reader->items[named - 3].kind == NUMBER)
		comm.sequence = lk_works_whole(reader->items[named - 3].number);
	if (!comm.note.group && named >= 2)
		LK_TRY(name_group(reader, &reader->items[named - 2], &comm.note.group));
	const struct item *last = reader->item_count ? &reader->items[reader->item_count - 1] : NULL;
	if (!comm.note.group_size && named + 3 < reader->item_count && last->kind == NUMBER &&
	    last->number > 0 && last->number < 1e9)
		comm.note.group_size = (int32_t)last->number;
	/* the sizes sent to each rank are as many as there are ranks */
	if (!comm.note.group_size && named + 1 < reader->item_count &&
	    reader->items[named + 1].kind == LIST && reader->items[named + 1].number < 1e9)
		comm.note.group_size = (int32_t)reader->items[named + 1].number;
	return push_comm(reader, &comm);
}

static lk_status read_text_id(struct reader *reader, uint32_t *out) {
	lk_json_token token;
	char text[256] = "";
	LK_TRY(et_next(reader, &token));
	if (token == LK_JSON_STRING || token == LK_JSON_NUMBER) keep_text(reader, text, sizeof text);
	else LK_TRY(skip_rest(reader, token));
	return lk_works_name(reader->w, reader->limits, text, out, reader->err);
}

static lk_status et_read_dtype(struct reader *reader) {
	LK_TRY(read_text_id(reader, &reader->comm.dtype));
	int bytes = lk_comm_element_bytes(lk_works_text(reader->w, reader->comm.dtype));
	if (bytes) reader->comm.element_bytes = (uint8_t)bytes;
	return LK_OK;
}

static lk_status read_collective(struct reader *reader) {
	uint32_t name;
	LK_TRY(read_text_id(reader, &name));
	if (!name) return LK_OK;
	reader->has_comm = true;
	reader->comm.kind = (uint8_t)lk_comm_kind(lk_works_text(reader->w, name));
	return LK_OK;
}

/* ---- nodes ---- */

/* Read a member of a flat node, or an attribute; *known is false, and nothing read, if it is
 * neither. */
static lk_status et_read_attribute(struct reader *reader, const char *key, bool *known) {
	int64_t number;
	*known = true;
	if (strcmp(key, "rf_id") == 0) {
		LK_TRY(et_read_whole(reader, 0, &number));
		reader->work.record = number > 0 && number < LK_NONE ? (uint32_t)number : 0;
		return LK_OK;
	}
	if (strcmp(key, "seq_id") == 0) return et_read_whole(reader, -1, &reader->work.sequence);
	if (strcmp(key, "tid") == 0) return et_read_whole(reader, -1, &reader->work.thread);
	if (strcmp(key, "scope") == 0) return et_read_whole(reader, 0, &reader->scope);
	if (strcmp(key, "collective_name") == 0) return read_collective(reader);
	if (strcmp(key, "dtype") == 0) return et_read_dtype(reader);
	if (strcmp(key, "in_msg_nelems") == 0)
		return et_read_whole(reader, -1, &reader->comm.in_elements);
	if (strcmp(key, "out_msg_nelems") == 0)
		return et_read_whole(reader, -1, &reader->comm.out_elements);
	if (strcmp(key, "pg_name") == 0) return read_text_id(reader, &reader->comm.group);
	if (strcmp(key, "pg_desc") == 0) return read_text_id(reader, &reader->comm.group_text);
	if (strcmp(key, "pg_size") == 0) {
		LK_TRY(et_read_whole(reader, 0, &number));
		reader->comm.group_size = number > 0 && number < 1 << 30 ? (int32_t)number : 0;
		return LK_OK;
	}
	*known = false;
	return LK_OK;
}

/* {"name": "rf_id", "type": "uint64", "value": 3}; the name comes first. */
static lk_status read_attr(struct reader *reader) {
	lk_json_token token;
	char name[64] = "", key[16];
	for (;;) {
		bool known = false;
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_OBJECT_END) return LK_OK;
		keep_text(reader, key, sizeof key);
		if (strcmp(key, "name") == 0) {
			LK_TRY(et_next(reader, &token));
			if (token == LK_JSON_STRING) keep_text(reader, name, sizeof name);
			else LK_TRY(skip_rest(reader, token));
			continue;
		}
		if (strcmp(key, "value") == 0) LK_TRY(et_read_attribute(reader, name, &known));
		if (!known) LK_TRY(lk_json_skip(reader->json, reader->err));
	}
}

static lk_status read_attrs(struct reader *reader) {
	lk_json_token token;
	LK_TRY(et_next(reader, &token));
	if (token != LK_JSON_ARRAY) return skip_rest(reader, token);
	for (;;) {
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_ARRAY_END) return LK_OK;
		if (token == LK_JSON_OBJECT) LK_TRY(read_attr(reader));
		else LK_TRY(skip_rest(reader, token));
	}
}

/* Read the object {values, shapes, types}, or in flat nodes the list of values itself. */
static lk_status et_read_sides(struct reader *reader, bool output) {
	lk_json_token token;
	char key[16];
	LK_TRY(et_next(reader, &token));
	if (token != LK_JSON_OBJECT) return read_values(reader, token, output);
	for (;;) {
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_OBJECT_END) return LK_OK;
		keep_text(reader, key, sizeof key);
		if (strcmp(key, "values") == 0) {
			LK_TRY(et_next(reader, &token));
			LK_TRY(read_values(reader, token, output));
		} else if (strcmp(key, "shapes") == 0)
			LK_TRY(read_shape(reader, false, output ? &reader->work.outputs : &reader->work.shape));
		else if (strcmp(key, "types") == 0 && !output)
			LK_TRY(read_shape(reader, true, &reader->work.types));
		else LK_TRY(lk_json_skip(reader->json, reader->err));
	}
}

static lk_status read_name(struct reader *reader) {
	lk_json_token token;
	LK_TRY(et_next(reader, &token));
	if (token != LK_JSON_STRING) return skip_rest(reader, token);
	keep_text(reader, reader->name, sizeof reader->name);
	return lk_works_name(reader->w, reader->limits, lk_json_text(reader->json, NULL),
	                     &reader->work.name, reader->err);
}

static lk_status et_read_member(struct reader *reader, const char *key) {
	bool known;
	if (strcmp(key, "name") == 0) return read_name(reader);
	if (strcmp(key, "id") == 0) return et_read_whole(reader, -1, &reader->work.id);
	if (strcmp(key, "parent") == 0 || strcmp(key, "ctrl_deps") == 0)
		return et_read_whole(reader, -1, &reader->work.parent_id);
	if (strcmp(key, "inputs") == 0) return et_read_sides(reader, false);
	if (strcmp(key, "outputs") == 0) return et_read_sides(reader, true);
	if (strcmp(key, "input_shapes") == 0) return read_shape(reader, false, &reader->work.shape);
	if (strcmp(key, "input_types") == 0) return read_shape(reader, true, &reader->work.types);
	if (strcmp(key, "output_shapes") == 0) return read_shape(reader, false, &reader->work.outputs);
	if (strcmp(key, "attrs") == 0) return read_attrs(reader);
	LK_TRY(et_read_attribute(reader, key, &known));
	return known ? LK_OK : lk_json_skip(reader->json, reader->err);
}

/* torch's RecordScope: 0 functions, 1 backward functions, 7 annotations of users and of the
 * profiler. */
static lk_node_kind et_kind_of(const struct reader *reader) {
	if (strncmp(reader->name, "[pytorch|profiler|execution_", 28) == 0) return LK_NODE_ROOT;
	return reader->scope == 7 ? LK_NODE_NOTE : LK_NODE_OP;
}

static lk_status et_keep(struct reader *reader) {
	reader->work.kind = et_kind_of(reader);
	if (strcmp(reader->name, "record_param_comms") == 0) {
		reader->work.kind = LK_NODE_OP;
		LK_TRY(read_comm(reader));
	}
	if (reader->groups.text.count && strcmp(reader->name, "## process_group:init ##") == 0)
		LK_TRY(et_read_groups(reader));
	if (reader->work.parent_id >= 0) {
		if (!lk_push(&reader->w->control_ids)) return lk_oom(reader->err);
		*lk_last(&reader->w->control_ids) = reader->work.parent_id;
	}
	return lk_works_put(reader->w, reader->limits, &reader->work, reader->err);
}

static lk_status et_read_node(struct reader *reader) {
	lk_json_token token;
	reader->work = LK_WORK_NONE;
	reader->work.id = -1;
	reader->name[0] = '\0';
	reader->scope = 0;
	reader->item_count = 0;
	reader->has_comm = false;
	reader->groups.text.count = 0;
	reader->comm =
		(lk_comm_note){.kind = LK_OP_COUNT, .peer = -1, .in_elements = -1, .out_elements = -1};
	for (;;) {
		char key[32];
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_OBJECT_END) return et_keep(reader);
		keep_text(reader, key, sizeof key);
		LK_TRY(et_read_member(reader, key));
	}
}

/* An address, which differs on every rank. */
static bool et_is_address(const char *name) {
	return strlen(name) >= 8 && strspn(name, "0123456789") == strlen(name);
}

/* Rename groups that are named by addresses to their own names, or number them by first use. */
static lk_status rename_groups(struct reader *reader, uint32_t *name_of) {
	uint32_t unnamed = 0;
	for (size_t i = 0; i < reader->aliases.count; i++)
		name_of[reader->aliases.at[i].name] = reader->aliases.at[i].text;
	for (size_t i = 0; i < reader->w->comms.count; i++) {
		uint32_t *group = &reader->w->comms.at[i].note.group;
		if (reader->w->comms.at[i].waits || !et_is_address(lk_works_text(reader->w, *group)))
			continue;
		if (!name_of[*group]) {
			char text[32];
			snprintf(text, sizeof text, "group %u", unnamed++);
			LK_TRY(lk_works_name(reader->w, reader->limits, text, &name_of[*group], reader->err));
		}
		*group = name_of[*group];
	}
	return LK_OK;
}

/* Fill in group data that was given only once, by the description or one collective, for all of its
 * collectives. */
static void fill_comms(lk_works *works, lk_capture_group *by_name) {
	for (size_t g = 0; g < works->groups.count; g++)
		by_name[works->groups.at[g].name] = works->groups.at[g];
	for (size_t i = 0; i < works->comms.count; i++) {
		const lk_comm_note *note = &works->comms.at[i].note;
		if (!by_name[note->group].size) by_name[note->group].size = note->group_size;
	}
	for (size_t i = 0; i < works->comms.count; i++) {
		lk_comm_note *note = &works->comms.at[i].note;
		if (works->comms.at[i].waits || !note->group) continue;
		const lk_capture_group *group = &by_name[note->group];
		if (!note->group_size) note->group_size = group->size;
		if (!note->ranks) note->ranks = group->ranks;
		if (!note->group_text) note->group_text = group->text;
	}
}

static lk_status finish_groups(struct reader *reader) {
	size_t names = lk_intern_count(reader->w->names) +
	               reader->w->comms.count; /* and those that renaming adds */
	uint32_t *name_of = calloc(names, sizeof *name_of);
	lk_capture_group *by_name = calloc(names, sizeof *by_name);
	lk_status status = name_of && by_name ? rename_groups(reader, name_of) : lk_oom(reader->err);
	if (status == LK_OK) fill_comms(reader->w, by_name);
	free(name_of);
	free(by_name);
	return status;
}

static lk_status et_read_all(struct reader *reader) {
	lk_json_token token;
	for (;;) {
		LK_TRY(et_next(reader, &token));
		if (token == LK_JSON_ARRAY_END) break;
		if (token == LK_JSON_OBJECT) LK_TRY(et_read_node(reader));
		else LK_TRY(skip_rest(reader, token));
	}
	return finish_groups(reader);
}

lk_status lk_pytorch_et_nodes(lk_json *json, const lk_read_limits *limits, lk_works *works,
                              lk_error *err) {
	struct reader *reader = calloc(1, sizeof *reader);
	if (!reader) return lk_oom(err);
	*reader = (struct reader){.json = json, .limits = limits, .w = works, .err = err};
	lk_status status = et_read_all(reader);
	lk_vec_free(&reader->shape.text);
	lk_vec_free(&reader->groups.text);
	lk_vec_free(&reader->aliases);
	free(reader);
	return status;
}
