/* module_names.c: names that profilers and programs give to modules of a network. One row a form;
 * the first that fits counts.
 *
 *   nn.Module: LlamaMLP_3                      torch.profiler with stacks or with_modules
 *   {'Module': 'model.layers.3.mlp', ...}      NVTX hooks of layers, vLLM
 *   FSDP::pre_forward (layers.3)               PyTorch's FSDP, with the module that it works for
 *   model.layers.3.mlp                         a path of named_modules()
 *   megatron...TransformerLayer._forward_mlp   Megatron, Transformer Engine: a class and its work
 *   LlamaDecoderLayer, DistributedDataParallel.forward */
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "trace/capture/capture.h"

static const struct {
	const char *begins;
	const char *after; /* the module's name comes after it ... */
	char until;        /* ... up to this; '\0': the end */
	lk_module_form form;
} quoted[] = {
	{"nn.Module: ", "nn.Module: ", '\0', LK_MODULE_CLASS},
	{"{'Module': '", "{'Module': '", '\'', LK_MODULE_PATH},
	{"FSDP::", "(", ')', LK_MODULE_PATH},
};

/* Classes that are no modules, by a part of their names. */
static const char *const others[] = {"Optimizer",  "Backward", "Profiler",
                                     "DataLoader", "Compiled", "AccumulateGrad"};

/* Whether letters, digits, '_' and '.' are all there is, and no part is empty. */
static bool is_dotted(const char *name, size_t length) {
	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '.') return false;
		if (name[i] == '.' && (i == 0 || i + 1 == length || name[i - 1] == '.')) return false;
	}
	return length > 0;
}

/* The end of the part that begins at `at`. */
static const char *part_end(const char *at) {
	return at + strcspn(at, ".");
}

/* Whether a part of a path is a number, as layers have. */
static bool has_number(const char *name) {
	for (const char *at = name; *at; at = part_end(at) + (*part_end(at) == '.'))
		if (strspn(at, "0123456789") == (size_t)(part_end(at) - at)) return true;
	return false;
}

/* Whether a part is the name of a class of several words: an uppercase letter, a lowercase one,
 * and an uppercase one again; leading '_' aside. */
static bool is_class(const char *part, const char *end) {
	bool lower = false;
	while (part < end && *part == '_') part++;
	if (part == end || !isupper((unsigned char)*part)) return false;
	for (const char *at = part + 1; at < end; at++) {
		if (lower && isupper((unsigned char)*at)) return true;
		lower |= islower((unsigned char)*at) != 0;
	}
	return false;
}

/* The part of a dotted name from its first class on; NULL: none. */
static const char *class_in(const char *name) {
	for (const char *at = name;; at = part_end(at) + 1) {
		if (is_class(at, part_end(at))) return at;
		if (!*part_end(at)) return NULL;
	}
}

lk_module_form lk_module_of_name(const char *name, char *out, size_t size) {
	for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
		if (!lk_begins_with(name, quoted[i].begins)) continue;
		const char *at = strstr(name, quoted[i].after);
		if (!at) return LK_MODULE_NONE;
		at += strlen(quoted[i].after);
		const char *end = quoted[i].until ? strchr(at, quoted[i].until) : at + strlen(at);
		size_t length = end ? (size_t)(end - at) : 0;
		if (!length || length >= size || (quoted[i].until && !is_dotted(at, length)))
			return LK_MODULE_NONE;
		memcpy(out, at, length);
		out[length] = '\0';
		return quoted[i].form;
	}
	size_t length = strlen(name);
	if (length >= size || !is_dotted(name, length)) return LK_MODULE_NONE;
	if (strchr(name, '.') && isalpha((unsigned char)*name) && has_number(name)) {
		lk_copy(out, size, name);
		return LK_MODULE_PATH;
	}
	const char *class = class_in(name);
	if (!class) return LK_MODULE_NONE;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strstr(class, others[i])) return LK_MODULE_NONE;
	lk_copy(out, size, class);
	return LK_MODULE_CLASS;
}
