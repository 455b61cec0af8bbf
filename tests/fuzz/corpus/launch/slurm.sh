#SBATCH -N 4 --gres=gpu:8
srun bash -c 'torchrun --nnodes $SLURM_NNODES t.py --moe-layer-freq "([0]*3+[1]*5)" --num-experts 4 --num-layers 8 --hidden-size 8 --num-attention-heads 1'