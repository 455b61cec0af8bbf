/* line_dotted.c: command lines of torchtitan, NeMo 2 and Megatron-Bridge, whose settings are paths
 * with dots (dotted_flags.c), and their recipes and other options. */
#include "base/arena.h"
#include "base/text.h"
#include "launch/line.h"

#include <string.h>
#include <strings.h>

static lk_status line_titan_setting(lk_line *line, const char *path, const char *value) {
	const char *before = line->titan_sets != NULL ? line->titan_sets : "";
	line->titan_sets = lk_arena_printf(line->r->arena, "%s%s=%s\n", before, path, value);
	if (line->titan_sets == NULL) return lk_oom(line->r->err);
	return lk_dotted_read(line->r, &line->dotted, path, value);
}

/* --parallelism.tensor_parallel_degree 8 */
lk_status lk_line_titan_flag(lk_line *line, const char *name, const lk_word *words, size_t count,
                             size_t *used) {
	bool negative = count > 0 && strcmp(words[0].text, "-1") == 0;
	char *path = lk_arena_strdup(line->r->arena, name);
	*used = count > 0 && (words[0].text[0] != '-' || negative);
	line->dotted.dialect = LK_DIALECT_TORCHTITAN;
	if (path == NULL) return lk_oom(line->r->err);
	for (char *c = path; *c; c++)
		if (*c == '-') *c = '_';
	if (strcmp(path, "module") == 0 && *used > 0) return LK_OK; /* the configuration's folder */
	if (strcmp(path, "config") == 0 && *used > 0 && words[0].unknown == NULL) {
		line->dotted.recipe = words[0].text;
		return LK_OK;
	}
	if (strcmp(path, "job.config_file") == 0 && *used > 0 && words[0].unknown == NULL) {
		line->config = words[0].text;
		line->configured = true;
		return LK_OK;
	}
	if (*used == 0 || words[0].unknown == NULL)
		return line_titan_setting(line, path, *used > 0 ? words[0].text : "true");
	if (!lk_dotted_flag(LK_DIALECT_TORCHTITAN, path))
		return lk_launch_note(line->r, name, "its value is not known");
	lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "--%s: %s", name, words[0].unknown);
	return lk_launch_ask_value(line->r, &words[0], "write the value into the script");
}

/* "llama3_70b(num_nodes=4, num_gpus_per_node=8)": the arguments of a recipe of NeMo 2. */
static lk_status line_factory(lk_line *line, const char *text) {
	static const struct {
		const char *name, *path;
	} arguments[] = {{"num_nodes", "trainer.num_nodes"}, {"num_gpus_per_node", "trainer.devices"}};
	char *copy = lk_arena_strdup(line->r->arena, text), *save = NULL;
	if (copy == NULL) return lk_oom(line->r->err);
	char *at = strchr(copy, '(');
	for (at = at != NULL ? strtok_r(at + 1, "(), ", &save) : NULL; at != NULL;
	     at = strtok_r(NULL, "(), ", &save)) {
		char *value = strchr(at, '=');
		if (value == NULL) continue;
		*value++ = '\0';
		for (size_t i = 0; i < 2; i++)
			if (strcmp(at, arguments[i].name) == 0)
				LK_TRY(lk_dotted_read(line->r, &line->dotted, arguments[i].path, value));
		if (strcmp(at, "num_nodes") == 0 && line->dotted.devices == 0) line->dotted.devices = 8;
	}
	return LK_OK;
}

/* Options of Megatron-Bridge's programs: -tp 4, --recipe NAME. */
static lk_status line_bridge_option(lk_line *line, const char *option, const char *value,
                                    bool *known) {
	static const struct {
		const char *name, *also, *path; /* of a setting; NULL: see below */
	} options[] = {
		{"tp", "tensor_model_parallel_size", "model.tensor_model_parallel_size"},
		{"pp", "pipeline_model_parallel_size", "model.pipeline_model_parallel_size"},
		{"cp", "context_parallel_size", "model.context_parallel_size"},
		{"vp", "virtual_pipeline_model_parallel_size",
	     "model.virtual_pipeline_model_parallel_size"},
		{"ep", "expert_model_parallel_size", "model.expert_model_parallel_size"},
		{"etp", "expert_tensor_parallel_size", "model.expert_tensor_parallel_size"},
		{"mb", "micro_batch_size", "train.micro_batch_size"},
		{"gb", "global_batch_size", "train.global_batch_size"},
		{"sl", "seq_length", "dataset.seq_length"},
		{"ng", "num_gpus", "gpus"},
		{"recipe", "recipe_name", "recipe"},
		{"mr", "model_recipe_name", "recipe"},
		{"g", "gpu", "kind"},
		{"c", "compute_dtype", "format"},
		{"mode", "task", "task"},
		{"m", "model", "model"},
		{"model_name", "model_name", "model"},
		{"ms", "model_size", "size"},
		{"model_family_name", "domain", "family"},
		{"recompute_num_layers", "recompute_num_layers", "model.recompute_num_layers"},
		{"use_megatron_fsdp", "use_megatron_fsdp", "ddp.use_megatron_fsdp"},
		{"hf_path", "hf_path", "hub"},
		{"recipe_here", "recipe_here", "here"},
	};
	const char *name = option + strspn(option, "-"), *path = NULL;
	lk_dotted *dotted = &line->dotted;
	long long gpus;
	for (size_t i = 0; i < sizeof options / sizeof *options && path == NULL; i++)
		if (strcmp(name, options[i].name) == 0 || strcmp(name, options[i].also) == 0)
			path = options[i].path;
	*known = path != NULL && dotted->dialect == LK_DIALECT_BRIDGE;
	if (!*known) return LK_OK;
	LK_TRY(lk_launch_seen(line->r, name));
	if (strcasecmp(value, "none") == 0) return LK_OK; /* it states nothing */
	if (strchr(path, '.') != NULL) return lk_dotted_read(line->r, dotted, path, value);
	if (strcmp(path, "recipe") == 0) dotted->recipe = value;
	else if (strcmp(path, "model") == 0 && dotted->recipe == NULL) dotted->recipe = value;
	else if (strcmp(path, "size") == 0) dotted->size = value;
	else if (strcmp(path, "task") == 0) dotted->task = value;
	else if (strcmp(path, "hub") == 0) dotted->hub = value;
	else if (strcmp(path, "here") == 0) {
		dotted->recipe = value;
		dotted->here = true;
	} else if (strcmp(path, "kind") == 0)
		lk_copy(dotted->perf.kind, sizeof dotted->perf.kind, value);
	else if (strcmp(path, "gpus") == 0) {
		LK_TRY(lk_parse_int(value, 1, LK_JOB_GPUS, &gpus, option, line->r->err));
		dotted->perf.gpus = (int)gpus;
	} else if (strcmp(path, "format") == 0) { /* fp8_cs is fp8cs in names of recipes */
		size_t used = 0;
		for (const char *c = value; *c && used + 1 < sizeof dotted->perf.format; c++)
			if (*c != '_') dotted->perf.format[used++] = *c;
	}
	return LK_OK;
}

/* Settings and options of `nemo llm pretrain`. */
lk_status lk_line_nemo(lk_line *line, const lk_word *words, size_t count, size_t *used) {
	const char *text = words[0].text, *equals = strchr(text, '=');
	*used = 1;
	if (strcmp(text, "--factory") == 0 && count > 1) {
		*used = 2;
		if (words[1].unknown != NULL) return lk_launch_note(line->r, text, words[1].unknown);
		line->dotted.recipe = words[1].text;
		return line_factory(line, words[1].text);
	}
	if (text[0] == '-' && count > 1 && words[1].unknown == NULL) {
		bool known;
		LK_TRY(line_bridge_option(line, text, words[1].text, &known));
		if (known) *used = 2;
		if (known) return LK_OK;
	}
	if (strcmp(text, "finetune") == 0) line->dotted.task = "lora"; /* NeMo 2's default */
	if (strcmp(text, "peft=none") == 0) line->dotted.task = "sft";
	if (text[0] != '-' && equals == NULL && words[0].unknown != NULL && !words[0].empty_if_unset) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s, and settings may be in it",
		        words[0].unknown);
		return lk_hint(line->r->err, "write its text into the script");
	}
	if (text[0] == '-' || equals == NULL)
		return lk_launch_skip(line->r, text, "a word of NeMo's command line: not part of the step");
	text += strspn(text, "+");
	char *path = lk_arena_strndup(line->r->arena, text, (size_t)(equals - text));
	if (path == NULL) return lk_oom(line->r->err);
	lk_word value = words[0];
	value.text = equals + 1;
	if (value.unknown != NULL && lk_dotted_states(line->dotted.dialect, path))
		return lk_launch_unknown_value(line->r, path, &value);
	if (value.unknown != NULL) return lk_launch_skip(line->r, path, "its value is not known");
	return lk_dotted_read(line->r, &line->dotted, path, equals + 1);
}
