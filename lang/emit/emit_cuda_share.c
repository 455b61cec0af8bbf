/* emit_cuda_share.c: kernels that differ only in names are written once. Statements of one form
 * (the updates of nine weights) and schedules of one program have many such, and CUDA compilers
 * spend most of their time on kernels.
 *
 * The text of the argument struct and of the kernels is compared with the names of its values
 * replaced by numbers, in the order of first use. If it is known, the host function fills and
 * launches the existing ones: it uses the first one's members and kernels. */
#include "lang/emit/emit_cuda.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "system/memory.h"
#include "base/stats.h"
#include "base/arena.h"

/* ---- names ---- */

static bool share_is_part(char c) {
	return isalnum((unsigned char)c) || c == '_';
}

static size_t share_length(const char *text) {
	size_t length = 0;
	while (share_is_part(text[length])) length++;
	return length;
}

/* "args_NAME", "kernel_NAME", "kernel2_NAME" of this kernel. */
static bool share_names_kernel(const char *token, size_t length, const char *name) {
	size_t own = strlen(name), begin;
	if (strncmp(token, "args", 4) == 0) begin = 4;
	else if (strncmp(token, "kernel", 6) == 0) begin = 6;
	else return false;
	while (begin < length && isdigit((unsigned char)token[begin])) begin++;
	return begin < length && token[begin] == '_' && length - begin - 1 == own &&
	       memcmp(token + begin + 1, name, own) == 0;
}

/* "x_w", "pv12_w": variables, members and values, by the prefixes that kernels give them. */
static bool share_names_value(const char *token, size_t length) {
	size_t begin = 1;
	if (!strchr("xyvprswoc", *token)) return false;
	if (length > 1 && token[1] == 'v') begin = 2;
	return begin < length && (token[begin] == '_' || isdigit((unsigned char)token[begin]));
}

static size_t share_find(const lc_kernel_names *names, const char *token, size_t length) {
	size_t i = 0;
	while (i < names->count &&
	       (strncmp(names->at[i], token, length) != 0 || names->at[i][length] != '\0'))
		i++;
	return i;
}

/* ---- texts ---- */

/* Replace names by numbers; names are added to `names`. NULL when memory runs out. */
static char *share_numbered(lc_kernels *known, const char *text, const char *name,
                            lc_kernel_names *names) {
	char *out = NULL;
	size_t size;
	FILE *to = lk_memory_open(&out, &size);
	bool fine = to;
	while (fine && *text) {
		size_t length = share_length(text);
		if (length == 0) {
			fputc(*text++, to);
			continue;
		}
		if (share_names_kernel(text, length, name) || share_names_value(text, length)) {
			size_t i = share_find(names, text, length);
			if (i == names->count) {
				fine = lk_push(names);
				if (fine) fine = (names->at[i] = lk_arena_strndup(&known->arena, text, length));
			}
			fprintf(to, "$%zu", i);
		} else fwrite(text, 1, length, to);
		text += length;
	}
	if (to && !lk_memory_close(to)) fine = false;
	if (fine) return out;
	free(out);
	return NULL;
}

/* Write the host's text, with the kernels and members of the first one. */
static void share_put_host(const char *text, const lc_kernel_names *own,
                           const lc_kernel_names *first, FILE *out) {
	const char *begin = text;
	while (*text) {
		size_t length = share_length(text);
		if (length == 0) {
			fputc(*text++, out);
			continue;
		}
		bool member = text - begin >= 2 && text[-1] == '.' && text[-2] == 'a' &&
		              (text - begin == 2 || !share_is_part(text[-3]));
		bool kernel = strncmp(text, "args_", 5) == 0 || strncmp(text, "kernel", 6) == 0;
		size_t i = member || kernel ? share_find(own, text, length) : own->count;
		if (i < own->count) fputs(first->at[i], out);
		else fwrite(text, 1, length, out);
		text += length;
	}
}

/* ---- known or new ---- */

static uint64_t share_hash(const char *text) {
	return lk_hash64(lk_hash_bytes(LK_HASH_SEED, text, strlen(text)));
}

static const lc_kernel_known *share_known(const lc_kernels *known, const char *text,
                                          uint64_t hash) {
	for (size_t i = 0; i < known->all.count; i++)
		if (known->all.at[i].hash == hash && strcmp(known->all.at[i].text, text) == 0)
			return &known->all.at[i];
	return NULL;
}

static bool share_learn(lc_kernels *known, const char *text, uint64_t hash,
                        const lc_kernel_names *names) {
	const char *kept = lk_arena_strdup(&known->arena, text);
	if (!kept || !lk_push(&known->all)) return false;
	lc_kernel_known *one = lk_last(&known->all);
	*one = (lc_kernel_known){.hash = hash, .text = kept};
	if (!lk_reserve(&one->names, names->count)) return false;
	if (names->count) memcpy(one->names.at, names->at, names->count * sizeof *names->at);
	one->names.count = names->count;
	return true;
}

static lk_status share_put(const lc_kernel *kernel, const char *device, const char *host,
                           FILE *out) {
	lc_kernels *known = kernel->c->kernels;
	lc_kernel_names names = {0};
	char *text = share_numbered(known, device, kernel->name, &names);
	lk_status status = text ? LK_OK : lk_oom(kernel->c->err);
	if (status == LK_OK) {
		uint64_t hash = share_hash(text);
		const lc_kernel_known *first = share_known(known, text, hash);
		if (first) {
			fprintf(out, "/* by the kernel of %s */\n",
			        strchr(first->names.at[0], '_') ? strchr(first->names.at[0], '_') + 1 : "");
			share_put_host(host, &names, &first->names, out);
		} else {
			fputs(device, out);
			fputs(host, out);
			if (!share_learn(known, text, hash, &names)) status = lk_oom(kernel->c->err);
		}
	}
	free(text);
	lk_vec_free(&names);
	return status;
}

/* Return a function's output, to be freed. */
static char *share_written(lc_kernel *kernel, lc_kernel_writer *write) {
	char *text = NULL;
	size_t size;
	kernel->c->out = kernel->out = lk_memory_open(&text, &size);
	if (!kernel->out) return NULL;
	write(kernel);
	return lk_memory_text(kernel->out, &text);
}

lk_status lc_kernel_put(lc_kernel *kernel, lc_kernel_writer *device, lc_kernel_writer *host) {
	FILE *out = kernel->c->out;
	char *device_text = share_written(kernel, device),
		 *host_text = device_text ? share_written(kernel, host) : NULL;
	kernel->c->out = kernel->out = out;
	lk_status status =
		host_text ? share_put(kernel, device_text, host_text, out) : lk_oom(kernel->c->err);
	free(device_text);
	free(host_text);
	return status;
}

void lc_kernels_free(lc_kernels *known) {
	for (size_t i = 0; i < known->all.count; i++) lk_vec_free(&known->all.at[i].names);
	lk_vec_free(&known->all);
	lk_arena_free(&known->arena);
}
