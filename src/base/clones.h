/* clones.h: loops that the compiler turns into vector code. A function with LK_CLONES exists in
 * several copies, chosen when the program starts, for processors with and without AVX2 and
 * AVX-512; all of them give the same bits where no product is added to something. */
#ifndef LK_BASE_CLONES_H
#define LK_BASE_CLONES_H

#include <limits.h> /* which C library this is */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
	defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LK_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LK_CLONES
#endif

#endif
