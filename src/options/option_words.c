/* option_words.c: names of options as they are typed: with '_' for '-', or as other tools call
 * them. */
#include <string.h>

#include "options/options_internal.h"

/* First what is typed, without dashes; then what it is called here, with its value where one is
 * meant. */
static const char *const words[][2] = {
	/* layout */
	{"tensor-parallel", "tp"},
	{"tensor-parallelism", "tp"},
	{"tensor-parallel-size", "tp"},
	{"tensor-parallel-degree", "tp"},
	{"tensor-model-parallel-size", "tp"},
	{"tp-size", "tp"},
	{"pipeline-parallel", "pp"},
	{"pipeline-parallelism", "pp"},
	{"pipeline-parallel-size", "pp"},
	{"pipeline-parallel-degree", "pp"},
	{"pipeline-model-parallel-size", "pp"},
	{"pp-size", "pp"},
	{"stages", "pp"},
	{"vpp", "vp"},
	{"vpp-size", "vp"},
	{"virtual-stages", "vp"},
	{"virtual-pipeline", "vp"},
	{"virtual-pipeline-parallel-size", "vp"},
	{"virtual-pipeline-model-parallel-size", "vp"},
	{"interleave", "vp"},
	{"interleaved", "schedule interleaved"},
	{"context-parallel", "cp"},
	{"context-parallel-size", "cp"},
	{"context-parallel-degree", "cp"},
	{"ulysses", "cp-kind ulysses"},
	{"expert-parallel", "ep"},
	{"expert-parallel-size", "ep"},
	{"expert-parallel-degree", "ep"},
	{"expert-model-parallel-size", "ep"},
	{"ep-size", "ep"},
	{"expert-tensor-parallel-size", "etp"},
	{"data-parallel", "dp"},
	{"data-parallel-size", "dp"},
	{"ddp", "zero 0"},
	{"dp-size", "dp"},
	{"sp", "sequence-parallel"},
	{"hsdp", "shard-group"},
	/* ZeRO */
	{"fsdp", "zero 3"},
	{"zero-stage", "zero"},
	{"distributed-optimizer", "zero 1"},
	{"use-distributed-optimizer", "zero 1"},
	/* batch and sequence */
	{"micro-batch", "mbs"},
	{"micro-batch-size", "mbs"},
	{"per-device-train-batch-size", "mbs"},
	{"global-batch", "gbs"},
	{"global-batch-size", "gbs"},
	{"batch", "gbs"},
	{"batch-size", "gbs"},
	{"train-batch-size", "gbs"},
	{"grad-accum", "gbs"},
	{"gradient-accumulation-steps", "gbs"},
	{"ctx", "seq"},
	{"context", "seq"},
	{"context-length", "seq"},
	{"max-length", "seq"},
	{"max-seq-len", "seq"},
	{"max-seq-length", "seq"},
	{"seq-len", "seq"},
	{"seqlen", "seq"},
	{"seq-length", "seq"},
	{"sequence-length", "seq"},
	{"packing", "pack"},
	/* machine */
	{"device", "gpu"},
	{"gpu-type", "gpu"},
	{"gpu-name", "gpu"},
	{"hardware", "gpu"},
	{"hw", "gpu"},
	{"system", "cluster"},
	{"network", "cluster"},
	{"topology", "cluster"},
	{"num-gpus", "gpus"},
	{"ngpus", "gpus"},
	{"n-gpus", "gpus"},
	{"n", "gpus"},
	{"count", "gpus"},
	{"gpu-count", "gpus"},
	{"num-devices", "gpus"},
	{"devices", "gpus"},
	{"world-size", "gpus"},
	{"nnodes", "gpus"},
	{"num-nodes", "gpus"},
	{"nodes", "gpus"},
	{"tdp", "power"},
	/* numbers and memory */
	{"precision", "dtype"},
	{"mixed-precision", "dtype"},
	{"bf16", "dtype bf16"},
	{"fp16", "dtype fp16"},
	{"fp8", "dtype fp8"},
	{"mxfp8", "dtype mxfp8"},
	{"nvfp4", "dtype nvfp4"},
	{"fp4", "dtype nvfp4"},
	{"activation-checkpointing", "recompute full"},
	{"gradient-checkpointing", "recompute full"},
	{"checkpoint-activations", "recompute full"},
	{"ac", "recompute"},
	{"recompute-granularity", "recompute"},
	{"recompute-activations", "recompute selective"},
	{"cpu-offload", "offload-optimizer"},
	{"lora", "task lora"},
	{"sft", "task sft"},
	{"grpo", "task grpo"},
	{"ppo", "task ppo"},
	{"inference", "task generate"},
	{"serving", "task serve"},
	{"request-rate", "arrivals"},
	/* software */
	{"framework", "stack"},
	{"backend", "stack"},
	{"strategy", "stack"},
	{"software", "stack"},
	{"torch-compile", "compile"},
	{"cuda-graph", "cuda-graphs"},
	{"flash-attention", "attention flash"},
	{"use-flash-attn", "attention flash"},
	{"deepep", "dispatcher node"},
	{"liger", "loss linear"},
	{"cut-cross-entropy", "loss cut"},
	{"model-name", "model"},
	{"model-name-or-path", "model"},
	{"model-config", "model"},
	{"train-tokens", "tokens"},
	{"total-tokens", "tokens"},
	{"num-tokens", "tokens"},
	/* what comes out */
	{"format", "output"},
	{"json", "output json"},
	{"csv", "output csv"},
	{"markdown", "output md"},
	{"out-file", "file"},
	{"report", "html"},
	{"plot", "charts"},
	{"chart", "charts"},
	{"figure", "charts"},
	{"svg", "charts"},
	{"png", "charts"},
	{"timeline", "trace"},
	{"perfetto", "trace"},
	{"max-cost", "budget"},
	{"max-hours", "deadline"},
	{"money", "budget"},
	{"cost", "budget"},
	{"price", "budget"},
	{"dollars", "budget"},
	{"time", "deadline"},
	{"duration", "deadline"},
	{"days", "deadline"},
	{"weeks", "deadline"},
	{"cloud", "provider"},
	{"timeout", "time-limit"},
};

bool lk_option_is_name(const char *word, size_t length, const char *name) {
	for (size_t i = 0; i < length; i++) {
		if (!name[i] || (word[i] == '_' ? '-' : word[i]) != (name[i] == '_' ? '-' : name[i]))
			return false;
	}
	return name[length] == '\0';
}

const char *lk_option_words(const lk_verb *verb, const char *typed) {
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *ours = words[i][1];
		if (!lk_option_is_name(typed, strlen(typed), words[i][0])) continue;
		size_t length = strcspn(ours, " ");
		for (const lk_option *option = verb->options; option && option->name; option++)
			if (lk_option_is_name(ours, length, option->name)) return ours;
	}
	return NULL;
}
