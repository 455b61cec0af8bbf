/* Kernels that communicate, by names that profilers have shown, and others that only sound like it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/graph.h"
#include "trace/capture/capture.h"

static void those_that_communicate(void **state) {
	static const struct {
		const char *name;
		unsigned kind;
	} known[] = {
		{"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
	     LK_OP_ALLREDUCE},
		{"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", LK_OP_COUNT},
		{"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, "
	     "16>(c10::BFloat16*, "
	     "unsigned long)",
	     LK_OP_ALLREDUCE},
		{"void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *)",
	     LK_OP_ALLREDUCE},
		{"one_shot_all_reduce_kernel", LK_OP_ALLREDUCE},
		{"two_shot_all_reduce_kernel_inplace", LK_OP_ALLREDUCE},
		{"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, "
	     "vllm::RankSignals)",
	     LK_OP_ALLREDUCE},
		{"_ZN4vllm26cross_device_reduce_2stageI13__nv_bfloat16Li8EEEvPNS_8RankDataE",
	     LK_OP_ALLREDUCE},
		{"void sglang::cross_device_reduce_1stage<__half, 8>(sglang::RankData*)", LK_OP_ALLREDUCE},
		{"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
	     "(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8>()",
	     LK_OP_ALLREDUCE},
		{"quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>>", LK_OP_ALLREDUCE},
		{"void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*)", LK_OP_ALLTOALL},
		{"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)", LK_OP_ALLTOALL},
		{"moeA2ADispatchKernel", LK_OP_ALLTOALL},
		{"kuserbuffers_pushrecv(int, int, int, int, int*, int*, int)", LK_OP_COUNT},
		{"mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)", LK_OP_COUNT},
		{"nvshmemi_barrier_threadgroup_kernel", LK_OP_COUNT},
	};
	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		unsigned kind = LK_OP_COUNT + 1;
		if (!lk_comm_kernel(known[i].name, &kind)) fail_msg("no communication: %s", known[i].name);
		if (kind != known[i].kind)
			fail_msg("kind %u instead of %u: %s", kind, known[i].kind, known[i].name);
	}
}

static void those_that_do_not(void **state) {
	static const char *const others[] = {
		"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp)",
		"void at::native::vectorized_gather_kernel<16, long>(char*, char*)",
		"triton_poi_fused_add_all_reduce_wait_tensor_3",
		"triton_red_fused_all_gather_into_tensor_native_layer_norm_0",
		"void softmax_kernel<WarpAllReduce<float>>(float*)",
		"fused_kernel(AllReduceParams)",
		"deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
		"ampere_sgemm_128x64_nn",
		"void cub::DeviceReduceKernel<cub::Policy600>(float*)",
		"Memcpy HtoD (Pinned -> Device)",
		"",
	};
	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		unsigned kind;
		if (lk_comm_kernel(others[i], &kind)) fail_msg("communication: %s", others[i]);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_communicate),
		cmocka_unit_test(those_that_do_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
