/* simulate_view.c: a simulation as JSON, and its timeline as a file. */
#include "predict/predict.h"
#include "io/json.h"
#include "view/timeline/trace.h"
#include "view/text/views.h"

static void simulate_view_put_program(lk_json_writer *writer, const lk_simulated_program *program) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", program->name);
	lk_json_put_integer(writer, "rank", program->rank);
	lk_json_put_number(writer, "finish_s", program->finish_s);
	lk_json_put_number(writer, "peak_bytes", program->peak_bytes);
	lk_json_put_number(writer, "compute_s", program->compute_s);
	lk_json_put_number(writer, "exposed_s", program->exposed_s);
	lk_json_put_number(writer, "hidden_s", program->hidden_s);
	lk_json_object_end(writer);
}

lk_status lk_simulate_print(const lk_simulation *simulation, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/simulate/1", simulation->failed_check);
	lk_json_put_number(&w, "step_time_s", simulation->step_s);
	lk_json_put_integer(&w, "ranks", simulation->ranks);
	lk_json_put_integer(&w, "ranks_simulated", simulation->ranks_simulated);
	lk_json_put_number(&w, "operations_run", (double)simulation->ran);
	lk_json_put_text(&w, "cluster", simulation->cluster);
	lk_json_array(&w, "programs");
	for (int i = 0; i < simulation->program_count; i++)
		simulate_view_put_program(&w, &simulation->programs[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_simulate_write_files(const lk_simulation *simulation, const lk_outputs *outputs,
                                  lk_error *err) {
	return outputs->trace ? lk_trace_write_step(lk_simulation_step(simulation), outputs->trace, err)
	                      : LK_OK;
}
