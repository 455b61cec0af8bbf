#!/usr/bin/env bash
#SBATCH -N 4 --ntasks-per-node=8 --gres=gpu:h100:8
set -euo pipefail
sizes() { case "$1" in 7b) LAYERS=32 HIDDEN=4096 ;; 13b|70b) LAYERS=80; HIDDEN=8192 ;; *) exit 1 ;; esac; }
sizes "${1:-7b}"
while [[ $# -gt 0 ]]; do case $1 in --tp) TP=$2; shift 2 ;; --tp=*) TP=${1#*=}; shift ;; *) shift ;; esac; done
ARGS=(--num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $((HIDDEN / 128)))
if [ -n "${WANDB:-}" ]; then ARGS+=(--wandb-project x); fi
EXTRA="--seq-length 4096 \
  --max-position-embeddings 4096" # a comment
for host in $(scontrol show hostnames); do echo "$host"; done
cat > ds.json <<END
{"train_batch_size": ${GBS:-256}}
END
srun bash -c "torchrun --nnodes \$SLURM_NNODES --nproc_per_node 8 --node-rank \$SLURM_PROCID pretrain_gpt.py ${ARGS[*]} $EXTRA \
  --tensor-model-parallel-size ${TP:-2} --micro-batch-size 1 --global-batch-size 256 --bf16 --train-iters 10"
