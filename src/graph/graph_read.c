/* graph_read.c: a step graph from its file form (graph_file.h). The file streams through: an operation, a call is
 * stored as it is read. Whatever the file holds is a graph that lk_graph_check accepts, or an error with its place. */
#include "graph/graph_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"

struct quad {
	uint32_t at[4]; /* program, channel, program, channel */
};

struct reader {
	lk_json *json;
	lk_json_token token; /* the value at hand */
	lk_graph *graph;
	lk_error *err;
	LK_VEC(struct quad) wires;
	LK_VEC(uint32_t) deps; /* of the operation at hand */
};

/* ---- values ---- */

static lk_status next(struct reader *r) { return lk_json_next(r->json, &r->token, r->err); }

static lk_status wrong(struct reader *r, const char *what) {
	return lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "%s", what);
}

static lk_status want(struct reader *r, lk_json_token token, const char *name) {
	if (r->token == token) return LK_OK;
	return lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "%s is wanted here", name);
}

static lk_status want_integer(struct reader *r, long long low, long long high, long long *out) {
	LK_TRY(want(r, LK_JSON_NUMBER, "a whole number"));
	double x = lk_json_number(r->json);
	if (x == floor(x) && fabs(x) < 9e15 && x >= (double)low && x <= (double)high) {
		*out = (long long)x;
		return LK_OK;
	}
	return lk_parse_int(lk_json_text(r->json, NULL), low, high, out, lk_json_where(r->json), r->err);
}

static lk_status want_count(struct reader *r, uint32_t low, uint32_t high, uint32_t *out) {
	long long value;
	LK_TRY(want_integer(r, low, high, &value));
	*out = (uint32_t)value;
	return LK_OK;
}

static lk_status want_real(struct reader *r, double *out) {
	LK_TRY(want(r, LK_JSON_NUMBER, "a number"));
	*out = lk_json_number(r->json);
	if (*out >= 0 && *out <= 1e300) return LK_OK;
	wrong(r, "a number that is negative, huge or not finite");
	return lk_hint(r->err, "give a number from 0 to 1e300");
}

static lk_status want_bool(struct reader *r, bool *out) {
	*out = r->token == LK_JSON_TRUE;
	return *out ? LK_OK : want(r, LK_JSON_FALSE, "true or false");
}

static lk_status want_text(struct reader *r, uint32_t *id) {
	size_t length;
	LK_TRY(want(r, LK_JSON_STRING, "a text"));
	const char *text = lk_json_text(r->json, &length);
	if (strlen(text) != length) return wrong(r, "a text that holds a NUL character");
	*id = lk_intern_id(r->graph->names, text);
	return *id == UINT32_MAX ? lk_oom(r->err) : LK_OK;
}

/* "unknown NAME", with the nearest one or with all of them. */
static lk_status unknown(struct reader *r, const char *text, const char *const *names, size_t count) {
	char known[200];
	size_t length = 0;
	const char *near = lk_nearest(text, names, count);
	lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "unknown name \"%.64s\"", text);
	if (near) return lk_hint(r->err, "did you mean \"%s\"?", near);
	for (size_t i = 0; i < count && length < sizeof known - 1; i++)
		length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", names[i]);
	return lk_hint(r->err, "known: %s", known);
}

static lk_status want_name(struct reader *r, const char *const *names, size_t count, unsigned *out) {
	const char *text = lk_json_text(r->json, NULL);
	for (*out = 0; *out < count; ++*out)
		if (strcmp(names[*out], text) == 0) return LK_OK;
	return unknown(r, text, names, count);
}

static lk_status want_choice(struct reader *r, lk_graph_list list, unsigned *out) {
	const char *names[LK_GRAPH_NAMES];
	size_t count = lk_graph_names(list, names);
	if (list == LK_LIST_STREAM && r->token == LK_JSON_NUMBER) return want_count(r, 0, LK_STREAMS - 1, out);
	LK_TRY(want(r, LK_JSON_STRING, "a name"));
	return want_name(r, names, count, out);
}

/* ---- objects and arrays ---- */

/* Reads the value at hand, member number `key` or element number `key`, into something. */
typedef lk_status (*value_fn)(struct reader *r, void *into, unsigned key);

/* The object at hand. Members have one of `count` (at most 64) names and occur once; `needed` ones must. */
static lk_status read_object(struct reader *r, const char *const *keys, size_t count, uint64_t needed, value_fn value,
							 void *into) {
	uint64_t seen = 0;
	LK_TRY(want(r, LK_JSON_OBJECT, "an object"));
	for (;;) {
		unsigned key;
		LK_TRY(next(r));
		if (r->token == LK_JSON_OBJECT_END) break;
		LK_TRY(want_name(r, keys, count, &key));
		if (seen >> key & 1)
			return lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "\"%s\" stands twice", keys[key]);
		seen |= (uint64_t)1 << key;
		LK_TRY(next(r));
		LK_TRY(value(r, into, key));
	}
	for (size_t i = 0; i < count; i++)
		if ((needed & ~seen) >> i & 1)
			return lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "\"%s\" is missing", keys[i]);
	return LK_OK;
}

static lk_status read_array(struct reader *r, value_fn value, void *into, unsigned least, unsigned most) {
	LK_TRY(want(r, LK_JSON_ARRAY, "an array"));
	for (unsigned i = 0;; i++) {
		LK_TRY(next(r));
		if (r->token == LK_JSON_ARRAY_END && i >= least) return LK_OK;
		if (r->token == LK_JSON_ARRAY_END || i >= most)
			return lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "%u to %u elements are wanted here", least,
						   most);
		LK_TRY(value(r, into, i));
	}
}

/* ---- ranks and facts ---- */

static lk_status group_value(struct reader *r, void *into, unsigned i) {
	uint32_t *pair = into;
	return want_count(r, 1, UINT32_MAX, &pair[i]);
}

static lk_status group_member(struct reader *r, void *into, unsigned group) {
	lk_ranks *ranks = into;
	uint32_t pair[2];
	LK_TRY(read_array(r, group_value, pair, 2, 2));
	ranks->group[group].size = pair[0];
	ranks->group[group].stride = pair[1];
	return LK_OK;
}

static lk_status ranks_member(struct reader *r, void *into, unsigned key) {
	lk_ranks *ranks = into;
	const char *names[LK_GRAPH_NAMES];
	switch (key) {
	case 0: return want_count(r, 1, INT32_MAX, &ranks->world);
	case 1: return want_count(r, 1, INT32_MAX, &ranks->stages);
	case 2: return want_count(r, 1, INT32_MAX, &ranks->chains);
	default: return read_object(r, names, lk_graph_names(LK_LIST_GROUP, names), 0, group_member, ranks);
	}
}

static lk_status facts_member(struct reader *r, void *into, unsigned key) {
	lk_graph *graph = into;
	switch (key) {
	case 0: return want_real(r, &graph->model_flops);
	case 1: return want_real(r, &graph->tokens);
	case 2: return want_real(r, &graph->samples);
	default: return want_choice(r, LK_LIST_DTYPE, &graph->peak_dtype);
	}
}

/* ---- blocks ---- */

static lk_status dep_value(struct reader *r, void *into, unsigned i) {
	(void)into, (void)i;
	uint32_t dep;
	LK_TRY(want_count(r, 0, INT32_MAX, &dep));
	if (!lk_push(&r->deps)) return lk_oom(r->err);
	*lk_last(&r->deps) = dep;
	return LK_OK;
}

struct set {
	lk_graph_list list;
	unsigned bits;
};

static lk_status set_value(struct reader *r, void *into, unsigned i) {
	(void)i;
	struct set *all = into;
	unsigned bit;
	LK_TRY(want_choice(r, all->list, &bit));
	all->bits |= 1u << bit;
	return LK_OK;
}

static lk_status read_set(struct reader *r, const lk_graph_field *field, void *at) {
	struct set all = {.list = field->list};
	LK_TRY(read_array(r, set_value, &all, 0, UINT16_MAX));
	if (field->high == UINT32_MAX) *(uint32_t *)at = all.bits;
	else *(uint8_t *)at = (uint8_t)all.bits;
	return LK_OK;
}

static lk_status read_integer(struct reader *r, const lk_graph_field *field, void *at) {
	long long value;
	bool byte = field->form == LK_FORM_BYTE, channel = field->form == LK_FORM_CHANNEL;
	LK_TRY(want_integer(r, 0, byte ? (long long)field->high : channel ? INT32_MAX : INT64_MAX, &value));
	if (byte) *(uint8_t *)at = (uint8_t)value;
	else if (channel) *(int32_t *)at = (int32_t)value;
	else *(int64_t *)at = value;
	return LK_OK;
}

static lk_status op_member(struct reader *r, void *into, unsigned key) {
	const lk_graph_field *field = &lk_graph_fields[key];
	void *at = (char *)into + field->offset;
	unsigned value;
	switch (field->form) {
	case LK_FORM_TEXT:
		LK_TRY(want_text(r, &value));
		*(const char **)at = lk_intern_text(r->graph->names, value);
		return LK_OK;
	case LK_FORM_CHOICE:
		LK_TRY(want_choice(r, field->list, &value));
		*(uint8_t *)at = (uint8_t)value;
		return LK_OK;
	case LK_FORM_REAL: return want_real(r, at);
	case LK_FORM_SET: return read_set(r, field, at);
	case LK_FORM_DEPS: return read_array(r, dep_value, NULL, 0, INT32_MAX);
	default: return read_integer(r, field, at);
	}
}

static lk_status op_value(struct reader *r, void *into, unsigned i) {
	(void)into, (void)i;
	const char *keys[LK_GRAPH_FIELDS];
	uint64_t needed = 0;
	lk_op op = {0};
	for (size_t f = 0; f < LK_GRAPH_FIELDS; f++) {
		keys[f] = lk_graph_fields[f].name;
		if (lk_graph_fields[f].always) needed |= (uint64_t)1 << f;
	}
	r->deps.count = 0;
	LK_TRY(read_object(r, keys, LK_GRAPH_FIELDS, needed, op_member, &op));
	op.deps = r->deps.at;
	op.dep_count = (uint32_t)r->deps.count;
	lk_graph_add(r->graph, &op);
	return r->graph->failed ? lk_oom(r->err) : LK_OK;
}

static lk_status block_member(struct reader *r, void *into, unsigned key) {
	(void)into;
	if (key == 0) return want_text(r, &lk_last(&r->graph->blocks)->name);
	return read_array(r, op_value, NULL, 0, UINT32_MAX);
}

static lk_status block_value(struct reader *r, void *into, unsigned i) {
	(void)into, (void)i;
	static const char *const keys[] = {"name", "operations"};
	uint32_t id;
	lk_graph_begin_block(r->graph, "");
	if (r->graph->failed) return lk_oom(r->err);
	LK_TRY(read_object(r, keys, 2, 3, block_member, NULL));
	return lk_graph_end_block(r->graph, &id, r->err);
}

/* ---- programs ---- */

static lk_status call_field(struct reader *r, void *into, unsigned i) {
	lk_call *call = into;
	long long value;
	unsigned pass;
	switch (i) {
	case 0: return want_count(r, 0, UINT32_MAX, &call->block);
	case 1: return want_count(r, 1, UINT32_MAX, &call->repeat);
	case 5:
		LK_TRY(want_choice(r, LK_LIST_PHASE, &pass));
		call->pass = (uint8_t)pass;
		return LK_OK;
	default: break;
	}
	bool tag = i == 2 || i == 3;
	LK_TRY(want_integer(r, tag ? -1 : 0, tag ? INT32_MAX : i == 4 ? UINT8_MAX : UINT16_MAX, &value));
	if (i == 2) call->microbatch = (int32_t)value;
	else if (i == 3) call->layer = (int32_t)value;
	else if (i == 4) call->chunk = (uint8_t)value;
	else call->arg[i - 6] = (uint16_t)value;
	return LK_OK;
}

static lk_status call_value(struct reader *r, void *into, unsigned i) {
	(void)i;
	lk_program *program = into;
	lk_call call = {0};
	LK_TRY(read_array(r, call_field, &call, 6, 8));
	if (!lk_push(&program->calls)) return lk_oom(r->err);
	*lk_last(&program->calls) = call;
	return LK_OK;
}

static lk_status resident_member(struct reader *r, void *into, unsigned owner) {
	lk_program *program = into;
	return want_real(r, &program->resident[owner]);
}

struct named_stream {
	uint32_t stream, name;
	bool thread;
};

static lk_status stream_member(struct reader *r, void *into, unsigned key) {
	struct named_stream *named = into;
	switch (key) {
	case 0: return want_choice(r, LK_LIST_STREAM, &named->stream);
	case 1: return want_text(r, &named->name);
	default: return want_bool(r, &named->thread);
	}
}

static lk_status stream_value(struct reader *r, void *into, unsigned i) {
	(void)i;
	static const char *const keys[] = {"stream", "name", "thread"};
	lk_program *program = into;
	struct named_stream named = {0};
	LK_TRY(read_object(r, keys, 3, 1 | 2, stream_member, &named));
	if (program->stream_names[named.stream] || (program->threads >> named.stream & 1))
		return wrong(r, "this stream has a name already");
	program->stream_names[named.stream] = named.name;
	if (named.thread) program->threads |= LK_JOIN(named.stream);
	return LK_OK;
}

static lk_status program_member(struct reader *r, void *into, unsigned key) {
	lk_program *program = into;
	const char *names[LK_GRAPH_NAMES];
	switch (key) {
	case 0: return want_text(r, &program->name);
	case 1: return want_count(r, 0, INT32_MAX, &program->stage);
	case 2: return want_count(r, 0, LK_GRAPH_CHANNELS, &program->channels);
	case 3: return want_count(r, 0, UINT16_MAX + 1, &program->events);
	case 4: return read_object(r, names, lk_graph_names(LK_LIST_OWNER, names), 0, resident_member, program);
	case 5: return read_array(r, call_value, program, 0, UINT32_MAX);
	default: return read_array(r, stream_value, program, 0, LK_STREAMS);
	}
}

static lk_status program_value(struct reader *r, void *into, unsigned i) {
	(void)into, (void)i;
	static const char *const keys[] = {"name", "stage", "channels", "events", "resident", "calls", "streams"};
	if (!lk_push(&r->graph->programs)) return lk_oom(r->err);
	return read_object(r, keys, 7, 1 | 2 | 32, program_member, lk_last(&r->graph->programs));
}

/* ---- wires ---- */

static lk_status wire_field(struct reader *r, void *into, unsigned i) {
	struct quad *wire = into;
	return want_count(r, 0, INT32_MAX, &wire->at[i]);
}

static lk_status wire_value(struct reader *r, void *into, unsigned i) {
	(void)into, (void)i;
	if (!lk_push(&r->wires)) return lk_oom(r->err);
	return read_array(r, wire_field, lk_last(&r->wires), 4, 4);
}

/* ---- teams ---- */

static lk_status team_stage(struct reader *r, void *into, unsigned i) {
	(void)into, (void)i;
	uint32_t stage;
	LK_TRY(want_count(r, 0, INT32_MAX, &stage));
	if (!lk_push(&r->graph->team_stages)) return lk_oom(r->err);
	*lk_last(&r->graph->team_stages) = stage;
	return LK_OK;
}

static lk_status team_member(struct reader *r, void *into, unsigned key) {
	(void)into;
	lk_team *team = lk_last(&r->graph->teams);
	switch (key) {
	case 0: return want_text(r, &team->name);
	case 1: return read_array(r, team_stage, NULL, 1, LK_GRAPH_WIRES);
	case 2: return want_count(r, 1, INT32_MAX, &team->ranks);
	default: return want_bool(r, &team->across);
	}
}

static lk_status team_value(struct reader *r, void *into, unsigned i) {
	(void)into, (void)i;
	static const char *const keys[] = {"name", "members", "ranks", "across"};
	lk_graph *graph = r->graph;
	uint32_t begin = (uint32_t)graph->team_stages.count;
	if (!lk_push(&graph->teams)) return lk_oom(r->err);
	LK_TRY(read_object(r, keys, 4, 1 | 2 | 4, team_member, NULL));
	lk_last(&graph->teams)->begin = begin;
	lk_last(&graph->teams)->end = (uint32_t)graph->team_stages.count;
	return LK_OK;
}

/* When all programs are known. */
static lk_status lay_wires(struct reader *r, const char *file) {
	lk_graph *graph = r->graph;
	size_t count = graph->programs.count * (size_t)graph->channels;
	if (count > LK_GRAPH_WIRES)
		return lk_fail(r->err, LK_ERR_INPUT, file, "%zu programs of %u channels: at most %d wires are read",
					   graph->programs.count, graph->channels, LK_GRAPH_WIRES);
	if (!lk_reserve(&graph->wires, count)) return lk_oom(r->err);
	for (size_t i = 0; i < count; i++) graph->wires.at[i] = (lk_wire){UINT32_MAX, UINT32_MAX};
	graph->wires.count = count;
	for (size_t i = 0; i < r->wires.count; i++) {
		const uint32_t *w = r->wires.at[i].at;
		for (int end = 0; end < 4; end += 2) {
			if (w[end] >= graph->programs.count || w[end + 1] >= graph->channels)
				return lk_fail(r->err, LK_ERR_INPUT, file, "wire %zu: no channel %u of program %u", i, w[end + 1],
							   w[end]);
			if (graph->wires.at[(size_t)w[end] * graph->channels + w[end + 1]].stage != UINT32_MAX)
				return lk_fail(r->err, LK_ERR_INPUT, file, "wire %zu: channel %u of program %u has a wire already", i,
							   w[end + 1], w[end]);
		}
		lk_graph_wire(graph, w[0], w[1], w[2], w[3]);
	}
	return LK_OK;
}

/* ---- the whole ---- */

static lk_status top_member(struct reader *r, void *into, unsigned key) {
	(void)into;
	static const char *const ranks[] = {"world", "stages", "chains", "groups"};
	static const char *const facts[] = {"model_flops", "tokens", "samples", "peak_dtype"};
	uint32_t version;
	switch (key) {
	case 0:
		LK_TRY(want_count(r, 1, INT32_MAX, &version));
		if (version == LK_GRAPH_VERSION) return LK_OK;
		lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "a step graph of version %u", version);
		return lk_hint(r->err, "this program reads version %d: write the graph again with --graph", LK_GRAPH_VERSION);
	case 1: return read_object(r, ranks, 4, 7, ranks_member, &r->graph->ranks);
	case 2: return read_object(r, facts, 4, 0, facts_member, r->graph);
	case 3: return want_count(r, 0, LK_GRAPH_CHANNELS, &r->graph->channels);
	case 4: return read_array(r, block_value, NULL, 0, UINT32_MAX);
	case 5: return read_array(r, program_value, NULL, 0, LK_GRAPH_WIRES);
	case 6: return read_array(r, wire_value, NULL, 0, LK_GRAPH_WIRES);
	case 7: return read_array(r, team_value, NULL, 0, LK_GRAPH_WIRES);
	default: return want_bool(r, &r->graph->traced);
	}
}

/* The version is the first member, so that another file is recognised at once. */
static lk_status first_member(struct reader *r) {
	LK_TRY(next(r));
	if (r->token == LK_JSON_OBJECT) LK_TRY(next(r));
	if (r->token == LK_JSON_KEY && strcmp(lk_json_text(r->json, NULL), "lockstep_graph") == 0) {
		LK_TRY(next(r));
		return top_member(r, NULL, 0);
	}
	wrong(r, "this is no step graph: its first member is not \"lockstep_graph\"");
	return lk_hint(r->err, "give a file that --graph has written");
}

static lk_status read_top(struct reader *r) {
	static const char *const keys[] = {"lockstep_graph", "ranks", "facts", "channels", "blocks", "programs", "wires",
	                                   "teams", "traced"};
	LK_TRY(first_member(r));
	r->token = LK_JSON_OBJECT; /* its first member is read */
	LK_TRY(read_object(r, keys, 9, 2 | 16 | 32, top_member, NULL));
	return next(r); /* nothing follows */
}

static lk_status read_checked(struct reader *r, const char *file) {
	LK_TRY(read_top(r));
	LK_TRY(lay_wires(r, file));
	lk_status status = lk_graph_check(r->graph, r->err);
	if (status != LK_OK && status != LK_ERR_MEMORY && r->err) {
		char where[sizeof r->err->where];
		int length = snprintf(where, sizeof where, "%.80s: ", file);
		lk_copy(where + length, sizeof where - (size_t)length, r->err->where);
		lk_copy(r->err->where, sizeof r->err->where, where);
	}
	return status;
}

lk_status lk_graph_read_stream(lk_stream *in, lk_graph **out, lk_error *err) {
	struct reader r = {.json = lk_json_open(in), .graph = lk_graph_new(), .err = err};
	lk_status status = r.json && r.graph ? read_checked(&r, lk_stream_name(in)) : lk_oom(err);
	lk_json_close(r.json);
	lk_vec_free(&r.wires);
	lk_vec_free(&r.deps);
	*out = status == LK_OK ? r.graph : NULL;
	if (status != LK_OK) lk_graph_free(r.graph);
	return status;
}

lk_status lk_graph_read(const char *path, lk_graph **out, lk_error *err) {
	lk_stream *in;
	*out = NULL;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_graph_read_stream(in, out, err);
	lk_stream_close(in);
	return status;
}
