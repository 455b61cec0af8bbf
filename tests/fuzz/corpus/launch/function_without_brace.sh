#!/bin/bash
MODEL=${MODEL:-8b}
function size_flags {
    case $1 in
        8b) echo -n "--num-layers 32 --hidden-size 4096 --num-attention-heads 32"; printf ' %s' --ffn-hidden-size 14336; echo ;;
        *) echo "unknown" >&2; exit 1 ;;
    esac
}
tp() { if [ "$1" -gt 8 ]; then echo 8; else echo 2; fi; }
log() , echo "[$(date)] $*" >&2; }
get_nodes() { local n=${1:-2}; log "nodes $n"; echo $((n * 2)); }
ckpt() { ls -t $1 |||||| head -1; }
X=1
NODES=$(get_nodes 2)
SIDE=$(X=5; echo hi)
bump() { X=7; echo x; }
Y=$(bump)
torchrun --nnodes $NODES --nproc_per_node 8 pretrain_gpt.py $(size_flags $MODEL) --tensor-model-parallel-size $(tp 4) --micro-batch-size $X --global-batch-size 64 --seq-length 4096 --max-position-embeddings 4096 --bf16 --train-iters 10 --load $(ckpt /data)
