#!/bin/sh
# Latent attention, 256 experts, a layout string, DeepEP: DeepSeek-V3's shape on 1024 GPUs.
NODES=128
PP=16
EP=64
GPUS=$(( NODES * 8 ))

set -- # no arguments
CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 1:$NODES --nproc-per-node 8 \
  /opt/megatron/pretrain_gpt.py --num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 \
  --num-attention-heads 128 --kv-channels 128 --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 \
  --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm \
  --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope --normalization RMSNorm --swiglu \
  --disable-bias-linear --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 \
  --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 \
  --moe-layer-freq "([0]*3+[1]*58)" --moe-router-enable-expert-bias --moe-router-score-function sigmoid \
  --moe-token-dispatcher-type flex --moe-enable-deepep --moe-permute-fusion --mtp-num-layers 1 \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size $PP --expert-model-parallel-size $EP \
  --expert-tensor-parallel-size 1 --pipeline-model-parallel-layout 'Et*3|(tt|)*29,m|L' \
  --micro-batch-size 1 --global-batch-size $((GPUS * 4)) --bf16 --fp8-format e4m3 --fp8-recipe blockwise \
  --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 --use-precision-aware-optimizer --use-distributed-optimizer \
  --overlap-grad-reduce --overlap-param-gather --recompute-granularity selective --recompute-modules mla_up_proj mlp \
  --vocab-size 129280 --make-vocab-size-divisible-by 128 --new-flag-of-tomorrow 3 --manual-gc
