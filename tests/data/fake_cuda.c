/* fake_cuda.c: stands in for NVIDIA's driver library in tests/cli/calibrate.test: GPUs that take
 * orders and a millisecond for each copy, and move nothing. FAKE_GPUS says how many, FAKE_NAME what
 * they are called, FAKE_FULL makes their memory full. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int contexts[16];

static int slowly(void) {
	struct timespec ms = {0, 1000000};
	nanosleep(&ms, NULL);
	return 0;
}

int cuInit(unsigned flags) {
	return (int)flags;
}
int cuDeviceGetCount(int *count) {
	return *count = atoi(getenv("FAKE_GPUS")), 0;
}
int cuDeviceGet(int *device, int index) {
	return *device = index, 0;
}
int cuDeviceGetName(char *out, int size, int device) {
	return snprintf(out, (size_t)size, "%s", getenv("FAKE_NAME")), device < 0;
}
int cuDeviceTotalMem_v2(size_t *size, int device) {
	return *size = 85899345920u, device < 0;
}
int cuDeviceCanAccessPeer(int *can, int a, int b) {
	return *can = 1, a == b;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
	return *context = &contexts[device], 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
	return device < 0;
}
int cuCtxSetCurrent(void *context) {
	return context == NULL;
}
int cuCtxSynchronize(void) {
	return 0;
}
int cuCtxEnablePeerAccess(void *context, unsigned flags) {
	return context == NULL || flags;
}
int cuMemAlloc_v2(unsigned long long *at, size_t size) {
	return *at = 4096 + size % 7, getenv("FAKE_FULL") != NULL;
}
int cuMemFree_v2(unsigned long long at) {
	return at == 0;
}
int cuMemAllocHost_v2(void **at, size_t size) {
	return (*at = malloc(size)) == NULL;
}
int cuMemFreeHost(void *at) {
	return free(at), 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) {
	return !to || !from || !size || slowly();
}
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) {
	return !to || !from || !size || slowly();
}
int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, size_t size) {
	return !to || !from || !size || slowly();
}
int cuMemcpyPeer(unsigned long long to, void *b, unsigned long long from, void *a, size_t size) {
	return !to || !from || a == b || !size || slowly();
}
int cuModuleLoadData(void **module, const void *image) {
	return *module = &contexts[15], image == NULL;
}
int cuModuleUnload(void *module) {
	return module == NULL;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
	return *function = module, name == NULL;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream,
		(void)arguments, (void)extra;
	return function == NULL;
}
