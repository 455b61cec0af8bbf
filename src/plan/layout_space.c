/* layout_space.c: which layouts a search looks at.
 *
 * A value that the user states is taken as it is. What is left open has these values:
 *     tp        divisors of the number of GPUs that fit into a node, or NVLink domain
 *     cp        powers of two that leave a rank 4096 tokens of a sequence or more
 *     pp        divisors of what is left, up to the number of layers; 1 for FSDP
 *     schedule  1f1b, and what the software has besides (lk_space_runs); where no software is
 *               named, experts of more than a node in DualPipeV too, which is DeepSeek-V3's
 *               DualPipe folded onto half of the stages: as fast, with each parameter on one rank
 *     vp        1, and all that divide the layers of a stage; with embedding and loss counted as
 *               layers where those make the split even (Megatron-LM, as Llama 3's 126 layers are
 *               split); powers of two where none does
 *     split     Megatron-LM: even, or less on the last stage, or on the first and the last
 *     ep, etp   divisors of the experts; 1 and tp
 *     mbs       powers of two up to 64 sequences and 128 Ki tokens
 *     zero      2 and 3 for FSDP, else 0 and 1, and without a pipeline 2 and 3 for Megatron-LM (its
 *               own FSDP) and DeepSpeed
 *     recompute none, selective (Megatron-LM: lk_modules_light), full, and full for quarters of a
 *               stage's layers (Megatron-LM, one chunk per stage)
 *     switches  sequence parallelism, overlap of tensor parallelism, of gradients and of
 *               parameters on and off, buckets of the usual size and four times as large where
 *               that puts more than a layer into one; tokens are sent to
 *               their experts as the software does, in Megatron-LM by node where the hardware can
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/emit/emit.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "model/layout/schedule.h"
#include "plan/plan.h"
#include "step/step.h"

void lk_plan_defaults(lk_plan_request *request) {
	memset(request, 0, sizeof *request);
}

enum {
	SAMPLED = 16, /* of thousands of families: a few hundred layouts give a close limit */
	LEAST_TOKENS = 4096,
	MOST_SEQUENCES = 64,
	MOST_TOKENS = 131072,
	MOST_CHUNKS = 64
};

/* ---- axes ---- */

static void space_add(lk_axis *axis, int value) {
	for (int i = 0; i < axis->count; i++)
		if (axis->at[i] == value) return;
	if (axis->count < LK_AXIS) axis->at[axis->count++] = value;
}

static bool space_holds(const lk_axis *axis, int value) {
	for (int i = 0; i < axis->count; i++)
		if (axis->at[i] == value) return true;
	return false;
}

/* The next item of a comma list, at most `size` bytes; false at the end. */
static bool next_item(const char **at, char *out, size_t size) {
	if (!*at) return false;
	size_t length = strcspn(*at, ",");
	lk_copy(out, length + 1 < size ? length + 1 : size, *at);
	*at = (*at)[length] ? *at + length + 1 : NULL;
	return true;
}

static lk_status full(const lk_axis *axis, const char *where, lk_error *err) {
	if (axis->count < LK_AXIS) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, where, "more than %d values", LK_AXIS);
}

/* Read the user's list, or the one value that the job has already. */
static lk_status read_ints(const char *text, int fixed, int low, int high, const char *where,
                           lk_axis *out, lk_error *err) {
	char item[64];
	if (!text && fixed > 0) {
		space_add(out, fixed);
		out->said = true;
	}
	while (next_item(&text, item, sizeof item)) {
		long long value;
		LK_TRY(lk_parse_int(item, low, high, &value, where, err));
		LK_TRY(full(out, where, err));
		space_add(out, (int)value);
		out->said = true;
	}
	return LK_OK;
}

static lk_status read_schedules(const char *text, const lk_job *base, lk_axis *out, lk_error *err) {
	char item[64];
	if (!text && base->schedule_said) {
		space_add(out, (int)base->schedule);
		out->said = true;
	}
	while (next_item(&text, item, sizeof item)) {
		const lk_schedule *schedule = lk_schedule_find(item);
		if (!schedule) {
			char shown[64];
			lk_fail(err, LK_ERR_INPUT, "--schedule", "unknown schedule '%s'",
			        lk_escape(item, shown, sizeof shown));
			return lk_hint(
				err, "give one or more of gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, "
					 "v-min, dualpipe, dualpipev");
		}
		space_add(out, (int)schedule->kind);
		out->said = true;
	}
	return LK_OK;
}

static void add_recompute(lk_recomputes *out, lk_recompute kind, int layers) {
	for (int i = 0; i < out->count; i++)
		if (out->at[i].kind == kind && out->at[i].layers == layers) return;
	if (out->count < LK_AXIS)
		out->at[out->count++] = (lk_recompute_way){.kind = kind, .layers = layers};
}

/* Modules are the base job's: a search has one set of them, which is its "selective". */
static lk_status read_recompute(const char *text, lk_job *base, lk_recomputes *out, lk_error *err) {
	char item[LK_MODULES_TEXT];
	int selected = -1;
	if (!text && base->recompute_said) {
		bool some = base->recompute == LK_RECOMPUTE_FULL && base->recompute_layers > 0;
		add_recompute(out, base->recompute, some ? base->recompute_layers : 0);
		out->said = true;
	}
	while (next_item(&text, item, sizeof item)) {
		long long layers = 0;
		lk_recompute kind;
		bool part = strncmp(item, "full/", 5) == 0, known = true;
		if (part) LK_TRY(lk_parse_int(item + 5, 1, 4096, &layers, "--recompute", err));
		int modules = lk_modules_named(item, "+");
		if (modules) kind = LK_RECOMPUTE_SELECTIVE;
		else if (lk_same_name(item, "none")) kind = LK_RECOMPUTE_NONE;
		else if (lk_same_name(item, "selective")) kind = LK_RECOMPUTE_SELECTIVE;
		else if (part || strcmp(item, "full") == 0) kind = LK_RECOMPUTE_FULL;
		else known = false;
		if (!known) {
			char shown[64];
			lk_fail(err, LK_ERR_INPUT, "--recompute", "unknown kind '%s'",
			        lk_escape(item, shown, sizeof shown));
			return lk_hint(err, "give one or more of none, selective, full, full/N and modules as "
			                    "in core_attn+mlp");
		}
		if (modules) lk_job_select(base, modules);
		if (kind == LK_RECOMPUTE_SELECTIVE && selected >= 0 &&
		    selected != base->recompute_modules) {
			lk_fail(err, LK_ERR_INPUT, "--recompute", "more than one set of modules");
			return lk_hint(err, "give one: a search compares it with none and full");
		}
		if (kind == LK_RECOMPUTE_SELECTIVE) selected = base->recompute_modules;
		if (out->count == LK_AXIS)
			return lk_fail(err, LK_ERR_INPUT, "--recompute", "more than %d values", LK_AXIS);
		add_recompute(out, kind, (int)layers);
		out->said = true;
	}
	return LK_OK;
}

/* Refuse --eager and --no-eager for a stack that does not run Hugging Face's networks. */
static lk_status check_code(const lk_plan_request *request, const lk_job *base,
                            const lk_space *space, lk_error *err) {
	lk_job job = *base;
	if (request->job.eager == 0) return LK_OK;
	for (int i = 0; i < space->stack_count; i++) {
		lk_copy(job.stack, sizeof job.stack, space->stacks[i]);
		if (lk_job_runs_as_written(&job)) return LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, request->job.eager > 0 ? "--eager" : "--no-eager",
	        "it has no effect: %s", LK_JOB_OWN_CODE);
	return lk_hint(err, "use --stack fsdp, or leave it out");
}

static lk_status read_stacks(const lk_plan_request *request, const lk_job *base, lk_space *out,
                             lk_error *err) {
	const char *text;
	if (request->stack) text = request->stack;
	else if (base->stack[0]) text = base->stack;
	else text = NULL;
	char item[32];
	if (!text && base->model.network == LK_NET_CONV) text = "ddp";
	if (!text && request->job.emit) text = lk_emit_stack(request->job.emit);
	if (!text) text = LK_STACK_DEFAULT;
	while (next_item(&text, item, sizeof item)) {
		LK_TRY(lk_request_check_stack(item, err));
		if (out->stack_count == LK_STACKS)
			return lk_fail(err, LK_ERR_INPUT, "--stack", "more than %d names", LK_STACKS);
		lk_copy(out->stacks[out->stack_count++], sizeof out->stacks[0], item);
	}
	return check_code(request, base, out, err);
}

/* ---- default values ---- */

static int domain(const lk_cluster *cluster) {
	int most = 1;
	for (int i = 0; i < cluster->groups; i++)
		if (cluster->node[i].gpus > most) most = cluster->node[i].gpus;
	return most;
}

static void add_divisors(lk_axis *axis, int64_t of, int64_t most) {
	for (int64_t d = 1; d <= most && d <= of; d++)
		if (of % d == 0) space_add(axis, (int)d);
}

static void add_powers(lk_axis *axis, int64_t most) {
	for (int64_t p = 1; p <= most; p *= 2) space_add(axis, (int)p);
}

static int sequence_of(const lk_job *base) {
	lk_job job = *base;
	job.gpus = job.tp = job.pp = job.cp = job.dp = job.mbs = 1;
	job.offload_params = false;
	job.ep = job.etp = 0;
	job.gbs = 1;
	if (lk_job_complete(&job, NULL, NULL) == LK_OK) return job.seq;
	if (base->seq > 0) return base->seq;
	return 2048;
}

/* Whether buckets do not grow with the number of ranks, so that their latency may matter.
 * Megatron-LM's hold 2 MB or more per rank: four times as much gains less than 0.1 %. */
static bool has_small_buckets(const char *stack) {
	return strcmp(stack, "ddp") == 0;
}

static void add_usual(lk_space *space) {
	int seq = sequence_of(&space->base), layers = lk_job_layers(&space->base);
	if (!space->tp.count) add_divisors(&space->tp, space->gpus, domain(space->cluster));
	if (!space->cp.count)
		add_powers(&space->cp,
		           space->base.model.network == LK_NET_DECODER && seq >= 2 * LEAST_TOKENS
		               ? seq / LEAST_TOKENS
		               : 1);
	if (!space->pp.count) add_divisors(&space->pp, space->gpus, layers < 1024 ? layers : 1024);
	if (!space->ep.count)
		add_divisors(&space->ep, space->base.model.experts > 0 ? space->base.model.experts : 1,
		             4096);
	bool images = space->base.model.network == LK_NET_CONV;
	if (!space->mbs.count && images) { /* a batch's images at once, or parts of them */
		int each = space->base.gbs / space->gpus;
		add_powers(&space->mbs, each);
		if (each > 0 && (each & (each - 1)) != 0) space_add(&space->mbs, each);
	}
	if (!space->mbs.count) {
		int most = seq < MOST_TOKENS ? MOST_TOKENS / seq : 1;
		add_powers(&space->mbs, most < MOST_SEQUENCES ? most : MOST_SEQUENCES);
	}
	if (!space->recompute.count)
		for (int kind = LK_RECOMPUTE_NONE; kind <= LK_RECOMPUTE_FULL; kind++)
			add_recompute(&space->recompute, (lk_recompute)kind, 0);
	space->recompute_quarters = !space->recompute.said && !space->fixed_switches;
	if (!space->bucket.count) {
		space_add(&space->bucket, LK_BUCKET_USUAL);
		for (int i = 0; i < space->stack_count && !space->fixed_switches; i++)
			if (has_small_buckets(space->stacks[i])) space_add(&space->bucket, LK_BUCKET_LARGE);
	}
}

/* The last place's work besides its layers, in layers of equal time. */
static int layers_of_loss(const lk_job *base) {
	int seq = sequence_of(base), layers = lk_job_layers(base);
	if (base->model.network == LK_NET_CONV || layers == 0) return 0;
	lk_model plain = base->model;
	plain.mtp_layers = plain.tower.layers = 0;
	double head = lk_model_head_flops(&plain, seq);
	double layer = (lk_model_flops(&plain, seq) - head) / layers;
	double modules = base->model.mtp_layers * (layer + head);
	return layer > 0 ? (int)fmin((head + modules) / layer + 0.5, layers) : 0;
}

/* Layouts this close in time cannot be distinguished: the median error of a predicted step
 * (docs/accuracy). Among them, one with room to spare is better than one that may run out of
 * memory. */
static const double UNCERTAIN = 0.05;

double lk_tight_factor(bool tight) {
	return tight ? 1 + UNCERTAIN : 1;
}

lk_status lk_space_read(const lk_plan_request *request, const lk_asked *asked, lk_space *out,
                        lk_error *err) {
	memset(out, 0, sizeof *out);
	out->base = asked->job;
	out->cluster = &asked->cluster;
	out->gpus = asked->job.gpus;
	out->offload = request->offload;
	if (out->base.offload_params) { /* with the master copy, and sharded */
		out->base.offload_optimizer = out->base.sharding_said = true;
		out->base.sharding = LK_SHARD_ZERO3;
	}
	out->headroom = -1;
	if (request->headroom) {
		LK_TRY(lk_parse_real(request->headroom, 0, 99, &out->headroom, "--headroom", err));
		out->headroom /= 100;
	}
	out->fixed_switches = request->fixed_switches;
	/* a slightly slower tight layout is kept: it may rank below one that is not tight */
	out->by_energy = request->objective == LK_PLAN_ENERGY;
	out->slowest_s = request->slowest_s > 0 ? request->slowest_s * lk_tight_factor(true) : INFINITY;
	/* a launch line states what trains; its layout is searched */
	bool launched = lk_request_launched(&request->job) || request->job.deepspeed;
	if (launched) lk_job_open_layout(&out->base);
	out->base.stack_recipe = !launched;
	out->base.split_open = true;
	out->dispatcher_said = launched || request->job.dispatcher || out->base.dispatcher;
	out->loss_layers = layers_of_loss(&out->base);
	const lk_job *base = &out->base;
	out->any_software = !request->stack && !base->stack[0] && !request->job.emit && !launched;
	LK_TRY(read_stacks(request, base, out, err));
	LK_TRY(read_ints(request->tp, base->tp, 1, 1024, "--tp", &out->tp, err));
	LK_TRY(read_ints(request->pp, base->pp, 1, 1024, "--pp", &out->pp, err));
	LK_TRY(read_ints(request->vp, base->vp, 1, MOST_CHUNKS, "--vp", &out->vp, err));
	LK_TRY(read_ints(request->cp, base->cp, 1, 1024, "--cp", &out->cp, err));
	LK_TRY(read_ints(request->ep, base->ep, 1, 4096, "--ep", &out->ep, err));
	LK_TRY(read_ints(request->etp, base->etp, 1, 1024, "--etp", &out->etp, err));
	LK_TRY(read_ints(request->mbs, base->mbs, 1, 1 << 20, "--mbs", &out->mbs, err));
	LK_TRY(read_ints(request->zero, base->sharding_said ? (int)base->sharding : -1, 0, 3, "--zero",
	                 &out->zero, err));
	if (!request->zero && base->sharding_said && base->sharding == LK_SHARD_NONE) {
		space_add(&out->zero, 0);
		out->zero.said = true;
	}
	LK_TRY(read_ints(request->bucket, 0, 1, 1 << 20, "--bucket", &out->bucket, err));
	LK_TRY(read_schedules(request->schedule, base, &out->schedule, err));
	LK_TRY(read_recompute(request->recompute, &out->base, &out->recompute, err));
	add_usual(out);
	out->sampled = SAMPLED;
	out->network_checked = lk_model_check(&base->model, "model", NULL) == LK_OK;
	return LK_OK;
}

/* ---- cores ---- */

static bool is_fsdp(const char *stack) {
	return strstr(stack, "fsdp") != NULL || strcmp(stack, "torchtitan") == 0 ||
	       strcmp(stack, "llm-foundry") == 0;
}

bool lk_space_pipelines(const char *stack) {
	return !is_fsdp(stack);
}

/* Megatron-Core: Megatron-LM and NeMo. */
static bool is_megatron_core(const char *stack) {
	return strcmp(stack, "megatron") == 0 || strcmp(stack, "nemo") == 0;
}

/* Whether the framework can name a schedule, of PyTorch's. DeepSpeed's engine has only 1F1B. */
bool lk_space_runs(const char *stack, lk_schedule_kind kind) {
	if (kind == LK_SCHED_1F1B) return true;
	if (kind == LK_SCHED_INTERLEAVED) return strstr(stack, "deepspeed") == NULL;
	return kind == LK_SCHED_ZB_V && is_fsdp(stack);
}

bool lk_space_wide_experts(const lk_space *space, int ep, int etp) {
	return space->base.model.experts > 0 && (int64_t)ep * etp > domain(space->cluster);
}

bool lk_space_adds(const lk_space *space, lk_schedule_kind kind) {
	return space->any_software && space->base.model.experts > 0 &&
	       is_megatron_core(space->stacks[0]) && kind == LK_SCHED_DUALPIPE_V;
}

/* A stack's defaults. */
static const lk_stack_features *features_of(const lk_space *space, int stack) {
	const char *recipes = space->base.stack_recipe ? space->stacks[stack] : "";
	return lk_stack_features_of(recipes, space->base.release);
}

bool lk_space_overlaps_experts(const lk_space *space, int stack) {
	lk_arch arch = space->cluster->node[0].device->arch;
	return lk_stack_features_for(features_of(space, stack), arch, space->base.dtype).expert_overlap;
}

bool lk_space_varies_split(const lk_space *space, int stack) {
	const lk_model *model = &space->base.model;
	return is_megatron_core(space->stacks[stack]) && model->mtp_layers <= 1 &&
	       (model->network == LK_NET_DECODER || model->network == LK_NET_ENCODER);
}

/* Whether DeepEP or HybridEP is used; they need NVLink inside a node. */
bool lk_space_sends_by_node(const lk_space *space, int stack) {
	if (!is_megatron_core(space->stacks[stack]) || space->base.model.experts == 0 ||
	    space->dispatcher_said)
		return false;
	for (int i = 0; i < space->cluster->groups; i++) {
		const lk_node *node = &space->cluster->node[i];
		lk_arch arch = node->device->arch;
		if (node->intra == LK_INTRA_PCIE ||
		    (arch != LK_ARCH_AMPERE && arch != LK_ARCH_HOPPER && arch != LK_ARCH_BLACKWELL))
			return false;
	}
	return true;
}

/* Whether layers divide by the chunks, or for Megatron-LM do so with embedding and loss. */
static bool splits(int layers, int places, bool megatron) {
	return layers % places == 0 ||
	       (megatron && (layers + 2) % places == 0 && (layers + 2) / places > 1);
}

static lk_status space_push(lk_cores_list *out, const lk_core *core, lk_error *err) {
	if (!lk_push(out)) return lk_oom(err);
	*lk_last(out) = *core;
	return LK_OK;
}

/* Split the layers of a job whose chain of places is known; false: there is no such split. */
static bool split_job(const lk_space *space, int split, lk_job *job) {
	bool ends = split == LK_SPLIT_ENDS;
	if (split == LK_SPLIT_USUAL) return true;
	job->split_open = false;
	return lk_job_lighten_ends(job, ends, ends && space->loss_layers == 0 ? 1 : space->loss_layers);
}

static bool splits_evenly(const lk_space *space, int stack, int pp, int vp) {
	const char *name = space->stacks[stack];
	bool megatron = strncmp(name, "megatron", 8) == 0 || strcmp(name, "nemo") == 0;
	return vp == 1 || splits(lk_job_layers(&space->base), pp * vp, megatron);
}

/* Bits by lk_split of the distinct splits on this many places; `uneven`: even if none is even. */
static uint8_t splits_of(const lk_space *space, int stack, int pp, int vp, bool uneven) {
	bool usual = splits_evenly(space, stack, pp, vp);
	char seen[LK_SPLITS][sizeof space->base.pipeline_layout] = {""};
	uint8_t found = usual;
	if (pp == 1 || (!usual && !uneven) || !lk_space_varies_split(space, stack)) return found;
	/* a lighter first stage is for memory: with chunks it is a small part */
	for (int split = 0; split < (vp > 1 ? LK_SPLIT_ENDS : LK_SPLITS); split++) {
		lk_job job = space->base;
		job.pp = pp;
		job.vp = vp;
		job.schedule = vp > 1 ? LK_SCHED_INTERLEAVED : LK_SCHED_1F1B;
		if (split == LK_SPLIT_USUAL) lk_job_split_usually(&job);
		bool written = job.pipeline_layout[0] != '\0';
		if (!written && split == LK_SPLIT_USUAL)
			written = lk_job_lighten_ends(&job, job.account_embedding, job.account_loss);
		else if (!written) written = split_job(space, split, &job);
		for (int i = 0; i < split; i++)
			written = written && (strcmp(seen[i], job.pipeline_layout) != 0 || !(found & 1 << i));
		if (!written) continue;
		lk_copy(seen[split], sizeof seen[split], job.pipeline_layout);
		if (split != LK_SPLIT_USUAL) found |= (uint8_t)(1 << split);
	}
	return found;
}

/* Splits to search with one stack, by number of stages. */
struct stack_splits {
	uint8_t of[LK_AXIS][MOST_CHUNKS + 1]; /* [pp][vp] bits by lk_split */
};

/* If no number of chunks divides the layers of a stage, search powers of two. */
static void find_splits(const lk_space *space, int stack, struct stack_splits *out) {
	int layers = lk_job_layers(&space->base);
	memset(out, 0, sizeof *out);
	for (int p = 0; p < space->pp.count; p++) {
		int pp = space->pp.at[p], most = layers / pp < MOST_CHUNKS ? layers / pp : MOST_CHUNKS;
		bool uneven = true;
		for (int vp = 2; vp <= MOST_CHUNKS && pp * vp <= layers + 2; vp++)
			uneven &= !splits_evenly(space, stack, pp, vp);
		for (int vp = 1; vp <= MOST_CHUNKS && (vp == 1 || pp * vp <= layers + 2); vp++)
			out->of[p][vp] =
				splits_of(space, stack, pp, vp, uneven && vp <= most && (vp & (vp - 1)) == 0);
	}
}

/* Add a core in all its splits. */
static lk_status push_splits(uint8_t splits, lk_core core, lk_cores_list *out, lk_error *err) {
	core.first = (uint32_t)out->count;
	for (core.split = 0; core.split < LK_SPLITS; core.split++)
		if (splits & 1 << core.split) LK_TRY(space_push(out, &core, err));
	return LK_OK;
}

static bool space_has_schedule(const lk_space *space, const lk_core *core, lk_schedule_kind kind) {
	if (space->schedule.count) return space_holds(&space->schedule, (int)kind);
	return lk_space_runs(space->stacks[core->stack], kind) ||
	       (lk_space_adds(space, kind) && lk_space_wide_experts(space, core->ep, core->etp));
}

/* `splits` [vp + 1] for this number of stages. */
static lk_status add_schedules(const lk_space *space, const uint8_t *splits, lk_core core,
                               lk_cores_list *out, lk_error *err) {
	bool one_chunk = !space->vp.said || space_holds(&space->vp, 1);
	core.schedule = LK_SCHED_1F1B;
	core.vp = 1;
	if (one_chunk && (core.pp == 1 || space_has_schedule(space, &core, LK_SCHED_1F1B)))
		LK_TRY(push_splits(splits[1], core, out, err));
	if (core.pp == 1) return LK_OK;
	for (int kind = 0; kind < LK_SCHEDULES; kind++) {
		const lk_schedule *schedule = lk_schedule_get((lk_schedule_kind)kind);
		core.schedule = kind;
		core.vp = schedule->fixed_chunks > 0 ? schedule->fixed_chunks : 1;
		core.split = LK_SPLIT_USUAL;
		core.first = (uint32_t)out->count;
		if (kind == LK_SCHED_1F1B || kind == LK_SCHED_INTERLEAVED ||
		    !space_has_schedule(space, &core, (lk_schedule_kind)kind) ||
		    (space->vp.said && !space_holds(&space->vp, core.vp)))
			continue;
		LK_TRY(space_push(out, &core, err));
	}
	core.schedule = LK_SCHED_INTERLEAVED;
	if (!space_has_schedule(space, &core, LK_SCHED_INTERLEAVED)) return LK_OK;
	for (core.vp = 2; core.vp <= MOST_CHUNKS; core.vp++)
		if (!space->vp.said || space_holds(&space->vp, core.vp))
			LK_TRY(push_splits(splits[core.vp], core, out, err));
	return LK_OK;
}

static lk_status add_batches(const lk_space *space, const uint8_t *splits, lk_core core,
                             lk_cores_list *out, lk_error *err) {
	int64_t dp = space->gpus / ((int64_t)core.tp * core.pp * core.cp);
	if (space->base.dp > 0 && dp != space->base.dp) return LK_OK;
	for (int i = 0; i < space->mbs.count; i++) {
		core.mbs = space->mbs.at[i];
		if (space->base.gbs % (core.mbs * dp) != 0) continue;
		LK_TRY(add_schedules(space, splits, core, out, err));
	}
	return LK_OK;
}

static lk_status add_experts(const lk_space *space, const uint8_t *splits, lk_core core,
                             lk_cores_list *out, lk_error *err) {
	int64_t ranks = space->gpus / core.pp;
	for (int i = 0; i < space->ep.count; i++) {
		core.ep = space->ep.at[i];
		if (space->base.model.experts == 0) {
			core.etp = core.tp;
			LK_TRY(add_batches(space, splits, core, out, err));
			continue;
		}
		lk_axis etp = space->etp;
		if (!etp.count) {
			space_add(&etp, core.tp);
			space_add(&etp, 1);
		}
		for (int e = 0; e < etp.count; e++) {
			core.etp = etp.at[e];
			if (ranks % ((int64_t)core.ep * core.etp) == 0)
				LK_TRY(add_batches(space, splits, core, out, err));
		}
	}
	return LK_OK;
}

lk_status lk_space_cores(const lk_space *space, lk_cores_list *out, lk_error *err) {
	int layers = lk_job_layers(&space->base);
	struct stack_splits splits;
	for (int stack = 0; stack < space->stack_count; stack++) {
		bool pipelines = space->pp.said || lk_space_pipelines(space->stacks[stack]);
		find_splits(space, stack, &splits);
		for (int t = 0; t < space->tp.count; t++)
			for (int c = 0; c < space->cp.count; c++)
				for (int p = 0; p < space->pp.count; p++) {
					lk_core core = {.stack = stack,
					                .tp = space->tp.at[t],
					                .cp = space->cp.at[c],
					                .pp = space->pp.at[p]};
					int64_t block = (int64_t)core.tp * core.cp * core.pp;
					if (space->gpus % block != 0 || core.pp > layers) continue;
					if (core.pp > 1 && !pipelines) continue;
					LK_TRY(add_experts(space, splits.of[p], core, out, err));
				}
	}
	return LK_OK;
}

bool lk_cores_alike(const lk_core *a, const lk_core *b) {
	return a->stack == b->stack && a->tp == b->tp && a->pp == b->pp && a->cp == b->cp &&
	       a->ep == b->ep && a->etp == b->etp && a->mbs == b->mbs;
}

/* ---- jobs ---- */

static bool sends_by_node(const lk_space *space, const lk_core *core) {
	return core->ep > 1 && lk_space_sends_by_node(space, core->stack);
}

static void set_core(const lk_space *space, const lk_core *core, lk_job *job) {
	*job = space->base;
	job->gpus = space->gpus;
	job->tp = core->tp;
	job->pp = core->pp;
	job->vp = core->vp;
	job->cp = core->cp;
	job->ep = core->ep;
	job->mbs = core->mbs;
	job->etp = job->model.experts > 0 ? core->etp : 0;
	job->dp = 0;
	job->microbatches = 0;
	job->schedule = (lk_schedule_kind)core->schedule;
	job->schedule_said = true;
	if (sends_by_node(space, core)) {
		job->dispatcher = LK_DISPATCH_NODE;
		job->dispatcher_said = true;
	}
	bool split = split_job(space, core->split, job);
	LK_ASSERT(split);
	(void)split;
	lk_copy(job->stack, sizeof job->stack, space->stacks[core->stack]);
	if (!space->recompute.said && is_megatron_core(job->stack) &&
	    job->attn_kernel == LK_KERNEL_FLASH)
		job->recompute_modules = lk_modules_light(job);
}

/* The stack's default shardings, and all that it can do. */
static void shardings_of(const lk_space *space, const lk_core *core, lk_axis *out) {
	const char *stack = space->stacks[core->stack];
	bool deepspeed = strstr(stack, "deepspeed") != NULL;
	memset(out, 0, sizeof *out);
	if (space->zero.count) {
		for (int i = 0; i < space->zero.count; i++)
			if (!(deepspeed && core->pp > 1 && space->zero.at[i] > 1))
				space_add(out, space->zero.at[i]);
		return;
	}
	if (is_fsdp(stack)) {
		space_add(out, LK_SHARD_ZERO3);
		space_add(out, LK_SHARD_ZERO2);
	} else if (strcmp(stack, "ddp") == 0) space_add(out, LK_SHARD_NONE);
	else {
		space_add(out, LK_SHARD_ZERO1);
		space_add(out, LK_SHARD_NONE);
	}
	if ((deepspeed || strcmp(stack, "megatron") == 0) && core->pp == 1) {
		space_add(out, LK_SHARD_ZERO2);
		space_add(out, LK_SHARD_ZERO3);
	}
}

static lk_status space_complete(const lk_space *space, lk_job *job, lk_error *err) {
	return space->network_checked ? lk_job_complete_checked(job, space->cluster, err)
	                              : lk_job_complete(job, space->cluster, err);
}

lk_status lk_space_job(const lk_space *space, const lk_core *core, lk_job *out, lk_error *err) {
	lk_axis shardings;
	set_core(space, core, out);
	shardings_of(space, core, &shardings);
	if (!shardings.count)
		return lk_fail(err, LK_ERR_INPUT, "--zero",
		               "nothing that was requested runs with %d stages", core->pp);
	out->sharding = (lk_sharding)shardings.at[0];
	out->sharding_said = true;
	out->recompute = LK_RECOMPUTE_NONE;
	out->recompute_layers = 0;
	out->recompute_said = true;
	return space_complete(space, out, err);
}

static void set_switches(const lk_space *space, const lk_layout *layout, lk_job *job) {
	job->recompute = (lk_recompute)layout->recompute;
	job->recompute_layers = layout->recompute_layers;
	job->recompute_said = true;
	if (job->recompute != LK_RECOMPUTE_SELECTIVE)
		job->recompute_modules = space->base.recompute_modules;
	job->sharding = (lk_sharding)layout->sharding;
	job->sharding_said = true;
	if (!space->base.sequence_parallel) job->sequence_parallel = layout->sp ? LK_ON : LK_OFF;
	if (!space->base.tp_overlap) job->tp_overlap = layout->tp_overlap ? LK_ON : LK_OFF;
	if (!space->base.overlap_grad_reduce) job->overlap_grad_reduce = layout->grads ? LK_ON : LK_OFF;
	if (!space->base.overlap_param_gather)
		job->overlap_param_gather = layout->params ? LK_ON : LK_OFF;
	job->offload_optimizer = layout->offload;
}

lk_status lk_layout_job(const lk_space *space, const lk_core *core, const lk_layout *layout,
                        lk_job *out, lk_error *err) {
	set_core(space, core, out);
	set_switches(space, layout, out);
	int bucket = space->bucket.at[layout->bucket];
	if (bucket > 0) out->bucket_bytes = bucket * 1048576.0;
	LK_TRY(space_complete(space, out, err));
	if (bucket == LK_BUCKET_LARGE) out->bucket_bytes *= 4;
	return LK_OK;
}

/* ---- switches ---- */

struct ways {
	uint8_t a[LK_WAYS], b[LK_WAYS];
	int count;
};

static void way(struct ways *ways, int a, int b) {
	for (int i = 0; i < ways->count; i++)
		if (ways->a[i] == a && ways->b[i] == b) return;
	if (ways->count < LK_WAYS) {
		ways->a[ways->count] = (uint8_t)a;
		ways->b[ways->count++] = (uint8_t)b;
	}
}

/* Ways of sequence parallelism and overlap of tensor parallelism. */
static void tensor_ways(const lk_space *space, const lk_job *job, struct ways *out) {
	bool may = job->sequence_parallel == LK_ON, said = space->base.sequence_parallel != LK_AUTO;
	/* torchtitan's asynchronous tensor parallelism is a compiler pass */
	bool titan = strcmp(job->stack, "torchtitan") == 0 && job->compile;
	bool overlaps = space->base.tp_overlap != LK_OFF && (is_megatron_core(job->stack) || titan);
	out->count = 0;
	bool usual = space->fixed_switches && space->base.tp_overlap == LK_AUTO &&
	             lk_job_features(job)->tp_overlap;
	if (may) {
		if (space->base.tp_overlap != LK_ON && !usual) way(out, 1, 0);
		if (space->base.tp_overlap == LK_ON || usual || (overlaps && !space->fixed_switches))
			way(out, 1, 1);
	}
	if (!may || (!said && !space->fixed_switches && space->base.tp_overlap != LK_ON))
		way(out, 0, 0);
}

/* Ways of overlapping gradients and parameters. */
static void data_ways(const lk_space *space, const lk_job *job, int sharding, struct ways *out) {
	bool replicas = (int64_t)job->dp * job->cp > 1, sharded = sharding != LK_SHARD_NONE;
	const lk_job *base = &space->base;
	out->count = 0;
	for (int grads = 1; grads >= 0; grads--)
		for (int params = 1; params >= 0; params--) {
			if (base->overlap_grad_reduce && (base->overlap_grad_reduce == LK_ON) != grads)
				continue;
			if (base->overlap_param_gather && (base->overlap_param_gather == LK_ON) != params)
				continue;
			bool usual = grads && params == sharded;
			if (params && (!sharded || (!grads && !base->overlap_grad_reduce))) continue;
			if (!usual && (space->fixed_switches || !replicas || sharding >= LK_SHARD_ZERO2) &&
			    !base->overlap_grad_reduce && !base->overlap_param_gather)
				continue;
			way(out, grads, params);
		}
}

/* Layers of the stage with most; a remainder goes to the second stage first. */
static int most_layers(const lk_job *job) {
	int first = lk_job_stage_layers(job, 0), second = job->pp > 1 ? lk_job_stage_layers(job, 1) : 0;
	return first > second ? first : second;
}

/* Whether selective recomputation frees little. Without modules Megatron-LM's recomputes the core
 * of attention: with fused kernels that frees only the softmax statistics, and Megatron-LM itself
 * warns of it. */
static bool selects_little(const lk_job *job) {
	return lk_job_like_megatron(job) && job->attn_kernel == LK_KERNEL_FLASH &&
	       !job->recompute_modules;
}

/* Values of the axis, and quarters of a chunk's layers. */
static void recompute_ways(const lk_space *space, const lk_job *job, lk_recomputes *out) {
	*out = (lk_recomputes){0};
	int most = most_layers(job);
	bool same = !space->recompute.said && selects_little(job);
	for (int i = 0; i < space->recompute.count; i++) {
		lk_recompute_way way = space->recompute.at[i];
		if (way.layers <= most && !(same && way.kind == LK_RECOMPUTE_SELECTIVE))
			add_recompute(out, way.kind, way.layers);
	}
	if (!space->recompute_quarters || !lk_job_like_megatron(job) || job->vp > 1) return;
	for (int quarter = 1; quarter < 4; quarter++)
		if (most * quarter / 4 > 0 && most * quarter / 4 < most)
			add_recompute(out, LK_RECOMPUTE_FULL, most * quarter / 4);
}

/* Two buckets of different sizes that are filled with the same gradients. */
struct two_buckets {
	double size[2], held[2];
};

/* Whether both are full, or neither, after each tensor of a layer (-1: of an end). */
static bool fill_alike(struct two_buckets *buckets, const lk_job *job, int layer,
                       lk_rank_params part) {
	lk_rank_tensors tensors[LK_LAYER_TENSORS];
	double wire = lk_sizes_wire_bytes(job);
	int kinds = lk_sizes_tensors(job, layer, part, tensors);
	for (int k = 0; k < kinds; k++)
		for (int i = 0; i < tensors[k].count; i++) {
			bool full[2];
			for (int b = 0; b < 2; b++) {
				buckets->held[b] += wire * (tensors[k].dense + tensors[k].experts);
				full[b] = buckets->held[b] >= buckets->size[b];
				if (full[b]) buckets->held[b] = 0;
			}
			if (full[0] != full[1]) return false;
		}
	return true;
}

/* Whether buckets of both sizes cut the gradients of every chunk alike, in the order of its
 * backward pass. */
static bool cuts_alike(const lk_job *job, double small, double large) {
	const lk_schedule *schedule = lk_schedule_get(job->schedule);
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	for (int stage = 0; stage < job->pp; stage++)
		for (int chunk = 0; chunk < job->vp; chunk++) {
			struct two_buckets buckets = {.size = {small, large}};
			int first, count = lk_job_chunk_layers(job, stage, chunk, &first);
			int place = schedule->place(&shape, stage, chunk);
			if (place == lk_job_places(job) - 1 &&
			    !fill_alike(&buckets, job, -1, lk_sizes_head(job)))
				return false;
			for (int i = first + count - 1; i >= first; i--)
				if (!fill_alike(&buckets, job, i, lk_sizes_layer(job, i))) return false;
			if (place == 0 && !fill_alike(&buckets, job, -1, lk_sizes_embedding(job))) return false;
			if (place == 0 && !fill_alike(&buckets, job, -1, lk_sizes_tower(job))) return false;
		}
	return true;
}

static double bucket_bytes(const lk_space *space, const lk_job *job, int i) {
	switch (space->bucket.at[i]) {
	case LK_BUCKET_USUAL: return job->bucket_bytes;
	case LK_BUCKET_LARGE: return 4 * job->bucket_bytes;
	default: return space->bucket.at[i] * 1048576.0;
	}
}

/* Bucket sizes that make a difference, and those that were requested. */
static void bucket_ways(const lk_space *space, const lk_job *job, lk_axis *out) {
	memset(out, 0, sizeof *out);
	for (int i = 0; i < space->bucket.count; i++) {
		bool known = false;
		for (int k = 0; k < out->count && !known && !space->bucket.said; k++)
			known =
				cuts_alike(job, bucket_bytes(space, job, out->at[k]), bucket_bytes(space, job, i));
		if (!known) space_add(out, i);
	}
}

static lk_status add_layouts(const lk_space *space, lk_layout l, const struct ways *data,
                             const lk_axis *buckets, lk_layouts *out, lk_error *err) {
	for (int d = 0; d < data->count; d++) {
		l.grads = data->a[d];
		l.params = data->b[d];
		int choices = l.grads && l.sharding < LK_SHARD_ZERO2 ? buckets->count : 1;
		int homes = space->offload && !space->base.offload_optimizer ? 2 : 1;
		for (int bucket = 0; bucket < choices; bucket++)
			for (int offload = 0; offload < homes; offload++) {
				if (!lk_push(out)) return lk_oom(err);
				l.bucket = (uint8_t)buckets->at[bucket];
				l.offload = (uint8_t)(offload || space->base.offload_optimizer);
				*lk_last(out) = l;
			}
	}
	return LK_OK;
}

lk_status lk_space_switches(const lk_space *space, const lk_core *core, uint32_t number,
                            const lk_job *job, lk_layouts *out, lk_error *err) {
	struct ways tensor, data;
	lk_axis shardings, buckets;
	lk_recomputes recompute;
	bool replicas = (int64_t)job->dp * job->cp > 1;
	bucket_ways(space, job, &buckets);
	if (!replicas) buckets.count = 1; /* no traffic */
	tensor_ways(space, job, &tensor);
	recompute_ways(space, job, &recompute);
	shardings_of(space, core, &shardings);
	for (int r = 0; r < recompute.count; r++)
		for (int t = 0; t < tensor.count; t++)
			for (int z = 0; z < shardings.count; z++) {
				lk_layout l = {.core = number,
				               .sp = tensor.a[t],
				               .tp_overlap = tensor.b[t],
				               .sharding = (uint8_t)shardings.at[z]};
				l.recompute = (uint8_t)recompute.at[r].kind;
				l.recompute_layers = recompute.at[r].layers;
				if (!replicas && z > 0) continue; /* nothing to shard */
				data_ways(space, job, l.sharding, &data);
				LK_TRY(add_layouts(space, l, &data, &buckets, out, err));
			}
	return LK_OK;
}

/* ---- membership ---- */

static bool space_among(const lk_axis *axis, int value, const char *name, const char **why) {
	if (space_holds(axis, value)) return true;
	*why = name;
	return false;
}

/* Whether a job splits its layers like a core. */
static bool split_alike(const lk_space *space, const lk_core *core, const lk_job *job) {
	lk_job other;
	int first[2];
	if (lk_space_job(space, core, &other, NULL) != LK_OK) return false;
	for (int stage = 0; stage < job->pp; stage++)
		for (int chunk = 0; chunk < job->vp; chunk++)
			if (lk_job_chunk_layers(job, stage, chunk, &first[0]) !=
			        lk_job_chunk_layers(&other, stage, chunk, &first[1]) ||
			    first[0] != first[1])
				return false;
	return true;
}

static bool recompute_held(const lk_recomputes *ways, const lk_job *job) {
	for (int k = 0; k < ways->count; k++)
		if (ways->at[k].kind == job->recompute && ways->at[k].layers == job->recompute_layers)
			return true;
	return false;
}

/* Whether the search includes the switches of a job with its core. */
static bool switches_held(const lk_space *space, const lk_core *core, const lk_job *job,
                          const char **why) {
	lk_axis shardings;
	bool node = sends_by_node(space, core) ||
	            (!space->dispatcher_said && features_of(space, core->stack)->by_node);
	lk_dispatcher sent = node ? LK_DISPATCH_NODE : space->base.dispatcher;
	shardings_of(space, core, &shardings);
	*why = "zero";
	if (!space_holds(&shardings, (int)job->sharding)) return false;
	*why = "dispatcher";
	if (job->ep > 1 && job->dispatcher != sent) return false;
	*why = "recompute";
	lk_recomputes recompute;
	recompute_ways(space, job, &recompute);
	return recompute_held(&space->recompute, job) || recompute_held(&recompute, job);
}

bool lk_space_holds(const lk_space *space, const lk_job *job, const char **why) {
	lk_cores_list cores = {0};
	lk_core same = {.tp = job->tp,
	                .pp = job->pp,
	                .cp = job->cp,
	                .ep = job->ep,
	                .etp = job->etp,
	                .mbs = job->mbs};
	bool found = space_among(&space->tp, job->tp, "tp", why) &&
	             space_among(&space->pp, job->pp, "pp", why) &&
	             space_among(&space->cp, job->cp, "cp", why) &&
	             space_among(&space->ep, job->ep, "ep", why) &&
	             space_among(&space->mbs, job->mbs, "mbs", why);
	if (!found) return false;
	*why = "vp or schedule";
	found = lk_space_cores(space, &cores, NULL) == LK_OK;
	bool held = false;
	for (size_t i = 0; found && i < cores.count && !held; i++) {
		const lk_core *core = &cores.at[i];
		same.stack = core->stack;
		if (!lk_cores_alike(core, &same) || core->vp != job->vp ||
		    core->schedule != (int)job->schedule)
			continue;
		*why = "split of layers";
		held = split_alike(space, core, job) && switches_held(space, core, job, why);
	}
	lk_vec_free(&cores);
	if (held) *why = NULL;
	return held;
}

bool lk_layout_searched(const lk_job *job, const lk_cluster *cluster, const char **why) {
	lk_plan_request request;
	lk_asked asked = {.job = *job, .cluster = *cluster};
	lk_space space;
	lk_plan_defaults(&request);
	lk_job_open_layout(&asked.job);
	lk_copy(asked.job.stack, sizeof asked.job.stack, job->stack);
	if (lk_space_read(&request, &asked, &space, NULL) == LK_OK)
		return lk_space_holds(&space, job, why);
	*why = "the job";
	return false;
}

/* ---- words ---- */

const char *lk_layout_text(lk_arena *arena, const lk_job *job) {
	static const char *const shardings[] = {"", ", zero 1", ", zero 2", ", zero 3"};
	char words[512];
	lk_text text = lk_text_begin(words, sizeof words);
	const struct {
		const char *name;
		int value;
	} degrees[] = {
		{"tp", job->tp}, {"cp", job->cp}, {"pp", job->pp}, {"vp", job->vp}, {"ep", job->ep}};
	bool own_etp = job->model.experts > 0 && job->etp != job->tp;
	for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
		if (degrees[i].value > 1) lk_text_add(&text, "%s %d, ", degrees[i].name, degrees[i].value);
	if (own_etp) lk_text_add(&text, "etp %d, ", job->etp);
	lk_text_add(&text, "dp %d, micro-batch %d%s", job->dp, job->mbs, shardings[job->sharding]);
	if (job->pp > 1 && job->schedule != LK_SCHED_1F1B && job->schedule != LK_SCHED_INTERLEAVED)
		lk_text_add(&text, ", %s", lk_schedule_get(job->schedule)->name);
	if (!job->split_open && job->pipeline_layout[0])
		lk_text_add(&text, ", stages %s", job->pipeline_layout);
	const char *again = lk_recompute_text(arena, job);
	if (!again) return NULL;
	if (job->recompute != LK_RECOMPUTE_NONE) lk_text_add(&text, ", recompute %s", again);
	if (job->tp > 1 && job->sequence_parallel != LK_ON)
		lk_text_add(&text, ", no sequence parallelism");
	if (job->tp_overlap == LK_ON) lk_text_add(&text, ", tp overlap");
	if (job->ep > 1 && job->dispatcher == LK_DISPATCH_NODE) lk_text_add(&text, ", dispatcher node");
	if ((int64_t)job->dp * job->cp > 1 && job->overlap_grad_reduce != LK_ON)
		lk_text_add(&text, ", no gradient overlap");
	if (job->sharding == LK_SHARD_ZERO1 && job->overlap_param_gather != LK_ON)
		lk_text_add(&text, ", no parameter overlap");
	if (job->offload_optimizer)
		lk_text_add(&text, ", optimizer%s on the host", job->offload_params ? " and weights" : "");
	if (!lk_job_like_megatron(job)) lk_text_add(&text, ", %s", job->stack);
	return lk_arena_strdup(arena, words);
}
