/* mixers.c: the table of mixers. */
#include "model/network/parts.h"

const lk_mixer_kind lk_mixer_kinds[LK_MIXER_KINDS] = {
	{LK_MIXER_ATTENTION, '*', lk_attention_weights, lk_attention_matrices, lk_attention_core, NULL},
	{LK_MIXER_SSM, 'M', lk_ssm_weights, lk_ssm_matrices, lk_ssm_core, lk_ssm_state},
	{LK_MIXER_DELTA, 'G', lk_delta_weights, lk_delta_matrices, lk_delta_core, lk_delta_state},
	{LK_MIXER_LIGHTNING, 'L', lk_lightning_weights, lk_lightning_matrices, lk_lightning_core,
     lk_lightning_state},
	{LK_MIXER_RWKV, 'R', lk_rwkv_weights, lk_rwkv_matrices, lk_rwkv_core, NULL},
	{LK_MIXER_CONV, 'S', lk_conv_weights, lk_conv_matrices, lk_conv_core, NULL},
};
