#!/bin/bash
# A mixture of 8 experts under Slurm: 8 nodes of 8 GPUs, flags in one string.
#SBATCH --job-name=mixtral
#SBATCH -N 8
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
set -euo pipefail
source /opt/venv/bin/activate

export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_IB_SL=1

OPTIONS=" \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
    --seq-length 4096 --max-position-embeddings 32768 \
    --position-embedding-type rope --normalization RMSNorm --swiglu \
    --disable-bias-linear --untie-embeddings-and-output-weights \
    --attention-dropout 0.0 --hidden-dropout 0.0 --no-masked-softmax-fusion"

OPTIONS="${OPTIONS} \
    --num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss \
    --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall \
    --overlap-param-gather --overlap-grad-reduce"

OPTIONS+=" --tokenizer-type Llama2Tokenizer --tokenizer-model $TOKENIZER_MODEL --data-path $DATA_PATH"
OPTIONS+=" --micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 500000 --bf16"
OPTIONS+=" --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8"
OPTIONS+=" --num-layers-per-virtual-pipeline-stage 4 --use-distributed-optimizer --sequence-parallel"

run_cmd="cd /workspace && torchrun --nproc_per_node=8 --nnodes=$SLURM_NNODES --rdzv_backend c10d pretrain_gpt.py ${OPTIONS}"

srun -l --container-image=pytorch.sqsh --container-mounts=/data:/data --output="logs/%x_%j.log" bash -c "${run_cmd}"
