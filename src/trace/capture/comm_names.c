/* comm_names.c: names that libraries and frameworks give to communication: kernels of NCCL and
 * RCCL, kernels that communicate without them, annotations of torch.distributed, arguments of
 * Kineto. */
#include "trace/capture/capture.h"

#include <string.h>
#include "graph/graph.h"

struct comm_name {
	const char *part; /* in lower case, without '_', '-' and ' ' */
	lk_op_kind kind;
};

static const struct comm_name names[] = {
	{"reducescatter", LK_OP_REDUCESCATTER},
	{"allreduce", LK_OP_ALLREDUCE},
	{"allgather", LK_OP_ALLGATHER},
	{"alltoall", LK_OP_ALLTOALL},
	{"broadcast", LK_OP_BROADCAST},
	{"sendrecv", LK_OP_ALLTOALL},
	{"send", LK_OP_SEND},
	{"recv", LK_OP_RECV},
	{"barrier", LK_OP_ALLREDUCE},
	{"reduce", LK_OP_ALLREDUCE},
	{"gather", LK_OP_ALLGATHER},
	{"scatter", LK_OP_BROADCAST},
};

/* Kernels that access the memory of other GPUs directly. A collective in a kernel's name is enough;
 * the others are names from public sources. */
static const struct comm_name direct[] = {
	{"allreduce", LK_OP_ALLREDUCE}, /* PyTorch's symmetric memory (multimem_all_reduce_kernel,
	                                   one_shot_, two_shot_), TensorRT-LLM, FlashInfer, quickreduce,
	                                   MSCCL++ */
	{"reducescatter", LK_OP_REDUCESCATTER},
	{"allgather", LK_OP_ALLGATHER},
	{"alltoall", LK_OP_ALLTOALL},
	{"crossdevicereduce", LK_OP_ALLREDUCE}, /* vLLM, csrc/custom_all_reduce.cuh; SGLang, AITER */
	{"moea2adispatch", LK_OP_ALLTOALL},     /* TensorRT-LLM, kernels/communicationKernels */
	{"moea2acombine", LK_OP_ALLTOALL},
	{"deepep::intranode::dispatch", LK_OP_ALLTOALL}, /* DeepEP, csrc/kernels */
	{"deepep::intranode::combine", LK_OP_ALLTOALL},
	{"deepep::internode::dispatch", LK_OP_ALLTOALL},
	{"deepep::internode::combine", LK_OP_ALLTOALL},
	{"deepep::internodell::dispatch", LK_OP_ALLTOALL},
	{"deepep::internodell::combine", LK_OP_ALLTOALL},
	{"deepep::intranode::notifydispatch", LK_OP_ALLTOALL},
	{"deepep::intranode::cachednotify", LK_OP_ALLTOALL},
	{"deepep::internode::notifydispatch", LK_OP_ALLTOALL},
	{"deepep::internode::cachednotify", LK_OP_ALLTOALL},
	{"deepep::intranode::barrier", LK_OP_ALLREDUCE},
	{"userbuffers", LK_OP_COUNT}, /* Transformer Engine, comm_gemm_overlap/userbuffers */
	{"mscclkernel", LK_OP_COUNT}, /* RCCL's MSCCL: any algorithm */
	{"mscclpp::", LK_OP_COUNT},
	{"nvshmem", LK_OP_COUNT},
	{"rocshmem", LK_OP_COUNT},
};

/* Lower case, without '_', '-' and ' '. */
static void plain_name(const char *name, size_t length, char *out, size_t size) {
	size_t n = 0;
	for (size_t i = 0; i < length && n < size - 1; i++) {
		char c = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 'a' - 'A') : name[i];
		if (c != '_' && c != '-' && c != ' ') out[n++] = c;
	}
	out[n] = '\0';
}

unsigned lk_comm_kind(const char *name) {
	char plain[128];
	plain_name(name, strlen(name), plain, sizeof plain);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(plain, names[i].part)) return names[i].kind;
	return LK_OP_COUNT;
}

/* Length of a kernel's own name: its template arguments and parameters may have any name. */
static size_t own_name(const char *name) {
	static const char anonymous[] = "(anonymous namespace)";
	size_t length = 0;
	while (name[length] && name[length] != '<') {
		if (name[length] != '(') length++;
		else if (strncmp(name + length, anonymous, sizeof anonymous - 1) == 0)
			length += sizeof anonymous - 1;
		else break;
	}
	return length > strlen("void ") ? length : strlen(name); /* "<unnamed>::" begins with '<' */
}

/* Inductor names fused kernels after the operations around them, collectives included. */
static bool comm_direct(const char *name, unsigned *kind) {
	char plain[256];
	if (strncmp(name, "triton_", 7) == 0) return false;
	plain_name(name, own_name(name), plain, sizeof plain);
	for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
		if (strstr(plain, direct[i].part)) {
			*kind = direct[i].kind;
			return true;
		}
	return false;
}

bool lk_comm_kernel(const char *name, unsigned *kind) {
	if (strncmp(name, "MPI_", 4) == 0) return (*kind = lk_comm_kind(name + 4)) != LK_OP_COUNT;
	if (strcmp(name, LK_SOCKETS) == 0) {
		*kind = LK_OP_COUNT;
		return true;
	}
	/* calls, as recordings name the work they cause */
	if (strncmp(name, "nccl", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z' &&
	    !strstr(name, "Kernel"))
		return (*kind = lk_comm_kind(name + 4)) != LK_OP_COUNT;
	const char *at = strstr(name, "nccl"); /* RCCL keeps NCCL's names */
	if (!at || (!strstr(at, "Kernel") && !strstr(at, "Dev"))) return comm_direct(name, kind);
	*kind = lk_comm_kind(at);
	return true;
}

int lk_comm_element_bytes(const char *type) {
	static const struct {
		const char *name;
		int bytes;
	} types[] = {
		{"float", 4},         {"double", 8},        {"half", 2},        {"bfloat16", 2},
		{"c10::half", 2},     {"c10::bfloat16", 2}, {"int", 4},         {"long", 8},
		{"long int", 8},      {"char", 1},          {"signed char", 1}, {"byte", 1},
		{"unsigned char", 1}, {"bool", 1},          {"short", 2},       {"short int", 2},
		{"float8_e4m3fn", 1}, {"float8_e5m2", 1},   {"float32", 4},     {"float16", 2},
		{"float64", 8},       {"int64", 8},         {"int32", 4},       {"int8", 1},
		{"uint8", 1},
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcasecmp(type, types[i].name) == 0) return types[i].bytes;
	return 0;
}
