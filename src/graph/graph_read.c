/* graph_read.c: a step graph from its file form (graph_fields.c). The file is streamed: operations
 * and calls are stored as they are read. The result is a graph that lk_graph_check accepts, or an
 * error with its place. */
#include "graph/graph_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "base/noun.h"

struct quad {
	uint32_t at[4]; /* program, channel, program, channel */
};

struct reader {
	lk_json *json;
	lk_json_token token; /* the current value */
	lk_graph *graph;
	lk_error *err;
	LK_VEC(struct quad) wires;
	LK_VEC(uint32_t) deps; /* of the current operation */
};

/* ---- values ---- */

static lk_status graph_read_next(struct reader *reader) {
	return lk_json_next(reader->json, &reader->token, reader->err);
}

static lk_status graph_read_wrong(struct reader *reader, const char *what) {
	return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(reader->json), "%s", what);
}

static lk_status want(struct reader *reader, lk_json_token token, const char *name) {
	if (reader->token == token) return LK_OK;
	return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(reader->json), "%s is wanted here",
	               name);
}

static lk_status want_integer(struct reader *reader, long long low, long long high,
                              long long *out) {
	LK_TRY(want(reader, LK_JSON_NUMBER, "a whole number"));
	double x = lk_json_number(reader->json);
	if (x == floor(x) && fabs(x) < 9e15 && x >= (double)low && x <= (double)high) {
		*out = (long long)x;
		return LK_OK;
	}
	return lk_parse_int(lk_json_text(reader->json, NULL), low, high, out,
	                    lk_json_where(reader->json), reader->err);
}

static lk_status want_count(struct reader *reader, uint32_t low, uint32_t high, uint32_t *out) {
	long long value;
	LK_TRY(want_integer(reader, low, high, &value));
	*out = (uint32_t)value;
	return LK_OK;
}

static lk_status want_real(struct reader *reader, double *out) {
	LK_TRY(want(reader, LK_JSON_NUMBER, "a number"));
	*out = lk_json_number(reader->json);
	if (*out >= 0 && *out <= 1e300) return LK_OK;
	graph_read_wrong(reader, "a number that is negative, huge or not finite");
	return lk_hint(reader->err, "give a number from 0 to 1e300");
}

static lk_status want_bool(struct reader *reader, bool *out) {
	*out = reader->token == LK_JSON_TRUE;
	return *out ? LK_OK : want(reader, LK_JSON_FALSE, "true or false");
}

static lk_status want_text(struct reader *reader, uint32_t *id) {
	size_t length;
	LK_TRY(want(reader, LK_JSON_STRING, "a text"));
	const char *text = lk_json_text(reader->json, &length);
	if (strlen(text) != length)
		return graph_read_wrong(reader, "a text that holds a NUL character");
	*id = lk_intern_id(reader->graph->names, text);
	return *id == UINT32_MAX ? lk_oom(reader->err) : LK_OK;
}

/* "unknown NAME", with the nearest one or with all of them. */
static lk_status graph_read_unknown(struct reader *reader, const char *text,
                                    const char *const *names, size_t count) {
	char known[200];
	lk_text list = lk_text_begin(known, sizeof known);
	const char *near = lk_nearest(text, names, count);
	lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(reader->json), "unknown name \"%.64s\"", text);
	if (near) return lk_hint(reader->err, "did you mean \"%s\"?", near);
	for (size_t i = 0; i < count; i++) lk_text_add(&list, "%s%s", i ? ", " : "", names[i]);
	return lk_hint(reader->err, "known: %s", known);
}

static lk_status want_name(struct reader *reader, const char *const *names, size_t count,
                           unsigned *out) {
	const char *text = lk_json_text(reader->json, NULL);
	for (*out = 0; *out < count; ++*out)
		if (strcmp(names[*out], text) == 0) return LK_OK;
	return graph_read_unknown(reader, text, names, count);
}

static lk_status want_choice(struct reader *reader, lk_graph_list list, unsigned *out) {
	const char *names[LK_GRAPH_NAMES];
	size_t count = lk_graph_names(list, names);
	if (list == LK_LIST_STREAM && reader->token == LK_JSON_NUMBER)
		return want_count(reader, 0, LK_STREAMS - 1, out);
	LK_TRY(want(reader, LK_JSON_STRING, "a name"));
	return want_name(reader, names, count, out);
}

/* ---- objects and arrays ---- */

/* Read the current value, member number `key` or element number `key`, into something. */
typedef lk_status (*value_fn)(struct reader *r, void *into, unsigned key);

/* Read the current object. Members have one of `count` (at most 64) names and occur once; `needed`
 * ones must occur. */
static lk_status graph_read_object(struct reader *reader, const char *const *keys, size_t count,
                                   uint64_t needed, value_fn value, void *into) {
	uint64_t seen = 0;
	LK_TRY(want(reader, LK_JSON_OBJECT, "an object"));
	for (;;) {
		unsigned key;
		LK_TRY(graph_read_next(reader));
		if (reader->token == LK_JSON_OBJECT_END) break;
		LK_TRY(want_name(reader, keys, count, &key));
		if (seen >> key & 1)
			return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(reader->json),
			               "\"%s\" occurs twice", keys[key]);
		seen |= (uint64_t)1 << key;
		LK_TRY(graph_read_next(reader));
		LK_TRY(value(reader, into, key));
	}
	for (size_t i = 0; i < count; i++)
		if ((needed & ~seen) >> i & 1)
			return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(reader->json),
			               "\"%s\" is missing", keys[i]);
	return LK_OK;
}

static lk_status read_array(struct reader *reader, value_fn value, void *into, unsigned least,
                            unsigned most) {
	LK_TRY(want(reader, LK_JSON_ARRAY, "an array"));
	for (unsigned i = 0;; i++) {
		LK_TRY(graph_read_next(reader));
		if (reader->token == LK_JSON_ARRAY_END && i >= least) return LK_OK;
		if (reader->token == LK_JSON_ARRAY_END || i >= most)
			return lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(reader->json),
			               "%u to %u elements are wanted here", least, most);
		LK_TRY(value(reader, into, i));
	}
}

/* ---- ranks and facts ---- */

static lk_status group_value(struct reader *reader, void *into, unsigned i) {
	uint32_t *pair = into;
	return want_count(reader, 1, UINT32_MAX, &pair[i]);
}

static lk_status group_member(struct reader *reader, void *into, unsigned group) {
	lk_ranks *ranks = into;
	uint32_t pair[2];
	LK_TRY(read_array(reader, group_value, pair, 2, 2));
	ranks->group[group].size = pair[0];
	ranks->group[group].stride = pair[1];
	return LK_OK;
}

static lk_status ranks_member(struct reader *reader, void *into, unsigned key) {
	lk_ranks *ranks = into;
	const char *names[LK_GRAPH_NAMES];
	switch (key) {
	case 0: return want_count(reader, 1, INT32_MAX, &ranks->world);
	case 1: return want_count(reader, 1, INT32_MAX, &ranks->stages);
	case 2: return want_count(reader, 1, INT32_MAX, &ranks->chains);
	default:
		return graph_read_object(reader, names, lk_graph_names(LK_LIST_GROUP, names), 0,
		                         group_member, ranks);
	}
}

static lk_status facts_member(struct reader *reader, void *into, unsigned key) {
	lk_graph *graph = into;
	switch (key) {
	case 0: return want_real(reader, &graph->model_flops);
	case 1: return want_real(reader, &graph->tokens);
	case 2: return want_real(reader, &graph->samples);
	case 3: return want_choice(reader, LK_LIST_DTYPE, &graph->peak_dtype);
	case 4: return want_text(reader, &graph->software.stack);
	case 5: return want_text(reader, &graph->software.release);
	case 6: return want_bool(reader, &graph->software.cuda_graphs);
	case 7: return want_bool(reader, &graph->software.graph_experts);
	case 8: return want_bool(reader, &graph->software.compiled);
	case 9: return want_bool(reader, &graph->software.streaming);
	case 10: return want_choice(reader, LK_LIST_ATTENTION, &graph->software.attention);
	case 11: return want_bool(reader, &graph->software.recipes);
	default: return want_text(reader, &graph->cluster);
	}
}

/* ---- blocks ---- */

static lk_status dep_value(struct reader *reader, void *into, unsigned i) {
	(void)into;
	(void)i;
	uint32_t dep;
	LK_TRY(want_count(reader, 0, INT32_MAX, &dep));
	if (!lk_push(&reader->deps)) return lk_oom(reader->err);
	*lk_last(&reader->deps) = dep;
	return LK_OK;
}

struct set {
	lk_graph_list list;
	unsigned bits;
};

static lk_status graph_read_set_value(struct reader *reader, void *into, unsigned i) {
	(void)i;
	struct set *all = into;
	unsigned bit;
	LK_TRY(want_choice(reader, all->list, &bit));
	all->bits |= 1u << bit;
	return LK_OK;
}

static lk_status graph_read_set(struct reader *reader, const lk_graph_field *field, void *at) {
	struct set all = {.list = field->list};
	LK_TRY(read_array(reader, graph_read_set_value, &all, 0, UINT16_MAX));
	if (field->high == UINT32_MAX) *(uint32_t *)at = all.bits;
	else *(uint8_t *)at = (uint8_t)all.bits;
	return LK_OK;
}

static lk_status read_integer(struct reader *reader, const lk_graph_field *field, void *at) {
	long long value;
	bool byte = field->form == LK_FORM_BYTE, channel = field->form == LK_FORM_CHANNEL;
	long long most = INT64_MAX;
	if (byte) most = field->high;
	if (channel) most = INT32_MAX;
	LK_TRY(want_integer(reader, 0, most, &value));
	if (byte) *(uint8_t *)at = (uint8_t)value;
	else if (channel) *(int32_t *)at = (int32_t)value;
	else *(int64_t *)at = value;
	return LK_OK;
}

static lk_status op_member(struct reader *reader, void *into, unsigned key) {
	const lk_graph_field *field = &lk_graph_fields[key];
	void *at = (char *)into + field->offset;
	unsigned value;
	switch (field->form) {
	case LK_FORM_TEXT:
		LK_TRY(want_text(reader, &value));
		*(const char **)at = lk_intern_text(reader->graph->names, value);
		return LK_OK;
	case LK_FORM_CHOICE:
		LK_TRY(want_choice(reader, field->list, &value));
		*(uint8_t *)at = (uint8_t)value;
		return LK_OK;
	case LK_FORM_REAL: return want_real(reader, at);
	case LK_FORM_SET: return graph_read_set(reader, field, at);
	case LK_FORM_DEPS: return read_array(reader, dep_value, NULL, 0, INT32_MAX);
	default: return read_integer(reader, field, at);
	}
}

static lk_status op_value(struct reader *reader, void *into, unsigned i) {
	(void)into;
	(void)i;
	const char *keys[LK_GRAPH_FIELDS];
	uint64_t needed = 0;
	lk_op op = {0};
	for (size_t f = 0; f < LK_GRAPH_FIELDS; f++) {
		keys[f] = lk_graph_fields[f].name;
		if (lk_graph_fields[f].always) needed |= (uint64_t)1 << f;
	}
	reader->deps.count = 0;
	LK_TRY(graph_read_object(reader, keys, LK_GRAPH_FIELDS, needed, op_member, &op));
	op.deps = reader->deps.at;
	op.dep_count = (uint32_t)reader->deps.count;
	lk_graph_add(reader->graph, &op);
	return reader->graph->failed ? lk_oom(reader->err) : LK_OK;
}

static lk_status block_member(struct reader *reader, void *into, unsigned key) {
	(void)into;
	if (key == 0) return want_text(reader, &lk_last(&reader->graph->blocks)->name);
	return read_array(reader, op_value, NULL, 0, UINT32_MAX);
}

static lk_status block_value(struct reader *reader, void *into, unsigned i) {
	(void)into;
	(void)i;
	static const char *const keys[] = {"name", "operations"};
	uint32_t id;
	lk_graph_begin_block(reader->graph, "");
	if (reader->graph->failed) return lk_oom(reader->err);
	LK_TRY(graph_read_object(reader, keys, 2, 3, block_member, NULL));
	return lk_graph_end_block(reader->graph, &id, reader->err);
}

/* ---- programs ---- */

static lk_status call_field(struct reader *reader, void *into, unsigned i) {
	lk_call *call = into;
	long long value;
	unsigned pass;
	switch (i) {
	case 0: return want_count(reader, 0, UINT32_MAX, &call->block);
	case 1: return want_count(reader, 1, UINT32_MAX, &call->repeat);
	case 5:
		LK_TRY(want_choice(reader, LK_LIST_PHASE, &pass));
		call->pass = (uint8_t)pass;
		return LK_OK;
	default: break;
	}
	if (i == 2 || i == 3) LK_TRY(want_integer(reader, -1, INT32_MAX, &value));
	else LK_TRY(want_integer(reader, 0, i == 4 ? UINT8_MAX : UINT16_MAX, &value));
	if (i == 2) call->microbatch = (int32_t)value;
	else if (i == 3) call->layer = (int32_t)value;
	else if (i == 4) call->chunk = (uint8_t)value;
	else call->arg[i - 6] = (uint16_t)value;
	return LK_OK;
}

static lk_status call_value(struct reader *reader, void *into, unsigned i) {
	(void)i;
	lk_program *program = into;
	lk_call call = {0};
	LK_TRY(read_array(reader, call_field, &call, 6, 8));
	if (!lk_push(&program->calls)) return lk_oom(reader->err);
	*lk_last(&program->calls) = call;
	return LK_OK;
}

static lk_status resident_member(struct reader *reader, void *into, unsigned owner) {
	lk_program *program = into;
	return want_real(reader, &program->resident[owner]);
}

struct named_stream {
	uint32_t stream, name;
	bool thread;
};

static lk_status stream_member(struct reader *reader, void *into, unsigned key) {
	struct named_stream *named = into;
	switch (key) {
	case 0: return want_choice(reader, LK_LIST_STREAM, &named->stream);
	case 1: return want_text(reader, &named->name);
	default: return want_bool(reader, &named->thread);
	}
}

static lk_status stream_value(struct reader *reader, void *into, unsigned i) {
	(void)i;
	static const char *const keys[] = {"stream", "name", "thread"};
	lk_program *program = into;
	struct named_stream named = {0};
	LK_TRY(graph_read_object(reader, keys, 3, 1 | 2, stream_member, &named));
	if (program->stream_names[named.stream] || (program->threads >> named.stream & 1))
		return graph_read_wrong(reader, "this stream has a name already");
	program->stream_names[named.stream] = named.name;
	if (named.thread) program->threads |= LK_JOIN(named.stream);
	return LK_OK;
}

static lk_status program_member(struct reader *reader, void *into, unsigned key) {
	lk_program *program = into;
	const char *names[LK_GRAPH_NAMES];
	switch (key) {
	case 0: return want_text(reader, &program->name);
	case 1: return want_count(reader, 0, INT32_MAX, &program->stage);
	case 2: return want_count(reader, 0, LK_GRAPH_CHANNELS, &program->channels);
	case 3: return want_count(reader, 0, UINT16_MAX + 1, &program->events);
	case 4:
		return graph_read_object(reader, names, lk_graph_names(LK_LIST_OWNER, names), 0,
		                         resident_member, program);
	case 5: return read_array(reader, call_value, program, 0, UINT32_MAX);
	case 6: return read_array(reader, stream_value, program, 0, LK_STREAMS);
	case 7: return want_real(reader, &program->updated);
	case 8: return want_bool(reader, &program->reduces);
	case 9: return want_bool(reader, &program->takes_slices);
	default: return want_bool(reader, &program->leaves_slices);
	}
}

static lk_status program_value(struct reader *reader, void *into, unsigned i) {
	(void)into;
	(void)i;
	static const char *const keys[] = {"name",     "stage",        "channels",     "events",
	                                   "resident", "calls",        "streams",      "updated",
	                                   "reduces",  "takes_slices", "leaves_slices"};
	if (!lk_push(&reader->graph->programs)) return lk_oom(reader->err);
	return graph_read_object(reader, keys, 11, 1 | 2 | 32, program_member,
	                         lk_last(&reader->graph->programs));
}

/* ---- wires ---- */

static lk_status wire_field(struct reader *reader, void *into, unsigned i) {
	struct quad *wire = into;
	return want_count(reader, 0, INT32_MAX, &wire->at[i]);
}

static lk_status wire_value(struct reader *reader, void *into, unsigned i) {
	(void)into;
	(void)i;
	if (!lk_push(&reader->wires)) return lk_oom(reader->err);
	return read_array(reader, wire_field, lk_last(&reader->wires), 4, 4);
}

/* ---- teams ---- */

static lk_status team_stage(struct reader *reader, void *into, unsigned i) {
	(void)into;
	(void)i;
	uint32_t stage;
	LK_TRY(want_count(reader, 0, INT32_MAX, &stage));
	if (!lk_push(&reader->graph->team_stages)) return lk_oom(reader->err);
	*lk_last(&reader->graph->team_stages) = stage;
	return LK_OK;
}

static lk_status team_member(struct reader *reader, void *into, unsigned key) {
	(void)into;
	lk_team *team = lk_last(&reader->graph->teams);
	switch (key) {
	case 0: return want_text(reader, &team->name);
	case 1: return read_array(reader, team_stage, NULL, 1, LK_GRAPH_WIRES);
	case 2: return want_count(reader, 1, INT32_MAX, &team->ranks);
	default: return want_bool(reader, &team->across);
	}
}

static lk_status team_value(struct reader *reader, void *into, unsigned i) {
	(void)into;
	(void)i;
	static const char *const keys[] = {"name", "members", "ranks", "across"};
	lk_graph *graph = reader->graph;
	uint32_t begin = (uint32_t)graph->team_stages.count;
	if (!lk_push(&graph->teams)) return lk_oom(reader->err);
	LK_TRY(graph_read_object(reader, keys, 4, 1 | 2 | 4, team_member, NULL));
	lk_last(&graph->teams)->begin = begin;
	lk_last(&graph->teams)->end = (uint32_t)graph->team_stages.count;
	return LK_OK;
}

/* Once all programs are known. */
static lk_status lay_wires(struct reader *reader, const char *file) {
	lk_graph *graph = reader->graph;
	size_t count = graph->programs.count * (size_t)graph->channels;
	if (count > LK_GRAPH_WIRES)
		return lk_fail(reader->err, LK_ERR_INPUT, file,
		               "%zu %s of %u %s: at most %d wires are read", graph->programs.count,
		               lk_noun(graph->programs.count, "program", "programs"), graph->channels,
		               lk_noun(graph->channels, "channel", "channels"), LK_GRAPH_WIRES);
	if (!lk_reserve(&graph->wires, count)) return lk_oom(reader->err);
	for (size_t i = 0; i < count; i++) graph->wires.at[i] = (lk_wire){UINT32_MAX, UINT32_MAX};
	graph->wires.count = count;
	for (size_t i = 0; i < reader->wires.count; i++) {
		const uint32_t *w = reader->wires.at[i].at;
		for (int end = 0; end < 4; end += 2) {
			if (w[end] >= graph->programs.count || w[end + 1] >= graph->channels)
				return lk_fail(reader->err, LK_ERR_INPUT, file,
				               "wire %zu: no channel %u of program %u", i, w[end + 1], w[end]);
			if (graph->wires.at[(size_t)w[end] * graph->channels + w[end + 1]].stage != UINT32_MAX)
				return lk_fail(reader->err, LK_ERR_INPUT, file,
				               "wire %zu: channel %u of program %u has a wire already", i,
				               w[end + 1], w[end]);
		}
		lk_graph_wire(graph, w[0], w[1], w[2], w[3]);
	}
	return LK_OK;
}

/* ---- the whole ---- */

static lk_status top_member(struct reader *reader, void *into, unsigned key) {
	(void)into;
	static const char *const ranks[] = {"world", "stages", "chains", "groups"};
	static const char *const facts[] = {
		"model_flops",   "tokens",   "samples",   "peak_dtype", "stack",   "release", "cuda_graphs",
		"graph_experts", "compiled", "streaming", "attention",  "recipes", "cluster"};
	uint32_t version;
	switch (key) {
	case 0:
		LK_TRY(want_count(reader, 1, INT32_MAX, &version));
		if (version == LK_GRAPH_VERSION) return LK_OK;
		lk_fail(reader->err, LK_ERR_INPUT, lk_json_where(reader->json),
		        "a step graph of version %u", version);
		return lk_hint(reader->err,
		               "this program reads version %d: write the graph again with --graph",
		               LK_GRAPH_VERSION);
	case 1: return graph_read_object(reader, ranks, 4, 7, ranks_member, &reader->graph->ranks);
	case 2:
		return graph_read_object(reader, facts, sizeof facts / sizeof *facts, 0, facts_member,
		                         reader->graph);
	case 3: return want_count(reader, 0, LK_GRAPH_CHANNELS, &reader->graph->channels);
	case 4: return read_array(reader, block_value, NULL, 0, UINT32_MAX);
	case 5: return read_array(reader, program_value, NULL, 0, LK_GRAPH_WIRES);
	case 6: return read_array(reader, wire_value, NULL, 0, LK_GRAPH_WIRES);
	case 7: return read_array(reader, team_value, NULL, 0, LK_GRAPH_WIRES);
	case 8: return want_bool(reader, &reader->graph->traced);
	default: return want(reader, LK_JSON_STRING, "the seal"); /* checked when it was opened */
	}
}

/* The version is the first member, so that another file is recognised at once. */
static lk_status first_member(struct reader *reader) {
	LK_TRY(graph_read_next(reader));
	if (reader->token == LK_JSON_OBJECT) LK_TRY(graph_read_next(reader));
	if (reader->token == LK_JSON_KEY &&
	    strcmp(lk_json_text(reader->json, NULL), "lockstep_graph") == 0) {
		LK_TRY(graph_read_next(reader));
		return top_member(reader, NULL, 0);
	}
	graph_read_wrong(reader,
	                 "this is not a step graph: its first member is not \"lockstep_graph\"");
	return lk_hint(reader->err, "give a file that --graph has written");
}

static lk_status read_top(struct reader *reader) {
	static const char *const keys[] = {"lockstep_graph", "ranks",        "facts", "channels",
	                                   "blocks",         "programs",     "wires", "teams",
	                                   "traced",         "lockstep_seal"};
	LK_TRY(first_member(reader));
	reader->token = LK_JSON_OBJECT; /* its first member is read */
	LK_TRY(graph_read_object(reader, keys, 10, 2 | 16 | 32, top_member, NULL));
	return graph_read_next(reader); /* nothing follows */
}

static lk_status read_checked(struct reader *reader, const char *file) {
	LK_TRY(read_top(reader));
	LK_TRY(lay_wires(reader, file));
	lk_status status = lk_graph_check(reader->graph, reader->err);
	if (status != LK_OK && status != LK_ERR_MEMORY && reader->err) {
		char where[sizeof reader->err->where];
		int length = snprintf(where, sizeof where, "%.80s: ", file);
		lk_copy(where + length, sizeof where - (size_t)length, reader->err->where);
		lk_copy(reader->err->where, sizeof reader->err->where, where);
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
