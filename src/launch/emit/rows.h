/* rows.h: rows of data/launch that are written, and their rules. */
#ifndef LK_LAUNCH_ROWS_H
#define LK_LAUNCH_ROWS_H

#include "launch/config/tables.h"
#include "launch/emit/emit.h"

/* Rules, which rows name in their column rule (emit_files.c). */
typedef const char *lk_row_rule(const lk_emission *emission, const char *value);
extern lk_row_rule lk_rule_accelerate_format, lk_rule_accelerate_kind, lk_rule_adapters,
	lk_rule_adapts_all, lk_rule_adapts_attention, lk_rule_attends, lk_rule_axolotl_adapter,
	lk_rule_axolotl_deepspeed, lk_rule_axolotl_optimizer, lk_rule_base_of_4, lk_rule_base_of_8,
	lk_rule_core, lk_rule_core_experts, lk_rule_core_recomputes, lk_rule_core_several,
	lk_rule_deepspeed, lk_rule_experts, lk_rule_factory_deepspeed, lk_rule_factory_fsdp,
	lk_rule_factory_keeps, lk_rule_factory_liger, lk_rule_fsdp, lk_rule_fsdp_recomputed,
	lk_rule_head_node, lk_rule_hybrid, lk_rule_image_pixels, lk_rule_images, lk_rule_liger_plugin,
	lk_rule_loss_cut, lk_rule_loss_fused, lk_rule_loss_switch, lk_rule_machines, lk_rule_mesh,
	lk_rule_named, lk_rule_narrow_base, lk_rule_nanotron_adam, lk_rule_nanotron_engine,
	lk_rule_nanotron_heads, lk_rule_nanotron_llama, lk_rule_nanotron_optimizer,
	lk_rule_nanotron_qwen, lk_rule_on, lk_rule_pipeline, lk_rule_recomputes_all,
	lk_rule_rotary_base, lk_rule_several, lk_rule_shared_expert, lk_rule_shared_width,
	lk_rule_tokens, lk_rule_twice_rank, lk_rule_whole_recomputed, lk_rule_zero3;

/* emit_rows.c: the rows that are written, as a YAML file; as flags of a program, false when memory
 * runs out. */
void lk_emit_file(lk_page *page, const lk_emission *emission, const lk_key *rows);
bool lk_emit_flags(lk_emission *emission, const lk_key *rows);
/* Names that HuggingFace's trainers share; NULL: they have none for it. */
const char *lk_emit_optimizer(const lk_job *job);
const char *lk_emit_attention(const lk_job *job);
int lk_emit_shard(const lk_job *job);   /* ranks that share one copy of the weights */
bool lk_emit_images(const lk_job *job); /* whether samples have images */

#endif
