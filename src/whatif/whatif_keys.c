/* whatif_keys.c: the changes of `--set KEY=VALUE`: one function and one line of the table each.
 * They are applied in the order of the table, not in the given order: hardware, software, numbers
 * of ranks, and last operations by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "step/step.h"
#include "whatif/whatif.h"
#include "base/text.h"
#include "hw/hw.h"

static lk_status keys_note(lk_scenario *scenario, const char *text, lk_error *err) {
	if (!text || !lk_push(&scenario->notes)) return lk_oom(err);
	*lk_last(&scenario->notes) = text;
	return LK_OK;
}

/* An edit without effect is no error, because only some of several traces may have its operations.
 * It is reported. */
static lk_status say_changed(lk_scenario *scenario, const char *key, const char *what,
                             lk_error *err) {
	if (scenario->edit.changed) return LK_OK;
	return keys_note(scenario,
	                 lk_arena_printf(scenario->arena, "%s changes nothing: %s", key, what), err);
}

/* ---- values ---- */

/* "0.8x", "0.8", "off" where that is 0. */
static lk_status read_factor(const char *key, const char *value, bool off, double *out,
                             lk_error *err) {
	const char *end;
	if (off && lk_same_name(value, "off")) {
		*out = 0;
		return LK_OK;
	}
	*out = lk_read_real(value, &end);
	bool good = end != value && (*end == '\0' || strcmp(end, "x") == 0) &&
	            *out >= (off ? 0 : 1e-6) && *out <= 1e6;
	return good ? LK_OK
	            : lk_not_understood(
					  key, value, off ? "write a factor as 0.5x, or off" : "write a factor as 0.5x",
					  err);
}

static lk_status read_switch(const char *key, const char *value, bool *out, lk_error *err) {
	if (lk_parse_bool(value, out, key, NULL) == LK_OK) return LK_OK;
	return lk_not_understood(key, value, "write on or off", err);
}

/* "25MB" (1e6), "25MiB", "4096". */
static lk_status keys_read_bytes(const char *key, const char *value, double *out, lk_error *err) {
	char text[32];
	size_t length = strlen(value);
	lk_copy(text, sizeof text, value);
	if (length > 1 && length < sizeof text && (text[length - 1] == 'B' || text[length - 1] == 'b'))
		text[length - 1] = '\0';
	if (length < sizeof text && lk_parse_count(text, 1024, 1e15, out, key, NULL) == LK_OK)
		return LK_OK;
	return lk_not_understood(key, value, "write bytes from 1024 on, as 25MB or 25MiB", err);
}

/* ---- hardware ---- */

/* Kernels are those that the software chooses on the present cluster. */
static lk_status choose_kernels(lk_scenario *scenario, lk_error *err) {
	const lk_whatif_site *site = scenario->site;
	const char *note = lk_profile_move(scenario->edit.graph, site->stack, site->release,
	                                   scenario->before, &scenario->cluster);
	return note ? keys_note(scenario, note, err) : LK_OK;
}

static lk_status set_cluster(lk_scenario *scenario, const char *what, const char *value,
                             lk_error *err) {
	(void)what;
	LK_TRY(lk_cluster_parse(scenario->arena, value, &scenario->cluster, err));
	return choose_kernels(scenario, err);
}

static lk_status set_topology(lk_scenario *scenario, const char *what, const char *value,
                              lk_error *err) {
	(void)what;
	return lk_cluster_with_topology(scenario->arena, &scenario->cluster, value, &scenario->cluster,
	                                err);
}

static lk_status set_gpu(lk_scenario *scenario, const char *what, const char *value,
                         lk_error *err) {
	const lk_device *device;
	(void)what;
	LK_TRY(lk_device_lookup(value, "gpu", &device, err));
	LK_TRY(lk_cluster_with_device(scenario->arena, &scenario->cluster, device, &scenario->cluster,
	                              err));
	return choose_kernels(scenario, err);
}

static void keep_wired(lk_scenario *scenario) {
	if (!scenario->wired.groups) scenario->wired = scenario->cluster;
}

static lk_status set_nic(lk_scenario *scenario, const char *what, const char *value,
                         lk_error *err) {
	(void)what;
	keep_wired(scenario);
	return lk_cluster_with_nics(scenario->arena, &scenario->cluster, value, &scenario->cluster,
	                            err);
}

static lk_status set_power(lk_scenario *scenario, const char *what, const char *value,
                           lk_error *err) {
	const char *end;
	double watts = lk_read_real(value, &end);
	(void)what;
	bool unit = *end == 'w' || *end == 'W';
	if (end == value || end[unit] || !(watts > 0))
		return lk_not_understood("power", value, "give watts, as in power=500", err);
	return lk_cluster_with_power(scenario->arena, &scenario->cluster, watts, &scenario->cluster,
	                             err);
}

static lk_status set_link(lk_scenario *scenario, const char *what, const char *value,
                          lk_error *err) {
	(void)what;
	keep_wired(scenario);
	return lk_cluster_with_links(scenario->arena, &scenario->cluster, value, &scenario->cluster,
	                             err);
}

/* ---- software ---- */

static lk_status set_dtype(lk_scenario *scenario, const char *what, const char *value,
                           lk_error *err) {
	lk_dtype dtype;
	(void)what;
	if (!lk_dtype_parse(value, &dtype))
		return lk_not_understood("dtype", value,
		                         "give one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4", err);
	if (dtype == scenario->dtype) return LK_OK;
	const lk_whatif_site *site = scenario->site;
	lk_conversion how =
		lk_profile_conversion(scenario->edit.graph, site->stack, site->release, dtype);
	LK_TRY(lk_edit_dtype(&scenario->edit, dtype, &how, err));
	scenario->dtype = dtype;
	return LK_OK;
}

static lk_status set_batch(lk_scenario *scenario, const char *what, const char *value,
                           lk_error *err) {
	double factor;
	(void)what;
	LK_TRY(read_factor("batch", value, false, &factor, err));
	if (factor != 1) lk_edit_batch(&scenario->edit, factor, scenario->mask);
	return LK_OK;
}

static lk_status set_bucket(lk_scenario *scenario, const char *what, const char *value,
                            lk_error *err) {
	double bytes;
	(void)what;
	LK_TRY(keys_read_bytes("bucket", value, &bytes, err));
	LK_TRY(lk_edit_buckets(&scenario->edit, bytes, scenario->mask, err));
	return say_changed(scenario, "bucket", "no gradients are reduced in buckets of another size",
	                   err);
}

static lk_status set_overlap(lk_scenario *scenario, const char *what, const char *value,
                             lk_error *err) {
	bool on;
	(void)what;
	LK_TRY(read_switch("overlap", value, &on, err));
	LK_TRY(lk_edit_overlap(&scenario->edit, on, scenario->mask, err));
	if (!on && scenario->edit.changed && !scenario->edit.graph->traced)
		LK_TRY(keys_note(
			scenario,
			"overlap=off: no collective overlaps with compute, those of tensor "
			"parallelism neither; predict --no-overlap-grad-reduce is for gradients alone",
			err));
	return say_changed(
		scenario, "overlap",
		on ? "gradients hold nothing up already" : "no collective overlaps with compute", err);
}

static lk_status set_fused(lk_scenario *scenario, const char *what, const char *value,
                           lk_error *err) {
	bool on;
	(void)what;
	LK_TRY(read_switch("fused-optimizer", value, &on, err));
	if (!on)
		return lk_not_understood("fused-optimizer", value,
		                         "only on is possible: the parts of a fused one are not known",
		                         err);
	LK_TRY(lk_edit_fuse_optimizer(&scenario->edit, err));
	return say_changed(scenario, "fused-optimizer",
	                   "the optimizer is one kernel, or no operation is known to be one", err);
}

/* ---- the host ---- */

/* Cost of a launch inside a CUDA graph relative to one outside. */
static double graph_share(void) {
	lk_constants c;
	lk_profile_base(lk_calibration_current(), &c);
	return c.launch_s > 0 ? fmin(1, c.graph_launch_s / c.launch_s) : 0;
}

static lk_status set_launch(lk_scenario *scenario, const char *what, const char *value,
                            lk_error *err) {
	(void)what;
	if (lk_same_name(value, "graphs")) {
		scenario->cuda_graphs = true;
		if (scenario->edit.graph->traced) lk_edit_host(&scenario->edit, graph_share());
		return LK_OK;
	}
	double factor;
	if (read_factor("launch", value, true, &factor, NULL) != LK_OK)
		return lk_not_understood("launch", value, "write graphs, 0, or a factor as 0.5x", err);
	scenario->launch *= factor;
	if (scenario->edit.graph->traced) lk_edit_host(&scenario->edit, factor);
	return LK_OK;
}

static lk_status set_host(lk_scenario *scenario, const char *what, const char *value,
                          lk_error *err) {
	double factor;
	(void)what;
	LK_TRY(read_factor("host", value, true, &factor, err));
	scenario->launch *= factor;
	lk_edit_host(&scenario->edit, factor);
	return LK_OK;
}

static lk_status set_loading(lk_scenario *scenario, const char *what, const char *value,
                             lk_error *err) {
	double factor;
	(void)what;
	LK_TRY(read_factor("data-loading", value, true, &factor, err));
	lk_edit_data_loading(&scenario->edit, factor);
	return say_changed(scenario, "data-loading", "no operation of the host is known to load data",
	                   err);
}

/* ---- by name ---- */

static lk_status unknown_operation(const lk_scenario *scenario, const char *key, const char *what,
                                   lk_error *err) {
	const lk_intern *names = scenario->edit.graph->names;
	uint32_t count = lk_intern_count(names);
	char shown[80];
	lk_fail(err, LK_ERR_INPUT, key, "no operation is called '%s'",
	        lk_escape(what, shown, sizeof shown));
	const char **list = LK_ARRAY(scenario->arena, const char *, count);
	for (uint32_t i = 0; list && i < count; i++) list[i] = lk_intern_text(names, i);
	const char *near = list ? lk_nearest(what, list, count) : NULL;
	if (near && *near)
		return lk_hint(err, "did you mean %.80s?", lk_escape(near, shown, sizeof shown));
	return lk_hint(
		err, "give a name of the graph, a kind as gemm or all_reduce, or a pattern with * and ?");
}

static lk_status set_op(lk_scenario *scenario, const char *what, const char *value, lk_error *err) {
	double factor;
	LK_TRY(read_factor("op", value, true, &factor, err));
	lk_edit_factor(&scenario->edit, what, factor);
	return scenario->edit.changed ? LK_OK : unknown_operation(scenario, "op", what, err);
}

static lk_status set_remove(lk_scenario *scenario, const char *what, const char *value,
                            lk_error *err) {
	if (value) return lk_not_understood("remove", value, "write remove:NAME", err);
	lk_edit_remove(&scenario->edit, what);
	if (!scenario->edit.changed) return unknown_operation(scenario, "remove", what, err);
	lk_status status = lk_graph_check(scenario->edit.graph, err);
	return status == LK_ERR_INPUT
	           ? lk_hint(err, "remove both ends of a message, a collective on all its ranks")
	           : status;
}

/* ---- numbers of ranks ---- */

/* `ranks` of the run; the graph may hold some of them, which represent the others. */
static lk_status keys_grow(lk_scenario *scenario, double ranks, const char *key, const char *value,
                           lk_error *err) {
	uint32_t held = scenario->edit.graph->ranks.world,
			 all = scenario->site->run_ranks > held ? scenario->site->run_ranks : held;
	ranks = ranks * held / all;
	if (!(ranks >= 1 && ranks <= 1 << 24) || ranks != floor(ranks))
		return lk_not_understood(key, value,
		                         held == all
		                             ? "it must give a whole number of ranks"
		                             : "it must give a whole number of copies of the traced ranks",
		                         err);
	if (lk_edit_ranks(&scenario->edit, (uint32_t)ranks, scenario->mask, err) == LK_OK) return LK_OK;
	if (err) lk_copy(err->where, sizeof err->where, key);
	return err ? err->status : LK_ERR_INPUT;
}

static lk_status set_gpus(lk_scenario *scenario, const char *what, const char *value,
                          lk_error *err) {
	long long ranks;
	(void)what;
	LK_TRY(lk_parse_int(value, 1, 1 << 24, &ranks, "gpus", err));
	return keys_grow(scenario, (double)ranks, "gpus", value, err);
}

static lk_status set_scale(lk_scenario *scenario, const char *what, const char *value,
                           lk_error *err) {
	double factor;
	(void)what;
	LK_TRY(read_factor("scale", value, false, &factor, err));
	uint32_t held = scenario->edit.graph->ranks.world,
			 all = scenario->site->run_ranks > held ? scenario->site->run_ranks : held;
	return keys_grow(scenario, all * factor, "scale", value, err);
}

static lk_status set_straggler(lk_scenario *scenario, const char *what, const char *value,
                               lk_error *err) {
	const char *colon = strchr(value, ':');
	long long rank;
	lk_straggler slow;
	char number[24];
	(void)what;
	if (!colon || (size_t)(colon - value) >= sizeof number)
		return lk_not_understood("straggler", value, "write RANK:FACTOR, as in 5:1.3", err);
	lk_copy(number, (size_t)(colon - value) + 1, value);
	LK_TRY(lk_parse_int(number, 0, UINT32_MAX - 1, &rank, "straggler", err));
	LK_TRY(read_factor("straggler", colon + 1, false, &slow.factor, err));
	slow.rank = (uint32_t)rank;
	if (slow.rank >= scenario->edit.graph->ranks.world)
		return lk_fail(err, LK_ERR_INPUT, "straggler", "there is no rank %u; the last is %u",
		               slow.rank, scenario->edit.graph->ranks.world - 1);
	if (slow.factor == 1) return LK_OK;
	if (!lk_push(&scenario->stragglers)) return lk_oom(err);
	*lk_last(&scenario->stragglers) = slow;
	return LK_OK;
}

static lk_status set_replace(lk_scenario *scenario, const char *what, const char *value,
                             lk_error *err) {
	lk_graph *update;
	if (!lk_same_name(what, "optimizer"))
		return lk_not_understood("replace", what, "write replace:optimizer=FILE", err);
	LK_TRY(lk_graph_read(value, &update, err));
	lk_status status = lk_edit_replace_update(&scenario->edit, update, err);
	lk_graph_free(update);
	return status;
}

/* ---- the table ---- */

const lk_whatif_key lk_whatif_keys[] = {
	{"cluster", false, false, set_cluster, "cluster=TEXT|FILE",
     "another cluster, as for predict --cluster", false, false},
	{"topology", true, false, set_topology, "topology=\"tree 16 leaf 4:1\"|none",
     "another network between nodes, as in --cluster", false, false},
	{"gpu", true, false, set_gpu, "gpu=NAME",
     "other GPUs; their default nodes where the base has its default nodes", false, false},
	{"nic", true, false, set_nic, "nic=2x|400g|8*400g",
     "faster or other NICs, each in Gbit/s (g) or GB/s", false, false},
	{"network", true, false, set_nic, "network=...", "the same", false, false},
	{"link", true, false, set_link, "link=2x|450GB/s",
     "faster links inside nodes, per GPU and direction", false, false},
	{"power", true, false, set_power, "power=500", "another limit of every GPU's board power, in W",
     false, false},
	{"dtype", true, false, set_dtype, "dtype=fp8", "another number format of products", false,
     false},
	{"batch", true, false, set_batch, "batch=2x", "a larger batch on every rank", false, false},
	{"bucket", true, false, set_bucket, "bucket=25MB", "gradients reduced in buckets of this size",
     false, false},
	{"overlap", true, false, set_overlap, "overlap=on|off",
     "all collectives concurrent with compute, or none", false, true},
	{"fused-optimizer", true, false, set_fused, "fused-optimizer=on",
     "one kernel for the optimizer", false, false},
	{"launch", true, false, set_launch, "launch=graphs|0", "launches from CUDA graphs, or free",
     false, true},
	{"host", true, false, set_host, "host=0.5x", "a faster host", false, true},
	{"data-loading", true, false, set_loading, "data-loading=0.5x|off",
     "input read faster, or at no cost", false, true},
	{"gpus", true, false, set_gpus, "gpus=N",
     "more or fewer GPUs by data parallelism, each with its own work", true, false},
	{"ranks", true, false, set_gpus, "ranks=N", "the same", true, false},
	{"scale", true, false, set_scale, "scale=4", "this many times the GPUs", true, false},
	{"replace", false, true, set_replace, "replace:optimizer=FILE",
     "the optimizer, from gradients to weights, replaced by a program's graph", false, false},
	{"op", true, true, set_op, "op:NAME=0.8x",
     "operations of a name (with * and ?) or kind faster or slower", false, true},
	{"remove", false, true, set_remove, "remove:NAME", "operations of a name or kind gone", false,
     true},
	{"straggler", true, false, set_straggler, "straggler=RANK:1.3x",
     "a rank slower, all but its communication", false, true},
};
const int lk_whatif_key_count = sizeof lk_whatif_keys / sizeof *lk_whatif_keys;

/* ---- reading ---- */

static lk_status unknown_key(const char *name, lk_error *err) {
	const char *names[sizeof lk_whatif_keys / sizeof *lk_whatif_keys];
	char shown[64];
	for (int k = 0; k < lk_whatif_key_count; k++) names[k] = lk_whatif_keys[k].name;
	lk_escape(name, shown, sizeof shown);
	if (lk_name_among("tp pp vp cp ep etp dp mbs gbs seq zero recompute schedule", name)) {
		lk_fail(err, LK_ERR_INPUT, "--set",
		        "'%s' belongs to the layout, which a change of a step keeps", shown);
		return lk_hint(err, "ask lockstep predict --%s, or lockstep plan", shown);
	}
	lk_fail(err, LK_ERR_INPUT, "--set", "unknown key '%s'", shown);
	const char *near = lk_nearest(name, names, (size_t)lk_whatif_key_count);
	if (near) return lk_hint(err, "did you mean %s? see lockstep help whatif", near);
	return lk_hint(err, "see lockstep help whatif for what can be set");
}

static const lk_whatif_key *keys_find_key(const char *name) {
	for (int k = 0; k < lk_whatif_key_count; k++)
		if (lk_same_name(name, lk_whatif_keys[k].name)) return &lk_whatif_keys[k];
	return NULL;
}

static lk_status keys_add(lk_arena *arena, const lk_whatif_set *set, const char *head,
                          lk_whatif_sets *out, lk_error *err) {
	if (!lk_push(out)) return lk_oom(err);
	*lk_last(out) = *set;
	lk_last(out)->text = set->value ? lk_arena_printf(arena, "%s=%s", head, set->value) : head;
	return lk_last(out)->text ? LK_OK : lk_oom(err);
}

enum { MOST_TEXT = 4096 };

/* "KEY:WHAT=VALUE": the name ends at the first ':' or '='; a name of an operation may hold ':', its
 * value not '='. */
lk_status lk_whatif_parse(lk_arena *arena, const char *text, lk_whatif_sets *out, lk_error *err) {
	lk_whatif_set set = {0};
	if (strlen(text) > MOST_TEXT)
		return lk_fail(err, LK_ERR_INPUT, "--set", "longer than %d characters", MOST_TEXT);
	char *head = lk_arena_strdup(arena, text),
		 *name = lk_arena_strndup(arena, text, strcspn(text, ":="));
	if (!head || !name) return lk_oom(err);
	set.key = keys_find_key(name);
	if (!set.key) return unknown_key(name, err);
	char *equals = set.key->what ? strrchr(head, '=') : strchr(head, '=');
	char *colon = head[strlen(name)] == ':' ? head + strlen(name) : NULL;
	if (equals) *equals = '\0';
	bool valued = equals && equals[1], named = colon && colon[1];
	if (set.key->what != named || (!valued && set.key->apply != set_remove) ||
	    (colon && !set.key->what))
		return lk_not_understood("--set", text, set.key->form, err);
	set.what = set.key->what ? colon + 1 : NULL;
	set.value = equals ? equals + 1 : NULL;
	if (!set.key->list || !strchr(set.value, ',')) return keys_add(arena, &set, head, out, err);
	for (char *rest = equals + 1, *item; (item = strsep(&rest, ","));) {
		set.value = item;
		if (!*item) return lk_not_understood("--set", text, "an empty value in the list", err);
		LK_TRY(keys_add(arena, &set, head, out, err));
	}
	return LK_OK;
}
