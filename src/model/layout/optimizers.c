/* optimizers.c: the state that each optimizer keeps per parameter, and which work on matrices
 * (docs/method/memory.md; docs/method/step.md, "Optimizers on matrices").
 *
 *     adam, lamb   two moments
 *     sgd, lion    one moment (2302.06675)
 *     adafactor    sums of rows and columns (1804.04235)
 *     adam-mini    one moment; the second is one number per block, not counted (2406.16793)
 *     adam-8bit    two bytes, and factors in fp32 for every 256 (2110.02861, bitsandbytes)
 *     adam-4bit    half a byte each, and factors for every 128 (torchao; 2309.01507)
 *     adam-flash   two bytes, factors in 16 bits for every 32, and the byte of the master copy that
 *                  16-bit weights lack (FlashOptim, databricks/flashoptim, README)
 *     lion-8bit    one byte, and factors in fp32 for every 256 (bitsandbytes)
 *     ademamix     three moments (2409.03137); in 8 bits a byte each, and factors
 *     muon         one moment for hidden matrices, all else as Adam (2502.16982)
 *     soap         two, and statistics and eigenvectors of both sides of an [m, n] matrix in fp32,
 *                  8 (m^2 + n^2); a side of more than 10,000 has none (2409.11321)
 *     shampoo      one, and statistics and roots of both sides, in blocks of at most 8,192
 *                  (2309.06497)
 */
#include "model/layout/sizes.h"

#include "base/check.h"

static const double BLOCK_FACTOR = 4 / 256.;

static const lk_optimizer_kind kinds[LK_OPTIMIZERS] = {
	[LK_OPT_ADAM] = {"adam", .moments = 2},
	[LK_OPT_SGD] = {"sgd", .moments = 1},
	[LK_OPT_LAMB] = {"lamb", .moments = 2},
	[LK_OPT_ADAFACTOR] = {"adafactor", .bytes = .05},
	[LK_OPT_MUON] = {"muon", .moments = 2, .of_matrices = 1, .update = 2, .hidden = true},
	[LK_OPT_SOAP] = {"soap", .moments = 2, .of_matrices = 2, .update = 4},
	[LK_OPT_SHAMPOO] = {"shampoo", .moments = 1, .of_matrices = 1, .update = 4},
	[LK_OPT_LION] = {"lion", .moments = 1},
	[LK_OPT_ADAM_MINI] = {"adam-mini", .moments = 1},
	[LK_OPT_ADAM_8BIT] = {"adam-8bit", .bytes = 2 * (1 + BLOCK_FACTOR)},
	[LK_OPT_ADAM_4BIT] = {"adam-4bit", .bytes = 2 * (.5 + 4 / 128.)},
	[LK_OPT_ADAM_FLASH] = {"adam-flash", .bytes = 2 * (1 + 2 / 32.), .split = 1},
	[LK_OPT_LION_8BIT] = {"lion-8bit", .bytes = 1 + BLOCK_FACTOR},
	[LK_OPT_ADEMAMIX] = {"ademamix", .moments = 3},
	[LK_OPT_ADEMAMIX_8BIT] = {"ademamix-8bit", .bytes = 3 * (1 + BLOCK_FACTOR)},
};

const char *const lk_optimizer_names[LK_OPTIMIZERS + 1] = {
	"adam",      "sgd",      "lamb",          "adafactor", "muon",      "soap",
	"shampoo",   "lion",     "adam-mini",     "adam-8bit", "adam-4bit", "adam-flash",
	"lion-8bit", "ademamix", "ademamix-8bit", NULL,
};

const char *const lk_muon_tp_names[] = {"duplicated", "distributed", "blockwise", NULL};

const lk_optimizer_kind *lk_optimizer_of(const lk_job *job) {
	LK_ASSERT(job->optimizer < LK_OPTIMIZERS);
	return &kinds[job->optimizer];
}

bool lk_optimizer_has_products(const lk_job *job) {
	return lk_optimizer_of(job)->update > 0;
}

/* ---- frozen weights in fewer bits */

/* LLM.int8 has a factor in fp32 for each row of a matrix. bitsandbytes lists what its products read
 * in ctx.tensors, which autograd does not release after the backward pass: LLM.int8's still
 * (autograd/_functions.py, MatMul8bitLt), NF4's up to 0.42 (MatMul4Bit). There it stays for as long
 * as the graph does: to the end of a step of transformers' Trainer, to the next loss in litgpt's
 * loop (finetune/lora.py, fit). litgpt's NF4 has plain factors. Linear layers alone are replaced:
 * experts that are one tensor, as in transformers from 5 on, stay as they are, unless the program
 * works on them itself (axolotl's quantize_moe_experts). */
const char *const lk_base_names[] = {"nf4", "int8", "nf4-held", "nf4-dense", "int8-dense", NULL};
static const lk_base_kind bases[] = {
	[LK_BASE_NF4] = {.bytes = LK_NF4_BYTES},
	[LK_BASE_INT8] = {.bytes = 1, .row = 4, .integers = true, .keeps = true},
	[LK_BASE_NF4_HELD] = {.bytes = .5 + 4 / 64., .keeps = true, .held = true},
	[LK_BASE_NF4_DENSE] = {.bytes = LK_NF4_BYTES, .dense = true},
	[LK_BASE_INT8_DENSE] = {.bytes = 1, .row = 4, .integers = true, .keeps = true, .dense = true},
};

const lk_base_kind *lk_base_of(const lk_job *job) {
	return &bases[job->base];
}

/* Most rows have the network's width. */
double lk_base_bytes(const lk_job *job) {
	return bases[job->base].bytes + bases[job->base].row / job->model.hidden;
}
