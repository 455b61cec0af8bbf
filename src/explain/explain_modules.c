/* explain_modules.c: the time of a step as a tree of modules: Model / DecoderLayer x 32 /
 * Attention x 32.  Calls of modules come from profilers with Python stacks and from annotations
 * (trace/capture/module_names.c). A node of the tree is a module together with its siblings that
 * differ only in a number. Device work belongs to the innermost module around its launch.
 * Gradients are launched from a thread of autograd without modules: they belong to the module of
 * the forward operation with the same sequence number, the last one of several, as in Kineto's
 * fwdbwd links. What is computed again in the backward pass calls its modules again: a call
 * without an enclosing one belongs to the node that its module has elsewhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/sort.h"
#include "base/stats.h"
#include "base/text.h"
#include "explain/explain.h"

enum {
	MOST_OPEN = 256,   /* calls in one another; deeper ones count as the last of these */
	MOST_DEPTH = 12,   /* of the tree; deeper modules, and those of more nodes, are their parents */
	MOST_NODES = 4096, /* of a rank */
	MOST_NAME = 256,
	MOST_PATH = MOST_DEPTH * MOST_NAME,
	MEMO = 1 << 12,
};

struct module_call {
	uint32_t lane, name;
	int64_t start_ns, end_ns;
};

/* A forward operation with a sequence number. */
struct forward {
	uint32_t number, event;
	int64_t start_ns;
};
LK_ORDER_BY(forwards_in_order, struct forward, number, start_ns)

/* A lane, and its longest call: the network itself on the thread of the forward pass. */
struct module_lane {
	uint32_t lane;
	size_t first, end; /* calls */
	int64_t longest_ns;
};

struct modules {
	lk_rank_work *work;
	uint8_t *form;   /* [names] 1 + lk_module_form; 0: not looked at */
	uint32_t *home;  /* [names] the node that a module was first seen in; 0 none */
	lk_intern *seen; /* modules of nodes, to count them */
	struct {
		uint32_t name, above, node;
	} memo[MEMO];
	LK_VEC(struct module_call) calls; /* by lane, start, the longest first */
	LK_VEC(struct module_lane) lanes;
	LK_VEC(struct forward) forwards;
};

static int calls_in_order(const void *a, const void *b) {
	const struct module_call *x = a, *y = b;
	if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
	if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static int lanes_in_order(const void *a, const void *b) {
	const struct module_lane *x = a, *y = b;
	if (x->longest_ns != y->longest_ns) return x->longest_ns > y->longest_ns ? -1 : 1;
	return x->lane < y->lane ? -1 : 1;
}

/* ---- calls ---- */

static lk_module_form form_of(struct modules *all, uint32_t name) {
	char own[MOST_NAME];
	if (!all->form[name]) {
		const char *text = lk_capture_text(all->work->capture, name);
		bool known = lk_host_work(text) != 0; /* loaders and the like */
		all->form[name] =
			(uint8_t)(1 + (known ? LK_MODULE_NONE : lk_module_of_name(text, own, sizeof own)));
	}
	return (lk_module_form)(all->form[name] - 1);
}

static bool add_call(struct modules *all, uint32_t lane, uint32_t name, int64_t start_ns,
                     int64_t dur_ns) {
	if (form_of(all, name) == LK_MODULE_NONE) return true;
	if (!lk_push(&all->calls)) return false;
	*lk_last(&all->calls) = (struct module_call){lane, name, start_ns, start_ns + dur_ns};
	return true;
}

static bool gather_calls(struct modules *all) {
	const lk_capture *capture = all->work->capture;
	for (size_t i = 0; i < capture->modules.count; i++) {
		const lk_module_call *call = &capture->modules.at[i];
		if (!add_call(all, call->lane, call->name, call->start_ns, call->dur_ns)) return false;
	}
	const uint8_t *kinds = capture->kind, *end = kinds + capture->count, *at = kinds;
	for (; at < end && (at = memchr(at, LK_EVENT_NOTE, (size_t)(end - at))); at++) {
		size_t i = (size_t)(at - kinds);
		if (!add_call(all, capture->lane[i], capture->name[i], capture->start_ns[i],
		              capture->dur_ns[i]))
			return false;
	}
	lk_sort(all->calls.at, all->calls.count, sizeof *all->calls.at, calls_in_order);
	return true;
}

static bool gather_lanes(struct modules *all) {
	for (size_t first = 0, end; first < all->calls.count; first = end) {
		struct module_lane lane = {all->calls.at[first].lane, first, first, 0};
		for (end = first; end < all->calls.count && all->calls.at[end].lane == lane.lane; end++) {
			int64_t ns = all->calls.at[end].end_ns - all->calls.at[end].start_ns;
			if (ns > lane.longest_ns) lane.longest_ns = ns;
		}
		lane.end = end;
		if (!lk_push(&all->lanes)) return false;
		*lk_last(&all->lanes) = lane;
	}
	lk_sort(all->lanes.at, all->lanes.count, sizeof *all->lanes.at, lanes_in_order);
	return true;
}

/* ---- nodes ---- */

static int path_depth(const char *path) {
	int depth = *path != '\0';
	for (; *path; path++) depth += *path == '/';
	return depth;
}

/* The node of `label` in node `above`, into *node; `module`: the full name of the one that is
 * called. */
static bool node_in(struct modules *all, uint32_t above, const char *label, const char *module,
                    uint32_t *node) {
	char path[MOST_PATH], member[MOST_NAME + 16];
	lk_rank_work *work = all->work;
	const char *of = lk_intern_text(work->module_paths, above), *last = strrchr(of, '/');
	last = last ? last + 1 : of;
	size_t length = strlen(last);
	/* "TransformerLayer._forward_mlp.bda" in "TransformerLayer._forward_mlp" */
	if (length && strncmp(label, last, length) == 0 && label[length] == '.') label += length + 1;
	*node = above;
	if (path_depth(of) >= MOST_DEPTH || work->modules.count >= MOST_NODES) return true;
	snprintf(path, sizeof path, "%s%s%s", of, above ? "/" : "", label);
	*node = lk_intern_id(work->module_paths, path);
	if (*node == UINT32_MAX) return false;
	if (*node == work->modules.count) {
		if (!lk_push(&work->modules)) return false;
		*lk_last(&work->modules) = (struct lk_rank_module){.above = above};
	}
	uint32_t members = lk_intern_count(all->seen);
	snprintf(member, sizeof member, "%u %s", *node, module);
	uint32_t id = lk_intern_id(all->seen, member);
	if (id == UINT32_MAX) return false;
	work->modules.at[*node].instances += id == members;
	return true;
}

/* Cut the number that distinguishes a module from its siblings: "LlamaMLP_3", "Block.3". */
static void cut_number(char *label) {
	size_t digits = strlen(label);
	while (digits > 0 && lk_is_digit(label[digits - 1])) digits--;
	if (digits > 1 && label[digits] && strchr("_.", label[digits - 1])) label[digits - 1] = '\0';
}

/* Cut the parts of a path that wrappers put in, which are no modules of the network. */
static void cut_wrappers(char *path) {
	static const char *const wrappers[] = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module",
	                                       "_orig_mod"};
	char *to = path;
	for (char *at = path, *end; *at; at = end) {
		size_t length = strcspn(at, ".");
		bool kept = true;
		for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
			kept &= strlen(wrappers[i]) != length || memcmp(at, wrappers[i], length) != 0;
		end = at + length + (at[length] == '.');
		if (!kept) continue;
		memmove(to, at, (size_t)(end - at));
		to += end - at;
	}
	if (to > path && to[-1] == '.') to--;
	*to = '\0';
}

/* A node a part; a number belongs to the part before it: model / layers.* / mlp. */
static bool node_of_path(struct modules *all, char *path, uint32_t *node) {
	*node = 0;
	cut_wrappers(path);
	for (char *at = path; *at;) {
		char label[MOST_NAME + 2], *end = at + strcspn(at, "."), *number = end + (*end == '.');
		size_t digits = strspn(number, "0123456789"), length = (size_t)(end - at);
		bool numbered = digits && number > end && (!number[digits] || number[digits] == '.');
		if (numbered) end = number + digits;
		snprintf(label, sizeof label, "%.*s%s", (int)length, at, numbered ? ".*" : "");
		char after = *end;
		*end = '\0';
		bool good = node_in(all, *node, label, path, node);
		*end = after;
		if (!good) return false;
		at = end + (after == '.');
	}
	return true;
}

/* The node of a call inside of a call of node `above`, 0 none. */
static bool node_of_call(struct modules *all, uint32_t name, uint32_t above, uint32_t *node) {
	char own[MOST_NAME], label[MOST_NAME];
	size_t at = lk_hash64((uint64_t)above << 32 | name) % MEMO;
	if (all->memo[at].node && all->memo[at].name == name && all->memo[at].above == above) {
		*node = all->memo[at].node;
		return true;
	}
	bool good;
	if (lk_module_of_name(lk_capture_text(all->work->capture, name), own, sizeof own) ==
	    LK_MODULE_PATH)
		good = node_of_path(all, own, node);
	else {
		lk_copy(label, sizeof label, own);
		cut_number(label);
		good = node_in(all, above, label, own, node);
	}
	all->memo[at].name = name;
	all->memo[at].above = above;
	all->memo[at].node = good ? *node : 0;
	return good;
}

/* ---- which module an event is in ---- */

struct open_calls {
	uint32_t node[MOST_OPEN];
	int64_t end_ns[MOST_OPEN];
	int depth;
};

static void close_calls(struct open_calls *open, int64_t until_ns) {
	while (open->depth && open->end_ns[open->depth - 1] <= until_ns) open->depth--;
}

static bool open_call(struct modules *all, struct open_calls *open,
                      const struct module_call *call) {
	lk_rank_work *work = all->work;
	uint32_t above = open->depth ? open->node[open->depth - 1] : 0;
	uint32_t node = above ? 0 : all->home[call->name];
	if (!node && !node_of_call(all, call->name, above, &node)) return false;
	if (!all->home[call->name]) all->home[call->name] = node;
	int64_t inside_ns = lk_times_between(&work->windows, call->start_ns, call->end_ns);
	if (inside_ns > 0 && node != above) {
		work->modules.at[node].calls++;
		work->modules.at[node].host_ns += (double)inside_ns;
	}
	if (open->depth == MOST_OPEN) return true;
	open->node[open->depth] = node;
	open->end_ns[open->depth++] = call->end_ns;
	return true;
}

/* Give every event of a lane its module. */
static bool place_lane(struct modules *all, const struct module_lane *of) {
	const lk_capture *capture = all->work->capture;
	const lk_lane *lane = &capture->lanes.at[of->lane];
	struct open_calls open = {.depth = 0};
	uint32_t at = lane->begin;
	for (size_t i = of->first; i <= of->end; i++) {
		int64_t next_ns = i < of->end ? all->calls.at[i].start_ns : INT64_MAX;
		for (; at < lane->end && capture->start_ns[capture->order[at]] < next_ns; at++) {
			uint32_t event = capture->order[at];
			close_calls(&open, capture->start_ns[event]);
			if (open.depth) all->work->module[event] = open.node[open.depth - 1];
		}
		if (i == of->end) break;
		close_calls(&open, next_ns);
		if (!open_call(all, &open, &all->calls.at[i])) return false;
	}
	return true;
}

static bool gather_forwards(struct modules *all) {
	const lk_capture *capture = all->work->capture;
	for (size_t i = 0; i < capture->grads.count; i++) {
		const lk_grad_note *note = &capture->grads.at[i];
		if (note->backward) continue;
		if (!lk_push(&all->forwards)) return false;
		*lk_last(&all->forwards) =
			(struct forward){note->number, note->event, capture->start_ns[note->event]};
	}
	lk_sort(all->forwards.at, all->forwards.count, sizeof *all->forwards.at, forwards_in_order);
	return true;
}

/* The module of the last forward operation of this number before a time. */
static uint32_t forward_module(const struct modules *all, uint32_t number, int64_t before_ns) {
	size_t low = 0, high = all->forwards.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct forward *at = &all->forwards.at[middle];
		if (at->number < number || (at->number == number && at->start_ns < before_ns))
			low = middle + 1;
		else high = middle;
	}
	if (!low || all->forwards.at[low - 1].number != number) return 0;
	return all->work->module[all->forwards.at[low - 1].event];
}

/* The module whose gradients a call computes, by the operations around it. */
static uint32_t gradient_module(const struct modules *all, uint32_t call) {
	const lk_capture *capture = all->work->capture;
	uint32_t at = call;
	for (int i = 0; at != LK_NONE && i < MOST_OPEN; i++, at = capture->parent[at]) {
		const lk_grad_note *note = lk_capture_grad(capture, at);
		if (note && note->backward) return forward_module(all, note->number, capture->start_ns[at]);
	}
	return 0;
}

static void place_device(struct modules *all) {
	lk_rank_work *work = all->work;
	const lk_capture *capture = work->capture;
	for (size_t i = 0; i < work->device.count; i++) {
		uint32_t event = work->device.at[i], call = capture->launch[event];
		uint32_t node = call == LK_NONE ? 0 : work->module[call];
		bool gradient = call != LK_NONE && !node && (node = gradient_module(all, call)) != 0;
		work->module[event] = node;
		if (!lk_in_windows(work, capture->start_ns[event])) continue;
		struct lk_rank_module *module = &work->modules.at[node];
		module->kernels++;
		module->time_ns += (double)capture->dur_ns[event];
		if (gradient) module->backward_ns += (double)capture->dur_ns[event];
	}
}

static lk_status modules_place(struct modules *all, lk_error *err) {
	lk_rank_work *work = all->work;
	uint32_t names = lk_intern_count(work->capture->names);
	work->module = calloc((size_t)work->capture->count + 1, sizeof *work->module);
	work->module_paths = lk_intern_new();
	all->home = calloc((size_t)names + 1, sizeof *all->home);
	all->seen = lk_intern_new();
	bool good =
		work->module && work->module_paths && all->home && all->seen && lk_push(&work->modules);
	if (good) work->modules.at[0] = (struct lk_rank_module){0}; /* outside of modules */
	good = good && gather_lanes(all) && gather_forwards(all);
	for (size_t i = 0; good && i < all->lanes.count; i++) good = place_lane(all, &all->lanes.at[i]);
	if (!good) return lk_oom(err);
	place_device(all);
	return LK_OK;
}

lk_status lk_rank_modules(lk_rank_work *work, lk_error *err) {
	struct modules *all = calloc(1, sizeof *all);
	if (!all) return lk_oom(err);
	all->work = work;
	all->form = calloc((size_t)lk_intern_count(work->capture->names) + 1, 1);
	lk_status status = all->form && gather_calls(all) ? LK_OK : lk_oom(err);
	if (status == LK_OK && all->calls.count) status = modules_place(all, err);
	free(all->form);
	free(all->home);
	lk_intern_free(all->seen);
	lk_vec_free(&all->calls);
	lk_vec_free(&all->lanes);
	lk_vec_free(&all->forwards);
	free(all);
	return status;
}

/* ---- all ranks ---- */

/* A node of all ranks, by its path. */
struct joined_module {
	uint32_t above; /* joined before it */
	double instances, calls, kernels, time_ns, own_ns, backward_ns, host_ns;
};

struct joined_modules {
	lk_intern *paths;
	LK_VEC(struct joined_module) at; /* by id of the path; 0: outside */
};

static lk_status join_rank(struct joined_modules *all, const lk_rank_work *rank, lk_error *err) {
	for (uint32_t i = 0; i < rank->modules.count; i++) {
		const struct lk_rank_module *from = &rank->modules.at[i];
		uint32_t id = lk_intern_id(all->paths, lk_intern_text(rank->module_paths, i));
		if (id == UINT32_MAX) return lk_oom(err);
		if (id == all->at.count) {
			if (!lk_push(&all->at)) return lk_oom(err);
			*lk_last(&all->at) = (struct joined_module){
				.above = lk_intern_id(all->paths, lk_intern_text(rank->module_paths, from->above))};
		}
		struct joined_module *to = &all->at.at[id];
		LK_ASSERT(to->above <= id);
		if ((double)from->instances > to->instances) to->instances = (double)from->instances;
		to->calls += (double)from->calls;
		to->kernels += (double)from->kernels;
		to->own_ns += from->time_ns;
		to->backward_ns += from->backward_ns;
		to->host_ns += from->host_ns;
	}
	return LK_OK;
}

/* Add to each node what is in it. Of a part of a path that is never called itself, the host's
 * time is that of its parts. */
static void sum_modules(struct joined_modules *all) {
	for (size_t i = all->at.count; i-- > 0;) {
		struct joined_module *module = &all->at.at[i], *above = &all->at.at[module->above];
		module->time_ns += module->own_ns;
		if (!i || !module->above) continue;
		above->time_ns += module->time_ns;
		above->kernels += module->kernels;
		above->backward_ns += module->backward_ns;
		if (!(above->calls > 0)) above->host_ns += module->host_ns;
	}
}

static int modules_by_time(const void *a, const void *b, void *context) {
	const struct joined_modules *all = context;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct joined_module *x = &all->at.at[i], *y = &all->at.at[j];
	if (!i != !j) return i ? -1 : 1; /* what is outside of modules comes last */
	if (x->above != y->above) return x->above < y->above ? -1 : 1;
	if (x->time_ns != y->time_ns) return x->time_ns > y->time_ns ? -1 : 1;
	if (x->host_ns != y->host_ns) return x->host_ns > y->host_ns ? -1 : 1;
	return strcmp(lk_intern_text(all->paths, i), lk_intern_text(all->paths, j));
}

static lk_status put_module(lk_explain_work *work, const struct joined_modules *all, uint32_t id,
                            int depth, double rank_steps, lk_error *err) {
	const struct joined_module *of = &all->at.at[id];
	const char *path = lk_intern_text(all->paths, id), *last = strrchr(path, '/');
	const char *part = last ? last + 1 : path;
	char count[32] = "";
	if (!id) part = "outside of modules";
	if (of->instances > 1) snprintf(count, sizeof count, " x %.0f", of->instances);
	work->modules[work->result.module_count++] = (lk_explain_module){
		.path = lk_arena_strdup(&work->arena, path),
		.module = lk_arena_printf(&work->arena, "%s%s", part, count),
		.depth = depth,
		.instances = of->instances,
		.calls = of->calls / rank_steps,
		.kernels = of->kernels / rank_steps,
		.time_s = of->time_ns / 1e9 / rank_steps,
		.own_s = of->own_ns / 1e9 / rank_steps,
		.backward_s = of->backward_ns / 1e9 / rank_steps,
		.host_s = of->host_ns / 1e9 / rank_steps,
		.expected_s = NAN,
	};
	const lk_explain_module *module = &work->modules[work->result.module_count - 1];
	return module->path && module->module ? LK_OK : lk_oom(err);
}

/* Write the tree, each module before those in it. `order`: siblings are neighbours, in their
 * order. */
static lk_status put_tree(lk_explain_work *work, const struct joined_modules *all,
                          const uint32_t *order, uint32_t *first, double rank_steps,
                          lk_error *err) {
	uint32_t at[MOST_DEPTH + 1] = {first[0]}, count = (uint32_t)all->at.count;
	uint32_t above[MOST_DEPTH + 1] = {0};
	for (int depth = 0;;) {
		uint32_t place = at[depth], id = place < count ? order[place] : 0;
		if (!id || all->at.at[id].above != above[depth]) {
			if (depth-- == 0) break;
			continue;
		}
		at[depth]++;
		LK_TRY(put_module(work, all, id, depth, rank_steps, err));
		if (first[id] == UINT32_MAX || depth == MOST_DEPTH) continue;
		depth++;
		at[depth] = first[id];
		above[depth] = id;
	}
	if (all->at.at[0].kernels > 0) LK_TRY(put_module(work, all, 0, 0, rank_steps, err));
	return LK_OK;
}

static lk_status write_modules(lk_explain_work *work, struct joined_modules *all, lk_error *err) {
	size_t count = all->at.count;
	double rank_steps = 0, device_s = 0, host_s = 0;
	for (int i = 0; i < work->result.rank_count; i++) rank_steps += work->result.ranks[i].steps;
	if (!count || !(rank_steps > 0)) return LK_OK;
	uint32_t *order = LK_ARRAY(&work->arena, uint32_t, count),
			 *first = LK_ARRAY(&work->arena, uint32_t, count);
	work->modules = LK_ARRAY(&work->arena, lk_explain_module, count);
	if (!order || !first || !work->modules) return lk_oom(err);
	sum_modules(all);
	for (uint32_t i = 0; i < count; i++) {
		order[i] = i;
		first[i] = UINT32_MAX; /* the place in `order` of the first module in it */
	}
	lk_sort_by(order, count, sizeof *order, modules_by_time, all);
	for (uint32_t i = (uint32_t)count; i-- > 0;)
		if (order[i]) first[all->at.at[order[i]].above] = i;
	LK_TRY(put_tree(work, all, order, first, rank_steps, err));
	for (int i = 0; i < work->result.module_count; i++) {
		device_s += work->modules[i].own_s;
		if (!work->modules[i].depth) host_s += work->modules[i].host_s;
	}
	for (int i = 0; i < work->result.module_count; i++) {
		lk_explain_module *module = &work->modules[i];
		if (device_s > 0) module->share = module->time_s / device_s;
		else module->share = host_s > 0 ? module->host_s / host_s : 0;
	}
	work->result.modules = work->modules;
	return LK_OK;
}

lk_status lk_explain_modules(lk_explain_work *work, lk_error *err) {
	struct joined_modules all = {.paths = lk_intern_new()};
	lk_status status = all.paths ? LK_OK : lk_oom(err);
	for (uint32_t r = 0; r < work->count && status == LK_OK; r++)
		if (work->rank[r].shown) status = join_rank(&all, &work->rank[r], err);
	if (status == LK_OK) status = write_modules(work, &all, err);
	lk_intern_free(all.paths);
	lk_vec_free(&all.at);
	return status;
}

/* ---- against a job ---- */

lk_status lk_explain_expect(lk_explanation *explanation, const double *expected_s, lk_error *err) {
	lk_explain_work *work = explanation->memory_owner;
	uint32_t count = (uint32_t)explanation->module_count;
	lk_intern *paths = lk_intern_new();
	double *own_s = calloc((size_t)count + 1, sizeof *own_s); /* by number of the path */
	double inside_s[MOST_DEPTH + 2] = {0};                    /* of modules below, by depth */
	bool good = paths && own_s;
	for (uint32_t i = 0; good && i < count; i++)
		good = lk_intern_id(paths, work->modules[i].path) != UINT32_MAX;
	for (int k = 0; good && k < explanation->operation_count; k++) {
		uint32_t id = lk_intern_id(paths, explanation->operations[k].module);
		good = id != UINT32_MAX;
		if (good && id <= count) own_s[id] += expected_s[k];
	}
	for (uint32_t i = count; good && i-- > 0;) {
		lk_explain_module *module = &work->modules[i];
		LK_ASSERT(module->depth >= 0 && module->depth <= MOST_DEPTH);
		module->expected_s = own_s[lk_intern_id(paths, module->path)] + inside_s[module->depth + 1];
		inside_s[module->depth + 1] = 0;
		inside_s[module->depth] += module->expected_s;
	}
	lk_intern_free(paths);
	free(own_s);
	return good ? LK_OK : lk_oom(err);
}
