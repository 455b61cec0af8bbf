/* text.c: streams into small texts, which need memory to open. */
#include "lang/types/program.h"

FILE *lc_text_open(const lc_program *program, char *out, size_t size) {
	FILE *stream = fmemopen(out, size, "w");
	if (stream == NULL) program->file->lost = true;
	return stream;
}
