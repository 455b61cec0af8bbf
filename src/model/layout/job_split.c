/* job_split.c: which layers a pipeline stage holds.
 *
 * The model is a chain of places, one for each model chunk: pp * vp of them, pp in each direction
 * for DualPipe. A schedule says which place a rank's chunk is. The layers of a place come from, in
 * this order:
 *   - a layout string of Megatron-LM (--pipeline-model-parallel-layout): E embedding, t layer,
 *     m prediction module, L loss, '|' next place, (..)*n and x*n repeat; ',' and blanks are
 *     ignored;
 *   - stated layers of the first and last stage, the rest over the stages between;
 *   - an even split of the layers, in which the embedding and the loss count as a layer if
 *     requested. If one chunk per rank leaves a remainder r, r of the places 1, 2, ..., then 0,
 *     hold one more layer: the first and the last stage carry the embedding and the head, so they
 *     come last (DeepSeek-V3's 61 layers on 8 stages: 7, 8, 8, 8, 8, 8, 7, 7). With more chunks per
 *     rank a remainder is refused, as by Megatron. */
#include <stdio.h>
#include <string.h>

#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "base/check.h"
#include "base/noun.h"

enum { LAYOUT_STEPS = 1 << 16, LAYOUT_DEPTH = 8 };

int lk_job_layers(const lk_job *job) {
	return job->model.layers + job->model.decoder_layers;
}

int lk_job_places(const lk_job *job) {
	return job->schedule == LK_SCHED_DUALPIPE ? job->pp : job->pp * job->vp;
}

/* Counts while reading a layout string. */
struct walk {
	const char *wrong; /* why the string is invalid; NULL: valid so far */
	int wanted;        /* place whose layers are counted */
	int *each;         /* layers of every place; NULL: count only the wanted place */
	bool stops;        /* stop once they are counted */
	int place, steps;
	int layers, before, count; /* total; before the wanted place; in the wanted place */
	int mtp, embeddings, losses, loss_place, embedding_place;
};

static void split_symbol(struct walk *walk, char c) {
	switch (c) {
	case '|': walk->place++; break;
	case 't':
		walk->layers++;
		walk->before += walk->place < walk->wanted;
		walk->count += walk->place == walk->wanted;
		if (walk->each) walk->each[walk->place]++;
		break;
	case 'm': walk->mtp++; break;
	case 'E':
		walk->embeddings++;
		walk->embedding_place = walk->place;
		break;
	case 'L':
		walk->losses++;
		walk->loss_place = walk->place;
		break;
	case ',':
	case ' ':
	case '\t': break;
	default: walk->wrong = "only E, t, m, L, '|', ',', '(..)*n' and 'x*n' are known"; break;
	}
}

/* End of one symbol or bracket; NULL if the bracket is not closed. */
static const char *item_end(const char *at, const char *end) {
	if (*at != '(') return at + 1;
	int depth = 0;
	for (; at < end; at++) {
		depth += (*at == '(') - (*at == ')');
		if (depth == 0) return at + 1;
	}
	return NULL;
}

static void walk_items(struct walk *walk, const char *at, const char *end, int depth);

/* Repeat the symbols between `before` and now `times` more times without reading them: all their
 * places lie before the wanted one or after it, or all are one place. */
static void walk_skip(struct walk *walk, const struct walk *before, long times) {
	int layers = walk->layers - before->layers;
	long steps = walk->steps + times * (walk->steps - before->steps);
	if (steps > LAYOUT_STEPS) {
		walk->wrong = "it expands to more than 65536 symbols";
		return;
	}
	int more = (int)times;
	bool ahead = walk->place < walk->wanted, there = walk->place == walk->wanted;
	walk->steps = (int)steps;
	walk->layers += more * layers;
	if (ahead) walk->before += more * layers;
	else if (there) walk->count += more * layers;
	walk->place += more * (walk->place - before->place);
	walk->mtp += more * (walk->mtp - before->mtp);
	walk->embeddings += more * (walk->embeddings - before->embeddings);
	walk->losses += more * (walk->losses - before->losses);
}

/* How many repetitions of the symbols between `before` and now can be skipped. */
static long walk_can_skip(const struct walk *walk, const struct walk *before, long times) {
	if (walk->each) return 0;
	int places = walk->place - before->place;
	if (walk->wrong || places == 0 || walk->place > walk->wanted) return walk->wrong ? 0 : times;
	long most = (walk->wanted - walk->place - 1) / places;
	if (walk->place == walk->wanted || most < 0) return 0;
	return most < times ? most : times;
}

/* Read one symbol or bracket with its repeat; returns the position after it. */
static const char *walk_item(struct walk *walk, const char *at, const char *end, int depth) {
	const char *close = item_end(at, end), *next = close;
	if (close == NULL) {
		walk->wrong = "a '(' is not closed";
		return end;
	}
	long times = 1;
	if (next < end && *next == '*') {
		times = 0;
		for (next++; *next >= '0' && *next <= '9'; next++)
			if (times <= LAYOUT_STEPS) times = 10 * times + (*next - '0');
		if (times < 1 || times > LAYOUT_STEPS) {
			walk->wrong = "'*' wants a number of repeats from 1 to 65536";
			return end;
		}
	}
	while (times > 0 && walk->wrong == NULL) {
		struct walk before = *walk;
		if (++walk->steps > LAYOUT_STEPS) walk->wrong = "it expands to more than 65536 symbols";
		else if (*at == '(') walk_items(walk, at + 1, close - 1, depth + 1);
		else split_symbol(walk, *at);
		long skipped = walk_can_skip(walk, &before, --times);
		if (skipped > 0) walk_skip(walk, &before, skipped);
		times -= skipped;
	}
	return next;
}

static void walk_items(struct walk *walk, const char *at, const char *end, int depth) {
	if (depth > LAYOUT_DEPTH) walk->wrong = "brackets are nested too deeply";
	while (at < end && walk->wrong == NULL && !(walk->stops && walk->place > walk->wanted))
		at = walk_item(walk, at, end, depth);
}

static struct walk walk_layout(const lk_job *job, int wanted, bool stops) {
	struct walk w = {.wanted = wanted, .stops = stops};
	walk_items(&w, job->pipeline_layout, job->pipeline_layout + strlen(job->pipeline_layout), 0);
	return w;
}

/* Write the layers of the first place, of those between (one more in the last `more` of them), and
 * of the last. */
static void split_write(lk_job *job, int first, int between, int more, int last) {
	char string[3][32] = {"", "", ""}, ends[2][16] = {"", ""};
	const int counts[2] = {first, last};
	const int places = lk_job_places(job), groups[2] = {places - 2 - more, more};
	for (int i = 0; i < 2; i++) {
		if (counts[i] > 0) snprintf(ends[i], sizeof ends[i], "t*%d", counts[i]);
		if (groups[i] > 0)
			snprintf(string[i], sizeof string[i], "(t*%d|)*%d", between + i, groups[i]);
	}
	snprintf(job->pipeline_layout, sizeof job->pipeline_layout, "E%s|%s%s%s%sL", ends[0], string[0],
	         string[1], ends[1], job->model.mtp_layers ? "m" : "");
}

bool lk_job_lighten_ends(lk_job *job, int embedding, int loss) {
	int places = lk_job_places(job), layers = lk_job_layers(job), between = places - 2;
	int each = (layers + embedding + loss) / places;
	int first = each > embedding ? each - embedding : 0;
	int last = each > loss ? each - loss : 0;
	if (places < 2 || job->model.mtp_layers > 1 || job->model.network == LK_NET_ENCDEC)
		return false;
	if (between == 0) first = layers - last;
	int rest = layers - first - last;
	if (rest < between || (between == 0 && rest != 0)) return false;
	if (between > 0) split_write(job, first, rest / between, rest % between, last);
	else split_write(job, first, 0, 0, last);
	return true;
}

void lk_job_split_usually(lk_job *job) {
	int chunks = lk_job_places(job), layers = lk_job_layers(job);
	bool said = job->first_stage_layers > 0 || job->last_stage_layers > 0 ||
	            job->pipeline_layout[0] || job->account_embedding || job->account_loss;
	if (!job->split_open || said || job->pp < 2 || layers % chunks == 0) return;
	if ((layers + 2) % chunks == 0 && (layers + 2) / chunks > 1) {
		job->account_embedding = job->account_loss = true;
		return;
	}
	int each = (layers + chunks - 1) / chunks, missing = each * chunks - layers;
	int last = missing < each ? each - missing : 0;
	int first = each - (missing - (each - last));
	if (chunks < 3 || first < 0 || job->model.mtp_layers > 1) return;
	split_write(job, first, each, 0, last);
}

lk_status lk_job_layout_places(const lk_job *job, int *places, lk_error *err) {
	struct walk w = walk_layout(job, 0, false);
	*places = w.place + 1;
	if (w.wrong == NULL) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--pipeline-layout", "\"%s\" cannot be read: %s",
	        job->pipeline_layout, w.wrong);
	return lk_hint(err, "write it as Megatron-LM does, for instance \"Et*3|(tt|)*29|L\"");
}

static lk_status check_layout_string(const lk_job *job, lk_error *err) {
	int places;
	LK_TRY(lk_job_layout_places(job, &places, err));
	struct walk w = walk_layout(job, 0, false);
	const char *where = "--pipeline-layout";
	if (places != lk_job_places(job)) {
		lk_fail(err, LK_ERR_INPUT, where, "%d %s, but pp %d with vp %d has %d", places,
		        lk_noun(places, "stage", "stages"), job->pp, job->vp, lk_job_places(job));
		return lk_hint(err, "write %d %s separated by '|'", lk_job_places(job),
		               lk_noun(lk_job_places(job), "part", "parts"));
	}
	if (w.layers != lk_job_layers(job)) {
		lk_fail(err, LK_ERR_INPUT, where, "%d %s (t), but the model has %d", w.layers,
		        lk_noun(w.layers, "layer", "layers"), lk_job_layers(job));
		return lk_hint(err, "name every layer once");
	}
	if (w.mtp != job->model.mtp_layers) {
		lk_fail(err, LK_ERR_INPUT, where, "%d prediction modules (m), but the model has %d", w.mtp,
		        job->model.mtp_layers);
		return lk_hint(err, "name every module once");
	}
	if (w.embeddings != 1 || w.embedding_place != 0 || w.losses != 1 ||
	    w.loss_place != places - 1) {
		lk_fail(err, LK_ERR_INPUT, where,
		        "E must occur once, in the first stage, and L once, in the last");
		return lk_hint(err, "for instance \"Et*3|(tt|)*29|L\"");
	}
	return LK_OK;
}

/* The rank that holds a place. */
static int split_stage_of(const lk_job *job, int place) {
	if (lk_job_folds(job) && place >= job->pp) return 2 * job->pp - 1 - place;
	return place % job->pp;
}

/* Share `index` of `total` divided into `shares`; the first shares are larger. */
static int split_share(int total, int shares, int index) {
	return total / shares + (index < total % shares);
}

static int stated_layers(const lk_job *job, int place) {
	int stage = split_stage_of(job, place), first = job->first_stage_layers,
		last = job->last_stage_layers;
	int chunks = lk_job_places(job) / job->pp;
	if (stage == 0 && first > 0) return first / chunks;
	if (stage == job->pp - 1 && last > 0) return last / chunks;
	int middle = job->pp - (first > 0) - (last > 0);
	return split_share(lk_job_layers(job) - first - last, middle, stage - (first > 0)) / chunks;
}

static int even_layers(const lk_job *job, int place) {
	int places = lk_job_places(job);
	int total = lk_job_layers(job) + job->account_embedding + job->account_loss;
	int rest = total % places;
	int more = place == 0 ? rest == places - 1 && rest > 0 : place < places - 1 && place - 1 < rest;
	int other = (place == 0 && job->account_embedding) + (place == places - 1 && job->account_loss);
	return total / places + more - other;
}

/* The sum of even_layers over all places before a place other than the first. */
static int even_before(const lk_job *job, int place) {
	int places = lk_job_places(job);
	int total = lk_job_layers(job) + job->account_embedding + job->account_loss,
		rest = total % places;
	int more = (rest == places - 1 && rest > 0) + (place - 1 < rest ? place - 1 : rest);
	return place * (total / places) + more - job->account_embedding;
}

static bool stated(const lk_job *job) {
	return job->first_stage_layers > 0 || job->last_stage_layers > 0;
}

static int place_layers(const lk_job *job, int place) {
	return stated(job) ? stated_layers(job, place) : even_layers(job, place);
}

int lk_job_chunk_layers(const lk_job *job, int stage, int chunk, int *first) {
	LK_ASSERT(chunk >= 0 && chunk < job->vp);
	LK_ASSERT(stage >= 0 && stage < job->pp);
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	const lk_schedule *schedule = lk_schedule_get(job->schedule);
	int wanted = schedule->place(&shape, stage, chunk), before = 0;
	if (job->pipeline_layout[0] != '\0') {
		struct walk w = walk_layout(job, wanted, true);
		*first = w.before;
		return w.count;
	}
	if (!stated(job)) before = wanted > 0 ? even_before(job, wanted) : 0;
	else
		for (int place = 0; place < wanted; place++) before += place_layers(job, place);
	*first = before;
	return place_layers(job, wanted);
}

void lk_job_split(const lk_job *job, int *first, int *count) {
	int places = lk_job_places(job);
	for (int place = 0; place < places; place++)
		count[place] = job->pipeline_layout[0] ? 0 : place_layers(job, place);
	if (job->pipeline_layout[0]) {
		const char *layout = job->pipeline_layout;
		struct walk w = {.wanted = places, .each = count};
		walk_items(&w, layout, layout + strlen(layout), 0);
	}
	first[0] = 0;
	for (int place = 1; place < places; place++) first[place] = first[place - 1] + count[place - 1];
}

int lk_job_stage_layers(const lk_job *job, int stage) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	int layers = 0, first;
	for (int chunk = 0; chunk < job->vp; chunk++)
		layers += lk_job_chunk_layers(job, stage, chunk, &first);
	return layers;
}

static lk_status check_stated(const lk_job *job, lk_error *err) {
	const char *where =
		job->first_stage_layers > 0 ? "--first-stage-layers" : "--last-stage-layers";
	int first = job->first_stage_layers, last = job->last_stage_layers, layers = lk_job_layers(job);
	int middle = job->pp - (first > 0) - (last > 0), chunks = lk_job_places(job) / job->pp;
	if (lk_job_folds(job) || job->account_embedding || job->account_loss) {
		lk_fail(err, LK_ERR_INPUT, where, "stated layers do not go with %s",
		        lk_job_folds(job)
		            ? "zb-v, v-half, v-min or dualpipev, whose first rank holds the first and "
		              "the last chunk"
		            : "an embedding or loss that counts as a layer");
		return lk_hint(err, "state one of the two");
	}
	long rest = (long)layers - first - last;
	if (middle < 0 || rest < middle || (middle == 0 && rest != 0)) {
		int between = middle < 0 ? 0 : middle;
		lk_fail(err, LK_ERR_INPUT, where, "%d + %d %s leave %ld of %d for the %d %s between", first,
		        last, lk_noun(last, "layer", "layers"), rest, layers, between,
		        lk_noun(between, "stage", "stages"));
		return lk_hint(err, middle > 0 ? "leave at least one layer for each"
		                               : "let the stated layers add up to the model's");
	}
	bool whole = first % chunks == 0 && last % chunks == 0 &&
	             (middle == 0 || rest % ((long)middle * chunks) == 0);
	if (chunks == 1 || whole) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "stages of %d, %ld/%d and %d %s not divide into %d %s", first,
	        rest, middle, last, lk_noun(last, "layer does", "layers do"), chunks,
	        lk_noun(chunks, "chunk", "chunks"));
	return lk_hint(err, "choose layers per stage that are multiples of %d", chunks);
}

/* Legal numbers of places for an even split without a remainder. */
struct even_fit {
	int total, times; /* layers; places per unit of the value in question */
};

static bool fits_evenly(const void *context, int64_t value) {
	const struct even_fit *fit = context;
	return value * fit->times <= fit->total && fit->total % (value * fit->times) == 0;
}

static lk_status check_even(const lk_job *job, lk_error *err) {
	int places = lk_job_places(job),
		total = lk_job_layers(job) + job->account_embedding + job->account_loss;
	int chunks = places / job->pp;
	if (total >= places && (chunks == 1 || total % places == 0)) return LK_OK;
	char near_pp[LK_JOB_NEAR], near_vp[LK_JOB_NEAR];
	if (chunks == 1) {
		lk_fail(err, LK_ERR_INPUT, "--pp", "%d stages for %d layers", job->pp, total);
		return lk_hint(err, "use at most --pp %d", total);
	}
	lk_near_legal(near_pp, job->pp, total, fits_evenly, &(struct even_fit){total, chunks});
	lk_near_legal(near_vp, chunks, total, fits_evenly, &(struct even_fit){total, job->pp});
	bool some_pp = strcmp(near_pp, "none") != 0, some_vp = strcmp(near_vp, "none") != 0;
	lk_fail(err, LK_ERR_INPUT, "--vp", "%d layers are not a multiple of pp * vp = %d * %d", total,
	        job->pp, chunks);
	if (lk_job_folds(job)) return lk_hint(err, "nearest: pp %s", near_pp);
	if (some_pp && some_vp)
		return lk_hint(err, "nearest: pp %s with vp %d, vp %s with pp %d", near_pp, chunks, near_vp,
		               job->pp);
	if (some_vp)
		return lk_hint(err, "no pp divides them with vp %d; nearest with pp %d: vp %s", chunks,
		               job->pp, near_vp);
	if (some_pp)
		return lk_hint(err, "no vp divides them with pp %d; nearest with vp %d: pp %s", job->pp,
		               chunks, near_pp);
	return lk_hint(err, "drop --vp, or use --first-stage-layers and --last-stage-layers");
}

lk_status lk_job_check_split(const lk_job *job, lk_error *err) {
	if (job->pipeline_layout[0] == '\0')
		return stated(job) ? check_stated(job, err) : check_even(job, err);
	if (stated(job) || job->account_embedding || job->account_loss) {
		lk_fail(err, LK_ERR_INPUT, "--pipeline-layout",
		        "a layout string already says what every stage holds");
		return lk_hint(err, "leave out the layers of the first and last stage and the accounting "
		                    "of embedding and loss");
	}
	return check_layout_string(job, err);
}
