/* emit_mpi_overlap.c: OVERLAP steps in C and MPI:
 *
 *   matmul, then reduce-scatter or ring   rows are made in the order in which the ring takes them
 *   all-gather, then matmul               rows are made as chunks arrive
 *   reduce-scatter, pass, send, gather    one ring on each side, subs hop between the groups
 *   all else                              a pipeline of chunks, emit_mpi_flow.c
 *
 * Otherwise parts run one after another, with the reason as a comment. */
#include "lang/emit/emit_internal.h"
#include "base/check.h"

#include <string.h>

enum {
	POINTER = 160,
	CHOICES = 16 /* RT_CHOICES */
};

static bool is_matmul(const lc_mpi *mpi, const lc_step *step) {
	const lc_node *value = lc_node_at(mpi->p, step->values.at[0]);
	return step->kind == LC_STEP_CONTRACT && value->op == LC_MATMUL && !value->ta && step->list < 0;
}

static int comm_of(const lc_mpi *mpi, const lc_step *step, lc_op op) {
	if (step->kind != LC_STEP_COMM && step->kind != LC_STEP_SEND) return -1;
	return step->values.count >= 1 && lc_node_at(mpi->p, step->values.at[0])->op == op &&
	               step->list < 0
	           ? step->values.at[0]
	           : -1;
}

/* The value whose memory an operand is. */
static bool overlap_is_of(const lc_mpi *mpi, int operand, int id) {
	return lc_mpi_root(mpi, operand) == lc_mpi_root(mpi, id);
}

/* ---- a matmul and what takes its rows ---- */

/* Write either the function that makes rows of a sub for the ring, or the one that uses what
 * arrived. */
static void overlap_put_rows(lc_mpi *mpi, int matmul, int rows_of, bool makes, const char *name) {
	const lc_node *value = lc_node_at(mpi->p, matmul), *x = lc_node_at(mpi->p, rows_of);
	char a[POINTER], y[POINTER], width[POINTER];
	lc_mpi_part(mpi, value->in[0], a, sizeof a);
	lc_mpi_part(mpi, matmul, y, sizeof y);
	lc_mpi_part(mpi, rows_of, width, sizeof width);
	fprintf(
		mpi->out,
		"static void %s(rt_ring *ring, int64_t sub, %sint chunk) {\n\trt_run *run = ring->self;\n",
		name, makes ? "int64_t subs, " : "");
	fprintf(mpi->out, "\trt_ring_path path = rt_ring_walk_on(ring, sub, %s, chunk);\n",
	        makes ? "subs" : "1");
	fputs("\trt_ring_piece piece;\n", mpi->out);
	fprintf(mpi->out, "\tconst int64_t row = (%s)->extent[%d];\n", width, x->rank - 1);
	fputs("\twhile (rt_ring_next(ring, &path, &piece))\n", mpi->out);
	fprintf(mpi->out,
	        "\t\trt_matmul_rows(run, ring, %s, &run->ready[0], %s, %s, piece.at / row, piece.count "
	        "/ row);\n}\n\n",
	        a, value->tb ? "true" : "false", y);
}

/* Write the ring's function, which needs the matmul's right operand prepared; or the whole product
 * before or after it. */
static void overlap_put_around(lc_mpi *mpi, const lc_step *step, int matmul, bool makes,
                               const char *name) {
	char a[POINTER], b[POINTER], y[POINTER], function[LC_IDENTIFIER], product[4 * POINTER];
	const lc_node *value = lc_node_at(mpi->p, matmul);
	int choice = mpi->choices++;
	fprintf(mpi->out, "static void %s(rt_run *run) {\n", lc_mpi_function(mpi, step, function));
	if (lc_mpi_may_be_absent(mpi, matmul))
		fprintf(mpi->out, "\tif (!(%s)->here) return;\n", lc_mpi_part(mpi, matmul, y, sizeof y));
	fprintf(mpi->out, "\trt_make_ready(run, 0, %s);\n",
	        lc_mpi_part(mpi, lc_node_at(mpi->p, matmul)->in[1], b, sizeof b));
	if (choice >= CHOICES) {
		fprintf(mpi->out, "\t%s(run, false);\n}\n\n", name);
		return;
	}
	snprintf(product, sizeof product,
	         "\tif (way == RT_AFTER) rt_matmul(run, %s, false, &run->ready[0], %s, %s);\n",
	         lc_mpi_part(mpi, value->in[0], a, sizeof a), value->tb ? "true" : "false",
	         lc_mpi_part(mpi, matmul, y, sizeof y));
	fprintf(mpi->out,
	        "\tconst int way = rt_way_of(&run->choice[%d]);\n\tconst double begun = MPI_Wtime();\n",
	        choice);
	if (makes) fputs(product, mpi->out);
	fprintf(mpi->out, "\t%s(run, way == RT_AFTER);\n", name);
	if (!makes) fputs(product, mpi->out);
	fprintf(mpi->out, "\trt_took(&run->choice[%d], way, MPI_Wtime() - begun);\n}\n\n", choice);
}

/* A product is cut by rows along its dim d only if d is not the column dim; a row is never
 * divided. */
static bool cut_by_rows(const lc_mpi *mpi, int id, int d) {
	return d < lc_node_at(mpi->p, id)->rank - 1;
}

static lk_status put_scattered(lc_mpi *mpi, const lc_step *step, bool *done) {
	const lc_step *first = &step->parts[0], *second = &step->parts[1];
	const char *why;
	lc_ring ring;
	char work[LC_IDENTIFIER + 8], name[LC_IDENTIFIER + 8], pass[LC_IDENTIFIER + 16];
	if (step->part_count != 2 || !is_matmul(mpi, first) || second->list >= 0) return LK_OK;
	if (second->kind == LC_STEP_RING) {
		if (!lc_ring_see(mpi, second, &ring, &why)) return LK_OK;
		LK_TRY(lc_mpi_outer(mpi, second, &ring.outer));
	} else {
		int scatter = comm_of(mpi, second, LC_REDUCESCATTER);
		if (scatter < 0) return LK_OK;
		ring = (lc_ring){.scatter = scatter,
		                 .sends = -1,
		                 .axis = lc_node_at(mpi->p, scatter)->axis,
		                 .d = lc_node_at(mpi->p, scatter)->d};
	}
	int matmul = first->values.at[0];
	if (ring.scatter < 0 || !overlap_is_of(mpi, lc_node_at(mpi->p, ring.scatter)->in[0], matmul) ||
	    !cut_by_rows(mpi, matmul, ring.d))
		return LK_OK;
	snprintf(work, sizeof work, "%s_rows", lc_mpi_function(mpi, step, name));
	ring.produce = work;
	ring.rows_of = matmul;
	ring.left = lc_node_at(mpi->p, matmul)->in[0];
	ring.chunks = step->chunks;
	if (ring.pass && !lc_ring_fits(mpi, &ring, &why)) return LK_OK;
	strcat(name, "_ring");
	snprintf(pass, sizeof pass, "%s_pass", name);
	overlap_put_rows(mpi, matmul, matmul, true, work);
	if (ring.pass) LK_TRY(lc_mpi_ring_pass(mpi, second, pass));
	LK_TRY(lc_ring_write(mpi, &ring, name));
	overlap_put_around(mpi, step, matmul, true, name);
	*done = true;
	return LK_OK;
}

static lk_status put_gathered(lc_mpi *mpi, const lc_step *step, bool *done) {
	char work[LC_IDENTIFIER + 8], name[LC_IDENTIFIER + 8];
	int gather = step->part_count == 2 ? comm_of(mpi, &step->parts[0], LC_ALLGATHER) : -1;
	if (gather < 0 || !is_matmul(mpi, &step->parts[1])) return LK_OK;
	int matmul = step->parts[1].values.at[0];
	const lc_node *value = lc_node_at(mpi->p, gather), *taken = lc_node_at(mpi->p, value->in[0]);
	if (!overlap_is_of(mpi, lc_node_at(mpi->p, matmul)->in[0], gather) ||
	    overlap_is_of(mpi, lc_node_at(mpi->p, matmul)->in[1], gather) ||
	    !cut_by_rows(mpi, gather, value->d))
		return LK_OK;
	if (taken->layout[value->axis].turn != 0) return LK_OK;
	lc_ring ring = {.scatter = -1,
	                .sends = -1,
	                .gather = {gather},
	                .gathers = 1,
	                .axis = value->axis,
	                .d = value->d,
	                .chunks = step->chunks};
	snprintf(work, sizeof work, "%s_rows", lc_mpi_function(mpi, step, name));
	ring.arrive = work;
	ring.rows_of = ring.left = gather;
	strcat(name, "_ring");
	overlap_put_rows(mpi, matmul, gather, false, work);
	LK_TRY(lc_ring_write(mpi, &ring, name));
	overlap_put_around(mpi, step, matmul, false, name);
	*done = true;
	return LK_OK;
}

/* ---- hand-over between groups ---- */

/* Whether nothing but one step reads a value. */
static bool read_only_by(const lc_mpi *mpi, int id, const lc_step *step) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	for (int user = 0; user < (int)mpi->p->nodes.count; user++)
		for (int k = 0; k < lc_node_at(mpi->p, user)->inputs; k++)
			if (lc_node_at(mpi->p, user)->in[k] == id && !lc_ids_have(&step->values, user))
				return false;
	return true;
}

/* Reduce-scatter, pass, send, all-gather: one ring for the givers, one for the takers. */
static bool see_handover(const lc_mpi *mpi, const lc_step *step, lc_step *pass, lc_ring *give,
                         lc_ring *take) {
	const char *why;
	if (step->part_count != 4 || step->parts[1].kind != LC_STEP_MAP || step->parts[1].list >= 0)
		return false;
	int scatter = comm_of(mpi, &step->parts[0], LC_REDUCESCATTER),
		send = comm_of(mpi, &step->parts[2], LC_SEND);
	int gather = comm_of(mpi, &step->parts[3], LC_ALLGATHER);
	if (scatter < 0 || send < 0 || gather < 0 ||
	    lc_node_at(mpi->p, send)->at.axis == lc_node_at(mpi->p, scatter)->axis)
		return false;
	*pass = step->parts[1];
	pass->scatter = scatter;
	*give =
		(lc_ring){.pass = pass, .scatter = scatter, .sends = send, .gives = true, .rows_of = -1};
	*take =
		(lc_ring){.scatter = -1, .gather = {gather}, .gathers = 1, .sends = send, .rows_of = -1};
	if (!lc_ring_ends(mpi, give, &why) || !lc_ring_ends(mpi, take, &why)) return false;
	int given = lc_node_at(mpi->p, send)->in[0];
	bool chained = lc_ids_have(&pass->writes, given) &&
	               overlap_is_of(mpi, lc_node_at(mpi->p, gather)->in[0], send) &&
	               read_only_by(mpi, scatter, pass);
	bool fit =
		lc_ring_alike(mpi, pass->space, scatter, -1) && lc_ring_alike(mpi, given, scatter, -1);
	return chained && fit && give->axis == take->axis && give->d == take->d;
}

static lk_status put_handover(lc_mpi *mpi, const lc_step *step, bool *done) {
	lc_step pass;
	lc_ring give, take;
	char function[LC_IDENTIFIER], gives[LC_IDENTIFIER + 8], takes[LC_IDENTIFIER + 8],
		name[LC_IDENTIFIER + 16];
	const char *why;
	if (!see_handover(mpi, step, &pass, &give, &take)) return LK_OK;
	LK_TRY(lc_mpi_outer(mpi, &pass, &give.outer));
	if (!lc_ring_fits(mpi, &give, &why)) return LK_OK;
	take.outer = give.outer;
	lc_mpi_function(mpi, step, function);
	snprintf(gives, sizeof gives, "%s_give", function);
	snprintf(takes, sizeof takes, "%s_take", function);
	snprintf(name, sizeof name, "%s_pass", gives);
	LK_TRY(lc_mpi_ring_pass(mpi, &pass, name));
	LK_TRY(lc_ring_write(mpi, &give, gives));
	LK_TRY(lc_ring_write(mpi, &take, takes));
	fprintf(mpi->out, "static void %s(rt_run *run) {\n\t%s(run);\n\t%s(run);\n}\n\n", function,
	        gives, takes);
	*done = true;
	return LK_OK;
}

/* ---- choice of the kind ---- */

lk_status lc_mpi_overlap(lc_mpi *mpi, const lc_step *step) {
	static lk_status (*const ways[])(lc_mpi *, const lc_step *, bool *) = {
		put_scattered, put_gathered, put_handover, lc_mpi_flow};
	bool done = false;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		LK_TRY(ways[i](mpi, step, &done));
		if (done) return LK_OK;
	}
	return lc_mpi_overlap_plain(mpi, step);
}
