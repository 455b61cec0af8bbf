/* config_cluster.c: descriptions of jobs for clusters, whose inner command trains: tasks of
 * SkyPilot (num_nodes, resources.accelerators, envs, run) and jobs of Kubernetes (Kubeflow's
 * TrainJob, PyTorchJob and MPIJob, JobSet, or any kind with templates of pods). The commands are
 * read as a script; what the cluster sets for them (SKYPILOT_NUM_NODES, PET_NNODES, ...) is set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config/config.h"
#include "launch/script/script.h"
#include "shell/shell.h"

static int cluster_whole(const lk_value *value) {
	const char *text = lk_config_text(value);
	double number = text ? strtod(text, NULL) : 0;
	return number >= 1 && number <= LK_JOB_GPUS ? (int)number : 0;
}

/* "export NAME='value'" for the script that follows. */
static const char *cluster_export(lk_arena *arena, const char *script, const char *name,
                                  const lk_value *value) {
	const char *text = lk_config_text(value);
	size_t length = script && name ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
	                                              "wxyz_0123456789")
	                               : 0;
	if (!text || length == 0 || name[length] != '\0') return script;
	const char *quoted = lk_shell_quote(arena, text);
	return quoted ? lk_arena_printf(arena, "%sexport %s=%s\n", script, name, quoted) : NULL;
}

static lk_status cluster_run(const lk_config *config, const char *script, lk_words *words) {
	lk_reading *reading = config->reading;
	lk_launch_given given = config->given;
	if (!script) return lk_oom(reading->err);
	if (given.sets && *given.sets)
		return lk_config_fail(config, "--set", "the file holds a command, which has no keys",
		                      "give --var NAME=VALUE for its variables");
	return lk_script_words(reading, script, strlen(script), NULL, &given, words, &reading->batch);
}

/* ---- SkyPilot */

/* "H100:8", {H100: 8}, [H100:8, A100:8], and YAML's {H100:8, A100:8}, of which the keys are texts:
 * a node's GPUs, and their kind. Of several the first is taken. */
static lk_status cluster_accelerators(lk_reading *reading, const lk_value *value, int *gpus) {
	*gpus = 0;
	if (value && value->kind == LK_JSON_ARRAY && value->count > 0) value = &value->items[0];
	bool keyed = value && value->kind == LK_JSON_OBJECT && value->count > 0;
	const char *text = keyed ? value->keys[0] : lk_config_text(value);
	const char *colon = text ? strrchr(text, ':') : NULL;
	if (!text) return LK_OK;
	if (keyed && !colon) *gpus = cluster_whole(&value->items[0]);
	else *gpus = colon ? atoi(colon + 1) : 1;
	return lk_launch_device(reading, text, colon ? (size_t)(colon - text) : strlen(text));
}

/* resources.accelerators, or those of the first of resources.any_of or .ordered. */
static const lk_value *cluster_resources(const lk_value *root) {
	static const char *const lists[] = {"resources.any_of", "resources.ordered"};
	const lk_value *stated = lk_config_at(root, "resources.accelerators");
	for (size_t i = 0; !stated && i < sizeof lists / sizeof *lists; i++) {
		const lk_value *list = lk_config_at(root, lists[i]);
		bool listed = list && list->kind == LK_JSON_ARRAY && list->count > 0;
		if (listed) stated = lk_config_at(&list->items[0], "accelerators");
	}
	return stated;
}

static lk_status cluster_skypilot(const lk_config *config, lk_words *words) {
	lk_reading *reading = config->reading;
	lk_arena *arena = reading->arena;
	const lk_value *envs = lk_config_at(config->root, "envs");
	int nodes = cluster_whole(lk_config_at(config->root, "num_nodes"));
	int gpus;
	LK_TRY(cluster_accelerators(reading, cluster_resources(config->root), &gpus));
	if (nodes == 0) nodes = 1;
	reading->batch = (lk_launch_ranks){.nodes = nodes, .per_node = gpus > 0 ? gpus : 0};
	const char *script = lk_arena_printf(
		arena, "SKYPILOT_NUM_NODES=%d\nSKYPILOT_NUM_GPUS_PER_NODE=%d\n", nodes, gpus);
	for (size_t i = 0; envs && envs->kind == LK_JSON_OBJECT && i < envs->count; i++)
		script = cluster_export(arena, script, envs->keys[i], &envs->items[i]);
	const char *run = lk_config_text(lk_config_at(config->root, "run"));
	if (script) script = lk_arena_printf(arena, "%s%s\n", script, run);
	return cluster_run(config, script, words);
}

/* ---- Kubernetes */

enum {
	NESTED = 24 /* objects around a template of pods */
};

/* What the templates of pods in a job say: how many pods have GPUs, and what all of them run. */
struct pods {
	lk_arena *arena;
	const char *script;       /* NULL: out of memory */
	int all, nodes, per_node; /* pods, those with GPUs, their GPUs */
};

/* A word of `command` or `args`, quoted; $(NAME) in it is a variable of the container. */
static const char *pods_word(lk_arena *arena, const char *script, const char *text) {
	while (script && *text) {
		const char *open = strstr(text, "$("), *close = open ? strchr(open, ')') : NULL;
		size_t length = close ? lk_shell_name(open + 2, close) : 0;
		bool names = length > 0 && open + 2 + length == close;
		size_t before = close ? (size_t)(close - text) : strlen(text);
		if (names) before = (size_t)(open - text);
		const char *piece = lk_arena_strndup(arena, text, before);
		const char *quoted = piece ? lk_shell_quote(arena, piece) : NULL;
		if (!quoted) return NULL;
		text += before;
		if (!names) {
			script = lk_arena_printf(arena, "%s%s", script, quoted);
			continue;
		}
		script = lk_arena_printf(arena, "%s%s\"${%.*s}\"", script, before ? quoted : "",
		                         (int)length, open + 2);
		text = close + 1;
	}
	return script;
}

static void pods_words(struct pods *pods, const lk_value *list) {
	const char *single = lk_config_text(list);
	if (single) pods->script = pods_word(pods->arena, pods->script, single);
	for (size_t i = 0; list && list->kind == LK_JSON_ARRAY && i < list->count; i++) {
		const char *text = lk_config_text(&list->items[i]);
		if (text) pods->script = pods_word(pods->arena, pods->script, text);
		if (pods->script) pods->script = lk_arena_printf(pods->arena, "%s ", pods->script);
	}
}

/* A container's GPUs, variables and command; `limits`: where it states its resources. */
static void pods_container(struct pods *pods, const lk_value *container, const char *limits,
                           int count) {
	const lk_value *env = lk_config_at(container, "env"), *most = lk_config_at(container, limits);
	int gpus = 0;
	if (pods->all <= LK_JOB_GPUS - count) pods->all += count;
	for (size_t i = 0; most && most->kind == LK_JSON_OBJECT && i < most->count; i++)
		if (strstr(most->keys[i], ".com/gpu")) gpus = cluster_whole(&most->items[i]);
	if (gpus > 0 && pods->nodes <= LK_JOB_GPUS - count) pods->nodes += count;
	if (gpus > pods->per_node) pods->per_node = gpus;
	for (size_t i = 0; env && env->kind == LK_JSON_ARRAY && i < env->count; i++)
		pods->script = cluster_export(pods->arena, pods->script,
		                              lk_config_text(lk_config_at(&env->items[i], "name")),
		                              lk_config_at(&env->items[i], "value"));
	pods_words(pods, lk_config_at(container, "command"));
	pods_words(pods, lk_config_at(container, "args"));
	if (pods->script) pods->script = lk_arena_printf(pods->arena, "%s\n", pods->script);
}

/* All templates of pods: of a Job, a JobSet, a PyTorchJob's master and workers, an MPIJob's
 * launcher and workers, ...; `count` pods of each, by the replicas of what is around it. */
static void pods_walk(struct pods *pods, const lk_value *value, int count, int depth) {
	static const char *const counts[] = {"replicas", "parallelism", "completions", "numNodes"};
	if (value->kind != LK_JSON_OBJECT && value->kind != LK_JSON_ARRAY) return;
	if (depth > NESTED || !pods->script) return;
	int own = 0;
	for (size_t i = 0; i < sizeof counts / sizeof *counts && own == 0; i++)
		own = cluster_whole(lk_config_at(value, counts[i]));
	if (own > 1 && count <= LK_JOB_GPUS / own) count *= own;
	if (lk_config_at(value, "numNodes") || lk_config_at(value, "resourcesPerNode")) /* TrainJob */
		pods_container(pods, value, "resourcesPerNode.limits", count);
	const lk_value *containers = lk_config_at(value, "containers");
	bool listed = containers && containers->kind == LK_JSON_ARRAY;
	for (size_t i = 0; listed && i < containers->count; i++)
		pods_container(pods, &containers->items[i], "resources.limits", count);
	for (size_t i = 0; i < value->count; i++) pods_walk(pods, &value->items[i], count, depth + 1);
}

static lk_status cluster_kubernetes(const lk_config *config, struct pods *pods, lk_words *words) {
	lk_reading *reading = config->reading;
	static const char *const each[] = {"spec.nprocPerNode", "spec.trainer.numProcPerNode",
	                                   "spec.slotsPerWorker"};
	for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
		int stated = cluster_whole(lk_config_at(config->root, each[i]));
		if (stated > 0) pods->per_node = stated;
	}
	if (pods->nodes == 0 && pods->all > 1) pods->nodes = pods->all; /* none states its GPUs */
	reading->batch = (lk_launch_ranks){.nodes = pods->nodes, .per_node = pods->per_node};
	const char *sets = "";
	if (pods->nodes > 0)
		sets = lk_arena_printf(reading->arena, "export PET_NNODES=%d\nexport WORLD_SIZE=%d\n",
		                       pods->nodes, pods->nodes);
	if (sets && pods->per_node > 0)
		sets = lk_arena_printf(reading->arena, "%sexport PET_NPROC_PER_NODE=%d\n", sets,
		                       pods->per_node);
	if (!sets || !pods->script) return lk_oom(reading->err);
	return cluster_run(config, lk_arena_printf(reading->arena, "%s%s", sets, pods->script), words);
}

lk_status lk_config_cluster(const lk_config *config, lk_words *words, bool *found) {
	const lk_value *root = config->root;
	bool task = lk_config_text(lk_config_at(root, "run")) != NULL;
	struct pods pods = {.arena = config->reading->arena, .script = ""};
	if (!task && lk_config_at(root, "kind")) pods_walk(&pods, root, 1, 0);
	*found = task || pods.all > 0;
	if (task) return cluster_skypilot(config, words);
	return *found ? cluster_kubernetes(config, &pods, words) : LK_OK;
}
