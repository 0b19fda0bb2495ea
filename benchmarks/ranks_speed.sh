#!/usr/bin/env bash
# What a second rank adds over shared memory: the small session model, and one 768 wide with 500 MB of gradients; one thread
# per rank; runs alternate, medians are compared.
#   benchmarks/ranks_speed.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3}
source benchmarks/common.sh

printf '| run | one rank | two ranks | of twice one |\n|---|--:|--:|--:|\n'
row() { # TITLE ITEMS STEPS OPTION...
  local title=$1 steps=$3 name=bench_$(($2 / 1000))k ranks round rate
  synthetic "$name" "$2"
  shift 3
  local one=() two=()
  for ((round = 0; round < ROUNDS; ++round)); do
    for ranks in 1 2; do
      rate=$($convoy bench step "examples/session_rec/$name.toml" --steps "$steps" --nproc $ranks --json "$@" |
        field samples_per_second)
      if ((ranks == 1)); then one+=("$rate"); else two+=("$rate"); fi
    done
  done
  awk -v t="$title" -v a="$(median "${one[@]}")" -v b="$(median "${two[@]}")" \
    'BEGIN { printf "| %s | %d samples/s | %d samples/s | %.0f %% |\n", t, a, b, 50 * b / a }'
}
row '2,000 items, batch 128 per rank' 2000 30
row '768 wide, 12 layers, 50,000 items, batch 26' 50000 6 --d_model 768 --n_layer 12 --n_head 12 \
  --per_device_train_batch_size 26
