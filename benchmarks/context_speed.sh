#!/usr/bin/env bash
# Time and memory of a training step of GPT-2 with one long row (random tokens, AdamW, no dropout, no clipping) on two context ranks
# of one thread each, beside one rank. Runs alternate, medians are compared. It needs two idle cores.
#   benchmarks/context_speed.sh [ROUNDS] [LENGTH] [FLAGS]     FLAGS are of the model or the training, such as --bf16
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3} LENGTH=${2:-1024} FLAGS=${*:3}
source benchmarks/common.sh
NAMES=("one rank" "two context ranks")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for ((round = 0; round < ROUNDS; ++round)); do
  for name in "${NAMES[@]}"; do
    how=()
    [[ $name == "one rank" ]] || how=(--nproc 2 --context_parallel_size 2)
    # Flags are words.
    # shellcheck disable=SC2086
    bench_step "$name" examples/gpt2_clm/bench.toml --threads 1 --steps 6 --warmup 2 --n_positions "$LENGTH" \
      --block_size "$LENGTH" --per_device_train_batch_size 1 "${how[@]}" $FLAGS
  done
done

printf '| 1 x %s tokens%s | ms/step | times one rank | peak GB per rank |\n|---|--:|--:|--:|\n' "$LENGTH" "${FLAGS:+, $FLAGS}"
one=$(median $(cat "$out/one rank"))
for name in "${NAMES[@]}"; do
  awk -v n="$name" -v a="$(median $(cat "$out/$name"))" -v one="$one" -v m="$(median $(cat "$out/$name.memory"))" \
    'BEGIN { printf "| %s | %d | %.2f | %s |\n", n, a, one / a, m }'
done
