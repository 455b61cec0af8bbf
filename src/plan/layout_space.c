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
#include "base/text.h"
#include "launch/emit/emit.h"
#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "plan/layout_space.h"
#include "step/step.h"

void lk_plan_defaults(lk_plan_request *request) {
	memset(request, 0, sizeof *request);
}

enum {
	SAMPLED = 16, /* of thousands of families: a few hundred layouts give a close limit */
	LEAST_TOKENS = 4096,
	MOST_SEQUENCES = 64,
	MOST_TOKENS = 131072
};

/* ---- axes ---- */

void lk_axis_add(lk_axis *axis, int value) {
	for (int i = 0; i < axis->count; i++)
		if (axis->at[i] == value) return;
	if (axis->count < LK_AXIS) axis->at[axis->count++] = value;
}

bool lk_axis_has(const lk_axis *axis, int value) {
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
		lk_axis_add(out, fixed);
		out->said = true;
	}
	while (next_item(&text, item, sizeof item)) {
		long long value;
		LK_TRY(lk_parse_int(item, low, high, &value, where, err));
		LK_TRY(full(out, where, err));
		lk_axis_add(out, (int)value);
		out->said = true;
	}
	return LK_OK;
}

static lk_status read_schedules(const char *text, const lk_job *base, lk_axis *out, lk_error *err) {
	char item[64];
	if (!text && base->schedule_said) {
		lk_axis_add(out, (int)base->schedule);
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
		lk_axis_add(out, (int)schedule->kind);
		out->said = true;
	}
	return LK_OK;
}

void lk_recomputes_add(lk_recomputes *out, lk_recompute kind, int layers) {
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
		lk_recomputes_add(out, base->recompute, some ? base->recompute_layers : 0);
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
		lk_recomputes_add(out, kind, (int)layers);
		out->said = true;
	}
	return LK_OK;
}

static bool simulates_allocator(const lk_job *job) {
	return !lk_job_like_megatron(job);
}

/* Refuse options that act with none of the stacks. */
static lk_status check_code(const lk_plan_request *request, const lk_job *base,
                            const lk_space *space, lk_error *err) {
	static const char no_allocator[] = "of Megatron-LM's stacks the allocator is not simulated";
	const struct {
		int given;
		const char *on, *off, *reason;
		bool (*acts)(const lk_job *);
	} switches[] = {
		{request->job.eager, "--eager", "--no-eager", LK_JOB_OWN_CODE, lk_job_runs_as_written},
		{request->job.ragged, "--ragged", "--no-ragged", no_allocator, simulates_allocator},
		{request->job.ragged_lengths != NULL, "--ragged-lengths", "", no_allocator,
	     simulates_allocator},
	};
	for (size_t s = 0; s < sizeof switches / sizeof *switches; s++) {
		bool acts = switches[s].given == 0;
		for (int i = 0; i < space->stack_count && !acts; i++) {
			lk_job job = *base;
			lk_copy(job.stack, sizeof job.stack, space->stacks[i]);
			acts = switches[s].acts(&job);
		}
		if (acts) continue;
		lk_fail(err, LK_ERR_INPUT, switches[s].given > 0 ? switches[s].on : switches[s].off,
		        "it has no effect: %s", switches[s].reason);
		return lk_hint(err, "use --stack fsdp, or leave it out");
	}
	return LK_OK;
}

/* `stated`: the software of what was read, "" for none. */
static lk_status read_stacks(const lk_plan_request *request, const lk_job *base, const char *stated,
                             lk_space *out, lk_error *err) {
	const char *text;
	if (request->stack) text = request->stack;
	else if (base->stack[0]) text = base->stack;
	else text = NULL;
	char item[32];
	/* a file or line keeps its software; of replicas a trainer may shard them */
	bool replicas = strcmp(stated, "ddp") == 0;
	if (!text && *stated && !replicas) text = stated;
	else if (!text && out->framework && base->task == LK_TASK_PRETRAIN)
		text = lk_emit_stacks(out->framework);
	if (!text && base->model.network == LK_NET_CONV) text = "ddp";
	if (!text && request->job.emit) text = lk_emit_stack(request->job.emit);
	out->usual_software = !text && base->task != LK_TASK_PRETRAIN;
	if (out->usual_software) {
		bool divides = request->tp || request->pp || request->cp || request->ep;
		text = divides ? "ddp,fsdp,deepspeed,megatron" : "ddp,fsdp,deepspeed";
	}
	if (!text) text = LK_STACK_DEFAULT;
	while (next_item(&text, item, sizeof item)) {
		LK_TRY(lk_request_check_stack(item, err));
		if (out->stack_count == LK_STACKS)
			return lk_fail(err, LK_ERR_INPUT, "--stack", "more than %d names", LK_STACKS);
		lk_copy(out->stacks[out->stack_count++], sizeof out->stacks[0], item);
	}
	const lk_stack_features *first = lk_stack_features_of(out->stacks[0], base->release);
	if (first->adapters && !request->job.task) out->base.task = LK_TASK_LORA;
	return check_code(request, base, out, err);
}

/* Whether keys can state any of the facts. */
static bool states_any(const lk_key *const *keys, const char *const *facts) {
	for (; *facts; facts++)
		if (lk_emit_states(keys, *facts)) return true;
	return false;
}

/* Recomputation and shardings that no key of what was read states: those that its program has. */
static void find_unstated(const lk_asked *asked, lk_space *space) {
	static const char *const recomputes[] = {"recompute", "recompute_text", NULL};
	static const char *const shards[] = {"zero", "sharding", "sharding_name", "reshard_off", NULL};
	const lk_key *const *keys = asked->launch.keys;
	bool any = states_any(keys, recomputes), every = lk_emit_states(keys, "recompute");
	for (int kind = LK_RECOMPUTE_NONE; kind <= LK_RECOMPUTE_FULL; kind++)
		space->no_recompute[kind] = asked->job.recompute != (lk_recompute)kind &&
		                            (kind == LK_RECOMPUTE_SELECTIVE ? !every : !any);
	bool whole = !states_any(keys, shards);
	for (int stack = 0; keys && stack < space->stack_count; stack++)
		for (int kind = LK_SHARD_NONE; kind <= LK_SHARD_ZERO3; kind++) {
			/* keys of trainers on Megatron-Core state its distributed optimizer alone */
			bool core = strcmp(space->stacks[stack], "megatron") == 0 && kind > LK_SHARD_ZERO1;
			bool fsdp = strcmp(space->stacks[stack], "fsdp") == 0 && kind != LK_SHARD_ZERO3;
			space->lacks[stack][kind] |= core || (fsdp && whole);
		}
}

/* What the framework of the space does not run; none that could run nothing. */
static void find_lacks(const lk_asked *asked, lk_space *space) {
	const lk_key *const *keys = asked->launch.keys;
	bool runs = false;
	space->auto_tp = keys != NULL;
	space->no_tp = !lk_emit_states(keys, "tp");
	space->no_pp = !lk_emit_states(keys, "pp");
	space->no_vp = !lk_emit_states(keys, "vp");
	space->no_cp = !lk_emit_states(keys, "cp");
	space->no_ep = !lk_emit_states(keys, "ep");
	/* verl's keys of such degrees are of its other engines */
	const char *framework = asked->launch.framework;
	if (framework && lk_begins_with(framework, "verl") && strcmp(space->stacks[0], "fsdp") == 0)
		space->no_tp = space->no_pp = space->no_vp = space->no_ep = true;
	for (int stack = 0; space->framework && stack < space->stack_count; stack++)
		for (int kind = LK_SHARD_NONE; kind <= LK_SHARD_ZERO3; kind++) {
			lk_job plain = space->base;
			plain.tp = plain.pp = plain.cp = plain.ep = plain.vp = 1;
			plain.schedule = LK_SCHED_1F1B;
			plain.sharding = (lk_sharding)kind;
			lk_copy(plain.stack, sizeof plain.stack, space->stacks[stack]);
			space->lacks[stack][kind] = lk_emit_lacks(space->framework, &plain) != NULL;
			runs |= !space->lacks[stack][kind];
		}
	if (!runs) space->framework = NULL; /* whatever the layout */
	if (!runs) memset(space->lacks, 0, sizeof space->lacks);
	find_unstated(asked, space);
}

/* ---- default values ---- */

int lk_space_domain(const lk_cluster *cluster) {
	int most = 1;
	for (int i = 0; i < cluster->groups; i++)
		if (cluster->node[i].gpus > most) most = cluster->node[i].gpus;
	return most;
}

static void add_divisors(lk_axis *axis, int64_t of, int64_t most) {
	for (int64_t d = 1; d <= most && d <= of; d++)
		if (of % d == 0) lk_axis_add(axis, (int)d);
}

static void add_powers(lk_axis *axis, int64_t most) {
	for (int64_t p = 1; p <= most; p *= 2) lk_axis_add(axis, (int)p);
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
	if (!space->tp.count) add_divisors(&space->tp, space->gpus, lk_space_domain(space->cluster));
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
		if (each > 0 && (each & (each - 1)) != 0) lk_axis_add(&space->mbs, each);
	}
	if (!space->mbs.count) {
		int most = seq < MOST_TOKENS ? MOST_TOKENS / seq : 1;
		add_powers(&space->mbs, most < MOST_SEQUENCES ? most : MOST_SEQUENCES);
	}
	if (!space->recompute.count)
		for (int kind = LK_RECOMPUTE_NONE; kind <= LK_RECOMPUTE_FULL; kind++)
			if (!space->no_recompute[kind])
				lk_recomputes_add(&space->recompute, (lk_recompute)kind, 0);
	space->recompute_quarters = !space->recompute.said && !space->fixed_switches;
	if (!space->bucket.count) {
		lk_axis_add(&space->bucket, LK_BUCKET_USUAL);
		for (int i = 0; i < space->stack_count && !space->fixed_switches; i++)
			if (has_small_buckets(space->stacks[i])) lk_axis_add(&space->bucket, LK_BUCKET_LARGE);
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
	if (request->job.emit) LK_TRY(lk_emit_check_task(request->job.emit, base, err));
	out->framework = lk_emit_framework(request->job.emit, asked->launch.framework);
	LK_TRY(read_stacks(request, base, launched ? asked->job.stack : "", out, err));
	find_lacks(asked, out);
	LK_TRY(read_ints(request->tp, base->tp, 1, 1024, "--tp", &out->tp, err));
	LK_TRY(read_ints(request->pp, base->pp, 1, 1024, "--pp", &out->pp, err));
	LK_TRY(read_ints(request->vp, base->vp, 1, LK_MOST_CHUNKS, "--vp", &out->vp, err));
	LK_TRY(read_ints(request->cp, base->cp, 1, 1024, "--cp", &out->cp, err));
	LK_TRY(read_ints(request->ep, base->ep, 1, 4096, "--ep", &out->ep, err));
	LK_TRY(read_ints(request->etp, base->etp, 1, 1024, "--etp", &out->etp, err));
	LK_TRY(read_ints(request->mbs, base->mbs, 1, 1 << 20, "--mbs", &out->mbs, err));
	LK_TRY(read_ints(request->zero, base->sharding_said ? (int)base->sharding : -1, 0, 3, "--zero",
	                 &out->zero, err));
	if (!request->zero && base->sharding_said && base->sharding == LK_SHARD_NONE) {
		lk_axis_add(&out->zero, 0);
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
