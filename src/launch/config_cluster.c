/* config_cluster.c: descriptions of jobs for clusters, whose inner command trains: tasks of
 * SkyPilot (num_nodes, resources.accelerators, envs, run) and jobs of Kubernetes (kubeflow.org's
 * PyTorchJob, or any kind with a template of pods). The command is read as a script; what the
 * cluster sets for it (SKYPILOT_NUM_NODES, PET_NNODES, ...) is set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config.h"

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

/* "H100:8", {H100: 8}: a node's GPUs, and their kind. */
static lk_status cluster_accelerators(lk_reading *reading, const lk_value *value, int *gpus) {
	const char *text = lk_config_text(value), *colon = text ? strrchr(text, ':') : NULL;
	*gpus = 0;
	if (value && value->kind == LK_JSON_OBJECT && value->count > 0) {
		text = value->keys[0];
		*gpus = cluster_whole(&value->items[0]);
	} else if (text) *gpus = colon ? atoi(colon + 1) : 1;
	if (!text) return LK_OK;
	return lk_launch_device(reading, text, colon ? (size_t)(colon - text) : strlen(text));
}

static lk_status cluster_skypilot(const lk_config *config, lk_words *words) {
	lk_reading *reading = config->reading;
	lk_arena *arena = reading->arena;
	const lk_value *envs = lk_config_at(config->root, "envs");
	int nodes = cluster_whole(lk_config_at(config->root, "num_nodes"));
	int gpus;
	LK_TRY(
		cluster_accelerators(reading, lk_config_at(config->root, "resources.accelerators"), &gpus));
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

/* A job's first pod: of PyTorchJob's master, else of the template. */
static const lk_value *cluster_pod(const lk_value *root) {
	static const char *const paths[] = {
		"spec.pytorchReplicaSpecs.Master.template.spec",
		"spec.pytorchReplicaSpecs.Worker.template.spec",
		"spec.template.spec",
		"spec.jobTemplate.spec.template.spec",
	};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		const lk_value *pod = lk_config_at(root, paths[i]);
		if (pod) return pod;
	}
	const char *kind = lk_config_text(lk_config_at(root, "kind"));
	return kind && strcmp(kind, "Pod") == 0 ? lk_config_at(root, "spec") : NULL;
}

/* The words of `command` and `args`, quoted, after the script so far. */
static const char *cluster_words(lk_arena *arena, const char *script, const lk_value *list) {
	for (size_t i = 0; list && list->kind == LK_JSON_ARRAY && i < list->count && script; i++) {
		const char *text = lk_config_text(&list->items[i]);
		const char *quoted = text ? lk_shell_quote(arena, text) : "";
		script = quoted ? lk_arena_printf(arena, "%s%s ", script, quoted) : NULL;
	}
	return script;
}

static lk_status cluster_kubernetes(const lk_config *config, const lk_value *pod, lk_words *words) {
	lk_reading *reading = config->reading;
	lk_arena *arena = reading->arena;
	const lk_value *containers = lk_config_at(pod, "containers");
	const lk_value *root = config->root;
	bool listed = containers && containers->kind == LK_JSON_ARRAY && containers->count > 0;
	if (!listed)
		return lk_config_fail(config, "containers", "the pod has none", "give the whole job");
	const lk_value *container = &containers->items[0], *env = lk_config_at(container, "env");
	int nodes = cluster_whole(lk_config_at(root, "spec.pytorchReplicaSpecs.Master.replicas")) +
	            cluster_whole(lk_config_at(root, "spec.pytorchReplicaSpecs.Worker.replicas"));
	int per_node = cluster_whole(lk_config_at(root, "spec.nprocPerNode"));
	const lk_value *limits = lk_config_at(container, "resources.limits");
	for (size_t i = 0; limits && limits->kind == LK_JSON_OBJECT && i < limits->count; i++)
		if (per_node == 0 && strstr(limits->keys[i], ".com/gpu"))
			per_node = cluster_whole(&limits->items[i]);
	reading->batch = (lk_launch_ranks){.nodes = nodes, .per_node = per_node};
	const char *script = lk_arena_printf(
		arena, "PET_NNODES=%d\nPET_NPROC_PER_NODE=%d\nWORLD_SIZE=%d\n", nodes, per_node, nodes);
	for (size_t i = 0; env && env->kind == LK_JSON_ARRAY && i < env->count; i++)
		script = cluster_export(arena, script, lk_config_text(lk_config_at(&env->items[i], "name")),
		                        lk_config_at(&env->items[i], "value"));
	script = cluster_words(arena, script, lk_config_at(container, "command"));
	script = cluster_words(arena, script, lk_config_at(container, "args"));
	if (script) script = lk_arena_printf(arena, "%s\n", script);
	return cluster_run(config, script, words);
}

lk_status lk_config_cluster(const lk_config *config, lk_words *words, bool *found) {
	const lk_value *root = config->root;
	bool task = lk_config_text(lk_config_at(root, "run")) != NULL;
	const lk_value *pod = lk_config_at(root, "kind") ? cluster_pod(root) : NULL;
	*found = task || pod != NULL;
	if (task) return cluster_skypilot(config, words);
	return pod ? cluster_kubernetes(config, pod, words) : LK_OK;
}
