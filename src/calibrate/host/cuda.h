/* cuda.h: the few functions of NVIDIA's driver that are used, found when the program runs: nothing of CUDA is needed to
 * build lockstep. Names and types are those of the driver API's documentation. */
#ifndef LK_MEASURE_CUDA_H
#define LK_MEASURE_CUDA_H

#include <stdbool.h>
#include <stddef.h>

/* X(member, symbol, arguments): each returns 0 when it worked. */
#define LK_CUDA_CALLS(X)                                                                                               \
	X(init, "cuInit", (unsigned))                                                                                      \
	X(count, "cuDeviceGetCount", (int *))                                                                              \
	X(get, "cuDeviceGet", (int *, int))                                                                                \
	X(name, "cuDeviceGetName", (char *, int, int))                                                                     \
	X(memory, "cuDeviceTotalMem_v2", (size_t *, int))                                                                  \
	X(can_access, "cuDeviceCanAccessPeer", (int *, int, int))                                                          \
	X(retain, "cuDevicePrimaryCtxRetain", (void **, int))                                                              \
	X(release, "cuDevicePrimaryCtxRelease_v2", (int))                                                                  \
	X(use, "cuCtxSetCurrent", (void *))                                                                                \
	X(wait, "cuCtxSynchronize", (void))                                                                                \
	X(enable_peer, "cuCtxEnablePeerAccess", (void *, unsigned))                                                        \
	X(take, "cuMemAlloc_v2", (unsigned long long *, size_t))                                                           \
	X(give, "cuMemFree_v2", (unsigned long long))                                                                      \
	X(take_host, "cuMemAllocHost_v2", (void **, size_t))                                                               \
	X(give_host, "cuMemFreeHost", (void *))                                                                            \
	X(to_device, "cuMemcpyHtoD_v2", (unsigned long long, const void *, size_t))                                        \
	X(to_host, "cuMemcpyDtoH_v2", (void *, unsigned long long, size_t))                                                \
	X(on_device, "cuMemcpyDtoD_v2", (unsigned long long, unsigned long long, size_t))                                  \
	X(to_peer, "cuMemcpyPeer", (unsigned long long, void *, unsigned long long, void *, size_t))                       \
	X(load, "cuModuleLoadData", (void **, const void *))                                                               \
	X(unload, "cuModuleUnload", (void *))                                                                              \
	X(function, "cuModuleGetFunction", (void **, void *, const char *))                                                \
	X(launch, "cuLaunchKernel", (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, \
	                             void **, void **))

typedef struct lk_cuda {
#define LK_CUDA_MEMBER(member, symbol, arguments) int(*member) arguments;
	LK_CUDA_CALLS(LK_CUDA_MEMBER)
#undef LK_CUDA_MEMBER
} lk_cuda;

#endif
