/* lift_kinds.c: kernels by name, where no shapes tell more. */
#include "trace/lift_kinds.h"

#include <string.h>
#include "trace/comm_names.h"

static const struct {
	const char *part;
	lk_op_kind kind;
} names[] = {
	{"flash_bwd", LK_OP_ATTENTION_BWD}, {"flash_fwd", LK_OP_ATTENTION}, {"fmha", LK_OP_ATTENTION}, {"flash", LK_OP_ATTENTION},
	{"gemm", LK_OP_GEMM}, {"cutlass", LK_OP_GEMM}, {"cublas", LK_OP_GEMM}, {"gemv", LK_OP_GEMM}, {"winograd", LK_OP_CONV},
	{"scudnn", LK_OP_CONV}, {"wgrad", LK_OP_CONV}, {"dgrad", LK_OP_CONV}, {"conv", LK_OP_CONV}, {"softmax", LK_OP_SOFTMAX},
	{"batch_norm", LK_OP_NORM}, {"bn_", LK_OP_NORM}, {"norm", LK_OP_NORM}, {"embedding", LK_OP_EMBEDDING},
	{"multi_tensor_apply", LK_OP_OPTIMIZER}, {"adam", LK_OP_OPTIMIZER}, {"loss", LK_OP_LOSS}, {"gather", LK_OP_PERMUTE},
	{"scatter", LK_OP_PERMUTE}, {"index", LK_OP_PERMUTE}, {"permute", LK_OP_PERMUTE}, {"sort", LK_OP_PERMUTE},
};

static lk_op_kind kernel_kind(const char *name) {
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcasestr(name, names[i].part)) return names[i].kind;
	return LK_OP_ELEMENTWISE;
}

static void copy_kind(const lk_capture *c, uint32_t event, lk_op *out) {
	const char *name = out->name;
	bool host = strstr(name, "HtoD") || strstr(name, "DtoH") || strstr(name, "Host");
	out->kind = host ? LK_OP_COPY : LK_OP_ELEMENTWISE;
	if (c->value[event] <= 0) return;
	/* within the device it is read and written */
	out->bytes = (double)c->value[event] * (host || c->kind[event] == LK_EVENT_MEMSET ? 1 : 2);
}

void lk_lift_kind(const lk_capture *c, uint32_t event, lk_op *out, lk_lifted *lifted) {
	unsigned comm;
	const lk_comm_note *note = lk_capture_comm(c, event);
	out->name = lk_capture_text(c, c->name[event]);
	lifted->device_ns += (double)c->dur_ns[event];
	if (c->kind[event] != LK_EVENT_KERNEL) {
		copy_kind(c, event, out);
	} else if (lk_comm_kernel(out->name, &comm) || note) {
		if (note) comm = note->kind;
		out->kind = comm < LK_OP_COUNT ? (uint8_t)comm : LK_OP_ALLREDUCE;
		if (note && note->in_elements > 0) out->bytes = (double)(note->in_elements > note->out_elements ? note->in_elements : note->out_elements) * note->element_bytes;
	} else {
		out->kind = (uint8_t)kernel_kind(out->name);
	}
	if (out->bytes > 0 || out->flops > 0) lifted->known_ns += (double)c->dur_ns[event];
}
