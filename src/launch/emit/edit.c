/* edit.c: a job as changes of the text that states another one.
 *
 * What the rows of the framework, or its launch line, state of both jobs is compared; what differs
 * makes changes in all places of the text that may state it, and additions where none does. Reading
 * the changed text decides: it gives back the job, and a change without which it still does is
 * taken back, so that those remain that are needed. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/emit/rows.h"
#include "launch/read.h"

enum {
	NOTES = 4,
	WORDS = 1024,     /* of a launch line that are compared */
	CHANGES = 2048,   /* of settings */
	UNREADABLE = 4096 /* fields in which a text that cannot be read differs */
};

/* A setting that the jobs state differently; NULL: not at all. */
typedef struct edit_change {
	const char *name, *before, *after;
	int row;            /* its place among the framework's settings */
	const char *beside; /* the setting next to which it is added; NULL: by its own row */
	bool added;         /* it may be added where no place has it */
	bool goes_along;
} edit_change;

typedef struct edit_work {
	lk_arena *arena;
	const lk_source *source;
	const lk_job *job;
	const lk_cluster *cluster;
	lk_launch base; /* what the text states */
	lk_job *before; /* NULL: it cannot run */
	bool file;      /* a configuration; else a script or a line */
	bool deepspeed; /* DeepSpeed's */
	edit_change *changes;
	int change_count;
	lk_spots places;
	lk_edits edits;
} edit_work;

/* ---- reading ---- */

/* What a text states, with the network and, where it states none, the GPUs of the job wanted. */
static lk_status edit_read(const edit_work *work, lk_arena *arena, const char *text,
                           lk_launch *launch, lk_job *raw, lk_error *err) {
	LK_TRY(work->source->read(work->source, arena, text, launch, raw, err));
	if (raw->gpus <= 0) raw->gpus = work->job->gpus;
	return LK_OK;
}

static bool edit_counts(const lk_field *field) {
	return field->offset >= offsetof(lk_job, model) + sizeof(lk_model);
}

/* Fields in which a text differs from the job that is wanted, as bits of `differs` (NULL: only
 * their number); the text states *raw. */
static int edit_differs(const edit_work *work, const lk_job *raw, bool *differs) {
	lk_job back = *raw;
	int count = 0;
	(void)lk_job_complete(&back, work->cluster, NULL); /* as it is where it cannot */
	for (int i = 0; lk_job_fields[i].name; i++) {
		const lk_field *field = &lk_job_fields[i];
		bool said = field->said == 0 || *(const bool *)((const char *)raw + field->said);
		bool same = lk_field_equal(field, work->job, &back) ||
		            (said && lk_field_equal(field, work->job, raw));
		bool other = edit_counts(field) && !same;
		if (differs) differs[i] = other;
		count += other;
	}
	return count;
}

/* The number of differences with the changes that are made. */
static lk_status edit_score(edit_work *work, int *score, lk_error *err) {
	lk_arena arena = {0};
	lk_launch launch;
	lk_job raw;
	lk_error refused = {0};
	const char *text = lk_edited(&arena, work->source->text, work->edits.at, work->edits.count);
	lk_status status =
		text ? edit_read(work, &arena, text, &launch, &raw, &refused) : LK_ERR_MEMORY;
	*score = status == LK_OK ? edit_differs(work, &raw, NULL) : UNREADABLE;
	lk_arena_free(&arena);
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
}

/* ---- what the jobs state ---- */

/* Megatron-LM refuses full recomputation without its method and number of layers
 * (core/transformer/transformer_config.py), although reading takes the usual ones. */
static bool edit_goes_along(const char *name, const char *before, const char *after) {
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
	bool needed =
		lk_same_name(last, "recompute_method") || lk_same_name(last, "recompute_num_layers");
	return needed && !before && after;
}

static lk_status edit_add_change(edit_work *work, const char *name, const char *before,
                                 const char *after, int row, bool added) {
	bool same = before == after || (before && after && strcmp(before, after) == 0);
	if (same || work->change_count == CHANGES) return LK_OK;
	work->changes[work->change_count++] =
		(edit_change){.name = name,
	                  .before = before,
	                  .after = after,
	                  .row = row,
	                  .added = added,
	                  .goes_along = edit_goes_along(name, before, after)};
	return LK_OK;
}

static bool edit_writes(const lk_key *table) {
	for (; table->path; table++)
		if (table->direction != LK_READ) return true;
	return false;
}

/* Whether a row of a table may be added: what is written in the first table that writes, which is
 * the framework's own; of other rows that state one fact the first, if none is written. */
static bool edit_adds(const lk_key *const *tables, size_t number, const lk_key *row) {
	bool fact = row->kind == LK_KEY_FACT && row->fact, own = row->direction != LK_READ;
	for (size_t i = 0; i < number; i++) own = own && !edit_writes(tables[i]);
	if (row->kind == LK_KEY_SKIP || own) return own;
	if (fact && strcmp(row->fact, "zero") == 0) return false; /* see edit_compare_software */
	const lk_key *first = NULL;
	for (; fact && *tables; tables++)
		for (const lk_key *other = *tables; other->path; other++) {
			bool same = other->kind == LK_KEY_FACT && strcmp(other->fact, row->fact) == 0;
			if (same && other->direction != LK_READ) return false;
			if (same && !first) first = other;
		}
	return first == row;
}

/* By the rows of tables. */
static lk_status edit_compare_rows(edit_work *work, const lk_emission *before,
                                   const lk_emission *after, lk_error *err) {
	const lk_key *const *tables = work->base.keys;
	size_t rows = 0, at = 0;
	for (size_t i = 0; tables[i]; i++)
		for (const lk_key *row = tables[i]; row->path; row++) rows++;
	const char **was = LK_ARRAY(work->arena, const char *, rows + 1);
	const char **is = LK_ARRAY(work->arena, const char *, rows + 1);
	if (!was || !is || !lk_emit_rows_state(after, tables, is)) return lk_oom(err);
	if (before && !lk_emit_rows_state(before, tables, was)) return lk_oom(err);
	for (size_t i = 0; tables[i]; i++)
		for (const lk_key *row = tables[i]; row->path; row++, at++) {
			bool fact = row->kind == LK_KEY_FACT && row->fact;
			const char *item = strstr(row->path, ".-");
			bool whole = *row->path && !strpbrk(row->path, "*") && (!item || !item[2]);
			bool network = fact && strcmp(row->fact, "network_name") == 0;
			if (!whole || network || (row->direction == LK_READ && is[at] && !*is[at])) continue;
			bool along = row->kind == LK_KEY_SKIP;
			if (along && (!before || was[at] || !is[at])) continue;
			int count = work->change_count;
			LK_TRY(edit_add_change(work, row->path, was[at], is[at], (int)at,
			                       edit_adds(tables, i, row)));
			if (work->change_count > count) work->changes[count].goes_along |= along;
		}
	return LK_OK;
}

/* Words of a line as settings: "--name value ..." and "name=value". */
static int edit_settings(lk_arena *arena, const lk_words *words, edit_change *out) {
	int count = 0;
	bool open = false;
	for (size_t i = 0; i < words->count && count < WORDS; i++) {
		const char *word = words->at[i].text, *name = word + strspn(word, "-");
		const char *equals = strchr(name, '=');
		bool flag = name > word && !lk_is_digit(*name);
		if (flag || (equals && !strpbrk(word, " {"))) {
			size_t length = equals ? (size_t)(equals - name) : strlen(name);
			out[count++] = (edit_change){.name = lk_arena_strndup(arena, name, length),
			                             .after = equals ? equals + 1 : ""};
			open = !equals;
		} else if (open) {
			edit_change *last = &out[count - 1];
			last->after = *last->after ? lk_arena_printf(arena, "%s %s", last->after, word) : word;
		}
	}
	return count;
}

static const char *edit_setting(const edit_change *settings, int count, const char *name) {
	for (int i = 0; i < count; i++)
		if (settings[i].name && strcmp(settings[i].name, name) == 0) return settings[i].after;
	return NULL;
}

/* The number that Megatron-LM takes where its flag is left out; NULL: it is no number. */
static const char *edit_default(lk_arena *arena, const char *name) {
	const lk_flag *flag = lk_megatron_flag(name);
	lk_megatron usual;
	int number;
	if (!flag || flag->kind != LK_FLAG_INT) return NULL;
	lk_megatron_init(&usual);
	memcpy(&number, (const char *)&usual + flag->offset, sizeof number);
	return number >= flag->low && number <= flag->high ? lk_arena_printf(arena, "%d", number)
	                                                   : NULL;
}

/* By the words of launch lines. */
static lk_status edit_compare_lines(edit_work *work, lk_emission *before, lk_emission *after,
                                    lk_error *err) {
	edit_change *was = LK_ARRAY(work->arena, edit_change, WORDS);
	edit_change *is = LK_ARRAY(work->arena, edit_change, WORDS);
	lk_dialect dialect = (lk_dialect)work->base.dialect;
	if (!was || !is || !lk_write_line(after, dialect)) return lk_oom(err);
	if (before && !lk_write_line(before, dialect)) return lk_oom(err);
	int was_count = before ? edit_settings(work->arena, &before->program, was) : 0;
	int is_count = edit_settings(work->arena, &after->program, is);
	for (int i = 0; i < is_count; i++)
		LK_TRY(edit_add_change(work, is[i].name, edit_setting(was, was_count, is[i].name),
		                       is[i].after, i, true));
	for (int i = 0; i < was_count; i++)
		if (!edit_setting(is, is_count, was[i].name))
			LK_TRY(edit_add_change(work, was[i].name, was[i].after,
			                       edit_default(work->arena, was[i].name), i, false));
	if (dialect != LK_DIALECT_TORCHTITAN) return LK_OK;
	/* until 2026 it counted sequences */
	const char *const counted[] = {"training.local_batch_size", "training.batch_size",
	                               "training.global_batch_size", "activation_checkpoint.mode"};
	static const char *const recomputed[] = {[LK_RECOMPUTE_NONE] = "none",
	                                         [LK_RECOMPUTE_SELECTIVE] = "selective",
	                                         [LK_RECOMPUTE_FULL] = "full"};
	for (int i = 0; i < 4; i++) {
		const char *value =
			lk_arena_printf(work->arena, "%d", i < 2 ? work->job->mbs : work->job->gbs);
		if (i == 3) value = recomputed[work->job->recompute];
		LK_TRY(edit_add_change(work, counted[i], NULL, value, WORDS + i, i >= 2));
	}
	return LK_OK;
}

/* By what DeepSpeed's configuration states. Of the batch's three numbers two are enough. */
static lk_status edit_compare_deepspeed(edit_work *work) {
	enum { BATCH = 3 };
	const char *path, *after;
	for (int i = 0; (after = lk_deepspeed_state(work->arena, work->job, i, &path)); i++)
		LK_TRY(edit_add_change(
			work, path,
			work->before ? lk_deepspeed_state(work->arena, work->before, i, &path) : NULL, after, i,
			i >= BATCH));
	return LK_OK;
}

/* What starts the processes. */
static lk_status edit_compare_ranks(edit_work *work, const lk_emission *after) {
	static const char *const nodes[] = {"nnodes", "nodes", "num_nodes", "num_machines",
	                                    "trainer.num_nodes"};
	static const char *const each[] = {"nproc_per_node",  "nproc-per-node", "num_gpus",
	                                   "ntasks-per-node", "gpus-per-node",  "trainer.devices"};
	if (work->base.gpus <= 0 || work->base.gpus == work->job->gpus) return LK_OK;
	const char *node_count = lk_arena_printf(work->arena, "%d", after->nodes);
	const char *per_node = lk_arena_printf(work->arena, "%d", after->per_node);
	for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
		LK_TRY(edit_add_change(work, nodes[i], NULL, node_count, -1, false));
	for (size_t i = 0; i < sizeof each / sizeof *each; i++)
		LK_TRY(edit_add_change(work, each[i], NULL, per_node, -1, false));
	return LK_OK;
}

/* How another software is chosen, by ZeRO's stage, NULL: not with it.
 * accelerate/commands/launch.py; swift/arguments: deepspeed, fsdp. */
static const struct edit_software {
	const char *framework; /* NULL: what `accelerate launch` starts */
	const char *stack, *name, *value[LK_SHARD_ZERO3 + 1];
} edit_software[] = {
	{NULL, "deepspeed", "use_deepspeed", {"", "", "", ""}},
	{NULL, "deepspeed", "zero_stage", {"0", "1", "2", "3"}},
	{NULL, "fsdp", "use_fsdp", {NULL, NULL, "", ""}},
	{NULL, "fsdp", "fsdp_sharding_strategy", {NULL, NULL, "SHARD_GRAD_OP", "FULL_SHARD"}},
	{"ms-swift", "deepspeed", "deepspeed", {"zero0", "zero1", "zero2", "zero3"}},
	{"ms-swift", "fsdp", "fsdp", {NULL, NULL, NULL, "fsdp2"}},
};

static lk_status edit_compare_software(edit_work *work) {
	static const char launcher[] = "num_processes"; /* where accelerate's options are */
	const char *framework = work->base.framework ? work->base.framework : "";
	const lk_job *job = work->job;
	bool launched = false;
	if (work->before && strcmp(work->before->stack, job->stack) == 0) return LK_OK;
	for (size_t i = 0; i < work->places.count && strstr(work->source->text, "accelerate"); i++)
		launched |= work->places.at[i].form == LK_SPOT_FLAG &&
		            strcmp(work->places.at[i].name, launcher) == 0;
	for (size_t i = 0; i < sizeof edit_software / sizeof *edit_software; i++) {
		const struct edit_software *row = &edit_software[i];
		bool ours = row->framework ? strcmp(row->framework, framework) == 0 : launched;
		if (!ours || strcmp(row->stack, job->stack) != 0) continue;
		int count = work->change_count;
		LK_TRY(edit_add_change(work, row->name, NULL, row->value[job->sharding], -1, true));
		if (work->change_count == count || row->framework) continue;
		work->changes[count].beside = launcher;
		work->changes[count].goes_along = *row->value[job->sharding] == '\0'; /* a switch */
	}
	return LK_OK;
}

static lk_status edit_compare(edit_work *work, lk_error *err) {
	lk_emission emissions[2] = {{0}};
	work->changes = LK_ARRAY(work->arena, edit_change, CHANGES);
	if (!work->changes) return lk_oom(err);
	bool ok = lk_emission_begin(&emissions[1], work->arena, work->job, work->cluster) &&
	          (!work->before ||
	           lk_emission_begin(&emissions[0], work->arena, work->before, work->cluster));
	lk_emission *before = work->before ? &emissions[0] : NULL;
	emissions[0].pairs = emissions[1].pairs = work->base.pairs;
	lk_status status = ok ? LK_OK : lk_oom(err);
	if (status == LK_OK) status = edit_compare_software(work);
	if (status == LK_OK && work->deepspeed) status = edit_compare_deepspeed(work);
	else if (status == LK_OK && work->base.keys)
		status = edit_compare_rows(work, before, &emissions[1], err);
	else if (status == LK_OK) status = edit_compare_lines(work, before, &emissions[1], err);
	if (status == LK_OK) status = edit_compare_ranks(work, &emissions[1]);
	lk_emission_end(&emissions[0]);
	lk_emission_end(&emissions[1]);
	return status;
}

/* ---- changes of the text ---- */

/* Whether settings are flags of Megatron-LM. */
static bool edit_has_flags(const edit_work *work) {
	return !work->deepspeed && !work->base.keys && work->base.dialect == 0;
}

/* A place's name as the framework's settings have it. */
static const char *edit_name(const edit_work *work, const lk_spot *place) {
	bool flags = work->file && edit_has_flags(work);
	const char *name = place->name, *last = flags ? strrchr(name, '.') : NULL;
	if (last) name = last + 1;
	if (work->base.names) return lk_name_of(work->base.names, name);
	return flags ? lk_name_of(lk_megatron_names, name) : name;
}

/* The setting of a place; NULL: none that changes. Another flag of Megatron-LM may state the same.
 */
static const edit_change *edit_change_of(const edit_work *work, const lk_spot *place) {
	const char *name = edit_name(work, place);
	for (int i = 0; i < work->change_count; i++) {
		const char *setting = work->changes[i].name;
		size_t length = strlen(name), most = strlen(setting);
		bool below = work->file && work->base.dialect != 0 && length > most && /* in a section */
		             name[length - most - 1] == '.' && strcmp(name + length - most, setting) == 0;
		if (below || lk_same_name(setting, name)) return &work->changes[i];
	}
	if (!edit_has_flags(work)) return NULL;
	const lk_flag *flag = lk_megatron_flag(name), *other;
	for (int i = 0; flag && i < work->change_count; i++) {
		other = lk_megatron_flag(work->changes[i].name);
		if (other && other->offset == flag->offset && other->kind == flag->kind)
			return &work->changes[i];
	}
	return NULL;
}

/* The value in a form's words: switches of flags are true and false in a file. */
static const char *edit_value(const edit_work *work, const edit_change *change) {
	bool flags = work->file && edit_has_flags(work);
	if (!flags) return change->after;
	if (change->after) return *change->after ? change->after : "true";
	return change->before && !*change->before ? "false" : NULL;
}

/* Name the setting that the edits from `first` on give a value (NULL: take away). */
static lk_status edit_say(edit_work *work, size_t first, const char *name, const char *value,
                          lk_error *err) {
	lk_arena *arena = work->arena;
	const char *says;
	if (!value) says = lk_arena_printf(arena, "without %s", name);
	else if (work->file) says = lk_arena_printf(arena, "%s: %s", name, value);
	else if (!strpbrk(name, "abcdefghijklmnopqrstuvwxyz")) /* a variable */
		says = lk_arena_printf(arena, "%s=%s", name, value);
	else says = lk_arena_printf(arena, "--%s%s%s", name, *value ? " " : "", value);
	for (size_t i = first; i < work->edits.count; i++) work->edits.at[i].says = says;
	return says ? LK_OK : lk_oom(err);
}

static lk_status edit_change_places(edit_work *work, bool *stated, lk_error *err) {
	for (size_t i = 0; i < work->places.count; i++) {
		const lk_spot *place = &work->places.at[i];
		const edit_change *change = place->item ? NULL : edit_change_of(work, place);
		if (!change) continue;
		stated[change - work->changes] = true;
		const char *value = edit_value(work, change);
		size_t first = work->edits.count;
		LK_TRY(lk_spot_change(work->arena, work->source->text, place, value, &work->edits, err));
		LK_TRY(edit_say(work, first, place->name, value, err));
	}
	return LK_OK;
}

/* Whether a list is one of the layers that have adapters. */
static bool edit_of_adapters(const edit_work *work, const char *name) {
	size_t length = strlen(name) - strlen(".-");
	for (size_t i = 0; work->base.keys && work->base.keys[i]; i++)
		for (const lk_key *row = work->base.keys[i]; row->path; row++)
			if (row->kind == LK_KEY_FACT && row->direction != LK_WRITTEN &&
			    strlen(row->path) == length && strncmp(row->path, name, length) == 0)
				return lk_name_among("lora_modules lora_targets", row->fact);
	return false;
}

/* Changes of one list of the text: of layers that have adapters by what they are, of others by the
 * items that the jobs state. */
static lk_status edit_change_list(edit_work *work, const lk_spot *items, size_t count, bool *stated,
                                  lk_error *err) {
	const char *text = work->source->text, *name = edit_name(work, items);
	lk_list_change list = {.items = items, .count = count};
	list.leaves = LK_ARRAY(work->arena, bool, count);
	if (!list.leaves) return lk_oom(err);
	bool adapters = edit_of_adapters(work, name);
	if (adapters && work->job->task == LK_TASK_LORA)
		lk_list_adapters(work->arena, text, work->job->adapted, &list);
	for (int i = 0; i < work->change_count; i++) {
		const edit_change *change = &work->changes[i];
		size_t at;
		if (strcmp(change->name, name) != 0) continue;
		stated[i] = true;
		if (adapters) continue;
		if (change->before && lk_list_has(work->arena, text, &list, change->before, &at))
			list.leaves[at] = true;
		if (change->after && !lk_list_has(work->arena, text, &list, change->after, &at) &&
		    list.join_count < sizeof list.joins / sizeof *list.joins)
			list.joins[list.join_count++] = change->after;
	}
	size_t first = work->edits.count;
	LK_TRY(lk_list_edit(work->arena, text, &list, &work->edits, err));
	for (size_t i = first; i < work->edits.count; i++)
		LK_TRY(
			edit_say(work, i, name, *work->edits.at[i].with ? work->edits.at[i].with : NULL, err));
	return LK_OK;
}

static lk_status edit_change_lists(edit_work *work, bool *stated, lk_error *err) {
	size_t count;
	for (size_t i = 0; i < work->places.count; i += count) {
		const lk_spot *items = &work->places.at[i];
		for (count = 1; items->item && i + count < work->places.count; count++)
			if (!items[count].item || strcmp(items[count].name, items->name) != 0) break;
		if (items->item) LK_TRY(edit_change_list(work, items, count, stated, err));
	}
	return LK_OK;
}

/* The row of a place among the framework's settings; -1: it has none. */
static int edit_row(const edit_work *work, const lk_spot *place) {
	const char *name = edit_name(work, place);
	int row = 0;
	const char *path;
	if (work->deepspeed) {
		for (; lk_deepspeed_state(work->arena, work->job, row, &path); row++)
			if (strcmp(path, name) == 0) return row;
		return -1;
	}
	if (work->base.keys)
		for (size_t i = 0; work->base.keys[i]; i++)
			for (const lk_key *key = work->base.keys[i]; key->path; key++, row++)
				if (lk_same_name(key->path, name)) return row;
	if (work->base.keys) return -1;
	if (work->base.dialect != 0) {
		const lk_key *key = lk_dotted_rows(work->base.dialect);
		for (; key->path; key++, row++)
			if (lk_same_name(key->path, name)) return row;
		return -1;
	}
	for (const lk_flag *flag = lk_megatron_flags; flag->name; flag++, row++)
		if (lk_same_name(flag->name, name)) return row;
	return -1;
}

/* How many sections two paths share. */
static int edit_shared(const char *a, const char *b) {
	int shared = 0;
	for (; *a && *a == *b; a++, b++) shared += *a == '.';
	return shared;
}

/* The place that a new setting follows: of those in its section the one whose row is nearest. */
static const lk_spot *edit_beside(const edit_work *work, const char *name, int row) {
	const lk_spot *best = NULL;
	int best_shared = 0, best_off = 0;
	for (size_t i = 0; i < work->places.count; i++) {
		const lk_spot *place = &work->places.at[i];
		int at = edit_row(work, place), shared = edit_shared(name, place->name);
		const char *last = strrchr(place->name, '.');
		bool above = !last || strncmp(place->name, name, (size_t)(last + 1 - place->name)) == 0;
		if (at < 0 || place->item || (place->form == LK_SPOT_JSON && !above)) continue;
		int off = at > row ? 2 * (at - row) : row - at;
		bool nearer = shared > best_shared || (shared == best_shared && off <= best_off);
		if (best && !nearer) continue;
		best = place;
		best_shared = shared;
		best_off = off;
	}
	return best;
}

static lk_status edit_add_settings(edit_work *work, const bool *stated, lk_error *err) {
	bool flags = edit_has_flags(work), dotted = work->file;
	for (size_t i = 0; i < work->places.count; i++)
		dotted |= strchr(work->places.at[i].name, '.') != NULL;
	lk_spot_form form = work->places.count > 0 ? work->places.at[0].form : LK_SPOT_FLAG;
	for (int i = 0; i < work->change_count; i++) {
		const edit_change *change = &work->changes[i];
		const char *value = edit_value(work, change), *name = change->name;
		if (stated[i] || !value || !change->added) continue;
		if (!dotted && strchr(name, '.')) continue; /* a section, which its flags cannot name */
		const char *like = change->beside ? change->beside : name;
		int row = edit_row(work, &(lk_spot){.name = like});
		const lk_spot *beside = edit_beside(work, name, row);
		if (flags && work->file && beside) { /* in the section and the spelling of its like */
			const char *dot = strrchr(beside->name, '.');
			char *spelt = lk_arena_printf(
				work->arena, "%.*s%s", dot ? (int)(dot + 1 - beside->name) : 0, beside->name, name);
			for (char *c = spelt; c && *c; c++)
				if (*c == '-') *c = '_';
			if (!spelt) return lk_oom(err);
			name = spelt;
		}
		size_t made = work->edits.count;
		LK_TRY(lk_spot_add(work->arena, work->source->text, beside, form, name, value, &work->edits,
		                   err));
		if (work->edits.count > made) work->edits.at[made].goes_along = change->goes_along;
		LK_TRY(edit_say(work, made, name, value, err));
	}
	return LK_OK;
}

/* Make all changes, then take back those that reading does not need, the last ones first; then make
 * again what brings it nearer. */
static lk_status edit_settle(edit_work *work, int *score, lk_error *err) {
	for (size_t i = 0; i < work->edits.count; i++) work->edits.at[i].made = true;
	LK_TRY(edit_score(work, score, err));
	for (size_t i = work->edits.count; i-- > 0;) {
		int without;
		if (work->edits.at[i].goes_along) continue;
		work->edits.at[i].made = false;
		LK_TRY(edit_score(work, &without, err));
		if (without <= *score) *score = without;
		else work->edits.at[i].made = true;
	}
	for (size_t i = 0; *score > 0 && i < work->edits.count; i++) {
		int with;
		if (work->edits.at[i].made) continue;
		work->edits.at[i].made = true;
		LK_TRY(edit_score(work, &with, err));
		if (with < *score) *score = with;
		else work->edits.at[i].made = false;
	}
	bool alone = true;
	for (size_t i = 0; i < work->edits.count; i++)
		alone &= !work->edits.at[i].made || work->edits.at[i].goes_along;
	for (size_t i = 0; alone && i < work->edits.count; i++) work->edits.at[i].made = false;
	return LK_OK;
}

/* ---- the whole ---- */

static lk_status edit_begin(edit_work *work, lk_error *err) {
	const lk_source *source = work->source;
	const char *path = source->path ? source->path : "launch line";
	size_t size = strlen(source->text);
	if (lk_ends_in(path, ".py")) {
		lk_fail(err, LK_ERR_INPUT, "--emit", "%.120s is a program in Python, which is not edited",
		        path);
		return lk_hint(err, "give --emit bridge for a launch line");
	}
	lk_job before;
	LK_TRY(edit_read(work, work->arena, source->text, &work->base, &before, err));
	work->file = source->path && !source->script &&
	             lk_document_form_named(path, source->text, size) != LK_DOCUMENT_NONE;
	work->deepspeed =
		work->file && work->base.framework && strcmp(work->base.framework, "deepspeed") == 0;
	if (lk_job_complete(&before, work->cluster, NULL) == LK_OK) {
		if (!(work->before = LK_NEW(work->arena, lk_job))) return lk_oom(err);
		*work->before = before;
	}
	return work->file ? lk_spots_of_file(work->arena, path, source->text, &work->places, err)
	                  : lk_spots_of_script(work->arena, source->text, &work->places, err);
}

static const char *edit_list(const edit_work *work, const bool *differs) {
	char text[1024];
	lk_text list = lk_text_begin(text, sizeof text);
	for (int i = 0; lk_job_fields[i].name; i++)
		if (differs[i])
			lk_text_add(&list, "%s%s %s", list.used > 0 ? ", " : "", lk_job_fields[i].name,
			            lk_field_value(work->arena, &lk_job_fields[i], work->job));
	return lk_arena_strdup(work->arena, text);
}

/* The settings that change, each once, with "; " between them. */
static const char *edit_changes(const edit_work *work) {
	const char *out = "", *last = NULL;
	for (size_t i = 0; out && i < work->edits.count; i++) {
		const lk_edit *edit = &work->edits.at[i];
		if (!edit->made || !edit->says || edit->says == last) continue;
		out = lk_arena_printf(work->arena, "%s%s%s", out, *out ? "; " : "", last = edit->says);
	}
	return out;
}

static lk_status edit_end(edit_work *work, bool whole, lk_written *written, lk_emitted *out,
                          lk_error *err) {
	const lk_source *source = work->source;
	const char *name = source->path ? source->path : "launch line";
	bool *differs = LK_ARRAY(work->arena, bool, 1024);
	lk_launch launch;
	lk_job raw;
	size_t made = 0;
	const char *text = lk_edited(work->arena, source->text, work->edits.at, work->edits.count);
	if (!text || !differs) return lk_oom(err);
	LK_TRY(edit_read(work, work->arena, text, &launch, &raw, err));
	(void)edit_differs(work, &raw, differs);
	const char *unsaid = edit_list(work, differs);
	if (!unsaid) return lk_oom(err);
	for (size_t i = 0; i < work->edits.count; i++) made += work->edits.at[i].made;
	*written = (lk_written){.framework = name, .unsaid = unsaid, .job = raw};
	if (made == 0 && *unsaid) {
		lk_fail(err, LK_ERR_INPUT, "--emit", "%.120s has no place for %s", name, unsaid);
		return lk_hint(err,
		               "give the file that states them, or --emit with a framework for a new one");
	}
	if (!(written->changes = edit_changes(work))) return lk_oom(err);
	out->text =
		whole ? text
			  : lk_edit_diff(work->arena, name, source->text, work->edits.at, work->edits.count);
	if (!out->text) return lk_oom(err);
	if (made > 0) return LK_OK;
	const char **notes = LK_ARRAY(work->arena, const char *, 1);
	if (!notes) return lk_oom(err);
	notes[0] = lk_arena_printf(work->arena, "%s states the job as it is: nothing is changed", name);
	out->notes = notes;
	out->note_count = 1;
	return notes[0] ? LK_OK : lk_oom(err);
}

lk_status lk_emit_edit(lk_arena *arena, const lk_source *source, bool whole, const lk_job *job,
                       const lk_cluster *cluster, lk_written *written, lk_emitted *out,
                       lk_error *err) {
	edit_work work = {.arena = arena, .source = source, .job = job, .cluster = cluster};
	bool *stated = LK_ARRAY(arena, bool, CHANGES);
	int score = 0;
	*out = (lk_emitted){0};
	if (!stated) return lk_oom(err);
	lk_status status = edit_begin(&work, err);
	if (status == LK_OK) status = edit_compare(&work, err);
	if (status == LK_OK) status = edit_change_places(&work, stated, err);
	if (status == LK_OK) status = edit_change_lists(&work, stated, err);
	if (status == LK_OK) status = edit_add_settings(&work, stated, err);
	if (status == LK_OK) status = edit_settle(&work, &score, err);
	if (status == LK_OK) status = edit_end(&work, whole, written, out, err);
	lk_vec_free(&work.places);
	lk_vec_free(&work.edits);
	return status;
}
