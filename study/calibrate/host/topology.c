/* topology.c: reads the link matrix of `nvidia-smi topo -m`: a header line that names the GPUs,
 * then a line for each GPU whose cells are in the header's order; other columns (NICs,
 * affinities) come after them. */
#include "calibrate/host/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copy a text without terminal escapes (ESC [ ... letter). */
static void topology_plain(const char *text, char *out, size_t size) {
	size_t used = 0;
	while (*text && used + 1 < size) {
		if (*text != '\x1b') {
			out[used++] = *text++;
			continue;
		}
		text += strcspn(text, "mKHJ");
		text += *text != '\0';
	}
	out[used] = '\0';
}

/* The next word; NULL at the end of the line. */
static const char *next_word(const char **at, size_t *length) {
	*at += strspn(*at, " \t\r");
	*length = strcspn(*at, " \t\r");
	const char *word = *at;
	*at += *length;
	return *length ? word : NULL;
}

static int gpu_number(const char *word, size_t length) {
	char digits[8] = "";
	if (length < 4 || length > 6 || strncmp(word, "GPU", 3) != 0) return -1;
	memcpy(digits, word + 3, length - 3);
	if (strspn(digits, "0123456789") != length - 3) return -1;
	return atoi(digits);
}

/* Count names of GPUs at the start of the line. */
static int count_header(const char *line) {
	size_t length;
	int count = 0;
	for (const char *word; (word = next_word(&line, &length)) && gpu_number(word, length) == count;)
		count++;
	return count;
}

static bool read_cells(const char *line, int gpu, lk_topology *out) {
	for (int i = 0; i < out->gpus; i++) {
		size_t length;
		const char *word = next_word(&line, &length);
		if (!word) return false;
		snprintf(out->link[gpu][i], sizeof out->link[gpu][i], "%.*s", (int)length, word);
	}
	return true;
}

bool lk_topology_read(const char *text, lk_topology *out) {
	int rows = 0;
	*out = (lk_topology){0};
	while (*text) {
		char raw[1024], line[1024];
		size_t length = strcspn(text, "\n");
		snprintf(raw, sizeof raw, "%.*s", (int)(length < sizeof raw ? length : sizeof raw - 1),
		         text);
		text += length + (text[length] == '\n');
		topology_plain(raw, line, sizeof line);
		const char *at = line;
		const char *word = next_word(&at, &length);
		int gpu = word ? gpu_number(word, length) : -1;
		if (gpu < 0) continue;
		if (!out->gpus) {
			out->gpus = count_header(line);
			if (out->gpus > LK_TOPOLOGY_GPUS) return false;
		} else if (gpu == rows && gpu < out->gpus) {
			if (!read_cells(at, gpu, out)) return false;
			rows++;
		}
	}
	return out->gpus > 0 && rows == out->gpus;
}

int lk_topology_joined(const lk_topology *topology, int *pairs) {
	int joined = 0;
	*pairs = topology->gpus * (topology->gpus - 1) / 2;
	for (int i = 0; i < topology->gpus; i++)
		for (int j = i + 1; j < topology->gpus; j++)
			joined += strncmp(topology->link[i][j], "NV", 2) == 0;
	return joined;
}
