/* stalls_whatif.c: the step on another machine, in closed form.
 *
 * The loader's model is DS-Analyzer's (Mohan et al., VLDB 2021), rates in steps a second:
 *
 *     G          the step without its loader
 *     P = w / p  preparation: w workers, p seconds of work for a step
 *     D(x) = s (1 - x) / B_disk
 *                seconds that storage works for s bytes of which the share x is in memory
 *     R          min(G, P, F) for a loader that runs concurrently with the step;
 *                1 / (1/G + 1/P + 1/F) for one that the step waits for
 *
 * Fetching (F) differs from the paper, for storage goes on working while nothing waits for it
 * (stalls_disk.c): h seconds of D are hidden.
 *
 *     in the step   1/F = s / B_mem + max(0, D - min(h, r)), r the rest of the step: 1/G + 1/P + s
 *                   / B_mem
 *     concurrent    1/F = D, and a worker that waits for its reads does not prepare: P = w / (p +
 *                   max(0, D - h))
 *     c*            = ceil((p + max(0, D - h)) / max(1/G, D)): workers that hide preparation
 *     x*            = 1 - min(a, w a - p + h) / D(0), a = max(1/G, p/w): share in memory that hides
 *                   fetching
 *
 * Steps may be unlike: D, h and r are then those of each kind, and the exposed time is the mean
 * over kinds. h stays where storage is faster or slower: the processor's time that it overlapped
 * with is the same. It is at most all the rest of the step, so that no step is shorter than D.
 *
 * `cores` scales workers, and, where the processor is what computes, own code as far as the cores
 * would be fewer than what is busy: max(1, busy / cores) / max(1, busy / present cores). `speed`
 * divides own code alone, `network` the transfer across hosts alone. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stalls/stalls.h"
#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"

double lk_stalls_device_s(const lk_stalls_model *model) {
	return model->bytes > 0 ? (1 - model->hit) * model->bytes / model->disk : 0;
}

double lk_stalls_compute_s(const lk_stalls_model *model) {
	return model->own + model->waiting + model->interconnect + model->network + model->writing;
}

static double preparation_step_s(const lk_stalls_model *model) {
	return model->workers > 0 ? model->preparation / model->workers : model->preparation;
}

double lk_stalls_fetch_s(const lk_stalls_model *model) {
	double device = lk_stalls_device_s(model);
	if (model->pipelined) return fmax(0, device - model->hidden);
	double copying = model->bytes > 0 ? model->bytes / model->memory : 0,
		   rest = lk_stalls_compute_s(model) + preparation_step_s(model) + copying;
	if (!model->kinds) return copying + fmax(0, device - fmin(model->hidden, rest));
	double sum = 0;
	for (int i = 0; i < model->kinds; i++)
		sum += fmax(0, device * model->of[i].device -
		                   fmin(model->of[i].hidden, rest * model->of[i].rest));
	return copying + sum / model->kinds;
}

static const char *largest_stage(double compute, double preparation, double fetch) {
	if (preparation > compute && preparation >= fetch) return "preparation";
	return fetch > compute ? "fetch" : "compute";
}

double lk_stalls_closed(const lk_stalls_model *model, const char **bottleneck) {
	double compute = lk_stalls_compute_s(model), preparation = preparation_step_s(model),
		   fetch = lk_stalls_fetch_s(model);
	double loading = preparation + (model->workers > 0 ? fetch / model->workers : fetch),
		   device = lk_stalls_device_s(model);
	const char *what = largest_stage(compute, preparation, fetch);
	if (model->pipelined && fmax(device, loading) <= compute) what = "compute";
	else if (model->pipelined)
		what = device < loading && preparation >= loading - preparation ? "preparation" : "fetch";
	if (bottleneck) *bottleneck = what;
	return model->pipelined ? fmax(compute, fmax(device, loading)) : compute + preparation + fetch;
}

double lk_stalls_cores_to_hide(const lk_stalls_model *model) {
	double step = fmax(lk_stalls_compute_s(model), lk_stalls_device_s(model));
	if (!model->pipelined || model->preparation <= 0 || step <= 0) return NAN;
	return fmax(1, ceil((model->preparation + lk_stalls_fetch_s(model)) / step - 1e-9));
}

double lk_stalls_cache_to_hide(const lk_stalls_model *model) {
	double allowed = fmax(lk_stalls_compute_s(model), preparation_step_s(model));
	if (!model->pipelined || model->bytes <= 0 || !isfinite(model->disk)) return NAN;
	allowed = fmin(allowed, model->workers * allowed - model->preparation + model->hidden);
	return fmin(1, fmax(0, 1 - allowed * model->disk / model->bytes));
}

/* ---- another machine ---- */

static double core_crowding(double busy, double cores) {
	LK_ASSERT(busy >= 0);
	return fmax(1, busy / fmax(cores, 1e-3));
}

lk_stalls_model lk_stalls_on(const lk_stalls_model *model, const lk_stalls_machine *machine) {
	lk_stalls_model m = *model;
	m.disk *= machine->disk;
	m.network /= machine->network;
	m.own /= machine->speed;
	if (!isnan(machine->hit)) m.hit = machine->hit;
	if (isnan(machine->cores)) return m;
	double slower = core_crowding(m.busy, machine->cores) / core_crowding(m.busy, m.cores);
	/* ranks of a host move their messages with the same cores */
	m.own *= slower;
	m.interconnect *= slower;
	m.writing *= slower;
	if (m.pipelined) m.workers *= machine->cores / m.cores;
	else m.preparation *= slower;
	m.cores = machine->cores;
	return m;
}

/* ---- "disk=2,cores=1" ---- */

struct key {
	const char *name;
	size_t at;
	double low, high;
};

static const struct key keys[] = {
	{"disk", offsetof(lk_stalls_machine, disk), 1e-3, 1e6},
	{"network", offsetof(lk_stalls_machine, network), 1e-3, 1e6},
	{"speed", offsetof(lk_stalls_machine, speed), 1e-3, 1e6},
	{"cores", offsetof(lk_stalls_machine, cores), 1, 65536},
	{"cache", offsetof(lk_stalls_machine, hit), 0, 1},
};

static const struct key *find_machine_key(const char *name, lk_error *err) {
	const char *names[sizeof keys / sizeof *keys];
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		names[i] = keys[i].name;
		if (strcmp(names[i], name) == 0) return &keys[i];
	}
	lk_fail(err, LK_ERR_INPUT, "--what-if", "unknown key \"%.40s\"", name);
	const char *near = lk_nearest(name, names, sizeof keys / sizeof *keys);
	if (near)
		lk_hint(err, "did you mean %s? The keys are disk, network, speed, cores and cache", near);
	else lk_hint(err, "the keys are disk, network, speed, cores and cache, as in disk=2,cores=4");
	return NULL;
}

static void say_machine_change(const struct key *key, double value, char name[160]) {
	size_t used = strlen(name);
	const char *comma = used ? ", " : "";
	if (strcmp(key->name, "cores") == 0)
		snprintf(name + used, 160 - used, "%s%g %s", comma, value, lk_noun(value, "core", "cores"));
	else if (strcmp(key->name, "cache") == 0)
		snprintf(name + used, 160 - used, "%s%.3g %% in memory", comma, 100 * value);
	else snprintf(name + used, 160 - used, "%s%s x%g", comma, key->name, value);
}

lk_status lk_stalls_machine_of(const char *line, lk_stalls_machine *out, char name[160],
                               lk_error *err) {
	*out = (lk_stalls_machine){1, 1, 1, NAN, NAN};
	*name = '\0';
	while (*line && *line != '\n') {
		char word[64];
		size_t length = strcspn(line, ",\n"), equals = strcspn(line, "=,\n");
		if (length >= sizeof word || equals >= length)
			return lk_fail(err, LK_ERR_INPUT, "--what-if", "\"%.*s\" is not KEY=VALUE",
			               (int)(length < 40 ? length : 40), line);
		snprintf(word, sizeof word, "%.*s", (int)equals, line);
		const struct key *key = find_machine_key(word, err);
		if (!key) return LK_ERR_INPUT;
		snprintf(word, sizeof word, "%.*s", (int)(length - equals - 1), line + equals + 1);
		double *value = (double *)(void *)((char *)out + key->at);
		LK_TRY(lk_parse_real(word, key->low, key->high, value, "--what-if", err));
		say_machine_change(key, *value, name);
		line += length + (line[length] == ',');
	}
	return *name ? LK_OK : lk_fail(err, LK_ERR_INPUT, "--what-if", "nothing is changed");
}
