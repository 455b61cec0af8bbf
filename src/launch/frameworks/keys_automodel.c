/* keys_automodel.c: NeMo AutoModel's YAML (nemo_automodel/recipes): what no row can say.
 *
 *     accumulation = global_batch_size / (local_batch_size dp);  dp = gpus / (tp pp cp)
 *     vp = layers / (pp layers_per_stage) */
#include <string.h>

#include "base/text.h"
#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

/* A network that the file itself describes, as config.json would: its type is that of the class,
 * "transformers.models.qwen3_moe.configuration_qwen3_moe.Qwen3MoeConfig". */
lk_status lk_own_automodel_network(const lk_config *config, lk_draft *draft) {
	static const char package[] = "transformers.models.";
	const lk_value *shape = lk_config_at(config->root, "model.config");
	const char *class = lk_config_text(lk_config_at(shape, "_target_"));
	char type[64];
	if (!shape || shape->kind != LK_JSON_OBJECT || !lk_config_at(shape, "num_hidden_layers"))
		return LK_OK;
	bool known = class && strncmp(class, package, strlen(package)) == 0;
	if (known) {
		lk_copy(type, sizeof type, class + strlen(package));
		type[strcspn(type, ".")] = '\0';
	}
	return lk_model_from_hf(shape, config->reading->where, known ? type : NULL, &draft->job.model,
	                        NULL, config->reading->err);
}
