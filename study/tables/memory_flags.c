/* memory_flags.c: launch flags that change the memory but have no column in the table of
 * Megatron-LM's test runs. Tests are named after the flags that they try, and the rest is in their
 * public configurations (NVIDIA/Megatron-LM,
 * tests/functional_tests/test_cases/MODEL/TEST/model_config.yaml), read on 2026-11-21. These are
 * inputs, like the columns; none is derived from a measured value. */
#include <string.h>

#include "base/arena.h"
#include "tables/tables.h"

#define MLA_SMALL                                                                                \
	"--q-lora-rank 192 --kv-lora-rank 64 --qk-head-dim 16 --qk-pos-emb-head-dim 8 --v-head-dim " \
	"16 "
#define MLA_LARGE                                                                       \
	"--q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 " \
	"--v-head-dim 128 "
#define MODERN                                                                     \
	"--position-embedding-type rope --attention-dropout 0.0 --hidden-dropout 0.0 " \
	"--disable-bias-linear "
#define LLAMA MODERN "--normalization RMSNorm "
#define DEEPSEEK                                                                                  \
	LLAMA "--moe-grouped-gemm --qk-layernorm --moe-router-enable-expert-bias --moe-router-dtype " \
		  "fp32 "                                                                                 \
		  "--moe-permute-fusion "
#define NATIVE "--cross-entropy-loss-fusion --cross-entropy-fusion-impl native "

static const struct {
	const char *model, *part,
		*flags; /* part of the test's name, "" all tests of the model; "a!b" has a, but not b */
} stated[] = {
	{"t5", "",
     "--encoder-num-layers 12 --decoder-num-layers 12 --encoder-seq-length 512 "
     "--decoder-seq-length 128 "
     "--max-position-embeddings 512 --vocab-extra-ids 100"},
	{"bert", "release", "--bert-no-binary-head"},
	/* named after the flag that they try */
	{"gpt", "rope_embeddings", "--position-embedding-type rope"},
	{"gpt", "rope_embeddings_interleaved_no_fusion", "--no-rope-fusion"},
	{"gpt", "disable_bias_linear", "--disable-bias-linear"},
	{"gpt", "cross_entropy_loss_fusion", NATIVE},
	{"gpt", "defer_embedding_wgrad_compute",
     "--defer-embedding-wgrad-compute --wgrad-deferral-limit 2"},
	{"gpt", "qk_layernorm", "--qk-layernorm"},
	{"gpt", "uneven_pipeline",
     "--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 2"},
	{"gpt", "account_for_embedding_loss",
     "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
     "--num-virtual-stages-per-pipeline-rank 2"},
	{"gpt", "tunable_overlap", "--microbatch-group-size-per-virtual-pipeline-stage 5"},
	{"", "multi_dist_optimizer_instances", "--num-distributed-optimizer-instances 2"},
	/* whole configurations */
	{"gpt", "no_create_attention_mask", "--no-create-attention-mask-in-dataloader"},
	{"gpt", "mla", MLA_SMALL},
	{"gpt", "gpt3_15b", MODERN},
	{"gpt", "current_scaling", "--fp8-recipe tensorwise --fp8-param-gather"},
	{"mixtral", "mixtral_8x", LLAMA "--moe-grouped-gemm --moe-token-dispatcher-type alltoall"},
	{"mixtral", "8x22b", "--vocab-size 32000"},
	{"mixtral", "deepseekv3_proxy",
     DEEPSEEK MLA_LARGE
     "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*11) "
     "--moe-token-dispatcher-type flex --moe-enable-deepep --cross-entropy-loss-fusion "
     "--cross-entropy-fusion-impl te --no-create-attention-mask-in-dataloader"},
	{"mixtral", "tp1pp4emp16", "--pipeline-model-parallel-layout Et*2|(tt|)*5t|tmL"},
	{"moe", "deepseek_proxy_fsdp",
     DEEPSEEK "--q-lora-rank 256 --kv-lora-rank 128 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
              "--v-head-dim 128 "
              "--moe-shared-expert-intermediate-size 1024 --moe-token-dispatcher-type alltoall"},
	{"mixtral", "tp2pp2emp16",
     "--pipeline-model-parallel-layout Et*7|t*7mL --moe-flex-dispatcher-backend hybridep"},
	{"moe", "fsdp_ep2_fsdp2_", "--moe-layer-freq ([0]*1+[1]*1)"},
	{"moe", "fsdp_ep2_fsdp2!fsdp2_", "--moe-layer-freq ([0]*3+[1]*5)"},
	{"moe", "fsdp_ep2_fsdp2!overlap", "--fp8-recipe tensorwise --fp8-param-gather"},
	{"moe", "tp2_pp2_ep4_etp1",
     DEEPSEEK MLA_LARGE NATIVE
     "--moe-shared-expert-intermediate-size 1024 --moe-token-dispatcher-type alltoall"},
	{"moe", "ep4_etp1_mtp",
     "--fp8-recipe tensorwise --moe-layer-freq ([0]*1+[1]*15) "
     "--num-virtual-stages-per-pipeline-rank 4"},
	{"moe", "attn_cudagraph",
     "--fp8-recipe tensorwise --moe-layer-freq ([0]*1+[1]*15) "
     "--num-virtual-stages-per-pipeline-rank 4 --cuda-graph-impl transformer_engine"},
	{"moe", "fine_grained_offloading",
     "--moe-layer-freq ([0]*3+[1]*12) --fine-grained-activation-offloading --offload-modules "
     "[expert_fc1,moe_act,attn_norm,mlp_norm,qkv_linear,core_attn,attn_proj]"},
	{"moe", "etp1_fine_grained_offloading", "--pipeline-model-parallel-layout Et*3|(tt|)*6mL"},
	{"moe", "no_mtp_no_a2a_ovlp", "--pipeline-model-parallel-layout Et*3|(tt|)*6L"},
	{"moe", "scoped_cudagraph",
     MODERN
     "--moe-token-dispatcher-type alltoall --moe-shared-expert-intermediate-size 512 "
     "--moe-router-dtype fp32 "
     "--moe-layer-freq ([0]*4+[1]*9) --fp8-recipe blockwise --cuda-graph-impl transformer_engine "
     "--moe-grouped-gemm"},
	{"moe", "scoped_cudagraph!1node", "--pipeline-model-parallel-layout Et|(tt|)*6mL"},
	{"moe", "", "--disable-bias-linear"},
	{"moe", "zp_z3", "--moe-grouped-gemm"},
	{"moe", "8experts2parallel_ddp_average", "--moe-grouped-gemm"},
	{"moe", "groupedGEMM", "--moe-grouped-gemm"},
	{"moe", "te_ep8", "--moe-grouped-gemm"},
	{"moe", "tp4_ep2_etp2_pp2_resume", "--moe-grouped-gemm --moe-token-dispatcher-type alltoall"},
	{"moe", "etp1_ep4", "--moe-grouped-gemm --moe-token-dispatcher-type alltoall"},
};

static bool flags_names(const char *part, const char *test) {
	char first[64];
	const char *mark = strchr(part, '!');
	size_t length = mark ? (size_t)(mark - part) : strlen(part);
	if (length >= sizeof first || (mark && strstr(test, mark + 1))) return false;
	memcpy(first, part, length);
	first[length] = '\0';
	return strstr(test, first) != NULL;
}

const char *lk_memory_flags(lk_arena *arena, const char *model, const char *test) {
	const char *text = "";
	for (size_t i = 0; i < sizeof stated / sizeof *stated && text; i++)
		if ((!*stated[i].model || strcmp(stated[i].model, model) == 0) &&
		    flags_names(stated[i].part, test))
			text = lk_arena_printf(arena, "%s%s ", text, stated[i].flags);
	return text;
}
