#!/usr/bin/env bash
# Time of a training step of GPT-2 124M (4 x 128 random tokens per rank, AdamW, no dropout) beside Hugging Face and
# PyTorch, one thread per rank; runs alternate, medians are compared.
#   benchmarks/gpt2_speed.sh PYTHON [ROUNDS]     PYTHON has torch and transformers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/gpt2_speed.sh PYTHON [ROUNDS]} ROUNDS=${2:-3}
source benchmarks/common.sh
export GLOO_SOCKET_IFNAME=lo

printf '| precision | ranks | convoy | PyTorch | ratio |\n|---|--:|--:|--:|--:|\n'
for row in fp32:1: bf16:1:--bf16 fp32:2: bf16:2:--bf16; do
  IFS=: read -r precision ranks flag <<<"$row"
  mode=single
  [[ $ranks == 1 ]] || mode=ddp
  ours=() theirs=()
  for ((round = 0; round < ROUNDS; ++round)); do
    ours+=("$($convoy bench step examples/gpt2_clm/bench.toml --threads 1 --steps 6 --warmup 2 --nproc "$ranks" $flag --json |
      field step_ms_median)")
    theirs+=("$("$PYTHON" benchmarks/peers/torch_gpt2.py $mode "$ranks" $flag 2>/dev/null |
      sed -n 's/.*step=\([0-9]*\)ms.*/\1/p')")
  done
  a=$(median "${ours[@]}") b=$(median "${theirs[@]}")
  awk -v p="$precision" -v r="$ranks" -v a="$a" -v b="$b" \
    'BEGIN { printf "| %s | %d | %d ms | %d ms | %.2fx |\n", p, r, a, b, b / a }'
done
