/* steps.h: a scheduled program as the steps that every rank runs, in order. Targets write them out,
 * the simulator times them; neither looks at bundles of the program again.
 *
 * Without a schedule every statement is one pass over memory: its expression stays in registers;
 * named values, collectives, and values read by another step are in memory. lc_steps_joined makes
 * one pass of statements that share memory (C and MPI). `fuse` makes one step of several
 * statements, `overlap` one of several steps that run chunk by chunk.
 *
 * Memory: lc_steps.storage gives for each value the value whose memory holds it: its own id; its
 * state's for an update (in place); its operand's for out, local, sliced and for a contiguous slice
 * (from the slice's first element on); -1: only in registers, or recomputed when used.
 *
 * - Recomputed: constants, scalars, size(), and arithmetic whose result is a single number
 *   (rank 0), also of results of earlier steps. lc_step.numbers lists the arithmetic that a step
 *   needs. It is in memory only if a collective, a matmul or an output reads it, or if a state that
 *   it depends on changes before it is read; then a MAP of rank 0 computes it.
 * - A slice that only passes read is read in place: storage -1, element i is its operand's at i +
 *   the slice's begin (the operand may be such a slice too). If others read it and it is not
 *   contiguous, a MAP copies it.
 * - A register of fewer or repeated dims than its pass is recomputed for each element, at that
 *   element's index.
 * - `STATE <- collective(..)` (or matmul, send): the step writes the state itself; the update
 *   follows among its values. A ring's gather does so too if nothing of its set reads the update.
 * - An output of a scalar, or of a value overwritten later, is a MAP that copies; all other outputs
 *   are their operands.
 * - What a fused set cannot have in its pass (a matmul, an all-reduce, a second reduce-scatter,
 *   single numbers) is a step of its own before or after it; if that is impossible, refused. */
#ifndef LK_LANG_STEPS_STEPS_H
#define LK_LANG_STEPS_STEPS_H

#include "graph/graph.h"
#include "lang/run/run.h"
#include "lang/types/program.h"

typedef enum lc_step_kind {
	LC_STEP_MAP,      /* one pass over a rank's elements: pointwise values, dropout, copies (slice,
	                     local, sliced, out); reductions of them at its end, whose results the pass
	                     itself does not read. total: of `list`, the sum over its passes */
	LC_STEP_CONTRACT, /* one matmul or conv2d */
	LC_STEP_ROWS,     /* one gather_rows, add_rows, sort, factorization, or view */
	LC_STEP_ATTEND,   /* attention and its lse, or its gradients, of the same operands */
	LC_STEP_COMM,     /* one collective or permute; several of one kind if they share buckets */
	LC_STEP_SEND,     /* one send; ranks of other groups do nothing */
	LC_STEP_RING,    /* a pass joined with its collectives: the reduce-scatter it reads from and the
	                    all-gathers of what it writes, either of which may be absent but not both */
	LC_STEP_OVERLAP, /* `parts`, chunk by chunk */
	LC_STEP_KINDS,
} lc_step_kind;

typedef struct lc_ids {
	int *at, count;
} lc_ids;
static inline bool lc_ids_have(const lc_ids *ids, int id) {
	for (int i = ids->count; i-- > 0;)
		if (ids->at[i] == id) return true;
	return false;
}

typedef struct lc_step {
	lc_step_kind kind;
	const char *name;     /* an identifier, unique among the steps of a program */
	lc_ids values;        /* all values that it computes, in order; OVERLAP: those of its parts */
	lc_ids reads, writes; /* values in memory that it reads, and writes */
	lc_ids numbers; /* single numbers recomputed for it, in order: before its pass, per tensor of a
	                   list */
	lc_ids after;   /* earlier steps (indices of its siblings) that must finish first */
	int space;      /* MAP, RING: the value whose local extents are those of the pass */
	int scatter;    /* RING: the reduce-scatter, or -1 */
	lc_ids gathers; /* RING: the all-gathers */
	int list;       /* >= 0: it runs for each tensor of that list */
	int only_if;    /* of steps of the program: run only if this value holds; -1: always */
	int64_t bucket; /* bytes of joined messages, 0: one message per tensor */
	/* OVERLAP */
	struct lc_step *parts;
	int part_count;
	int chunk_dim;  /* the cut dim of the first part's result (lc_steps.cut has it for each value);
	                   -1: whole parts run concurrently, or chunks are the tensors of a list */
	int64_t chunks; /* 0: the target's choice */
	bool ring; /* in the order in which the ring takes the chunks: on rank r: r-1, r-2, ..., r */
} lc_step;

typedef struct lc_steps {
	const lc_program *p; /* must outlive it */
	lc_step *at;
	int count;
	int *storage; /* [values] see above */
	int *cut; /* [values] the dim along which an overlap cuts it, see lc_overlap_dims; -1 none */
	lk_arena arena;
} lc_steps;

/* Make the steps. Refused: a fused set that cannot be one pass (it reads its own reduction,
 * different extents), with the reason. */
lk_status lc_steps_make(const lc_program *program, lc_steps **out, lk_error *err);
/* The same with statements joined: passes over the same elements that share memory become one if
 * that is legal. Takes ownership of the program; *joined replaces it, also after an error, and must
 * outlive the steps. */
lk_status lc_steps_joined(lc_program *program, lc_program **joined, lc_steps **out, lk_error *err);
void lc_steps_free(lc_steps *steps); /* accepts NULL */
void lc_steps_print(const lc_steps *steps,
                    FILE *out); /* a line per step: kind, name, reads -> writes */

/* The steps between which a computed value is in memory of its own: from its writer to its last
 * reader; results of the program to lc_steps.count. -1: it has no memory, or is an input's or a
 * state's. */
typedef struct lc_life {
	int first, last;
} lc_life;
/* *out: [values], in the arena. */
lk_status lc_lifetimes(lk_arena *arena, const lc_steps *steps, lc_life **out, lk_error *err);

/* ---- lower: the steps of a program as a step graph, which src/sim times on a cluster.
 *
 * Ranks of the mesh are the cluster's, in order, the last axis fastest. Axes along which programs
 * differ (sends between groups, permutes) and those before them become stages of the graph, the
 * others chains. Every rank's part counts as the largest of all ranks; ranks without a root's value
 * count as having it.
 *
 *   MAP        one element-wise kernel: bytes = what is read from memory and written there
 *              (pass_bytes)
 *   CONTRACT   a matrix product, or convolution, of local extents
 *   ATTEND     a fused attention kernel over the pairs that are seen
 *   COMM       the collective; a reduce to a root as a broadcast, which it mirrors; a permute as
 *              send and receive
 *   RING       reduce-scatter, pass and gathers: the pass overlaps with the reduce-scatter, the
 *              gathers follow both; what goes from one to the other in registers is no traffic. On
 *              GPUs reduce-scatter and first gather are one all-reduce, which the pass is a part of
 *   OVERLAP    every part in chunks on streams of its own: chunk k waits for chunk k of what it
 *              reads. On GPUs the chunks of a part are pieces of one kernel (lk_op.pieces)
 *
 * Memory: a step allocates its results and releases what no later one reads; inputs, states and
 * results are held throughout (the program's `resident`).
 *
 * All other steps follow one another: each waits for all before it, as in a program that calls them
 * in turn. Steps of a list are an operation per tensor; messages in buckets are joined. */

/* Default number of chunks of an overlap that leaves it open. */
enum { LC_CHUNKS = 8 };

/* Lower the steps, for kernels on GPUs or for processes on `hosts`. `chunks`: for overlaps that
 * leave it open; 0: LC_CHUNKS. The steps' program and sizes must fit (lc_sizes_check). */
lk_status lc_lower(const lc_steps *steps, const lc_sizes *sizes, int64_t chunks, bool hosts,
                   lk_graph **out, lk_error *err);

/* cycles.c: host core cycles of a pass of emitted C per element of value v of its step, for a
 * reduction per element that it covers; 0 without arithmetic. */
double lc_element_cycles(const lc_program *program, const lc_step *step, int v);
/* The same for a sum of two narrow numbers in a collective, for which MPI calls back; 0 if MPI adds
 * itself. */
double lc_reduction_cycles(lk_dtype dtype);
/* The same for gelu(x + y) of bf16, which calibrate host measures. */
double lc_gelu_cycles(void);

/* Device memory that a MAP's or RING's pass reads and writes on one rank, for tensor `item` of its
 * list: every value that it reads from memory or stores counts once. */
lk_status lc_pass_bytes(const lc_steps *steps, const lc_step *step, const lc_sizes *sizes,
                        int64_t item, double *out, lk_error *err);

#endif
