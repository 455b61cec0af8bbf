/* clones.h: loops that the compiler vectorises. A function with LK_CLONES exists in several copies,
 * selected at program start, for processors with and without AVX2 and AVX-512; all give the same
 * bits as long as no product is added to something (no fused multiply-add). */
#ifndef LK_SYSTEM_CLONES_H
#define LK_SYSTEM_CLONES_H

#include <limits.h> /* identifies the C library */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
	defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LK_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LK_CLONES
#endif

#endif
