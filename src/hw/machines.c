/* machines.c: nodes that are rented by a name, "p4d.24xlarge": rows of data/instances.csv, whose
 * GPUs, links and network are written as the text of a node and read like one. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "hw/hw_internal.h"
#include "io/csv.h"
#include "io/embedded.h"

/* The row's machine as text: "8 a100-sxm-40 nvlink, nic 4*100g efa". A machine that states no NICs
 * has one link for all of its network, or one per GPU above 400 Gb/s. */
static lk_status machines_text(lk_arena *arena, const lk_csv *csv, const char **out,
                               lk_error *err) {
	const char *links = lk_csv_named(csv, "links"), *nic = lk_csv_named(csv, "nic"),
			   *network = lk_csv_named(csv, "network_gbps"), *gpus = lk_csv_named(csv, "gpus");
	const char *blank = *links ? " " : "";
	double gbits = lk_read_real(network, &(const char *){NULL}),
		   count = lk_read_real(gpus, &(const char *){NULL});
	*out = lk_arena_printf(arena, "%s %s%s%s", gpus, lk_csv_named(csv, "gpu"), blank, links);
	if (*out && *nic) *out = lk_arena_printf(arena, "%s, nic %s", *out, nic);
	else if (*out && gbits > 0) {
		int nics = gbits > 400 ? (int)count : 1;
		*out = lk_arena_printf(arena, "%s, nic %d*%gg", *out, nics, gbits / nics);
	}
	return *out ? LK_OK : lk_oom(err);
}

static lk_status machines_find(lk_arena *arena, lk_csv *csv, const char *name, size_t length,
                               const char **out, lk_error *err) {
	for (bool more = true; more && !*out;) {
		LK_TRY(lk_csv_next(csv, &more, err));
		const char *instance = more ? lk_csv_named(csv, "instance") : "";
		if (strlen(instance) == length && strncasecmp(instance, name, length) == 0)
			LK_TRY(machines_text(arena, csv, out, err));
	}
	return LK_OK;
}

lk_status lk_machine_text(lk_arena *arena, const char *name, size_t length, const char **out,
                          lk_error *err) {
	lk_stream *in;
	lk_csv *csv;
	*out = NULL;
	LK_TRY(lk_data_open(NULL, "instances.csv", &in, err));
	lk_status status = lk_csv_open(in, &csv, err);
	if (status == LK_OK) {
		status = machines_find(arena, csv, name, length, out, err);
		lk_csv_close(csv);
	}
	lk_stream_close(in);
	return status;
}
