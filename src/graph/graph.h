/* graph.h: the step graph, the one data structure that every input becomes and every answer comes
 * from.
 *
 * A graph holds *blocks* (short lists of operations: a layer's forward, an optimizer step), and for
 * every rank class a *program*: the blocks it runs, in order. A layer that occurs a thousand times
 * is one block and a thousand calls, or one call with a repeat count. Operations are stored column
 * by column; names are interned.
 *
 * An operation waits for all of:
 *   - the operation before it on its own stream (streams are queues, as CUDA's are);
 *   - its launch: the host thread issues operations in program order and spends host_ps on each;
 *   - `join`: a set of streams whose operations issued before this one must all have ended;
 *   - explicit dependencies on earlier operations of the same block;
 *   - an event of the program (`wait`), set by an earlier operation (`signal`), through the call's
 *       arguments;
 *   - an operation off the compute stream is issued no earlier than the compute operation before it
 *       starts.
 * A collective starts when the last member of its group arrives and ends for all together. A send
 * starts when its receive has arrived too: the k-th send on a channel meets the k-th receive.
 *
 * Times are picoseconds, sizes bytes, work floating-point operations. */
#ifndef LK_GRAPH_GRAPH_H
#define LK_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/intern.h"
#include "io/stream.h"
#include "base/vec.h"
#include "hw/hw.h"
#include "lockstep/error.h"

/* The kind of an operation: the cost family that prices it. X(symbol, name, communicates) */
/* clang-format off */
#define LK_OP_KINDS(X)                                                                             \
	X(GEMM, "gemm", 0)                   /* shape: batch x [m,k] x [k,n] */                        \
	X(GROUPED_GEMM, "grouped_gemm", 0)   /* batch experts, m tokens each on average */             \
	X(CONV, "conv", 0)                   /* as implicit gemm: m pixels, n filters, k window */     \
	X(ATTENTION, "attention", 0)         /* shape: batch heads, m queries, n keys, k head size */  \
	X(ATTENTION_BWD, "attention_bwd", 0)                                                           \
	X(SOFTMAX, "softmax", 0)             /* unfused attention's scale, mask, softmax, dropout */   \
	X(SCAN, "scan", 0)                   /* a state along batch sequences of m tokens in chunks of \
	                                        k: n chains a sequence; channel: lk_scan */            \
	X(SCAN_BWD, "scan_bwd", 0)                                                                     \
	X(NORM, "norm", 0)                   /* memory-bound: bytes only, from here ... */             \
	X(ELEMENTWISE, "elementwise", 0)                                                               \
	X(PERMUTE, "permute", 0)             /* gather and scatter of rows: MoE dispatch */            \
	X(EMBEDDING, "embedding", 0)         /* pooled: m samples, n wide, k lookups in each of batch  \
	                                        tables of `window` rows */                             \
	X(LOSS, "loss", 0)                                                                             \
	X(OPTIMIZER, "optimizer", 0)         /* ... to here */                                         \
	X(COPY, "copy", 0)                   /* host <-> device over PCIe */                           \
	X(HOST, "host", 0)                   /* work of the host thread; with a join, it waits */      \
	X(WAIT, "wait", 0)                   /* a stream waits for an event; takes no time */          \
	X(MACRO, "macro", 0)                 /* a folded run of calls, see sim/sim_internal.h */               \
	X(ALLREDUCE, "all_reduce", 1)                                                                  \
	X(ALLGATHER, "all_gather", 1)                                                                  \
	X(REDUCESCATTER, "reduce_scatter", 1)                                                          \
	X(ALLTOALL, "all_to_all", 1)                                                                   \
	X(BROADCAST, "broadcast", 1)                                                                   \
	X(SEND, "send", 1)                                                                             \
	X(RECV, "recv", 1)
/* clang-format on */

typedef enum lk_op_kind {
#define LK_OP_SYMBOL(symbol, name, comm) LK_OP_##symbol,
	LK_OP_KINDS(LK_OP_SYMBOL) LK_OP_COUNT,
#undef LK_OP_SYMBOL
} lk_op_kind;

const char *lk_op_kind_name(lk_op_kind kind);
static inline bool lk_op_is_comm(unsigned kind) {
	return kind >= LK_OP_ALLREDUCE;
}
static inline bool lk_op_is_collective(unsigned kind) {
	return kind >= LK_OP_ALLREDUCE && kind <= LK_OP_BROADCAST;
}

static inline bool lk_op_multiplies(unsigned kind) {
	return kind == LK_OP_GEMM || kind == LK_OP_GROUPED_GEMM || kind == LK_OP_CONV;
}
static inline bool lk_op_is_attention(unsigned kind) {
	return kind == LK_OP_ATTENTION || kind == LK_OP_ATTENTION_BWD;
}

/* Streams of a rank. The host thread is stream 0, the main compute stream 1. */
enum {
	LK_STREAM_HOST,
	LK_STREAM_COMPUTE,
	LK_STREAM_TP,
	LK_STREAM_CP,
	LK_STREAM_EP,
	LK_STREAM_DP,
	LK_STREAM_SEND_FORWARD,
	LK_STREAM_RECV_FORWARD,
	LK_STREAM_SEND_BACKWARD,
	LK_STREAM_RECV_BACKWARD,
	LK_STREAM_COPY,
	/* messages of the chunk, or direction, whose forward runs from the last stage to the first
	 * (ZB-V, DualPipe) */
	LK_STREAM_SEND_FORWARD_UP,
	LK_STREAM_RECV_FORWARD_UP,
	LK_STREAM_SEND_BACKWARD_UP,
	LK_STREAM_RECV_BACKWARD_UP,
	LK_STREAM_COPY_BACK, /* from the host; LK_STREAM_COPY goes to it */
	LK_STREAMS = 31,     /* most that a graph may use; model-built ones stay below 16 */
};
const char *lk_stream_label(unsigned stream); /* "compute", "tensor parallel", ... */
#define LK_JOIN(stream) (1u << (stream))

/* Kinds of process groups. */
enum {
	LK_GROUP_NONE,
	LK_GROUP_TP,
	LK_GROUP_CP,
	LK_GROUP_EP,
	LK_GROUP_ETP,
	LK_GROUP_DP,      /* with CP: where gradients are summed */
	LK_GROUP_EDP,     /* likewise for experts */
	LK_GROUP_SHARD,   /* hybrid sharding: within a copy */
	LK_GROUP_REPLICA, /* and across copies */
	LK_GROUP_PP,
	LK_GROUP_EMBEDDING, /* first and last stage */
	LK_GROUP_MODEL,     /* tp x pp: gradient norm */
	LK_GROUP_CP_HEADS,  /* hierarchical context parallelism: tokens for heads within a group */
	LK_GROUP_CP_RING,   /* and keys and values across groups */
	LK_GROUP_TEAM, /* a group that is listed: the operation's channel is its index in lk_graph.teams */
	LK_GROUPS,
};
const char *lk_group_label(unsigned group); /* "tp", "dp", ... */
/* Whether its ranks are of several stages of one chain, instead of several chains of one stage. */
static inline bool lk_group_crosses_stages(unsigned group) {
	return group == LK_GROUP_PP || group == LK_GROUP_EMBEDDING || group == LK_GROUP_MODEL;
}

typedef enum lk_phase {
	LK_PHASE_FORWARD,
	LK_PHASE_BACKWARD,
	LK_PHASE_WEIGHT,
	LK_PHASE_RECOMPUTE,
	LK_PHASE_OPTIMIZER,
	LK_PHASE_OTHER,
	LK_PHASES
} lk_phase;
const char *lk_phase_name(lk_phase phase);

/* Owners of memory. */
typedef enum lk_owner {
	LK_OWN_WEIGHTS,
	LK_OWN_GRADIENTS,
	LK_OWN_OPTIMIZER,
	LK_OWN_ACTIVATIONS,
	LK_OWN_LOGITS,
	LK_OWN_WORKSPACE,
	LK_OWN_BUFFERS, /* of communication */
	LK_OWNERS,
} lk_owner;
const char *lk_owner_name(lk_owner owner);

/* One operation as passed to lk_graph_add. Inapplicable fields are zero. */
typedef struct lk_op {
	uint8_t kind, stream, phase, group;
	uint8_t dtype;         /* lk_dtype of the arithmetic */
	uint8_t flags;         /* LK_OP_* below */
	uint32_t join;         /* LK_JOIN of streams */
	uint8_t wait, signal;  /* 0, or 1 + index of the call's argument */
	const char *name;      /* "qkv_proj" */
	double m, n, k, batch; /* shape, see LK_OP_KINDS */
	double flops;
	double bytes;  /* device-memory traffic; for communication: message size as counted by
	                  nccl-tests */
	double window; /* ATTENTION: sliding window, 0 none. CONV: side of the images if windows are 3 x
	                * 3 at stride 1, in k (LK_OP_SUMS_PIXELS: in n); else 0 */
	double pieces; /* > 1: it is one of so many equal parts of one kernel, which waits for flags of
	                * what it reads and is not launched again: shape of the kernel; flops and bytes
	                * of the part. The last part of a collective, which nothing follows, has 0: it
	                * takes what a message of its size takes */
	int32_t channel;       /* SEND, RECV: peers pair on equal channel numbers of their programs;
	                  * LK_GROUP_TEAM: the team; SCAN: lk_scan */
	int64_t measured_ps;   /* > 0: from a trace; used instead of a model */
	double alloc, release; /* bytes taken when it is issued, bytes released after it is issued */
	uint8_t alloc_owner, release_owner;
	const uint32_t *deps; /* operations of the same block, by their place in it */
	uint32_t dep_count;
} lk_op;

/* The kernels of SCAN: Mamba-2, gated delta net, Kimi delta attention, and the short causal
 * convolution before them. */
typedef enum lk_scan { LK_SCAN_MAMBA2, LK_SCAN_GDN, LK_SCAN_KDA, LK_SCAN_CONVOLUTION } lk_scan;

enum {
	LK_OP_CAUSAL = 1,    /* attention: half of the scores */
	LK_OP_TRANSIENT = 2, /* alloc is released at the end of the same operation */
	LK_OP_CARRIED = 8,   /* lifted traces: launched before the step and still running at its
	                      * start */
	LK_OP_DIRECT = 16,   /* all-to-all or all-reduce by the program's own remote reads and writes,
	                        without NCCL */
	LK_OP_SUMS_PIXELS = 32,  /* convolution: the weights' gradient, k pixels */
	LK_OP_LISTED = 64,       /* a pass whose bytes are all that its kernel moves */
	LK_OP_ROW_FACTORS = 128, /* product in 8 bits: each row of its operands has a factor */
	LK_OP_OVERLAPPED = 4 /* TP collective in pieces beside those of the product next to it: its time
	                        is what it adds to the product's (cost/comm.c) */
};

/* Columns of all operations of all blocks. */
typedef struct lk_ops {
	uint32_t count, capacity;
	uint8_t *kind, *stream, *phase, *group, *dtype, *flags, *wait, *signal, *alloc_owner,
		*release_owner;
	uint32_t *join;
	uint32_t *name;
	double *m, *n, *k, *batch, *flops, *bytes, *window, *pieces, *alloc, *release;
	int32_t *channel;
	int64_t *measured_ps;
	uint32_t *dep_begin; /* [count + 1]: into deps */
	uint32_t *deps;
	uint32_t dep_capacity;
} lk_ops;

typedef struct lk_block {
	uint32_t name;       /* interned */
	uint32_t begin, end; /* operations */
} lk_block;

/* One call of a program. */
typedef struct lk_call {
	uint32_t block;
	uint32_t repeat;    /* number of runs in a row */
	int32_t microbatch; /* -1: none */
	int32_t layer;      /* first layer, counting over the whole model; -1: none */
	uint8_t chunk;
	uint8_t pass;    /* lk_phase of the whole call */
	uint16_t arg[2]; /* events for the block's wait / signal 1 and 2 */
} lk_call;

/* The program of one rank class. */
typedef struct lk_program {
	uint32_t name; /* interned: "stage 3" */
	uint32_t stage;
	LK_VEC(lk_call) calls;
	uint32_t events;            /* events are numbered 0 .. events-1 */
	uint32_t channels;          /* channels are numbered below this */
	double resident[LK_OWNERS]; /* bytes held during the whole step */
	double updated; /* parameters whose gradients a rank has at the end of the step, over all
	                   shards; 0: not stated */
	/* Of a lockstep compile program: it takes these gradients as partial sums and reduces them
	 * itself; it takes slices of them; it leaves slices of new weights, which it does not
	 * gather. */
	bool reduces, takes_slices, leaves_slices;
	uint32_t stream_names[LK_STREAMS]; /* interned: for lifted traces, "stream 7", "thread 3126441";
	                                      0: lk_stream_label */
	uint32_t threads;                  /* lifted traces: one bit per stream that is a CPU thread */
} lk_program;

/* The layout of ranks: `chains` = ranks of one stage. The rank of (stage, chain) is stage * chains
 * + chain. A group of a kind is chain / (size * stride) * stride + chain % stride; PP, EMBEDDING
 * and MODEL groups run across stages. */
typedef struct lk_ranks {
	uint32_t world, stages, chains;
	struct {
		uint32_t size, stride;
	} group[LK_GROUPS];
} lk_ranks;

/* A process group that no arithmetic describes, as in traces: the programs that take part. With
 * several chains, either each chain of the programs is a group of its own, or all chains together
 * are one. Operations of a team (collectives, and SEND and RECV of two) start when all its members
 * that are in the graph have arrived and end for all together. */
typedef struct lk_team {
	uint32_t name;       /* interned */
	uint32_t begin, end; /* stages, ascending, in lk_graph.team_stages */
	uint32_t ranks;      /* of one group; more than its members if some ranks were not captured */
	bool across;         /* all chains are one group */
} lk_team;

/* Channel c of program s leads to program peer[s][c] at its channel mirror[s][c]. */
typedef struct lk_wire {
	uint32_t stage, channel;
} lk_wire;

/* What prices the operations in addition to the cluster: the software of the job that a graph was
 * built from. All zero without a job. */
typedef struct lk_software {
	uint32_t stack, release; /* names, 0: not stated: whose features apply */
	bool cuda_graphs, graph_experts, compiled;
	bool
		recipes; /* CUDA graphs are where the software's recipes have them: another on other GPUs */
	uint32_t attention; /* lk_attn_library: whose kernels; 0: not stated */
	bool streaming;     /* the graph has every pass over memory: see lk_profile_streaming */
} lk_software;

typedef struct lk_graph {
	lk_intern *names;
	lk_ops ops;
	LK_VEC(lk_block) blocks;
	LK_VEC(lk_program) programs; /* [stages], by stage */
	LK_VEC(lk_wire) wires;       /* of program s, channel c: wires.at[s * channels + c] */
	uint32_t channels;           /* most channels of a program */
	lk_ranks ranks;
	LK_VEC(lk_team) teams;
	LK_VEC(uint32_t) team_stages;
	/* A lifted trace: launches are operations (HOST, on the streams of CPU threads) and
	 * dependencies, so neither the host stream's order nor the compute stream's start delays
	 * others; a program is a rank, and the rank of (stage, chain) is chain * stages + stage: chains
	 * are copies of all traced ranks. */
	bool traced;
	/* facts for stating results */
	double model_flops;     /* of one step, all ranks (numerator of the MFU) */
	double tokens, samples; /* of one step, all ranks */
	uint32_t peak_dtype;    /* lk_dtype whose dense peak is the MFU's denominator */
	lk_software software;
	uint32_t cluster; /* name: the text form of the cluster for which it was built; 0: not stated,
	                   * as after edits, which may have changed it */
	bool failed;      /* memory ran out while building; lk_graph_end_block reports it */
} lk_graph;

static inline const char *lk_graph_text(const lk_graph *graph, uint32_t id) {
	return lk_intern_text(graph->names, id);
}

/* Number of a rank: stage by stage; copy by copy in lifted traces. */
static inline uint32_t lk_rank_of(const lk_graph *graph, uint32_t stage, uint32_t chain) {
	return graph->traced ? chain * graph->ranks.stages + stage
	                     : stage * graph->ranks.chains + chain;
}
static inline uint32_t lk_rank_stage(const lk_graph *graph, uint32_t rank) {
	return graph->traced ? rank % graph->ranks.stages : rank / graph->ranks.chains;
}
static inline uint32_t lk_rank_chain(const lk_graph *graph, uint32_t rank) {
	return graph->traced ? rank / graph->ranks.stages : rank % graph->ranks.chains;
}

lk_graph *lk_graph_new(void); /* NULL when memory runs out */
void lk_graph_free(lk_graph *graph);

/* Blocks: begin, add operations, end. Memory errors are kept and returned by lk_graph_end_block,
 * which returns the id. */
void lk_graph_begin_block(lk_graph *graph, const char *name);
uint32_t lk_graph_add(lk_graph *graph, const lk_op *op); /* place in the block */
lk_status lk_graph_end_block(lk_graph *graph, uint32_t *id, lk_error *err);
/* Reserve room for known numbers of operations and dependencies. */
void lk_graph_reserve(lk_graph *graph, size_t ops, size_t deps);
/* Copy the operations of another graph, whose names have the same numbers, into a graph without
 * any. */
lk_status lk_graph_copy_ops(const lk_graph *from, lk_graph *to, lk_error *err);
/* Operation `op` as passed to lk_graph_add; its name and dependencies point into the graph. */
lk_op lk_graph_op(const lk_graph *graph, uint32_t op);

/* Programs: set all at once, then append calls to each. */
lk_status lk_graph_set_programs(lk_graph *graph, uint32_t stages, uint32_t channels, lk_error *err);
static inline lk_status lk_graph_call(lk_graph *graph, uint32_t stage, const lk_call *call,
                                      lk_error *err) {
	lk_program *program = &graph->programs.at[stage];
	if (program->calls.count == program->calls.capacity && !lk_reserve(&program->calls, 1))
		return lk_oom(err);
	program->calls.at[program->calls.count++] = *call;
	return LK_OK;
}
/* Add a team of the listed stages (ascending); returns its index. Memory errors are kept, as in
 * lk_graph_add. */
uint32_t lk_graph_add_team(lk_graph *graph, const char *name, const uint32_t *stages,
                           uint32_t count, uint32_t ranks, bool across);
/* The index in lk_graph.team_stages of a stage as a member of the team; UINT32_MAX: not a
 * member. */
uint32_t lk_team_member(const lk_graph *graph, const lk_team *team, uint32_t stage);

/* Name a stream of a program: a CPU thread, or a stream of the device. */
lk_status lk_graph_name_stream(lk_graph *graph, uint32_t stage, unsigned stream, const char *name,
                               bool thread, lk_error *err);
/* Its given name, or lk_stream_label. */
const char *lk_graph_stream(const lk_graph *graph, uint32_t stage, unsigned stream);

/* Connect channel `a` of stage `s` with channel `b` of stage `t`. */
void lk_graph_wire(lk_graph *graph, uint32_t s, uint32_t a, uint32_t t, uint32_t b);

/* Use one hardware queue for all streams (CUDA_DEVICE_MAX_CONNECTIONS=1): nothing starts before
 * earlier issued operations have started. Adds WAITs; ids of blocks stay, places of operations
 * change. A lifted trace already has its queues: LK_ERR_INPUT. */
lk_status lk_graph_one_queue(lk_graph *graph, lk_error *err);

/* Operations run by its programs, one rank each, with repetitions. */
double lk_graph_length(const lk_graph *graph);

/* The most operations of a transformer layer, forward and backward together (blocks named
 * "layer..."). */
uint32_t lk_graph_layer_ops(const lk_graph *graph);

/* Check every invariant: indices in range, dependencies backward, sends matched by receives,
 * operations of a team issued equally often by all its members, events signalled before they are
 * waited for, allocations released. The error names program, call and operation. */
lk_status lk_graph_check(const lk_graph *graph, lk_error *err);

/* The file form (docs/reference/files.md, "The graph file"): JSON, readable, versioned; .gz is
 * compressed. Reading a written file gives the same graph. */
lk_status lk_graph_write(const lk_graph *graph, const char *path, lk_error *err);
lk_status lk_graph_put(const lk_graph *graph, FILE *out, lk_error *err);
lk_status lk_graph_read(const char *path, lk_graph **out, lk_error *err);
lk_status lk_graph_read_stream(lk_stream *in, lk_graph **out, lk_error *err);

/* The modelled time of operation `op` of the graph on rank (stage, chain), ps. */
typedef double lk_chakra_time(const void *context, uint32_t stage, uint32_t chain, uint32_t op);
/* Contents of Chakra's traces in addition to work, messages and their order. */
typedef struct lk_chakra_options {
	bool host; /* include nodes of the host; otherwise what waits for them waits for what they wait
	            * for */
	lk_chakra_time
		*time; /* durations of all nodes but messages; NULL: those that the graph states */
	const void *context; /* of `time` */
} lk_chakra_options;

/* Write DIR/lockstep.RANK.et for every rank: Chakra's execution traces, for simulators. Creates the
 * folder. */
lk_status lk_graph_chakra_write(const lk_graph *graph, const lk_chakra_options *options,
                                const char *dir, lk_error *err);

/* Write a GOAL schedule of all ranks, for LogGOPSim: kernels with the durations of `times` (its
 * `host` is ignored), collectives as their messages; tenths of a picosecond. */
lk_status lk_graph_goal_write(const lk_graph *graph, const lk_chakra_options *times,
                              const char *path, lk_error *err);

#endif
