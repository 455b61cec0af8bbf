/* hf_families.c: one row per family of HuggingFace decoder configs: its keys, its start values
 * (what a config of the family may leave out), and its derivations (hf_derived.c). Keys and defaults are those of
 * the configuration classes of the transformers library; the published parameter counts of each
 * family are the test (tests/unit/test_model.c). */
#include "model/read/hf.h"
#include "base/check.h"

#include <string.h>

#define INT   LK_HF_INTEGER
#define NEED  LK_HF_NEEDED
#define CLEAR LK_HF_CLEARED
#define REAL  LK_HF_NUMBER
#define FLAG  LK_HF_SWITCH
#define END   LK_HF_END

/* ---- keys ---- */

/* llama and its many relatives, mixtures of experts and multi-head latent attention included. */
static const lk_hf_key llama_keys[] = {
	NEED("num_hidden_layers|n_layers|num_layers", layers),
	NEED("hidden_size|dim", hidden),
	NEED("num_attention_heads|n_heads|num_heads", heads),
	CLEAR("num_key_value_heads|n_kv_heads|num_kv_heads", kv_heads),
	INT("head_dim|attention_head_dim", head_dim),
	NEED("intermediate_size|ffn_hidden_size|block_ff_dim|ff_intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta|theta", rotary_base),
	FLAG("tie_word_embeddings|tie_embedding", tied),
	FLAG("mlp_bias", mlp_bias),
	FLAG("use_qk_norm|qk_norm|qk_layernorm", qk_norm),
	FLAG("lm_head_bias", head_bias),
	CLEAR("sliding_window", window),
	INT("num_experts|num_local_experts|n_routed_experts|moe_num_experts", experts),
	INT("num_experts_per_tok|num_experts_per_token|experts_per_token|moe_topk|moe_k", topk),
	INT("moe_intermediate_size|expert_ffn_hidden_size", expert_ffn),
	INT("first_k_dense_replace|moe_layer_start_index|num_dense_layers", dense_layers),
	INT("decoder_sparse_step|moe_layer_freq|moe_layer_interval", moe_every),
	INT("num_nextn_predict_layers", mtp_layers),
	CLEAR("q_lora_rank", q_lora),
	CLEAR("kv_lora_rank", kv_lora),
	INT("qk_nope_head_dim", qk_nope),
	INT("qk_rope_head_dim", qk_rope),
	INT("v_head_dim", v_dim),
	REAL("resid_pdrop", dropout),
	END,
};

static const lk_hf_key molmo_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	CLEAR("num_key_value_heads", kv_heads),
	NEED("intermediate_size", ffn),
	NEED("embedding_size|vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("weight_tying|tie_word_embeddings", tied),
	FLAG("qkv_bias", qkv_bias),
	END,
};

static const lk_hf_key mimo_v2_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	NEED("num_key_value_heads", kv_heads),
	NEED("head_dim", head_dim),
	INT("v_head_dim", v_dim),
	INT("swa_num_key_value_heads", window_kv_heads),
	NEED("intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	INT("sliding_window|sliding_window_size", window),
	INT("n_routed_experts", experts),
	INT("num_experts_per_tok", topk),
	INT("moe_intermediate_size", expert_ffn),
	END,
};

/* Queries pass a low-rank projection, share_q_dim, and a norm (Step3TextAttention). */
static const lk_hf_key step3_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	NEED("num_attention_groups", kv_heads),
	NEED("head_dim", head_dim),
	INT("share_q_dim", q_lora),
	NEED("intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embedding|max_seq_len", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	INT("moe_num_experts", experts),
	INT("moe_top_k", topk),
	INT("moe_intermediate_size", expert_ffn),
	INT("share_expert_dim", shared_ffn),
	END,
};

static const lk_hf_key chatglm_keys[] = {
	NEED("num_layers", layers),          NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),  INT("kv_channels", head_dim),
	NEED("ffn_hidden_size", ffn),        NEED("padded_vocab_size|vocab_size", vocab),
	INT("seq_length", context),          FLAG("add_qkv_bias", qkv_bias),
	FLAG("post_layer_norm", final_norm), FLAG("tie_word_embeddings", tied),
	REAL("hidden_dropout", dropout),     END,
};

static const lk_hf_key mamba_keys[] = {
	NEED("num_hidden_layers|n_layer", layers),
	NEED("hidden_size|d_model", hidden),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	FLAG("tie_word_embeddings", tied),
	END,
};

/* By default its MLP is four times as wide as the hidden size. */
static const lk_hf_key zamba2_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	CLEAR("num_key_value_heads", kv_heads),
	INT("attention_head_dim", head_dim),
	CLEAR("intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	END,
};

static const lk_hf_key xlstm_keys[] = {
	NEED("num_hidden_layers|num_blocks", layers),
	NEED("hidden_size|embedding_dim", hidden),
	NEED("num_heads", delta_value_heads),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	FLAG("tie_word_embeddings", tied),
	END,
};

static const lk_hf_key rwkv_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("vocab_size", vocab),
	INT("context_length|max_position_embeddings", context),
	CLEAR("attention_hidden_size", rwkv_inner),
	CLEAR("intermediate_size", ffn),
	FLAG("tie_word_embeddings", tied),
	END,
};

static const lk_hf_key puzzle_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	FLAG("mlp_bias", mlp_bias),
	END,
};

static const lk_hf_key no_keys[] = {END};

/* ---- start values ---- */

#define ROTARY(norms, base)                                                                   \
	.network = LK_NET_DECODER, .norms_per_layer = norms, .final_norm = true, .lm_head = true, \
	.rotary_base = base
#define PLAIN(norms, base) ROTARY(norms, base), .norm = LK_NORM_RMS
#define LLAMA(norms, base) PLAIN(norms, base), .gated = true
#define LAYER(norms, base) ROTARY(norms, base), .norm = LK_NORM_LAYER
#define GEMMA(norms, base) LLAMA(norms, base), .tied = true, .head_dim = 256
#define GPT                                                                                     \
	.network = LK_NET_DECODER, .norm = LK_NORM_LAYER, .norms_per_layer = 2, .final_norm = true, \
	.norm_bias = true, .lm_head = true
#define BIASES .qkv_bias = true, .out_bias = true, .mlp_bias = true

static const lk_model llama_start = {LLAMA(2, 1e4)};
static const lk_model qwen2_start = {LLAMA(2, 1e4), .qkv_bias = true};
static const lk_model qwen2_moe_start = {LLAMA(2, 1e4), .qkv_bias = true, .shared_gate = true};
static const lk_model qwen3_start = {LLAMA(2, 1e4), .qk_norm = true, .head_dim = 128};
static const lk_model qwen3_moe_start = {LLAMA(2, 1e4), .qk_norm = true};
static const lk_model omni_talker_start = {LLAMA(2, 1e6), .qk_norm = true, .shared_gate = true};
static const lk_model mistral_start = {LLAMA(2, 1e4), .kv_heads = 8};
static const lk_model mixtral_start = {LLAMA(2, 1e6), .experts = 8, .topk = 2, .kv_heads = 8};
static const lk_model deepseek_v3_start = {LLAMA(2, 1e4), .router_bias = true, .dense_layers = 3};
static const lk_model gpt_oss_start = {LLAMA(2, 15e4),     .head_dim = 64,      .window = 128,
                                       .full_every = 2,    .router_bias = true, .expert_bias = true,
                                       .clipped_glu = true};
static const lk_model gemma_start = {GEMMA(2, 1e4)};
static const lk_model gemma2_start = {GEMMA(4, 1e4),   .window = 4096, .full_every = 2,
                                      .vocab = 256000, .layers = 26,   .hidden = 2304,
                                      .heads = 8,      .kv_heads = 4,  .ffn = 9216};
/* The published gemma3 configs leave out values that equal the class's defaults
 * (Gemma3TextConfig). */
static const lk_model gemma3_start = {GEMMA(4, 1e6),   .qk_norm = true,  .window = 4096,
                                      .full_every = 6, .vocab = 262208,  .heads = 8,
                                      .kv_heads = 4,   .context = 131072};
static const lk_model gemma3n_start = {
	GEMMA(4, 1e6), .qk_norm = true, .window = 512,    .full_every = 5,
	.layers = 35,  .hidden = 2048,  .heads = 8,       .kv_heads = 2,
	.ffn = 16384,  .vocab = 262400, .context = 32768, .streams = {4, 64, 256, 262144}};
static const lk_model mixed_deepseek_start = {LLAMA(2, 1e4), .qk_norm = true, .router_bias = true};
static const lk_model tied_llama_start = {LLAMA(2, 1e4), .tied = true};
static const lk_model arcee_start = {PLAIN(2, 1e4)};
static const lk_model apertus_start = {PLAIN(2, 12e6), .qk_norm = true};
static const lk_model ernie_start = {LLAMA(2, 5e5), .tied = true};
static const lk_model ernie_moe_start = {LLAMA(2, 5e5), .tied = true, .router_bias = true};
static const lk_model glm_start = {LLAMA(2, 1e4), .qkv_bias = true};
static const lk_model glm4_start = {LLAMA(4, 1e4)};
static const lk_model glm4_moe_start = {LLAMA(2, 1e4), .router_bias = true, .dense_layers = 1};
static const lk_model seed_oss_start = {LLAMA(2, 1e4), .qkv_bias = true};
static const lk_model internlm_start = {LLAMA(2, 1e4), .qkv_bias = true, .out_bias = true};
static const lk_model llama4_start = {LLAMA(2, 5e5), .experts = 16, .topk = 1, .moe_every = 1};
#define DELTA                                                                                  \
	LLAMA(2, 1e7), .qk_norm = true, .output_gate = true, .shared_gate = true, .head_dim = 256, \
				   .delta_key_heads = 16, .delta_value_heads = 32, .delta_key_dim = 128,       \
				   .delta_value_dim = 128, .delta_conv = 4
static const lk_model qwen3_next_start = {DELTA};
/* Qwen3_5MoeTextConfig states no dense MLP width. */
static const lk_model qwen3_5_moe_start = {DELTA, .experts = 256, .topk = 8, .ffn = 512};
/* Sizes that these configs may leave out (the classes' defaults). */
#define MAMBA1(rank_norms) \
	.ssm = 1, .ssm_state = 16, .ssm_conv = 4, .ssm_conv_bias = true, .ssm_norm = rank_norms
#define MAMBA2(states, groups, tokens, gated_norm)                                           \
	.ssm = 2, .ssm_state = states, .ssm_groups = groups, .ssm_conv = 4, .ssm_chunk = tokens, \
	.ssm_conv_bias = true, .ssm_norm = gated_norm
static const lk_model nemotron_h_start = {PLAIN(2, 0), MAMBA2(128, 8, 128, true)};
static const lk_model jamba_start = {LLAMA(2, 0), MAMBA1(true), .experts = 16, .topk = 2,
                                     .no_positions = true};
static const lk_model bamba_start = {LLAMA(2, 1e4), MAMBA2(256, 1, 256, true)};
static const lk_model falcon_h1_start = {LLAMA(2, 1e5), MAMBA2(256, 1, 256, false)};
static const lk_model granite_hybrid_start = {LLAMA(2, 1e4), MAMBA2(256, 1, 256, true)};
static const lk_model zamba2_start = {
	LLAMA(2, 1e4),  MAMBA2(64, 1, 256, true), .tied = true,        .heads = 32,
	.ssm_heads = 8, .shared_sets = 1,         .use_product = true, .context = 4096};
static const lk_model mamba_start = {PLAIN(2, 0), MAMBA1(false), .tied = true, .ffn = 1};
static const lk_model falcon_mamba_start = {PLAIN(2, 0), MAMBA1(false), .ffn = 1};
static const lk_model mamba2_start = {PLAIN(2, 0), MAMBA2(128, 8, 256, true), .tied = true,
                                      .ffn = 1};
static const lk_model rwkv_start = {GPT, .embed_norm = true, .context = 1024};
#define RWKV(version) GPT, .embed_norm = true, .context = 4096, .rwkv = version, .rwkv_head = 64
static const lk_model rwkv5_start = {RWKV(5)};
static const lk_model rwkv6_start = {RWKV(6)};
static const lk_model rwkv7_start = {RWKV(7)};
static const lk_model minimax_start = {LLAMA(2, 1e6), .experts = 8, .topk = 2};
static const lk_model minimax_m2_start = {LLAMA(2, 5e6), .qk_norm = true, .qk_norm_wide = true,
                                          .router_bias = true};
static const lk_model grok_start = {LLAMA(4, 1e4), .experts = 8, .topk = 2, .tied = true};
static const lk_model hunyuan_moe_start = {LLAMA(2, 1e4), .topk = 1};
static const lk_model xlstm_start = {LLAMA(2, 0), .context = 8192};
static const lk_model arctic_start = {LLAMA(3, 1e6), .experts = 128, .topk = 2, .moe_every = 2};
static const lk_model eurobert_start = {.network = LK_NET_ENCODER,
                                        .norm = LK_NORM_RMS,
                                        .norms_per_layer = 2,
                                        .final_norm = true,
                                        .gated = true,
                                        .tied = true,
                                        .rotary_base = 25e4};
static const lk_model vaultgemma_start = {GEMMA(2, 1e4), .window = 4096, .full_every = 2};
static const lk_model phi3small_start = {LAYER(2, 1e6), .gated = true, .norm_bias = true, BIASES,
                                         .tied = true};
static const lk_model afmoe_start = {LLAMA(4, 1e4),       .qk_norm = true, .output_gate = true,
                                     .router_bias = true, .window = 1024,  .full_every = 4};
static const lk_model lfm2_start = {LLAMA(2, 1e6), .qk_norm = true, .tied = true, .short_conv = 3,
                                    .context = 128000};
static const lk_model kimi_linear_start = {LLAMA(2, 1e4), .router_bias = true, .delta_conv = 4};
static const lk_model longcat_start = {LLAMA(2, 1e7), .router_bias = true};
static const lk_model exaone_moe_start = {LLAMA(2, 1e6), .qk_norm = true, .router_bias = true};
static const lk_model exaone4_start = {LLAMA(2, 1e6), .qk_norm = true};
static const lk_model olmo_start = {LAYER(2, 1e4), .gated = true, .norm_plain = true};
static const lk_model olmo2_start = {LLAMA(2, 5e5), .qk_norm = true, .qk_norm_wide = true};
static const lk_model cohere_start = {LAYER(1, 1e4), .gated = true, .qk_norm_wide = true,
                                      .parallel_residual = true, .tied = true};
static const lk_model cohere2_start = {LAYER(1, 1e4), .gated = true,  .parallel_residual = true,
                                       .tied = true,  .window = 4096, .full_every = 4};
static const lk_model orion_start = {LAYER(2, 1e4), .gated = true, .norm_bias = true};
static const lk_model stablelm_start = {LAYER(2, 1e4), .gated = true, .norm_bias = true,
                                        .qk_norm_wide = true};
static const lk_model phimoe_start = {LAYER(2, 1e6), .gated = true, .norm_bias = true,
                                      .experts = 16, .topk = 2};
static const lk_model nemotron_start = {GPT, .rotary_base = 1e4};
static const lk_model persimmon_start = {GPT, BIASES, .qk_norm = true, .rotary_base = 25e3};
static const lk_model starcoder2_start = {GPT, BIASES, .tied = true, .rotary_base = 1e4};
static const lk_model chatglm_start = {LLAMA(2, 1e4), .context = 2048};
/* One norm feeds attention and MLP. */
static const lk_model phi_start = {.network = LK_NET_DECODER,
                                   .norm = LK_NORM_LAYER,
                                   .norms_per_layer = 1,
                                   .final_norm = true,
                                   .norm_bias = true,
                                   .lm_head = true,
                                   .head_bias = true,
                                   BIASES,
                                   .parallel_residual = true,
                                   .context = 2048,
                                   .rotary_base = 1e4};
static const lk_model convnet_start = {.network = LK_NET_CONV,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = 1,
                                       .ffn = 1,
                                       .context = 1,
                                       .channels = 3,
                                       .conv.classes = 1000};
/* ---- the table ---- */

const lk_hf_family lk_hf_decoders[] = {
	{"llama", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"qwen2", llama_keys, &qwen2_start, lk_hf_finish_qwen},
	{"qwen2_moe", llama_keys, &qwen2_moe_start, lk_hf_finish_qwen},
	{"qwen3", llama_keys, &qwen3_start, lk_hf_finish_qwen},
	{"qwen3_moe", llama_keys, &qwen3_moe_start, lk_hf_finish_qwen},
	{"qwen2_vl", llama_keys, &qwen2_start, lk_hf_finish_qwen},
	{"qwen2_vl_text", llama_keys, &qwen2_start, lk_hf_finish_qwen},
	{"qwen2_5_vl", llama_keys, &qwen2_start, lk_hf_finish_qwen},
	{"qwen2_5_vl_text", llama_keys, &qwen2_start, lk_hf_finish_qwen},
	{"qwen3_vl_text", llama_keys, &qwen3_start, lk_hf_finish_qwen},
	{"qwen3_vl_moe_text", llama_keys, &qwen3_moe_start, lk_hf_finish_qwen},
	{"qwen3_omni_moe_text", llama_keys, &qwen3_moe_start, lk_hf_finish_qwen},
	{"qwen3_omni_moe_talker_text", llama_keys, &omni_talker_start, lk_hf_finish_qwen},
	{"mistral", llama_keys, &mistral_start, lk_hf_finish_windowed},
	{"mixtral", llama_keys, &mixtral_start, lk_hf_finish_windowed},
	{"deepseek_v2", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"deepseek_v3", llama_keys, &deepseek_v3_start, lk_hf_finish_windowless},
	{"deepseek", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"kimi_k2", llama_keys, &deepseek_v3_start, lk_hf_finish_windowless},
	{"glm4_moe_lite", llama_keys, &deepseek_v3_start, lk_hf_finish_windowless},
	{"mistral4", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"mimo", llama_keys, &qwen2_start, lk_hf_finish_qwen},
	{"mimo_v2_flash", mimo_v2_keys, &llama_start, lk_hf_mimo_v2},
	{"step3_text", step3_keys, &llama_start, lk_hf_step3},
	{"dots1", llama_keys, &mixed_deepseek_start, lk_hf_finish_qwen},
	{"gpt_oss", llama_keys, &gpt_oss_start, lk_hf_finish_gpt_oss},
	{"llama4_text", llama_keys, &llama4_start, lk_hf_llama4},
	{"qwen3_next", llama_keys, &qwen3_next_start, lk_hf_qwen3_next},
	{"qwen3_5_text", llama_keys, &qwen3_next_start, lk_hf_qwen3_next},
	{"qwen3_5_moe_text", llama_keys, &qwen3_5_moe_start, lk_hf_qwen3_next},
	{"deepseek_v32", llama_keys, &deepseek_v3_start, lk_hf_finish_deepseek_v32},
	{"glm_moe_dsa", llama_keys, &deepseek_v3_start, lk_hf_finish_deepseek_v32},
	{"nemotron_h", llama_keys, &nemotron_h_start, lk_hf_nemotron_h},
	{"jamba", llama_keys, &jamba_start, lk_hf_jamba},
	{"bamba", llama_keys, &bamba_start, lk_hf_bamba},
	{"falcon_h1", llama_keys, &falcon_h1_start, lk_hf_falcon_h1},
	{"zamba2", zamba2_keys, &zamba2_start, lk_hf_zamba2},
	{"granitemoehybrid", llama_keys, &granite_hybrid_start, lk_hf_granite_hybrid},
	{"mamba", mamba_keys, &mamba_start, lk_hf_mamba},
	{"falcon_mamba", mamba_keys, &falcon_mamba_start, lk_hf_mamba},
	{"mamba2", mamba_keys, &mamba2_start, lk_hf_mamba2},
	{"rwkv", rwkv_keys, &rwkv_start, lk_hf_rwkv},
	{"rwkv5", rwkv_keys, &rwkv5_start, lk_hf_rwkv5},
	{"rwkv6", rwkv_keys, &rwkv6_start, lk_hf_rwkv5},
	{"rwkv7", rwkv_keys, &rwkv7_start, lk_hf_rwkv7},
	{"minimax", llama_keys, &minimax_start, lk_hf_minimax},
	{"minimax_text_01", llama_keys, &minimax_start, lk_hf_minimax},
	{"minimax_m2", llama_keys, &minimax_m2_start, lk_hf_finish_minimax_m2},
	{"nemotron-nas", puzzle_keys, &llama_start, lk_hf_puzzle},
	{"mllama_text_model", llama_keys, &llama_start, lk_hf_mllama},
	{"bailing_moe", llama_keys, &llama_start, lk_hf_finish_bailing},
	{"bailing_moe_v2", llama_keys, &llama_start, lk_hf_finish_bailing},
	{"grok-1", llama_keys, &grok_start, lk_hf_finish_grok},
	{"hunyuan_v1_moe", llama_keys, &hunyuan_moe_start, lk_hf_finish_hunyuan_moe},
	{"ministral3", llama_keys, &llama_start, lk_hf_finish_windowed},
	{"smollm3", llama_keys, &tied_llama_start, lk_hf_finish_qwen},
	{"granite", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"granitemoe", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"granitemoeshared", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"arcee", llama_keys, &arcee_start, lk_hf_finish_windowless},
	{"apertus", llama_keys, &apertus_start, lk_hf_finish_apertus},
	{"baichuan", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"Yi", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"xverse", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"orion", llama_keys, &orion_start, lk_hf_finish_windowless},
	{"internlm", llama_keys, &internlm_start, lk_hf_finish_internlm},
	{"internlm2", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"internlm3", llama_keys, &llama_start, lk_hf_finish_internlm3},
	{"minicpm", llama_keys, &tied_llama_start, lk_hf_finish_windowless},
	{"minicpm3", llama_keys, &tied_llama_start, lk_hf_finish_minicpm3},
	{"qwen", llama_keys, &qwen2_start, lk_hf_finish_qwen1},
	{"minicpmv", llama_keys, &llama_start, lk_hf_finish_minicpmv},
	{"molmo", molmo_keys, &llama_start, lk_hf_molmo},
	{"chatglm", chatglm_keys, &chatglm_start, lk_hf_finish_chatglm},
	{"glm", llama_keys, &glm_start, lk_hf_finish_qkv_biased},
	{"glm4", llama_keys, &glm4_start, lk_hf_finish_qkv_biased},
	{"glm4_moe", llama_keys, &glm4_moe_start, lk_hf_finish_qkv_biased},
	{"seed_oss", llama_keys, &seed_oss_start, lk_hf_finish_qkv_biased},
	{"ernie4_5", llama_keys, &ernie_start, lk_hf_finish_all_biased},
	{"ernie4_5_moe", llama_keys, &ernie_moe_start, lk_hf_finish_ernie_moe},
	{"hunyuan_v1_dense", llama_keys, &llama_start, lk_hf_finish_hunyuan},
	{"afmoe", llama_keys, &afmoe_start, lk_hf_finish_afmoe},
	{"lfm2", llama_keys, &lfm2_start, lk_hf_lfm2},
	{"lfm2_moe", llama_keys, &lfm2_start, lk_hf_lfm2_moe},
	{"kimi_linear", llama_keys, &kimi_linear_start, lk_hf_kimi_linear},
	{"longcat_flash", llama_keys, &longcat_start, lk_hf_longcat},
	{"solar_open", llama_keys, &glm4_moe_start, lk_hf_finish_qkv_biased},
	{"exaone_moe", llama_keys, &exaone_moe_start, lk_hf_finish_windowed},
	{"helium", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"xlstm", xlstm_keys, &xlstm_start, lk_hf_xlstm},
	{"arctic", llama_keys, &arctic_start, lk_hf_finish_arctic},
	{"eurobert", llama_keys, &eurobert_start, lk_hf_finish_eurobert},
	{"vaultgemma", llama_keys, &vaultgemma_start, lk_hf_finish_windowed},
	{"phi3small", llama_keys, &phi3small_start, lk_hf_finish_phi3small},
	{"flex_olmo", llama_keys, &olmo2_start, lk_hf_finish_windowless},
	{"glm4v_text", llama_keys, &glm4_start, lk_hf_finish_qkv_biased},
	{"glm4v_moe_text", llama_keys, &glm4_moe_start, lk_hf_finish_qkv_biased},
	{"cwm", llama_keys, &llama_start, lk_hf_finish_windowed},
	{"exaone", llama_keys, &llama_start, lk_hf_finish_windowless},
	{"exaone4", llama_keys, &exaone4_start, lk_hf_finish_windowed},
	{"olmo", llama_keys, &olmo_start, lk_hf_finish_windowless},
	{"olmo2", llama_keys, &olmo2_start, lk_hf_finish_windowless},
	{"olmo3", llama_keys, &olmo2_start, lk_hf_finish_windowed},
	{"olmoe", llama_keys, &olmo2_start, lk_hf_finish_windowless},
	{"cohere", llama_keys, &cohere_start, lk_hf_finish_windowless},
	{"cohere2", llama_keys, &cohere2_start, lk_hf_finish_windowed},
	{"stablelm", llama_keys, &stablelm_start, lk_hf_finish_stablelm},
	{"starcoder2", llama_keys, &starcoder2_start, lk_hf_finish_all_biased},
	{"nemotron", llama_keys, &nemotron_start, lk_hf_finish_windowless},
	{"persimmon", llama_keys, &persimmon_start, lk_hf_finish_windowless},
	{"phimoe", llama_keys, &phimoe_start, lk_hf_finish_windowed},
	{"phi", llama_keys, &phi_start, lk_hf_finish_windowless},
	{"phi4mm", llama_keys, &llama_start, lk_hf_phi4mm},
	{"phi4_multimodal", llama_keys, &llama_start, lk_hf_phi4mm},
	{"phi3", llama_keys, &llama_start, lk_hf_finish_windowed},
	{"gemma", llama_keys, &gemma_start, lk_hf_finish_windowless},
	{"gemma2", llama_keys, &gemma2_start, lk_hf_finish_windowed},
	{"gemma3n_text", llama_keys, &gemma3n_start, lk_hf_finish_gemma3n},
	{"gemma3n", llama_keys, &gemma3n_start, lk_hf_finish_gemma3n},
	{"gemma3_text", llama_keys, &gemma3_start, lk_hf_finish_gemma3},
	{"gemma3", llama_keys, &gemma3_start, lk_hf_finish_windowed},
	{"convnet", no_keys, &convnet_start, lk_hf_convnet},
	{"swin", no_keys, &convnet_start, lk_hf_swin},
	{"resnet", no_keys, &convnet_start, lk_hf_resnet},
	{"convnext", no_keys, &convnet_start, lk_hf_convnext},
	{"convnextv2", no_keys, &convnet_start, lk_hf_convnextv2},
	{NULL, NULL, NULL, NULL},
};

/* ---- all tables ---- */

static const lk_hf_family *const tables[] = {lk_hf_decoders, lk_hf_gpts, lk_hf_encoders,
                                             lk_hf_audio, lk_hf_diffusers};

const lk_hf_family *lk_hf_family_of(const char *type) {
	LK_ASSERT(type);
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const lk_hf_family *row = tables[i]; row->type; row++)
			if (strcmp(row->type, type) == 0) return row;
	return NULL;
}

const char *lk_hf_family_name(int index) {
	LK_ASSERT(index >= 0);
	for (size_t i = 0; i < sizeof tables / sizeof *tables && index >= 0; i++)
		for (const lk_hf_family *row = tables[i]; row->type; row++)
			if (index-- == 0) return row->type;
	return NULL;
}

lk_status lk_hf_network(const lk_hf_config *config, const char *name, const char *type,
                        lk_model *out, lk_error *err) {
	const lk_hf_family *family = lk_hf_family_of(type);
	LK_ASSERT(family);
	const lk_value *object = lk_hf_find(config, name);
	lk_hf_config part = *config;
	if (!object || object->kind != LK_JSON_OBJECT)
		return lk_hf_fail(config, object, err, "%s states no network", name);
	part.object = part.root = object;
	part.warning = NULL;
	part.as = true;
	*out = *family->start;
	for (const lk_hf_key *key = family->keys; key->names; key++)
		LK_TRY(lk_hf_read_key(&part, key, out, err));
	LK_TRY(family->finish(&part, out, err));
	char where[256];
	lk_hf_place(&part, NULL, where, sizeof where);
	return lk_model_check(out, where, err);
}
