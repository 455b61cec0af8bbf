/* job_alloc.c: settings of PyTorch's allocator (PYTORCH_CUDA_ALLOC_CONF), "name:value,name:value"
 * (c10/cuda/CUDAAllocatorConfig.cpp). */
#include <string.h>

#include "base/text.h"
#include "model/layout/job.h"

/* Settings that change nothing that is modelled: how memory of the host is pinned, when locks are
 * released; the garbage collection starts only where a process has set its share of the memory. */
static const char *const harmless[] = {
	"backend:native", "garbage_collection_threshold:", "graph_capture_record_stream_reuse:",
	"pinned_",        "release_lock_on_cudamalloc:",
};

static lk_status take_setting(const char *word, const char *where, lk_alloc_conf *out,
                              lk_error *err) {
	static const char segments[] = "expandable_segments:", most[] = "max_split_size_mb:",
					  round[] = "roundup_power2_divisions:";
	long long value;
	if (strncmp(word, segments, sizeof segments - 1) == 0) {
		const char *text = word + sizeof segments - 1;
		out->expandable = strcmp(text, "True") == 0 || strcmp(text, "true") == 0;
		return LK_OK;
	}
	if (strncmp(word, most, sizeof most - 1) == 0) {
		LK_TRY(lk_parse_int(word + sizeof most - 1, 21, 1 << 22, &value, where, err));
		out->max_split_mib = (double)value;
		return LK_OK;
	}
	if (strncmp(word, round, sizeof round - 1) == 0 && word[sizeof round - 1] != '[') {
		LK_TRY(lk_parse_int(word + sizeof round - 1, 1, 1024, &value, where, err));
		out->roundup_divisions = (int)value;
		return LK_OK;
	}
	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
		if (strncmp(word, harmless[i], strlen(harmless[i])) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "\"%.60s\" is not modelled", word);
	return lk_hint(err, "give expandable_segments:True, max_split_size_mb:N or "
	                    "roundup_power2_divisions:N, or leave it out");
}

lk_status lk_alloc_conf_read(const char *text, const char *where, lk_alloc_conf *out,
                             lk_error *err) {
	*out = (lk_alloc_conf){.expandable = false};
	for (const char *at = text; *at;) {
		char word[96];
		size_t length = strcspn(at, ",");
		if (length >= sizeof word)
			return lk_fail(err, LK_ERR_INPUT, where, "\"%.60s\" is not modelled", at);
		memcpy(word, at, length);
		word[length] = '\0';
		if (length > 0) LK_TRY(take_setting(word, where, out, err));
		at += length + (at[length] == ',');
	}
	return LK_OK;
}
