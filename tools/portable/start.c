/* start.c: before glibc 2.34 a program brought the function that runs its own constructors; the
 * start files of newer ones pass none. Linked with --wrap=__libc_start_main, for a dynamic program.
 */
typedef void function(int, char **, char **);
extern function *__init_array_start[], *__init_array_end[];

extern int __real___libc_start_main(int (*)(int, char **, char **), int, char **, function *,
                                    void (*)(void), void (*)(void), void *);

static void construct(int argc, char **argv, char **environment) {
	for (function **each = __init_array_start; each < __init_array_end; each++)
		(*each)(argc, argv, environment);
}

int __wrap___libc_start_main(int (*program)(int, char **, char **), int argc, char **argv,
                             function *init, void (*fini)(void), void (*loader_fini)(void),
                             void *stack);
int __wrap___libc_start_main(int (*program)(int, char **, char **), int argc, char **argv,
                             function *init, void (*fini)(void), void (*loader_fini)(void),
                             void *stack) {
	return __real___libc_start_main(program, argc, argv, init ? init : construct, fini, loader_fini,
	                                stack);
}
