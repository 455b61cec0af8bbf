/* capability.c: what runs on which devices, a row each: kernels of attention, block-scaled
 * products, what NCCL and DeepEP need. Number formats are columns of data/devices.csv: a device has
 * those whose peak is stated. */
#include "hw/hw.h"

#include "base/check.h"

#define ARCH(name) (1u << LK_ARCH_##name)
#define AMD        (ARCH(CDNA1) | ARCH(CDNA2) | ARCH(CDNA3) | ARCH(CDNA4) | ARCH(RDNA3))
#define LATE       (ARCH(HOPPER) | ARCH(BLACKWELL))
#define TENSOR_16  (ARCH(AMPERE) | ARCH(ADA) | LATE)

static const struct row {
	const char *name, *needs;
	unsigned arches;
	int nccl; /* the first release of NCCL with it; 0: all */
	const char *source;
} rows[LK_CAPABILITIES] = {
	[LK_CAN_FLASH2] = {"FlashAttention-2", "Ampere or later", TENSOR_16 | AMD | ARCH(CPU), 0,
                       "Dao-AILab/flash-attention README; AMD: Composable Kernel and AITER; "
                       "processors: PyTorch's own"},
	[LK_CAN_FLASH3] = {"FlashAttention-3", "Hopper", ARCH(HOPPER), 0,
                       "Dao-AILab/flash-attention hopper/: sm_90 alone"},
	[LK_CAN_CUDNN] = {"fused attention by cuDNN", "NVIDIA's Ampere or later", TENSOR_16, 0,
                      "NVIDIA/cudnn-frontend docs/operations/Attention.md"},
	[LK_CAN_EFFICIENT] = {"memory-efficient attention", "Pascal or later",
                          TENSOR_16 | ARCH(PASCAL) | ARCH(VOLTA) | ARCH(TURING) | AMD | ARCH(CPU),
                          0,
                          "pytorch aten/native/transformers/cuda/sdp_utils.cpp: sm_50 to sm_121"},
	[LK_CAN_BLOCKS] = {"block-scaled fp8 arithmetic", "Hopper or Blackwell", LATE, 0,
                       "TransformerEngine transformer_engine/pytorch/quantization.py"},
	[LK_CAN_MULTICAST] = {"NVLink multicast", "Hopper or later with NVSwitch", LATE, 21700,
                          "NCCL 2.17 release notes; src/transport/nvls.cc"},
	[LK_CAN_BY_NODE] = {"DeepEP", "Ampere, Hopper or Blackwell with NVLink", ARCH(AMPERE) | LATE, 0,
                        "deepseek-ai/DeepEP README: sm_80 and sm_90; NVIDIA's HybridEP: sm_100"},
};

bool lk_device_can(const lk_device *device, lk_capability what) {
	LK_ASSERT(what < LK_CAPABILITIES);
	return rows[what].arches >> device->arch & 1;
}

bool lk_cluster_can(const lk_cluster *cluster, lk_capability what) {
	for (int i = 0; i < cluster->groups; i++)
		if (!lk_device_can(cluster->node[i].device, what)) return false;
	return true;
}

const char *lk_capability_name(lk_capability what) {
	return rows[what].name;
}

const char *lk_capability_needs(lk_capability what) {
	return rows[what].needs;
}

const char *lk_capability_source(lk_capability what) {
	return rows[what].source;
}

int lk_capability_nccl(lk_capability what) {
	return rows[what].nccl;
}
