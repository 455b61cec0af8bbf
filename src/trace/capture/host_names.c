/* host_names.c: what the host does in an event, by its name. One row a name; the first that fits
 * counts. Python functions are known by file and function (torch/_dynamo/convert_frame.py(1271):
 * _compile). With stacks they are most events of a profile: readers keep only those of a row. */
#include <string.h>

#include "trace/capture/capture.h"

enum row_how { BEGINS, HAS };

struct host_name {
	const char *text;
	enum row_how how;
	unsigned work;
	const char *but; /* names that have this are others; NULL none */
};

/* Names of operations, annotations and calls; case does not matter. */
static const struct host_name host_names[] = {
	{"enumerate(DataLoader)#", BEGINS, LK_HOST_LOADS, NULL},
	{"file:read ", BEGINS, LK_HOST_LOADS, NULL},
	{"train_dataloader_next", HAS, LK_HOST_LOADS, NULL}, /* Lightning */
	{"dataloader", BEGINS, LK_HOST_LOADS, NULL},
	{"data_loading", BEGINS, LK_HOST_LOADS, NULL},
	{"load_data", HAS, LK_HOST_LOADS, NULL},
	{"load_batch", HAS, LK_HOST_LOADS, NULL},
	{"get_batch", HAS, LK_HOST_LOADS, NULL},
	{"next_batch", HAS, LK_HOST_LOADS, NULL},
	{"fetch_batch", HAS, LK_HOST_LOADS, NULL},
	{"data loading", HAS, LK_HOST_LOADS, NULL},
	{"IteratorGetNext", HAS, LK_HOST_LOADS, NULL},    /* tf.data */
	{"block_until_ready", HAS, LK_HOST_AWAITS, NULL}, /* JAX */
	{"BlockHostUntil", HAS, LK_HOST_AWAITS, NULL},
	{"StreamBeginCapture", HAS, LK_HOST_BEGINS_CAPTURE, NULL},
	{"StreamEndCapture", HAS, LK_HOST_ENDS_CAPTURE, NULL},
	{"GraphInstantiate", HAS, LK_HOST_ONCE, NULL},
	{"capture_", BEGINS, LK_HOST_ONCE, NULL}, /* annotations of vLLM and SGLang */
	{"graph_capture", HAS, LK_HOST_ONCE, NULL},
	{"graph capture", HAS, LK_HOST_ONCE, NULL},
	{"ModuleLoad", HAS, LK_HOST_ONCE, NULL}, /* of CUDA and HIP, runtime and driver */
	{"cuLibraryLoad", BEGINS, LK_HOST_ONCE, NULL},
	{"cudaLibraryLoad", BEGINS, LK_HOST_ONCE, NULL},
	{"cuLink", BEGINS, LK_HOST_ONCE, NULL},
	{"DevicePrimaryCtxRetain", HAS, LK_HOST_ONCE, NULL},
	{"cuCtxCreate", BEGINS, LK_HOST_ONCE, NULL},
	{"cublasCreate", BEGINS, LK_HOST_ONCE, NULL},
	{"cudnnCreate", BEGINS, LK_HOST_ONCE, NULL},
	{"ncclCommInit", BEGINS, LK_HOST_ONCE, NULL},
	{"cusolverDnCreate", BEGINS, LK_HOST_ONCE, NULL},
	{"cusparseCreate", BEGINS, LK_HOST_ONCE, NULL},
	{"rocblas_create", BEGINS, LK_HOST_ONCE, NULL},
	{"rocblas_initialize", BEGINS, LK_HOST_ONCE, NULL},
	{"miopenCreate", BEGINS, LK_HOST_ONCE, NULL},
	{"cudnnFind", BEGINS, LK_HOST_ONCE, NULL}, /* tries all algorithms */
	{"miopenFind", BEGINS, LK_HOST_ONCE, NULL},
	{"Module Loading", HAS, LK_HOST_ONCE, NULL},
	{"Function Loading", HAS, LK_HOST_ONCE, NULL},
	{"nvrtc", HAS, LK_HOST_ONCE, NULL},
	{"hiprtc", HAS, LK_HOST_ONCE, NULL},
	{"autotun", HAS, LK_HOST_ONCE, NULL},
	{"warmup", HAS, LK_HOST_ONCE, "step"},
	{"warm_up", HAS, LK_HOST_ONCE, "step"},
	{"dynamo_timed", HAS, LK_HOST_ONCE, NULL}, /* all of torch.compile's own work */
	{"compil", HAS, LK_HOST_ONCE, "compiled"}, /* "Torch-Compiled Region" runs */
	{"MallocAsync", HAS, 0, NULL},             /* from a pool */
	{"FreeAsync", HAS, 0, NULL},
	{"cudaMalloc", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"hipMalloc", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"hipExtMalloc", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"cuMemAlloc", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"cuMemCreate", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"cuMemMap", BEGINS, LK_HOST_ALLOCATES, NULL}, /* of segments that grow */
	{"cuMemSetAccess", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"cuMemUnmap", BEGINS, LK_HOST_ALLOCATES | LK_HOST_FREES, NULL},
	{"cudaHostAlloc", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"hipHostAlloc", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"hipHostMalloc", BEGINS, LK_HOST_ALLOCATES, NULL},
	{"cudaFree", BEGINS, LK_HOST_ALLOCATES | LK_HOST_FREES, NULL},
	{"hipFree", BEGINS, LK_HOST_ALLOCATES | LK_HOST_FREES, NULL},
	{"cuMemFree", BEGINS, LK_HOST_ALLOCATES | LK_HOST_FREES, NULL},
	{"cuMemRelease", BEGINS, LK_HOST_ALLOCATES | LK_HOST_FREES, NULL},
	{"save_checkpoint", HAS, LK_HOST_SAVES, NULL},
	{"save-checkpoint", HAS, LK_HOST_SAVES, NULL}, /* Megatron's timer */
	{"checkpoint_save", HAS, LK_HOST_SAVES, NULL},
	{"save_model", HAS, LK_HOST_SAVES, NULL},
	{"torch.save", HAS, LK_HOST_SAVES, NULL},
	{"Python GC", BEGINS, LK_HOST_COLLECTS, NULL},
	{"gc.collect", HAS, LK_HOST_COLLECTS, NULL},
	{"CPUAdam", HAS, LK_HOST_COMPUTES, NULL}, /* DeepSpeed */
	{"CPUAdagrad", HAS, LK_HOST_COMPUTES, NULL},
	{"CPULion", HAS, LK_HOST_COMPUTES, NULL},
	{"preprocess", HAS, LK_HOST_PREPARES, NULL},
	{"pre_process", HAS, LK_HOST_PREPARES, NULL},
	{"tokeniz", HAS, LK_HOST_PREPARES, NULL},
	{"image_process", HAS, LK_HOST_PREPARES, NULL},
	{"decode_image", HAS, LK_HOST_PREPARES, NULL},
	{"decode_video", HAS, LK_HOST_PREPARES, NULL},
	{"augment", HAS, LK_HOST_PREPARES, NULL},
	{"collate", HAS, LK_HOST_PREPARES, NULL},
	{"BufferFromHost", HAS, LK_HOST_PREPARES, NULL}, /* JAX: inputs on their way to the device */
	{"device_put", HAS, LK_HOST_PREPARES, NULL},
};

/* Python functions: X(beginning of the name, part of the file's path or NULL, work). */
#define PYTHON_NAMES(X)                                       \
	X("__next__", "utils/data/dataloader.py", LK_HOST_LOADS)  \
	X("__next__", "nvidia/dali", LK_HOST_LOADS)               \
	X("__next__", "grain/", LK_HOST_LOADS)                    \
	X("__next__", "ffcv/", LK_HOST_LOADS)                     \
	X("_fetch_batches", "data_loader", LK_HOST_LOADS)         \
	X("__getitem__", "datasets/", LK_HOST_LOADS)              \
	X("save", "torch/serialization.py", LK_HOST_SAVES)        \
	X("save", "distributed/checkpoint", LK_HOST_SAVES)        \
	X("save_checkpoint", NULL, LK_HOST_SAVES)                 \
	X("save_pretrained", NULL, LK_HOST_SAVES)                 \
	X("_save_checkpoint", NULL, LK_HOST_SAVES)                \
	X("save_file", "safetensors", LK_HOST_SAVES)              \
	X("step", "cpu_adam", LK_HOST_COMPUTES)                   \
	X("step", "cpu_adagrad", LK_HOST_COMPUTES)                \
	X("preprocess", NULL, LK_HOST_PREPARES)                   \
	X("_preprocess", NULL, LK_HOST_PREPARES)                  \
	X("pre_process", NULL, LK_HOST_PREPARES)                  \
	X("read_video", NULL, LK_HOST_PREPARES)                   \
	X("read_image", NULL, LK_HOST_PREPARES)                   \
	X("load_image", NULL, LK_HOST_PREPARES)                   \
	X("load_video", NULL, LK_HOST_PREPARES)                   \
	X("load_audio", NULL, LK_HOST_PREPARES)                   \
	X("pil_loader", NULL, LK_HOST_PREPARES)                   \
	X("resize", "PIL/", LK_HOST_PREPARES)                     \
	X("convert", "PIL/", LK_HOST_PREPARES)                    \
	X("load", "PIL/", LK_HOST_PREPARES)                       \
	X("load", "librosa/", LK_HOST_PREPARES)                   \
	X("decode_", "image", LK_HOST_PREPARES)                   \
	X("decode_", "video", LK_HOST_PREPARES)                   \
	X("collate", NULL, LK_HOST_PREPARES)                      \
	X("default_collate", NULL, LK_HOST_PREPARES)              \
	X("tokenize", NULL, LK_HOST_PREPARES)                     \
	X("_tokenize", NULL, LK_HOST_PREPARES)                    \
	X("batch_encode", "token", LK_HOST_PREPARES)              \
	X("_batch_encode", "token", LK_HOST_PREPARES)             \
	X("encode", "token", LK_HOST_PREPARES)                    \
	X("_encode", "token", LK_HOST_PREPARES)                   \
	X("apply_chat_template", NULL, LK_HOST_PREPARES)          \
	X("__call__", "tokenization", LK_HOST_PREPARES)           \
	X("__call__", "image_process", LK_HOST_PREPARES)          \
	X("__call__", "feature_extraction", LK_HOST_PREPARES)     \
	X("__call__", "/processing_", LK_HOST_PREPARES)           \
	X("__call__", "torchvision/transforms", LK_HOST_PREPARES) \
	X("__call__", "albumentations", LK_HOST_PREPARES)         \
	X("_compile", "torch/_dynamo", LK_HOST_ONCE)              \
	X("compile", "torch/_inductor", LK_HOST_ONCE)             \
	X("compile", "triton/", LK_HOST_ONCE)                     \
	X("_bench", "triton/", LK_HOST_ONCE)                      \
	X("benchmark_all_configs", NULL, LK_HOST_ONCE)            \
	X("autotune", NULL, LK_HOST_ONCE)                         \
	X("_jit_compile", "cpp_extension", LK_HOST_ONCE)          \
	X("backend_compile", "jax", LK_HOST_ONCE)                 \
	X("capture_model", NULL, LK_HOST_ONCE)                    \
	X("capture_begin", "cuda/graphs.py", LK_HOST_ONCE)        \
	X("warmup", NULL, LK_HOST_ONCE)

static const struct {
	const char *function, *path;
	unsigned work;
} python_names[] = {
#define PYTHON_ROW(function, path, work) {function, path, work},
	PYTHON_NAMES(PYTHON_ROW)
#undef PYTHON_ROW
};

/* Profiles with stacks have many functions; a bit of their first letters tells that most have no
 * row. */
#define PYTHON_SUM(text)                ((text)[0] * 5 + (text)[1] * 11 + (text)[2])
#define PYTHON_BIT(text)                (UINT64_C(1) << (PYTHON_SUM(text) & 63))
#define PYTHON_OR(function, path, work) | PYTHON_BIT(function)

static bool row_fits(const struct host_name *row, const char *name) {
	if (row->but && strcasestr(name, row->but)) return false;
	if (row->how == BEGINS) return strncasecmp(name, row->text, strlen(row->text)) == 0;
	return strcasestr(name, row->text) != NULL;
}

/* PyTorch's name of a collection, and of gc.collect(). */
static bool collects_garbage(const char *name, size_t length) {
	static const char event[] = "Python GC", call[] = "<built-in function collect>";
	if (length == sizeof event - 1) return memcmp(name, event, length) == 0;
	return length == sizeof call - 1 && memcmp(name, call, length) == 0;
}

unsigned lk_python_work(const char *name, size_t length) {
	size_t at = length;
	if (collects_garbage(name, length)) return LK_HOST_COLLECTS;
	while (at > 0 && name[at - 1] != ' ') at--;
	if (at < 3 || name[at - 2] != ':' || name[at - 3] != ')') return 0; /* built in, or a module */
	const char *function = name + at;
	size_t size = length - at;
	if (size < 3 || !((UINT64_C(0) PYTHON_NAMES(PYTHON_OR)) & PYTHON_BIT(function))) return 0;
	if (size >= 8 && memcmp(function, "compiled", 8) == 0) return 0; /* it runs */
	for (size_t i = 0; i < sizeof python_names / sizeof *python_names; i++) {
		const char *row = python_names[i].function;
		if (function[0] != row[0] || function[1] != row[1]) continue;
		size_t wanted = strlen(row);
		if (size < wanted || memcmp(function, row, wanted) != 0) continue;
		const char *path = python_names[i].path;
		if (!path || memmem(name, at, path, strlen(path))) return python_names[i].work;
	}
	return 0;
}

unsigned lk_host_work(const char *name) {
	unsigned python = lk_python_work(name, strlen(name));
	if (python || strstr(name, ".py(")) return python;
	for (size_t i = 0; i < sizeof host_names / sizeof *host_names; i++)
		if (row_fits(&host_names[i], name)) return host_names[i].work;
	return 0;
}
