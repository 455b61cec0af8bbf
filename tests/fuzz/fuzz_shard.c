/* fuzz_shard.c: any bytes are a list of embedding tables, or an error that says where; what is read
 * is placed, or refused with a reason, and its step takes a finite time that no bound exceeds. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "shard/shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void place(lk_arena *arena, const lk_shard_tables *tables) {
	const lk_device *device = lk_device_find("a100-sxm-80");
	const lk_node node = {.device = device,
	                      .gpus = 4,
	                      .intra = LK_INTRA_SWITCH,
	                      .intra_rate = 3e11,
	                      .nics = 4,
	                      .nic_rate = 2.5e10};
	lk_shard_problem p = {.arena = arena,
	                      .tables = tables->at,
	                      .count = (uint32_t)tables->count,
	                      .ranks = 4,
	                      .batch = 4096,
	                      .element = 4,
	                      .row_state = 4,
	                      .capacity = 6e10,
	                      .host_capacity = 6e10,
	                      .cache_share = 0.2};
	lk_shard_plan plan = {0};
	lk_shard_load load;
	lk_error err = {0};
	double step;
	p.at = (lk_shard_device){
		.device = device, .memory_rate = 1e12, .l2_rate = 3e12, .host_rate = 2e10, .floor_s = 3e-6};
	p.network = (lk_group_shape){.node = &node,
	                             .ranks = 4,
	                             .nodes = 1,
	                             .ranks_per_node = 4,
	                             .sharing = 1,
	                             .oversubscription = 1};
	lk_shard_share(&p);
	lk_status status = lk_shard_search(&p, &plan, &err);
	if (status != LK_OK && !err.what[0]) abort();
	if (status == LK_OK) {
		if (lk_shard_load_of(arena, &p, &plan.pieces, &load, &err) != LK_OK ||
		    !lk_shard_fits(&p, &load))
			abort();
		if (lk_shard_simulate(&p, &load, &step, &err) != LK_OK || !isfinite(step)) abort();
	}
	lk_vec_free(&plan.pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_tables tables = {0};
	lk_stream *in;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "tables", &in, &err) != LK_OK) return 0;
	bool assumed;
	lk_status status = lk_shard_tables_read(&arena, in, 4096, &tables, &assumed, &err);
	if (status != LK_OK && (!err.where[0] || !err.what[0])) abort();
	if (status == LK_OK && tables.count <= 40) place(&arena, &tables);
	lk_stream_close(in);
	lk_vec_free(&tables);
	lk_arena_free(&arena);
	return 0;
}
