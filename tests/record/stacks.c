/* stacks.c: files from small stacks: a handler of a signal on an alternate stack of 8 KiB, and threads of 16 KiB. Says what
 * was written below a stack, and with an argument how deep it was used: stacks FILE [BYTES]; more than BYTES are an error. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST = 8192, BELOW = 65536, PATTERN = 0xA5, THREADS = 16 };

static const char *file;
static volatile int failed;

static void expect(int good, const char *what) {
	if (good) return;
	failed = 1;
	if (write(2, what, strlen(what)) < 0 || write(2, " failed\n", 8) < 0) abort();
}

/* What a handler may call, by signal-safety(7). */
static void use_files(void) {
	char byte, other[] = "stacks.0";
	struct stat info;
	int pair[2], fd = open(file, O_RDWR | O_CREAT, 0600);
	expect(fd >= 0, "open");
	expect(write(fd, "text", 4) == 4, "write");
	expect(fsync(fd) == 0, "fsync");
	expect(lseek(fd, 0, SEEK_SET) == 0, "lseek");
	expect(read(fd, &byte, 1) == 1 && byte == 't', "read");
	expect(fstat(fd, &info) == 0 && info.st_size == 4, "fstat");
	expect(fchmod(fd, 0600) == 0 || errno == EROFS, "fchmod");
	expect(close(fd) == 0, "close");
	expect(pipe(pair) == 0, "pipe");
	expect(write(pair[1], "x", 1) == 1 && read(pair[0], &byte, 1) == 1, "messages");
	close(pair[0]), close(pair[1]);
	expect(rename(file, other) == 0, "rename");
	expect(stat(file, &info) != 0 && errno == ENOENT, "stat");
	expect(access(other, R_OK) == 0, "access");
	expect(chmod(other, 0640) == 0, "chmod");
	expect(link(other, file) == 0, "link");
	expect(unlink(other) == 0, "unlink");
	expect(mkdir(other, 0700) == 0, "mkdir");
	expect((fd = open(".", O_RDONLY | O_DIRECTORY)) >= 0 && close(fd) == 0, "open of a folder");
	expect(rmdir(other) == 0, "rmdir");
	expect(symlink(file, other) == 0, "symlink");
	expect(stat(other, &info) == 0 && info.st_size == 4, "stat of a link");
	expect(unlink(other) == 0 && unlink(file) == 0, "unlink of a link");
}

static void handle(int number) {
	(void)number;
	int kept = errno;
	use_files();
	errno = kept;
}

static void *read_in_thread(void *unused) {
	char byte;
	int fd = open("stacks.read", O_RDONLY);
	expect(fd >= 0 && read(fd, &byte, 1) == 1 && close(fd) == 0, "read of a thread");
	return unused;
}

int main(int argc, char **argv) {
	file = argv[1];
	long budget = argc > 2 ? atol(argv[2]) : 0, deepest = 0;
	long frame = (long)getauxval(51) + 4096,
		 stack_bytes = frame > LEAST ? frame : LEAST; /* AT_MINSIGSTKSZ: the frame of a signal */
	unsigned char *memory =
		mmap(NULL, BELOW + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = {.ss_sp = memory + BELOW, .ss_size = stack_bytes};
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
	if (memory == MAP_FAILED || sigaltstack(&stack, NULL) != 0 ||
	    sigaction(SIGUSR1, &action, NULL) != 0)
		return perror("stacks"), 2;
	for (int round = 0; round < 3; round++) {
		memset(memory, PATTERN, BELOW + stack_bytes);
		raise(SIGUSR1);
		long untouched = 0;
		while (untouched < BELOW + stack_bytes && memory[untouched] == PATTERN) untouched++;
		if (BELOW + stack_bytes - untouched > deepest) deepest = BELOW + stack_bytes - untouched;
	}
	if (deepest > stack_bytes)
		printf("%ld bytes were written below a stack of %ld\n", deepest - stack_bytes, stack_bytes),
			failed = 1;
	if (budget > 0 && deepest > budget)
		printf("%ld bytes of stack are more than %ld\n", deepest, budget), failed = 1;
	if (budget < 0) printf("%ld bytes\n", deepest);
	int fd = open("stacks.read", O_WRONLY | O_CREAT, 0600);
	expect(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0, "the file of threads");
	pthread_attr_t attributes;
	pthread_t thread[THREADS];
	pthread_attr_init(&attributes);
	expect(pthread_attr_setstacksize(&attributes, 16384) == 0, "a stack of 16 KiB");
	for (int i = 0; i < THREADS; i++)
		expect(pthread_create(&thread[i], &attributes, read_in_thread, NULL) == 0, "a thread");
	for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
	expect(unlink("stacks.read") == 0, "the end");
	puts(failed ? "not as without" : "as without");
	return failed;
}
