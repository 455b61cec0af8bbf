/* frames.c: whose code a stack is of, and what kind of tensor it allocated. Both go from the
 * innermost frame outwards: the first row that knows a frame decides. */
#include "postmortem/postmortem.h"

#include <string.h>

#include "base/text.h"

const char *const lk_held_names[] = {
#define HELD_NAME(symbol, name) name,
	LK_HELD_KINDS(HELD_NAME)
#undef HELD_NAME
};

/* Parts of file names that are not the user's code. */
static const char *const not_user[] = {
	"/torch/", "torchinductor_", "<eval_with_key>", "/triton/", "/contextlib.py", "/functools.py",
};
static const char *const native[] = {".cpp", ".cc", ".h", ".cu", ".c", ".so", "??"};

static bool is_users(const char *file) {
	if (!*file) return false;
	for (size_t i = 0; i < sizeof not_user / sizeof *not_user; i++)
		if (strstr(file, not_user[i])) return false;
	for (size_t i = 0; i < sizeof native / sizeof *native; i++)
		if (lk_ends_in(file, native[i])) return false;
	return true;
}

const lk_value *lk_frames_user(const lk_value *frames) {
	for (size_t i = 0; frames && i < frames->count; i++)
		if (is_users(lk_json_get_text(&frames->items[i], "filename", ""))) return &frames->items[i];
	return NULL;
}

/* Paths of installed packages from the package on. */
static const char *within_package(const char *file) {
	static const char *const roots[] = {"/site-packages/", "/dist-packages/"};
	for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
		const char *at = strstr(file, roots[i]);
		if (at) return at + strlen(roots[i]);
	}
	return file;
}

const char *lk_frames_where(lk_arena *arena, const lk_value *frames, const char **function) {
	const lk_value *frame = lk_frames_user(frames);
	if (function) *function = "";
	if (!frame) return "";
	if (function) *function = lk_arena_strdup(arena, lk_json_get_text(frame, "name", ""));
	if (function && !*function) return NULL;
	return lk_arena_printf(arena, "%s:%.0f",
	                       within_package(lk_json_get_text(frame, "filename", "")),
	                       lk_json_get_number(frame, "line", 0));
}

/* What a frame says of a tensor that was allocated below it: a part of the file's name (NULL: any
 * file) and the function, or its beginning before a '*' (NULL: any function). */
static const struct kind_row {
	const char *file, *function;
	lk_held_kind kind;
} rows[] = {
	/* states are created when an optimizer first sees a parameter; the rest of a step is work */
	{NULL, "_init_group", LK_HELD_OPTIMIZER},
	{NULL, "_init_state", LK_HELD_OPTIMIZER},
	{NULL, "init_state", LK_HELD_OPTIMIZER},
	{NULL, "init_optimizer_state*", LK_HELD_OPTIMIZER},
	{NULL, "initialize_optimizer_states", LK_HELD_OPTIMIZER},
	{"optim", "_multi_tensor_*", LK_HELD_OPTIMIZER_WORK},
	{"optim", "_single_tensor_*", LK_HELD_OPTIMIZER_WORK},
	{"optim", "_fused_*", LK_HELD_OPTIMIZER_WORK},
	{"optim", "step", LK_HELD_OPTIMIZER},
	{"optim", "load_state_dict", LK_HELD_OPTIMIZER},
	{"/clip_grad.py", NULL, LK_HELD_OPTIMIZER_WORK},
	/* sharded data parallelism */
	{"/_fsdp_collectives.py", "foreach_reduce*", LK_HELD_GRADIENTS},
	{"/_fsdp_collectives.py", "foreach_all_gather*", LK_HELD_UNSHARDED},
	{"/_fsdp_param", "unshard", LK_HELD_UNSHARDED},
	{"/_fsdp_param", "init_unsharded_param", LK_HELD_UNSHARDED},
	{"/_flat_param.py", "_alloc_padded_unsharded_flat_param", LK_HELD_UNSHARDED},
	{"/_flat_param.py", "unshard", LK_HELD_UNSHARDED},
	{"partition_parameters.py", "all_gather*", LK_HELD_UNSHARDED},
	{NULL, "_post_backward_hook", LK_HELD_GRADIENTS},
	{"param_and_grad_buffer.py", NULL, LK_HELD_GRADIENTS},
	{"/nn/parallel/distributed.py", "_ddp_init_helper", LK_HELD_GRADIENTS},
	{"/distributed_c10d.py", NULL, LK_HELD_COMMUNICATION},
	/* a recomputed forward lies within a backward, and its frame is further inside */
	{NULL, "forward", LK_HELD_ACTIVATIONS},
	{"/nn/functional.py", NULL, LK_HELD_ACTIVATIONS},
	{NULL, "backward", LK_HELD_GRADIENTS},
	{NULL, "_engine_run_backward", LK_HELD_GRADIENTS},
	{NULL, "torch::autograd::Engine::*", LK_HELD_GRADIENTS},
	{NULL, "zero_grad", LK_HELD_GRADIENTS},
	{"/nn/modules/module.py", "_apply", LK_HELD_PARAMETERS},
	{"/nn/modules/module.py", "load_state_dict", LK_HELD_PARAMETERS},
	{"/nn/modules/module.py", "_call_impl", LK_HELD_ACTIVATIONS},
	{"/nn/modules/", "__init__", LK_HELD_PARAMETERS},
	{NULL, "reset_parameters", LK_HELD_PARAMETERS},
	{NULL, "from_pretrained", LK_HELD_PARAMETERS},
};

static bool row_knows(const struct kind_row *row, const char *file, const char *function) {
	if (row->file && !strstr(file, row->file)) return false;
	if (!row->function) return true;
	size_t length = strlen(row->function);
	return row->function[length - 1] == '*' ? strncmp(function, row->function, length - 1) == 0
	                                        : strcmp(function, row->function) == 0;
}

lk_held_kind lk_frames_kind(const lk_value *frames) {
	bool init = false;
	for (size_t i = 0; i < frames->count; i++) {
		const char *file = lk_json_get_text(&frames->items[i], "filename", "");
		const char *function = lk_json_get_text(&frames->items[i], "name", "");
		for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
			if (row_knows(&rows[k], file, function)) return rows[k].kind;
		init |= strcmp(function, "__init__") == 0;
	}
	/* Objects made outside of forward and step are mostly modules. */
	return init ? LK_HELD_PARAMETERS : LK_HELD_OTHER;
}
