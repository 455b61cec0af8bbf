/* critical.h: the chain of work that a traced step hangs on: from its end back, always to what was over last of all that
 * had to be over. */
#ifndef LK_ASK_CRITICAL_H
#define LK_ASK_CRITICAL_H

#include "trace/lift/lift.h"

/* Where the time of a chain goes, X(symbol, name). */
#define LK_CRITICAL_KINDS(X)                                        \
	X(COMPUTE, "computation")                                       \
	X(COMMUNICATION, "communication: transfer")                     \
	X(PEERS, "communication: waiting for ranks that are not traced") \
	X(COPY, "copies and fills")                                     \
	X(LAG, "device: between what is waited for and the start")      \
	X(LAUNCH, "host: launch calls")                                 \
	X(SYNC, "host: returning from synchronisation")                 \
	X(LOADING, "host: data loading")                                \
	X(OPERATIONS, "host: operations")                               \
	X(BETWEEN, "host: between operations")                          \
	X(OTHER, "before what was traced")

typedef enum lk_critical_kind {
#define LK_CRITICAL_SYMBOL(symbol, name) LK_CRITICAL_##symbol,
	LK_CRITICAL_KINDS(LK_CRITICAL_SYMBOL)
#undef LK_CRITICAL_SYMBOL
	LK_CRITICALS,
} lk_critical_kind;
const char *lk_critical_name(lk_critical_kind kind);

typedef struct lk_critical_op {
	uint32_t rank, op;
	int64_t start_ns, end_ns; /* of its part of the chain, in common time */
} lk_critical_op;

typedef struct lk_critical_chain {
	LK_VEC(lk_critical_op) ops; /* in order of time, without gaps */
	double ns[LK_CRITICALS];    /* adds up to the chain's length */
	double length_ns;
	uint32_t hops;              /* from rank to rank */
} lk_critical_chain;

lk_status lk_critical_find(const lk_lifted *lifted, lk_critical_chain *out, lk_error *err);
void lk_critical_free(lk_critical_chain *chain);

#endif
