/* trainer_flags.c: flags of HuggingFace's Trainer and the programs around it (run_clm.py,
 * LLaMA-Factory, TRL), for launch lines outside Megatron-LM. They say batch, length, numbers and
 * sharding; the network comes from a model option. */
#include "launch/launch.h"

#include <string.h>
#include "base/text.h"

typedef enum meaning {
	SEQ,
	MBS,
	STEPS,
	CHECKPOINTING,
	COMPILE,
	OPTIMIZER,
	FSDP,
	ADAPTER,
	RANK,
	METHOD,
	NETWORK
} meaning;

static const struct {
	const char *name;
	meaning means;
} flags[] = {
	{"max_seq_length", SEQ},
	{"max_seq_len", SEQ},
	{"model_max_length", SEQ},
	{"max_length", SEQ},
	{"cutoff_len", SEQ},
	{"block_size", SEQ},
	{"per_device_train_batch_size", MBS},
	{"per_gpu_train_batch_size", MBS},
	{"gradient_accumulation_steps", STEPS},
	{"gradient_checkpointing", CHECKPOINTING},
	{"torch_compile", COMPILE},
	{"optim", OPTIMIZER},
	{"fsdp", FSDP},
	{"use_peft", ADAPTER},
	{"use_lora", ADAPTER},
	{"lora_r", RANK},
	{"lora_rank", RANK},
	{"finetuning_type", METHOD},
	{"model_name_or_path", NETWORK},
	{"model_name", NETWORK},
};

static int trainer_flags_find(const char *name) {
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		const char *a = flags[i].name, *b = name;
		while (*a != '\0' && (*a == *b || (*a == '_' && *b == '-'))) {
			a++;
			b++;
		}
		if (*a == '\0' && *b == '\0') return (int)i;
	}
	return -1;
}

bool lk_trainer_flag(const char *name) {
	return trainer_flags_find(name) >= 0;
}

/* "full_shard auto_wrap offload": the words of --fsdp. */
static void set_fsdp(lk_job *job, const char *text) {
	if (strstr(text, "full_shard") != NULL || strstr(text, "hybrid_shard") != NULL)
		job->sharding = LK_SHARD_ZERO3;
	else if (strstr(text, "shard_grad_op") != NULL) job->sharding = LK_SHARD_ZERO2;
	if (strstr(text, "offload") != NULL) job->offload_optimizer = true;
	if (job->sharding != LK_SHARD_NONE) lk_copy(job->stack, sizeof job->stack, "fsdp");
}

static void set_optimizer(lk_job *job, const char *text) {
	if (strstr(text, "adafactor") != NULL) job->optimizer = LK_OPT_ADAFACTOR;
	if (strncmp(text, "sgd", 3) == 0) job->optimizer = LK_OPT_SGD;
	if (strstr(text, "8bit") != NULL) job->state_dtype = LK_FP8; /* one byte per moment */
}

static lk_status set_int(lk_reading *reading, const char *name, const char *text, int high,
                         int *out) {
	long long value;
	LK_TRY(lk_parse_int(text, 1, high, &value, name, reading->err));
	*out = (int)value;
	return LK_OK;
}

static lk_status set_switch(lk_reading *reading, const char *name, const char *text, bool *out) {
	*out = true;
	return text[0] == '\0' ? LK_OK : lk_parse_bool(text, out, name, reading->err);
}

lk_status lk_trainer_read(lk_reading *reading, lk_job *job, const char *name, const lk_word *words,
                          size_t count, size_t *used) {
	meaning means = flags[trainer_flags_find(name)].means;
	bool on = false;
	*used = count > 0 && words[0].text[0] != '-';
	const char *text = *used > 0 ? words[0].text : "";
	if (*used > 0 && words[0].unknown != NULL && means != NETWORK) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s: %s", name, words[0].unknown);
		return lk_hint(reading->err, "write the value into the script");
	}
	switch (means) {
	case SEQ: return set_int(reading, name, text, 1 << 27, &job->seq);
	case MBS: return set_int(reading, name, text, 1 << 20, &job->mbs);
	case STEPS: return set_int(reading, name, text, 1 << 24, &job->microbatches);
	case RANK:
		job->task = LK_TASK_LORA;
		return set_int(reading, name, text, 1 << 16, &job->lora_rank);
	case COMPILE: return set_switch(reading, name, text, &job->compile);
	case OPTIMIZER: set_optimizer(job, text); return LK_OK;
	case FSDP: set_fsdp(job, text); return LK_OK;
	case METHOD:
		if (strcmp(text, "lora") == 0) job->task = LK_TASK_LORA;
		return LK_OK;
	case NETWORK:
		if (*text == '\0' || words[0].unknown != NULL)
			return lk_launch_note(reading, name, "its value is not known");
		return lk_launch_network(reading, name, text);
	case CHECKPOINTING:
		LK_TRY(set_switch(reading, name, text, &on));
		job->recompute = on ? LK_RECOMPUTE_FULL : LK_RECOMPUTE_NONE;
		job->recompute_said = true;
		return LK_OK;
	case ADAPTER:
		LK_TRY(set_switch(reading, name, text, &on));
		if (on) job->task = LK_TASK_LORA;
		return LK_OK;
	}
	return LK_OK;
}

void lk_trainer_finish(lk_job *job, bool bf16, bool fp16) {
	job->sharding_said = true;
	if (job->stack[0] == '\0') lk_copy(job->stack, sizeof job->stack, "ddp");
	if (job->mbs > 0 && job->microbatches == 0) job->microbatches = 1;
	if (!bf16 && !fp16) return;
	job->dtype = bf16 ? LK_BF16 : LK_FP16;
	job->dtype_said = true;
}
