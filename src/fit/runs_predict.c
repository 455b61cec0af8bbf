/* runs_predict.c: a measured run, predicted: the question that `lockstep predict` asks of its job
 * on its cluster. */
#include <math.h>

#include "tables/tables.h"
#include "step/step.h"

lk_status lk_run_predict(const lk_run *run, const lk_constants *constants, double *seconds,
                         lk_error *err) {
	lk_step step;
	lk_step_options options = {.constants = constants};
	lk_status status = lk_step_ask(&run->job, &run->cluster, &options, &step, err);
	*seconds = status == LK_OK ? step.step_s : NAN;
	lk_step_free(&step);
	return status;
}

lk_arch lk_run_arch(const lk_run *run) {
	return run->cluster.node[0].device->arch;
}
