/* graph_write.c: a step graph to its file form (graph_fields.c). One line per operation and per
 * call. */
#include "graph/graph_internal.h"

#include "io/json.h"

static void begin_line(lk_json_writer *writer) {
	writer->compact = true;
}
static void graph_write_end_line(lk_json_writer *writer) {
	writer->compact = false;
}

/* Write name `value` of a list, or the number if the list is shorter. */
static void graph_write_put_choice(lk_json_writer *writer, const char *key, lk_graph_list list,
                                   unsigned value) {
	const char *names[LK_GRAPH_NAMES];
	if (value < lk_graph_names(list, names)) lk_json_put_text(writer, key, names[value]);
	else lk_json_put_integer(writer, key, value);
}

static void put_set(lk_json_writer *writer, const char *key, lk_graph_list list, unsigned bits) {
	lk_json_array(writer, key);
	for (unsigned i = 0; bits >> i; i++)
		if (bits >> i & 1) graph_write_put_choice(writer, NULL, list, i);
	lk_json_array_end(writer);
}

static void graph_write_put_deps(lk_json_writer *writer, const char *key, const lk_op *op) {
	lk_json_array(writer, key);
	for (uint32_t i = 0; i < op->dep_count; i++) lk_json_put_integer(writer, NULL, op->deps[i]);
	lk_json_array_end(writer);
}

/* The field as an integer, if it is one. */
static int64_t graph_write_whole(const lk_graph_field *field, const void *at) {
	switch (field->form) {
	case LK_FORM_CHANNEL: return *(const int32_t *)at;
	case LK_FORM_TIME: return *(const int64_t *)at;
	case LK_FORM_SET:
		return field->high == UINT32_MAX ? *(const uint32_t *)at : *(const uint8_t *)at;
	default: return *(const uint8_t *)at;
	}
}

static void graph_write_put_field(lk_json_writer *writer, const lk_op *op,
                                  const lk_graph_field *field) {
	const void *at = (const char *)op + field->offset;
	if (field->form == LK_FORM_TEXT) {
		lk_json_put_text(writer, field->name, *(const char *const *)at);
	} else if (field->form == LK_FORM_REAL) {
		double real = *(const double *)at;
		if (real != 0) lk_json_put_number(writer, field->name, real);
	} else if (field->form == LK_FORM_DEPS) {
		if (op->dep_count) graph_write_put_deps(writer, field->name, op);
	} else {
		int64_t value = graph_write_whole(field, at);
		if (value == 0 && !field->always) return;
		if (field->form == LK_FORM_CHOICE)
			graph_write_put_choice(writer, field->name, field->list, (unsigned)value);
		else if (field->form == LK_FORM_SET)
			put_set(writer, field->name, field->list, (unsigned)value);
		else lk_json_put_integer(writer, field->name, value);
	}
}

static void put_op(lk_json_writer *writer, const lk_op *op) {
	lk_json_object(writer, NULL);
	begin_line(writer);
	for (int i = 0; i < LK_GRAPH_FIELDS; i++)
		graph_write_put_field(writer, op, &lk_graph_fields[i]);
	lk_json_object_end(writer);
	graph_write_end_line(writer);
}

static void graph_write_put_ranks(lk_json_writer *writer, const lk_ranks *ranks) {
	lk_json_object(writer, "ranks");
	lk_json_put_integer(writer, "world", ranks->world);
	lk_json_put_integer(writer, "stages", ranks->stages);
	lk_json_put_integer(writer, "chains", ranks->chains);
	lk_json_object(writer, "groups");
	for (unsigned g = 0; g < LK_GROUPS; g++) {
		if (ranks->group[g].size == 1 && ranks->group[g].stride == 1) continue;
		lk_json_array(writer, lk_group_label(g));
		begin_line(writer);
		lk_json_put_integer(writer, NULL, ranks->group[g].size);
		lk_json_put_integer(writer, NULL, ranks->group[g].stride);
		lk_json_array_end(writer);
		graph_write_end_line(writer);
	}
	lk_json_object_end(writer);
	lk_json_object_end(writer);
}

static void put_facts(lk_json_writer *writer, const lk_graph *graph) {
	lk_json_object(writer, "facts");
	lk_json_put_number(writer, "model_flops", graph->model_flops);
	lk_json_put_number(writer, "tokens", graph->tokens);
	lk_json_put_number(writer, "samples", graph->samples);
	graph_write_put_choice(writer, "peak_dtype", LK_LIST_DTYPE, graph->peak_dtype);
	const lk_software *software = &graph->software;
	if (software->stack)
		lk_json_put_text(writer, "stack", lk_intern_text(graph->names, software->stack));
	if (software->release)
		lk_json_put_text(writer, "release", lk_intern_text(graph->names, software->release));
	if (software->attention)
		graph_write_put_choice(writer, "attention", LK_LIST_ATTENTION, software->attention);
	if (software->cuda_graphs) lk_json_put_bool(writer, "cuda_graphs", true);
	if (software->graph_experts) lk_json_put_bool(writer, "graph_experts", true);
	if (software->recipes) lk_json_put_bool(writer, "recipes", true);
	if (software->compiled) lk_json_put_bool(writer, "compiled", true);
	if (software->streaming) lk_json_put_bool(writer, "streaming", true);
	if (graph->cluster)
		lk_json_put_text(writer, "cluster", lk_intern_text(graph->names, graph->cluster));
	lk_json_object_end(writer);
}

static void put_blocks(lk_json_writer *writer, const lk_graph *graph) {
	lk_json_array(writer, "blocks");
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "name", lk_intern_text(graph->names, block->name));
		lk_json_array(writer, "operations");
		for (uint32_t i = block->begin; i < block->end; i++) {
			lk_op op = lk_graph_op(graph, i);
			put_op(writer, &op);
		}
		lk_json_array_end(writer);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

static void graph_write_put_call(lk_json_writer *writer, const lk_call *call) {
	lk_json_array(writer, NULL);
	begin_line(writer);
	lk_json_put_integer(writer, NULL, call->block);
	lk_json_put_integer(writer, NULL, call->repeat);
	lk_json_put_integer(writer, NULL, call->microbatch);
	lk_json_put_integer(writer, NULL, call->layer);
	lk_json_put_integer(writer, NULL, call->chunk);
	graph_write_put_choice(writer, NULL, LK_LIST_PHASE, call->pass);
	lk_json_put_integer(writer, NULL, call->arg[0]);
	lk_json_put_integer(writer, NULL, call->arg[1]);
	lk_json_array_end(writer);
	graph_write_end_line(writer);
}

static void put_streams(lk_json_writer *writer, const lk_graph *graph, const lk_program *program) {
	bool open = false;
	for (unsigned i = 0; i < LK_STREAMS; i++) {
		bool thread = program->threads >> i & 1;
		if (!program->stream_names[i] && !thread) continue;
		if (!open) lk_json_array(writer, "streams");
		open = true;
		lk_json_object(writer, NULL);
		begin_line(writer);
		graph_write_put_choice(writer, "stream", LK_LIST_STREAM, i);
		lk_json_put_text(writer, "name", lk_intern_text(graph->names, program->stream_names[i]));
		if (thread) lk_json_put_bool(writer, "thread", true);
		lk_json_object_end(writer);
		graph_write_end_line(writer);
	}
	if (open) lk_json_array_end(writer);
}

static void graph_write_put_program(lk_json_writer *writer, const lk_graph *graph,
                                    const lk_program *program) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", lk_intern_text(graph->names, program->name));
	lk_json_put_integer(writer, "stage", program->stage);
	lk_json_put_integer(writer, "channels", program->channels);
	lk_json_put_integer(writer, "events", program->events);
	lk_json_object(writer, "resident");
	for (int o = 0; o < LK_OWNERS; o++)
		if (program->resident[o] != 0)
			lk_json_put_number(writer, lk_owner_name((lk_owner)o), program->resident[o]);
	lk_json_object_end(writer);
	if (program->updated > 0) lk_json_put_number(writer, "updated", program->updated);
	if (program->reduces) lk_json_put_bool(writer, "reduces", true);
	if (program->takes_slices) lk_json_put_bool(writer, "takes_slices", true);
	if (program->leaves_slices) lk_json_put_bool(writer, "leaves_slices", true);
	put_streams(writer, graph, program);
	lk_json_array(writer, "calls");
	for (size_t i = 0; i < program->calls.count; i++)
		graph_write_put_call(writer, &program->calls.at[i]);
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

/* Write each wire once, from its lower end. */
static void put_wires(lk_json_writer *writer, const lk_graph *graph) {
	lk_json_array(writer, "wires");
	for (size_t i = 0; i < graph->wires.count; i++) {
		lk_wire to = graph->wires.at[i];
		if (to.stage == UINT32_MAX || (size_t)to.stage * graph->channels + to.channel < i) continue;
		lk_json_array(writer, NULL);
		begin_line(writer);
		lk_json_put_integer(writer, NULL, (long long)(i / graph->channels));
		lk_json_put_integer(writer, NULL, (long long)(i % graph->channels));
		lk_json_put_integer(writer, NULL, to.stage);
		lk_json_put_integer(writer, NULL, to.channel);
		lk_json_array_end(writer);
		graph_write_end_line(writer);
	}
	lk_json_array_end(writer);
}

static void put_teams(lk_json_writer *writer, const lk_graph *graph) {
	lk_json_array(writer, "teams");
	for (size_t i = 0; i < graph->teams.count; i++) {
		const lk_team *team = &graph->teams.at[i];
		lk_json_object(writer, NULL);
		begin_line(writer);
		lk_json_put_text(writer, "name", lk_intern_text(graph->names, team->name));
		lk_json_array(writer, "members");
		for (uint32_t m = team->begin; m < team->end; m++)
			lk_json_put_integer(writer, NULL, graph->team_stages.at[m]);
		lk_json_array_end(writer);
		lk_json_put_integer(writer, "ranks", team->ranks);
		if (team->across) lk_json_put_bool(writer, "across", true);
		lk_json_object_end(writer);
		graph_write_end_line(writer);
	}
	lk_json_array_end(writer);
}

static lk_status put_graph(const lk_graph *graph, FILE *file, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, file, false);
	lk_json_object(&w, NULL);
	lk_json_put_integer(&w, "lockstep_graph", LK_GRAPH_VERSION);
	graph_write_put_ranks(&w, &graph->ranks);
	put_facts(&w, graph);
	lk_json_put_integer(&w, "channels", graph->channels);
	put_blocks(&w, graph);
	lk_json_array(&w, "programs");
	for (size_t s = 0; s < graph->programs.count; s++)
		graph_write_put_program(&w, graph, &graph->programs.at[s]);
	lk_json_array_end(&w);
	put_wires(&w, graph);
	if (graph->teams.count) put_teams(&w, graph);
	if (graph->traced) lk_json_put_bool(&w, "traced", true);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* An invalid graph could not be read again. */
lk_status lk_graph_put(const lk_graph *graph, FILE *out, lk_error *err) {
	LK_TRY(lk_graph_check(graph, err));
	return put_graph(graph, out, err);
}

lk_status lk_graph_write(const lk_graph *graph, const char *path, lk_error *err) {
	lk_sink *sink;
	LK_TRY(lk_graph_check(graph, err));
	LK_TRY(lk_sink_open(path, &sink, err));
	FILE *file = lk_sink_file(sink);
	lk_status status = file ? put_graph(graph, file, err) : lk_oom(err);
	if (status == LK_OK || lk_sink_failed(sink))
		return lk_sink_commit(sink, err); /* it knows why the file failed */
	lk_sink_abandon(sink);
	return status;
}
