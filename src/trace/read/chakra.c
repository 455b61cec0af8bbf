/* chakra.c: Chakra's execution traces (MLCommons, et_def.proto of 2024-05-09): protobuf records,
 * each preceded by its length, one GlobalMetadata and then Nodes; and the JSON form of its
 * converter. Times are whole microseconds: a duration of 0 is not written, and means less than 1 us
 * in files where other nodes have one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/protobuf.h"
#include "trace/capture/capture.h"
#include "trace/capture/works.h"
#include "trace/read/read.h"

/* NodeType */
enum { METADATA = 1, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL };

enum { NOT_SAID = -1 };

struct reader {
	const lk_read_limits *limits;
	lk_works *w;
	lk_error *err;
	lk_shape_text shape;
	uint64_t record; /* records read so far, for messages */
	/* of the current node */
	lk_work work;
	uint64_t type;
	int cpu;        /* is_cpu_op, or NOT_SAID */
	int64_t stream; /* NOT_SAID */
	int64_t comm_type, comm_size, from, to, tag;
	uint32_t group;
	int64_t group_size;
};

static void clear_node(struct reader *reader) {
	reader->work = LK_WORK_NONE;
	reader->work.id = 0; /* protobuf leaves zeros out */
	reader->type = 0;
	reader->cpu = NOT_SAID;
	reader->stream = NOT_SAID;
	reader->comm_type = reader->comm_size = reader->from = reader->to = reader->tag = NOT_SAID;
	reader->group = 0;
	reader->group_size = 0;
}

static lk_status chakra_broken(const struct reader *reader) {
	char where[300];
	snprintf(where, sizeof where, "%.200s: record %llu", reader->w->path,
	         (unsigned long long)reader->record);
	lk_fail(reader->err, LK_ERR_INPUT, where,
	        "no Chakra trace, or a damaged one: the record is not valid protobuf");
	return lk_hint(reader->err,
	               "give a Chakra .et file, a PyTorch execution trace or Chakra's JSON");
}

static lk_status name_bytes(const struct reader *reader, lk_proto bytes, uint32_t *out) {
	char text[1024];
	size_t size = lk_proto_size(&bytes);
	if (size >= sizeof text) size = sizeof text - 1;
	memcpy(text, bytes.at, size);
	text[size] = '\0';
	return lk_works_name(reader->w, reader->limits, text, out, reader->err);
}

/* ---- attributes ---- */

/* A value of any type of AttributeProto; of a list, the first element. */
struct value {
	bool number, text;
	double real;
	int64_t whole;
	lk_proto bytes;
};

/* Field numbers of the single forms; the list form of each has the next number. */
enum {
	A_DOUBLE = 3,
	A_FLOAT = 5,
	A_INT32 = 7,
	A_INT64 = 9,
	A_UINT32 = 11,
	A_UINT64 = 13,
	A_SINT32 = 15,
	A_SINT64 = 17,
	A_FIXED32 = 19,
	A_FIXED64 = 21,
	A_SFIXED32 = 23,
	A_SFIXED64 = 25,
	A_BOOL = 27,
	A_STRING = 29,
	A_BYTES = 31,
};

static bool whole_value(struct value *value, int64_t whole) {
	*value = (struct value){.number = true, .whole = whole, .real = (double)whole};
	return true;
}

static bool real_value(struct value *value, double real) {
	*value = (struct value){.number = true, .whole = lk_works_whole(real), .real = real};
	return true;
}

/* The wire type of a field's values. */
static lk_wire_type wire_of(uint32_t form) {
	switch (form) {
	case A_DOUBLE:
	case A_FIXED64:
	case A_SFIXED64: return LK_WIRE_FIXED64;
	case A_FLOAT:
	case A_FIXED32:
	case A_SFIXED32: return LK_WIRE_FIXED32;
	case A_STRING:
	case A_BYTES: return LK_WIRE_BYTES;
	default: return LK_WIRE_VARINT;
	}
}

static bool chakra_decode(uint32_t form, const lk_proto_field *field, struct value *value) {
	if (field->type != wire_of(form)) return false;
	switch (form) {
	case A_DOUBLE: return real_value(value, lk_proto_double(field->value));
	case A_FLOAT: return real_value(value, lk_proto_float(field->value));
	case A_SINT32:
	case A_SINT64: return whole_value(value, lk_proto_zigzag(field->value));
	case A_SFIXED32: return whole_value(value, (int32_t)field->value);
	case A_UINT64:
	case A_FIXED64:
		return whole_value(value, field->value > INT64_MAX ? INT64_MAX : (int64_t)field->value);
	case A_STRING:
	case A_BYTES: *value = (struct value){.text = true, .bytes = field->bytes}; return true;
	default: return whole_value(value, (int64_t)field->value);
	}
}

/* A list is a message with `repeated values = 1`; numbers are packed in proto3. */
static bool decode_list(uint32_t form, lk_proto list, struct value *value) {
	lk_proto_field f;
	if (!lk_proto_next(&list, &f) || f.number != 1) return false;
	if (f.type != LK_WIRE_BYTES || wire_of(form) == LK_WIRE_BYTES)
		return chakra_decode(form, &f, value);
	lk_proto_field first = {.number = 1, .type = wire_of(form)};
	lk_proto packed = f.bytes;
	size_t bytes = first.type == LK_WIRE_FIXED64 ? 8 : 4;
	if (first.type == LK_WIRE_VARINT)
		return lk_proto_varint(&packed, &first.value) && chakra_decode(form, &first, value);
	if (lk_proto_size(&packed) < bytes) return false;
	for (size_t i = 0; i < bytes; i++) first.value |= (uint64_t)packed.at[i] << 8 * i;
	return chakra_decode(form, &first, value);
}

static lk_status chakra_apply(struct reader *reader, const char *name, const struct value *value) {
	static const struct {
		const char *name;
		size_t offset;
	} wholes[] = {
		{"comm_type", offsetof(struct reader, comm_type)},
		{"comm_size", offsetof(struct reader, comm_size)},
		{"comm_src", offsetof(struct reader, from)},
		{"comm_dst", offsetof(struct reader, to)},
		{"comm_tag", offsetof(struct reader, tag)},
		{"stream", offsetof(struct reader, stream)},
		{"tid", offsetof(struct reader, work.thread)},
		{"seq_id", offsetof(struct reader, work.sequence)},
		{"pg_size", offsetof(struct reader, group_size)},
	};
	for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
		if (value->number && strcmp(name, wholes[i].name) == 0)
			*(int64_t *)(void *)((char *)reader + wholes[i].offset) = value->whole;
	if (value->number && strcmp(name, "is_cpu_op") == 0) reader->cpu = value->whole != 0;
	if (value->number && strcmp(name, "rf_id") == 0 && value->whole > 0 && value->whole < LK_NONE)
		reader->work.record = (uint32_t)value->whole;
	if (value->number && strcmp(name, "num_ops") == 0 && value->real > 0 && isfinite(value->real))
		reader->work.flops = value->real;
	if (value->number && strcmp(name, "tensor_size") == 0 && value->real > 0 &&
	    isfinite(value->real))
		reader->work.bytes = value->real;
	if (value->text && strcmp(name, "pg_name") == 0)
		return name_bytes(reader, value->bytes, &reader->group);
	return LK_OK;
}

static lk_status chakra_read_attribute(struct reader *reader, lk_proto message) {
	char name[64] = "";
	struct value v = {0};
	lk_proto_field f;
	while (lk_proto_next(&message, &f)) {
		if (f.number == 1 && f.type == LK_WIRE_BYTES) {
			size_t size = lk_proto_size(&f.bytes);
			if (size >= sizeof name) size = sizeof name - 1;
			memcpy(name, f.bytes.at, size);
			name[size] = '\0';
		} else if (f.number >= A_DOUBLE && f.number % 2) chakra_decode(f.number, &f, &v);
		else if (f.number > A_DOUBLE && f.type == LK_WIRE_BYTES)
			decode_list(f.number - 1, f.bytes, &v);
	}
	return message.broken ? chakra_broken(reader) : chakra_apply(reader, name, &v);
}

/* ---- inputs and outputs ---- */

/* Read the tensors among values printed by Python: [id, storage, offset, elements, bytes of an
 * element, 'cuda:0']. */
static lk_status read_tensors(struct reader *reader, const char *text, size_t length, bool output) {
	for (size_t at = 0; at < length; at++) {
		char piece[160], device[16];
		long long id, storage, offset, elements;
		unsigned bytes;
		if (text[at] != '[') continue;
		size_t size = length - at < sizeof piece ? length - at : sizeof piece - 1;
		memcpy(piece, text + at, size);
		piece[size] = '\0';
		/* %*[\"'] is the quote of either kind */
		if (sscanf(piece, "[%20lld, %20lld, %20lld, %20lld, %4u, %*[\"']%15[^\"']", &id, &storage,
		           &offset, &elements, &bytes, device) != 6)
			continue;
		uint32_t name;
		LK_TRY(lk_works_name(reader->w, reader->limits, device, &name, reader->err));
		if (!lk_push(&reader->w->tensors)) return lk_oom(reader->err);
		*lk_last(&reader->w->tensors) = (lk_tensor){.id = id,
		                                            .storage = storage,
		                                            .elements = elements > 0 ? elements : 0,
		                                            .element_bytes = (uint16_t)bytes,
		                                            .device = name,
		                                            .output = output};
	}
	return LK_OK;
}

static lk_status chakra_read_sides(struct reader *reader, lk_proto message, bool output) {
	enum { VALUES = 1, SHAPES, TYPES };
	lk_proto_field f;
	while (lk_proto_next(&message, &f)) {
		if (f.type != LK_WIRE_BYTES || f.number > TYPES) continue;
		const char *text = (const char *)f.bytes.at;
		size_t size = lk_proto_size(&f.bytes);
		uint32_t *to;
		if (f.number == TYPES) {
			if (output) to = NULL;
			else to = &reader->work.types;
		} else if (output) to = &reader->work.outputs;
		else to = &reader->work.shape;
		if (f.number == VALUES) LK_TRY(read_tensors(reader, text, size, output));
		else if (!to) continue;
		else if (!lk_shape_python(&reader->shape, text, size)) return lk_oom(reader->err);
		else
			LK_TRY(lk_works_name(reader->w, reader->limits, lk_shape_text_of(&reader->shape), to,
			                     reader->err));
	}
	return message.broken ? chakra_broken(reader) : LK_OK;
}

/* ---- nodes ---- */

static lk_op_kind kind_of_comm(const struct reader *reader) {
	static const uint8_t kinds[] = {
		/* CollectiveCommType */
		LK_OP_ALLREDUCE, LK_OP_ALLREDUCE, LK_OP_ALLGATHER,     LK_OP_ALLGATHER,     LK_OP_BROADCAST,
		LK_OP_BROADCAST, LK_OP_ALLTOALL,  LK_OP_REDUCESCATTER, LK_OP_REDUCESCATTER, LK_OP_ALLREDUCE,
	};
	if (reader->type == COMM_SEND) return LK_OP_SEND;
	if (reader->type == COMM_RECV) return LK_OP_RECV;
	if (reader->comm_type >= 0 && (size_t)reader->comm_type < sizeof kinds)
		return kinds[reader->comm_type];
	return lk_comm_kind(lk_works_text(reader->w, reader->work.name));
}

static lk_status chakra_add_comm(struct reader *reader) {
	/* The CPU side of a collective (c10d::allreduce_) is no collective: its device side is a node
	 * of its own. */
	bool collective = reader->type >= COMM_SEND && reader->type <= COMM_COLL &&
	                  (reader->cpu != 1 || reader->comm_size >= 0);
	if (!collective) return LK_OK;
	int64_t peer = reader->type == COMM_SEND ? reader->to : reader->from;
	lk_comm_note note = {
		.event = reader->w->count,
		.kind = (uint8_t)kind_of_comm(reader),
		.element_bytes = 1,
		.group = reader->group,
		.group_size = reader->group_size > 0 && reader->group_size < 1 << 30
	                      ? (int32_t)reader->group_size
	                      : 0,
		.peer = reader->type != COMM_COLL && peer >= 0 && peer < 1 << 30 ? (int32_t)peer : -1,
		.in_elements = reader->comm_size >= 0 ? reader->comm_size : -1,
		.out_elements = -1};
	/* an all-gather's size is a rank's own share */
	if (note.kind == LK_OP_ALLGATHER && note.in_elements > 0 && note.group_size > 1 &&
	    note.in_elements < INT64_MAX / note.group_size)
		note.out_elements = note.in_elements * note.group_size;
	if (!lk_push(&reader->w->comms)) return lk_oom(reader->err);
	*lk_last(&reader->w->comms) = (lk_work_comm){.note = note, .sequence = reader->tag};
	return LK_OK;
}

static lk_status chakra_keep(struct reader *reader) {
	bool comm = reader->type >= COMM_SEND && reader->type <= COMM_COLL;
	if (reader->type == METADATA || reader->type == 0) reader->work.kind = LK_NODE_NOTE;
	else if (reader->type == MEM_LOAD || reader->type == MEM_STORE)
		reader->work.kind = LK_NODE_MEMORY;
	else
		reader->work.kind =
			reader->cpu == 1 && !(comm && reader->comm_size >= 0) ? LK_NODE_OP : LK_NODE_DEVICE;
	/* The converter puts the stream of device work in the thread field. */
	if (reader->stream >= 0 && reader->work.kind == LK_NODE_DEVICE)
		reader->work.thread = reader->stream;
	LK_TRY(chakra_add_comm(reader));
	return lk_works_put(reader->w, reader->limits, &reader->work, reader->err);
}

/* One id, or a packed list of them. */
static lk_status read_ids(struct reader *reader, const lk_proto_field *field, bool data) {
	lk_proto list = field->bytes;
	uint64_t id = field->value;
	bool more = field->type == LK_WIRE_VARINT ||
	            (field->type == LK_WIRE_BYTES && list.at < list.end && lk_proto_varint(&list, &id));
	while (more) {
		bool good = data ? lk_push(&reader->w->data_ids) : lk_push(&reader->w->control_ids);
		if (!good) return lk_oom(reader->err);
		if (data) *lk_last(&reader->w->data_ids) = (int64_t)(id & INT64_MAX);
		else *lk_last(&reader->w->control_ids) = (int64_t)(id & INT64_MAX);
		more = field->type == LK_WIRE_BYTES && list.at < list.end && lk_proto_varint(&list, &id);
	}
	return list.broken ? chakra_broken(reader) : LK_OK;
}

/* Microseconds as nanoseconds; clocks count from 1970 at most. */
static int64_t nanoseconds(uint64_t us) {
	return us < (uint64_t)INT64_MAX / 1000 ? (int64_t)us * 1000 : INT64_MAX / 2;
}

static lk_status read_field(struct reader *reader, const lk_proto_field *field) {
	bool bytes = field->type == LK_WIRE_BYTES, number = field->type == LK_WIRE_VARINT;
	switch (field->number) {
	case 1:
		if (number) reader->work.id = (int64_t)(field->value & INT64_MAX);
		return LK_OK;
	case 2: return bytes ? name_bytes(reader, field->bytes, &reader->work.name) : LK_OK;
	case 3:
		if (number) reader->type = field->value;
		return LK_OK;
	case 4: return read_ids(reader, field, false);
	case 5: return read_ids(reader, field, true);
	case 6:
		if (number) reader->work.start_ns = nanoseconds(field->value);
		return LK_OK;
	case 7:
		if (number) reader->work.duration_ns = nanoseconds(field->value);
		return LK_OK;
	case 8: return bytes ? chakra_read_sides(reader, field->bytes, false) : LK_OK;
	case 9: return bytes ? chakra_read_sides(reader, field->bytes, true) : LK_OK;
	case 10: return bytes ? chakra_read_attribute(reader, field->bytes) : LK_OK;
	default: return LK_OK;
	}
}

static lk_status chakra_read_node(struct reader *reader, lk_proto message) {
	lk_proto_field f;
	clear_node(reader);
	while (lk_proto_next(&message, &f)) LK_TRY(read_field(reader, &f));
	return message.broken ? chakra_broken(reader) : chakra_keep(reader);
}

/* GlobalMetadata{version = 1, attr = 2}; the attribute "schema" names the trace that it was
 * converted from. */
static lk_status read_metadata(struct reader *reader, lk_proto message) {
	lk_proto_field f;
	while (lk_proto_next(&message, &f)) {
		if (f.number != 1 || f.type != LK_WIRE_BYTES) continue;
		reader->w->schema =
			lk_arena_strndup(&reader->w->arena, (const char *)f.bytes.at, lk_proto_size(&f.bytes));
		if (!reader->w->schema) return lk_oom(reader->err);
	}
	return message.broken ? chakra_broken(reader) : LK_OK;
}

/* A node has a number in field 1, metadata do not. */
static bool is_node(lk_proto message) {
	lk_proto_field f;
	return lk_proto_next(&message, &f) && (f.type == LK_WIRE_VARINT || f.number > 2);
}

static lk_status read_records(struct reader *reader, lk_proto file) {
	while (file.at < file.end) {
		uint64_t length;
		bool whole = lk_proto_varint(&file, &length) && length <= lk_proto_size(&file);
		if (!whole && reader->w->count) {
			lk_works_warn(reader->w, "the file ends inside of record %llu, which was left out",
			              (unsigned long long)reader->record + 1);
			return LK_OK;
		}
		reader->record++;
		if (!whole) return chakra_broken(reader);
		lk_proto message = lk_proto_open(file.at, (size_t)length);
		file.at += length;
		if (reader->record > 1 || is_node(message)) LK_TRY(chakra_read_node(reader, message));
		else LK_TRY(read_metadata(reader, message));
	}
	return reader->record ? LK_OK : chakra_broken(reader);
}

lk_status lk_chakra_read(const void *bytes, size_t size, const lk_read_limits *limits,
                         lk_works *works, lk_error *err) {
	struct reader r = {.limits = limits, .w = works, .err = err};
	works->format = "Chakra protobuf";
	lk_status status = read_records(&r, lk_proto_open(bytes, size));
	lk_vec_free(&r.shape.text);
	return status;
}

/* ---- JSON ---- */

/* The converter's older form and the jsonizer's: Id, Name, NodeType, ctrlDeps and data_deps,
 * runtime in us; keys in any case, with or without underscores. */
static void plain_key(const char *key, char *out, size_t size) {
	size_t used = 0;
	for (; *key && used + 1 < size; key++)
		if (*key != '_') out[used++] = *key >= 'A' && *key <= 'Z' ? (char)(*key + 'a' - 'A') : *key;
	out[used] = '\0';
}

/* Read a number, or the first in a list; *found is false for anything else. */
static lk_status json_number(struct reader *reader, lk_json *json, double *out, bool *found) {
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, reader->err));
	*found = token == LK_JSON_NUMBER || token == LK_JSON_TRUE || token == LK_JSON_FALSE ||
	         token == LK_JSON_STRING;
	*out = token == LK_JSON_NUMBER ? lk_json_number(json) : token == LK_JSON_TRUE;
	if (token == LK_JSON_STRING) *out = strtod(lk_json_text(json, NULL), NULL);
	int depth = token == LK_JSON_OBJECT || token == LK_JSON_ARRAY;
	while (depth) {
		LK_TRY(lk_json_next(json, &token, reader->err));
		depth += token == LK_JSON_OBJECT || token == LK_JSON_ARRAY;
		depth -= token == LK_JSON_OBJECT_END || token == LK_JSON_ARRAY_END;
	}
	return LK_OK;
}

static lk_status json_ids(struct reader *reader, lk_json *json, bool data) {
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, reader->err));
	for (bool list = token == LK_JSON_ARRAY;;) {
		if (list) LK_TRY(lk_json_next(json, &token, reader->err));
		if (token != LK_JSON_NUMBER && token != LK_JSON_STRING) {
			if (token == LK_JSON_ARRAY_END || token == LK_JSON_NULL) return LK_OK;
			return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(json),
			               "a list of ids is expected here");
		}
		double id = strtod(lk_json_text(json, NULL), NULL);
		lk_proto_field one = {.type = LK_WIRE_VARINT,
		                      .value = id > 0 && id < 9.2e18 ? (uint64_t)id : 0};
		LK_TRY(read_ids(reader, &one, data));
		if (!list) return LK_OK;
	}
}

static lk_status json_type(struct reader *reader, lk_json *json) {
	static const char *const names[] = {"INVALID", "METADATA",  "MEM_LOAD",  "MEM_STORE",
	                                    "COMP",    "COMM_SEND", "COMM_RECV", "COMM_COLL"};
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, reader->err));
	const char *text = lk_json_text(json, NULL);
	for (size_t i = 0; i < sizeof names / sizeof *names && token == LK_JSON_STRING; i++)
		if (lk_begins_with(text, names[i])) {
			reader->type = i;
			return LK_OK;
		}
	if (token != LK_JSON_NUMBER)
		return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(json),
		               "a type of node is expected here");
	double type = lk_json_number(json);
	reader->type = type > 0 && type < 100 ? (uint64_t)type : 0;
	return LK_OK;
}

static lk_status json_text(struct reader *reader, lk_json *json, uint32_t *out) {
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, reader->err));
	if (token != LK_JSON_STRING)
		return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(json), "a text is expected here");
	return lk_works_name(reader->w, reader->limits, lk_json_text(json, NULL), out, reader->err);
}

static lk_status json_member(struct reader *reader, lk_json *json, const char *key) {
	double number;
	bool found;
	if (strcmp(key, "name") == 0) return json_text(reader, json, &reader->work.name);
	if (strcmp(key, "pgname") == 0) return json_text(reader, json, &reader->group);
	if (strcmp(key, "nodetype") == 0 || strcmp(key, "type") == 0) return json_type(reader, json);
	if (strcmp(key, "ctrldeps") == 0) return json_ids(reader, json, false);
	if (strcmp(key, "datadeps") == 0) return json_ids(reader, json, true);
	LK_TRY(json_number(reader, json, &number, &found));
	if (!found) return LK_OK;
	bool positive = number >= 0 && number < 9e15;
	if (strcmp(key, "id") == 0) reader->work.id = positive ? (int64_t)number : 0;
	else if (strcmp(key, "runtime") == 0 || strcmp(key, "durationmicros") == 0)
		reader->work.duration_ns = positive ? (int64_t)llround(number * 1e3) : -1;
	else if (strcmp(key, "starttimemicros") == 0)
		reader->work.start_ns = positive ? (int64_t)llround(number * 1e3) : -1;
	else if (strcmp(key, "iscpuop") == 0) reader->cpu = number != 0;
	else if (strcmp(key, "tid") == 0) reader->work.thread = lk_works_whole(number);
	else if (strcmp(key, "stream") == 0) reader->stream = lk_works_whole(number);
	else if (strcmp(key, "commtype") == 0) reader->comm_type = lk_works_whole(number);
	else if (strcmp(key, "commsize") == 0) reader->comm_size = lk_works_whole(number);
	return LK_OK;
}

static lk_status json_node(struct reader *reader, lk_json *json) {
	lk_json_token token;
	clear_node(reader);
	reader->record++;
	for (;;) {
		char key[48];
		LK_TRY(lk_json_next(json, &token, reader->err));
		if (token == LK_JSON_OBJECT_END) return chakra_keep(reader);
		plain_key(lk_json_text(json, NULL), key, sizeof key);
		LK_TRY(json_member(reader, json, key));
	}
}

lk_status lk_chakra_json_nodes(lk_json *json, const lk_read_limits *limits, lk_works *works,
                               lk_error *err) {
	struct reader r = {.limits = limits, .w = works, .err = err};
	lk_json_token token;
	for (;;) {
		LK_TRY(lk_json_next(json, &token, err));
		if (token == LK_JSON_ARRAY_END) return LK_OK;
		if (token != LK_JSON_OBJECT)
			return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "a node is expected here");
		LK_TRY(json_node(&r, json));
	}
}
