/* rent_stalls.c: the speed of a job's data preparation, as measured by `lockstep stalls`: its JSON
 * (-o json). A rate of steps is that of all hosts it ran on; preparation scales with cores,
 * fetching with machines, whose disks are assumed to be alike. */
#include <math.h>

#include "base/arena.h"
#include "io/form.h"
#include "io/json.h"
#include "rent/rent.h"

/* Samples a second of one core, of one machine; NAN where no limit was seen. */
static lk_status stalls_take(const lk_rent_request *request, const lk_value *root,
                             lk_rent_loader *out, lk_error *err) {
	const lk_value *rates = lk_json_get(root, "rates"),
				   *pipelined = lk_json_get(rates, "pipelined");
	double hosts = lk_json_get_number(root, "hosts", NAN),
		   cores = lk_json_get_number(rates, "cores", NAN);
	if (!rates || rates->kind != LK_JSON_OBJECT || !(hosts >= 1) || !(cores >= 1)) {
		lk_fail(err, LK_ERR_INPUT, request->stalls, "holds no rates of a loader");
		return lk_hint(err, "give what `lockstep stalls -o json` wrote of a job that reads data");
	}
	out->pipelined = !pipelined || pipelined->kind != LK_JSON_FALSE;
	out->prepare_per_core =
		lk_json_get_number(rates, "preparation", NAN) * request->stalls_batch / (hosts * cores);
	out->fetch_per_machine =
		lk_json_get_number(rates, "fetch", NAN) * request->stalls_batch / hosts;
	return LK_OK;
}

lk_status lk_rent_loader_of(const lk_rent_request *request, lk_rent_loader *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *root;
	char verb[32];
	*out = (lk_rent_loader){.pipelined = true,
	                        .prepare_per_core =
	                            request->prepare_per_core > 0 ? request->prepare_per_core : NAN,
	                        .fetch_per_machine = NAN};
	if (!request->stalls) return LK_OK;
	if (request->stalls_batch < 1) {
		lk_fail(err, LK_ERR_INPUT, "--stalls",
		        "needs to know how many samples a step of the measured job had");
		return lk_hint(err, "add --stalls-batch N, over all its ranks");
	}
	if (request->prepare_per_core > 0)
		return lk_fail(err, LK_ERR_INPUT, "--prepare-per-core",
		               "is measured by --stalls; give one of them");
	LK_TRY(lk_stream_open(request->stalls, &in, err));
	lk_status status = lk_json_document(&arena, in, &root, err);
	lk_stream_close(in);
	if (status == LK_OK)
		status = lk_form_check_answer(root, request->stalls, verb, sizeof verb, err);
	if (status == LK_OK) status = stalls_take(request, root, out, err);
	lk_arena_free(&arena);
	return status;
}
