/* emit.c: targets by name, and what no framework's own words say.
 *
 * What was written is read as any launch line or file is, and compared with the job. What it says
 * of the data, the network's shape and the machine beyond the framework's words, is stated as
 * LOCKSTEP_NAME=value, in front of a line, as a comment of a file, as a variable of a job of a
 * cluster; then it is read again, until nothing differs. What would change the work is never
 * stated that way, as the framework would not do it: the caller gets the job that was written, to
 * say what that one takes. Only an exact text, for lockstep's own use, states all of it. */
#include "launch/emit/emit.h"
#include "launch/read.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "model/read/read.h"

enum {
	PASSES = 8,   /* of writing and reading */
	NOTES = 8,    /* of a text */
	NODE = 8,     /* GPUs that a node's launcher starts, at most */
	NAMED = 1024, /* bytes of the settings that a note names */
	FIELDS = 512  /* more than lk_job_fields has */
};

static bool emit_one_of(const char *stack, const char *const *names) {
	for (; *names != NULL; names++)
		if (strcmp(stack, *names) == 0) return true;
	return false;
}

/* ---- targets ---- */

/* How a framework is started: by a line, or with a file. */
typedef struct emit_framework {
	const char *name;
	const char *stack;                       /* of jobs that state none */
	const char *tasks;                       /* that it can be told; with adapters if it has lora */
	const char *(*lacks)(const lk_job *job); /* what it cannot run; NULL: nothing */
	lk_dialect dialect;                      /* of a line */
	bool (*write)(lk_emission *emission);    /* NULL: a line */
	const char *image;
	bool convolutions; /* the network is of no concern */
} emit_framework;

#define MEGATRON_IMAGE "nvcr.io/nvidia/pytorch:25.09-py3"
#define NEMO_IMAGE     "nvcr.io/nvidia/nemo:25.09"

/* Objectives by the names of --task; classify: a head of a few columns. */
#define TUNES "pretrain sft lora dpo kto orpo reward"

static const emit_framework frameworks[] = {
	{"megatron", "megatron", "pretrain sft", lk_megatron_lacks, LK_DIALECT_MEGATRON, NULL,
     MEGATRON_IMAGE, false},
	{"bridge", "nemo", "pretrain sft lora", lk_bridge_lacks, LK_DIALECT_BRIDGE, NULL, NEMO_IMAGE,
     false},
	{"nemo", "nemo", "pretrain", lk_bridge_lacks, LK_DIALECT_NEMO, NULL, NEMO_IMAGE, false},
	{"deepspeed", "megatron-deepspeed", "pretrain", lk_deepspeed_lacks, LK_DIALECT_DEEPSPEED, NULL,
     MEGATRON_IMAGE, false},
	{"torchtitan", "torchtitan", "pretrain", lk_titan_lacks, LK_DIALECT_TORCHTITAN, NULL,
     MEGATRON_IMAGE, false},
	{"axolotl", "fsdp", TUNES, lk_axolotl_lacks, 0, lk_write_axolotl,
     "axolotlai/axolotl:main-latest", false},
	{"llama-factory", "fsdp", TUNES, lk_llama_factory_lacks, 0, lk_write_llama_factory,
     "hiyouga/llamafactory:latest", false},
	{"nanotron", "megatron", "pretrain", lk_nanotron_lacks, 0, lk_write_nanotron, MEGATRON_IMAGE,
     false},
	{"accelerate", "fsdp", TUNES " classify", lk_accelerate_lacks, 0, lk_write_accelerate,
     MEGATRON_IMAGE, true},
};

static const struct emit_wrapper {
	const char *name;
	const char *(*write)(const lk_emission *emission);
	const char *file; /* as what the text is read */
} wrappers[] = {
	{"sbatch", lk_write_sbatch, "job.sh"},
	{"skypilot", lk_write_skypilot, "task.yaml"},
	{"kubernetes", lk_write_kubernetes, "job.yaml"},
};

enum {
	FRAMEWORKS = sizeof frameworks / sizeof *frameworks,
	WRAPPERS = sizeof wrappers / sizeof *wrappers
};

/* "axolotl", "sbatch", "sbatch:axolotl"; what is not named stays NULL. False: no target. */
static bool emit_find(const char *target, const emit_framework **framework,
                      const struct emit_wrapper **wrapper) {
	const char *colon = strchr(target, ':'), *inner = colon != NULL ? colon + 1 : target;
	size_t length = colon != NULL ? (size_t)(colon - target) : strlen(target);
	*framework = NULL;
	*wrapper = NULL;
	for (int i = 0; i < WRAPPERS; i++)
		if (strlen(wrappers[i].name) == length && strncmp(wrappers[i].name, target, length) == 0)
			*wrapper = &wrappers[i];
	for (int i = 0; i < FRAMEWORKS; i++)
		if (strcmp(frameworks[i].name, inner) == 0) *framework = &frameworks[i];
	if (colon != NULL) return *wrapper != NULL && *framework != NULL;
	return *wrapper != NULL || *framework != NULL;
}

/* The one target that starts nothing. */
static bool emit_is_program(const char *target) {
	return strcmp(target, "program") == 0;
}

bool lk_emit_edits(const char *target, bool *whole) {
	*whole = strcmp(target, "edited") == 0;
	return *whole || strcmp(target, "edit") == 0;
}

lk_status lk_emit_known(const char *target, lk_error *err) {
	const emit_framework *framework;
	const struct emit_wrapper *wrapper;
	char shown[64], text[256];
	bool whole;
	if (emit_is_program(target) || lk_emit_edits(target, &whole) ||
	    emit_find(target, &framework, &wrapper))
		return LK_OK;
	lk_text list = lk_text_begin(text, sizeof text);
	for (int i = 0; i < FRAMEWORKS; i++) lk_text_add(&list, "%s, ", frameworks[i].name);
	for (int i = 0; i < WRAPPERS; i++)
		lk_text_add(&list, "%s%s", wrappers[i].name, i + 1 < WRAPPERS ? ", " : "");
	lk_fail(err, LK_ERR_INPUT, "--emit", "unknown target \"%s\"",
	        lk_escape(target, shown, sizeof shown));
	return lk_hint(
		err,
		"give one of %s, a scheduler around a framework as in sbatch:axolotl, edit or edited "
		"for changes of the given file, or program",
		text);
}

const char *lk_emit_stack(const char *target) {
	const emit_framework *framework;
	const struct emit_wrapper *wrapper;
	if (!emit_find(target, &framework, &wrapper)) return NULL;
	return framework != NULL ? framework->stack : LK_STACK_DEFAULT;
}

static const emit_framework *emit_named(const char *name) {
	const emit_framework *framework;
	const struct emit_wrapper *wrapper;
	return emit_find(name, &framework, &wrapper) ? framework : NULL;
}

/* What a job does, as the column `tasks` names it. */
static const char *emit_task(const lk_job *job) {
	static const char *const tasks[] = {"pretrain", "sft", "lora"};
	if (job->objective != LK_OBJECTIVE_TOKENS) return lk_objective_names[job->objective];
	return job->labels > 0 && job->model.network == LK_NET_DECODER ? "classify" : tasks[job->task];
}

static bool emit_trains(const emit_framework *framework, const lk_job *job) {
	return lk_name_among(framework->tasks, emit_task(job)) &&
	       (job->task != LK_TASK_LORA || lk_name_among(framework->tasks, "lora"));
}

/* Refuses a task of which the framework cannot be told, naming those that can. */
static lk_status emit_check_task(const emit_framework *framework, const lk_job *job,
                                 lk_error *err) {
	const char *task = emit_task(job);
	if (emit_trains(framework, job)) return LK_OK;
	bool adapters = job->task == LK_TASK_LORA && strcmp(task, "lora") != 0;
	char text[NAMED];
	lk_text list = lk_text_begin(text, sizeof text);
	for (int i = 0; i < FRAMEWORKS; i++)
		if (emit_trains(&frameworks[i], job))
			lk_text_add(&list, "%s%s", list.used > 0 ? ", " : "", frameworks[i].name);
	lk_fail(err, LK_ERR_INPUT, "--emit", "%s cannot run this job: no %s%s is written for it",
	        framework->name, task, adapters ? " with adapters" : "");
	return lk_hint(err, "give --emit with one of %s", text);
}

lk_status lk_emit_check_task(const char *target, const lk_job *job, lk_error *err) {
	const emit_framework *framework = emit_named(target);
	return framework ? emit_check_task(framework, job, err) : LK_OK;
}

/* The framework that runs a stack's layouts, for a wrapper that names none. */
static const emit_framework *emit_of_stack(const lk_job *job) {
	static const struct {
		const char *stack, *name;
	} pairs[] = {{"nemo", "bridge"},
	             {"torchtitan", "torchtitan"},
	             {"megatron-deepspeed", "deepspeed"},
	             {"deepspeed", "accelerate"},
	             {"fsdp", "accelerate"},
	             {"llm-foundry", "accelerate"},
	             {"ddp", "accelerate"}};
	const char *name = "megatron";
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (strcmp(job->stack, pairs[i].stack) == 0) name = pairs[i].name;
	return emit_named(name);
}

/* ---- writing and reading back ---- */

struct emit_work {
	lk_emission emission;
	const emit_framework *framework;
	const struct emit_wrapper *wrapper; /* NULL: none */
	bool exact;                         /* settings state the work too */
	bool describes;                     /* the text has the network's numbers, not its name */
	bool stated[FIELDS];                /* fields that settings state, by number */
	bool unsaid[FIELDS];                /* of the work, which nothing states */
	lk_job read;                        /* what was written */
	const char *notes[NOTES];
	int note_count;
};

/* A configuration with the settings as comments, which it passes over. */
static const char *emit_with_comments(const lk_emission *emission, const lk_words *settings) {
	lk_page page = {emission->arena, ""};
	for (size_t i = 0; i < settings->count; i++) lk_page_add(&page, "# %s\n", settings->at[i].text);
	lk_page_add(&page, "%s", emission->contents);
	return page.text;
}

static const char *emit_compose(struct emit_work *work) {
	lk_emission *emission = &work->emission;
	if (work->wrapper != NULL) return work->wrapper->write(emission);
	if (emission->accelerate) return lk_write_commands(emission);
	if (emission->file != NULL) return emit_with_comments(emission, &emission->settings);
	lk_words all = {0};
	bool ok = true;
	for (size_t i = 0; i < emission->environment.count; i++)
		ok = ok && lk_put_word(&all, emission->environment.at[i].text);
	for (size_t i = 0; i < emission->settings.count; i++)
		ok = ok && lk_put_word(&all, emission->settings.at[i].text);
	const char *text =
		ok ? lk_join_line(emission->arena, &all, &emission->launcher, &emission->program) : NULL;
	lk_vec_free(&all);
	return text;
}

/* The raw job of what was written, and the network's name; NULL where it states the shape. */
static lk_status emit_read(struct emit_work *work, const char *text, lk_job *raw,
                           const char **network, lk_error *err) {
	lk_arena *arena = work->emission.arena;
	const char *name = work->emission.file;
	lk_launch back = {0};
	if (work->wrapper != NULL) name = work->wrapper->file;
	else if (work->emission.accelerate) name = "job.sh";
	size_t size = strlen(text);
	if (name == NULL || lk_ends_in(name, ".sh"))
		LK_TRY(lk_launch_text(arena, text, size, "the written line", NULL, &back, err));
	else LK_TRY(lk_launch_config_text(arena, text, size, name, &back, err));
	*raw = *back.job;
	raw->gpus = back.gpus;
	work->describes = raw->model.layers > 0;
	*network = work->describes ? NULL : back.network;
	return LK_OK;
}

static lk_status emit_add(lk_emission *emission, const lk_field *field, const char *value,
                          lk_error *err) {
	char name[64];
	size_t n = 0;
	for (const char *c = field->name; *c != '\0' && n + 1 < sizeof name; c++)
		name[n++] = *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
	name[n] = '\0';
	const char *text =
		value ? lk_arena_printf(emission->arena, "LOCKSTEP_%s=%s", name, value) : NULL;
	return lk_put_word(&emission->settings, text) ? LK_OK : lk_oom(err);
}

static bool emit_of_network(const lk_field *field) {
	return field->offset < offsetof(lk_job, model) + sizeof(lk_model);
}

static bool emit_same_network(const lk_job *a, const lk_job *b) {
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
		if (emit_of_network(field) && !lk_field_equal(field, a, b)) return false;
	return true;
}

/* The network that a text names: as it is, where that is the job's; else by the name of a preset
 * that is; else every number of it is stated. */
static lk_status emit_settle_network(struct emit_work *work, const char *named, lk_job *raw,
                                     lk_error *err) {
	const lk_job *job = work->emission.job;
	lk_job other = {0};
	bool is = named != NULL && lk_model_preset(named, &other.model, NULL) == LK_OK &&
	          emit_same_network(job, &other);
	if (is) raw->model = job->model;
	if (is || raw->model.layers > 0) return LK_OK;
	memset(&raw->model, 0, sizeof raw->model);
	other = (lk_job){0};
	if (work->stated[0] || lk_model_preset(job->model.name, &other.model, NULL) != LK_OK ||
	    !emit_same_network(job, &other))
		return LK_OK;
	work->stated[0] = true; /* lk_job_fields begins with the name */
	raw->model = job->model;
	return emit_add(&work->emission, &lk_job_fields[0], job->model.name, err);
}

/* Whether a field is of the work that a program does, and not of its data, code or machine. A
 * network that the text names is the program's to know, whatever its numbers. */
static bool emit_of_work(const struct emit_work *work, const lk_field *field) {
	static const char about[] =
		"gpus stack profile release moe_imbalance pack_share ragged pack_spread host_ahead "
		"own_code early_attention local_layers layer_units model family context";
	return (work->describes || !emit_of_network(field)) && !lk_name_among(about, field->name);
}

/* States what reading gave back otherwise; *done: nothing. */
static lk_status emit_state_rest(struct emit_work *work, const lk_job *raw, bool *done,
                                 lk_error *err) {
	lk_emission *emission = &work->emission;
	const lk_job *job = emission->job;
	lk_job back = *raw;
	(void)lk_job_complete(&back, emission->cluster, NULL); /* as it is where it cannot */
	*done = true;
	for (int i = 0; i < FIELDS && lk_job_fields[i].name != NULL; i++) {
		const lk_field *field = &lk_job_fields[i];
		/* a cluster would fill the number of GPUs in */
		if (field->offset == offsetof(lk_job, gpus)) back.gpus = raw->gpus;
		bool said = field->said == 0 || *(const bool *)((const char *)raw + field->said);
		work->unsaid[i] = false;
		if (lk_field_equal(field, job, &back) || (said && lk_field_equal(field, job, raw)))
			continue;
		work->unsaid[i] = !work->exact && emit_of_work(work, field);
		if (work->unsaid[i]) continue;
		if (work->stated[i])
			return lk_fail(err, LK_ERR_INTERNAL, "--emit", "%s does not read back", field->name);
		work->stated[i] = true;
		LK_TRY(emit_add(emission, field, lk_field_value(emission->arena, field, job), err));
		*done = false;
	}
	return LK_OK;
}

static lk_status emit_settle(struct emit_work *work, const char **out, lk_error *err) {
	for (int pass = 0; pass < PASSES; pass++) {
		lk_job raw;
		const char *network;
		bool done;
		size_t settings = work->emission.settings.count;
		*out = emit_compose(work);
		if (*out == NULL) return lk_oom(err);
		LK_TRY(emit_read(work, *out, &raw, &network, err));
		LK_TRY(emit_settle_network(work, network, &raw, err));
		LK_TRY(emit_state_rest(work, &raw, &done, err));
		work->read = raw;
		if (done && settings == work->emission.settings.count) return LK_OK;
	}
	return lk_fail(err, LK_ERR_INTERNAL, "--emit", "what was written does not read back");
}

/* ---- notes ---- */

static lk_status emit_note(struct emit_work *work, const char *text, lk_error *err) {
	if (text == NULL) return lk_oom(err);
	if (work->note_count < NOTES) work->notes[work->note_count++] = text;
	return LK_OK;
}

/* Fields by name and value, without those that are silent: names, what the framework is told
 * otherwise, and what does not concern the network. */
static const char *emit_list(const struct emit_work *work, const bool fields[FIELDS]) {
	static const char silent[] = "model family gpus stack profile release task";
	static const char of_experts[] =
		"graph_experts expert_overlap dispatcher grouped_gemm fp8_dispatch";
	static const char of_contexts[] = "cp_kind cp_heads cp_balanced";
	lk_arena *arena = work->emission.arena;
	bool dense = work->emission.job->model.experts == 0, whole = work->emission.job->cp <= 1;
	char text[NAMED];
	lk_text list = lk_text_begin(text, sizeof text);
	int shape = 0;
	for (int i = 0; i < FIELDS && lk_job_fields[i].name != NULL; i++) {
		const lk_field *field = &lk_job_fields[i];
		if (!fields[i] || lk_name_among(silent, field->name)) continue;
		if (dense && lk_name_among(of_experts, field->name)) continue;
		if (whole && lk_name_among(of_contexts, field->name)) continue;
		if (emit_of_network(field) && !work->describes) {
			shape++;
			continue;
		}
		char modules[LK_MODULES_TEXT];
		bool parts = field->offset == offsetof(lk_job, recompute_modules); /* a set of bits */
		if (list.used > 0) lk_text_add(&list, ", ");
		lk_text_add(&list, "%s %s", field->name,
		            parts ? lk_module_names(modules, work->emission.job->recompute_modules, '+')
		                  : lk_field_value(arena, field, work->emission.job));
	}
	if (shape > 0)
		lk_text_add(&list, "%s%d numbers of the network's shape", list.used > 0 ? ", " : "", shape);
	return lk_arena_strdup(arena, text);
}

/* What only lockstep reads. */
static lk_status emit_note_settings(struct emit_work *work, lk_error *err) {
	const char *list = emit_list(work, work->stated);
	if (!list) return lk_oom(err);
	if (!*list) return LK_OK;
	return emit_note(work,
	                 lk_arena_printf(work->emission.arena,
	                                 "%s has no setting for some of what the prediction relies on; "
	                                 "LOCKSTEP_ settings state it, which lockstep alone reads: %s",
	                                 work->framework->name, list),
	                 err);
}

static lk_status emit_note_network(struct emit_work *work, lk_error *err) {
	const lk_emission *emission = &work->emission;
	const char *name = emission->job->model.name[0] ? emission->job->model.name : "this network";
	lk_arena *arena = emission->arena;
	char id[LK_MODEL_ID];
	bool line = work->framework->write == NULL;
	const char *unknown = NULL;
	if (line && work->framework->dialect != LK_DIALECT_MEGATRON &&
	    work->framework->dialect != LK_DIALECT_DEEPSPEED)
		unknown = lk_dotted_unknown((int)work->framework->dialect, emission->job);
	if (unknown != NULL)
		return emit_note(work,
		                 lk_arena_printf(arena,
		                                 "%s for %s: the line names one that would be called so, "
		                                 "and may not run",
		                                 unknown, name),
		                 err);
	if (line || lk_model_hub_id(emission->job->model.name, id)) return LK_OK;
	return emit_note(work,
	                 lk_arena_printf(arena,
	                                 "no repository of %s is known: put the path or the id of its "
	                                 "weights in place of \"%s\"",
	                                 name, emission->network),
	                 err);
}

static lk_status emit_note_all(struct emit_work *work, lk_error *err) {
	LK_TRY(emit_note_settings(work, err));
	LK_TRY(emit_note_network(work, err));
	if (work->framework->write != NULL)
		LK_TRY(emit_note(work, "names in capitals (DATASET, ...) are to be filled in", err));
	if (work->wrapper != NULL && work->wrapper->write == lk_write_kubernetes)
		LK_TRY(emit_note(work,
		                 lk_arena_printf(work->emission.arena,
		                                 "the image %s is an example: name one that holds %s",
		                                 work->emission.image, work->framework->name),
		                 err));
	return LK_OK;
}

/* ---- the whole ---- */

/* GPUs of a host: as many as divide the job, of a host's. A tray of Grace and Blackwell in a rack
 * holds four, whatever its NVLink domain. */
static int emit_per_node(const lk_job *job, const lk_cluster *cluster) {
	int most = NODE;
	if (cluster != NULL && cluster->groups > 0) {
		const lk_node *node = &cluster->node[0];
		bool tray = strncmp(node->device->name, "gb", 2) == 0;
		if (tray) most = 4;
		else if (node->gpus < most) most = node->gpus;
	}
	if (job->gpus < most) most = job->gpus > 0 ? job->gpus : 1;
	while (job->gpus % most != 0) most--;
	return most;
}

/* The program's own variables: queues of the device, its allocator, and what is set of NCCL. */
static bool emit_put_environment(lk_emission *emission) {
	const lk_job *job = emission->job;
	if (job->max_connections > 0 &&
	    !lk_put_word(&emission->environment,
	                 lk_arena_printf(emission->arena, "CUDA_DEVICE_MAX_CONNECTIONS=%d",
	                                 job->max_connections)))
		return false;
	if (*job->alloc_conf &&
	    !lk_put_word(
			&emission->environment,
			lk_arena_printf(emission->arena, "PYTORCH_CUDA_ALLOC_CONF=%s", job->alloc_conf)))
		return false;
	char *copy = lk_arena_strdup(emission->arena, job->nccl), *save = NULL;
	if (copy == NULL) return false;
	for (char *at = strtok_r(copy, " ", &save); at != NULL; at = strtok_r(NULL, " ", &save))
		if (strncmp(at, "NCCL_", 5) == 0 && strchr(at, '=') != NULL &&
		    !lk_put_word(&emission->environment, at))
			return false;
	return true;
}

static const char *emit_network_id(lk_arena *arena, const lk_job *job) {
	char id[LK_MODEL_ID];
	if (lk_model_hub_id(job->model.name, id)) return lk_arena_strdup(arena, id);
	return job->model.name[0] ? job->model.name : "NETWORK";
}

static lk_status emit_write(struct emit_work *work, const char **text, lk_error *err) {
	lk_emission *emission = &work->emission;
	bool ok = emit_put_environment(emission) &&
	          (work->framework->write != NULL ? work->framework->write(emission)
	                                          : lk_write_line(emission, work->framework->dialect));
	return ok ? emit_settle(work, text, err) : lk_oom(err);
}

bool lk_emission_begin(lk_emission *emission, lk_arena *arena, const lk_job *job,
                       const lk_cluster *cluster) {
	*emission = (lk_emission){.arena = arena,
	                          .job = job,
	                          .cluster = cluster,
	                          .per_node = emit_per_node(job, cluster),
	                          .network = emit_network_id(arena, job),
	                          .pairs = lk_objective_of(job->objective)->pairs};
	LK_ASSERT(emission->per_node > 0 && job->gpus % emission->per_node == 0);
	emission->nodes = job->gpus > 0 ? job->gpus / emission->per_node : 1;
	return emission->network != NULL;
}

static struct emit_work *emit_begin(lk_arena *arena, const emit_framework *framework,
                                    const struct emit_wrapper *wrapper, const lk_job *job,
                                    const lk_cluster *cluster) {
	struct emit_work *work = LK_NEW(arena, struct emit_work);
	if (work == NULL) return NULL;
	int fields = 0;
	while (lk_job_fields[fields].name != NULL) fields++;
	LK_ASSERT(fields <= FIELDS);
	work->framework = framework;
	work->wrapper = wrapper;
	bool begun = lk_emission_begin(&work->emission, arena, job, cluster);
	work->emission.image = framework->image;
	return begun ? work : NULL;
}

void lk_emission_end(lk_emission *emission) {
	lk_vec_free(&emission->environment);
	lk_vec_free(&emission->settings);
	lk_vec_free(&emission->launcher);
	lk_vec_free(&emission->program);
}

/* Which losses without all logits a framework has a setting for. */
static bool emit_writes_loss(const emit_framework *framework, lk_loss_kind loss) {
	static const char *const linear[] = {"megatron",      "bridge",     "nemo", "axolotl",
	                                     "llama-factory", "accelerate", NULL};
	if (loss == LK_LOSS_CUT) return strcmp(framework->name, "axolotl") == 0;
	return loss == LK_LOSS_LINEAR && emit_one_of(framework->name, linear);
}

bool lk_launch_describes(const lk_model *model) {
	return model->network <= LK_NET_ENCDEC && model->audio.convs == 0;
}

/* What a framework cannot run, or be told; NULL: nothing. */
static const char *emit_lacks(const emit_framework *framework, const lk_job *job) {
	static const char *const keeps_params[] = {"megatron", "bridge", "nemo", "nanotron", NULL};
	static const char *const by_numbers[] = {"megatron", "deepspeed", "nanotron", NULL};
	const char *lacks = framework->lacks(job);
	bool convolutions = job->model.network == LK_NET_CONV;
	if (convolutions && !framework->convolutions)
		lacks = "it trains no convolution nets; accelerate starts a program of yours";
	if (job->model.tower.layers > 0 && emit_one_of(framework->name, by_numbers))
		lacks = "its settings describe no encoder of images; use --emit axolotl, llama-factory or "
				"accelerate";
	if (!convolutions && !lk_launch_describes(&job->model))
		lacks = "what it writes cannot describe diffusion transformers and networks that read "
				"sound; give the network's own trainer the layout";
	if (job->wide_first + job->wide_last > 0 && framework->dialect != LK_DIALECT_MEGATRON)
		lacks = "single layers in bf16 are not written for it; leave out --bf16-layers";
	if (job->teacher) lacks = "a teacher is not written; leave out --teacher";
	if (job->average != LK_AVERAGE_NONE)
		lacks = "an average of the parameters is not written; leave out --ema";
	if (lacks == NULL && job->loss != LK_LOSS_LOGITS && !emit_writes_loss(framework, job->loss))
		lacks = "such a loss is not written for it; leave out --loss";
	if (job->offload_params && emit_one_of(framework->name, keeps_params))
		lacks = "it keeps parameters on the device; leave out --offload-params";
	if (job->optimizer_in_backward)
		lacks = "an optimizer that steps in the backward pass is not written; leave out "
				"--optimizer-in-backward";
	if (job->offload_activations && strcmp(framework->name, "axolotl") != 0)
		lacks = "activations in the host's memory are not written; leave out --offload-activations";
	return lacks;
}

const char *lk_emit_framework(const char *target, const char *read) {
	const emit_framework *framework = NULL;
	const struct emit_wrapper *wrapper;
	bool whole, edits = target && lk_emit_edits(target, &whole);
	if (target && !edits) emit_find(target, &framework, &wrapper);
	else if (read && strcmp(read, "trainer") == 0) return "accelerate";
	else if (read) emit_find(read, &framework, &wrapper);
	return framework ? framework->name : NULL;
}

const char *lk_emit_stacks(const char *framework) {
	const emit_framework *found = emit_named(framework);
	LK_ASSERT(found != NULL);
	return strcmp(found->stack, "fsdp") == 0 ? "fsdp,ddp,deepspeed" : found->stack;
}

const char *lk_emit_lacks(const char *framework, const lk_job *job) {
	return emit_named(framework)->lacks(job);
}

/* Whether a field says what is trained and where its parts are, and not only how fast. */
static bool emit_defines(const lk_field *field) {
	static const char names[] =
		"seq tp pp vp cp ep etp mbs gbs schedule sharding shard_group recompute recompute_layers "
		"recompute_modules optimizer dtype state_dtype master_weights fp8_recipe objective "
		"lora_rank lora_targets dora narrow_base offload_optimizer offload_params "
		"offload_activations optimizer_in_backward";
	return (emit_of_network(field) && !field->code) || lk_name_among(names, field->name);
}

/* What was written in place of the job, and what it lacks. */
static lk_status emit_keep_written(const struct emit_work *work, lk_written *written,
                                   lk_error *err) {
	*written = (lk_written){.framework = work->framework->name, .job = work->read};
	for (int i = 0; i < FIELDS && lk_job_fields[i].name != NULL; i++)
		written->other_training =
			written->other_training || (work->unsaid[i] && emit_defines(&lk_job_fields[i]));
	written->unsaid = emit_list(work, work->unsaid);
	return written->unsaid ? LK_OK : lk_oom(err);
}

lk_status lk_emit(lk_arena *arena, const char *target, const lk_job *job, const lk_cluster *cluster,
                  lk_written *written, lk_emitted *out, lk_error *err) {
	const emit_framework *framework;
	const struct emit_wrapper *wrapper;
	*out = (lk_emitted){0};
	LK_TRY(lk_emit_known(target, err));
	if (written) *written = (lk_written){.framework = "", .unsaid = ""};
	if (emit_is_program(target)) return lk_emit_program(arena, job, cluster, out, err);
	emit_find(target, &framework, &wrapper);
	if (framework == NULL) framework = emit_of_stack(job);
	LK_TRY(emit_check_task(framework, job, err));
	const char *lacks = emit_lacks(framework, job);
	if (lacks != NULL) {
		const char *what = strchr(lacks, ';');
		LK_ASSERT(what != NULL && what[1] == ' '); /* the remedy */
		lk_fail(err, LK_ERR_INPUT, "--emit", "%s cannot run this job: %.*s", framework->name,
		        (int)(what - lacks), lacks);
		return lk_hint(err, "%s", what + 2);
	}
	struct emit_work *work = emit_begin(arena, framework, wrapper, job, cluster);
	if (work == NULL) return lk_oom(err);
	work->exact = written == NULL;
	lk_status status = emit_write(work, &out->text, err);
	if (status == LK_OK) status = emit_note_all(work, err);
	if (status == LK_OK && written) status = emit_keep_written(work, written, err);
	lk_emission_end(&work->emission);
	out->notes = work->notes;
	out->note_count = work->note_count;
	return status;
}

char *lk_launch_write_for(lk_arena *arena, lk_dialect dialect, const lk_job *job) {
	const char *text = NULL;
	for (int i = 0; i < FRAMEWORKS; i++) {
		if (frameworks[i].write != NULL || frameworks[i].dialect != dialect) continue;
		struct emit_work *work = emit_begin(arena, &frameworks[i], NULL, job, NULL);
		if (work == NULL) return NULL;
		work->exact = true;
		if (emit_write(work, &text, NULL) != LK_OK) text = NULL;
		lk_emission_end(&work->emission);
		break;
	}
	return (char *)text;
}

char *lk_launch_write(lk_arena *arena, const lk_job *job) {
	return lk_launch_write_for(arena, LK_DIALECT_MEGATRON, job);
}
