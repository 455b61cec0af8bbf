/* collective_logs.c: measured collectives from files: tables as collectives.csv, and logs of
 * nccl-tests, which are rows of one fabric. */
#include <string.h>

#include "base/arena.h"
#include "hw/hw.h"
#include "tables/tables.h"

/* Append a log's sizes as rows of one fabric, on the default nodes of its GPU. */
static lk_status logs_add_run(const lk_nccl_run *run, const char *source, lk_coll_rows *out,
                              lk_error *err) {
	LK_TRY(lk_devices_ready(err));
	const lk_device *device = lk_coll_device(run->device);
	if (!run->kind_known) return lk_nccl_ask_kind(run, NULL, err);
	if (!device || run->gpus < 2) {
		lk_fail(err, LK_ERR_INPUT, run->where, "the log does not say on %s it ran",
		        run->gpus < 2 ? "how many GPUs" : "which GPUs of the catalogue");
		return lk_hint(err, "paste it with its lines \"# Rank ...\", or give a table with the "
		                    "columns of collectives.csv");
	}
	for (int p = 0; p < run->count; p++) {
		if (!lk_push(out)) return lk_oom(err);
		lk_coll_row *row = lk_last(out);
		*row = (lk_coll_row){
			.kind = run->kind,
			.gpus = run->gpus,
			.nodes = run->nodes > 0 ? run->nodes : 1, /* hosts, which wiring counts as domains */
			.bytes = run->points[p].bytes,
			.us = lk_nccl_point_us(&run->points[p]),
			.gpu = run->device,
			.fabric = "default",
			.text = "",
			.source = source,
			.where = run->where,
			.slow = "",
			.refused = "",
		};
		lk_coll_row_wire(row, device);
	}
	return LK_OK;
}

lk_status lk_coll_rows_of_log(lk_arena *arena, lk_stream *in, const char *source, lk_coll_rows *out,
                              lk_error *err) {
	lk_nccl_runs runs = {0};
	lk_status status = lk_nccl_log_read(arena, in, &runs, err);
	for (size_t i = 0; i < runs.count && status == LK_OK; i++)
		status = logs_add_run(&runs.at[i], source, out, err);
	lk_vec_free(&runs);
	return status;
}

bool lk_coll_is_table(const char *text) {
	while (*text == '#' || *text == '\n' || *text == '\r') {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	const char *end = text + strcspn(text, "\n"), *size = strstr(text, "size_bytes"),
			   *library = strstr(text, "library,");
	return (size && size < end) || (library && library < end);
}

lk_status lk_coll_rows_read_any(lk_arena *arena, lk_stream *in, lk_coll_rows *out, lk_error *err) {
	char *text;
	size_t size;
	lk_stream *copy = NULL;
	const char *source = lk_arena_strdup(arena, lk_stream_name(in));
	if (!source) return lk_oom(err);
	LK_TRY(lk_nccl_log_text(arena, in, &text, &size, err));
	LK_TRY(lk_stream_memory(text, size, source, &copy, err));
	lk_status status = lk_coll_is_table(text) || !strstr(text, "busbw")
	                       ? lk_coll_rows_read(arena, copy, out, err)
	                       : lk_coll_rows_of_log(arena, copy, source, out, err);
	lk_stream_close(copy);
	return status;
}

lk_status lk_coll_rows_read_files(lk_arena *arena, const char *const *paths, int count,
                                  lk_coll_rows *out, lk_error *err) {
	for (int i = 0; i < count; i++) {
		lk_stream *in = NULL;
		LK_TRY(lk_stream_open(paths[i], &in, err));
		lk_status status = lk_coll_rows_read_any(arena, in, out, err);
		lk_stream_close(in);
		LK_TRY(status);
	}
	return LK_OK;
}
