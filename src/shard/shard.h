/* shard.h: placing embedding tables: the problem, placements, their costs, and the sharders that
 * find them. */
#ifndef LK_SHARD_SHARD_H
#define LK_SHARD_SHARD_H

#include "system/cutoff.h"
#include "base/vec.h"
#include "cost/cost.h"
#include "cost/host_terms.h"
#include "cost/kernel/embedding.h"
#include "lockstep/shard.h"
#include "model/network/dlrm.h"
#include "step/step.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* How a table is placed. Pieces of a split are equal, except for rounding. */
typedef enum lk_shard_kind {
	LK_SHARD_TABLE,  /* whole on one rank */
	LK_SHARD_COLUMN, /* each piece has some of the columns */
	LK_SHARD_ROW,    /* each piece has some of the rows, and gives partial sums of all columns */
	LK_SHARD_DATA,   /* a copy on every rank, its gradient summed over all */
	LK_SHARD_KINDS,
} lk_shard_kind;

extern const char *const lk_shard_kind_names[LK_SHARD_KINDS + 1]; /* "table", ... NULL */
extern const char *const lk_shard_types[LK_SHARD_KINDS + 1]; /* TorchRec's: "table_wise", ... */

/* Defaults: the share of a device's memory not used for tables, and the share of a table in host
 * memory that the device caches. */
#define LK_SHARD_RESERVE 0.15
#define LK_SHARD_CACHE   0.2

enum {
	LK_SHARD_MOST_RANKS = 4096 /* the most ranks searched */
};

typedef struct lk_shard_table {
	const char *name, *where;
	double rows, dim, pooling;
	unsigned allowed;            /* 1 << lk_shard_kind */
	const lk_locality *locality; /* of a batch of all ranks */
} lk_shard_table;

/* Costs of a piece on its rank. Seconds of the fused kernels that include it. */
typedef struct lk_shard_cost {
	double forward_s, backward_s;
	double columns; /* of pooled sums sent to every rank */
	double device_bytes, host_bytes;
	double reduced_bytes; /* of gradients summed over all ranks: only for copies */
} lk_shard_cost;

/* Ranks that touch half to twice as much as the mean, on a logarithmic scale: in quarters of an
 * octave, the mean in the middle. */
enum { LK_SHARD_OCTAVE = 4, LK_SHARD_SIZES = 2 * LK_SHARD_OCTAVE + 1 };

/* On a processor: how much longer a piece's lookups take than in the mean share of a rank if its
 * rank touches more, or (then not above 0) less. All 0 on a GPU, where a fused kernel finds no rows
 * of the last step in its caches. */
typedef struct lk_shard_shared {
	double bytes; /* that the piece itself touches */
	double forward_s[LK_SHARD_SIZES], backward_s[LK_SHARD_SIZES];
} lk_shard_shared;

typedef struct lk_shard_piece {
	uint32_t table;
	uint8_t kind; /* lk_shard_kind */
	bool host;    /* rows in host memory, the most frequent ones cached on the device */
	int part, parts;
	int rank;           /* -1: all (copies), or not placed yet */
	lk_shard_cost cost; /* in the mean share of a rank */
	lk_shard_shared shared;
} lk_shard_piece;

typedef LK_VEC(lk_shard_piece) lk_shard_pieces;

/* Where lookups run: on a GPU of the catalogue, or on measured cores. */
typedef struct lk_shard_device {
	const lk_device *device;
	const lk_host_lookup *host;             /* NULL: a GPU */
	double memory_rate, l2_rate, host_rate; /* bytes/s reached */
	double floor_s;                         /* shortest kernel */
} lk_shard_device;

typedef struct lk_shard_problem {
	lk_arena *arena;
	const lk_shard_table *tables;
	uint32_t count;
	int ranks;
	double batch;          /* samples per step over all ranks */
	double element, state; /* bytes per number; of optimizer state per number of a row, or ... */
	double row_state;      /* ... per row */
	double capacity;       /* bytes of tables on a rank's device */
	double host_capacity;  /* and in host memory per rank */
	double cache_share;    /* of a table in host memory, kept on the device */
	double dense_s;        /* computation between the two exchanges, equal on all ranks */
	uint64_t seed;
	lk_shard_device at;
	lk_group_shape network;
	const lk_cutoff *cutoff; /* NULL: none */
	const char **cut_off;    /* set if the cutoff ended the search; not NULL with it */
	lk_search_progress *progress;
	void *progress_context;
	lk_host_share share; /* accesses of a rank in a step if all touch equally much */
} lk_shard_problem;

/* A placement: pieces with ranks. The vector is on the heap. */
typedef struct lk_shard_plan {
	lk_shard_pieces pieces;
} lk_shard_plan;

/* ---- shard_tables.c ---- */

typedef LK_VEC(lk_shard_table) lk_shard_tables;
/* Read a table list; the arena owns the texts. `batch` scales the lookups. *pooling_assumed: one
 * lookup per sample, because the list states no number. */
lk_status lk_shard_tables_read(lk_arena *arena, lk_stream *in, double batch, lk_shard_tables *out,
                               bool *pooling_assumed, lk_error *err);

/* ---- shard_device.c ---- */

/* Rates of lookups on a device: for a GPU those of eager kernels (cost/cost.h); for a processor the
 * measured ones, else an error. */
lk_status lk_shard_device_of(lk_arena *arena, const lk_device *device, lk_shard_device *out,
                             lk_error *err);
/* All ranks as one group. */
lk_group_shape lk_shard_network(const lk_cluster *cluster, int ranks);
/* Check that devices are of one kind, and no more than can be searched. */
lk_status lk_shard_check_devices(const lk_cluster *cluster, int ranks, lk_error *err);

/* ---- shard_cost.c ---- */

/* Rows and columns of a piece, and its bytes on its rank's device. */
void lk_shard_piece_size(const lk_shard_problem *problem, const lk_shard_piece *piece, double *rows,
                         double *columns);
void lk_shard_piece_hold(const lk_shard_problem *problem, const lk_shard_piece *piece,
                         double held[LK_OWNERS]);

lk_shard_piece lk_shard_piece_of(const lk_shard_problem *problem, uint32_t table,
                                 lk_shard_kind kind, int part, int parts, bool host);
/* Add all parts of a table, not placed. */
lk_status lk_shard_add_parts(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                             uint32_t table, lk_shard_kind kind, int parts, bool host,
                             lk_error *err);
/* The finest useful split of this kind, at least 1. */
int lk_shard_most_parts(const lk_shard_problem *problem, uint32_t table, lk_shard_kind kind);
/* The next finer split: twice as many parts, finally the most; 0 after that. */
int lk_shard_more_parts(int parts, int most);
/* Replace all pieces of piece `index`'s table by `parts` pieces of a kind, not placed. */
lk_status lk_shard_resplit(const lk_shard_problem *problem, lk_shard_pieces *pieces, size_t index,
                           lk_shard_kind kind, int parts, bool host, lk_error *err);
/* All tables whole, not placed. */
lk_status lk_shard_whole(const lk_shard_problem *problem, lk_shard_pieces *out, lk_error *err);
/* Place whole tables one after another by `place`, which keeps the bytes of each rank in
 * `bytes`. */
typedef lk_status lk_shard_place_fn(const lk_shard_problem *p, lk_shard_pieces *pieces,
                                    double *bytes, lk_error *err);
lk_status lk_shard_in_turn(const lk_shard_problem *problem, lk_shard_place_fn *place,
                           lk_shard_plan *out, lk_error *err);

/* Bytes of all tables with their optimizer states, each once. */
double lk_shard_table_bytes(const lk_shard_problem *problem);

/* Fill problem->share. */
void lk_shard_share(lk_shard_problem *problem);

/* ---- shard_ways.c ---- */

/* A way to place a table: costs over all ranks, divided by their number; and its longest piece. */
typedef struct lk_shard_way {
	lk_shard_kind kind;
	int parts;
	double forward, backward, columns, bytes;
	double piece_forward, piece_backward;
} lk_shard_way;

typedef struct lk_shard_ways {
	lk_shard_way *at;
	int count;
} lk_shard_ways;

/* The ways of each table; NULL: out of memory. */
lk_shard_ways *lk_shard_all_ways(lk_arena *arena, const lk_shard_problem *problem);
/* Greatest common divisor of the widths of all pieces: every rank sends a multiple of it. */
double lk_shard_grain(const lk_shard_problem *problem);

/* Pieces' columns, in units of the grain. A rank has an odd number of units only if it has a piece
 * with one, an odd number of double units only if it has a piece that is no multiple of four,
 * ... */
enum { LK_SHARD_WIDTHS = 12 };
typedef struct lk_shard_widths {
	double grain, columns;       /* columns: of all pieces */
	double odd[LK_SHARD_WIDTHS]; /* pieces that are no multiple of 2, 4, 8, ... units */
} lk_shard_widths;

void lk_shard_widths_add(lk_shard_widths *widths, double columns, double pieces);
void lk_shard_widths_of_way(const lk_shard_problem *problem, uint32_t table,
                            const lk_shard_way *way, lk_shard_widths *widths);
/* A lower bound of the most columns on a rank, for any placement; `spare`: multiple of the odd
 * pieces that a rank takes: 1 or more. */
double lk_shard_even_columns(const lk_shard_widths *widths, double spare, int ranks);

/* ---- shard_time.c ---- */

/* Load of each rank, and length of a step: in closed form, for the search, and by the step
 * graph. */
typedef struct lk_shard_load {
	lk_shard_cost *rank; /* [ranks], copies included */
	double forward_s, exchange_s, backward_s, reduce_s,
		index_s; /* of the step: slowest rank, exchange in one direction */
	double step_s;
} lk_shard_load;

lk_status lk_shard_load_of(lk_arena *arena, const lk_shard_problem *problem,
                           const lk_shard_pieces *pieces, lk_shard_load *out, lk_error *err);
/* All-to-all of pooled sums when one rank sends `most` columns and another, with the `least` of the
 * `total`, receives. */
double lk_shard_exchange_s(const lk_shard_problem *problem, double most, double least,
                           double total);
double lk_shard_reduce_s(const lk_shard_problem *problem, double bytes);
double lk_shard_index_s(const lk_shard_problem *problem);
/* The step graph of a placement (one program per rank) with its costs. */
lk_status lk_shard_graph(lk_arena *arena, const lk_shard_problem *problem,
                         const lk_shard_load *load, lk_graph **graph, lk_costs *costs,
                         lk_error *err);
lk_status lk_shard_simulate(const lk_shard_problem *problem, const lk_shard_load *load,
                            double *step_s, lk_error *err);
bool lk_shard_fits(const lk_shard_problem *problem, const lk_shard_load *load);

/* ---- shard_model.c: recommendation models ---- */

/* A model's tables on a cluster: fp32, with its optimizer; dense_s is the device's time besides
 * lookups. At least one sample per rank. Everything is owned by the arena or borrowed from the
 * cluster. */
lk_status lk_shard_of_model(lk_arena *arena, const lk_dlrm *model, const lk_cluster *cluster,
                            int ranks, double batch, lk_dtype dtype, lk_shard_problem *out,
                            lk_error *err);
/* The placement of a plan's file; NULL: the search's, ignoring lack of memory if nothing fits. The
 * pieces are on the heap. */
lk_status lk_shard_placement(const lk_shard_problem *problem, const char *plan, lk_shard_plan *out,
                             lk_error *err);
/* The training step of a model with placed tables: used by shard, predict and validate. `host`
 * NULL: replayed from a CUDA graph. `options` NULL: only the time. `out` is to be freed with
 * lk_step_free in every case. */
lk_status lk_shard_step(const lk_shard_problem *problem, const lk_shard_pieces *pieces,
                        const lk_dlrm *model, lk_dtype dtype, const lk_host_terms *host,
                        const lk_step_options *options, lk_step *out, lk_error *err);

/* Busy seconds of the first rank's host and device in it; returns which one is more: "host-bound
 * step", "device-bound step". */
void lk_shard_step_work(const lk_step *step, double *host_s, double *kernels_s);
const char *lk_shard_step_class(const lk_step *step);
/* The 80 % range of an eager step over its predicted time: for one rank in fp32 on a device whose
 * rates were `measured`, the error on the public table; else as wide as HugeCTR's. */
void lk_shard_step_range(bool measured, double *low, double *high);

/* ---- shard_plan.c ---- */

/* Read a plan's file, which must have every table of the problem. */
lk_status lk_shard_read_plan(const lk_shard_problem *problem, const char *path, lk_shard_plan *out,
                             lk_error *err);

/* ---- shard_bound.c ---- */

/* A time that no placement of the allowed kinds beats. */
lk_status lk_shard_bound(const lk_shard_problem *problem, double *out, lk_error *err);

/* The parts of the bound, and prices at which the cheapest way of each table comes near it. */
typedef struct lk_shard_prices {
	double bound_s;
	double column, byte;   /* seconds per column that a rank sends on average, per byte of copies'
	                          gradients */
	double columns, bytes; /* in the bound */
	double forward_s, backward_s; /* longest pieces that the bound allows */
	bool short_of_memory;         /* still a bound, but a weaker one */
} lk_shard_prices;

void lk_shard_price(const lk_shard_problem *problem, const lk_shard_ways *ways,
                    lk_shard_prices *out);

/* ---- sharders: one file each, a line in lk_sharders (shard_heuristics.c) ---- */

/* Give every piece a rank. LK_ERR_INPUT: found no placement that fits. */
typedef lk_status lk_sharder_run(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err);
typedef struct lk_sharder {
	const char *name;
	lk_sharder_run *run;
	bool search; /* our search; the others are the published heuristics */
} lk_sharder;
extern const lk_sharder lk_sharders[];
extern const int lk_sharder_count;
extern const int lk_sharder_search; /* index of ours in the table */

lk_sharder_run lk_shard_naive, lk_shard_naive_chunk, lk_shard_random, lk_shard_size_greedy,
	lk_shard_lookup_greedy, lk_shard_norm_lookup_greedy, lk_shard_size_lookup_greedy,
	lk_shard_search;

/* Whether a fitting placement is found by memory alone: then lk_shard_search finds one, too. */
lk_status lk_shard_has_room(const lk_shard_problem *problem, bool *placed, lk_error *err);

/* A piece to be placed: the costliest comes first, of equal ones the first. For lk_sort. */
typedef struct lk_shard_weighed {
	double cost;
	size_t piece;
} lk_shard_weighed;
int lk_shard_costliest_first(const void *a, const void *b);
/* A heuristic's error "does not fit", with the table that found no room. */
lk_status lk_shard_no_room(const lk_shard_problem *problem, const lk_shard_piece *piece,
                           lk_error *err);

/* ---- shard_pack.c ---- */

/* Place pieces by memory alone: largest first, then a complete search of at most `nodes` steps.
 * *placed: whether it succeeded. */
lk_status lk_shard_pack(const lk_shard_problem *problem, lk_shard_pieces *pieces, uint64_t nodes,
                        bool *placed, lk_error *err);
/* ---- shard_balance.c ---- */

/* Exchange pieces between ranks while the step gets shorter, and while *budget, a number of
 * exchanges to try, lasts. */
lk_status lk_shard_balance(const lk_shard_problem *problem, lk_shard_pieces *pieces, size_t *budget,
                           lk_error *err);

/* Whether the cutoff ends the search here; notes it. */
bool lk_shard_ends(const lk_shard_problem *problem);

/* ---- search: shared by the files of our sharder. */

typedef struct searcher {
	const lk_shard_problem *p;
	const lk_shard_ways *ways;
	lk_shard_prices prices;
	lk_shard_pieces best;
	double best_s; /* INFINITY: none yet */
	double bound_s, grain;
	bool *tried;    /* [count] further splitting of the table did not help */
	size_t budget;  /* exchanges left for refining */
	int placements; /* tried */
} searcher;

/* Smaller gaps do not justify another round. */
#define LK_SHARD_CLOSE 0.002

/* ---- shard_place.c ---- */

/* Measures of ranks: lookups forward, backward, columns. */
enum { LK_SHARD_FORWARD, LK_SHARD_BACKWARD, LK_SHARD_EXCHANGED, LK_SHARD_MEASURES };
double lk_shard_measure(const lk_shard_cost *cost, int which);
/* Lookups forward and backward. */
double lk_shard_work(const lk_shard_piece *piece);
/* Begin with each table whole if that is allowed, else as allowed; copied[t]: on every rank. */
lk_status lk_shard_start_pieces(const lk_shard_problem *problem, const bool *copied,
                                lk_shard_pieces *out, lk_error *err);
/* The next finer way to split a piece's table; false: none. */
bool lk_shard_finer(const lk_shard_problem *problem, const lk_shard_piece *piece,
                    lk_shard_kind *kind, int *parts);
/* Place pieces without a rank. */
lk_status lk_shard_longest_first(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                                 bool *placed, lk_error *err);
/* Whether tables exceed all memory: then no placement fits, because no split or copy of a table
 * reduces its bytes. */
bool lk_shard_overfull(const lk_shard_problem *problem);
/* Whether bytes exceed all ranks, or a piece exceeds a rank: then no order of placing helps. */
bool lk_shard_hopeless(const lk_shard_problem *problem, const lk_shard_pieces *pieces);
/* Place all pieces, splitting or moving tables to host memory until they fit. */
lk_status lk_shard_place(const lk_shard_problem *problem, lk_shard_pieces *pieces, bool *placed,
                         lk_error *err);

/* ---- shard_search.c ---- */

/* The step if all ranks were even, with `columns` on the one with most. */
double lk_shard_even_step(const lk_shard_problem *problem, const lk_shard_way *sum, double columns);
/* A lower bound of the step for any placement of these pieces, if more columns take longer to
 * exchange; 0 on a processor, where no bound is known. */
double lk_shard_even_pieces(const lk_shard_problem *problem, const lk_shard_pieces *pieces);
lk_status lk_shard_step_of(const lk_shard_problem *problem, const lk_shard_pieces *pieces,
                           double *step_s, lk_error *err);
lk_status lk_shard_copy(lk_shard_pieces *to, const lk_shard_pieces *from, lk_error *err);
/* Consider a placement as it is, and balanced, as the new best. */
lk_status lk_shard_take(searcher *s, lk_shard_pieces *pieces, size_t *budget, lk_error *err);

/* ---- shard_priced.c, shard_refine.c ---- */

lk_status lk_shard_from_prices(searcher *s, lk_error *err);
/* The tables that are cheapest to split finest, until there are `wanted` such pieces. */
lk_status lk_shard_fill_up(searcher *s, size_t wanted, lk_error *err);
/* Split the tables that ranks wait for while the step gets shorter. */
lk_status lk_shard_refine(searcher *s, lk_shard_pieces *pieces, double *step_s, lk_error *err);

#endif
