/* rows.h: rows of data/launch that are written, and their rules. */
#ifndef LK_LAUNCH_ROWS_H
#define LK_LAUNCH_ROWS_H

#include "launch/config/tables.h"
#include "launch/emit/emit.h"

/* Rules, which rows name in their column rule (emit_files.c). */
typedef const char *lk_row_rule(const lk_emission *emission, const char *value);
extern lk_row_rule lk_rule_accelerate_format, lk_rule_accelerate_kind, lk_rule_adapters,
	lk_rule_adapts_all, lk_rule_adapts, lk_rule_core_adapts, lk_rule_attends,
	lk_rule_axolotl_adapter, lk_rule_axolotl_data, lk_rule_axolotl_deepspeed,
	lk_rule_axolotl_optimizer, lk_rule_base_of_4, lk_rule_base_of_8, lk_rule_bridge_format,
	lk_rule_core, lk_rule_core_experts, lk_rule_core_recomputes, lk_rule_core_several,
	lk_rule_deepspeed, lk_rule_experts, lk_rule_factory_deepspeed, lk_rule_factory_fsdp,
	lk_rule_factory_keeps, lk_rule_factory_liger, lk_rule_factory_stage, lk_rule_orders,
	lk_rule_preferences, lk_rule_rewards, lk_rule_fsdp, lk_rule_fsdp_recomputed, lk_rule_head_node,
	lk_rule_hybrid, lk_rule_image_pixels, lk_rule_images, lk_rule_liger_plugin, lk_rule_loss_cut,
	lk_rule_loss_fused, lk_rule_loss_switch, lk_rule_machines, lk_rule_mesh, lk_rule_named,
	lk_rule_narrow_base, lk_rule_nanotron_adam, lk_rule_nanotron_engine, lk_rule_nanotron_llama,
	lk_rule_nanotron_optimizer, lk_rule_nanotron_qwen, lk_rule_on, lk_rule_pipeline,
	lk_rule_recomputes_all, lk_rule_rotary_base, lk_rule_several, lk_rule_shared_expert,
	lk_rule_shared_width, lk_rule_tokens, lk_rule_trainer_recomputes, lk_rule_twice_rank,
	lk_rule_whole_recomputed, lk_rule_zero3;

/* emit_rows.c: the rows that are written, as a YAML file; as flags of a program, false when memory
 * runs out. */
void lk_emit_file(lk_page *page, const lk_emission *emission, const lk_key *rows);
bool lk_emit_flags(lk_emission *emission, const lk_key *rows);
/* What each row of tables states of the job in the framework's words, one after the other, with the
 * rows that are only read; NULL: nothing. False when memory runs out. */
bool lk_emit_rows_state(const lk_emission *emission, const lk_key *const *tables,
                        const char **values);
/* Names that HuggingFace's trainers share; NULL: they have none for it. */
const char *lk_emit_optimizer(const lk_job *job);
const char *lk_emit_attention(const lk_job *job);
int lk_emit_shard(const lk_job *job);   /* ranks that share one copy of the weights */
bool lk_emit_images(const lk_job *job); /* whether samples have images */

/* ---- edit_places.c: where a text states what */
typedef enum lk_spot_form {
	LK_SPOT_FLAG, /* --name value, --name=value, name=value */
	LK_SPOT_YAML,
	LK_SPOT_JSON,
	LK_SPOT_TOML
} lk_spot_form;
typedef struct lk_spot {
	const char *name; /* the path of a key; a flag without dashes */
	lk_spot_form form;
	size_t begin, at, end; /* of the key or flag; of its value, as it is written; at == end: none */
	bool item;             /* of a list, "lora_target_modules.-"; it begins at its dash, if any */
} lk_spot;
typedef LK_VEC(lk_spot) lk_spots;
/* All of them, in the order of the text; freed by the caller. Of what cannot be told nothing is
 * listed. */
lk_status lk_spots_of_file(lk_arena *arena, const char *path, const char *text, lk_spots *out,
                           lk_error *err);
lk_status lk_spots_of_script(lk_arena *arena, const char *text, lk_spots *out, lk_error *err);
/* A change of a text: the bytes from `at` to `end` become `with`. */
typedef struct lk_edit {
	size_t at, end;
	const char *with;
	const char *says; /* the setting in the text's form, "batch_size: 1"; NULL: not stated */
	bool made;        /* else it is kept for later */
	bool goes_along;  /* the framework needs it beside the others, though reading does not */
} lk_edit;
typedef LK_VEC(lk_edit) lk_edits;
/* Changes that give a place the value `with` ("": a switch is on; NULL: nothing is stated): of the
 * variables that its value comes from, then of the value itself. */
lk_status lk_spot_change(lk_arena *arena, const char *text, const lk_spot *place, const char *with,
                         lk_edits *out, lk_error *err);
/* The change that adds `name` after `beside` (NULL: at the end of the text), in its form. */
lk_status lk_spot_add(lk_arena *arena, const char *text, const lk_spot *beside, lk_spot_form form,
                      const char *name, const char *with, lk_edits *out, lk_error *err);

size_t lk_edit_line(const char *text, size_t at); /* where the line of a place begins */
lk_status lk_edit_push(lk_edits *out, size_t at, size_t end, const char *with, lk_error *err);
/* A value in the quotes of the one that it replaces, or stands beside. */
const char *lk_spot_quoted(lk_arena *arena, const char *text, const lk_spot *place,
                           const char *with);

/* ---- edit_lists.c: the items of a list, neighbours among the places, and what changes of them */
typedef struct lk_list_change {
	const lk_spot *items;
	size_t count;
	bool *leaves; /* of each item */
	const char *joins[16];
	size_t join_count;
} lk_list_change;
/* Whether an item is this text; *at: which. */
bool lk_list_has(lk_arena *arena, const char *text, const lk_list_change *list, const char *name,
                 size_t *at);
/* Items as names of the layers with adapters, in the names that the list has. */
void lk_list_adapters(lk_arena *arena, const char *text, int adapted, lk_list_change *list);
lk_status lk_list_edit(lk_arena *arena, const char *text, lk_list_change *list, lk_edits *out,
                       lk_error *err);

/* ---- edit_text.c: the text with the changes that are made; where two overlap, the first one
 * holds. Both are NULL when memory runs out. */
const char *lk_edited(lk_arena *arena, const char *text, const lk_edit *edits, size_t count);
/* The same as a unified diff. */
const char *lk_edit_diff(lk_arena *arena, const char *path, const char *text, const lk_edit *edits,
                         size_t count);

#endif
