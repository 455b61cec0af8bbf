/* hf.h: internals of the config reader. A family of configs is a row of data/families, packed by
 * tools/pack_families.c; its row names one of the derivations below. */
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

/* The place of a member of lk_model and the kind of its values, for the packed rows. */
#define LK_HF_FIELD(member) offsetof(lk_model, member)
#define LK_HF_KIND(member) \
	_Generic(((lk_model *)0)->member, int : LK_HF_INT, double : LK_HF_REAL, bool : LK_HF_FLAG)

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
	const char *type;             /* model_type, or _class_name of diffusers */
	const lk_hf_key *const *keys; /* tables, each ended by a NULL name; ends with NULL */
	const lk_model *start;
	lk_hf_finish_fn *finish; /* derive what no key states */
	const char *passes;      /* members that shape nothing in it, separated by '|'; NULL: none */
} lk_hf_family;

typedef struct lk_hf_encoder {
	const char *types;            /* of vision_config, separated by '|' */
	const lk_hf_key *const *keys; /* as of a family */
	const char *known;            /* other members, which shape nothing or are read by the joint */
	lk_tower start;               /* position_rows -1: one per token */
} lk_hf_encoder;

/* Derive the projector; `config` is the whole config, `vision` its vision_config. */
typedef lk_status lk_hf_join_fn(const lk_hf_config *config, const lk_hf_config *vision,
                                lk_model *model, lk_error *err);

typedef struct lk_hf_joint {
	const char *type;    /* model_type of the whole config */
	const char *text;    /* default for the language model's part */
	const char *encoder; /* default of vision_config's model_type; NULL: runs in no step */
	lk_hf_join_fn *join;
	const char *known; /* members of the whole config that are read or shape nothing */
} lk_hf_joint;

/* A member that shapes no network. */
typedef struct lk_hf_harmless_key {
	const char *pattern; /* of its name, as for files */
	const char *value;   /* with this value only; NULL: any */
} lk_hf_harmless_key;

/* The packed tables: each ends with a row whose first member is NULL. */
extern const lk_hf_family lk_hf_families[];
extern const lk_hf_encoder lk_hf_encoders[];
extern const lk_hf_joint lk_hf_joints[];
extern const lk_hf_harmless_key lk_hf_harmless[];

/* The row of a model_type, or NULL. */
const lk_hf_family *lk_hf_family_of(const char *type);
/* Mark what the family passes over, then derive what no key states. */
lk_status lk_hf_finish(const lk_hf_config *config, const lk_hf_family *family, lk_model *model,
                       lk_error *err);

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
/* Fill the fields of the keys of some tables. After the first error, the rest is read as well, so
 * that all that a family knows is marked as read. */
lk_status lk_hf_read_keys(const lk_hf_config *config, const lk_hf_key *const *tables,
                          lk_model *model, lk_error *err);
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

/* Derivations, which rows name in their column rule. hf_derived.c: decoders. */
extern lk_hf_finish_fn lk_hf_finish_afmoe, lk_hf_finish_all_biased, lk_hf_finish_apertus,
	lk_hf_finish_arctic, lk_hf_finish_bailing, lk_hf_finish_chatglm, lk_hf_finish_ernie_moe,
	lk_hf_finish_gemma3, lk_hf_finish_gpt_oss, lk_hf_finish_grok, lk_hf_finish_hunyuan,
	lk_hf_finish_hunyuan_moe, lk_hf_finish_internlm, lk_hf_finish_internlm3, lk_hf_finish_minicpm3,
	lk_hf_finish_minicpmv, lk_hf_finish_minimax_m2, lk_hf_finish_phi3small, lk_hf_finish_qkv_biased,
	lk_hf_finish_qwen, lk_hf_finish_qwen1, lk_hf_finish_stablelm, lk_hf_finish_windowed,
	lk_hf_finish_windowless;
/* hf_gpt.c */
extern lk_hf_finish_fn lk_hf_finish_dbrx, lk_hf_finish_falcon, lk_hf_finish_four_times,
	lk_hf_finish_gpt2, lk_hf_finish_gpt_neo, lk_hf_finish_gpt_neox, lk_hf_finish_mpt,
	lk_hf_finish_opt;
/* hf_hybrids.c: networks whose layers differ in their mixers; hf_puzzle.c: layers with parts
 * removed. */
extern lk_hf_finish_fn lk_hf_finish_kimi_linear, lk_hf_finish_lfm2, lk_hf_finish_lfm2_moe,
	lk_hf_finish_llama4, lk_hf_finish_longcat, lk_hf_finish_mimo_v2, lk_hf_finish_minimax,
	lk_hf_finish_mllama, lk_hf_finish_modernbert, lk_hf_finish_puzzle, lk_hf_finish_qwen3_next,
	lk_hf_finish_step3, lk_hf_finish_xlstm;
/* hf_recurrent.c: state-space layers and RWKV. */
extern lk_hf_finish_fn lk_hf_finish_bamba, lk_hf_finish_falcon_h1, lk_hf_finish_granite_hybrid,
	lk_hf_finish_jamba, lk_hf_finish_mamba, lk_hf_finish_mamba2, lk_hf_finish_nemotron_h,
	lk_hf_finish_rwkv, lk_hf_finish_rwkv5, lk_hf_finish_rwkv7, lk_hf_finish_zamba2;
/* hf_encoders.c: of text, of images, in front of a decoder; hf_audio.c: of sound. */
extern lk_hf_finish_fn lk_hf_finish_albert, lk_hf_finish_bart, lk_hf_finish_bert,
	lk_hf_finish_deberta, lk_hf_finish_dinov2, lk_hf_finish_dinov3, lk_hf_finish_distilbert,
	lk_hf_finish_electra, lk_hf_finish_esm, lk_hf_finish_nomic, lk_hf_finish_pair_text,
	lk_hf_finish_t5, lk_hf_finish_vit, lk_hf_finish_wav2vec2, lk_hf_finish_whisper;
/* hf_diffusion.c */
extern lk_hf_finish_fn lk_hf_finish_auraflow, lk_hf_finish_cogvideox, lk_hf_finish_flux,
	lk_hf_finish_flux2, lk_hf_finish_hunyuan_video, lk_hf_finish_ltx, lk_hf_finish_lumina2,
	lk_hf_finish_pixart, lk_hf_finish_qwen_image, lk_hf_finish_sd3, lk_hf_finish_wan,
	lk_hf_finish_z_image;
/* convnet_read.c: stem, stages and classifier of a convolution net; by default images of 224 x 224
 * and 1,000 classes. */
extern lk_hf_finish_fn lk_hf_finish_convnet, lk_hf_finish_convnext, lk_hf_finish_convnextv2,
	lk_hf_finish_resnet, lk_hf_finish_swin;
/* hf_whole.c: language models with image encoders that their configs do not state. */
extern lk_hf_finish_fn lk_hf_finish_molmo, lk_hf_finish_phi4mm;
/* hf_towers.c: projectors. */
extern lk_hf_join_fn lk_hf_join_clip, lk_hf_join_gemma3, lk_hf_join_gemma3n, lk_hf_join_glm4v,
	lk_hf_join_idefics3, lk_hf_join_internvl, lk_hf_join_llama4, lk_hf_join_llava,
	lk_hf_join_llava_next, lk_hf_join_minicpmv, lk_hf_join_mistral3, lk_hf_join_mllama,
	lk_hf_join_omni, lk_hf_join_paligemma, lk_hf_join_qwen2_5_vl, lk_hf_join_qwen2_vl,
	lk_hf_join_qwen3_5, lk_hf_join_qwen3_vl, lk_hf_join_siglip;

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

/* Read a list of layer kinds, such as layer_types, into the order: their mixers; feed-forwards as
 * in the model's fields. `linear`: the mixer meant by linear_attention, 0: unknown. */
lk_status lk_hf_layer_kinds(const lk_hf_config *config, const lk_value *types, int linear,
                            lk_model *model, lk_error *err);
/* Set the order of `count` layers, or report an error. */
lk_status lk_hf_order(const lk_hf_config *config, const lk_layer *layers, int count,
                      lk_model *model, lk_error *err);

/* Refuse a decoder whose heads or MLPs are not the encoder's. */
lk_status lk_hf_equal_stacks(const lk_hf_config *config, const lk_model *model, lk_error *err);

/* Read layer_types: which layers attend through a window. Fills window and full_every, or the order
 * if the layers do not repeat. Unknown kinds are errors, or full attention if read on purpose. */
lk_status lk_hf_layer_types(const lk_hf_config *config, lk_model *model, lk_error *err);

#endif
