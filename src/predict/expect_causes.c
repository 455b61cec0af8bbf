/* expect_causes.c: the causes for which a run is slower, faster, larger or smaller than its
 * prediction, one row each: a change of the request, how often it is the reason, and how to find
 * out within a minute. The priors are judgements, in shares of runs that are off
 * (docs/method/expected.md); a cause that changes nothing about a job is dropped by the search. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "model/layout/sizes.h"
#include "predict/predict_internal.h"

/* ---- derived options ---- */

static bool derive_fewer_gpus(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--gpus %d", caused->job->gpus / 2);
	return caused->job->gpus % 2 == 0;
}

static bool derive_half_mbs(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--mbs %d --gbs %d", caused->job->mbs / 2, caused->job->gbs);
	return caused->job->mbs % 2 == 0;
}

static bool derive_double_mbs(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--mbs %d --gbs %d", caused->job->mbs * 2, caused->job->gbs);
	return true;
}

static bool derive_half_gbs(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--gbs %d", caused->job->gbs / 2);
	return caused->job->gbs % 2 == 0;
}

static bool derive_double_gbs(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--gbs %d", caused->job->gbs * 2);
	return true;
}

static bool derive_half_seq(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--seq %d", caused->job->seq / 2);
	return lk_job_tokens(caused->job) >= 2 && caused->job->seq % 2 == 0;
}

static bool derive_double_seq(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--seq %d", caused->job->seq * 2);
	return lk_job_tokens(caused->job) > 0;
}

static bool derive_packed(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--pack lognormal:%d", caused->job->seq / 8);
	return lk_job_tokens(caused->job) >= 256 && !caused->request.pack;
}

static bool derive_half_tp(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--tp %d", caused->job->tp / 2);
	return caused->job->tp > 1 && caused->job->tp % 2 == 0;
}

static bool derive_double_tp(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--tp %d", caused->job->tp * 2);
	return true;
}

/* All other stages give a layer to the last one. */
static bool derive_uneven(const lk_caused *caused, char *out, size_t size) {
	const lk_job *job = caused->job;
	int stages = job->pp, layers = lk_job_layers(job);
	if (stages < 2 || job->vp > 1 || layers % stages || layers / stages < 2) return false;
	snprintf(out, size, "--last-stage-layers %d", layers / stages + stages - 1);
	return true;
}

/* What the run itself states differently. */
static bool derive_stated_gbs(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--gbs %lld", (long long)caused->measured->global_batch);
	return caused->measured->global_batch > 0 && caused->measured->global_batch < 1 << 28;
}

static bool derive_stated_seq(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--seq %lld", (long long)caused->measured->seq_len);
	return caused->measured->seq_len > 0 && caused->measured->seq_len < 1 << 24;
}

static bool derive_stated_gpus(const lk_caused *caused, char *out, size_t size) {
	snprintf(out, size, "--gpus %lld", (long long)caused->measured->gpus);
	return caused->measured->gpus > 0 && caused->measured->gpus <= LK_JOB_GPUS;
}

/* ---- changes of the job ---- */

static void edit_no_compile(lk_job *job) {
	job->compile = false;
}

static void edit_no_offload(lk_job *job) {
	job->offload_optimizer = job->offload_params = job->offload_activations = false;
}

static void edit_fp32_reduce(lk_job *job) {
	job->grad_reduce_fp32 = LK_ON;
}

static void edit_deterministic(lk_job *job) {
	job->deterministic = true;
}

static void edit_no_nvls(lk_job *job) {
	static const char text[] = " NCCL_NVLS_ENABLE=0";
	size_t length = strlen(job->nccl);
	if (length + sizeof text > sizeof job->nccl) return;
	memcpy(job->nccl + length, text + (length == 0), sizeof text - (length == 0));
}

/* ---- changes of the cluster ---- */

static lk_status rewire_nics(lk_caused *caused, const lk_cause *cause, bool *applies,
                             lk_error *err) {
	const lk_cluster *from = &caused->cluster;
	*applies = from->gpus > from->node[0].gpus;
	return *applies
	           ? lk_cluster_with_nics(caused->arena, from, cause->argument, &caused->cluster, err)
	           : LK_OK;
}

static lk_status rewire_one_nic(lk_caused *caused, const lk_cause *cause, bool *applies,
                                lk_error *err) {
	const lk_cluster *from = &caused->cluster;
	char text[32];
	(void)cause;
	*applies = from->gpus > from->node[0].gpus && from->node[0].nics > 1;
	snprintf(text, sizeof text, "1*%gg", from->node[0].nic_rate * 8 / 1e9);
	return *applies ? lk_cluster_with_nics(caused->arena, from, text, &caused->cluster, err)
	                : LK_OK;
}

static lk_status rewire_links(lk_caused *caused, const lk_cause *cause, bool *applies,
                              lk_error *err) {
	const lk_cluster *from = &caused->cluster;
	bool pcie = from->node[0].intra == LK_INTRA_PCIE;
	*applies = from->node[0].gpus > 1 && pcie == (cause->fault != 0);
	return *applies
	           ? lk_cluster_with_links(caused->arena, from, cause->argument, &caused->cluster, err)
	           : LK_OK;
}

static lk_status rewire_fault(lk_caused *caused, const lk_cause *cause, bool *applies,
                              lk_error *err) {
	return lk_cluster_with_fault(caused->arena, &caused->cluster, (lk_link_fault)cause->fault,
	                             &caused->cluster, applies, err);
}

static lk_status rewire_power(lk_caused *caused, const lk_cause *cause, bool *applies,
                              lk_error *err) {
	const lk_cluster *from = &caused->cluster;
	double watts = cause->factor * from->node[0].device->power_w;
	*applies = watts > 0;
	return *applies ? lk_cluster_with_power(caused->arena, from, watts, &caused->cluster, err)
	                : LK_OK;
}

static lk_status rewire_stated_power(lk_caused *caused, const lk_cause *cause, bool *applies,
                                     lk_error *err) {
	double watts = caused->measured->power_limit_w;
	(void)cause;
	*applies = watts > 0;
	return *applies ? lk_cluster_with_power(caused->arena, &caused->cluster, watts,
	                                        &caused->cluster, err)
	                : LK_OK;
}

/* ---- other ways to count ---- */

/* PaLM's formula and many others count all pairs of positions: the half of them under the causal
 * mask, which grows with the square of the length, counts twice. */
static double count_all_pairs(const lk_job *job) {
	double ours = lk_model_flops(&job->model, job->seq);
	bool causal = job->model.network == LK_NET_DECODER && job->seq < 1 << 24;
	if (!causal || !(ours > 0)) return 1;
	return 1 + (lk_model_flops(&job->model, 2 * job->seq) - 2 * ours) / 2 / ours;
}

/* 6 per parameter and token, without attention. */
static double count_parameters(const lk_job *job) {
	double ours = lk_model_flops(&job->model, job->seq);
	if (lk_job_tokens(job) == 0 || job->model.experts > 0 || !(ours > 0)) return 1;
	return 6 * lk_model_params(&job->model) * job->seq / ours;
}

/* ---- the table ---- */

/* clang-format off */
#define NICS_CHECK                                                                             \
	"run with NCCL_DEBUG=INFO: the line \"NET/IB : Using\" lists the NICs that are used, with " \
	"their rates; `ibstat` or `ethtool` shows what each negotiated"
#define CLOCK_CHECK                                                                          \
	"nvidia-smi --query-gpu=power.draw,power.limit,clocks.sm,clocks_event_reasons.active " \
	"--format=csv -l 1, while it trains, on every node"
#define SLOW_CHECK                                                                            \
	"time each rank's forward pass, or leave out one node at a time; explain with traces of all " \
	"ranks names who comes last"
#define GPU_CHECK  "nvidia-smi --query-gpu=name --format=csv, on every node"
#define LINE_CHECK "the line that starts the run, or the settings that its log prints first"
#define COUNT_CHECK "compare tokens per second, which everybody counts the same way"

const lk_cause lk_causes[] = {
	/* the network between nodes */
	{.key = "sockets", .family = "transport", .prior = .05, .rewire = rewire_fault,
     .fault = LK_FAULT_SOCKETS, .what = "NCCL uses TCP sockets between nodes, not RDMA",
     .check = "run with NCCL_DEBUG=INFO: \"NET/Socket\" in place of \"NET/IB\""},
	{.key = "one_nic", .family = "nics", .prior = .03, .rewire = rewire_one_nic,
     .what = "one NIC of each node is used", .check = NICS_CHECK},
	{.key = "one_nic_100g", .family = "nics", .prior = .04, .rewire = rewire_nics,
     .argument = "1*100g", .what = "each node reaches the others over one NIC of 100 Gbit/s",
     .check = NICS_CHECK},
	{.key = "one_nic_200g", .family = "nics", .prior = .02, .rewire = rewire_nics,
     .argument = "1*200g", .what = "each node reaches the others over one NIC of 200 Gbit/s",
     .check = NICS_CHECK},
	{.key = "one_nic_25g", .family = "nics", .prior = .02, .rewire = rewire_nics,
     .argument = "1*25g", .what = "each node reaches the others over one NIC of 25 Gbit/s",
     .check = NICS_CHECK},
	{.key = "half_nics", .family = "nics", .prior = .03, .rewire = rewire_nics, .argument = "0.5x",
     .what = "half of the NICs are used, or each at half its rate", .check = NICS_CHECK},
	{.key = "fast_nics", .family = "nics", .prior = .01, .rewire = rewire_nics, .argument = "2x",
     .what = "the NICs are twice as fast as stated", .check = NICS_CHECK},
	{.key = "shared_fabric", .family = "fabric", .prior = .02, .rewire = rewire_fault,
     .fault = LK_FAULT_SHARED_TREE,
     .what = "the switches above the nodes carry a quarter of what their NICs send",
     .check = "all_reduce_perf of nccl-tests on 2 nodes of one switch and on all nodes; lockstep "
              "collective reads its log"},
	/* links within a node */
	{.key = "no_nvlink", .family = "links", .prior = .015, .rewire = rewire_fault,
     .fault = LK_FAULT_NO_LINKS, .what = "GPUs of a node reach one another over PCIe, not NVLink",
     .check = "nvidia-smi topo -m: NV# between GPUs; nvidia-smi nvlink -s; fabric manager; "
              "NCCL_P2P_DISABLE is unset"},
	{.key = "no_peer", .family = "links", .prior = .02, .rewire = rewire_fault,
     .fault = LK_FAULT_NO_PEER, .what = "the host refuses peer access between GPUs",
     .check = "NCCL_P2P_DISABLE, ACS of the PCIe switches, IOMMU; NCCL_DEBUG=INFO: \"via SHM\""},
	{.key = "half_links", .family = "links", .prior = .01, .rewire = rewire_links,
     .argument = "0.5x", .what = "half of the NVLinks are down",
     .check = "nvidia-smi nvlink -s on every node"},
	{.key = "half_pcie", .family = "links", .prior = .03, .rewire = rewire_links,
     .argument = "0.5x", .fault = 1, .what = "PCIe runs at half its width or a generation below",
     .check = "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv, "
              "while it trains"},
	{.key = "half_nodes", .family = "nodes", .prior = .01, .rewire = rewire_fault,
     .fault = LK_FAULT_HALF_NODES,
     .what = "the ranks of a node are spread over two, so that inner groups cross the network",
     .check = "print host and rank at the start; --ntasks-per-node, hostfile, placement groups"},
	{.key = "no_nvls", .family = "nvls", .prior = .01, .edit = edit_no_nvls,
     .shown = "--nccl NCCL_NVLS_ENABLE=0", .what = "NCCL reduces without NVLink SHARP",
     .check = "run with NCCL_DEBUG=INFO: \"NVLS multicast support is available\""},
	/* devices */
	{.key = "power_85", .family = "clocks", .prior = .03, .rewire = rewire_power, .factor = .85,
     .what = "GPUs are held to 85 % of their power", .check = CLOCK_CHECK},
	{.key = "power_70", .family = "clocks", .prior = .03, .rewire = rewire_power, .factor = .7,
     .what = "GPUs are held to 70 % of their power", .check = CLOCK_CHECK},
	{.key = "power_50", .family = "clocks", .prior = .015, .rewire = rewire_power, .factor = .5,
     .what = "GPUs are held to half of their power", .check = CLOCK_CHECK},
	{.key = "stated_power", .family = "clocks", .prior = .2, .rewire = rewire_stated_power,
     .what = "GPUs are held to the power that the run states", .check = CLOCK_CHECK},
	{.key = "straggler_1.1", .family = "clocks", .prior = .03, .options = "--straggler 0:1.1",
     .what = "one GPU is 1.1 times as slow as the others", .check = SLOW_CHECK},
	{.key = "straggler_1.3", .family = "clocks", .prior = .02, .options = "--straggler 0:1.3",
     .what = "one GPU is 1.3 times as slow as the others", .check = SLOW_CHECK},
	{.key = "straggler_2", .family = "clocks", .prior = .01, .options = "--straggler 0:2",
     .what = "one GPU is half as fast as the others", .check = SLOW_CHECK},
	{.key = "gpu_a100", .family = "device", .prior = .003, .options = "--gpu a100-sxm-80",
     .what = "the GPUs are A100", .check = GPU_CHECK},
	{.key = "gpu_h100_pcie", .family = "device", .prior = .005, .options = "--gpu h100-pcie",
     .what = "the GPUs are H100 PCIe", .check = GPU_CHECK},
	{.key = "gpu_h100", .family = "device", .prior = .003, .options = "--gpu h100-sxm",
     .what = "the GPUs are H100 SXM", .check = GPU_CHECK},
	{.key = "gpu_h200", .family = "device", .prior = .003, .options = "--gpu h200",
     .what = "the GPUs are H200", .check = GPU_CHECK},
	{.key = "gpu_b200", .family = "device", .prior = .003, .options = "--gpu b200",
     .what = "the GPUs are B200", .check = GPU_CHECK},
	/* number formats and kernels */
	{.key = "attention_unfused", .family = "attention", .prior = .04,
     .options = "--attention unfused",
     .what = "attention runs unfused, without FlashAttention or cuDNN",
     .check = "attn_implementation, --attention-backend, NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2; is "
              "flash-attn installed"},
	{.key = "attention_fa2", .family = "attention", .prior = .02, .options = "--attention fa2",
     .what = "attention runs FlashAttention-2", .check = "pip show flash-attn; its version"},
	{.key = "eager", .family = "fusion", .prior = .03, .options = "--eager",
     .what = "element-wise operations run one by one, without fused kernels",
     .check = "is Liger or Apex installed and switched on; warnings about missing fused kernels"},
	{.key = "fused", .family = "fusion", .prior = .01, .options = "--no-eager",
     .what = "element-wise operations are fused (Liger)", .check = LINE_CHECK},
	{.key = "no_compile", .family = "fusion", .prior = .04, .edit = edit_no_compile,
     .shown = "--no-compile", .what = "torch.compile is off, or falls back",
     .check = "TORCH_LOGS=recompiles,graph_breaks; torch._dynamo's warnings"},
	{.key = "compile", .family = "fusion", .prior = .01, .options = "--compile",
     .what = "torch.compile is on", .check = LINE_CHECK},
	{.key = "tf32", .family = "format", .prior = .02, .options = "--dtype tf32",
     .what = "products run in TF32, not in 16 bits: autocast is off",
     .check = "the dtype of a layer's output; bf16: true in the configuration"},
	{.key = "fp32", .family = "format", .prior = .015, .options = "--dtype fp32",
     .what = "products run in fp32", .check = "the dtype of a layer's output"},
	{.key = "bf16", .family = "format", .prior = .03, .options = "--dtype bf16",
     .what = "products run in bf16", .check = "the recipe that Transformer Engine prints"},
	{.key = "fp8", .family = "format", .prior = .01, .options = "--dtype fp8",
     .what = "products run in fp8", .check = LINE_CHECK},
	{.key = "deterministic", .family = "deterministic", .prior = .01, .edit = edit_deterministic,
     .what = "deterministic kernels are requested",
     .check = "--deterministic-mode, torch.use_deterministic_algorithms"},
	{.key = "no_graphs", .family = "graphs", .prior = .01, .options = "--no-cuda-graphs",
     .what = "launches are not replayed from CUDA graphs", .check = LINE_CHECK},
	{.key = "graphs", .family = "graphs", .prior = .01, .options = "--cuda-graphs",
     .what = "launches are replayed from CUDA graphs", .check = LINE_CHECK},
	/* memory for time */
	{.key = "recompute_full", .family = "recompute", .prior = .05, .options = "--recompute full",
     .what = "activations of all layers are recomputed (activation checkpointing)",
     .check = LINE_CHECK},
	{.key = "recompute_selective", .family = "recompute", .prior = .02,
     .options = "--recompute selective", .what = "attention is recomputed (selective)",
     .check = LINE_CHECK},
	{.key = "recompute_none", .family = "recompute", .prior = .04, .options = "--recompute none",
     .what = "nothing is recomputed", .check = LINE_CHECK},
	{.key = "offload_optimizer", .family = "offload", .prior = .02,
     .options = "--offload-optimizer", .what = "the optimizer is on the host (CPU offload)",
     .check = LINE_CHECK},
	{.key = "offload_params", .family = "offload", .prior = .01,
     .options = "--offload-optimizer --offload-params",
     .what = "optimizer and weights are on the host", .check = LINE_CHECK},
	{.key = "offload_activations", .family = "offload", .prior = .01,
     .options = "--offload-activations", .what = "activations wait in the host's memory",
     .check = LINE_CHECK},
	{.key = "no_offload", .family = "offload", .prior = .02, .edit = edit_no_offload,
     .what = "nothing is offloaded to the host", .check = LINE_CHECK},
	{.key = "zero_3", .family = "sharding", .prior = .02, .options = "--zero 3",
     .what = "weights are sharded too (ZeRO-3, FULL_SHARD)", .check = LINE_CHECK},
	{.key = "zero_2", .family = "sharding", .prior = .01, .options = "--zero 2",
     .what = "gradients and optimizer are sharded (ZeRO-2, SHARD_GRAD_OP)", .check = LINE_CHECK},
	{.key = "zero_1", .family = "sharding", .prior = .01, .options = "--zero 1",
     .what = "the optimizer is sharded (ZeRO-1, distributed optimizer)", .check = LINE_CHECK},
	{.key = "zero_0", .family = "sharding", .prior = .02, .options = "--zero 0",
     .what = "nothing is sharded over data-parallel ranks",
     .check = "--use-distributed-optimizer, the ZeRO stage; " LINE_CHECK},
	{.key = "half_tp", .family = "tensor_parallel", .prior = .005, .derive = derive_half_tp,
     .what = "tensor parallelism is half as large", .check = LINE_CHECK},
	{.key = "double_tp", .family = "tensor_parallel", .prior = .005, .derive = derive_double_tp,
     .what = "tensor parallelism is twice as large", .check = LINE_CHECK},
	/* overlap */
	{.key = "no_overlap_reduce", .family = "overlap", .prior = .04,
     .options = "--no-overlap-grad-reduce",
     .what = "gradients are reduced after the backward pass, not during it",
     .check = "--overlap-grad-reduce; CUDA_DEVICE_MAX_CONNECTIONS"},
	{.key = "overlap_reduce", .family = "overlap", .prior = .01,
     .options = "--overlap-grad-reduce", .what = "gradients are reduced during the backward pass",
     .check = LINE_CHECK},
	{.key = "no_overlap_gather", .family = "overlap", .prior = .02,
     .options = "--no-overlap-param-gather",
     .what = "parameters are gathered before the forward pass, not during it",
     .check = "--overlap-param-gather; forward prefetch"},
	{.key = "no_overlap", .family = "overlap", .prior = .02,
     .options = "--no-overlap-grad-reduce --no-overlap-param-gather",
     .what = "data-parallel communication overlaps with nothing",
     .check = "--overlap-grad-reduce, --overlap-param-gather; NCCL's streams in a trace"},
	{.key = "fp32_reduce", .family = "reduce_format", .prior = .03, .edit = edit_fp32_reduce,
     .what = "gradients travel in fp32",
     .check = "--accumulate-allreduce-grads-in-fp32, mixed precision's reduce_dtype"},
	{.key = "no_overlap_p2p", .family = "p2p", .prior = .01, .options = "--no-overlap-p2p",
     .what = "pipeline messages wait for one another", .check = LINE_CHECK},
	{.key = "no_tp_overlap", .family = "tp_overlap", .prior = .01, .options = "--no-tp-overlap",
     .what = "tensor-parallel communication does not overlap with products",
     .check = "--tp-comm-overlap; is userbuffers initialised"},
	{.key = "tp_overlap", .family = "tp_overlap", .prior = .01, .options = "--tp-overlap",
     .what = "tensor-parallel communication overlaps with products", .check = LINE_CHECK},
	{.key = "no_sequence_parallel", .family = "sequence_parallel", .prior = .02,
     .options = "--no-sequence-parallel", .what = "sequence parallelism is off",
     .check = "--sequence-parallel"},
	/* pipelines and experts */
	{.key = "plain_1f1b", .family = "schedule", .prior = .02, .options = "--vp 1 --schedule 1f1b",
     .what = "the pipeline is not interleaved",
     .check = "--num-layers-per-virtual-pipeline-stage"},
	{.key = "uneven_stages", .family = "schedule", .prior = .01, .derive = derive_uneven,
     .what = "the last pipeline stage holds more layers than the others", .check = LINE_CHECK},
	{.key = "imbalance_2", .family = "imbalance", .prior = .03, .options = "--moe-imbalance 2",
     .what = "the busiest expert rank gets twice the mean of tokens",
     .check = "tokens per expert; load-balancing loss; capacity factor"},
	{.key = "imbalance_4", .family = "imbalance", .prior = .015, .options = "--moe-imbalance 4",
     .what = "the busiest expert rank gets four times the mean of tokens",
     .check = "tokens per expert; load-balancing loss; capacity factor"},
	{.key = "allgather_dispatcher", .family = "dispatcher", .prior = .02,
     .options = "--dispatcher allgather", .what = "tokens reach their experts by all-gather",
     .check = "--moe-token-dispatcher-type"},
	/* other work than stated */
	{.key = "fewer_gpus", .family = "gpus", .prior = .02, .derive = derive_fewer_gpus,
     .what = "half of the GPUs take part", .check = "the world size that the log prints"},
	{.key = "stated_gpus", .family = "gpus", .prior = .2, .derive = derive_stated_gpus,
     .what = "the run has the number of GPUs that it states",
     .check = "the world size that the log prints"},
	{.key = "half_mbs", .family = "batch", .prior = .03, .derive = derive_half_mbs,
     .what = "micro-batches are half as large", .check = LINE_CHECK},
	{.key = "double_mbs", .family = "batch", .prior = .02, .derive = derive_double_mbs,
     .what = "micro-batches are twice as large", .check = LINE_CHECK},
	{.key = "half_gbs", .family = "batch", .prior = .02, .derive = derive_half_gbs,
     .what = "the global batch is half as large",
     .check = "gradient accumulation times micro-batch times data-parallel ranks"},
	{.key = "double_gbs", .family = "batch", .prior = .02, .derive = derive_double_gbs,
     .what = "the global batch is twice as large",
     .check = "gradient accumulation times micro-batch times data-parallel ranks"},
	{.key = "stated_gbs", .family = "batch", .prior = .2, .derive = derive_stated_gbs,
     .what = "the global batch is what the run states", .check = LINE_CHECK},
	{.key = "half_seq", .family = "sequence", .prior = .02, .derive = derive_half_seq,
     .what = "sequences are half as long", .check = "the shape of a batch, tokens per step"},
	{.key = "double_seq", .family = "sequence", .prior = .02, .derive = derive_double_seq,
     .what = "sequences are twice as long", .check = "the shape of a batch, tokens per step"},
	{.key = "stated_seq", .family = "sequence", .prior = .2, .derive = derive_stated_seq,
     .what = "sequences are as long as the run states", .check = LINE_CHECK},
	{.key = "packed", .family = "sequence", .prior = .02, .derive = derive_packed,
     .what = "sequences hold several documents, which attend within themselves",
     .check = "is packing with position resets on"},
	/* memory alone */
	{.key = "no_master", .family = "states", .prior = .02, .options = "--no-master-weights",
     .what = "no fp32 copy of the weights is kept", .check = LINE_CHECK},
	{.key = "states_bf16", .family = "states", .prior = .01, .options = "--state-dtype bf16",
     .what = "the optimizer's moments have 16 bits", .check = LINE_CHECK},
	{.key = "adam_8bit", .family = "states", .prior = .01, .options = "--optimizer adam-8bit",
     .what = "the optimizer's moments have 8 bits", .check = LINE_CHECK},
	{.key = "expandable", .family = "allocator", .prior = .02,
     .options = "--alloc-conf expandable_segments:True",
     .what = "the allocator's segments grow, so that less is lost between blocks",
     .check = "PYTORCH_CUDA_ALLOC_CONF"},
	{.key = "fragmented", .family = "allocator", .prior = .03,
     .options = "--alloc-conf expandable_segments:False",
     .what = "the allocator holds fixed segments, with gaps between blocks",
     .check = "PYTORCH_CUDA_ALLOC_CONF; torch.cuda.memory_summary(): reserved against allocated"},
	{.key = "logits_fp32", .family = "loss", .prior = .03, .options = "--loss native",
     .what = "the loss copies all logits to fp32", .check = "float() before the cross-entropy"},
	{.key = "logits_chunked", .family = "loss", .prior = .01, .options = "--loss linear",
     .what = "the loss does not hold all logits", .check = LINE_CHECK},
	/* other ways to count the same run */
	{.key = "all_pairs_counted", .family = "count", .prior = .1, .counted = count_all_pairs,
     .what = "the run counts all pairs of attention, not the half under the causal mask",
     .check = COUNT_CHECK},
	{.key = "parameters_counted", .family = "count", .prior = .05, .counted = count_parameters,
     .what = "the run counts 6 operations per parameter and token, without attention",
     .check = COUNT_CHECK},
	{.key = "sparse_peak", .family = "count", .prior = .03, .peaks = 2,
     .what = "the run divides by the peak with 2:4 sparsity, twice the dense one",
     .check = COUNT_CHECK},
};
/* clang-format on */
const int lk_cause_count = sizeof lk_causes / sizeof *lk_causes;

/* ---- applying one ---- */

static lk_status caused_show(lk_caused *caused, const char *more, lk_error *err) {
	const char *before = caused->option ? caused->option : "";
	if (!more) return lk_oom(err);
	caused->option = lk_arena_printf(caused->arena, "%s%s%s", before, *before ? " " : "", more);
	return caused->option ? LK_OK : lk_oom(err);
}

/* Set options as typed, separated by blanks. */
static lk_status caused_set(lk_caused *caused, const char *options, lk_error *err) {
	enum { WORDS = 8 };
	const char *words[WORDS];
	int count = 0;
	char *copy = lk_arena_strdup(caused->arena, options), *word;
	if (!copy) return lk_oom(err);
	while ((word = strsep(&copy, " ")) && count < WORDS) words[count++] = word;
	LK_ASSERT(!word);
	lk_args *args = &caused->args[caused->count];
	LK_TRY(lk_args_parse(&lk_predict_verb, count, words, args, err));
	LK_TRY(lk_args_fill(args, 0, &caused->request, err));
	return caused_show(caused, options, err);
}

lk_status lk_cause_apply(lk_caused *caused, const lk_cause *cause, bool *applies, lk_error *err) {
	char options[96];
	LK_ASSERT(caused->count < LK_CAUSES_AT_ONCE);
	*applies = true;
	const char *set = cause->options;
	if (cause->derive && (*applies = cause->derive(caused, options, sizeof options))) set = options;
	if (*applies && set) LK_TRY(caused_set(caused, set, err));
	if (*applies && cause->shown) LK_TRY(caused_show(caused, cause->shown, err));
	if (*applies && cause->rewire) {
		LK_TRY(cause->rewire(caused, cause, applies, err));
		caused->cluster_changed |= *applies;
	}
	if (!*applies) return LK_OK;
	if (cause->counted) caused->flops_factor *= cause->counted(caused->job);
	if (cause->peaks > 0) caused->peak_factor /= cause->peaks;
	caused->causes[caused->count++] = cause;
	return LK_OK;
}

lk_status lk_caused_read(lk_caused *caused, lk_asked *out, lk_error *err) {
	LK_TRY(lk_request_take(caused->arena, &caused->request, out, err));
	if (caused->cluster_changed) {
		out->cluster = caused->cluster;
		if (!caused->request.cluster || !lk_cluster_text_is_file(caused->request.cluster))
			LK_TRY(caused_show(
				caused, lk_arena_printf(caused->arena, "--cluster '%s'", out->cluster.text), err));
	}
	for (int i = 0; i < caused->count; i++)
		if (caused->causes[i]->edit) caused->causes[i]->edit(&out->job);
	return lk_request_complete(caused->arena, &caused->request, out, err);
}

void lk_caused_free(lk_caused *caused) {
	for (int i = 0; i < LK_CAUSES_AT_ONCE; i++) lk_args_free(&caused->args[i]);
}
