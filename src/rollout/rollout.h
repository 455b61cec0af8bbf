/* rollout.h: the generation phase of a post-training step: inference engines generate sequences
 * token by token, until the last one is finished. An engine is priced by the kernel and collective
 * models of cost/ (engine.c), its continuous batching is simulated from one change of the batch to
 * the next (batching.c), over a spread of lengths (lengths.c). docs/method/generation.md states the
 * formulas. */
#ifndef LK_ROLLOUT_ROLLOUT_H
#define LK_ROLLOUT_ROLLOUT_H

#include "base/arena.h"
#include "base/vec.h"
#include "cost/collective/collective.h"
#include "cost/kernel/laws.h"
#include "hw/hw.h"
#include "lockstep/predict.h"
#include "model/network/model.h"

/* ---- lengths: the number of tokens of each sequence. */

typedef enum lk_length_kind {
	LK_LENGTHS_FIXED,
	LK_LENGTHS_LOGNORMAL,
	LK_LENGTHS_EXPONENTIAL,
	LK_LENGTH_KINDS,
} lk_length_kind;

extern const char *const lk_length_kind_names[]; /* ends with NULL */

/* Whether the text is one of them. */
bool lk_lengths_named(const char *text);

/* The default deviation of ln(length) of a lognormal distribution. */
extern const double lk_lengths_sigma;

/* `count` lengths of at least 1 distributed by the law, with this mean and none above `most` (0: no
 * limit): longer ones are cut there, and the rest grows so that the mean stays. A mean of `most` or
 * more gives `most` for all. The seed only determines their order. */
void lk_lengths_spread(lk_length_kind kind, double mean, double most, uint64_t seed, size_t count,
                       double *out);

/* Read lengths from a file, one number per line, comments after '#', in order, repeated from the
 * start if there are fewer than `count`. LK_ERR_IO; LK_ERR_INPUT: a line that is no positive
 * number, or a file without one. */
lk_status lk_lengths_read(const char *path, size_t count, double *out, lk_error *err);

/* ---- engine: memory of one inference engine and the duration of an iteration. */

/* The few numbers that kernel and collective models lack; rows of family "generation" of the
 * calibration, by engine software. */
typedef struct lk_engine_numbers {
	double attention;   /* share of memory bandwidth reached by attention over the cache */
	double products;    /* factor on the rates of products and of other kernels */
	double experts;     /* a further factor for experts, many small products in a kernel */
	double floor_us;    /* shortest kernel within a CUDA graph */
	double step_us;     /* host time per iteration that no kernel overlaps */
	double sequence_us; /* likewise per running sequence */
	double launch_us;   /* per launch outside CUDA graphs */
	double early_us;    /* added to sequence_us in an early release */
	double request_us;  /* from a request to its queue and from its first token to the client */
} lk_engine_numbers;

enum {
	LK_ENGINE_EXPERTS = 2, /* index among them */
	LK_ENGINE_FLOOR = 3,
	LK_ENGINE_STEP = 4,
	LK_ENGINE_SEQUENCE = 5,
	LK_ENGINE_EARLY = 7,
	LK_ENGINE_REQUEST = 8,
	LK_ENGINE_NUMBERS = 9
};
/* Names, start and limits of the numbers, in the order of the struct. */
extern const lk_fit_number lk_engine_number_limits[LK_ENGINE_NUMBERS];
double *lk_engine_number(lk_engine_numbers *numbers, int index);

/* Inference software. */
typedef struct lk_engine_software {
	const char *name;    /* "vllm" */
	const char *alike;   /* whose numbers apply if it was not measured; "" none */
	const char *library; /* whose kernels it runs, in the words of tables of kernels */
	bool fuses;          /* norms and activations convert what they write to 8 or 4 bits */
	bool reserves;       /* a sequence starts when its longest possible end fits */
	bool overlaps;       /* the host prepares the next iteration while the device computes */
	int sequences;       /* default most sequences of a batch */
	int tokens;          /* default tokens of an iteration */
	double memory_share; /* of the device's memory */
	bool share_of_free;  /* the share is of what weights and workspace leave */
	bool keeps_chunks;   /* layers that attend within chunks also cache earlier chunks */
	bool prompts_first;  /* waiting prompts are computed alone; decoding waits */
	bool early;          /* an early release of `alike`, whose numbers apply except for early_us */
} lk_engine_software;

/* Known software by name; NULL: unknown. The i-th; NULL past the last. */
const lk_engine_software *lk_engine_software_find(const char *name);
const lk_engine_software *lk_engine_software_at(int index);
/* The software whose fit applies to it: its own, or that of an early release's successor. */
const lk_engine_software *lk_engine_software_fitted(const lk_engine_software *of);
/* Its numbers in the current calibration; for unmeasured software those of the similar one, else
 * the row "all". */
lk_engine_numbers lk_engine_numbers_of(const lk_engine_software *software);

typedef struct lk_engine {
	const lk_model *model;
	const lk_cluster *cluster; /* its first node group prices all engines */
	const lk_engine_software *software;
	lk_engine_numbers numbers;
	int tp, pp, ep;    /* GPUs of an engine: tp * pp; ep divides tp */
	bool attention_dp; /* the tp GPUs split sequences; otherwise heads */
	lk_dtype dtype;    /* of weights and products within layers; embedding and head: 16 bits */
	lk_dtype kv_dtype;
	bool mxfp4_experts;  /* experts are stored in 4 bits, whatever the `dtype` of the rest */
	bool eager;          /* kernels are issued one by one, not replayed from CUDA graphs */
	double memory_share; /* of the device's memory that the engine may use */
	/* per GPU with attention_dp, else per engine: */
	int sequences; /* most sequences of a batch, over all stages */
	int tokens;    /* most tokens of an iteration over all stages: prompts are cut into chunks */
	bool prefix_caching; /* a cached prompt is not computed again */
	int draft;           /* tokens guessed per iteration; 0: none */
	double accept; /* probability that a guessed token is accepted, given that those before are */
} lk_engine;

/* Networks with experts published in MXFP4 keep everything else in 16 bits, whatever format is
 * requested; `kv_open`: also use their publishers' cache format. */
void lk_engine_take_mxfp4(lk_engine *engine, bool kv_open);

/* Memory of a GPU of the engine, bytes. */
typedef struct lk_engine_memory {
	double weights, workspace, context;
	double usable; /* of the device */
	double cache;  /* left for keys and values; negative: weights do not fit */
	double token;  /* keys and values per token, all layers, on one GPU */
	double tokens; /* capacity of the whole engine */
	double state;  /* recurrences' state per sequence, on one GPU */
	int sequences; /* of a batch: the engine's most, or fewer if their states need more room */
} lk_engine_memory;

/* `length`: typical tokens of a finished sequence; layers with a window keep at most that many. */
lk_engine_memory lk_engine_memory_of(const lk_engine *engine, double length);

/* What runs on a device: its own series, and that of a relative with slower memory, whose kernels
 * run there too. */
typedef struct lk_kernel_law {
	lk_law_fit fits[2];
	int count;
} lk_kernel_law;

/* Kernels whose time follows from the sequences and what they have cached (kernels.c). */
typedef struct lk_decode_cache {
	lk_kernel_law attention, step, convolution; /* the last two of recurrences */
	lk_law_call call;                           /* of attention, but for sequences and keys */
	double chosen; /* keys that an indexer chooses; 0: attention to all */
	bool latent;
	double width; /* of a cached token, over that of the law */
} lk_decode_cache;

enum { LK_PRICE_ROWS = 160, LK_PRICE_WINDOWS = 4 };

/* Seconds of an iteration, as tables by its rows (tokens that pass the layers) and as rates. */
typedef struct lk_prices {
	double products_s[LK_PRICE_ROWS], exchange_s[LK_PRICE_ROWS], head_s[LK_PRICE_ROWS];
	int windows;
	double window[LK_PRICE_WINDOWS]; /* tokens; INFINITY: all */
	double layers[LK_PRICE_WINDOWS]; /* that attend so */
	double pair_s[LK_PRICE_WINDOWS]; /* per pair of query and key of a prompt */
	lk_decode_cache cache;
	double attention;           /* factor on attention's rate */
	double index_s;             /* an indexer's reading of a key, all layers */
	double shares;              /* batches that the sequences are divided into */
	double attention_floor_s;   /* of all layers' attention kernels */
	double state_layers, state; /* layers with a recurrence, elements of its state on a GPU */
	double scan_s;              /* of recurrences per prompt token */
	double step_s, sequence_s;  /* host */
	double hosts;               /* schedulers that divide the sequences */
	double request_s;           /* of a request, in addition to its iterations */
	double issue_s;             /* host: launches of an iteration outside CUDA graphs */
	bool eager;                 /* no CUDA graphs */
	bool overlaps;              /* host and device partly hide each other */
	double taken;               /* tokens that a sequence gains per iteration */
	double rows;                /* rows per sequence and iteration */
	double draft_s;             /* share of an iteration's layers added by guessing */
} lk_prices;

/* Host times of its machine over those of x86 processors. */
double lk_engine_host_factor(const lk_engine *engine);
/* Whether its 8-bit weights have a scale per block. */
bool lk_engine_has_blocks(const lk_engine *engine);
/* Why generation with a network is not modelled; NULL: it is. */
const char *lk_engine_lacks(const lk_model *model);

/* LK_ERR_INPUT: a network whose generation is not modelled, a layout that does not divide it. */
lk_status lk_engine_prices(const lk_engine *engine, lk_prices *out, lk_error *err);

/* Parts of an engine's time. */
typedef enum lk_generation_part {
	LK_GENERATION_PREFILL,
	LK_GENERATION_PRODUCTS,
	LK_GENERATION_ATTENTION,
	LK_GENERATION_EXCHANGE,
	LK_GENERATION_HEAD,
	LK_GENERATION_HOST,
	LK_GENERATION_PARTS,
} lk_generation_part;
extern const char *const lk_generation_part_keys[LK_GENERATION_PARTS];
extern const char *const lk_generation_part_labels[LK_GENERATION_PARTS];

/* ---- batching: one engine processes its sequences. */

/* Successive equal iterations: `sequences` decode with `context` cached tokens in total, while a
 * chunk of `prompt` tokens with `pairs` pairs of query and key is computed. */
typedef struct lk_iteration_span {
	double sequences, context, prompt, pairs, count;
} lk_iteration_span;
typedef LK_VEC(lk_iteration_span) lk_iteration_spans;

/* Add the iterations to `parts`. Returns their seconds. */
double lk_iterations(const lk_prices *prices, const lk_iteration_span *span,
                     double parts[LK_GENERATION_PARTS]);

typedef struct lk_sequence {
	double prompt, response; /* tokens */
	uint32_t group;          /* sequences of one prompt belong to one group */
	double arrival_s;        /* before which it cannot start; in order of the sequences */
} lk_sequence;

/* When a sequence has its first token, and its last one, on the clock of its arrival. */
typedef struct lk_moments {
	double first_s, end_s;
} lk_moments;

typedef struct lk_batching {
	double seconds;                    /* until the last sequence has ended */
	double parts[LK_GENERATION_PARTS]; /* they and idle_s add up to it */
	double idle_s;                     /* with no sequence there */
	double iterations, tokens;         /* tokens: generated */
	double tail_s;                     /* with less than half of the largest batch */
	double most;                       /* sequences of the largest batch */
	double most_tokens;                /* most keys and values held */
	double running_s;                  /* seconds that sequences ran, summed over them */
	size_t preempted;                  /* sequences that were preempted and recomputed */
	uint64_t events;
} lk_batching;

/* Sequences wait in this order from their arrival on; groups count from 0 to `groups` - 1. `spans`
 * receives what ran, in order, `moments` those of each sequence; NULL: not wanted. LK_ERR_INPUT: a
 * sequence that does not fit into an empty cache; LK_ERR_MEMORY. */
lk_status lk_batching_run(const lk_engine *engine, const lk_prices *prices, double cache_tokens,
                          const lk_sequence *sequences, size_t count, size_t groups,
                          lk_iteration_spans *spans, lk_moments *moments, lk_batching *out,
                          lk_error *err);

/* ---- serving: requests that arrive as others end. */

typedef struct lk_served {
	double sequences;        /* requests in flight, at least 1 */
	double prompt, response; /* tokens of each */
	bool apart;              /* other GPUs compute the prompts */
	bool equal;    /* all have exactly these lengths, so that those that began together end so */
	double rounds; /* requests that each client sends in turn, the first ones at once; 0: no end */
	double poll;   /* iterations between two looks for new requests; 0: each looks */
	double gather; /* iterations without prompts until one that waits for others is computed; 0 */
} lk_served;

enum { LK_SERVING_SPANS = 7 };

/* Iterations that a request waits for, in the mean. */
typedef struct lk_serving {
	lk_iteration_span token[2], first[LK_SERVING_SPANS]; /* all further tokens; the first */
	int tokens, firsts;
} lk_serving;

void lk_serving_of(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                   lk_serving *out);
/* Seconds from a token of a request to the next. `first_s`: to the first one; may be NULL. */
double lk_serving_token(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                        double *first_s);

/* ---- rollout: all engines. */

typedef struct lk_rollout {
	int engines;
	lk_batching longest;               /* of the engine that ends last; it determines the phase */
	double tokens;                     /* generated by all engines */
	double mean_end_s;                 /* over engines */
	double parts[LK_GENERATION_PARTS]; /* summed over engines, as is the next */
	double running_s;
	double most; /* sequences of the largest batch of any */
	size_t preempted;
	uint64_t events;
} lk_rollout;

/* `sequences` are dealt over `engines` equal engines prompt (group) by prompt; sequences of one
 * group are adjacent. `moments`: of each sequence; NULL: not wanted. */
lk_status lk_rollout_run(const lk_engine *engine, int engines, double cache_tokens,
                         const lk_sequence *sequences, size_t count, lk_moments *moments,
                         lk_rollout *out, lk_error *err);

/* ---- arrivals: requests of a service. */

typedef struct lk_arrival_law {
	double rate;   /* requests a second */
	double spread; /* of the gaps: deviation over mean; 0 even, 1 Poisson's */
} lk_arrival_law;

/* Whether the text names a law. */
bool lk_arrivals_named(const char *text);
/* "poisson:RATE", "even:RATE", "gamma:RATE:SPREAD". LK_ERR_INPUT: anything else. */
lk_status lk_arrivals_parse(const char *text, lk_arrival_law *out, lk_error *err);
/* `count` times from 0 on in ascending order; their mean gap is exactly the law's. */
void lk_arrivals_spread(const lk_arrival_law *law, uint64_t seed, size_t count, double *out);
/* Requests of a CSV file with columns arrival_s, prompt_tokens and output_tokens, in order of time,
 * which then begins with the first of them; each is a group. LK_ERR_IO; LK_ERR_INPUT: a row out of
 * order, or without a number. */
lk_status lk_arrivals_read(lk_arena *arena, const char *path, lk_sequence **out, size_t *count,
                           lk_error *err);

/* ---- service: what requests wait that arrive at engines (service.c). */

/* Tokens of a cache that holds anything: what does not fit is timed as if it did. */
#define LK_ENDLESS_CACHE 1e15

/* What a request may take at most, seconds; INFINITY: any time. */
typedef struct lk_service_limits {
	double first_s, token_s, whole_s;
	bool given;
} lk_service_limits;

typedef struct lk_service_question {
	const lk_engine *engine;
	int engines;
	double cache_tokens;
	const lk_sequence *requests; /* [count], at least one; in order of time without a law */
	size_t count;
	const lk_arrival_law *law; /* NULL: they arrive when they say */
	int kind;          /* of a law's lengths, as lk_length_kind; -1: those of the requests */
	double mean, most; /* see lk_lengths_spread */
	lk_service_limits limits;
} lk_service_question;

/* As many requests as show a steady service. */
lk_status lk_service_steady(const lk_engine *engine, const lk_arrival_law *law, double prompt,
                            double response, size_t *out, lk_error *err);
/* Answer; the arena owns the loads. `rollout`: of the run at the rate that is asked for. Errors as
 * of lk_rollout_run. */
lk_status lk_service_run(const lk_service_question *asked, lk_arena *arena, lk_service *out,
                         lk_rollout *rollout, lk_error *err);

/* ---- refit: transfer of new weights from training to the engines. */

/* How they travel (refit.c). */
typedef enum lk_refit_transport {
	LK_REFIT_PACKED,     /* large messages, broadcast to engines on their own GPUs */
	LK_REFIT_TENSORS,    /* likewise tensor by tensor */
	LK_REFIT_IPC,        /* to engines on the same GPUs, which read them there */
	LK_REFIT_SHARDS,     /* each engine GPU gets its own part over its network card */
	LK_REFIT_RESHARD,    /* likewise between layouts that are planned ahead */
	LK_REFIT_WHOLE,      /* each engine GPU gets the whole network over its network card */
	LK_REFIT_HOST,       /* from pinned memory of the hosts, then broadcast */
	LK_REFIT_HOST_PAIRS, /* likewise, and between nodes over one network card per node */
	LK_REFIT_TRANSPORTS,
} lk_refit_transport;

typedef struct lk_refit_job {
	const lk_model *model;
	const lk_cluster *cluster;
	double width;      /* bytes per element; below 2 each matrix has a tensor of scales */
	int gathered_over; /* training GPUs that hold the network together; 1: no gathering */
	int engine_gpus;   /* of all engines */
	int engine_shards; /* GPUs that split an engine's weights */
	lk_refit_transport transport;
} lk_refit_job;

typedef struct lk_refit {
	double bytes, tensors; /* of the network; as counted in a checkpoint */
	double gather_s, move_s, host_s;
	double seconds; /* gathering and moving overlap: the longer of them, plus the host */
} lk_refit;

double lk_refit_tensors(const lk_model *model);
lk_refit lk_refit_of(const lk_refit_job *job);

#endif
