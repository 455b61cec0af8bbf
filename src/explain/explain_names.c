/* explain_names.c: properties of event names, and the names around a call. Each name is classified
 * once. */
#include <string.h>

#include "base/text.h"
#include "explain/explain.h"
#include "trace/capture/capture.h"
#include "base/check.h"

/* Calls of CUDA and HIP, runtime and driver, that return when the device has done its work. Freeing
 * memory waits for the whole device too; copies that are not asynchronous wait for themselves and
 * what is before them in their stream.
 */
static bool names_waits(const char *name) {
	static const char *const exact[] = {"cudaMemcpy", "hipMemcpy", "cudaFree",
	                                    "hipFree",    "cuMemFree", "cuMemFree_v2"};
	bool call =
		lk_begins_with(name, "cuda") || lk_begins_with(name, "hip") || lk_begins_with(name, "cu");
	if (call && strstr(name, "Synchronize")) return true;
	for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
		if (strcmp(name, exact[i]) == 0) return true;
	return false;
}

/* torch.distributed's annotations of backends that work on the host. */
static bool host_comm(const char *name) {
	return lk_begins_with(name, "gloo:") || lk_begins_with(name, "mpi:");
}

static unsigned names_look(const char *name) {
	unsigned kind, class = LK_NAME_KNOWN;
	if (lk_comm_kernel(name, &kind)) class |= LK_NAME_COMM;
	if (names_waits(name)) class |= LK_NAME_WAITS;
	if (lk_begins_with(name, "ProfilerStep#")) class |= LK_NAME_STEP;
	/* "Memcpy HtoD (Pageable -> Device)", "CopyHostToDevice" of HIP, "[CUDA memcpy HtoD]" of nsys
	 */
	if (strstr(name, "HtoD") || strstr(name, "HostToDevice")) class |= LK_NAME_TO_DEVICE;
	if (strstr(name, "Pinned ->")) class |= LK_NAME_PINNED;
	if (strstr(name, "Memcpy") && strstr(name, "Pageable")) class |= LK_NAME_PAGEABLE;
	if (host_comm(name)) class |= LK_NAME_HOST_COMM;
	if (lk_begins_with(name, "Optimizer.")) class |= LK_NAME_OPTIMIZER;
	return class | lk_host_work(name) * LK_NAME_HOST;
}

unsigned lk_name_class(lk_rank_work *work, uint32_t name) {
	LK_ASSERT(name < lk_intern_count(work->capture->names));
	uint32_t *class = &work->name_class[name];
	if (!(*class & LK_NAME_KNOWN)) *class |= names_look(lk_capture_text(work->capture, name));
	return *class;
}

/* The outermost annotation and operation around a call, except steps and the loader, which add no
 * information. */
void lk_rank_place(lk_rank_work *work, uint32_t call, uint32_t *note, uint32_t *op) {
	const lk_capture *capture = work->capture;
	LK_ASSERT(call < capture->count);
	*note = *op = 0;
	for (uint32_t e = call; e != LK_NONE; e = capture->parent[e]) {
		if (capture->kind[e] == LK_EVENT_OP) *op = capture->name[e];
		if (capture->kind[e] == LK_EVENT_NOTE && !(lk_name_class(work, capture->name[e]) &
		                                           (LK_NAME_STEP | LK_NAME_HOST * LK_HOST_LOADS)))
			*note = capture->name[e];
	}
	if (!*op) *op = capture->name[call];
}
