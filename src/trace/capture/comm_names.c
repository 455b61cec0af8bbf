/* comm_names.c: communication as libraries and frameworks name it: kernels of NCCL and RCCL,
 * annotations of torch.distributed, arguments of Kineto. */
#include "trace/capture/capture.h"

#include <string.h>
#include "graph/graph.h"

static const struct {
	const char *part; /* in small letters, without '_' and '-' */
	lk_op_kind kind;
} names[] = {
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

unsigned lk_comm_kind(const char *name) {
	char plain[128];
	size_t n = 0;
	for (; *name && n < sizeof plain - 1; name++) {
		char c = *name >= 'A' && *name <= 'Z' ? (char)(*name + 'a' - 'A') : *name;
		if (c != '_' && c != '-' && c != ' ') plain[n++] = c;
	}
	plain[n] = '\0';
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(plain, names[i].part)) return names[i].kind;
	return LK_OP_COUNT;
}

bool lk_comm_kernel(const char *name, unsigned *kind) {
	if (strncmp(name, "MPI_", 4) == 0) return (*kind = lk_comm_kind(name + 4)) != LK_OP_COUNT;
	if (strcmp(name, LK_SOCKETS) == 0) {
		*kind = LK_OP_COUNT;
		return true;
	}
	/* calls, as recordings name the work that they cause */
	if (strncmp(name, "nccl", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z' &&
	    !strstr(name, "Kernel"))
		return (*kind = lk_comm_kind(name + 4)) != LK_OP_COUNT;
	const char *at = strstr(name, "nccl"); /* RCCL keeps NCCL's names */
	if (!at || (!strstr(at, "Kernel") && !strstr(at, "Dev"))) return false;
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
