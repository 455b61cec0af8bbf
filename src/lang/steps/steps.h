/* steps.h: a scheduled program as the steps that every rank runs, in order. Targets write them
 * down, the simulator times them; neither looks at bundles of the program again.
 *
 * Without a schedule every statement is one pass over memory: what its expression is made of stays
 * in registers, what has a name, is collective, or is read by another step lies in memory.
 * lc_steps_joined makes one pass of statements that share memory (C and MPI). `fuse` makes one step
 * of several statements, `overlap` one of several steps that run chunk by chunk.
 *
 * Memory: lc_steps.storage says for each value whose memory holds it: its own id; its state's for
 * an update (in place); its operand's for out, local, sliced and for a slice whose elements lie
 * together (from the slice's first element on); -1: in registers only, or recomputed where it is
 * used.
 *
 * - Recomputed: constants, scalars, size(), and arithmetic whose result is a single number (rank
 * 0), also of results of
 *   earlier steps. lc_step.numbers lists the arithmetic that a step needs. It lies in memory only
 *       where a
 *   collective, a matmul or an output reads it, or a state that it is made of changes before it is
 *       read; then a MAP of
 *   rank 0 computes it.
 * - A slice that only passes read is read in place: storage -1, element i is its operand's at i +
 * where the slice begins
 *   (the operand may be such a slice too). Where others read it and it does not lie together, a MAP
 *       copies it.
 * - A register of fewer or repeated dims than its pass is computed anew for each element, at that
 * element's index. - `STATE <- collective(..)` (or matmul, send): the step writes the state itself;
 * the update follows among its values. A
 *   ring's gather does so too where nothing of its set reads the update.
 * - An output of a scalar, or of what is overwritten later, is a MAP that copies; all other outputs
 * are their operands. - What a fused set cannot have in its pass (a matmul, an all-reduce, a second
 * reduce-scatter, single numbers) is a step
 *   of its own before or after it; if that is impossible, refused. */
#ifndef LK_LANG_STEPS_STEPS_H
#define LK_LANG_STEPS_STEPS_H

#include "graph/graph.h"
#include "lang/run/run.h"
#include "lang/types/program.h"

typedef enum lc_step_kind {
	LC_STEP_MAP, /* one pass over the elements that a rank holds: pointwise values, dropout, copies
	                (slice, local, sliced, out); reductions of them at its end, whose results the
	                pass itself does not read. total: of `list`, the sum over its passes */
	LC_STEP_CONTRACT, /* one matmul or conv2d */
	LC_STEP_ROWS,     /* one gather_rows, add_rows, or view */
	LC_STEP_COMM, /* one collective or permute; several of one kind where they are bucketed together
	               */
	LC_STEP_SEND, /* one send; ranks of other groups do nothing */
	LC_STEP_RING, /* a pass joined with its collectives: the reduce-scatter it reads from and the
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
	lc_ids values;        /* all that it computes, in order; OVERLAP: those of its parts */
	lc_ids reads, writes; /* values in memory that it reads, and leaves there */
	lc_ids numbers; /* single numbers that are recomputed for it, in order: before its pass, per
	                   tensor of a list */
	lc_ids after;   /* earlier steps (indices into its siblings) that must be over before it */
	int space;      /* MAP, RING: the value whose local extents are those of the pass */
	int scatter;    /* RING: the reduce-scatter, or -1 */
	lc_ids gathers; /* RING: the all-gathers */
	int list;       /* >= 0: it runs for each tensor of that list */
	int64_t bucket; /* bytes of joined messages, 0: one message per tensor */
	/* OVERLAP */
	struct lc_step *parts;
	int part_count;
	int chunk_dim;  /* the dim of the first part's result that is cut (lc_steps.cut has it of each
	                   value); -1: parts run side by side as a whole, or, of a list, chunks are its
	                   tensors */
	int64_t chunks; /* 0: the target's choice */
	bool ring; /* in the order in which the ring takes the chunks: of rank r, r-1, r-2, ..., r */
} lc_step;

typedef struct lc_steps {
	const lc_program *p; /* must outlive it */
	lc_step *at;
	int count;
	int *storage; /* [values] see above */
	int *
		cut; /* [values] the dim along which an overlap cuts it, as lc_overlap_dims says; -1 none */
	lk_arena arena;
} lc_steps;

/* Refused: what is fused cannot be one pass (a reduction read by it, different extents), with the
 * reason. */
lk_status lc_steps_make(const lc_program *program, lc_steps **out, lk_error *err);
/* The same with statements joined: passes over the same elements that share memory are one where
 * that is legal. Takes the program; *joined is what has become of it, also after an error, and must
 * outlive the steps. */
lk_status lc_steps_joined(lc_program *program, lc_program **joined, lc_steps **out, lk_error *err);
void lc_steps_free(lc_steps *steps); /* accepts NULL */
void lc_steps_print(const lc_steps *steps,
                    FILE *out); /* a line per step: kind, name, reads -> writes */

/* The steps between which a value that they compute lies in memory of its own: from the one that
 * writes it to the last that reads it; results of the program to lc_steps.count. -1: it has no
 * memory, or is an input's or a state's. */
typedef struct lc_life {
	int first, last;
} lc_life;
/* *out: [values], of the arena. */
lk_status lc_lifetimes(lk_arena *arena, const lc_steps *steps, lc_life **out, lk_error *err);

/* ---- lower: the steps of a program as a step graph, which src/sim times on a cluster.
 *
 * Ranks of the mesh are the cluster's, in order, the last axis fastest. Axes along which programs
 * differ (sends between groups, permutes) and those before them become stages of the graph, the
 * others chains. A rank's part is the largest that any rank has; ranks that hold nothing of a
 * root's value are taken to hold it.
 *
 *   MAP        one element-wise kernel: bytes = what is read from memory and written there
 *              (pass_bytes)
 *   CONTRACT   a matrix product, or convolution, of local extents
 *   COMM       the collective; a reduce to a root as a broadcast, which it mirrors; a permute as
 *              send and receive
 *   RING       reduce-scatter, pass and gathers: the pass runs alongside the reduce-scatter, the
 *              gathers follow both; what goes from one to the other in registers is no traffic
 *   OVERLAP    every part in chunks on streams of its own: chunk k waits for chunk k of what it
 *              reads
 *
 * Memory: a step takes that of what it computes and gives back that of what no later one reads;
 * inputs, states and results are held throughout (the program's `resident`).
 *
 * All other steps follow one another: each waits for all before it, as in a program that calls them
 * in turn. Steps of a list are an operation for each tensor; messages in buckets are joined. */

/* Of an overlap whose number of chunks is left open, unless lc_lower is told. */
enum { LC_CHUNKS = 8 };

/* `chunks`: for overlaps that leave it open; 0: LC_CHUNKS. The steps' program and sizes must fit
 * (lc_sizes_check). */
lk_status lc_lower(const lc_steps *steps, const lc_sizes *sizes, int64_t chunks, lk_graph **out,
                   lk_error *err);

/* cycles.c: cycles of a core of a host that a pass of emitted C takes for an element of value v of
 * its step, of a reduction for an element that it goes over; 0 of what is no arithmetic. */
double lc_element_cycles(const lc_program *program, const lc_step *step, int v);
/* Of a sum of two narrow numbers in a collective, which MPI calls back for; 0 where MPI adds
 * itself. */
double lc_reduction_cycles(lk_dtype dtype);
/* The same of gelu(x + y) of bf16, which calibrate host measures. */
double lc_gelu_cycles(void);

/* Device memory that a MAP's or RING's pass reads and writes on one rank, of tensor `item` of its
 * list: every value that it reads from memory or stores counts once. */
lk_status lc_pass_bytes(const lc_steps *steps, const lc_step *step, const lc_sizes *sizes,
                        int64_t item, double *out, lk_error *err);

#endif
