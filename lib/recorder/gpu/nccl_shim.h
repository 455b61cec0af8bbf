/* nccl_shim.h: the jumps of lockstep's libnccl.so.2. */
#ifndef LK_PROBE_NCCL_SHIM_H
#define LK_PROBE_NCCL_SHIM_H

extern const int lps_count;
extern void *lps_slot[] __attribute__((visibility("hidden")));
extern const char *const lps_name[];

#if defined __x86_64__
#define LPS_JUMP(name, offset)                                                           \
	__asm__(".text\n.globl " name "\n.type " name ", @function\n.p2align 4\n" name ":\n" \
	        "\tendbr64\n\tjmp *lps_slot+" offset "(%rip)\n.size " name ", .-" name "\n");
#elif defined __aarch64__
#define LPS_JUMP(name, offset)                                                                  \
	__asm__(".text\n.globl " name "\n.type " name ", %function\n.p2align 4\n" name ":\n"        \
	        "\tbti c\n\tadrp x16, lps_slot+" offset "\n\tldr x16, [x16, :lo12:lps_slot+" offset \
	        "]\n\tbr x16\n"                                                                     \
	        ".size " name ", .-" name "\n");
#endif /* other processors are not supported: LPS_JUMP is missing */

#endif
