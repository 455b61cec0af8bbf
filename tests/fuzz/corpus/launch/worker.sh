worker=$(cat <<- EOM
  cd x ; numactl --membind=\$((LOCAL_RANK/2)) nsys profile -o /$LOGS --session-new "n-\$RANDOM" \
  python scripts/performance/run_script.py --gpu gb200 --num_gpus 8 --model_recipe_name llama3_8b --seq_length 512
EOM
)
echo "$worker" > w.sh
echo "# more $X" >> w.sh
torchrun --nproc-per-node="4" --nnodes=2 --no-python bash w.sh
