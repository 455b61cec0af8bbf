# gpu_wrappers.awk: lib/recorder/gpu/cuda_calls.txt or nccl_calls.txt to C: a wrapper for each call.
# Usage: awk -f tools/gpu_wrappers.awk lib/recorder/gpu/cuda_calls.txt > cuda_wrappers.c

function type_of(letter) {
	if (letter ~ /[zbwhn]/) return "size_t "
	if (letter == "s") return "const void *"
	if (letter == "3") return "lp_dim3 "
	if (letter == "x") return "const lp_launch_config *"
	if (letter == "u") return "unsigned "
	return letter ~ /[iktoRp]/ && (nccl || letter != "p") ? "int " : "void *"
}

function place(letters, letter) { return index(letters, letter) }
function argument(letters, letter, otherwise) { return place(letters, letter) ? "a" place(letters, letter) : otherwise }

function lists(letters,    i, letter) {
	declared = passed = ""
	for (i = 1; letters != "-" && i <= length(letters); i++) {
		letter = substr(letters, i, 1)
		declared = declared (i > 1 ? ", " : "") type_of(letter) "a" i
		passed = passed (i > 1 ? ", " : "") "a" i
	}
	if (declared == "") declared = "void"
}

function cuda(name, what, letters,    bytes, stream) {
	lists(letters)
	bytes = place(letters, "w") ? argument(letters, "w") " * " argument(letters, "h") : argument(letters, "b", "0")
	stream = place(letters, "x") ? "a1->stream" : argument(letters, "q", "NULL")
	printf "int %s(%s);\nLP_EXPORT int %s(%s) {\n\tLP_GPU_REAL(%s)\n\tstatic uint32_t number, epoch;\n", name, declared, name, declared, name
	printf "\tlp_gpu_call call = {.name = \"%s\", .number = &number, .epoch = &epoch, .what = LK_DEVICE_%s,\n", name, what
	printf "\t                    .direction = %s, .stream = %s, .event = %s, .bytes = %s};\n", \
		place(letters, "k") ? "(uint8_t)" argument(letters, "k") : "4", stream, argument(letters, "e", "NULL"), bytes
	printf "\tlp_gpu_begin(&call);\n\tint result = real ? real(%s) : LP_GPU_ABSENT;\n\tlp_gpu_end(&call, result);\n\treturn result;\n}\n\n", passed
}

function collective(name, what, letters, bytes,    peer) {
	lists(letters)
	peer = argument(letters, "R", argument(letters, "p", "-1"))
	printf "int %s(%s);\nLP_EXPORT int %s(%s) {\n\tLP_NCCL_REAL(%s)\n\tstatic uint32_t number, epoch;\n", name, declared, name, declared, name
	printf "\tlp_nccl_call call = {.name = \"%s\", .number = &number, .epoch = &epoch, .what = LK_WHAT_%s,\n", name, what
	printf "\t                     .from = %s, .to = %s, .count = a%d, .type = a%d, .peer = %s, .comm = a%d,\n", \
		argument(letters, "s", "NULL"), argument(letters, "r", "NULL"), place(letters, "n"), place(letters, "t"), peer, place(letters, "c")
	printf "\t                     .stream = a%d, .all = %s};\n", place(letters, "q"), bytes ~ /k/ ? "true" : "false"
	printf "\tif (!lp_nccl_begin(&call)) call.result = real ? real(%s) : LP_NCCL_ABSENT;\n", passed
	printf "\tlp_nccl_end(&call);\n\treturn call.result;\n}\n\n"
}

BEGIN {
	nccl = ARGV[1] ~ /nccl_calls/
	printf "/* Made by tools/gpu_wrappers.awk of %s. */\n#include \"recorder/gpu/gpu.h\"\n\n", ARGV[1]
}
/^#/ || NF == 0 { next }
nccl {
	collective("nccl" $1, $2, $3, $4)
	collective("pnccl" $1, $2, $3, $4)
	next
}
{
	cuda($1, $2, $3)
	if ($4 ~ /t/) cuda($1 ($3 ~ /[qx]/ ? "_ptsz" : "_ptds"), $2, $3)
}
