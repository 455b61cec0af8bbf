/* lists.c: verbs that list what is known: devices, networks, machines that can be rented. The
 * answer is what selects from the list, which is made when it is printed. */
#include "verbs/verbs_internal.h"

#include "lockstep/catalogue.h"
#include "lockstep/rent.h"

static void list_free(void *answer) {
	(void)answer;
}

/* Both requests begin with the filter. */
static lk_status list_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	_Static_assert(offsetof(lk_machines_request, filter) == 0, "the filter of lists");
	*(const char **)request = first_operand(input);
	return LK_OK;
}

/* ---- devices and models ---- */

ROW_PRINT(devices, verbose)
ROW_PRINT(models, verbose)

static lk_status catalogue_row_ask(const void *request, void **answer, lk_error *err) {
	(void)err;
	const char *filter = ((const lk_catalogue_request *)request)->filter;
	*answer = (void *)(filter ? filter : "");
	return LK_OK;
}

#define CATALOGUE_ROW(list)                                                         \
	{                                                                               \
		.verb = &lk_##list##_verb, .fill = list_row_fill, .ask = catalogue_row_ask, \
		.free = list_free, .print = list##_row_print,                               \
	}
const lk_verb_row lk_row_devices = CATALOGUE_ROW(devices);
const lk_verb_row lk_row_models = CATALOGUE_ROW(models);

/* ---- machines ---- */

ROW_DEFAULTS(machines)
ROW_PRINT(machines, verbose)

static lk_status machines_row_ask(const void *request, void **answer, lk_error *err) {
	(void)err;
	*answer = (void *)request;
	return LK_OK;
}

const lk_verb_row lk_row_machines = {
	.verb = &lk_machines_verb,
	.defaults = machines_row_defaults,
	.fill = list_row_fill,
	.ask = machines_row_ask,
	.free = list_free,
	.print = machines_row_print,
};
