torchrun --nproc_per_node=8 run_recipe.py --recipe llama3_70b_pretrain_config model.tensor_model_parallel_size=8
torchrun --nproc_per_node=8 -m torchtitan.train --module llama3 --config llama3_8b --training.num_tokens_per_train_step 65536 activation-checkpoint:full
