/* post_notes.c: the assumptions of an answer about a step of reinforcement learning, its layouts in
 * words, and the command that reproduces it. */
#include "base/arena.h"
#include "base/check.h"
#include "base/noun.h"
#include "base/units.h"
#include "predict/predict_internal.h"
#include "rollout/rollout.h"

enum { POST_ASSUMPTIONS = 16 };

/* Sentences added one by one; NULL if memory ran out. */
struct notes {
	lk_arena *arena;
	const char **at;
	int count, most;
};

static void note(struct notes *notes, const char *text) {
	LK_ASSERT(notes->count < notes->most);
	notes->at[notes->count++] = text;
}

static void note_lengths(const lk_post *post, struct notes *notes) {
	const lk_predict_request *request = post->request;
	if (post->mean_open)
		note(notes, lk_arena_printf(notes->arena,
		                            "responses of %.0f tokens in the mean: half of the limit, as "
		                            "nothing states it; the range is that of a quarter to all of "
		                            "it (--response)",
		                            request->response));
	if (!request->lengths)
		note(notes, lk_arena_printf(notes->arena,
		                            "lengths spread lognormally, deviation of ln %.1f (--lengths)",
		                            lk_lengths_sigma));
	if (post->prompt_open)
		note(notes,
		     lk_arena_printf(
				 notes->arena,
				 "prompts of %.0f tokens in the mean: a quarter of the limit, as nothing states it "
				 "(--prompt)",
				 request->prompt));
	else if (!request->prompt) note(notes, "prompts of 128 tokens (--prompt)");
}

static void note_rows(const lk_post *post, struct notes *notes) {
	const lk_rollout_words *said = &post->said;
	int seq = post->trained->seq, updates = post->updates * (int)said->epochs;
	static const char *const scorers[2][2] = {
		{"are not computed", "of the reference"},
		{"of the policy", "of the policy and of the reference"}};
	const char *scored = scorers[said->policy > 0][said->reference > 0];
	if (said->padded > 0)
		note(notes, lk_arena_printf(
						notes->arena,
						"each sequence is a row that is padded to %d tokens, the longest", seq));
	else if (said->by_sequence > 0)
		note(notes, lk_arena_printf(notes->arena,
		                            "each sequence is a row, of %d tokens in the mean; the memory "
		                            "is that of the longest",
		                            seq));
	else
		note(notes,
		     lk_arena_printf(
				 notes->arena,
				 "sequences fill rows, of %d tokens in the mean, and attend within themselves",
				 seq));
	note(notes, lk_arena_printf(notes->arena, "%d %s, %d %s; log-probabilities %s", post->sequences,
	                            lk_noun(post->sequences, "sequence", "sequences"), updates,
	                            lk_noun(updates, "update", "updates"), scored));
}

/* Whether part of a critic stays on the GPUs while engines run there. */
static bool critic_stays(const lk_post *post) {
	const lk_rollout_words *said = &post->said;
	return post->critic.model && !(said->critic_gpus > 0) &&
	       !(said->critic_offload_params > 0 && said->critic_offload_optimizer > 0);
}

static void note_shared(const lk_post *post, struct notes *notes) {
	const lk_rollout_words *said = &post->said;
	if (post->apart) return;
	if (post->kept > 0)
		note(notes,
		     lk_arena_printf(
				 notes->arena, "%.1f GiB of a GPU stay there while engines run:%s%s%s%s",
				 post->kept / LK_GIB, said->offload_params > 0 ? "" : " weights",
				 said->offload_optimizer > 0 ? "" : " optimizer",
				 said->offload_reference > 0 || !(post->reference.weights > 0) ? "" : " reference",
				 critic_stays(post) ? " critic" : ""));
	if (said->lag > 0)
		note(notes, "sequences that are not finished when a batch is go on in a later phase");
}

static void note_networks(const lk_post *post, struct notes *notes) {
	const lk_rollout_words *said = &post->said;
	const lk_post_network *critic = &post->critic;
	if (critic->model)
		note(notes, lk_arena_printf(
						notes->arena,
						"the critic, %s, is laid out as the policy, %s; it keeps %.1f GiB of a GPU",
						said->critic ? said->critic : "as large (--rollout critic=)",
						said->critic_gpus > 0 ? "on GPUs of its own" : "on the same GPUs",
						(critic->weights + critic->gradients + critic->optimizer) / LK_GIB));
	if (post->teacher.model)
		note(notes, lk_arena_printf(
						notes->arena,
						"the teacher reads the sequences %s; its weights take %.1f GiB of a GPU",
						said->teacher_gpus > 0
							? "on GPUs of its own"
							: "on the GPUs that train, and is in the host's memory else",
						post->teacher.weights / LK_GIB));
	if (post->rewarding.model)
		note(notes, lk_arena_printf(
						notes->arena,
						"the reward model is laid out as the policy; it keeps %.1f GiB of a GPU",
						post->rewarding.weights / LK_GIB));
	else if (said->reward <= 0) note(notes, "rewards take no time (--rollout reward=)");
	note(notes, lk_arena_printf(notes->arena, "a refit moves %.1f GiB in %.0f %s",
	                            post->refit.bytes / LK_GIB, post->refit.tensors,
	                            lk_noun(post->refit.tensors, "tensor", "tensors")));
}

/* First list what the training's launch line or file states or leaves open. */
static lk_status post_assume(const lk_post *post, lk_prediction *prediction, lk_error *err) {
	int before = prediction->assumption_count, most = before + POST_ASSUMPTIONS;
	struct notes notes = {post->arena, LK_ARRAY(post->arena, const char *, most), before, most};
	if (!notes.at) return lk_oom(err);
	for (int i = 0; i < before; i++) notes.at[i] = prediction->assumptions[i];
	note_lengths(post, &notes);
	note_rows(post, &notes);
	note_shared(post, &notes);
	note_networks(post, &notes);
	for (int i = before; i < notes.count; i++)
		if (!notes.at[i]) return lk_oom(err);
	prediction->assumptions = notes.at;
	prediction->assumption_count = notes.count;
	return LK_OK;
}

lk_status lk_post_note(const lk_post *post, lk_prediction *prediction, lk_error *err) {
	lk_arena *arena = post->arena;
	if (post->launched) LK_TRY(lk_note_job(arena, post->given, &post->asked, prediction, err));
	prediction->model = post->trained->model;
	prediction->cluster = post->cluster;
	prediction->layout = lk_arena_printf(arena, "%s; %s GPUs: %s, lag %.0f", post->trained->layout,
	                                     post->apart ? "other" : "on the same",
	                                     post->written->layout, post->said.lag);
	prediction->reproduce = lk_reproduce_given(arena, post->given);
	if (!prediction->layout || !prediction->reproduce) return lk_oom(err);
	return post_assume(post, prediction, err);
}
