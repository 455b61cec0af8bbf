/* fuzz_yaml.c: YAML and TOML documents. */
#include <stdint.h>

#include "base/arena.h"
#include "io/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_value *root;
	(void)lk_yaml_document(&arena, (const char *)data, size, "fuzz.yaml", &root, &err);
	(void)lk_toml_document(&arena, (const char *)data, size, "fuzz.toml", &root, &err);
	lk_arena_free(&arena);
	return 0;
}
