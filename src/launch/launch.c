/* launch.c: pasted launch lines: settings of the environment, launchers, the training program, its
 * flags.
 *
 *   line_settings.c   the environment
 *   line_program.c    what is started
 *   line_flags.c      flags, configurations that they name
 *   line_dotted.c     torchtitan, NeMo, Megatron-Bridge
 *
 * A line is Megatron-LM's if its program is called pretrain_... or a flag is in it that only
 * Megatron-LM has; then what the flags leave out is what Megatron-LM assumes. */
#include "base/arena.h"
#include "base/noun.h"
#include "base/text.h"
#include "io/stream.h"
#include "launch/line.h"
#include "launch/read.h"
#include "launch/script/script.h"
#include "model/layout/job.h"
#include "model/read/read.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CONFIGS = 8,   /* that launch lines with configurations, at most */
	SETTINGS = 256 /* in front of a script */
};

static lk_status launch_read_line(lk_reading *reading, const lk_word *words, size_t count,
                                  const lk_launch_ranks *batch);

/* ---- words ---- */

/* Number of words of "ray job submit ... --", which starts what follows; 0: it is no such line. */
static size_t launch_ray(const lk_word *words, size_t count) {
	size_t i = 0;
	const char *slash = count < 3 ? NULL : strrchr(words[0].text, '/');
	if (count < 3 || strcmp(slash != NULL ? slash + 1 : words[0].text, "ray") != 0 ||
	    strcmp(words[1].text, "job") != 0)
		return 0;
	while (i < count && strcmp(words[i].text, "--") != 0) i++;
	return i < count ? i + 1 : 0;
}

static lk_status launch_read_words(lk_line *line, const lk_word *words, size_t count);

static lk_status launch_inner_script(lk_line *line, const lk_word *text) {
	lk_words words = {0};
	lk_reading *reading = line->r;
	if (reading->depth >= 8)
		return lk_fail(reading->err, LK_ERR_INPUT, reading->where, "shells are nested too deeply");
	reading->depth++;
	lk_status status = lk_script_words(reading, text->text, strlen(text->text), &line->environment,
	                                   NULL, &words, &line->ranks);
	if (status == LK_OK) status = launch_read_words(line, words.at, words.count);
	lk_vec_free(&words);
	reading->depth--;
	return status;
}

/* Settings, launchers, program, flags. */
static lk_status launch_read_words(lk_line *line, const lk_word *words, size_t count) {
	size_t i = 0;
	while (i < count && !line->program) {
		lk_launched launched;
		const char *text = words[i].text;
		if (lk_launch_setting(&words[i])) {
			LK_TRY(lk_line_setting(line, &words[i++]));
			continue;
		}
		size_t own = launch_ray(words + i, count - i);
		i += own;
		if (own > 0) continue;
		if (lk_line_own_script(line, words + i, count - i, &own)) {
			i += own;
			break;
		}
		LK_TRY(lk_launcher_read(line->r, words + i, count - i, &line->ranks, &launched));
		LK_TRY(lk_line_passed(line));
		if (launched.script != NULL) return launch_inner_script(line, launched.script);
		if (launched.program != NULL) LK_TRY(lk_line_program(line, launched.program));
		bool alone = launched.program != NULL && launched.alone && line->command != NULL;
		if (alone) LK_TRY(lk_line_one_process(line));
		i += launched.used;
		if (launched.used > 0) continue;
		if (text[0] == '-') break;
		if (lk_launch_nemo(text)) {
			line->program = true;
			line->dotted.dialect = LK_DIALECT_NEMO;
		}
		const lk_word *next = i + 1 < count ? &words[i + 1] : NULL;
		const lk_command_of *command = lk_launch_command(text, next != NULL ? next->text : NULL);
		if (command != NULL) {
			LK_TRY(lk_line_command(line, command, next));
			i += next != NULL;
		}
		if (line->program) {
			i++;
			break;
		}
		size_t length = strlen(text);
		if (lk_launch_measures(text)) {
			lk_fail(line->r->err, LK_ERR_INPUT, line->r->where,
			        "%.80s measures, and trains nothing", text);
			return lk_hint(line->r->err, "give the launch of a training");
		}
		if (length > 3 && strcmp(text + length - 3, ".py") == 0)
			LK_TRY(lk_line_program(line, &words[i]));
		else if (text[0] != '\0')
			LK_TRY(
				lk_launch_note(line->r, text, "a word that is neither a launcher nor a program"));
		i++;
	}
	return lk_line_flags(line, words + i, count - i);
}

/* ---- what they mean together ---- */

/* Ray places what trains, as the program's own settings say, wherever a launcher starts it. */
static bool launch_is_placed(const lk_line *line) {
	return line->verl == LK_VERL_STEP || (line->name != NULL && lk_ends_in(line->name, "_ray"));
}

static lk_status launch_count_gpus(lk_line *line) {
	const lk_launch_ranks *ranks = &line->ranks;
	if (launch_is_placed(line)) return LK_OK;
	int64_t nodes = ranks->nodes > 0 ? ranks->nodes : 1;
	int64_t gpus = nodes * (ranks->per_node > 0 ? ranks->per_node : ranks->tasks_per_node);
	if (ranks->total > 0) gpus = ranks->total;
	if (gpus > LK_JOB_GPUS) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%lld %s", (long long)gpus,
		        lk_noun(gpus, "rank", "ranks"));
		return lk_hint(line->r->err, "at most %d are read", LK_JOB_GPUS);
	}
	line->r->out->gpus = (int)gpus;
	if (gpus == 0 || gpus % nodes != 0) return LK_OK;
	return lk_launch_name_visible(line->r, (int)(gpus / nodes));
}

/* Whether a text of Hydra's grammar is YAML too: "{*}" is not, and says nothing of the job. */
static bool launch_is_yaml(lk_line *line, const char *text) {
	lk_value *value;
	return lk_yaml_document(line->r->arena, text, strlen(text), "", &value, NULL) == LK_OK;
}

/* The flags after a configuration override its keys. */
static const char *launch_overrides(lk_line *line) {
	const char *sets = line->titan_sets != NULL ? line->titan_sets : "";
	for (size_t i = 0; i < line->settings.count && sets; i++) {
		const char *text = line->settings.items[i].text;
		if (text == NULL || strchr(text, '\n')) continue;
		if (line->hydra && !launch_is_yaml(line, text)) continue;
		sets = lk_arena_printf(line->r->arena, "%s%s=%s\n", sets, line->settings.keys[i], text);
	}
	return sets;
}

/* The environment, for configurations that refer to it. */
static const char *launch_variables(lk_line *line) {
	const char *vars = "";
	for (size_t i = 0; i < line->environment.count && vars; i++) {
		const lk_word *word = &line->environment.at[i];
		if (word->unknown != NULL || strchr(word->text, '\n')) continue;
		vars = lk_arena_printf(line->r->arena, "%s%s\n", vars, word->text);
	}
	return vars;
}

/* verl's own file in the place of one that is not here: its name says which engine trains. */
static lk_status launch_verl(lk_line *line, const char *name, const lk_inner_file **inner) {
	static const char *const engines[] = {"megatron", "veomni", "torchtitan"};
	bool sft = line->verl == LK_VERL_SFT;
	const char *engine = NULL, *text = sft ? "data: {micro_batch_size_per_gpu: 4}\n" : "";
	for (size_t i = 0; name != NULL && i < sizeof engines / sizeof *engines; i++)
		if (strcasestr(name, engines[i]) != NULL) engine = engines[i];
	lk_inner_file *file = LK_NEW(line->r->arena, lk_inner_file);
	if (engine != NULL && sft)
		text = lk_arena_printf(line->r->arena, "%smodel_engine: %s\n", text, engine);
	else if (engine != NULL)
		text =
			lk_arena_printf(line->r->arena, "actor_rollout_ref: {actor: {strategy: %s}}\n", engine);
	else if (!sft) text = "actor_rollout_ref: {}\n";
	if (file == NULL || text == NULL) return lk_oom(line->r->err);
	*file = (lk_inner_file){
		.name = sft ? "sft_trainer.yaml" : "ppo_trainer.yaml", .text = text, .size = strlen(text)};
	*inner = file;
	if (engine == NULL) return LK_OK;
	return lk_launch_assume(line->r, "strategy %s, by the name of %.100s, which is not here",
	                        engine, name);
}

/* The configuration that the program reads; *found false where it is not here and the line may do
 * without. */
static lk_status launch_configured(lk_line *line, bool *found) {
	lk_reading *reading = line->r;
	const char *where = reading->where, *name = line->config;
	lk_launch_given given = {
		.sets = launch_overrides(line),
		.vars = launch_variables(line),
		.also = line->also,
		.program =
			line->command != NULL || line->maxtext || line->operand != NULL ? line->name : NULL};
	const lk_inner_file *inner = NULL;
	lk_words words = {0};
	if (given.sets == NULL || given.vars == NULL) return lk_oom(reading->err);
	const char *path = name != NULL ? lk_launch_file_named(reading, name, &inner) : NULL;
	lk_inner_file known = {.name = "base.yml", .text = ""};
	if (path == NULL && inner == NULL && line->maxtext) {
		bool named;
		known.text = lk_maxtext_file(reading, name != NULL ? name : "base.yml", &named);
		if (known.text == NULL) return lk_oom(reading->err);
		known.size = strlen(known.text);
		inner = &known;
		if (name != NULL)
			LK_TRY(lk_launch_assume(reading, "%.100s is not here: taken as MaxText's %s", name,
			                        named ? "own file of that name" : "base.yml"));
	}
	if (path == NULL && inner == NULL && line->hydra) LK_TRY(launch_verl(line, name, &inner));
	if (path == NULL && inner == NULL) {
		if (!line->configured) return lk_launch_note(reading, name, LK_LAUNCH_NO_FILE);
		if (name == NULL && line->settings.count > 0) return LK_OK; /* flags in its place */
		lk_fail(reading->err, LK_ERR_INPUT, where, "%s: %.120s, its configuration, is not here",
		        line->name, name != NULL ? name : "the file");
		return lk_hint(reading->err, "give the script in its folder, or the configuration itself");
	}
	if (++reading->depth > CONFIGS)
		return lk_fail(reading->err, LK_ERR_INPUT, where, "configurations launch one another");
	reading->where = path != NULL ? path : inner->name;
	lk_status status = path != NULL ? lk_config_read(reading, path, &given, &words)
	                                : lk_config_read_text(reading, inner->text, inner->size,
	                                                      inner->name, &given, &words);
	if (status == LK_OK && words.count > 0)
		status = launch_read_line(reading, words.at, words.count, &line->ranks);
	if (status == LK_OK) reading->where = where;
	reading->depth--;
	lk_vec_free(&words);
	*found = true;
	return status;
}

/* The job that the flags state, by whose flags they are. */
static lk_status launch_finish_flags(lk_line *line) {
	lk_reading *reading = line->r;
	if (line->dotted.dialect != 0) {
		LK_TRY(lk_dotted_finish(reading, &line->dotted, &reading->out->gpus));
		for (size_t i = 0; i < line->settings.count; i++)
			LK_TRY(lk_launch_unknown(reading, line->settings.keys[i], NULL));
		*reading->out->job = line->dotted.job;
		return LK_OK;
	}
	if (line->megatron) return lk_megatron_finish(reading, &line->flags, reading->out->gpus);
	return lk_framework_line(reading, &line->settings, line->name);
}

/* A published script is written for one node, whatever its degrees need ("change for multinode"):
 * then they say how many there are. */
static lk_status launch_spread(lk_line *line) {
	lk_reading *reading = line->r;
	const lk_job *job = reading->out->job;
	int stated = reading->out->gpus;
	int64_t block, least = lk_launch_least_gpus(job, 1, &block);
	if (!reading->script || stated == 0 || stated >= least || least > LK_JOB_GPUS) return LK_OK;
	reading->out->gpus = 0;
	LK_TRY(
		lk_launch_assume(reading,
	                     "more GPUs than the %d that the script states, which its degrees do not "
	                     "divide",
	                     stated));
	return lk_launch_count_gpus(reading, job, 1, 0, false);
}

/* A script's configuration of DeepSpeed that is not here, as scripts write their own with sed:
 * flags say what it holds, or a published name does. */
static lk_status launch_deepspeed(lk_line *line) {
	lk_reading *reading = line->r;
	const lk_inner_file *written = NULL;
	const char *path = line->deepspeed, *slash = strrchr(path, '/');
	bool missing = reading->script && lk_ends_in(path, ".json") &&
	               lk_launch_file_named(reading, path, &written) == NULL && written == NULL;
	if (missing && line->megatron && line->flags.zero_stage >= 0)
		return lk_launch_note(reading, "deepspeed_config",
		                      "the file is not here: what the flags state holds");
	if (missing && !line->megatron && strpbrk(slash != NULL ? slash : path, "0123") != NULL)
		return lk_deepspeed_named(reading, path);
	return lk_deepspeed_apply(reading, path);
}

static lk_status launch_finish_line(lk_line *line) {
	lk_reading *reading = line->r;
	if (!line->program && !line->any_flag) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "no training program and no flags");
		return lk_hint(reading->err, "paste the whole line, for instance torchrun --nproc_per_node "
		                             "8 pretrain_gpt.py --num-layers 32 ...");
	}
	if (line->unknown != NULL && !line->any_flag && line->config == NULL) {
		if (reading->missing == NULL)
			return lk_launch_unknown_value(reading, "the program", line->unknown);
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "the training is in another file, %.80s", reading->missing);
		return lk_hint(reading->err, "put that file next to the script, or give it");
	}
	LK_TRY(lk_line_join_hydra(line));
	LK_TRY(launch_count_gpus(line));
	bool configured = false;
	reading->accelerate = line->ranks.accelerate;
	reading->accelerate_flags = line->ranks.accelerate_flags;
	if (line->config != NULL || line->configured) LK_TRY(launch_configured(line, &configured));
	if (!configured) LK_TRY(launch_finish_flags(line));
	LK_TRY(launch_spread(line));
	reading->out->job->gpus = reading->out->gpus;
	if (reading->out->gpus == 0 && reading->out->gpus_assumed == 0)
		LK_TRY(lk_launch_count_gpus(reading, reading->out->job, 1, reading->usual_gpus, false));
	if (line->deepspeed != NULL) LK_TRY(launch_deepspeed(line));
	return lk_line_apply_settings(line);
}

static lk_status launch_read_line(lk_reading *reading, const lk_word *words, size_t count,
                                  const lk_launch_ranks *batch) {
	lk_line l = {.r = reading};
	if (batch != NULL) l.ranks = *batch;
	reading->out->job = LK_NEW(reading->arena, lk_job);
	if (reading->out->job == NULL) return lk_oom(reading->err);
	lk_megatron_init(&l.flags);
	lk_status status = lk_line_passed(&l); /* #SBATCH --export */
	if (status == LK_OK) status = launch_read_words(&l, words, count);
	if (status == LK_OK) status = launch_finish_line(&l);
	lk_members_free(&l.settings);
	lk_vec_free(&l.environment);
	return status;
}

/* ---- lines, scripts, configurations ---- */

/* MP_VP=2 bash run.sh dsw 7B: a script that is here, with its variables and arguments; *script is
 * NULL for any other line. */
static lk_status launch_called(lk_arena *arena, int count, const char *const *words,
                               const char **script, lk_launch_given *given, lk_error *err) {
	static const char *const starters[] = {"bash", "sh", "zsh"};
	const char *vars = "";
	int i = 0;
	*script = NULL;
	for (; i < count && i < SETTINGS && vars != NULL; i++) {
		const lk_word word = {.text = words[i]};
		if (!lk_launch_setting(&word)) break;
		vars = lk_arena_printf(arena, "%s%s\n", vars, words[i]);
	}
	if (vars == NULL) return lk_oom(err);
	bool direct = i < count && strncmp(words[i], "./", 2) == 0;
	bool starts = direct;
	for (size_t k = 0; i + 1 < count && k < sizeof starters / sizeof *starters; k++)
		starts |= strcmp(words[i], starters[k]) == 0;
	i += !direct;
	if (!starts || i >= count || !lk_ends_in(words[i], ".sh") || access(words[i], R_OK) != 0 ||
	    lk_launch_own_script(words[i]) != LK_OWN_NONE)
		return LK_OK;
	*script = words[i];
	*given = (lk_launch_given){.vars = vars, .args = words + i + 1, .arg_count = count - i - 1};
	return LK_OK;
}

lk_status lk_launch_read(lk_arena *arena, int count, const char *const *words, const char *where,
                         lk_launch *out, lk_error *err) {
	lk_reading r = {
		.arena = arena, .where = where != NULL ? where : "launch line", .out = out, .err = err};
	if (count < 0 || count > LK_LAUNCH_WORDS)
		return lk_fail(err, LK_ERR_INPUT, r.where, "%d words", count);
	*out = (lk_launch){0};
	const char *script;
	lk_launch_given given;
	LK_TRY(launch_called(arena, count, words, &script, &given, err));
	if (script != NULL) return lk_launch_script(arena, script, &given, out, err);
	lk_word *list = LK_ARRAY(arena, lk_word, (size_t)count + 1);
	if (list == NULL) return lk_oom(err);
	for (int i = 0; i < count; i++) list[i].text = words[i];
	return launch_read_line(&r, list, (size_t)count, NULL);
}

bool lk_launch_has_flag(const char *name) {
	return lk_megatron_flag(name) != NULL;
}

lk_status lk_launch_text(lk_arena *arena, const char *text, size_t size, const char *name,
                         const lk_launch_given *given, lk_launch *out, lk_error *err) {
	lk_reading r = {.arena = arena, .where = name, .out = out, .err = err, .script = true};
	lk_words words = {0};
	lk_launch_ranks batch = {0};
	if (size > LK_LAUNCH_BYTES)
		return lk_fail(err, LK_ERR_INPUT, name, "a script larger than 4 MiB");
	char *copy = lk_arena_strndup(arena, text, size);
	if (copy == NULL) return lk_oom(err);
	if (strlen(copy) != size) {
		lk_fail(err, LK_ERR_INPUT, name, "byte %zu is NUL", strlen(copy));
		return lk_hint(err, "give a shell script");
	}
	*out = (lk_launch){0};
	if (given != NULL && given->sets != NULL && *given->sets != '\0') {
		lk_fail(err, LK_ERR_INPUT, "--set", "%s is a shell script, which has no keys", name);
		return lk_hint(err, "give --var NAME=VALUE for its variables");
	}
	lk_status status = lk_script_words(&r, copy, size, NULL, given, &words, &batch);
	if (status == LK_OK) status = launch_read_line(&r, words.at, words.count, &batch);
	lk_vec_free(&words);
	return status;
}

lk_status lk_launch_script(lk_arena *arena, const char *path, const lk_launch_given *given,
                           lk_launch *out, lk_error *err) {
	char *text;
	size_t size;
	LK_TRY(lk_stream_slurp(path, LK_LAUNCH_BYTES, &text, &size, err));
	lk_status status = lk_launch_text(arena, text, size, path, given, out, err);
	free(text);
	return status;
}

/* The launch line that a configuration stands for, where its framework is started by one. */
static lk_status launch_end_config(lk_reading *reading, lk_words *words, lk_status status) {
	if (status == LK_OK && words->count > 0)
		status = launch_read_line(reading, words->at, words->count, &reading->batch);
	else if (status == LK_OK) reading->out->job->gpus = reading->out->gpus;
	lk_vec_free(words);
	return status;
}

/* A recipe in Python, which stands for a launch line. */
static lk_status launch_read_python(lk_reading *reading, const char *text, size_t size,
                                    const lk_launch_given *given) {
	lk_words words = {0};
	char *copy = lk_arena_strndup(reading->arena, text, size);
	if (copy == NULL) return lk_oom(reading->err);
	return launch_end_config(reading, &words, lk_recipe_python(reading, copy, given, &words));
}

/* A configuration, whose framework may be started by a launch line that it stands for. */
static lk_status launch_read_config(lk_reading *reading, const char *path,
                                    const lk_launch_given *given) {
	lk_words words = {0};
	if (given != NULL && given->arg_count > 0) {
		lk_fail(reading->err, LK_ERR_INPUT, path, "a configuration takes no words after --");
		return lk_hint(reading->err, "give --set key=value");
	}
	lk_status status = lk_config_read(reading, path, given, &words);
	return launch_end_config(reading, &words, status);
}

lk_status lk_launch_config_text(lk_arena *arena, const char *text, size_t size, const char *name,
                                lk_launch *out, lk_error *err) {
	lk_reading reading = {.arena = arena, .where = name, .out = out, .err = err};
	lk_words words = {0};
	*out = (lk_launch){0};
	lk_status status = lk_config_read_text(&reading, text, size, name, NULL, &words);
	return launch_end_config(&reading, &words, status);
}

/* A text with a launch line in it. */
static lk_status launch_read_pasted(lk_reading *reading, const char *text, size_t size,
                                    const lk_launch_given *given) {
	lk_paste paste;
	LK_TRY(lk_paste_read(reading->arena, text, size, reading->where, &paste, reading->err));
	LK_TRY(lk_launch_text(reading->arena, paste.script, paste.size, reading->where, given,
	                      reading->out, reading->err));
	lk_paste_add(&paste, reading->out);
	return LK_OK;
}

lk_status lk_launch_file(lk_arena *arena, const char *path, const lk_launch_given *given,
                         lk_launch *out, lk_error *err) {
	lk_reading reading = {.arena = arena, .where = path, .out = out, .err = err};
	char *text;
	size_t size;
	*out = (lk_launch){0};
	lk_status read = lk_stream_slurp(path, LK_LAUNCH_BYTES, &text, &size, err);
	lk_model named;
	if (read == LK_ERR_IO && strstr(path, " -")) /* the line itself, in quotes */
		return lk_launch_text(arena, path, strlen(path), "launch line", given, out, err);
	if (read == LK_ERR_IO && lk_model_preset(path, &named, NULL) == LK_OK)
		return lk_hint(err, "it is the name of a network: give --model %s", named.name);
	if (read == LK_ERR_IO && !strpbrk(path, "/.")) { /* no path, but perhaps a slip in a name */
		lk_error near = {0};
		if (lk_model_preset(path, &named, &near) == LK_ERR_INPUT)
			return lk_hint(err, "if it is to be a network: %s", near.hint);
	}
	LK_TRY(read);
	bool python = lk_ends_in(path, ".py");
	bool pasted = lk_paste_is(text, size, path);
	bool config =
		!python && !pasted && lk_document_form_named(path, text, size) != LK_DOCUMENT_NONE;
	lk_status status;
	if (config) status = launch_read_config(&reading, path, given);
	else if (python) status = launch_read_python(&reading, text, size, given);
	else if (pasted) status = launch_read_pasted(&reading, text, size, given);
	else status = lk_launch_text(arena, text, size, path, given, out, err);
	free(text);
	return status;
}

lk_status lk_deepspeed_read(lk_arena *arena, const char *path, lk_launch *out, lk_error *err) {
	lk_reading r = {.arena = arena, .where = path, .out = out, .err = err};
	if (out->job == NULL) out->job = LK_NEW(arena, lk_job);
	return out->job == NULL ? lk_oom(err) : lk_deepspeed_apply(&r, path);
}
