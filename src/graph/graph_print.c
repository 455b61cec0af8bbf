/* graph_print.c: a step graph as a listing for people: ranks, blocks with their operations,
 * programs with their calls. It also prints invalid graphs: that is when a listing is needed. */
#include "graph/graph.h"

#include <string.h>

#include "base/text.h"
#include "base/noun.h"

enum { NAME = 72 };

/* A name without control characters, clipped. */
static const char *graph_print_name_of(const lk_graph *graph, uint32_t id, char out[NAME]) {
	return lk_escape(lk_intern_text(graph->names, id), out, NAME);
}

static void print_quantity(FILE *out, const char *label, double value, bool bytes) {
	char text[32];
	if (value == 0) return;
	fprintf(out, "  %s %s", label,
	        bytes ? lk_format_bytes(value, text, sizeof text)
	              : lk_format_count(value, text, sizeof text));
}

static void print_shape(FILE *out, const lk_ops *ops, uint32_t i) {
	if (ops->m[i] == 0 && ops->n[i] == 0 && ops->k[i] == 0 && ops->batch[i] == 0) return;
	fputs("  ", out);
	if (ops->batch[i] != 0 && ops->batch[i] != 1) fprintf(out, "%g x ", ops->batch[i]);
	fprintf(out, "[m %g, n %g, k %g]", ops->m[i], ops->n[i], ops->k[i]);
	if (ops->window[i] != 0) fprintf(out, " window %g", ops->window[i]);
}

/* Streams of lifted traces have no fixed meaning, and those beyond the known ones have no label. */
static const char *graph_print_stream_of(const lk_graph *graph, unsigned stream, char out[16]) {
	if (!graph->traced && stream <= LK_STREAM_COPY_BACK) return lk_stream_label(stream);
	snprintf(out, 16, "stream %u", stream);
	return out;
}

static void print_waits(const lk_graph *graph, FILE *out, uint32_t i) {
	const lk_ops *ops = &graph->ops;
	char text[16];
	const char *before = "  joins ";
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (!(ops->join[i] >> s & 1)) continue;
		fprintf(out, "%s%s", before, graph_print_stream_of(graph, s, text));
		before = ", ";
	}
	before = "  after ";
	for (uint32_t d = ops->dep_begin[i]; d < ops->dep_begin[i + 1]; d++, before = ", ")
		fprintf(out, "%s%u", before, ops->deps[d]);
	if (ops->wait[i]) fprintf(out, "  waits for argument %u", ops->wait[i]);
	if (ops->signal[i]) fprintf(out, "  signals argument %u", ops->signal[i]);
}

static void print_memory(FILE *out, const char *sign, double bytes, unsigned owner) {
	char text[32];
	if (bytes != 0)
		fprintf(out, "  %s%s %s", sign, lk_format_bytes(bytes, text, sizeof text),
		        lk_owner_name((lk_owner)owner));
}

static void print_op(const lk_graph *graph, FILE *out, uint32_t i, uint32_t place) {
	const lk_ops *ops = &graph->ops;
	char name[NAME], text[32], stream[16];
	fprintf(out, "  %4u  %-26s %-14s %s, %s", place, graph_print_name_of(graph, ops->name[i], name),
	        lk_op_kind_name((lk_op_kind)ops->kind[i]),
	        graph_print_stream_of(graph, ops->stream[i], stream),
	        lk_phase_name((lk_phase)ops->phase[i]));
	if (lk_op_is_comm(ops->kind[i]) && ops->group[i] == LK_GROUP_TEAM)
		fprintf(out, "  team %d", ops->channel[i]);
	else if (lk_op_is_collective(ops->kind[i]))
		fprintf(out, "  group %s", lk_group_label(ops->group[i]));
	else if (lk_op_is_comm(ops->kind[i])) fprintf(out, "  channel %d", ops->channel[i]);
	print_shape(out, ops, i);
	if (ops->flops[i] != 0) fprintf(out, "  %s", lk_dtype_name((lk_dtype)ops->dtype[i]));
	print_quantity(out, "flops", ops->flops[i], false);
	print_quantity(out, "bytes", ops->bytes[i], true);
	if (ops->measured_ps[i] > 0)
		fprintf(out, "  measured %s",
		        lk_format_seconds((double)ops->measured_ps[i] * 1e-12, text, sizeof text));
	if (ops->flags[i] & LK_OP_CAUSAL) fputs("  causal", out);
	if (ops->flags[i] & LK_OP_TRANSIENT) fputs("  transient", out);
	if (ops->flags[i] & LK_OP_OVERLAPPED) fputs("  overlapped", out);
	if (ops->flags[i] & LK_OP_DIRECT) fputs("  direct", out);
	if (ops->flags[i] & LK_OP_SUMS_PIXELS) fputs("  sums_pixels", out);
	if (ops->flags[i] & LK_OP_LISTED) fputs("  listed", out);
	if (ops->flags[i] & LK_OP_ROW_FACTORS) fputs("  row_factors", out);
	if (ops->pieces[i] > 1) fprintf(out, "  1 of %g pieces", ops->pieces[i]);
	if (ops->flags[i] & LK_OP_CARRIED) fputs("  carried", out);
	print_waits(graph, out, i);
	print_memory(out, "+", ops->alloc[i], ops->alloc_owner[i]);
	print_memory(out, "-", ops->release[i], ops->release_owner[i]);
	putc('\n', out);
}

static void print_block(const lk_graph *graph, FILE *out, size_t b) {
	const lk_block *block = &graph->blocks.at[b];
	char name[NAME];
	double flops = 0, bytes = 0;
	bool open = block->end < block->begin || block->end > graph->ops.count;
	uint32_t end = open ? block->begin : block->end;
	for (uint32_t i = block->begin; i < end; i++) {
		flops += graph->ops.flops[i];
		if (!lk_op_is_comm(graph->ops.kind[i])) bytes += graph->ops.bytes[i];
	}
	fprintf(out, "block %zu \"%s\": %u %s", b, graph_print_name_of(graph, block->name, name),
	        end - block->begin, lk_noun(end - block->begin, "operation", "operations"));
	print_quantity(out, "flops", flops, false);
	print_quantity(out, "memory traffic", bytes, true);
	putc('\n', out);
	for (uint32_t i = block->begin; i < end; i++) print_op(graph, out, i, i - block->begin);
}

static void print_call(const lk_graph *graph, FILE *out, const lk_call *call, size_t at) {
	char name[NAME];
	fprintf(out, "  %6zu  ", at);
	if (call->block >= graph->blocks.count)
		fprintf(out, "block %u, which does not exist", call->block);
	else
		fprintf(out, "%-36s", graph_print_name_of(graph, graph->blocks.at[call->block].name, name));
	if (call->repeat != 1) fprintf(out, " x %u", call->repeat);
	fprintf(out, "  %s", lk_phase_name((lk_phase)call->pass));
	if (call->microbatch >= 0) fprintf(out, "  micro-batch %d", call->microbatch);
	if (call->layer >= 0) fprintf(out, "  layer %d", call->layer);
	if (call->chunk) fprintf(out, "  chunk %u", call->chunk);
	if (call->arg[0] || call->arg[1])
		fprintf(out, "  arguments %u, %u", call->arg[0], call->arg[1]);
	putc('\n', out);
}

static void print_program(const lk_graph *graph, FILE *out, size_t s) {
	const lk_program *program = &graph->programs.at[s];
	char name[NAME], text[32];
	fprintf(out, "program %zu \"%s\": %zu %s, %u %s\n", s,
	        graph_print_name_of(graph, program->name, name), program->calls.count,
	        lk_noun(program->calls.count, "call", "calls"), program->events,
	        lk_noun(program->events, "event", "events"));
	for (int o = 0; o < LK_OWNERS; o++)
		if (program->resident[o] != 0)
			fprintf(out, "  holds %s of %s\n",
			        lk_format_bytes(program->resident[o], text, sizeof text),
			        lk_owner_name((lk_owner)o));
	if (program->updated > 0) {
		fprintf(out, "  updates %.0f parameters", program->updated);
		if (program->reduces) fputs(", whose gradients it reduces", out);
		if (program->takes_slices) fputs(", takes slices of their gradients", out);
		if (program->leaves_slices) fputs(", leaves slices of them", out);
		fputc('\n', out);
	}
	for (unsigned i = 0; i < LK_STREAMS; i++)
		if (program->stream_names[i] || (program->threads >> i & 1))
			fprintf(out, "  stream %u is %s\"%s\"\n", i,
			        program->threads >> i & 1 ? "the CPU thread " : "",
			        graph_print_name_of(graph, program->stream_names[i], name));
	for (uint32_t c = 0; c < graph->channels && s * graph->channels + c < graph->wires.count; c++) {
		lk_wire to = graph->wires.at[s * graph->channels + c];
		if (to.stage != UINT32_MAX)
			fprintf(out, "  channel %u leads to channel %u of program %u\n", c, to.channel,
			        to.stage);
	}
	for (size_t i = 0; i < program->calls.count; i++)
		print_call(graph, out, &program->calls.at[i], i);
}

static void print_team(const lk_graph *graph, FILE *out, size_t at) {
	const lk_team *team = &graph->teams.at[at];
	char name[NAME];
	const char *before = " of programs ";
	fprintf(out, "  team %zu \"%s\": %u ranks%s", at, graph_print_name_of(graph, team->name, name),
	        team->ranks, team->across ? " of all chains" : "");
	for (uint32_t m = team->begin; m < team->end && m < graph->team_stages.count;
	     m++, before = ", ")
		fprintf(out, "%s%u", before, graph->team_stages.at[m]);
	putc('\n', out);
}

static void print_ranks(const lk_graph *graph, FILE *out) {
	const lk_ranks *ranks = &graph->ranks;
	fprintf(out, "step graph: %u %s, %u %s of %u; %zu %s, %u %s\n", ranks->world,
	        lk_noun(ranks->world, "rank", "ranks"), ranks->stages,
	        lk_noun(ranks->stages, "stage", "stages"), ranks->chains, graph->blocks.count,
	        lk_noun(graph->blocks.count, "block", "blocks"), graph->ops.count,
	        lk_noun(graph->ops.count, "operation", "operations"));
	for (unsigned g = 0; g < LK_GROUPS; g++)
		if (ranks->group[g].size > 1)
			fprintf(out, "  group %s: %u %s, every %u\n", lk_group_label(g), ranks->group[g].size,
			        lk_noun(ranks->group[g].size, "rank", "ranks"), ranks->group[g].stride);
	if (graph->traced) fputs("  lifted from traces: launches are operations\n", out);
	for (size_t i = 0; i < graph->teams.count; i++) print_team(graph, out, i);
	if (graph->model_flops == 0 && graph->tokens == 0 && graph->samples == 0) return;
	fputs("  a step:", out);
	print_quantity(out, "model flops", graph->model_flops, false);
	print_quantity(out, "tokens", graph->tokens, false);
	print_quantity(out, "samples", graph->samples, false);
	fprintf(out, "  in %s\n", lk_dtype_name((lk_dtype)graph->peak_dtype));
}

void lk_graph_print(const lk_graph *graph, FILE *out) {
	print_ranks(graph, out);
	for (size_t b = 0; b < graph->blocks.count; b++) print_block(graph, out, b);
	for (size_t s = 0; s < graph->programs.count; s++) print_program(graph, out, s);
}
