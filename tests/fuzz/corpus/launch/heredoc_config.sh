#SBATCH --nodes=2
cat > a.yaml <<'E'
base_model: meta-llama/Llama-3.1-8B
sequence_len: 64
micro_batch_size: 1
deepspeed: {zero_optimization: {stage: 2}}
# LOCKSTEP_GPUS=16
E
srun axolotl train a.yaml --micro_batch_size 2 --launcher torchrun -- --nproc_per_node=8
