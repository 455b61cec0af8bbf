/* protobuf.h: the wire format of protocol buffers, without their compiler: fields from a message,
 * and a message from fields. Wire types 3 and 4 (groups, obsolete) are errors.
 * protobuf.dev/programming-guides/encoding */
#ifndef LK_BASE_PROTOBUF_H
#define LK_BASE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/vec.h"

typedef enum lk_wire_type {
	LK_WIRE_VARINT = 0,
	LK_WIRE_FIXED64 = 1,
	LK_WIRE_BYTES = 2,
	LK_WIRE_FIXED32 = 5
} lk_wire_type;

/* A message being read, or the rest of one. */
typedef struct lk_proto {
	const unsigned char *at, *end;
	bool broken; /* it ends within a field, or holds an invalid one */
} lk_proto;

typedef struct lk_proto_field {
	uint32_t number;
	lk_wire_type type;
	uint64_t value; /* VARINT, and the bits of FIXED64 and FIXED32 */
	lk_proto bytes; /* BYTES: text, or a nested message */
} lk_proto_field;

static inline lk_proto lk_proto_open(const void *bytes, size_t size) {
	return (lk_proto){bytes, (const unsigned char *)bytes + size, false};
}
/* Read the next field; false at the end and if the message is broken. */
bool lk_proto_next(lk_proto *proto, lk_proto_field *field);
/* Read one number without a field before it (packed lists, lengths of messages); false as above. */
bool lk_proto_varint(lk_proto *proto, uint64_t *value);
static inline size_t lk_proto_size(const lk_proto *proto) {
	return (size_t)(proto->end - proto->at);
}
static inline int64_t lk_proto_zigzag(uint64_t value) {
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}
double lk_proto_double(uint64_t bits);
double lk_proto_float(uint64_t bits);

/* A message being written. When memory runs out, `lost` is set and the bytes are useless. */
typedef struct lk_proto_out {
	LK_VEC(unsigned char) bytes;
	bool lost;
} lk_proto_out;

/* Encode one number into `at`, which has room for LK_PROTO_VARINT bytes; returns its length. */
enum { LK_PROTO_VARINT = 10 };
size_t lk_proto_encode(unsigned char *at, uint64_t value);
void lk_proto_put_varint(lk_proto_out *out, uint64_t value); /* an element of a packed list */
void lk_proto_put_integer(lk_proto_out *out, unsigned field, uint64_t value);
void lk_proto_put_fixed64(lk_proto_out *out, unsigned field, uint64_t bits);
void lk_proto_put_double(lk_proto_out *out, unsigned field, double value);
/* Append bytes that are already encoded. */
void lk_proto_put_bytes(lk_proto_out *out, const void *bytes, size_t size);
/* Text fields of protobuf are UTF-8; invalid bytes become U+FFFD. */
void lk_proto_put_text(lk_proto_out *out, unsigned field, const char *text);
/* A nested message, or with field 0 a record of a stream, which has a length and no tag: everything
 * put between begin and end; pass begin's result to end. */
size_t lk_proto_begin(lk_proto_out *out, unsigned field);
void lk_proto_end(lk_proto_out *out, size_t begun);

#endif
