/* hf.h: internals of the config reader: a family of HuggingFace configs. One family, one row of a
 * table; adding one changes only that table's file. */
#ifndef LK_MODEL_READ_HF_H
#define LK_MODEL_READ_HF_H

#include <stddef.h>

#include "model/read/read.h"

typedef enum lk_hf_kind { LK_HF_INT, LK_HF_REAL, LK_HF_FLAG } lk_hf_kind;

/* A key of a config and the field that it fills. A missing key leaves the family's start value. */
typedef struct lk_hf_key {
	const char *names; /* the key and its aliases, separated by '|'; the first one present counts */
	lk_hf_kind kind;
	size_t offset;    /* of the field in lk_model */
	bool required;    /* an error if missing while the start value is 0 */
	bool null_clears; /* null means 0; otherwise null means "not stated" */
} lk_hf_key;

/* Rows of such tables, and their terminator. */
#define LK_HF_FIELD(name) offsetof(lk_model, name)
#define LK_HF_INTEGER(names, field) \
	{ names, LK_HF_INT, LK_HF_FIELD(field), false, false }
#define LK_HF_NEEDED(names, field) \
	{ names, LK_HF_INT, LK_HF_FIELD(field), true, false }
#define LK_HF_CLEARED(names, field) \
	{ names, LK_HF_INT, LK_HF_FIELD(field), false, true } /* null: none */
#define LK_HF_NUMBER(names, field) \
	{ names, LK_HF_REAL, LK_HF_FIELD(field), false, false }
#define LK_HF_SWITCH(names, field) \
	{ names, LK_HF_FLAG, LK_HF_FIELD(field), false, false }
#define LK_HF_END \
	{ NULL, LK_HF_INT, 0, false, false }

/* A config that is being read. */
typedef struct lk_hf_config {
	const lk_value *object; /* the language model's part */
	const lk_value *root;   /* the whole config */
	const char *file;
	char *warning;            /* LK_MODEL_WARNING bytes, or NULL */
	const lk_value *language; /* the object whose members are marked */
	bool *read;               /* [members of it] requested by a reader; or NULL */
	bool as;                  /* read as another type on purpose */
} lk_hf_config;

/* Derive fields that no key states. */
typedef lk_status lk_hf_finish_fn(const lk_hf_config *config, lk_model *model, lk_error *err);

typedef struct lk_hf_family {
	const char *type;      /* model_type */
	const lk_hf_key *keys; /* ends with names NULL */
	const lk_model *start;
	lk_hf_finish_fn *finish; /* derive what no key states */
} lk_hf_family;

/* The tables of families, each ended by a NULL type: hf_families.c, hf_gpt.c, hf_encoders.c
 * (encoders, with and without a decoder), hf_audio.c, hf_diffusion.c. */
extern const lk_hf_family lk_hf_decoders[], lk_hf_gpts[], lk_hf_encoders[], lk_hf_audio[],
	lk_hf_diffusers[];

/* The row of a model_type, or NULL. */
const lk_hf_family *lk_hf_family_of(const char *type);
/* The name of the i-th row; NULL after the last. */
const char *lk_hf_family_name(int i);

/* The value of the first alias that is present and not null; otherwise NULL. */
const lk_value *lk_hf_find(const lk_hf_config *config, const char *names);
/* A member of an object of the config, marked as read; NULL if missing. */
const lk_value *lk_hf_get(const lk_hf_config *config, const lk_value *object, const char *name);
/* Mark members of the language model's part, separated by '|', that shape nothing in this
 * family. */
void lk_hf_pass(const lk_hf_config *config, const char *names);
/* The nested object of this name, to be read like a config; its object is NULL if missing. Members
 * that are neither in `known` (names separated by '|') nor bookkeeping are errors. */
lk_status lk_hf_part(const lk_hf_config *config, const char *name, const char *known,
                     lk_hf_config *part, lk_error *err);
/* Read a member that states a whole network as a known type; its own model_type is ignored. */
lk_status lk_hf_network(const lk_hf_config *config, const char *name, const char *type,
                        lk_model *out, lk_error *err);
/* Typed reads for finish functions; a missing key leaves *out unchanged. */
lk_status lk_hf_int(const lk_hf_config *config, const char *names, int *out, lk_error *err);
lk_status lk_hf_flag(const lk_hf_config *config, const char *names, bool *out, lk_error *err);
lk_status lk_hf_real(const lk_hf_config *config, const char *names, double *out, lk_error *err);
/* Report an error at the place of `value` (of the whole object if NULL). */
lk_status lk_hf_fail(const lk_hf_config *config, const lk_value *value, lk_error *err,
                     const char *fmt, ...) LK_PRINTF(4, 5);
lk_status lk_hf_wrong_kind(const lk_hf_config *config, const lk_value *value, const char *names,
                           const char *wanted, lk_error *err);
/* "config.json:12", or only the file. */
void lk_hf_place(const lk_hf_config *config, const lk_value *value, char *out, size_t size);
/* Fill the field of a key in a family's table. */
lk_status lk_hf_read_key(const lk_hf_config *config, const lk_hf_key *key, lk_model *model,
                         lk_error *err);
/* Append a sentence to the warning. */
void lk_hf_warn(const lk_hf_config *config, const char *fmt, ...) LK_PRINTF(2, 3);

/* Whether two values, neither objects nor null, are equal. */
bool lk_hf_same(const lk_value *a, const lk_value *b);
/* Whether a name is in a list separated by '|'. */
bool lk_hf_listed(const char *name, const char *names);

/* hf_towers.c: the image encoder stated by a config, joined to the language model; whether a member
 * of the whole config belongs to it; what the language model's part may leave out. */
lk_status lk_hf_tower(const lk_hf_config *config, lk_model *model, lk_error *err);
/* The type of the language model's part if it states none; NULL: unknown. */
const char *lk_hf_joint_text(const lk_hf_config *config);
bool lk_hf_beside_tower(const lk_hf_config *config, const char *name);
void lk_hf_text_defaults(const lk_hf_config *config, const char *type, lk_model *model);

/* hf_beside.c: parameters of gemma3n's audio encoder; of qwen3_omni's, which end in `out` columns;
 * likewise added to *sum: of its vocoder and of its speech generator. */
lk_status lk_hf_conformer_params(const lk_hf_config *config, double out, double *sum,
                                 lk_error *err);
lk_status lk_hf_omni_sound(const lk_hf_config *config, double out, double *sum, lk_error *err);
lk_status lk_hf_vocoder_params(const lk_hf_config *config, double *sum, lk_error *err);
lk_status lk_hf_talker_params(const lk_hf_config *config, double *sum, lk_error *err);

/* hf_whole.c: language models with image encoders that their configs do not state. */
lk_status lk_hf_molmo(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_phi4mm(const lk_hf_config *config, lk_model *model, lk_error *err);

/* convnet_read.c: stem, stages and classifier of a convolution net. */
lk_status lk_hf_convnet(const lk_hf_config *config, lk_model *model, lk_error *err);
/* Likewise from a config of Hugging Face's resnet; by default images of 224 x 224 and 1,000
 * classes. */
lk_status lk_hf_resnet(const lk_hf_config *config, lk_model *model, lk_error *err);

/* Likewise for convnext, convnextv2, swin. */
lk_status lk_hf_convnext(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_convnextv2(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_swin(const lk_hf_config *config, lk_model *model, lk_error *err);

/* hf_unread.c: whether a member shapes no network: bookkeeping, or switched off. */
bool lk_hf_neutral(const char *name, const lk_value *value);
/* Find members of the language model's part that no reader requested and that could shape a
 * network: write their names, separated by ", ", into `out` ("" if none) and return the first. */
const lk_value *lk_hf_unread(const lk_hf_config *config, char *out, size_t size);

/* hf_shapes.c: whether a text member has this value; default heads; heads, experts and latent
 * attention; likewise with the switch of attention's biases. */
bool lk_hf_says(const lk_hf_config *config, const char *name, const char *text);
lk_status lk_hf_heads(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_sizes(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_shapes(const lk_hf_config *config, lk_model *model, lk_error *err);
/* Set all biases of linear layers by one switch. The default width of the MLP: four times the
 * hidden size. */
void lk_hf_all_biases(lk_model *model, bool on);
lk_status lk_hf_four_times(const lk_hf_config *config, lk_model *model, lk_error *err);

/* hf_derived.c: by family, or by what several families share. */
lk_hf_finish_fn lk_hf_finish_apertus, lk_hf_finish_windowless, lk_hf_finish_windowed,
	lk_hf_finish_qkv_biased, lk_hf_finish_internlm3, lk_hf_finish_internlm, lk_hf_finish_all_biased,
	lk_hf_finish_ernie_moe, lk_hf_finish_stablelm, lk_hf_finish_qwen1, lk_hf_finish_minicpm3,
	lk_hf_finish_hunyuan, lk_hf_finish_deepseek_v32, lk_hf_finish_minimax_m2, lk_hf_finish_grok,
	lk_hf_finish_hunyuan_moe, lk_hf_finish_bailing, lk_hf_finish_qwen, lk_hf_finish_gemma3n,
	lk_hf_finish_gpt_oss, lk_hf_finish_chatglm, lk_hf_finish_afmoe, lk_hf_finish_gemma3,
	lk_hf_finish_arctic, lk_hf_finish_eurobert, lk_hf_finish_phi3small, lk_hf_finish_minicpmv;

/* hf_hybrids.c: networks whose layers differ in their mixers. */
lk_hf_finish_fn lk_hf_qwen3_next, lk_hf_mllama, lk_hf_minimax, lk_hf_kimi_linear, lk_hf_xlstm,
	lk_hf_lfm2, lk_hf_lfm2_moe, lk_hf_longcat, lk_hf_mimo_v2, lk_hf_step3, lk_hf_llama4,
	lk_hf_modernbert;
/* hf_recurrent.c: state-space layers and RWKV. */
lk_hf_finish_fn lk_hf_nemotron_h, lk_hf_jamba, lk_hf_bamba, lk_hf_falcon_h1, lk_hf_granite_hybrid,
	lk_hf_mamba, lk_hf_mamba2, lk_hf_zamba2, lk_hf_rwkv, lk_hf_rwkv5, lk_hf_rwkv7;
/* Change a layer, which starts from the model's fields about feed-forwards. */
typedef lk_layer (*lk_hf_layer_fn)(const void *context, lk_layer start, int layer);
/* Set the order to all layers of the model, changed. */
lk_status lk_hf_each_layer(const lk_hf_config *config, lk_model *model, lk_hf_layer_fn change,
                           const void *context, lk_error *err);
/* One layer in `period`, starting at `offset`. */
typedef struct lk_hf_period {
	int period, offset;
	int usual, other; /* mixers of that layer, of all others */
} lk_hf_period;
lk_layer lk_hf_periodic_mixer(const void *period, lk_layer start, int layer);
/* Attention layers are listed; others have another mixer. */
typedef struct lk_hf_list {
	const lk_value *list; /* an array, or NULL: none */
	int from;             /* number of the first layer */
	int other;
} lk_hf_list;
lk_layer lk_hf_listed_attention(const void *list, lk_layer start, int layer);
/* A network without attention has no heads; they count as one head of size one. */
void lk_hf_no_heads(lk_model *model);

/* hf_puzzle.c: layers with parts removed. */
lk_status lk_hf_puzzle(const lk_hf_config *config, lk_model *model, lk_error *err);

/* Read a list of layer kinds, such as layer_types, into the order: their mixers; feed-forwards as
 * in the model's fields. `linear`: the mixer meant by linear_attention, 0: unknown. */
lk_status lk_hf_layer_kinds(const lk_hf_config *config, const lk_value *types, int linear,
                            lk_model *model, lk_error *err);
/* Set the order of `count` layers, or report an error. */
lk_status lk_hf_order(const lk_hf_config *config, const lk_layer *layers, int count,
                      lk_model *model, lk_error *err);

/* Read layer_types: which layers attend through a window. Fills window and full_every, or the order
 * if the layers do not repeat. Unknown kinds are errors, or full attention if read on purpose. */
lk_status lk_hf_layer_types(const lk_hf_config *config, lk_model *model, lk_error *err);

#endif
