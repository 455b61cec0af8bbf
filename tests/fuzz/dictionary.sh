#!/usr/bin/env bash
# The words that a fuzz target's reader knows, as a dictionary of libFuzzer's form: the texts without blanks in the sources that
# read its input, and forms of the language it is written in.
# Usage: tests/fuzz/dictionary.sh TARGET
set -euo pipefail
cd "$(dirname "$0")/../.."
shopt -s nullglob

sources() {
	case $1 in
	archive | csv | options | recording | store) ;;
	calibration) echo src/cost/calibration/*.c study/fit/*.c ;;
	cluster) echo src/hw/*.c ;;
	compose | stalls) ;;
	config) echo src/model/network/*.c ;;
	config_file) echo src/launch/config/config*.c src/launch/frameworks/{frameworks,keys_*}.c src/launch/line_*.c src/launch/reading/{job_fields,reading}.c ;;
	darshan) echo src/stalls/stalls_darshan.c ;;
	deepspeed) echo src/launch/config/deepspeed.c ;;
	dlrm) echo src/model/network/dlrm.c study/tables/dlrm_table.c src/cost/host_terms.c ;;
	graph | simulate) echo src/graph/*.c ;;
	hierarchy) echo src/plan/hierarchy*.c ;;
	jobs) echo src/jobs/*.c ;;
	json) ;;
	kineto | explain) echo src/trace/kineto/kineto*.c src/trace/capture/*.c src/explain/explain_names.c ;;
	lang | lang_run | emit | steps) echo lang/syntax/*.c lang/types/*.c lang/run/sizes_read.c ;;
	launch) echo src/launch/*.c src/launch/*/*.c lib/shell/*.c ;;
	lift | traces) ;;
	nccl_info | topology_xml | topology) echo src/hw/nccl_info.c src/hw/topology_xml.c src/hw/interconnect.c study/calibrate/host/topology.c ;;
	nsys) echo src/trace/read/nsys.c src/trace/read/rocpd.c src/trace/read/rocm.c ;;
	offers) echo src/rent/offers*.c src/hw/fields.c ;;
	rocprof) echo src/trace/read/rocprof.c src/trace/read/rocm.c ;;
	serve) echo src/serve/fields.c src/serve/guard.c src/options/rows/predict_options.c src/options/rows/job_rows.h ;;
	shard) echo src/shard/shard_tables.c ;;
	timeline) echo src/trace/read/timeline_read.c src/trace/read/shown.c src/graph/names.c ;;
	trace_kind) echo src/trace/read/trace_kind.c src/trace/capture/*.c ;;
	whatif) echo src/whatif/*.c src/graph/graph_fields.c ;;
	wisdom) echo lang/tune/tune_wisdom.c ;;
	works) echo src/trace/read/chakra.c src/trace/read/pytorch_et.c src/trace/read/works_read.c ;;
	xplane) echo src/trace/read/xplane.c ;;
	yaml) ;;
	*) echo study/tables/*.c ;;
	esac
}

forms() {
	case $1 in
	launch) cat <<'END' ;;
"if [[ $A == B* && -n $C ]]; then\x0a"
"elif [ \"$A\" -gt 1 ] || [ -z \"${B}\" ]; then\x0a"
"else\x0a"
"fi\x0a"
"( "
" )"
"{ "
"; }"
"&& "
"|| "
"[[ "
" ]]"
" =~ "
"!= "
"! "
"${A:-B}"
"${A:+B}"
"${A:=B}"
"${A:?B}"
"${#A}"
"${#A[@]}"
"${A[@]}"
"${A[0]}"
"${A[*]:1:2}"
"${A:1:2}"
"${A%%.*}"
"${A##*/}"
"${A//x/y}"
"${A^^}"
"${!A}"
"$((A + 1))"
"$((A ** 2))"
"((i++))"
"$(echo A)"
"$(seq 1 4)"
"$(cat <<END\x0aA\x0aEND\x0a)"
"`echo A`"
"$@"
"$*"
"$#"
"$?"
"$1"
"A=(1 2 3)\x0a"
"A+=(x)\x0a"
"declare -A A=([k]=v)\x0a"
"export A=1\x0a"
"local A=1\x0a"
"readonly A=1\x0a"
"unset A\x0a"
"eval \"$A\"\x0a"
"exec "
"bash -c '"
"set -- a b c\x0a"
"shift\x0a"
"exit 0\x0a"
"return\x0a"
"break\x0a"
"continue\x0a"
"for i in 1 2 3; do\x0a"
"for ((i=0; i<3; i++)); do\x0a"
"while read -r A; do\x0a"
"until false; do\x0a"
"done\x0a"
"case $A in\x0aa|b) "
";; *) "
"esac\x0a"
"f() {\x0a"
"function f {\x0a"
"f() (\x0a"
"cat > file <<END\x0a"
"<<'END'\x0a"
"END\x0a"
"<<< A"
"<(echo A)"
"> /dev/null 2>&1"
"| tee log"
"\\\x0a"
"trap 'x' EXIT\x0a"
"mapfile -t A <<END\x0a"
"{1..3}"
"{a,b}"
"torchrun --nproc_per_node 8 "
"srun "
"#SBATCH --nodes=2\x0a"
END
	yaml | config_file) printf '"%s"\n' '&a ' '*a' '<<: *a' '!!str ' '- ' '? ' '---\x0a' '...\x0a' '%YAML 1.1\x0a' '|\x0a  ' '>-\x0a  ' '[[a]]\x0a' '[a.b]\x0a' 'a = ' '\x22\x22\x22' "'''" '{a = 1}' '0x1f' '0o17' '1979-05-27T07:32:00Z' 'inf' 'nan' '1_000' '.inf' '~' '\\u0041' '${oc.env:A,B}' '${a.b}' ;;
	json) printf '"%s"\n' '\\u0000' '\\ud800' '\\udc00' '\xef\xbb\xbf' 'NaN' 'Infinity' '-Infinity' 'null' 'true' 'false' 'True' 'None' 'nan' 'inf' '1e400' '-0' '\\x' ;;
	csv) printf '"%s"\n' '\x22' '\x22\x22' '\x0d\x0a' ',' ';' '\x09' '\xef\xbb\xbf' '#' '\x1f\x8b\x08' '\x28\xb5\x2f\xfd' ;;
	archive) printf '"%s"\n' 'ustar' 'PK\x03\x04' 'PK\x01\x02' 'PK\x05\x06' 'PK\x06\x06' 'PK\x06\x07' '././@LongLink' '12 path=a.json\x0a' '.json' '.et' ;;
	options) printf '"%s"\n' '--output' '--flag' '--gpu' '--tp' '--dtype' '--memory' '--tokens' '--no-flag' '--' '-o' '-f' '-g' '-t' '--tp=1..64' '1,2,4' '1..8' '1..64*2' '1k' '1T' '--help' 'bf16' 'fp8' ;;
	*) ;;
	esac
}

files=$(sources "$1")
# shellcheck disable=SC2086
[ -z "$files" ] || grep -ohE '"[][A-Za-z0-9_.:/@$<>=+*{}(),-]{2,40}"' $files | grep -vE '\.h"$' | sort -u
forms "$1"
