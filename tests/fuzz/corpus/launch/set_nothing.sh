set --
f() { shift 2; torchrun pretrain_gpt.py --num-layers $1; }
f 8
