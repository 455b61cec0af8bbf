# A trainer outside Megatron: only the config file says something.
deepspeed --num_gpus 8 --num_nodes=2 finetune.py --model_name_or_path meta-llama/Llama-3.1-8B \
  --deepspeed ds_zero3.json --bf16 True --output_dir /tmp/out
