/* jobs_draw.c: random jobs at a given load. Times are as measured in a GPU cluster: log-normal with
 * the mean and median that Helios publishes for its GPU jobs (6651.7 s and 206 s; arXiv 2109.01313,
 * helios_cluster_summary.csv). Assumed, because Helios does not report them: GPUs per job,
 * networks, range of the batch.
 *
 * With users, jobs recur: each user has KINDS kinds of jobs, each with fixed GPUs and network, and
 * lengths log-normal about the kind's own, with a deviation of 0.5 to 1 of the logarithm; between
 * kinds it is 2, so that jobs of one kind are similar and kinds differ. The mean over all is the
 * same as without users. */
#include <math.h>

#include "base/arena.h"
#include "base/stats.h"
#include "jobs/jobs.h"

static const double MEAN_S = 6651.7, MEDIAN_S = 206, SHORTEST_S = 10;
static const double BETWEEN_KINDS = 2, LEAST_WITHIN = 0.5, MOST_WITHIN = 1;

enum {
	KINDS = 8 /* of each user */
};

/* More than half of the jobs request one GPU, most others up to a node. */
static const struct {
	int gpus;
	double share;
} asks[] = {{1, 0.50}, {2, 0.15}, {4, 0.15}, {8, 0.15}, {16, 0.05}};

/* Small enough for one GPU; with a common batch for one GPU. */
static const struct {
	const char *model;
	int seq, batch;
} networks[] = {{"bert-large", 512, 16},
                {"gpt2-medium", 1024, 8},
                {"vit-l16-224", 0, 64},
                {"gpt2", 1024, 16},
                {"t5-base", 512, 16}};

enum { OF_SUBMIT, OF_HOURS, OF_GPUS, OF_NETWORK, DRAWS };

/* Streams of random numbers: of jobs, and of kinds of jobs. */
enum { OF_LENGTH = 1, OF_KIND_LENGTH, OF_KIND_SPREAD, OF_KIND };

static double draw_number(const lk_jobs_request *request, int job, int what) {
	return lk_uniform((uint64_t)request->seed, (uint64_t)job * DRAWS + (uint64_t)what);
}

/* GPUs and network are drawn per job, or per kind. */
static int draw_gpus(const lk_jobs_request *request, int of) {
	double at = draw_number(request, of, OF_GPUS);
	int gpus = 1;
	for (size_t i = 0; i < sizeof asks / sizeof *asks && asks[i].gpus <= request->gpus; i++) {
		gpus = asks[i].gpus;
		if ((at -= asks[i].share) < 0) break;
	}
	return gpus;
}

static uint64_t draw_stream(const lk_jobs_request *request, int what) {
	uint64_t seed = lk_hash64((uint64_t)request->seed);
	return what == OF_LENGTH ? seed : lk_hash64(seed + (uint64_t)what);
}

static double draw_length(const lk_jobs_request *request, int job, int kind) {
	double z = lk_normal(draw_stream(request, OF_LENGTH), (uint64_t)job);
	if (!request->users) return MEDIAN_S * exp(sqrt(2 * log(MEAN_S / MEDIAN_S)) * z);
	double within =
			   LEAST_WITHIN + (MOST_WITHIN - LEAST_WITHIN) *
								  lk_uniform(draw_stream(request, OF_KIND_SPREAD), (uint64_t)kind),
		   of_kind = lk_normal(draw_stream(request, OF_KIND_LENGTH), (uint64_t)kind);
	/* Less half of the variances: exp(sigma z) has the mean exp(sigma^2 / 2). */
	return MEAN_S * exp(BETWEEN_KINDS * of_kind - BETWEEN_KINDS * BETWEEN_KINDS / 2 + within * z -
	                    within * within / 2);
}

static lk_status draw_job(const lk_jobs_request *request, int n, lk_arena *arena,
                          lk_listed_job *job, lk_error *err) {
	int kind =
		(int)(lk_uniform(draw_stream(request, OF_KIND), (uint64_t)n) * request->users * KINDS);
	int of = request->users ? kind : n;
	int network =
		(int)(draw_number(request, of, OF_NETWORK) * (double)(sizeof networks / sizeof *networks));
	int gpus = draw_gpus(request, of), batch = gpus * networks[network].batch;
	job->duration_s = fmax(SHORTEST_S, draw_length(request, n, kind));
	if (request->users) {
		job->job.user = lk_arena_printf(arena, "u%d", kind / KINDS + 1);
		job->job.group = lk_arena_printf(arena, "k%d", kind + 1);
		if (!job->job.user || !job->job.group) return lk_oom(err);
	}
	job->kind = (lk_jobs_kind){.model = networks[network].model, .seq = networks[network].seq};
	job->where = job->job.name = lk_arena_printf(arena, "j%d", n + 1);
	job->job.model = job->kind.model;
	job->job.gpus = gpus;
	job->job.batch = batch;
	/* Within a factor of four, learning rates are commonly scaled along (Goyal et al., arXiv
	 * 1706.02677). */
	job->job.batch_min = batch / 2;
	job->job.batch_max = 4 * batch;
	job->job.gpus_min = 1, job->job.gpus_max = 8 * gpus < request->gpus ? 8 * gpus : request->gpus;
	return job->job.name ? LK_OK : lk_oom(err);
}

/* Arrivals are a Poisson process whose rate brings request->load of the cluster's GPU time. */
lk_status lk_jobs_draw(const lk_jobs_request *request, lk_arena *arena, lk_job_list *out,
                       lk_error *err) {
	double asked_s = 0, gap = 0;
	for (int n = 0; n < request->draw; n++) {
		if (!lk_push(out)) return lk_oom(err);
		LK_TRY(draw_job(request, n, arena, lk_last(out), err));
		asked_s += lk_last(out)->duration_s * lk_last(out)->job.gpus;
	}
	double mean_gap_s = asked_s / request->gpus / request->load / request->draw;
	for (int n = 0; n < request->draw; n++) {
		out->at[n].job.submit_s = gap * mean_gap_s;
		gap -= log(draw_number(request, n, OF_SUBMIT));
	}
	return LK_OK;
}

void lk_jobs_set_work(lk_job_list *list) {
	for (size_t i = 0; i < list->count; i++) {
		lk_listed_job *job = &list->at[i];
		if (!job->job.model) job->job.samples = job->duration_s;
		else if (job->duration_s > 0)
			job->job.samples = fmax(1, rint(job->duration_s * job->job.asked_per_s));
	}
}
