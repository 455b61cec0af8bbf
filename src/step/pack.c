/* pack.c: documents of given lengths. Packed into sequences of a job's length: the share of all
 * pairs within documents, and its spread. As sequences of their own: the median of their lengths,
 * and how far these spread. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "rollout/rollout.h"
#include "step/step.h"

enum {
	PACK_DOCUMENTS = 200000, /* number of documents laid one after another */
};

/* "lognormal:800", "800", or a file with one length a line. */
static lk_status read_documents(const char *option, const char *text, double *lengths, size_t count,
                                lk_error *err) {
	const char *colon = strchr(text, ':'), *mean = colon ? colon + 1 : text;
	int kind = colon ? -1 : LK_LENGTHS_LOGNORMAL;
	for (int i = 0; colon && lk_length_kind_names[i]; i++)
		if (strlen(lk_length_kind_names[i]) == (size_t)(colon - text) &&
		    strncmp(text, lk_length_kind_names[i], (size_t)(colon - text)) == 0)
			kind = i;
	char *end;
	double tokens = strtod(mean, &end);
	if (kind < 0 || end == mean || *end) return lk_lengths_read(text, count, lengths, err);
	if (!(tokens >= 1 && tokens <= 1e9)) {
		lk_fail(err, LK_ERR_INPUT, option, "documents of %g tokens", tokens);
		return lk_hint(err, "give a mean of 1 to 1e9 tokens");
	}
	lk_lengths_spread((lk_length_kind)kind, tokens, 0, 1, count, lengths);
	return LK_OK;
}

/* Documents follow one another; the part that does not fit into a sequence begins the next one. */
static void pack_documents(const double *lengths, size_t count, lk_job *job) {
	double room = job->seq, pairs = 0, sum = 0, squares = 0, sequences = 0,
		   all = (double)job->seq * job->seq;
	for (size_t i = 0; i < count; i++)
		for (double left = lengths[i]; left > 0 && sequences < PACK_DOCUMENTS;) {
			double piece = fmin(left, room);
			pairs += piece * piece / all;
			left -= piece, room -= piece;
			if (room > 0) continue;
			sum += pairs, squares += pairs * pairs, sequences++;
			pairs = 0, room = job->seq;
		}
	if (sequences < 1) sum = pairs, sequences = 1, squares = pairs * pairs;
	job->pack_share = sum / sequences;
	job->pack_spread = sqrt(fmax(0, squares / sequences - job->pack_share * job->pack_share));
}

/* Lengths as a law of two numbers: mean and deviation of their logarithms. */
static void spread_documents(const double *lengths, size_t count, lk_job *job) {
	double sum = 0, squares = 0;
	for (size_t i = 0; i < count; i++) sum += log(lengths[i]);
	double mean = sum / (double)count;
	for (size_t i = 0; i < count; i++) squares += pow(log(lengths[i]) - mean, 2);
	job->ragged_median = exp(mean), job->ragged_spread = sqrt(squares / (double)count);
}

typedef void take_documents(const double *lengths, size_t count, lk_job *job);

static lk_status request_documents(const char *option, const char *text, take_documents *take,
                                   lk_job *job, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	if (job->seq <= 0) {
		lk_fail(err, LK_ERR_INPUT, option, "nothing states how long a sequence may be");
		return lk_hint(err, "give --seq with it");
	}
	double *lengths = LK_ARRAY(&arena, double, PACK_DOCUMENTS);
	lk_status status =
		lengths ? read_documents(option, text, lengths, PACK_DOCUMENTS, err) : lk_oom(err);
	if (status == LK_OK) take(lengths, PACK_DOCUMENTS, job);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_request_pack(const char *text, lk_job *job, lk_error *err) {
	return text ? request_documents("--pack", text, pack_documents, job, err) : LK_OK;
}

lk_status lk_request_ragged(const char *text, lk_job *job, lk_error *err) {
	static const char option[] = "--ragged-lengths";
	if (!text) return LK_OK;
	LK_TRY(request_documents(option, text, spread_documents, job, err));
	if (lk_job_ragged_kept(job) >= 1e-6) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option, "hardly a sequence is as short as --seq %d", job->seq);
	return lk_hint(err, "give a larger --seq, or shorter lengths");
}
