/* simulate_view.c: a simulation as JSON, and its timeline as a file. */
#include "predict/predict.h"
#include "io/json.h"
#include "view/timeline/trace.h"

static void put_program(lk_json_writer *w, const lk_simulated_program *p) {
	lk_json_object(w, NULL);
	lk_json_put_text(w, "name", p->name);
	lk_json_put_integer(w, "rank", p->rank);
	lk_json_put_number(w, "finish_s", p->finish_s);
	lk_json_put_number(w, "peak_bytes", p->peak_bytes);
	lk_json_put_number(w, "compute_s", p->compute_s);
	lk_json_put_number(w, "exposed_s", p->exposed_s);
	lk_json_put_number(w, "hidden_s", p->hidden_s);
	lk_json_object_end(w);
}

lk_status lk_simulate_print(const lk_simulation *s, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_number(&w, "step_time_s", s->step_s);
	lk_json_put_integer(&w, "ranks", s->ranks);
	lk_json_put_integer(&w, "ranks_simulated", s->ranks_simulated);
	lk_json_put_number(&w, "operations_run", (double)s->ran);
	lk_json_put_text(&w, "cluster", s->cluster);
	lk_json_array(&w, "programs");
	for (int i = 0; i < s->program_count; i++) put_program(&w, &s->programs[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_simulate_write_files(const lk_simulation *simulation, const lk_simulate_request *request, lk_error *err) {
	return request->trace ? lk_trace_write_step(lk_simulation_step(simulation), request->trace, err) : LK_OK;
}
