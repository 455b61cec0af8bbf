/* read.h: files and names into networks: configs of Hugging Face and of diffusers, convolution
 * nets, recommendation models, presets. */
#ifndef LK_MODEL_READ_READ_H
#define LK_MODEL_READ_READ_H

#include "base/arena.h"
#include "io/json.h"
#include "model/network/dlrm.h"
#include "model/network/model.h"

/* ---- networks ---- */

/* Read a config. Errors are at "file:line:column". Unknown network types, parts other than the
 * language model (vision, audio) and members of networks that are not modelled are errors that name
 * them. `as` (NULL: the config's own type) is the type to read it as on purpose; `warning`
 * (LK_MODEL_WARNING bytes, may be NULL) then states what that leaves out, else "". Nested
 * text_config / thinker_config are followed. The result has passed lk_model_check. */
enum { LK_MODEL_WARNING = 512 };
lk_status lk_model_from_hf(const lk_value *config, const char *file, const char *as, lk_model *out,
                           char *warning, lk_error *err);
/* lk_model_from_hf for a path (a config.json, or a folder that holds one). */
lk_status lk_model_read(const char *path, const char *as, lk_model *out, char *warning,
                        lk_error *err);

/* Presets: "llama3.1-70b", or the id of a repository that a preset states. Case, '-', '_' and
 * blanks are ignored, except between digits; an owner before '/' and endings such as "-instruct" or
 * "-hf" are dropped; the first words of a name suffice if they are unambiguous ("phi3-mini"), and
 * the end or the beginning of a name identifies the network that it was trained from
 * ("Hermes-3-Llama-3.1-8B", "Llama-3-8b-sft-mixture"). Other names give an error with the nearest
 * one. lk_model_preset_at parses all presets once; NULL out of range or when memory runs out. */
lk_status lk_model_preset(const char *name, lk_model *out, lk_error *err);
/* lk_model_preset without an error for unknown names: *found says whether there is a preset.
 * LK_ERR_MEMORY. */
lk_status lk_model_find(const char *name, lk_model *out, bool *found, lk_error *err);
/* The remark on answers for this name: the preset is the language model of a larger network, or
 * only a part of the name is known. "": none. LK_ERR_MEMORY. */
enum { LK_MODEL_REASON = 160 };
lk_status lk_model_taken(const char *name, char out[LK_MODEL_REASON], lk_error *err);
int lk_model_preset_count(void);
const lk_model *lk_model_preset_at(int index);
/* Names of the recommendation models (dlrm.h), which are not lk_models; NULL past the last. */
const char *lk_model_recommender_at(int index);
/* The id of the repository that a preset's config.json comes from, "meta-llama/Llama-3.1-8B"; false
 * if it comes from elsewhere, or `preset` is unknown. */
enum { LK_MODEL_ID = 128 };
bool lk_model_hub_id(const char *preset, char out[LK_MODEL_ID]);
/* The number formats in which its publishers trained a network, as options of predict, and the
 * source; both NULL if no preset of the same shape states them. The arena owns the texts. */
typedef struct lk_trained {
	const char *options, *source;
} lk_trained;
lk_status lk_model_trained(lk_arena *arena, const lk_model *model, lk_trained *out, lk_error *err);

/* ---- recommendation models ---- */

/* Read a config; `file` names it in errors. The arena owns the kinds of tables. */
lk_status lk_dlrm_from_json(lk_arena *arena, const lk_value *root, const char *file, lk_dlrm *out,
                            lk_error *err);
lk_status lk_dlrm_read(lk_arena *arena, lk_stream *in, lk_dlrm *out, lk_error *err);
/* lk_dlrm_from_json from a file of at most 16 MiB. */
lk_status lk_dlrm_file(lk_arena *arena, const char *path, lk_dlrm *out, lk_error *err);
/* Read the preset of this name ("DLRM_default", "dlrm-mlperf"): data/recommenders/NAME.json. */
lk_status lk_dlrm_preset(lk_arena *arena, const char *name, lk_dlrm *out, lk_error *err);
enum { LK_DLRM_NAME = 64 };
/* The name of the next preset from *index on, which moves past it; false: no more presets. */
bool lk_dlrm_next(int *index, char name[LK_DLRM_NAME]);

/* Whether a name is a file (a path, or ends in .json); else it names a preset. */
bool lk_dlrm_is_file(const char *name);
lk_status lk_dlrm_named(lk_arena *arena, const char *name, lk_dlrm *out, lk_error *err);

#endif
