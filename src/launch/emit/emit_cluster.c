/* emit_cluster.c: jobs of clusters around a launch: batch scripts of Slurm, tasks of SkyPilot,
 * PyTorchJobs of Kubernetes (kubeflow.org/v1). Nodes, GPUs and variables are stated; a
 * configuration is carried in the job as a here-document. What differs is how a node learns which
 * one it is and who leads: torchrun's rendezvous. */
#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "launch/emit/emit.h"

/* The end of a here-document, which no configuration holds as a line. */
#define HERE "END_OF_FILE"

/* What tells a node its place. */
typedef struct cluster_place {
	const char *torchrun;   /* options of torchrun */
	const char *accelerate; /* the same of accelerate launch */
	const char *starter;    /* in front of the launcher */
} cluster_place;

/* Letters, digits and dashes, as names of jobs are. */
static const char *cluster_name(const lk_emission *emission) {
	char *name = lk_arena_strdup(emission->arena, emission->job->model.name);
	if (name == NULL || *name == '\0') return "training";
	for (char *c = name; *c != '\0'; c++)
		*c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
	return name;
}

static void cluster_exports(lk_page *page, const lk_words *words) {
	for (size_t i = 0; i < words->count; i++) {
		LK_ASSERT(strchr(words->at[i].text, '=') != NULL);
		const char *text = words->at[i].text, *value = strchr(text, '=') + 1;
		const char *quoted = lk_shell_quote(page->arena, value);
		if (quoted == NULL) page->text = NULL;
		else lk_page_add(page, "export %.*s%s\n", (int)(value - text), text, quoted);
	}
}

/* nemo is a command, which torchrun takes for a module of Python unless it is told. */
static void cluster_launcher(lk_page *page, const lk_emission *emission,
                             const cluster_place *place) {
	bool python = emission->launcher.count > 0 || emission->file != NULL;
	if (emission->accelerate)
		lk_page_add(page,
		            "%saccelerate launch --config_file %s --num_machines=%d --num_processes=%d %s",
		            place->starter, emission->file, emission->nodes, emission->job->gpus,
		            place->accelerate);
	else
		lk_page_add(page, "%storchrun --nnodes=%d --nproc_per_node=%d %s%s", place->starter,
		            emission->nodes, emission->per_node, place->torchrun,
		            python ? "" : " --no-python");
}

/* Variables, the configuration, the launch. */
static const char *cluster_commands(const lk_emission *emission, const cluster_place *place) {
	lk_arena *arena = emission->arena;
	const lk_words none = {0};
	lk_page page = {arena, ""};
	cluster_exports(&page, &emission->environment);
	cluster_exports(&page, &emission->settings);
	if (emission->file != NULL)
		lk_page_add(&page, "cat > %s <<'" HERE "'\n%s" HERE "\n", emission->file,
		            emission->contents);
	cluster_launcher(&page, emission, place);
	const char *line = lk_join_line(arena, &none, &none, &emission->program);
	lk_page_add(&page, " \\\n    %s\n", line != NULL ? line : "");
	return line != NULL ? page.text : NULL;
}

/* The same without a cluster, to be run on each node. */
const char *lk_write_commands(const lk_emission *emission) {
	static const cluster_place place = {"", "--machine_rank=0 --main_process_port=29500", ""};
	const char *commands = cluster_commands(emission, &place);
	return commands ? lk_arena_printf(emission->arena, "#!/bin/bash\n%s", commands) : NULL;
}

/* ---- Slurm ---- */

/* The head node is the first of the list; a task of a node starts all of its ranks. */
const char *lk_write_sbatch(const lk_emission *emission) {
	static const cluster_place place = {
		"--rdzv_id=\"$SLURM_JOB_ID\" --rdzv_backend=c10d --rdzv_endpoint=\"$head:29500\"",
		"--rdzv_backend=c10d --main_process_ip=\"$head\" --main_process_port=29500", "srun "};
	lk_page page = {emission->arena, ""};
	const char *commands = cluster_commands(emission, &place);
	lk_page_add(&page,
	            "#!/bin/bash\n"
	            "#SBATCH --job-name=%s\n"
	            "#SBATCH --nodes=%d\n"
	            "#SBATCH --ntasks-per-node=1\n"
	            "#SBATCH --gpus-per-node=%d\n"
	            "#SBATCH --exclusive\n"
	            "#SBATCH --time=24:00:00\n"
	            "\n"
	            "head=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
	            "%s",
	            cluster_name(emission), emission->nodes, emission->per_node,
	            commands != NULL ? commands : "");
	return commands != NULL ? page.text : NULL;
}

/* ---- SkyPilot ---- */

/* Names of skypilot/catalog that are not the letters and digits of a device's name before its first
 * dash, as H100 is of "h100-sxm". */
static const char *cluster_accelerator(const lk_emission *emission) {
	static const struct {
		const char *device, *name;
	} named[] = {
		{"a100-sxm-80", "A100-80GB"},
		{"a100-pcie-80", "A100-80GB"},
		{"a800-sxm-80", "A800"},
		{"v100-sxm-32", "V100-32GB"},
		{"v100-sxm3-32", "V100-32GB"},
		{"v100-pcie-32", "V100-32GB"},
		{"rtx-2080-ti", "RTX2080Ti"},
		{"rtx-3090", "RTX3090"},
		{"rtx-4090", "RTX4090"},
		{"rtx-5090", "RTX5090"},
		{"rtx-a5000", "RTXA5000"},
		{"rtx-a6000", "RTXA6000"},
		{"rtx-6000-ada", "RTX6000-Ada"},
		{"rtx-pro-6000", "RTXPRO6000"},
		{"quadro-rtx-6000", "Quadro-RTX-6000"},
		{"h100-nvl", "H100-NVL"},
		{"h200-nvl", "H200-NVL"},
	};
	const lk_cluster *cluster = emission->cluster;
	if (cluster == NULL || cluster->groups == 0) return "GPU";
	const char *device = cluster->node[0].device->name;
	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (strcmp(named[i].device, device) == 0) return named[i].name;
	char *name = lk_arena_strndup(emission->arena, device, strcspn(device, "-"));
	for (char *c = name; c != NULL && *c != '\0'; c++) *c = (char)toupper((unsigned char)*c);
	return name;
}

const char *lk_write_skypilot(const lk_emission *emission) {
	static const cluster_place place = {
		"--node_rank=\"$SKYPILOT_NODE_RANK\" --master_addr=\"$head\" --master_port=29500",
		"--machine_rank=\"$SKYPILOT_NODE_RANK\" --main_process_ip=\"$head\" "
		"--main_process_port=29500",
		""};
	lk_page page = {emission->arena, ""};
	const char *commands = cluster_commands(emission, &place);
	const char *accelerator = cluster_accelerator(emission);
	if (commands == NULL || accelerator == NULL) return NULL;
	lk_page_add(&page,
	            "name: %s\n"
	            "num_nodes: %d\n"
	            "resources:\n"
	            "  accelerators: %s:%d\n"
	            "run: |\n"
	            "  head=$(echo \"$SKYPILOT_NODE_IPS\" | head -n 1)\n",
	            cluster_name(emission), emission->nodes, accelerator, emission->per_node);
	lk_page_lines(&page, 2, commands);
	return page.text;
}

/* ---- Kubernetes ---- */

static bool cluster_amd(const lk_cluster *cluster) {
	return cluster != NULL && cluster->groups > 0 &&
	       strncmp(cluster->node[0].device->name, "mi", 2) == 0;
}

/* The operator sets PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT of each pod. */
const char *lk_write_kubernetes(const lk_emission *emission) {
	static const cluster_place place = {
		"--node_rank=\"$PET_NODE_RANK\" --master_addr=\"$PET_MASTER_ADDR\" "
		"--master_port=\"$PET_MASTER_PORT\"",
		"--machine_rank=\"$PET_NODE_RANK\" --main_process_ip=\"$PET_MASTER_ADDR\" "
		"--main_process_port=\"$PET_MASTER_PORT\"",
		""};
	lk_page page = {emission->arena, ""};
	const char *commands = cluster_commands(emission, &place);
	if (commands == NULL) return NULL;
	lk_page_add(&page,
	            "apiVersion: kubeflow.org/v1\n"
	            "kind: PyTorchJob\n"
	            "metadata:\n"
	            "  name: %s\n"
	            "spec:\n"
	            "  nprocPerNode: \"%d\"\n"
	            "  pytorchReplicaSpecs:\n"
	            "    Master:\n"
	            "      replicas: 1\n"
	            "      restartPolicy: OnFailure\n"
	            "      template: &node\n"
	            "        spec:\n"
	            "          containers:\n"
	            "            - name: pytorch\n"
	            "              image: %s\n"
	            "              command: [bash, -c]\n"
	            "              args:\n"
	            "                - |\n",
	            cluster_name(emission), emission->per_node, emission->image);
	lk_page_lines(&page, 18, commands);
	lk_page_add(&page,
	            "              resources:\n"
	            "                limits:\n"
	            "                  %s.com/gpu: %d\n"
	            "              volumeMounts:\n"
	            "                - name: shm\n"
	            "                  mountPath: /dev/shm\n"
	            "          volumes:\n"
	            "            - name: shm\n"
	            "              emptyDir:\n"
	            "                medium: Memory\n",
	            cluster_amd(emission->cluster) ? "amd" : "nvidia", emission->per_node);
	if (emission->nodes > 1)
		lk_page_add(&page,
		            "    Worker:\n"
		            "      replicas: %d\n"
		            "      restartPolicy: OnFailure\n"
		            "      template: *node\n",
		            emission->nodes - 1);
	return page.text;
}
