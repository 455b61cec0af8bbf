/* protobuf.c: the wire format of protocol buffers. */
#include "io/protobuf.h"

#include <string.h>
#include "base/check.h"
#include "base/text.h"

/* ---- reading ---- */

bool lk_proto_varint(lk_proto *proto, uint64_t *value) {
	*value = 0;
	for (unsigned shift = 0; shift < 64 && proto->at < proto->end; shift += 7) {
		unsigned char byte = *proto->at++;
		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) return true;
	}
	proto->broken = true; /* over ten bytes, or cut off */
	proto->at = proto->end;
	return false;
}

static bool protobuf_fail(lk_proto *proto) {
	proto->broken = true;
	proto->at = proto->end;
	return false;
}

static bool fixed(lk_proto *proto, unsigned bytes, uint64_t *value) {
	if (lk_proto_size(proto) < bytes) return protobuf_fail(proto);
	*value = 0;
	for (unsigned i = 0; i < bytes; i++) *value |= (uint64_t)*proto->at++ << 8 * i;
	return true;
}

bool lk_proto_next(lk_proto *proto, lk_proto_field *field) {
	uint64_t tag, length;
	LK_ASSERT(proto->at <= proto->end);
	if (proto->at == proto->end || !lk_proto_varint(proto, &tag)) return false;
	*field = (lk_proto_field){.number = (uint32_t)(tag >> 3), .type = (lk_wire_type)(tag & 7)};
	if (tag >> 32 || field->number == 0) return protobuf_fail(proto);
	switch (field->type) {
	case LK_WIRE_VARINT: return lk_proto_varint(proto, &field->value);
	case LK_WIRE_FIXED64: return fixed(proto, 8, &field->value);
	case LK_WIRE_FIXED32: return fixed(proto, 4, &field->value);
	case LK_WIRE_BYTES:
		if (!lk_proto_varint(proto, &length)) return false;
		if (length > lk_proto_size(proto)) return protobuf_fail(proto);
		field->bytes = lk_proto_open(proto->at, (size_t)length);
		proto->at += length;
		return true;
	default: return protobuf_fail(proto);
	}
}

double lk_proto_double(uint64_t bits) {
	double value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

double lk_proto_float(uint64_t bits) {
	uint32_t low = (uint32_t)bits;
	float value;
	memcpy(&value, &low, sizeof value);
	return (double)value;
}

/* ---- writing ---- */

enum { VARINT = LK_PROTO_VARINT };

static unsigned char *protobuf_room(lk_proto_out *out, size_t size) {
	if (size <= out->bytes.capacity - out->bytes.count || lk_reserve(&out->bytes, size))
		return out->bytes.at + out->bytes.count;
	out->lost = true;
	out->bytes.count = 0;
	return NULL;
}

size_t lk_proto_encode(unsigned char *at, uint64_t value) {
	size_t used = 0;
	for (; value >= 0x80; value >>= 7) at[used++] = (unsigned char)(value | 0x80);
	at[used++] = (unsigned char)value;
	LK_ASSERT(used <= VARINT);
	return used;
}

void lk_proto_put_varint(lk_proto_out *out, uint64_t value) {
	unsigned char *at = protobuf_room(out, VARINT);
	if (at) out->bytes.count += lk_proto_encode(at, value);
}

void lk_proto_put_integer(lk_proto_out *out, unsigned field, uint64_t value) {
	unsigned char *at = protobuf_room(out, 2 * VARINT);
	if (!at) return;
	size_t used = lk_proto_encode(at, (uint64_t)field << 3 | LK_WIRE_VARINT);
	out->bytes.count += used + lk_proto_encode(at + used, value);
}

void lk_proto_put_fixed64(lk_proto_out *out, unsigned field, uint64_t bits) {
	unsigned char *at = protobuf_room(out, VARINT + 8);
	if (!at) return;
	size_t used = lk_proto_encode(at, (uint64_t)field << 3 | LK_WIRE_FIXED64);
	for (int i = 0; i < 8; i++) at[used++] = (unsigned char)(bits >> 8 * i);
	out->bytes.count += used;
}

void lk_proto_put_double(lk_proto_out *out, unsigned field, double value) {
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	lk_proto_put_fixed64(out, field, bits);
}

void lk_proto_put_bytes(lk_proto_out *out, const void *bytes, size_t size) {
	unsigned char *at = protobuf_room(out, size);
	if (!at || !size) return;
	memcpy(at, bytes, size);
	out->bytes.count += size;
}

/* The length takes one byte; lk_proto_end makes room if the message is longer. */
size_t lk_proto_begin(lk_proto_out *out, unsigned field) {
	unsigned char *at = protobuf_room(out, 2 * VARINT);
	if (!at) return 0;
	out->bytes.count += (field ? lk_proto_encode(at, (uint64_t)field << 3 | LK_WIRE_BYTES) : 0) + 1;
	return out->bytes.count;
}

void lk_proto_end(lk_proto_out *out, size_t begun) {
	if (!protobuf_room(out, VARINT) || out->bytes.count < begun || !begun) return;
	size_t length = out->bytes.count - begun;
	unsigned char encoded[VARINT], *body = out->bytes.at + begun;
	size_t used = lk_proto_encode(encoded, length);
	if (used > 1) memmove(body + used - 1, body, length);
	memcpy(body - 1, encoded, used);
	out->bytes.count += used - 1;
}

void lk_proto_put_text(lk_proto_out *out, unsigned field, const char *text) {
	size_t left = strlen(text), begun = lk_proto_begin(out, field), taken;
	unsigned char *at =
		left <= SIZE_MAX / 3 ? protobuf_room(out, left * 3) : protobuf_room(out, left);
	if (!at) return;
	for (; left; text += taken, left -= taken) {
		taken = lk_utf8_length(text, left);
		memcpy(at, taken ? text : "\xef\xbf\xbd", taken ? taken : 3);
		at += taken ? taken : 3;
		if (!taken) taken = 1;
	}
	out->bytes.count = (size_t)(at - out->bytes.at);
	lk_proto_end(out, begun);
}
