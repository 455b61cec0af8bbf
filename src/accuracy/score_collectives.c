/* score_collectives.c: measured collectives. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy/fabric_fit.h"
#include "accuracy/scoring.h"
#include "base/stats.h"
#include "base/text.h"

typedef struct table {
	lk_coll_rows rows;
	const lk_coll_row **chosen;
	int *fold;
	bool by_gpus;
} table;

static const char *const calibrated[] = {"NDv4", "vidur a100_dgx", "vidur a100_pairwise_nvlink", "vidur a40_pairwise_nvlink", "vidur h100_dgx", "vidur h100_pairwise_nvlink"};

static bool is_calibrated(const char *f) {
	for (size_t i = 0; i < 6; i++) if (strcmp(calibrated[i], f) == 0) return true;
	return false;
}

lk_status lk_score_collectives(lk_arena *arena, const lk_validate_request *request, lk_stream *in, lk_scoring *out, lk_error *err) {
	table t = {0};
	LK_TRY(lk_coll_rows_read(arena, in, &t.rows, err));
	LK_TRY(lk_scoring_rows(arena, t.rows.count, out, err));
	t.chosen = LK_ARRAY(arena, const lk_coll_row *, t.rows.count);
	t.by_gpus = getenv("GPUS") != NULL;
	lk_score_key *set = lk_scoring_divide(arena, out, "set"), *fab = lk_scoring_divide(arena, out, "fabric"), *cur = lk_scoring_divide(arena, out, "curve"), *size = lk_scoring_divide(arena, out, "size");
	if (getenv("ROWS")) { for (size_t i = 0; i < t.rows.count; i++) {} }
	double *pred = LK_ARRAY(arena, double, t.rows.count);
	lk_fabric start = {6, 1.2, .5, .97, 0};
	for (size_t i = 0; i < t.rows.count; i++) pred[i] = t.rows.at[i].refused[0] ? NAN : lk_coll_row_time(&t.rows.at[i], &start);
	for (int c = 0; c < 6 && request->cross; c++) {
		for (int f = 0; f < (t.by_gpus ? 6 : 5); f++) {
			size_t k = 0, held = 0, order = 0;
			for (size_t i = 0; i < t.rows.count; i++) {
				const lk_coll_row *r = &t.rows.at[i];
				if (strcmp(r->fabric, calibrated[c])) continue;
				int fold = t.by_gpus ? (int)lrint(log2(r->gpus)) : (int)(lk_hash64((uint64_t)r->bytes) % 5);
				order++;
				if (fold == f) held++; else t.chosen[k++] = r;
			}
			if (!held) continue;
			lk_fabric fb; double e;
			lk_fabric_fit(t.chosen, k, &start, &fb, &e);
			fprintf(stderr, "%s fold %d: %zu rows err %.3f: launch %.2f lat %.3f ch %.3f wire %.3f nic %.3f\n", calibrated[c], f, k, e, fb.launch, fb.latency, fb.channel, fb.wire, fb.nic);
			for (size_t i = 0; i < t.rows.count; i++) {
				const lk_coll_row *r = &t.rows.at[i];
				if (strcmp(r->fabric, calibrated[c])) continue;
				int fold = t.by_gpus ? (int)lrint(log2(r->gpus)) : (int)(lk_hash64((uint64_t)r->bytes) % 5);
				if (fold == f) pred[i] = lk_coll_row_time(r, &fb);
			}
		}
	}
	for (size_t i = 0; i < t.rows.count; i++) {
		const lk_coll_row *r = &t.rows.at[i];
		lk_validated *row = &out->rows[i];
		row->id = row->where = r->where, row->gpu = r->gpu, row->gpus = r->gpus, row->unit = "us", row->measured = r->us, row->predicted = pred[i];
		lk_group_shape g = lk_coll_row_group(r, &start);
		lk_coll_cost cc = lk_collective_cost(r->kind, &g, r->bytes);
		row->layout = lk_arena_printf(arena, "%s%s%d/%d %g %s %s", r->fabric, lk_coll_name(r->kind), r->gpus, r->nodes, r->bytes, lk_algo_name(cc.algo), lk_proto_name(cc.proto));
		if (*r->refused) row->reason = r->refused;
		out->scores[i].suspect = *r->slow;
		set[i] = (lk_score_key){is_calibrated(r->fabric) ? "calibrated" : "other", 0};
		fab[i] = (lk_score_key){r->fabric, 0};
		cur[i] = (lk_score_key){lk_arena_printf(arena, "%s %s %d/%d", r->fabric, lk_coll_name(r->kind), r->gpus, r->nodes), 0};
		size[i] = (lk_score_key){!is_calibrated(r->fabric) ? NULL : r->bytes < 1 << 17 ? "<128K" : r->bytes < 1 << 20 ? "<1M" : r->bytes < 1 << 24 ? "<16M" : ">16M", 0};
	}
	for (size_t i = 0; getenv("ROWS") && i < t.rows.count; i++) fprintf(stderr, "@%s %.0f %.1f %.1f %+.3f %s\n", cur[i].name, out->rows[i].predicted ? t.rows.at[i].bytes / 1024 : 0, pred[i], t.rows.at[i].us, log(pred[i]/t.rows.at[i].us), strrchr(out->rows[i].layout, '/'));
	lk_vec_free(&t.rows);
	return LK_OK;
}
