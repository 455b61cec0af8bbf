/* hf_families.c: families of configs by name, and their derivations. The rows are those of
 * data/families/families.csv; the published parameter counts of each family are the test
 * (tests/unit/test_model.c). */
#include "model/read/hf.h"
#include "base/check.h"

#include <string.h>

const lk_hf_family *lk_hf_family_of(const char *type) {
	LK_ASSERT(type);
	for (const lk_hf_family *row = lk_hf_families; row->type; row++)
		if (strcmp(row->type, type) == 0) return row;
	return NULL;
}

lk_status lk_hf_finish(const lk_hf_config *config, const lk_hf_family *family, lk_model *model,
                       lk_error *err) {
	if (family->passes) lk_hf_pass(config, family->passes);
	return family->finish(config, model, err);
}

lk_status lk_hf_network(const lk_hf_config *config, const char *name, const char *type,
                        lk_model *out, lk_error *err) {
	const lk_hf_family *family = lk_hf_family_of(type);
	LK_ASSERT(family);
	const lk_value *object = lk_hf_find(config, name);
	lk_hf_config part = *config;
	if (!object || object->kind != LK_JSON_OBJECT)
		return lk_hf_fail(config, object, err, "%s states no network", name);
	part.object = part.root = object;
	part.warning = NULL;
	part.as = true;
	*out = *family->start;
	LK_TRY(lk_hf_read_keys(&part, family->keys, out, err));
	LK_TRY(lk_hf_finish(&part, family, out, err));
	char where[256];
	lk_hf_place(&part, NULL, where, sizeof where);
	return lk_model_check(out, where, err);
}
