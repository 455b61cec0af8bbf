/* works_read.h: traces of works, read or the test fails. */
#ifndef LK_TEST_WORKS_READ_H
#define LK_TEST_WORKS_READ_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "trace/capture/works.h"
#include "trace/read/read.h"
#include "works_memory.h"

static inline lk_works *read_works(const char *path) {
	lk_capture *capture;
	lk_works *works;
	lk_error err = {0};
	if (lk_trace_read(path, false, NULL, &capture, &works, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	assert_non_null(works);
	return works;
}

/* What python reads in the same file: works_oracle.py prints a line for every node. */
static inline FILE *works_by_python(const char *path) {
	char command[700];
	snprintf(command, sizeof command, "python3 tests/unit/works_oracle.py %s", path);
	FILE *python = popen(command, "r");
	assert_non_null(python);
	return python;
}

#endif
