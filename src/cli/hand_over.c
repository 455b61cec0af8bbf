/* hand_over.c: the program of a release's tarball is static, so that it runs with any libc or none.
 * It cannot load libraries of the machine, which few questions need: NVIDIA's driver, a BLAS,
 * librsvg. The tarball also holds a build linked with glibc, which answers those questions if it
 * can start; otherwise the static one answers and reports what it left out. */
#include "cli/cli.h"

#ifdef LK_STATIC

#include <limits.h>
#include <string.h>
#include <unistd.h>

static bool names_png(const char *word) {
	size_t length = strlen(word);
	return length > 4 && strcmp(word + length - 4, ".png") == 0;
}

static bool needs_libraries(const char *const *words) {
	while (*words && **words == '-') words += strcmp(*words, "--data") == 0 && words[1] ? 2 : 1;
	if (!*words) return false;
	if (strcmp(*words, "doctor") == 0) return true;
	bool calibrates = strcmp(*words, "calibrate") == 0;
	for (words++; *words; words++)
		if ((calibrates && strcmp(*words, "host") == 0) || names_png(*words)) return true;
	return false;
}

void cli_hand_over(char **argv) {
	char path[PATH_MAX];
	if (!argv[0] || !needs_libraries((const char *const *)argv + 1)) return;
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
	path[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(path, '/');
	static const char other[] = "/../lib/lockstep/lockstep-dynamic";
	if (!slash || (size_t)(slash - path) + sizeof other > sizeof path) return;
	memcpy(slash, other, sizeof other);
	execv(path, argv);
}

#else

void cli_hand_over(char **argv) {
	(void)argv;
}

#endif
