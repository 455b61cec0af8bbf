swift export --model a
CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --deepspeed zero3 \
    --use_vllm true --vllm_mode colocate --max_length 2048 --max_completion_length 512 --reward_funcs a b
NNODES=$N megatron sft --model Qwen/Qwen3-30B-A3B --expert_model_parallel_size 4 --recompute_granularity none
