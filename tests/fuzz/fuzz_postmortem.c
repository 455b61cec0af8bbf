/* fuzz_postmortem.c: any file is left of a run that died, or an error, or neither; what is answered
 * is written in every form. The first byte chooses the name, which may state a rank. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/postmortem.h"
#include "lockstep/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char *const names[] = {"run.log", "nccl_trace_rank_3", "snapshot.pickle"};
	char folder[] = "/tmp/lockstep-fuzz-XXXXXX", path[64];
	if (!size || !mkdtemp(folder)) return 0;
	snprintf(path, sizeof path, "%s/%s", folder, names[data[0] % 3]);
	FILE *file = fopen(path, "wb");
	if (!file) abort();
	fwrite(data + 1, 1, size - 1, file);
	fclose(file);
	const char *files[] = {path};
	lk_explain_request request;
	lk_postmortem *answer;
	lk_error err = {0};
	bool asked = false;
	lk_explain_defaults(&request);
	request.traces = files, request.trace_count = 1;
	if (lk_postmortem_asked(&request, &asked, &err) == LK_OK && asked) {
		lk_status status = lk_postmortem_read(&request, &answer, &err);
		if (status != LK_OK && !err.what[0]) abort();
		FILE *out = status == LK_OK ? fopen("/dev/null", "w") : NULL;
		for (int format = 0; out && format < LK_OUTPUT_SQLITE; format++)
			if (lk_postmortem_print(answer, format, 0, false, NULL, out, &err) != LK_OK) abort();
		if (out) fclose(out);
		if (status == LK_OK) lk_postmortem_free(answer);
	}
	unlink(path);
	rmdir(folder);
	return 0;
}
