/* fuzz_offers.c: any bytes are a list of machines, in one of two forms, or an error with a text;
 * offers that are left keep to the rules, and those with a known GPU are a cluster. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "rent/rent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(lk_arena *arena, const lk_offers *offers) {
	for (size_t i = 0; i < offers->count; i++) {
		const lk_offer *offer = &offers->at[i];
		lk_cluster cluster;
		lk_error err;
		if (offer->spot > offer->on_demand || offer->on_demand <= 0) abort();
		if (!offer->device || offer->network_gbps <= 0 || offer->network_gbps > 1e5) continue;
		const char *text = lk_offer_cluster(offer, 2, arena);
		if (lk_cluster_parse(arena, text, &cluster, &err) != LK_OK && err.what[0] == '\0') abort();
	}
}

static void read(const uint8_t *data, size_t size, bool sky) {
	lk_arena arena = LK_ARENA_INIT;
	lk_offers offers = {0};
	lk_offer_faults faults = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "offers.csv", &in, &err) == LK_OK) {
		lk_status status =
			sky ? lk_offers_skypilot(in, "gcp", "today", &arena, &offers, &faults, &err)
				: lk_offers_read(in, &(lk_mains){0}, &arena, &offers, &faults, &err);
		if (status == LK_OK) check(&arena, &offers);
		else if (err.what[0] == '\0') abort();
	}
	lk_stream_close(in);
	lk_vec_free(&offers);
	lk_vec_free(&faults);
	lk_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	read(data, size, false);
	read(data, size, true);
	return 0;
}
