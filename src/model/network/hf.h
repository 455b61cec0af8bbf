/* hf.h: inside the config reader: what a family of HuggingFace configs looks like. One family, one
 * row of a table; adding one touches the file of that table alone. */
#ifndef LK_MODEL_HF_H
#define LK_MODEL_HF_H

#include <stddef.h>

#include "model/network/model.h"

typedef enum lk_hf_kind { LK_HF_INT, LK_HF_REAL, LK_HF_FLAG } lk_hf_kind;

/* One key of a config and the field it fills. What the config does not state keeps the family's
 * start value. */
typedef struct lk_hf_key {
	const char
		*names; /* the key and its aliases, separated by '|'; the first that is there counts */
	lk_hf_kind kind;
	size_t offset;    /* of the field in lk_model */
	bool required;    /* an error where it is missing and the start value is 0 */
	bool null_clears; /* null means 0; elsewhere null means "not stated" */
} lk_hf_key;

/* Rows of such tables, and their end. */
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
	const lk_value *object; /* the part that states the language model */
	const lk_value *root;   /* the whole */
	const char *file;
	char *warning;            /* LK_MODEL_WARNING bytes, or NULL */
	const lk_value *language; /* the object whose members are marked */
	bool *read;               /* [members of it] a reader requested it; or NULL */
	bool as;                  /* it is read as another type on purpose */
} lk_hf_config;

typedef struct lk_hf_family {
	const char *type;      /* model_type */
	const lk_hf_key *keys; /* ends with names NULL */
	const lk_model *start;
	lk_status (*finish)(const lk_hf_config *config, lk_model *model,
	                    lk_error *err); /* derives what no key states */
} lk_hf_family;

/* The tables of families, each ends with a type NULL: hf_families.c, hf_gpt.c, hf_encoders.c
 * (encoders, with and without a decoder), hf_audio.c, hf_diffusion.c. */
extern const lk_hf_family lk_hf_decoders[], lk_hf_gpts[], lk_hf_encoders[], lk_hf_audio[],
	lk_hf_diffusers[];

/* The row of a model_type, or NULL. */
const lk_hf_family *lk_hf_family_of(const char *type);
/* The name of the i-th row; NULL after the last. */
const char *lk_hf_family_name(int i);

/* The value of the first alias that is there and not null; NULL otherwise. */
const lk_value *lk_hf_find(const lk_hf_config *config, const char *names);
/* A member of an object of the config, which counts as read; NULL if it is not there. */
const lk_value *lk_hf_get(const lk_hf_config *config, const lk_value *object, const char *name);
/* Members of the language model's part, separated by '|', that shape nothing in this family. */
void lk_hf_pass(const lk_hf_config *config, const char *names);
/* The nested object of a name, to be read like a config; its object is NULL where there is none.
 * Members that are neither in `known` (names separated by '|') nor bookkeeping are errors. */
lk_status lk_hf_part(const lk_hf_config *config, const char *name, const char *known,
                     lk_hf_config *part, lk_error *err);
/* A network that a member states, read as a known type; its own model_type is ignored. */
lk_status lk_hf_network(const lk_hf_config *config, const char *name, const char *type,
                        lk_model *out, lk_error *err);
/* Typed reads for finish functions; a missing key leaves *out as it is. */
lk_status lk_hf_int(const lk_hf_config *config, const char *names, int *out, lk_error *err);
lk_status lk_hf_flag(const lk_hf_config *config, const char *names, bool *out, lk_error *err);
lk_status lk_hf_real(const lk_hf_config *config, const char *names, double *out, lk_error *err);
/* An error at the place of `value` (of the whole object if NULL). */
lk_status lk_hf_fail(const lk_hf_config *config, const lk_value *value, lk_error *err,
                     const char *fmt, ...) LK_PRINTF(4, 5);
lk_status lk_hf_wrong_kind(const lk_hf_config *config, const lk_value *value, const char *names,
                           const char *wanted, lk_error *err);
/* "config.json:12", or the file alone. */
void lk_hf_place(const lk_hf_config *config, const lk_value *value, char *out, size_t size);
/* Fills the field of a key of a family's table. */
lk_status lk_hf_read_key(const lk_hf_config *config, const lk_hf_key *key, lk_model *model,
                         lk_error *err);
/* Adds a sentence to the warning. */
void lk_hf_warn(const lk_hf_config *config, const char *fmt, ...) LK_PRINTF(2, 3);

/* Whether two values, neither of them an object nor null, are the same. */
bool lk_hf_same(const lk_value *a, const lk_value *b);
/* Whether a name is one of several, separated by '|'. */
bool lk_hf_listed(const char *name, const char *names);

/* hf_towers.c: the encoder of images of a config that states one, joined to the language model;
 * whether a member of the whole config is a part of it; what the language model's part may leave
 * out. */
lk_status lk_hf_tower(const lk_hf_config *config, lk_model *model, lk_error *err);
/* The type of the language model's part where it states none; NULL: not known. */
const char *lk_hf_joint_text(const lk_hf_config *config);
bool lk_hf_beside_tower(const lk_hf_config *config, const char *name);
void lk_hf_text_defaults(const lk_hf_config *config, const char *type, lk_model *model);

/* hf_whole.c: language models with encoders of images that their configs do not state. */
lk_status lk_hf_molmo(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_phi4mm(const lk_hf_config *config, lk_model *model, lk_error *err);

/* convnet_read.c: stem, stages and classifier of a convolution net. */
lk_status lk_hf_convnet(const lk_hf_config *config, lk_model *model, lk_error *err);
/* The same of a config of Hugging Face's resnet; images of 224 x 224 and 1,000 classes where the
 * config does not state them. */
lk_status lk_hf_resnet(const lk_hf_config *config, lk_model *model, lk_error *err);

/* The same of convnext, of convnextv2, of swin. */
lk_status lk_hf_convnext(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_convnextv2(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_swin(const lk_hf_config *config, lk_model *model, lk_error *err);

/* hf_unread.c: whether a member shapes no network: bookkeeping, or switched off. */
bool lk_hf_neutral(const char *name, const lk_value *value);
/* The members of the language model's part that no reader requested and that could shape a network:
 * writes their names, separated by ", ", into `out` ("" if there are none) and returns the first.
 */
const lk_value *lk_hf_unread(const lk_hf_config *config, char *out, size_t size);

/* hf_shapes.c: whether a text member has this value; heads that the config does not state; heads,
 * experts and latent attention; the same with the switch of attention's biases. */
bool lk_hf_says(const lk_hf_config *config, const char *name, const char *text);
lk_status lk_hf_heads(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_sizes(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_shapes(const lk_hf_config *config, lk_model *model, lk_error *err);
/* Biases that one switch rules: all linear layers alike. A width of the MLP that is not stated:
 * four times the hidden size. */
void lk_hf_all_biases(lk_model *model, bool on);
lk_status lk_hf_four_times(const lk_hf_config *config, lk_model *model, lk_error *err);

/* hf_hybrids.c: networks whose layers differ in their mixers. */
lk_status lk_hf_qwen3_next(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_nemotron_h(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_jamba(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_bamba(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_falcon_h1(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_granite_hybrid(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_mamba(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_mamba2(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_mllama(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_zamba2(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_rwkv(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_rwkv5(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_rwkv7(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_minimax(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_kimi_linear(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_xlstm(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_lfm2(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_lfm2_moe(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_longcat(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_mimo_v2(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_step3(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_llama4(const lk_hf_config *config, lk_model *model, lk_error *err);
lk_status lk_hf_modernbert(const lk_hf_config *config, lk_model *model, lk_error *err);

/* hf_puzzle.c: layers that differ in what was left of them. */
lk_status lk_hf_puzzle(const lk_hf_config *config, lk_model *model, lk_error *err);

/* A list of kinds of layers, as layer_types: their mixers; feed-forwards as the model's fields say.
 * `linear` is what linear_attention means, 0 nothing that is known. Fills the order. */
lk_status lk_hf_layer_kinds(const lk_hf_config *config, const lk_value *types, int linear,
                            lk_model *model, lk_error *err);
/* The order of `count` layers, or an error. */
lk_status lk_hf_order(const lk_hf_config *config, const lk_layer *layers, int count,
                      lk_model *model, lk_error *err);

/* layer_types: which layers attend through a window. Fills window and full_every, or the order
 * where they do not repeat. Kinds of layers that are not known are errors, and full attention where
 * that is on purpose. */
lk_status lk_hf_layer_types(const lk_hf_config *config, lk_model *model, lk_error *err);

#endif
