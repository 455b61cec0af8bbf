#!/bin/bash
# Llama 3 8B in fp8 on one node; the conditions are decided by the texts in the script.
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}

SAVE=${1:-"checkpoints/llama3_8b"}
LOGS=${2:-"logs/llama3_8b"}
TOKENIZER=${3:-"MOCK"}
DATA=${4:-"MOCK"}
mkdir -p "$(dirname "$SAVE")"
mkdir -p "$(dirname "$LOGS")"

GPUS_PER_NODE=8
NUM_NODES=1
NODE_RANK=${NODE_RANK:-0}
WORLD_SIZE=$((GPUS_PER_NODE * NUM_NODES))
PROGRAM="$(pwd)/pretrain_gpt.py"

TP=1
CP=2
PP=1
MBS=1
GBS=128
DTYPE="fp8"
SEQ=8192

LAUNCH_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes=$NUM_NODES --node_rank $NODE_RANK)

NETWORK_ARGS=(
    --use-mcore-models
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --kv-channels 128
    --seq-length $SEQ
    --max-position-embeddings $SEQ
    --position-embedding-type rope
    --rotary-base 1000000
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --swiglu
    --init-method-std 0.0134
    --normalization RMSNorm
    --disable-bias-linear
    --untie-embeddings-and-output-weights
)

STEP_ARGS=(
    --micro-batch-size $MBS
    --global-batch-size $GBS
    --bf16
    --grad-reduce-in-bf16
    --cross-entropy-loss-fusion
    --calculate-per-token-loss
    --manual-gc
    --empty-unused-memory-level 1
)

NUMBER_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    NUMBER_ARGS+=(
        "--fp8-format hybrid"
        "--fp8-amax-history-len 1024"
        "--fp8-param-gather"
    )
fi

LAYOUT_ARGS=(
    --tensor-model-parallel-size $TP
    --context-parallel-size $CP
    # --pipeline-model-parallel-size $PP # this network fits without; don't enable
    --sequence-parallel
)
DP_ARGS=(
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
)

DATA_ARGS=()
if [[ "$TOKENIZER" == "MOCK" ]] || [[ "$DATA" == "MOCK" ]] || [[ -z "$TOKENIZER" ]]; then
    DATA_ARGS+=("--mock-data" "--tokenizer-type NullTokenizer" "--vocab-size 128256")
else
    DATA_ARGS+=("--data-path $DATA" "--tokenizer-type HuggingFaceTokenizer" "--tokenizer-model $TOKENIZER" "--vocab-size 128256")
fi

if [ ! -f "$PROGRAM" ]; then
    echo "no $PROGRAM here"
    exit 1
fi

torchrun ${LAUNCH_ARGS[@]} "$PROGRAM" ${NETWORK_ARGS[@]} ${STEP_ARGS[@]} \
    ${NUMBER_ARGS[@]} ${LAYOUT_ARGS[@]} ${DP_ARGS[@]} \
    ${DATA_ARGS[@]} --save "$SAVE" --tensorboard-dir "$LOGS" 2>&1 | tee run.log

set +x
