python3 -m pip install torch
python3 -m MaxText.train "${DIR:-$PWD}"/base.yml run_name=$R model_name=gpt3-52k per_device_batch_size=1 ici_fsdp_parallelism=4 quantization=fp8
python3 -m MaxText.decode base.yml prompt="I love"
