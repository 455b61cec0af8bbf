/* launch.c: pasted launch lines: settings of the environment, launchers, the training program, its flags.
 *
 * A line is Megatron-LM's if its program is called pretrain_... or a flag stands in it that only Megatron-LM has; then
 * what the flags leave out is what Megatron-LM assumes. */
#include "launch/launch.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "io/stream.h"
#include "base/text.h"
#include "model/layout/job.h"

/* One launch line while it is read. */
struct line {
	lk_reading *r;
	lk_launch_ranks ranks;
	lk_megatron flags;
	lk_words environment;       /* NAME=value in front of programs */
	lk_job trainer;             /* what flags of another trainer say */
	const char *deepspeed;      /* a config file */
	bool program, any_flag, megatron;
	lk_dotted dotted;           /* what NeMo's or torchtitan's settings say */
	int max_connections;
};

lk_status lk_launch_note(lk_reading *r, const char *flag, const char *reason) {
	lk_launch *out = r->out;
	if (reason == NULL) return lk_oom(r->err);
	if ((out->ignored_count & (out->ignored_count - 1)) == 0) { /* room for a power of two */
		size_t room = out->ignored_count == 0 ? 1 : 2 * (size_t)out->ignored_count;
		lk_ignored *grown = LK_ARRAY(r->arena, lk_ignored, room);
		if (grown == NULL) return lk_oom(r->err);
		if (out->ignored_count > 0) memcpy(grown, out->ignored, (size_t)out->ignored_count * sizeof *grown);
		out->ignored = grown;
	}
	char *copy = lk_arena_strdup(r->arena, flag);
	if (copy == NULL) return lk_oom(r->err);
	out->ignored[out->ignored_count++] = (lk_ignored){.flag = copy, .reason = reason};
	return LK_OK;
}

/* ---- settings ---- */

static lk_status read_setting(struct line *l, const lk_word *word) {
	static const char connections[] = "CUDA_DEVICE_MAX_CONNECTIONS=", own[] = "LOCKSTEP_";
	size_t length = strcspn(word->text, "=");
	bool ours = strncmp(word->text, own, sizeof own - 1) == 0;
	bool queues = strncmp(word->text, connections, sizeof connections - 1) == 0;
	char *name = lk_arena_strndup(l->r->arena, word->text, length);
	if (name == NULL || !lk_push(&l->environment)) return lk_oom(l->r->err);
	*lk_last(&l->environment) = *word;
	if (!ours && !queues) return lk_launch_note(l->r, name, "a setting of the environment: not modelled");
	if (word->unknown != NULL) {
		lk_fail(l->r->err, LK_ERR_INPUT, l->r->where, "%s: %s", name, word->unknown);
		return lk_hint(l->r->err, "write the value into the script");
	}
	if (queues) {
		long long value;
		LK_TRY(lk_parse_int(word->text + length + 1, 1, 32, &value, name, l->r->err));
		l->max_connections = (int)value;
		return LK_OK;
	}
	return LK_OK;
}

static lk_status apply_settings(struct line *l) {
	lk_job *job = l->r->out->job;
	for (size_t i = 0; i < l->environment.count; i++) {
		if (strncmp(l->environment.at[i].text, "LOCKSTEP_", 9) != 0) continue;
		const char *name = l->environment.at[i].text + 9, *equals = strchr(name, '=');
		bool known;
		LK_TRY(lk_field_set(job, name, (size_t)(equals - name), equals + 1, &known, l->r->err));
		if (!known) LK_TRY(lk_launch_note(l->r, l->environment.at[i].text, "no field of a job has this name"));
	}
	if (l->max_connections > 0) job->max_connections = l->max_connections;
	return LK_OK;
}

/* ---- the training program ---- */

static lk_status read_program(struct line *l, const lk_word *word) {
	static const struct {
		const char *part;
		lk_network network;
	} scripts[] = {
		{"pretrain_bert", LK_NET_ENCODER}, {"pretrain_t5", LK_NET_ENCDEC}, {"pretrain_vision", LK_NET_ENCODER}};
	const char *slash = strrchr(word->text, '/'), *name = slash != NULL ? slash + 1 : word->text;
	l->program = true;
	l->megatron = strncmp(name, "pretrain_", 9) == 0;
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		if (strncmp(name, scripts[i].part, strlen(scripts[i].part)) == 0)
			l->r->out->job->model.network = scripts[i].network;
	if (strncmp(name, "pretrain_mamba", 14) != 0 && strncmp(name, "pretrain_retro", 14) != 0 &&
		strncmp(name, "pretrain_ict", 12) != 0 && strncmp(name, "pretrain_hybrid", 15) != 0)
		return LK_OK;
	lk_fail(l->r->err, LK_ERR_INPUT, l->r->where, "%s trains a network that is not modelled", name);
	return lk_hint(l->r->err, "decoders, encoders and encoder-decoders can be predicted");
}

/* ---- flags ---- */

/* --deepspeed ds.json, --deepspeed_config ds.json; --deepspeed alone is the switch of a config that follows. */
static lk_status read_deepspeed_flag(struct line *l, const char *name, const lk_word *words, size_t count, size_t *used) {
	bool file = count > 0 && words[0].text[0] != '-';
	*used = file;
	if (!file && strcmp(name, "deepspeed") == 0) return LK_OK;
	if (file && words[0].unknown == NULL) {
		l->deepspeed = words[0].text;
		return LK_OK;
	}
	lk_fail(l->r->err, LK_ERR_INPUT, l->r->where, "--%s: %s", name, file ? words[0].unknown : "the file is missing");
	return lk_hint(l->r->err, "write the path of the DeepSpeed config");
}

/* --parallelism.tensor_parallel_degree 8 */
static lk_status read_titan_flag(struct line *l, const char *name, const lk_word *words, size_t count, size_t *used) {
	*used = count > 0 && words[0].text[0] != '-';
	l->dotted.dialect = LK_DIALECT_TORCHTITAN;
	if (*used > 0 && words[0].unknown == NULL) return lk_dotted_read(l->r, &l->dotted, name, words[0].text);
	if (*used == 0) return lk_dotted_read(l->r, &l->dotted, name, "true");
	lk_fail(l->r->err, LK_ERR_INPUT, l->r->where, "--%s: %s", name, words[0].unknown);
	return lk_hint(l->r->err, "write the value into the script");
}

/* Settings and options of `nemo llm pretrain`. */
static lk_status read_nemo(struct line *l, const lk_word *words, size_t count, size_t *used) {
	const char *text = words[0].text, *equals = strchr(text, '=');
	*used = 1;
	if (strcmp(text, "--factory") == 0 && count > 1) {
		*used = 2;
		return lk_launch_note(l->r, text, "the network is given with its own option");
	}
	if (text[0] == '-' || equals == NULL) return lk_launch_note(l->r, text, "a word of NeMo's command line: not part of the step");
	if (words[0].unknown != NULL) {
		lk_fail(l->r->err, LK_ERR_INPUT, l->r->where, "%s: %s", text, words[0].unknown);
		return lk_hint(l->r->err, "write the value into the script");
	}
	char *path = lk_arena_strndup(l->r->arena, text, (size_t)(equals - text));
	if (path == NULL) return lk_oom(l->r->err);
	return lk_dotted_read(l->r, &l->dotted, path, equals + 1);
}

static lk_status read_named(struct line *l, const char *name, const lk_word *words, size_t count, size_t *used) {
	if (strcmp(name, "deepspeed") == 0 || strcmp(name, "deepspeed_config") == 0)
		return read_deepspeed_flag(l, name, words, count, used);
	if (lk_dotted_flag(LK_DIALECT_TORCHTITAN, name)) return read_titan_flag(l, name, words, count, used);
	if (lk_trainer_flag(name)) return lk_trainer_read(l->r, &l->trainer, name, words, count, used);
	return lk_megatron_read(l->r, &l->flags, name, words, count, used);
}

/* "--name value..." or "--name=value". */
static lk_status read_flag(struct line *l, const lk_word *words, size_t count, size_t *used) {
	const char *name = words[0].text + strspn(words[0].text, "-"), *equals = strchr(name, '=');
	size_t values;
	l->any_flag = true;
	*used = 1;
	if (equals == NULL) {
		LK_TRY(read_named(l, name, words + 1, count - 1, &values));
		*used += values;
		return LK_OK;
	}
	char *alone = lk_arena_strndup(l->r->arena, name, (size_t)(equals - name));
	if (alone == NULL) return lk_oom(l->r->err);
	lk_word value = words[0];
	value.text = equals + 1;
	return read_named(l, alone, &value, 1, &values);
}

static lk_status read_flags(struct line *l, const lk_word *words, size_t count) {
	for (size_t i = 0, used; i < count; i += used) {
		used = 1;
		const lk_word *word = &words[i];
		if (l->dotted.dialect == LK_DIALECT_NEMO) {
			LK_TRY(read_nemo(l, word, count - i, &used));
		} else if (word->unknown != NULL && word->text[0] != '-') {
			if (!word->empty_if_unset) {
				lk_fail(l->r->err, LK_ERR_INPUT, l->r->where, "%s, and flags may be in it", word->unknown);
				return lk_hint(l->r->err, "write its text into the script");
			}
			LK_TRY(lk_launch_note(l->r, word->text, lk_arena_printf(l->r->arena, "%s: taken as empty", word->unknown)));
		} else if (word->text[0] == '-' && word->text[strspn(word->text, "-")] != '\0') {
			LK_TRY(read_flag(l, word, count - i, &used));
		} else if (word->text[0] != '\0') {
			LK_TRY(lk_launch_note(l->r, word->text, "a word that belongs to no flag"));
		}
	}
	return LK_OK;
}

static lk_status read_words(struct line *l, const lk_word *words, size_t count);

static lk_status read_inner_script(struct line *l, const lk_word *text) {
	lk_words words = {0};
	lk_reading *r = l->r;
	if (r->depth >= 8) return lk_fail(r->err, LK_ERR_INPUT, r->where, "shells are nested too deeply");
	r->depth++;
	lk_status status = lk_script_words(r, text->text, strlen(text->text), &l->environment, &words, &l->ranks);
	if (status == LK_OK) status = read_words(l, words.at, words.count);
	lk_vec_free(&words);
	r->depth--;
	return status;
}

/* Settings, launchers, program, flags. */
static lk_status read_words(struct line *l, const lk_word *words, size_t count) {
	size_t i = 0;
	while (i < count && !l->program) {
		lk_launched launched;
		const char *text = words[i].text;
		if (lk_launch_setting(&words[i])) {
			LK_TRY(read_setting(l, &words[i++]));
			continue;
		}
		LK_TRY(lk_launcher_read(l->r, words + i, count - i, &l->ranks, &launched));
		if (launched.script != NULL) return read_inner_script(l, launched.script);
		if (launched.program != NULL) LK_TRY(read_program(l, launched.program));
		i += launched.used;
		if (launched.used > 0) continue;
		if (text[0] == '-') break;
		if (lk_launch_nemo(text)) l->program = true, l->dotted.dialect = LK_DIALECT_NEMO;
		if (l->program) {
			i++;
			break;
		}
		size_t length = strlen(text);
		if (length > 3 && strcmp(text + length - 3, ".py") == 0) LK_TRY(read_program(l, &words[i]));
		else if (text[0] != '\0') LK_TRY(lk_launch_note(l->r, text, "a word that is no launcher and no program"));
		i++;
	}
	return read_flags(l, words + i, count - i);
}

static lk_status count_gpus(struct line *l) {
	const lk_launch_ranks *ranks = &l->ranks;
	int64_t nodes = ranks->nodes > 0 ? ranks->nodes : 1;
	int64_t gpus =
		ranks->total > 0 ? ranks->total : nodes * (ranks->per_node > 0 ? ranks->per_node : ranks->tasks_per_node);
	if (gpus > LK_JOB_GPUS) {
		lk_fail(l->r->err, LK_ERR_INPUT, l->r->where, "%lld ranks", (long long)gpus);
		return lk_hint(l->r->err, "at most %d are read", LK_JOB_GPUS);
	}
	l->r->out->gpus = (int)gpus;
	return LK_OK;
}

static lk_status finish_line(struct line *l) {
	lk_reading *r = l->r;
	if (!l->program && !l->any_flag) {
		lk_fail(r->err, LK_ERR_INPUT, r->where, "no training program and no flags");
		return lk_hint(
			r->err,
			"paste the whole line, for instance torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 ...");
	}
	LK_TRY(count_gpus(l));
	if (l->dotted.dialect != 0) {
		LK_TRY(lk_dotted_finish(r, &l->dotted, &r->out->gpus));
		*r->out->job = l->dotted.job;
	} else if (l->megatron || l->flags.stated > 0) {
		LK_TRY(lk_megatron_finish(r, &l->flags, r->out->gpus));
	} else {
		*r->out->job = l->trainer;
		lk_trainer_finish(r->out->job, l->flags.bf16, l->flags.fp16);
	}
	r->out->job->gpus = r->out->gpus;
	if (l->deepspeed != NULL) LK_TRY(lk_deepspeed_apply(r, l->deepspeed));
	return apply_settings(l);
}

static lk_status read_line(lk_reading *r, const lk_word *words, size_t count, const lk_launch_ranks *batch) {
	struct line l = {.r = r};
	if (batch != NULL) l.ranks = *batch;
	r->out->job = LK_NEW(r->arena, lk_job);
	if (r->out->job == NULL) return lk_oom(r->err);
	lk_megatron_init(&l.flags);
	lk_status status = read_words(&l, words, count);
	if (status == LK_OK) status = finish_line(&l);
	lk_vec_free(&l.environment);
	return status;
}

lk_status lk_launch_read(lk_arena *arena, int count, const char *const *words, const char *where, lk_launch *out,
						 lk_error *err) {
	lk_reading r = {.arena = arena, .where = where != NULL ? where : "launch line", .out = out, .err = err};
	if (count < 0 || count > LK_LAUNCH_WORDS) return lk_fail(err, LK_ERR_INPUT, r.where, "%d words", count);
	*out = (lk_launch){0};
	lk_word *list = LK_ARRAY(arena, lk_word, (size_t)count + 1);
	if (list == NULL) return lk_oom(err);
	for (int i = 0; i < count; i++) list[i].text = words[i];
	return read_line(&r, list, (size_t)count, NULL);
}

bool lk_launch_has_flag(const char *name) {
	return lk_megatron_flag(name) != NULL;
}

lk_status lk_launch_text(lk_arena *arena, const char *text, size_t size, const char *name, lk_launch *out,
						 lk_error *err) {
	lk_reading r = {.arena = arena, .where = name, .out = out, .err = err};
	lk_words words = {0};
	lk_launch_ranks batch = {0};
	if (size > LK_LAUNCH_BYTES) return lk_fail(err, LK_ERR_INPUT, name, "a script of more than 4 MiB");
	char *copy = lk_arena_strndup(arena, text, size);
	if (copy == NULL) return lk_oom(err);
	if (strlen(copy) != size) {
		lk_fail(err, LK_ERR_INPUT, name, "byte %zu is NUL", strlen(copy));
		return lk_hint(err, "give a shell script");
	}
	*out = (lk_launch){0};
	lk_status status = lk_script_words(&r, copy, size, NULL, &words, &batch);
	if (status == LK_OK) status = read_line(&r, words.at, words.count, &batch);
	lk_vec_free(&words);
	return status;
}

lk_status lk_launch_script(lk_arena *arena, const char *path, lk_launch *out, lk_error *err) {
	char *text;
	size_t size;
	LK_TRY(lk_stream_slurp(path, LK_LAUNCH_BYTES, &text, &size, err));
	lk_status status = lk_launch_text(arena, text, size, path, out, err);
	free(text);
	return status;
}
