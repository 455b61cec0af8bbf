/* script_devices.c: commands that ask for devices other than GPUs, of which a prediction has none:
 * python3 -c 'import torch_npu', npu-smi, command -v npu-smi. */
#include "launch/script/script_internal.h"

#include <string.h>

static bool script_has(const char *at, const char *end, const char *part) {
	size_t length = strlen(part);
	for (; (size_t)(end - at) >= length; at++)
		if (strncmp(at, part, length) == 0) return true;
	return false;
}

static bool script_begins(const char *at, const char *end, const char *part) {
	size_t length = strlen(part);
	return (size_t)(end - at) >= length && strncmp(at, part, length) == 0;
}

bool lk_script_asks_device(const char *at, const char *end) {
	static const char *const modules[] = {"torch_npu", "torch_xla", "habana_frameworks",
	                                      "torch_mlu", "torch_musa"};
	static const char *const tools[] = {"npu-smi", "hl-smi", "xpu-smi", "mthreads-gmi"};
	if (end <= at) return false;
	bool imports = script_begins(at, end, "python") && script_has(at, end, " -c ");
	bool asks = script_begins(at, end, "command ") || script_begins(at, end, "which ") ||
	            script_begins(at, end, "type ");
	for (size_t i = 0; imports && i < sizeof modules / sizeof *modules; i++)
		if (script_has(at, end, modules[i])) return true;
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		if (script_begins(at, end, tools[i]) || (asks && script_has(at, end, tools[i])))
			return true;
	return false;
}
