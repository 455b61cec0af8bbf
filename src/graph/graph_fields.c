/* graph_fields.c: the fields of an operation by name, for the file form: one table for writer and
 * reader. */
#include "graph/graph_internal.h"

#include <stddef.h>

#define AT(field) offsetof(lk_op, field)
#define CHOICE(field, list) \
	{ #field, LK_FORM_CHOICE, LK_LIST_##list, AT(field), 0, false }
#define REAL(field) \
	{ #field, LK_FORM_REAL, 0, AT(field), 0, false }

const lk_graph_field lk_graph_fields[LK_GRAPH_FIELDS] = {
	{"name", LK_FORM_TEXT, 0, AT(name), 0, true},
	{"kind", LK_FORM_CHOICE, LK_LIST_KIND, AT(kind), 0, true},
	{"stream", LK_FORM_CHOICE, LK_LIST_STREAM, AT(stream), 0, true},
	CHOICE(phase, PHASE),
	CHOICE(group, GROUP),
	CHOICE(dtype, DTYPE),
	{"flags", LK_FORM_SET, LK_LIST_FLAG, AT(flags), UINT8_MAX, false},
	REAL(m),
	REAL(n),
	REAL(k),
	REAL(batch),
	REAL(flops),
	REAL(bytes),
	REAL(window),
	REAL(pieces),
	{"channel", LK_FORM_CHANNEL, 0, AT(channel), 0, false},
	{"measured_ps", LK_FORM_TIME, 0, AT(measured_ps), 0, false},
	REAL(alloc),
	CHOICE(alloc_owner, OWNER),
	REAL(release),
	CHOICE(release_owner, OWNER),
	{"join", LK_FORM_SET, LK_LIST_STREAM, AT(join), UINT32_MAX, false},
	{"wait", LK_FORM_BYTE, 0, AT(wait), 2, false},
	{"signal", LK_FORM_BYTE, 0, AT(signal), 2, false},
	{"deps", LK_FORM_DEPS, 0, AT(deps), 0, false},
};

static const char *fields_kind_name(unsigned i) {
	return lk_op_kind_name((lk_op_kind)i);
}
static const char *phase_name(unsigned i) {
	return lk_phase_name((lk_phase)i);
}
static const char *dtype_name(unsigned i) {
	return lk_dtype_name((lk_dtype)i);
}
static const char *owner_name(unsigned i) {
	return lk_owner_name((lk_owner)i);
}
/* A graph's attention kernels; lk_attn_library. */
static const char *attention_name(unsigned i) {
	static const char *const names[] = {"not stated", "cudnn", "fa2", "fa3"};
	return names[i];
}

static const char *flag_name(unsigned i) {
	static const char *const names[LK_GRAPH_FLAGS] = {"causal",  "transient", "overlapped",
	                                                  "carried", "direct",    "sums_pixels",
	                                                  "listed"}; /* by bit */
	return names[i];
}

size_t lk_graph_names(lk_graph_list list, const char *names[LK_GRAPH_NAMES]) {
	static const struct {
		const char *(*name)(unsigned);
		size_t count;
	} lists[] = {
		[LK_LIST_KIND] = {fields_kind_name, LK_OP_COUNT},
		[LK_LIST_STREAM] = {lk_stream_label, LK_STREAM_COPY + 1},
		[LK_LIST_PHASE] = {phase_name, LK_PHASES},
		[LK_LIST_GROUP] = {lk_group_label, LK_GROUPS},
		[LK_LIST_DTYPE] = {dtype_name, LK_DTYPES},
		[LK_LIST_OWNER] = {owner_name, LK_OWNERS},
		[LK_LIST_FLAG] = {flag_name, LK_GRAPH_FLAGS},
		[LK_LIST_ATTENTION] = {attention_name, 4},
	};
	for (unsigned i = 0; i < lists[list].count; i++) names[i] = lists[list].name(i);
	return lists[list].count;
}
