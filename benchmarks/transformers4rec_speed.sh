#!/usr/bin/env bash
# Steady samples/s and peak memory of convoy beside Transformers4Rec's own Trainer on MovieLens-100K: same rows, model,
# batch and dropout, one thread each, loaders included; runs alternate, medians are compared.
#   benchmarks/transformers4rec_speed.sh PYTHON [ROUNDS]     PYTHON has transformers4rec (benchmarks/baselines/t4rec_trainer.py)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/transformers4rec_speed.sh PYTHON [ROUNDS]} ROUNDS=${2:-3}
source benchmarks/common.sh
sessions ml-100k

ours=() theirs=() our_memory=() their_memory=()
for ((round = 0; round < ROUNDS; ++round)); do
  json=$($convoy bench step examples/session_rec/ml-100k.toml --per_device_train_batch_size 128 --steps 120 --json)
  ours+=("$(field samples_per_second <<<"$json")")
  our_memory+=("$(($(field peak_memory_bytes <<<"$json") >> 20))")
  read -r rate memory < <("$PYTHON" benchmarks/baselines/t4rec_trainer.py data/ml-100k/sessions 2>/dev/null | tail -n 1)
  theirs+=("$rate") their_memory+=("$memory")
done
a=$(median "${ours[@]}") b=$(median "${theirs[@]}")
printf '| | samples/s | peak memory |\n|---|--:|--:|\n'
printf '| convoy | %s | %s MiB |\n' "$a" "$(median "${our_memory[@]}")"
printf '| Transformers4Rec | %s | %s MiB |\n' "$b" "$(median "${their_memory[@]}")"
awk -v a="$a" -v b="$b" 'BEGIN { printf "| ratio | %.2fx | |\n", a / b }'
