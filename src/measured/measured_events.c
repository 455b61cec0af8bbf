/* measured_events.c: event files of TensorBoard: records of TFRecord (length, its checksum, bytes,
 * their checksum), each an Event of tensorflow/core/util/event.proto, whose Summary has tags with
 * numbers. Checksums are CRC-32C (Castagnoli), masked. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "io/protobuf.h"
#include "measured/measured_internal.h"

enum { RECORD_HEAD = 12, RECORD_TAIL = 4, TAG = 200 };
/* Fields of Event, Summary, Summary.Value and TensorProto. */
enum { WALL_TIME = 1, STEP = 2, SUMMARY = 5, VALUE = 1, VALUE_TAG = 1, SIMPLE = 2, TENSOR = 8 };
enum { TENSOR_CONTENT = 4, FLOAT_VAL = 5, DOUBLE_VAL = 6, DT_FLOAT = 1, DT_DOUBLE = 2 };

static uint32_t crc32c(const unsigned char *bytes, size_t size) {
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (UINT32_C(0x82f63b78) & (0 - (crc & 1)));
	}
	return ~crc;
}

static uint32_t masked(uint32_t crc) {
	return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static uint64_t little(const unsigned char *bytes, int count) {
	uint64_t number = 0;
	for (int i = 0; i < count; i++) number |= (uint64_t)bytes[i] << 8 * i;
	return number;
}

/* The bytes of the record at *at, which moves behind it; false at the end and where it is
 * damaged. */
static bool next_record(const unsigned char **at, const unsigned char *end, lk_proto *record) {
	size_t left = (size_t)(end - *at);
	if (left < RECORD_HEAD + RECORD_TAIL) return false;
	uint64_t size = little(*at, 8);
	if (size > left - RECORD_HEAD - RECORD_TAIL) return false;
	if (little(*at + 8, 4) != masked(crc32c(*at, 8))) return false;
	const unsigned char *bytes = *at + RECORD_HEAD;
	if (little(bytes + size, 4) != masked(crc32c(bytes, (size_t)size))) return false;
	*record = lk_proto_open(bytes, (size_t)size);
	*at = bytes + size + RECORD_TAIL;
	return true;
}

bool lk_hits_is_events(const char *text, size_t size) {
	const unsigned char *at = (const unsigned char *)text;
	return size >= RECORD_HEAD && little(at + 8, 4) == masked(crc32c(at, 8));
}

/* A tensor of one number; NAN for others. */
static double tensor_number(lk_proto tensor) {
	lk_proto_field field;
	uint64_t type = 0;
	double number = NAN;
	while (lk_proto_next(&tensor, &field)) {
		size_t size = field.type == LK_WIRE_BYTES ? lk_proto_size(&field.bytes) : 0;
		bool content = field.number == TENSOR_CONTENT;
		if (field.number == 1 && field.type == LK_WIRE_VARINT) type = field.value;
		if (size == 4 && (field.number == FLOAT_VAL || (content && type == DT_FLOAT)))
			number = lk_proto_float(little(field.bytes.at, 4));
		if (size == 8 && (field.number == DOUBLE_VAL || (content && type == DT_DOUBLE)))
			number = lk_proto_double(little(field.bytes.at, 8));
		if (field.number == FLOAT_VAL && field.type == LK_WIRE_FIXED32)
			number = lk_proto_float(field.value);
	}
	return number;
}

static void events_value(lk_hits *hits, lk_proto value, double step) {
	lk_proto_field field;
	char tag[TAG] = "", text[64];
	double number = NAN;
	while (lk_proto_next(&value, &field)) {
		size_t size = field.type == LK_WIRE_BYTES ? lk_proto_size(&field.bytes) : 0;
		if (field.number == VALUE_TAG && size > 0 && size < sizeof tag) {
			memcpy(tag, field.bytes.at, size);
			tag[size] = '\0';
		}
		if (field.number == SIMPLE && field.type == LK_WIRE_FIXED32)
			number = lk_proto_float(field.value);
		if (field.number == TENSOR && field.type == LK_WIRE_BYTES)
			number = tensor_number(field.bytes);
	}
	if (!*tag || !isfinite(number)) return;
	if (lk_hits_named(hits, tag, lk_format_shortest(number, text, sizeof text), step)) return;
	lk_hits_add(hits, 0, NULL, step, step);
}

static void read_event(lk_hits *hits, lk_proto event) {
	lk_proto_field field;
	lk_proto summary = {0};
	double step = 0;
	hits->stamp = NAN;
	while (lk_proto_next(&event, &field)) {
		if (field.number == WALL_TIME && field.type == LK_WIRE_FIXED64)
			hits->stamp = lk_proto_double(field.value);
		if (field.number == STEP && field.type == LK_WIRE_VARINT)
			step = (double)(int64_t)field.value;
		if (field.number == SUMMARY && field.type == LK_WIRE_BYTES) summary = field.bytes;
	}
	while (summary.at && lk_proto_next(&summary, &field))
		if (field.number == VALUE && field.type == LK_WIRE_BYTES)
			events_value(hits, field.bytes, step);
}

void lk_hits_events(lk_hits *hits, const char *text, size_t size) {
	const unsigned char *at = (const unsigned char *)text, *end = at + size;
	lk_proto record;
	hits->container = "event file";
	while (next_record(&at, end, &record)) read_event(hits, record);
}
