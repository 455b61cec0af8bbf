/* simulate_view.c: the fields of a simulation, and its timeline as a file. */
#include "predict/predict.h"
#include "view/timeline/trace.h"
#include "view/text/views.h"

#define PROGRAM(member)   LK_AT(lk_simulated_program, member)
#define SIMULATED(member) LK_AT(lk_simulation, member)

static const lk_answer_field program_fields[] = {
	{"name", NULL, PROGRAM(name)},           {"rank", NULL, PROGRAM(rank)},
	{"finish_s", NULL, PROGRAM(finish_s)},   {"peak_bytes", NULL, PROGRAM(peak_bytes)},
	{"compute_s", NULL, PROGRAM(compute_s)}, {"exposed_s", NULL, PROGRAM(exposed_s)},
	{"hidden_s", NULL, PROGRAM(hidden_s)},
};
static const lk_answer_record program_record = {.python = "ProgramTimes",
                                                .what =
                                                    "A program, as the first of its ranks ran it.",
                                                LK_RECORD(lk_simulated_program, program_fields)};

static const lk_answer_field simulation_fields[] = {
	{"step_time_s", NULL, SIMULATED(step_s)},
	{"ranks", NULL, SIMULATED(ranks)},
	{"ranks_simulated", NULL, SIMULATED(ranks_simulated)},
	{"operations_run", NULL, SIMULATED(ran), .type = "num"},
	{"cluster", NULL, SIMULATED(cluster), .known = LK_MAYBE},
	{"programs", NULL, LK_MANY(lk_simulation, programs, program_count, program_record)},
};
static const lk_answer_record simulation_record = {
	.python = "Simulation",
	.what =
		"A step graph, simulated. spans: a row for each operation that ran on the first rank of "
		"each "
		"program, and on ranks that were named: rank, call, repetition, ready_s, start_s, end_s, "
		"block, name, kind, stream.",
	LK_RECORD(lk_simulation, simulation_fields)};
const lk_document lk_simulate_document = {
	"simulate", "lockstep.simulate of Python, `lk_simulate_print`", &simulation_record,
	offsetof(lk_simulation, failed_check), NULL};

lk_status lk_simulate_print(const lk_simulation *simulation, FILE *out, lk_error *err) {
	lk_writing writing = {.format = LK_FORMAT_JSON, .out = out};
	return lk_write_document(&writing, &lk_simulate_document, simulation, err);
}

lk_status lk_simulate_write_files(const lk_simulation *simulation, const lk_outputs *outputs,
                                  lk_error *err) {
	return outputs->trace ? lk_trace_write_step(lk_simulation_step(simulation), outputs->trace, err)
	                      : LK_OK;
}
