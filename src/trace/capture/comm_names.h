/* comm_names.h: communication as libraries and frameworks name it. */
#ifndef LK_TRACE_COMM_NAMES_H
#define LK_TRACE_COMM_NAMES_H

#include <stdbool.h>

/* Traffic of sockets, whose calls nobody has told: communication, but not of any collective that could be matched. */
#define LK_SOCKETS "sockets"

/* The lk_op_kind of a collective's name ("allreduce", "nccl:all_to_all", "_allgather_base"); LK_OP_COUNT if it is none. */
unsigned lk_comm_kind(const char *name);
/* Whether a kernel's name is one of a communication library (NCCL, RCCL); *kind as its name tells, LK_OP_COUNT where it does not
 * ("ncclDevKernel_Generic"), ALLTOALL for SendRecv. */
bool lk_comm_kernel(const char *name, unsigned *kind);
/* Bytes of an element of a data type ("Float", "BFloat16", "long int"); 0 unknown. */
int lk_comm_element_bytes(const char *type);

#endif
