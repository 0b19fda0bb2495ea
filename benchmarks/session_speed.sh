#!/usr/bin/env bash
# Steady samples/s of convoy beside PyTorch and Hugging Face on the same model, sizes and machine, one thread per
# rank; runs alternate, medians are compared.
#   benchmarks/session_speed.sh PYTHON [ROUNDS]     PYTHON has torch and transformers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/session_speed.sh PYTHON [ROUNDS]} ROUNDS=${2:-3}
source benchmarks/common.sh

printf '| items | ranks | convoy | PyTorch | ratio |\n|--:|--:|--:|--:|--:|\n'
for size in 2k:2000:1 2k:2000:2 50k:50000:1; do
  IFS=: read -r name items ranks <<<"$size"
  synthetic "bench_$name" "$items"
  ours=() theirs=()
  for ((round = 0; round < ROUNDS; ++round)); do
    ours+=("$($convoy bench step examples/session_rec/bench_$name.toml --steps 30 --nproc "$ranks" --json |
      field samples_per_second)")
    theirs+=("$("$PYTHON" benchmarks/baselines/session.py --items "$items" --ranks "$ranks" 2>/dev/null)")
  done
  a=$(median "${ours[@]}") b=$(median "${theirs[@]}")
  awk -v i="$items" -v r="$ranks" -v a="$a" -v b="$b" \
    'BEGIN { printf "| %d | %d | %d samples/s | %d samples/s | %.2fx |\n", i, r, a, b, a / b }'
done
