/* embedding_host.c: the time of a lookup depends on the length of its row and on how many other
 * bytes a thread touched since the row's last use, which decides the cache that still holds it.
 *
 *     found beyond a cache of C bytes, after d others:  m(C, d) = 1 / (1 + (C/d)^slope)
 *     a row near:  row + vectors of 64 bytes + a partial vector at the end
 *     further:     more, sum over levels of the share found there * (row + lines fetched ahead + a
 *                  torn line + the others)
 *
 * The kernel prefetches eight rows ahead, of each as many lines as it has vectors, at most eight: a
 * short row that straddles two lines has one that was not prefetched (torn); the processor's own
 * prefetcher fetches the rest of long rows.
 *
 * d of a row that a batch looks up c times in N lookups of a table: the gap between two uses is a
 * geometric time of mean N/c lookups (indices are unordered); in x lookups a thread touches sum_j
 * rows_j (1 - exp(-c_j x / N)) rows, and the sums and indices of as many. The first use in a batch
 * comes after everything else that a step touches, in all tables of the rank: two tables of which
 * the last cache holds either, but not both, take three to four times as long together. Threads
 * share the samples of a table, so each has 1/P of every row's uses, and its own first use.
 *
 * A row in memory is waited for separately if its neighbours are near (most rows of a skewed
 * table), and together with them if they are far too; so the density of first uses matters. Short
 * rows share lines, which the first of them fetches. A page's first use waits for page tables,
 * whose entries are in caches that other tables use: eight pages' entries share a line.
 *
 * Backward: pairs of row and sample are sorted by row, 11 bits per pass; for each, the gradient of
 * its sample's sum is read again, unordered, and added up; then each distinct row is changed once,
 * in row order: adjacent rows are prefetched. */
#include "cost/kernel/embedding.h"

#include <math.h>
#include <stddef.h>

static const double line_bytes = 64, single = 4, digit_bits = 11 /* per pass of radix sort */,
					ahead_lines = 8, ahead_rows = 8, page_bytes = 4096,
					entries_bytes = 8 * 4096 /* of memory whose page table entries share a line */;
enum {
	GAPS = 6,  /* equally likely gaps that represent a geometric time */
	PAIR = 16, /* bytes, before and after a pass */
	INTERVALS = 20
};

/* Mean number of lines that hold a row of this many bytes, with rows packed: those of 48 bytes in
 * one or two. */
static double host_lines_of(double bytes) {
	double a = line_bytes, b = fmod(bytes, line_bytes);
	while (b > 0) {
		double rest = fmod(a, b);
		a = b;
		b = rest;
	}
	return 1 + (bytes - a) / line_bytes; /* a: greatest common divisor */
}

/* ---- time since rows were used ---- */

/* Distinct rows that a thread touches in a share x of its lookups. */
static double host_touched(const lk_locality *locality, double x) {
	double sum = 0;
	for (int i = 0; i < locality->count; i++)
		sum += locality->rows[i] * -expm1(-locality->times[i] * x);
	return sum;
}

/* Bytes of cache taken by this many distinct rows of a table: short rows share lines. */
static double footprint(double rows, double row_bytes, double all_rows) {
	double lines = fmax(all_rows * row_bytes / line_bytes, 1);
	if (fmod(row_bytes, line_bytes) == 0) return rows * row_bytes;
	return line_bytes * lines * -expm1(-rows * host_lines_of(row_bytes) / lines);
}

/* Number of blocks, such as pages, that hold this many distinct rows of a table. */
static double blocks_of(double block, double rows, double row_bytes, double all_rows) {
	double blocks = fmax(all_rows * row_bytes / block, 1),
		   begun = rows * fmax(row_bytes / block, 1);
	return blocks * -expm1(-begun / blocks);
}

/* Of `uses` uses by all threads, the number that are a thread's first. */
static double firsts_of(int threads, double uses) {
	double firsts = threads > 1 ? threads * -expm1(uses * log1p(-1.0 / threads)) : 1;
	return fmin(fmax(firsts, fmin(uses, 1)), uses);
}

static double distance_of(int bin) {
	return line_bytes * pow(2, (bin + 0.5) / 3);
}

static int host_bin_of(double distance) {
	int bin = (int)floor(3 * log2(fmax(distance / line_bytes, 1)));
	return bin < LK_HOST_BINS ? bin : LK_HOST_BINS - 1;
}

static const lk_locality *host_locality_of(const lk_lookup *lookup, lk_locality *room) {
	double lookups = lookup->batch * lookup->pooling;
	if (lookup->locality) return lookup->locality;
	if (lookup->reuse) lk_locality_reuse(lookup->reuse, NULL, lookup->rows, lookups, room);
	else lk_locality_zipf(lookup->rows, lookups, 0, room);
	return room;
}

/* Most rows have their first use at the begin of a batch: the share of first uses among the lookups
 * around a first one. */
static double crowd_of(const lk_locality *locality, double lookups) {
	double before = 0, from = 0, sum = 0;
	for (int i = INTERVALS; i-- > 0;) {
		double to = pow(2, -i * 0.75), now = host_touched(locality, to),
			   share = fmin((now - before) / ((to - from) * lookups), 1);
		sum += (now - before) * share;
		before = now;
		from = to;
	}
	return before > 0 ? sum / before : 1;
}

void lk_host_lookup_uses(const lk_lookup *lookup, int threads, lk_host_uses *out) {
	lk_locality room;
	const lk_locality *locality = host_locality_of(lookup, &room);
	double bytes = lookup->dim * lk_lookup_element(lookup),
		   passing = lookup->batch * single * lookup->dim; /* sums */
	int bins[GAPS] = {0};
	*out = (lk_host_uses){.lookups = lk_locality_lookups(locality),
	                      .rows = lk_locality_rows(locality)};
	out->crowd = crowd_of(locality, out->lookups);
	out->pages = blocks_of(page_bytes, out->rows, bytes, lookup->rows);
	out->entries = blocks_of(entries_bytes, out->rows, bytes, lookup->rows);
	passing += single * out->lookups;
	/* rows that share a line are fetched by the first of them */
	out->fresh = fmin(footprint(out->rows, bytes, lookup->rows) / line_bytes /
	                      (out->rows * host_lines_of(bytes)),
	                  1);
	out->state_lines =
		lookup->state > 0 ? footprint(out->rows, lookup->state, lookup->rows) / line_bytes : 0;
	int beside = host_bin_of(footprint(out->rows, bytes, lookup->rows) / 2);
	double at = 0;
	for (int i = 0; i < locality->count; i++) {
		double rows = locality->rows[i], times = locality->times[i],
			   firsts = firsts_of(threads, times), one = fmin(firsts, 1);
		out->first += rows * one * out->fresh;
		out->of_others += rows * (firsts - one) * out->fresh;
		/* classes that are close to one another need not be worked out each */
		for (int g = 0; g < GAPS && times > firsts && !(fabs(times - at) < 0.1 * at); g++) {
			double gap = -log1p(-(g + 0.5) / GAPS) / times;
			bins[g] = host_bin_of(footprint(host_touched(locality, gap), bytes, lookup->rows) +
			                      gap * passing / threads);
		}
		if (times > firsts && !(fabs(times - at) < 0.1 * at)) at = times;
		for (int g = 0; g < GAPS; g++) out->later[bins[g]] += rows * (times - firsts) / GAPS;
		out->later[beside] += rows * firsts * (1 - out->fresh);
	}
}

/* ---- caches ---- */

static double beyond(double cache, double slope, double distance) {
	return distance > 0 ? 1 / (1 + pow(cache / distance, slope)) : 0;
}

static void add_found(const lk_host_lookup *lookup, double distance, double count, double *out) {
	double far = beyond(lookup->last_bytes, lookup->last_slope, distance),
		   past = fmax(beyond(lookup->near_bytes, lookup->near_slope, distance), far);
	out[LK_HOST_NEAR] += count * (1 - past);
	out[LK_HOST_LAST] += count * (past - far);
	out[LK_HOST_FAR] += count * far;
}

void lk_host_lookup_find(const lk_host_lookup *host, const lk_lookup *lookup,
                         const lk_host_uses *uses, const lk_host_share *share, lk_host_found *out) {
	double between = (share->bytes + share->sorted_bytes) / host->threads,
		   step = host->step_share * between, samples = share->samples / host->threads;
	*out = (lk_host_found){.unexpected = samples / (samples + host->guesses)};
	out->lost = beyond(host->span_bytes, 1, share->page_bytes / host->threads);
	out->lost_again = beyond(host->span_bytes, 1, uses->pages * page_bytes / host->threads);
	for (int i = 0; i < LK_HOST_BINS; i++)
		if (uses->later[i] > 0) add_found(host, distance_of(i), uses->later[i], out->lookups);
	add_found(host, step, uses->first, out->lookups);
	add_found(host, fmin(step, 4 * host->near_bytes), uses->of_others,
	          out->lookups); /* another thread has used it: it is in the last cache */
	add_found(host, step, 1, out->step);
	add_found(host, host->sum_share * between, 1, out->sums);
	add_found(host, lookup->batch * host_lines_of(single * lookup->dim) * line_bytes, 1,
	          out->again);
	add_found(host, PAIR * uses->lookups / host->threads, 1, out->pairs);
}

/* ---- rows ---- */

struct row_lines {
	double vectors, tail, ahead, torn, rest;
};

static struct row_lines row_lines_of(double bytes) {
	double lines = host_lines_of(bytes), vectors = ceil(bytes / line_bytes);
	bool is_long = vectors >= ahead_lines;
	return (struct row_lines){
		vectors, fmod(bytes, line_bytes) > 0, fmin(fmin(lines, vectors), ahead_lines),
		is_long ? 0 : fmax(lines - vectors, 0), is_long ? lines - ahead_lines : 0};
}

static double work_of(const lk_host_work *work, const struct row_lines *lines) {
	return work->row_s + work->vector_s * lines->vectors + work->tail_s * lines->tail;
}

/* The share of waiting during which nothing else is waited for, if this share of the prefetched
 * rows is far too. */
static double host_alone(double far) {
	return (1 - far) / (1 + far * ahead_rows / 2);
}

/* Time of rows distributed over the levels; of the rows prefetched alongside a far one, a share
 * `crowd` is far too. Long rows take long enough to hide prefetching. */
static double read_of(const lk_host_lookup *lookup, const lk_host_read *read,
                      const struct row_lines *lines, const double *found, double crowd) {
	double sum = 0, waits = host_alone(crowd) * fmax(1 - lines->vectors / (2 * ahead_lines), 0);
	for (int i = LK_HOST_LAST; i < LK_HOST_LEVELS; i++)
		sum += found[i] *
		       (read[i].row_s + read[i].line_s * lines->ahead + lookup->torn_s[i] * lines->torn +
		        read[i].rest_s * lines->rest + read[i].wait_s * waits);
	return sum;
}

static double host_mean_of(const double *found, const double *seconds) {
	double sum = 0;
	for (int i = 0; i < LK_HOST_LEVELS; i++) sum += found[i] * seconds[i];
	return sum;
}

/* Extra time of a row's first use: other cores' caches may hold it, as they used it last. */
static double from_others(const lk_host_lookup *lookup, double lines, const lk_host_found *found,
                          double line_s) {
	return (1 - 1.0 / lookup->threads) * found->step[LK_HOST_NEAR] * lines * line_s;
}

/* ---- forward, backward ---- */

/* Waits for page tables, for rows that are not near: at a page's first use if the step has touched
 * too many others, at later ones if the table has. The page table line with its entry is once as
 * far as anything touched in the last step. */
static double walks_of(const lk_host_lookup *lookup, const lk_host_uses *uses,
                       const lk_host_found *found) {
	double beyond_near = found->lookups[LK_HOST_LAST] + found->lookups[LK_HOST_FAR],
		   firsts = fmin(uses->pages, beyond_near);
	double far = fmin(uses->entries, firsts) * found->lost * found->step[LK_HOST_FAR];
	double all = lookup->walk_s[LK_HOST_FAR] * far +
	             lookup->walk_s[LK_HOST_LAST] *
	                 (firsts * found->lost - far + (beyond_near - firsts) * found->lost_again);
	return all / (1 + 2 * uses->crowd);
}

/* Lines read or written sequentially: a sum, and the indices of its sample. */
static double lines_in_order(const lk_lookup *lookup) {
	return host_lines_of(single * lookup->dim) + lookup->pooling * single / line_bytes;
}

static double forward_seconds(const lk_host_lookup *lookup, const lk_lookup *l,
                              const lk_host_uses *uses, const lk_host_found *found) {
	struct row_lines r = row_lines_of(l->dim * lk_lookup_element(l));
	double rows = uses->lookups * work_of(&lookup->add, &r) +
	              read_of(lookup, lookup->row, &r, found->lookups, uses->crowd) +
	              walks_of(lookup, uses, found);
	rows += uses->first * from_others(lookup, r.ahead + r.torn + r.rest, found, lookup->shared_s);
	double sample = lookup->sample_s + lookup->guess_s * found->unexpected +
	                lines_in_order(l) * host_mean_of(found->sums, lookup->sum_line_s);
	return (rows + l->batch * sample) / lookup->threads + lookup->call_s;
}

/* Gradients that threads read for the first time in this many lookups. */
static double first_gradients(const lk_host_lookup *lookup, const lk_lookup *l, double lookups) {
	return lookups * firsts_of(lookup->threads, l->pooling) / l->pooling;
}

/* Rows are changed in their order, so that a page is met once. */
static double change_seconds(const lk_host_lookup *lookup, const lk_lookup *l,
                             const lk_host_uses *uses, const lk_host_found *host_found) {
	struct row_lines r = row_lines_of(l->dim * lk_lookup_element(l));
	struct row_lines numbers = {.vectors = l->dim * lk_lookup_element(l) / line_bytes,
	                            .tail = r.tail}; /* the squares' sum takes them one by one */
	double each =
			   work_of(&lookup->change, &numbers) +
			   from_others(lookup, r.ahead + r.torn + r.rest, host_found, lookup->update_shared_s),
		   found[LK_HOST_LEVELS];
	each += uses->state_lines / uses->rows * host_mean_of(host_found->step, lookup->state_s);
	double dense =
		uses->rows / l->rows; /* rows after one another: the processor's prefetcher has them */
	r.rest += r.ahead * uses->fresh * dense;
	r.ahead = r.ahead * uses->fresh * (1 - dense);
	r.torn *= uses->fresh;
	double far = uses->entries * host_found->lost * host_found->step[LK_HOST_FAR];
	for (int i = 0; i < LK_HOST_LEVELS; i++) found[i] = uses->rows * host_found->step[i];
	return uses->rows * each +
	       read_of(lookup, lookup->update, &r, found, uses->rows / uses->lookups) +
	       lookup->update_walk_s[LK_HOST_FAR] * far +
	       lookup->update_walk_s[LK_HOST_LAST] * (uses->pages * host_found->lost - far);
}

static double backward_seconds(const lk_host_lookup *lookup, const lk_lookup *l,
                               const lk_host_uses *uses, const lk_host_found *host_found) {
	struct row_lines g = row_lines_of(single * l->dim);
	double n = uses->lookups, first = first_gradients(lookup, l, n), found[LK_HOST_LEVELS];
	for (int i = 0; i < LK_HOST_LEVELS; i++)
		found[i] = first * host_found->step[i] + (n - first) * host_found->again[i];
	double add = n * work_of(&lookup->gradient_add, &g) +
	             read_of(lookup, lookup->gradient, &g, found, (1 + exp(-l->pooling)) / 2);
	double passes = fmax(ceil(log2(fmax(l->rows, 2)) / digit_bits), 1);
	double sort = n * (lookup->pair_s + passes * host_mean_of(host_found->pairs, lookup->sort_s)) +
	              l->batch * lookup->pair_sample_s;
	return (add + sort + change_seconds(lookup, l, uses, host_found)) / lookup->threads +
	       lookup->call_s + passes * lookup->pass_s;
}

double lk_host_lookup_seconds_of(const lk_host_lookup *host, const lk_lookup *lookup,
                                 const lk_host_uses *uses, const lk_host_found *found) {
	return fmax(lookup->tables, 1) * (lookup->backward
	                                      ? backward_seconds(host, lookup, uses, found)
	                                      : forward_seconds(host, lookup, uses, found));
}

double lk_host_lookup_seconds(const lk_host_lookup *host, const lk_lookup *lookup,
                              const lk_host_share *share) {
	lk_host_uses uses;
	lk_host_found found;
	if (!(lookup->batch * lookup->pooling > 0)) return 0;
	lk_host_lookup_uses(lookup, host->threads, &uses);
	lk_host_lookup_find(host, lookup, &uses, share, &found);
	return lk_host_lookup_seconds_of(host, lookup, &uses, &found);
}

/* ---- shares ---- */

void lk_host_share_add(lk_host_share *share, const lk_lookup *lookup) {
	lk_locality room;
	double lookups = lookup->batch * lookup->pooling, tables = fmax(lookup->tables, 1);
	if (!(lookups > 0)) return;
	double rows = lk_locality_rows(host_locality_of(lookup, &room));
	double bytes = footprint(rows, lookup->dim * lk_lookup_element(lookup), lookup->rows) +
	               footprint(rows, lookup->state, lookup->rows) * (lookup->state > 0);
	share->bytes += tables * (bytes + lookup->batch * 2 * single * lookup->dim + lookups * single);
	share->sorted_bytes = fmax(share->sorted_bytes, lookups * PAIR);
	share->page_bytes +=
		tables *
		blocks_of(page_bytes, rows, lookup->dim * lk_lookup_element(lookup), lookup->rows) *
		page_bytes;
	share->samples += tables * lookup->batch;
}

lk_host_share lk_host_share_of(const lk_host_share *all, int ranks) {
	return (lk_host_share){all->bytes / ranks, all->sorted_bytes, all->page_bytes / ranks,
	                       all->samples / ranks};
}

/* ---- calibration ---- */

struct number {
	const char *name;
	size_t offset;
	double unit;
};

#define AT(field) offsetof(lk_host_lookup, field)
#define NS(name, field) \
	{ name "_ns", AT(field), 1e-9 }
#define WORK(name, field) \
	NS(name, field.row_s), NS(name "_vector", field.vector_s), NS(name "_tail", field.tail_s)
#define READ(name, field) \
	NS(name, field.row_s), NS(name "_line", field.line_s), NS(name "_rest", field.rest_s)
#define BEYOND(name, field) \
	NS(name "_last", field[LK_HOST_LAST]), NS(name "_far", field[LK_HOST_FAR])
static const struct number numbers[] = {
	{"near_kib", AT(near_bytes), 1024},
	{"last_kib", AT(last_bytes), 1024},
	{"near_slope", AT(near_slope), 1},
	{"last_slope", AT(last_slope), 1},
	{"step_share", AT(step_share), 1},
	{"sum_share", AT(sum_share), 1},
	{"span_mib", AT(span_bytes), 0x1p20},
	{"guesses", AT(guesses), 1},
	WORK("add", add),
	WORK("gradient_add", gradient_add),
	WORK("change", change),
	READ("row_last", row[LK_HOST_LAST]),
	READ("row_far", row[LK_HOST_FAR]),
	NS("row_wait", row[LK_HOST_FAR].wait_s),
	READ("gradient_last", gradient[LK_HOST_LAST]),
	READ("gradient_far", gradient[LK_HOST_FAR]),
	NS("gradient_wait", gradient[LK_HOST_FAR].wait_s),
	READ("update_last", update[LK_HOST_LAST]),
	READ("update_far", update[LK_HOST_FAR]),
	NS("update_wait", update[LK_HOST_FAR].wait_s),
	BEYOND("state", state_s),
	BEYOND("torn", torn_s),
	BEYOND("walk", walk_s),
	BEYOND("update_walk", update_walk_s),
	NS("sample", sample_s),
	NS("guess", guess_s),
	NS("sum_line_near", sum_line_s[LK_HOST_NEAR]),
	BEYOND("sum_line", sum_line_s),
	NS("shared", shared_s),
	NS("update_shared", update_shared_s),
	NS("pair", pair_s),
	NS("pair_sample", pair_sample_s),
	NS("sort_near", sort_s[LK_HOST_NEAR]),
	BEYOND("sort", sort_s),
	{"pass_us", AT(pass_s), 1e-6},
	{"call_us", AT(call_s), 1e-6},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };
_Static_assert((int)NUMBERS < (int)LK_CALIBRATION_NUMBERS,
               "a row has room for threads and all numbers");

const char *lk_host_lookup_missing(const lk_calibration_row *row) {
	if (!(lk_calibration_value(row, "threads", 0) >= 1)) return "threads";
	for (int i = 0; i < NUMBERS; i++)
		if (!(lk_calibration_value(row, numbers[i].name, -1) >= 0)) return numbers[i].name;
	return NULL;
}

bool lk_host_lookup_of(const lk_calibration_row *row, lk_host_lookup *out) {
	if (lk_host_lookup_missing(row)) return false;
	*out = (lk_host_lookup){.threads = (int)lk_calibration_value(row, "threads", 0)};
	for (int i = 0; i < NUMBERS; i++) {
		double value = lk_calibration_value(row, numbers[i].name, 0);
		*(double *)(void *)((char *)out + numbers[i].offset) = value * numbers[i].unit;
	}
	return true;
}

void lk_host_lookup_put(const lk_host_lookup *lookup, lk_calibration_row *row) {
	lk_calibration_put(row, "threads", lookup->threads);
	for (int i = 0; i < NUMBERS; i++)
		lk_calibration_put(
			row, numbers[i].name,
			*(const double *)(const void *)((const char *)lookup + numbers[i].offset) /
				numbers[i].unit);
}
