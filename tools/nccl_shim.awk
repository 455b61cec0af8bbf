# nccl_shim.awk: lib/recorder/gpu/nccl_symbols.txt to C: for each symbol a jump through a slot of its own, which nccl_shim.c fills.
# Usage: awk -f tools/nccl_shim.awk lib/recorder/gpu/nccl_symbols.txt > nccl_shim_jumps.c
/^#/ { next }
{ for (i = 1; i <= NF; i++) if (sub(/^=/, "", $i)) name[count++] = $i; else { name[count++] = "nccl" $i; name[count++] = "pnccl" $i } }
END {
	print "/* Made by tools/nccl_shim.awk of lib/recorder/gpu/nccl_symbols.txt. */\n#include \"recorder/gpu/nccl_shim.h\"\n"
	printf "const int lps_count = %d;\nvoid *lps_slot[%d];\nconst char *const lps_name[] = {\n", count, count
	for (i = 0; i < count; i++) printf "\t\"%s\",\n", name[i]
	print "};\n"
	for (i = 0; i < count; i++) printf "LPS_JUMP(\"%s\", \"%d\")\n", name[i], 8 * i
}
