/* megatron_forks.c: flags that Pai-Megatron-Patch (alibaba/Pai-Megatron-Patch,
 * megatron_patch/arguments.py) and Megatron-DeepSpeed (deepspeedai/Megatron-DeepSpeed,
 * pretrain_gpt.py) add to Megatron-LM's, in terms of its own. */
#include "launch/megatron/megatron.h"

#include <stdint.h>
#include <string.h>

/* What Pai-Megatron-Patch's tokenizers hold (megatron_patch/tokenizer/__init__.py), for networks of
 * up to so many additional rows: several have one type. 0: additional rows are not counted. */
static const struct {
	const char *type;
	int vocab, most;
} patched[] = {
	{"LLamaTokenizer", 32000, INT32_MAX},   {"LLama2Tokenizer", 32000, INT32_MAX},
	{"MixtralTokenizer", 32000, INT32_MAX}, {"MistralTokenizer", 32000, INT32_MAX},
	{"LLama3Tokenizer", 128000, INT32_MAX}, {"VicunaTokenizerFromHF", 32000, 0},
	{"QwenTokenizer", 151851, 255},         {"QwenTokenizer", 151643, INT32_MAX},
	{"Qwen2Tokenizer", 151643, INT32_MAX},  {"Qwen2VLTokenizer", 151643, INT32_MAX},
	{"Qwen3Tokenizer", 151643, INT32_MAX},  {"QwenVLTokenizer", 151860, INT32_MAX},
	{"DeepSeekV2Tokenizer", 128813, 1000},  {"DeepSeekV2Tokenizer", 100000, INT32_MAX},
	{"BaichuanTokenizer", 125696, 0},       {"BaichuanTokenizer", 64000, INT32_MAX},
	{"YiTokenizer", 64000, INT32_MAX},      {"FalconTokenizer", 65024, INT32_MAX},
	{"OPTTokenizer", 50265, INT32_MAX},     {"BloomTokenizerFromHF", 250880, 0},
	{"ChatGLMTokenizerFromHF", 130528, 0},  {"GLM10BZHTokenizerFromHF", 50048, 0},
	{"IcetkGLM130BTokenizer", 150528, 0},   {"StarcoderTokenizerFromHF", 49152, 0},
	{"GPT2BPETokenizer", 50257, INT32_MAX},
};

/* Of several rows of a type that take no more rows, the last. */
static lk_status forks_vocab(lk_reading *reading, lk_megatron *megatron) {
	const char *type = megatron->patch_tokenizer;
	int extra = megatron->extra_vocab, vocab = 0;
	if (type == NULL || megatron->job.padded_vocab > 0 || megatron->job.model.vocab > 0)
		return LK_OK;
	for (size_t i = 0; i < sizeof patched / sizeof *patched && vocab == 0; i++) {
		bool last = i + 1 == sizeof patched / sizeof *patched ||
		            strcmp(patched[i + 1].type, patched[i].type) != 0;
		if (strcmp(patched[i].type, type) == 0 && (extra <= patched[i].most || last))
			vocab = patched[i].vocab + (patched[i].most > 0 ? extra : 0);
	}
	if (vocab == 0) return LK_OK;
	megatron->extra_vocab = 0;
	megatron->job.padded_vocab = vocab;
	return lk_launch_assume(reading,
	                        "a vocabulary of %d, by --patch-tokenizer-type %.60s "
	                        "(--vocab-size)",
	                        vocab, type);
}

/* Whether networks with a type of tokenizer are of llama's kind. */
static bool forks_is_llama(const char *type) {
	static const char *const types[] = {"LLama",    "Qwen",     "Mi",    "DeepSeek",
	                                    "Baichuan", "YiTokeni", "Vicuna"};
	for (size_t i = 0; type != NULL && i < sizeof types / sizeof *types; i++)
		if (strncmp(type, types[i], strlen(types[i])) == 0) return true;
	return false;
}

/* Networks of Hugging Face by their sizes: of llama's kind are those whose MLP is not four times as
 * wide, and those that state no width but llama's tokenizer; the width is then the next multiple of
 * 256 of 8/3 h. */
static lk_status forks_huggingface(lk_reading *reading, lk_megatron *megatron) {
	lk_model *shape = &megatron->job.model;
	bool unstated = shape->ffn == 0 && shape->hidden > 0 && shape->hidden < 1 << 24 &&
	                forks_is_llama(megatron->patch_tokenizer);
	bool wide = shape->ffn == 0 || shape->ffn == 4 * (int64_t)shape->hidden;
	if ((!megatron->huggingface && megatron->transformer == 0) || (wide && !unstated)) return LK_OK;
	if (unstated) shape->ffn = (8 * shape->hidden / 3 + 255) / 256 * 256;
	megatron->swiglu = megatron->rotary = megatron->untie = true;
	megatron->bias_linear = false;
	megatron->normalization = 1;
	if (megatron->patch_tokenizer == NULL && megatron->tokenizer == NULL && shape->vocab == 0)
		megatron->tokenizer_model = "llama";
	return lk_launch_assume(reading,
	                        "a network of llama's kind, with an MLP of %d: a network of "
	                        "Hugging Face whose sizes alone are stated (--model)",
	                        shape->ffn);
}

/* What flags of forks mean in terms of Megatron-LM's. */
lk_status lk_megatron_forks(lk_reading *reading, lk_megatron *megatron) {
	static const int positions[] = {0, 1, 2, 3, 4, 5, 1, 4, 0, 0};
	if (megatron->positions == 7)
		LK_TRY(lk_launch_note(reading, "position-embedding-type",
		                      "the slopes of ALiBi are not modelled"));
	megatron->positions = positions[megatron->positions];
	if (megatron->flash_v2) { /* Megatron-DeepSpeed's get_batch then makes no mask */
		megatron->flash_attention = true;
		megatron->job.attention_mask = false;
	}
	if (megatron->head_type == 1) megatron->group_query = true;
	if (megatron->glu == 1) megatron->geglu = true;
	else if (megatron->glu > 1) megatron->swiglu = true;
	if (megatron->fp8_hybrid && megatron->fp8 == 0) megatron->fp8 = 1;
	if (megatron->optimizer == 5) {
		megatron->optimizer = 0;
		megatron->job.offload_optimizer = true;
	}
	lk_model *shape = &megatron->job.model;
	if (megatron->shared_experts > 0 && shape->shared_ffn == 0 &&
	    shape->expert_ffn <= (1 << 24) / megatron->shared_experts)
		shape->shared_ffn = megatron->shared_experts * shape->expert_ffn;
	LK_TRY(forks_huggingface(reading, megatron));
	return forks_vocab(reading, megatron);
}
