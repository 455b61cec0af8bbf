/* names.c: the names of kinds, streams, groups, phases and owners, in tables parallel to their
 * enums. */
#include "graph/graph.h"

static const char *const kind_names[] = {
#define LK_OP_NAME(symbol, name, comm) name,
	LK_OP_KINDS(LK_OP_NAME)
#undef LK_OP_NAME
};
static const char *const stream_labels[] = {
	"host",
	"compute",
	"tensor parallel",
	"context parallel",
	"expert parallel",
	"data parallel",
	"send forward",
	"receive forward",
	"send backward",
	"receive backward",
	"copy",
	"send forward, upward",
	"receive forward, upward",
	"send backward, upward",
	"receive backward, upward",
	"copy back",
};
static const char *const group_labels[LK_GROUPS] = {
	"none",    "tp", "cp",        "ep",    "etp",      "dp",      "edp",  "shard",
	"replica", "pp", "embedding", "model", "cp-heads", "cp-ring", "team",
};
static const char *const phase_names[LK_PHASES] = {"forward",   "backward",  "weight",
                                                   "recompute", "optimizer", "other"};
static const char *const owner_names[LK_OWNERS] = {
	"weights", "gradients", "optimizer", "activations", "logits", "workspace", "buffers",
};

#define PICK(names, i) ((size_t)(i) < sizeof names / sizeof *names ? names[i] : "unknown")

const char *lk_op_kind_name(lk_op_kind kind) {
	return PICK(kind_names, kind);
}
const char *lk_stream_label(unsigned stream) {
	return PICK(stream_labels, stream);
}
const char *lk_group_label(unsigned group) {
	return PICK(group_labels, group);
}
const char *lk_phase_name(lk_phase phase) {
	return PICK(phase_names, phase);
}
const char *lk_owner_name(lk_owner owner) {
	return PICK(owner_names, owner);
}
