/* emit_mpi_ring.c: RING steps in C and MPI. The reduce-scatter's last addition, the pass and the
 * gathers' first messages are one loop: the pass reads `arrived[..] + mine[..]` where the program
 * reads the reduce-scatter, and writes to where the gather reads from. */
#include "lang/emit/emit_internal.h"
#include "base/check.h"

#include <string.h>

enum { POINTER = 160 };

/* ---- what can be a ring ---- */

/* Whether two values have the same extents on every rank, but for how they lie along `axis`. */
bool lc_ring_alike(const lc_mpi *mpi, int a, int b, int axis) {
	const lc_node *x = lc_node_at(mpi->p, a), *y = lc_node_at(mpi->p, b);
	if (x->rank != y->rank || x->list != y->list ||
	    memcmp(x->dim, y->dim, sizeof *x->dim * x->rank) != 0)
		return false;
	for (int i = 0; i < mpi->p->axis_count; i++) {
		bool slices = x->layout[i].kind == LC_S || y->layout[i].kind == LC_S;
		if (i != axis && slices && !lc_same_layout(&x->layout[i], &y->layout[i])) return false;
	}
	return lc_same_group(&x->at, &y->at);
}

static bool sliced_plainly(const lc_node *node, int axis, int d) {
	const lc_layout *layout = &node->layout[axis];
	return layout->kind == LC_S && layout->dim == d && layout->turn == 0;
}

bool lc_ring_ends(const lc_mpi *mpi, lc_ring *ring, const char **why) {
	int first = ring->scatter >= 0 ? ring->scatter : ring->gather[0];
	ring->axis = lc_node_at(mpi->p, first)->axis;
	ring->d = lc_node_at(mpi->p, first)->d;
	for (int i = 0; i < ring->gathers; i++) {
		int taken = lc_node_at(mpi->p, ring->gather[i])->in[0];
		*why = "its collectives are along different dims or of different shapes";
		if (lc_node_at(mpi->p, ring->gather[i])->axis != ring->axis ||
		    lc_node_at(mpi->p, ring->gather[i])->d != ring->d)
			return false;
		if (!lc_ring_alike(mpi, first, taken, ring->axis)) return false;
		*why = "its slices are not those of this rank";
		if (!sliced_plainly(lc_node_at(mpi->p, taken), ring->axis, ring->d)) return false;
	}
	return true;
}

bool lc_ring_see(const lc_mpi *mpi, const lc_step *step, lc_ring *out, const char **why) {
	*out = (lc_ring){
		.pass = step, .scatter = step->scatter, .bucket = step->bucket, .sends = -1, .rows_of = -1};
	*why = "it has more all-gathers than a ring takes";
	if (step->gathers.count > LC_RING_GATHERS) return false;
	*why = "its reduce-scatter is read by others too";
	if (step->scatter >= 0 && mpi->steps->storage[step->scatter] >= 0) return false;
	for (int i = 0; i < step->gathers.count; i++) out->gather[out->gathers++] = step->gathers.at[i];
	if (!lc_ring_ends(mpi, out, why)) return false;
	int first = out->scatter >= 0 ? out->scatter : lc_node_at(mpi->p, out->gather[0])->in[0];
	*why = "its pass goes over other elements than the slices of its collectives";
	return lc_ring_alike(mpi, step->space, first, -1) &&
	       sliced_plainly(lc_node_at(mpi->p, step->space), out->axis, out->d);
}

/* ---- sums ---- */

static void put_add(const lc_mpi *mpi, const lc_ring *ring, const char *name) {
	const lc_node *value = lc_node_at(mpi->p, ring->scatter);
	const char *type = lc_memory_type((lc_dtype)value->dtype);
	fprintf(mpi->out, "RT_LOOPS static void %s_add(void *sum, const void *mine, int64_t count) {\n",
	        name);
	fprintf(mpi->out, "\t%s *restrict s = sum;\n\tconst %s *restrict m = mine;\n", type, type);
	fprintf(mpi->out, "\tfor (int64_t i = 0; i < count; i++) s[i] = %s",
	        lc_store_call((lc_dtype)value->dtype));
	lc_put_join(value, "s[i]", "m[i]", mpi->out);
	fputs(");\n}\n\n", mpi->out);
}

/* ---- the pass ---- */

/* Whether a gather's operand lies in memory of its own alongside, for others to read. */
static bool ring_kept(const lc_mpi *mpi, int gather) {
	return mpi->steps->storage[lc_node_at(mpi->p, gather)->in[0]] >= 0;
}

static void put_copies(const lc_mpi *mpi, const lc_ring *ring) {
	char to[POINTER], from[POINTER];
	for (int i = 0; i < ring->gathers; i++) {
		int taken = lc_node_at(mpi->p, ring->gather[i])->in[0];
		if (!ring_kept(mpi, ring->gather[i])) continue;
		const char *type = lc_memory_type((lc_dtype)lc_node_at(mpi->p, taken)->dtype);
		fprintf(mpi->out,
		        "\tif (piece->count) memcpy((%s *)(%s)->data + piece->at, (%s *)(%s)->data + "
		        "piece->begin, (size_t)piece->count * sizeof(%s));\n",
		        type, lc_mpi_part(mpi, ring->gather[i], to, sizeof to), type,
		        lc_mpi_part(mpi, taken, from, sizeof from), type);
	}
}

/* Write the call of a pass; on one rank nothing arrives, and the pass reads only this rank's
 * parts. */
static void put_pass_call(const lc_ring *ring, const char *name, const char *from, const char *to,
                          FILE *out) {
	static const char *const kinds[] = {"\tif (arrived) ", "\telse "};
	bool scatters = ring->scatter >= 0;
	for (int alone = 0; alone < (scatters ? 2 : 1); alone++)
		fprintf(out, "%s%s_pass(run, item, %s, %s, arrived, piece->at - piece->begin, %s);\n",
		        scatters ? kinds[alone] : "\t", name, from, to, lk_bool_text(alone));
}

static void ring_put_last(const lc_mpi *mpi, const lc_ring *ring, const char *name) {
	char part[POINTER];
	int space = ring->pass->space, rank = lc_node_at(mpi->p, space)->rank;
	fprintf(mpi->out,
	        "RT_LOOPS static void %s_last(void *self, const void *arrived, const rt_ring_piece "
	        "*piece) {\n",
	        name);
	fputs("\trt_run *run = self;\n\tint64_t item = piece->item;\n", mpi->out);
	lc_mpi_part(mpi, space, part, sizeof part);
	if (ring->outer < rank) {
		fprintf(mpi->out, "\tconst int64_t trip = rt_product(%s, %d, %d);\n", part, ring->outer,
		        rank);
		fprintf(mpi->out, "\tconst int64_t from = trip ? piece->begin / trip : 0, to = trip ? "
		                  "(piece->begin + piece->count) / trip : 0;\n");
		put_pass_call(ring, name, "from", "to", mpi->out);
	} else put_pass_call(ring, name, "piece->begin", "piece->begin + piece->count", mpi->out);
	put_copies(mpi, ring);
	fputs("}\n\n", mpi->out);
}

/* Without a pass: sums go to the reduce-scatter's own memory, slices to where they are gathered. */
static void put_bare_last(const lc_mpi *mpi, const lc_ring *ring, const char *name) {
	char part[POINTER];
	fprintf(mpi->out,
	        "RT_LOOPS static void %s_last(void *self, const void *arrived, const rt_ring_piece "
	        "*piece) {\n",
	        name);
	fputs("\trt_run *run = self;\n\tint64_t item = piece->item;\n\t(void)arrived, (void)item;\n",
	      mpi->out);
	if (ring->scatter >= 0) {
		const lc_node *value = lc_node_at(mpi->p, ring->scatter);
		const char *type = lc_memory_type((lc_dtype)value->dtype);
		fprintf(
			mpi->out,
			"\tconst %s *restrict a = arrived, *restrict m = (const %s *)(%s)->data + piece->at;\n",
			type, type, lc_mpi_part(mpi, value->in[0], part, sizeof part));
		fprintf(mpi->out, "\t%s *restrict s = (%s *)(%s)->data + piece->begin;\n", type, type,
		        lc_mpi_part(mpi, ring->scatter, part, sizeof part));
		fprintf(mpi->out,
		        "\tif (!a && piece->count) memcpy(s, m, (size_t)piece->count * sizeof *s);\n"
		        "\tfor (int64_t i = 0; a && i < piece->count; i++) s[i] = %s",
		        lc_store_call((lc_dtype)value->dtype));
		lc_put_join(value, "a[i]", "m[i]", mpi->out);
		fputs(");\n", mpi->out);
	}
	put_copies(mpi, ring);
	fputs("}\n\n", mpi->out);
}

/* ---- the ring itself ---- */

static void put_items(const lc_mpi *mpi, const lc_ring *ring) {
	int whole = ring->scatter >= 0 ? lc_node_at(mpi->p, ring->scatter)->in[0] : ring->gather[0];
	char part[POINTER], number[LC_IDENTIFIER];
	fprintf(mpi->out, "\tint64_t items = rt_items(run, %s);\n", lc_mpi_number(mpi, whole, number));
	fputs("\trt_ring_item *tensor = rt_ring_memory((size_t)items, sizeof *tensor);\n", mpi->out);
	fputs("\tfor (int64_t item = 0; item < items; item++) {\n", mpi->out);
	fprintf(mpi->out, "\t\tconst rt_part *x = %s;\n", lc_mpi_part(mpi, whole, part, sizeof part));
	fprintf(mpi->out,
	        "\t\ttensor[item] = (rt_ring_item){rt_product(x, 0, %d), x->extent[%d], rt_product(x, "
	        "%d, x->rank), %s, {",
	        ring->d, ring->d, ring->d + 1, ring->scatter >= 0 ? "x->data" : "NULL");
	for (int i = 0; i < ring->gathers; i++)
		fprintf(mpi->out, "%s(%s)->data", i ? ", " : "",
		        lc_mpi_part(mpi, ring->gather[i], part, sizeof part));
	fprintf(mpi->out, "%s}, x->ahead[%d], x->all[%d]};\n\t}\n", ring->gathers ? "" : "NULL",
	        ring->d, ring->d);
}

static void put_unit(const lc_mpi *mpi, const lc_ring *ring) {
	int space = ring->pass ? ring->pass->space : ring->sends;
	char number[LC_IDENTIFIER];
	if (ring->produce || ring->arrive) {
		int rank = lc_node_at(mpi->p, ring->rows_of)->rank,
			from = ring->pass && ring->outer < rank - 1 ? ring->outer : rank - 1;
		fprintf(mpi->out, "\t\t.unit = rt_product(run->part[%s], %d, %d),\n",
		        lc_mpi_number(mpi, ring->rows_of, number), from, rank);
	} else if (space >= 0 && ring->outer == ring->d) fputs("\t\t.by_runs = true,\n", mpi->out);
	else if (space >= 0 && ring->outer < lc_node_at(mpi->p, space)->rank)
		fprintf(mpi->out, "\t\t.unit = rt_product(run->part[%s], %d, %d),\n",
		        lc_mpi_number(mpi, space, number), ring->outer, lc_node_at(mpi->p, space)->rank);
}

static void ring_put_sizes(const lc_mpi *mpi, const lc_ring *ring) {
	if (ring->scatter >= 0)
		fprintf(mpi->out, "\t\t.part_size = sizeof(%s),\n",
		        lc_memory_type((lc_dtype)lc_node_at(mpi->p, ring->scatter)->dtype));
	if (ring->gathers == 0) return;
	fprintf(mpi->out, "\t\t.gathers = %d, .whole_size = {", ring->gathers);
	for (int i = 0; i < ring->gathers; i++)
		fprintf(mpi->out, "%ssizeof(%s)", i ? ", " : "",
		        lc_memory_type((lc_dtype)lc_node_at(mpi->p, ring->gather[i])->dtype));
	fputs("},\n", mpi->out);
}

/* The coordinate of a group along its axis. */
static void ring_put_place(const lc_mpi *mpi, const lc_group *group) {
	int index = lc_mpi_index((lc_mpi *)mpi, group->index);
	if (index >= 0)
		fprintf(mpi->out, "(int)run->sizes->index[%d] + %lld", index, (long long)group->offset);
	else fprintf(mpi->out, "%lld", (long long)group->offset);
}

static void put_hop(const lc_mpi *mpi, const lc_ring *ring) {
	const lc_node *value = lc_node_at(mpi->p, ring->sends);
	int slice = ring->gives ? value->in[0] : ring->sends;
	char part[POINTER];
	fprintf(mpi->out, "\t\t.hop = {run->mesh.along[%d], true, ", value->at.axis);
	if (ring->gives) {
		ring_put_place(mpi, &value->at);
		fputs(", -1", mpi->out);
	} else {
		fputs("-1, ", mpi->out);
		ring_put_place(mpi, &value->from);
	}
	fprintf(mpi->out, ", (%s)->data, sizeof(%s)},\n", lc_mpi_part(mpi, slice, part, sizeof part),
	        lc_memory_type((lc_dtype)value->dtype));
}

static void put_ring(const lc_mpi *mpi, const lc_ring *ring, const char *name) {
	int whole = ring->scatter >= 0 ? lc_node_at(mpi->p, ring->scatter)->in[0] : ring->gather[0];
	char number[LC_IDENTIFIER], left[LC_IDENTIFIER];
	bool lasts = ring->pass || ring->scatter >= 0;
	for (int i = 0; i < ring->gathers; i++) lasts |= ring_kept(mpi, ring->gather[i]);
	bool beside = ring->produce || ring->arrive;
	fprintf(mpi->out, "static void %s(rt_run *run%s) {\n", name, beside ? ", bool after" : "");
	if (lc_mpi_may_be_absent(mpi, whole))
		fprintf(mpi->out, "\tif (!run->part[%s][0].here) return;\n",
		        lc_mpi_number(mpi, whole, number));
	put_items(mpi, ring);
	fputs("\trt_ring_pool pool = {run->scratch[3], run->room[3]};\n\trt_ring ring = {\n", mpi->out);
	fprintf(mpi->out,
	        "\t\t.comm = run->mesh.along[%d], .item = tensor, .items = (int)items, .pool = &pool, "
	        ".self = run,\n",
	        ring->axis);
	ring_put_sizes(mpi, ring);
	put_unit(mpi, ring);
	if (ring->bucket) fprintf(mpi->out, "\t\t.bucket = INT64_C(%lld),\n", (long long)ring->bucket);
	if (beside && ring->chunks)
		fprintf(mpi->out,
		        "\t\t.subs = (INT64_C(%lld) + run->mesh.ranks[%d] - 1) / run->mesh.ranks[%d],\n",
		        (long long)ring->chunks, ring->axis, ring->axis);
	else if (beside)
		fprintf(mpi->out,
		        "\t\t.subs = rt_panels(run->part[%s], rt_product(run->part[%s], 0, %d), "
		        "run->mesh.ranks[%d]),\n",
		        lc_mpi_number(mpi, ring->left, left), lc_mpi_number(mpi, ring->rows_of, number),
		        lc_node_at(mpi->p, ring->rows_of)->rank - 1, ring->axis);
	if (ring->sends >= 0) put_hop(mpi, ring);
	if (ring->scatter >= 0) fprintf(mpi->out, "\t\t.add = %s_add,\n", name);
	if (lasts) fprintf(mpi->out, "\t\t.last = %s_last,\n", name);
	if (beside) fputs("\t\t.after = after,\n", mpi->out);
	if (ring->produce) fprintf(mpi->out, "\t\t.produce = %s,\n", ring->produce);
	if (ring->arrive) fprintf(mpi->out, "\t\t.arrive = %s,\n", ring->arrive);
	fputs("\t};\n\trt_ring_run(&ring);\n\trun->scratch[3] = pool.at, run->room[3] = pool.size;\n",
	      mpi->out);
	fprintf(mpi->out, "\trun->sent[%d] += ring.sent;\n", ring->axis);
	if (ring->sends >= 0)
		fprintf(mpi->out, "\trun->sent[%d] += ring.hop_sent;\n",
		        lc_node_at(mpi->p, ring->sends)->at.axis);
	fputs("\tfree(tensor);\n}\n\n", mpi->out);
}

/* Whether trips of the pass fit into what lies together: the outer loop goes over all dims before
 * the one that is cut. */
bool lc_ring_fits(const lc_mpi *mpi, const lc_ring *ring, const char **why) {
	int rank = lc_node_at(mpi->p, ring->pass->space)->rank;
	*why = "its pass takes elements together that lie apart";
	if (ring->outer < ring->d || (ring->outer == ring->d && (ring->produce || ring->arrive)))
		return false;
	*why = "its tensors cannot be cut between any two elements";
	return ring->outer == rank || ring->pass->list < 0;
}

lk_status lc_ring_write(lc_mpi *mpi, lc_ring *ring, const char *name) {
	if (ring->scatter >= 0) put_add(mpi, ring, name);
	if (ring->pass) ring_put_last(mpi, ring, name);
	else put_bare_last(mpi, ring, name);
	put_ring(mpi, ring, name);
	return LK_OK;
}

/* ---- steps ---- */

/* One after another, and why. */
static lk_status ring_put_plain(lc_mpi *mpi, const lc_step *step, const char *why) {
	fprintf(mpi->out, "/* No ring, for %s. */\n", why);
	return lc_mpi_ring_plain(mpi, step);
}

lk_status lc_mpi_ring(lc_mpi *mpi, const lc_step *step) {
	char name[LC_IDENTIFIER], pass[LC_IDENTIFIER + 8];
	const char *why;
	lc_ring ring;
	if (!lc_ring_see(mpi, step, &ring, &why)) return ring_put_plain(mpi, step, why);
	LK_TRY(lc_mpi_outer(mpi, step, &ring.outer));
	if (!lc_ring_fits(mpi, &ring, &why)) return ring_put_plain(mpi, step, why);
	snprintf(pass, sizeof pass, "%s_pass", lc_mpi_function(mpi, step, name));
	LK_TRY(lc_mpi_ring_pass(mpi, step, pass));
	return lc_ring_write(mpi, &ring, name);
}
