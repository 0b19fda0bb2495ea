#!/usr/bin/env bash
# Time and memory of a training step of GPT-2 124M (4 x 128 random tokens, AdamW, no dropout, no clipping) on two tensor ranks of one
# thread each, with and without sequence parallelism, beside one rank and two ranks of DistributedDataParallel with half of the rows.
# Runs alternate, medians are compared. It needs two idle cores.
#   benchmarks/tensor_speed.sh [ROUNDS] [FLAG]     FLAG is --bf16 or nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-5} FLAG=${2:-}
source benchmarks/common.sh
NAMES=("one rank" ddp tensor sequence)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for ((round = 0; round < ROUNDS; ++round)); do
  for name in "${NAMES[@]}"; do
    case $name in
      "one rank") how="--per_device_train_batch_size 4" ;;
      ddp) how="--nproc 2 --per_device_train_batch_size 2" ;;
      tensor) how="--nproc 2 --per_device_train_batch_size 4 --tensor_parallel_size 2" ;;
      sequence) how="--nproc 2 --per_device_train_batch_size 4 --tensor_parallel_size 2 --sequence_parallel" ;;
    esac
    # Options are words.
    # shellcheck disable=SC2086
    bench_step "$name" examples/gpt2_clm/bench.toml --threads 1 --steps 8 --warmup 2 $how $FLAG
  done
done

printf '| 4 x 128 tokens%s | ms/step | times one rank | beside tensor | peak GB per rank |\n|---|--:|--:|--:|--:|\n' "${FLAG:+, ${FLAG#--}}"
one=$(median $(cat "$out/one rank")) tensor=$(median $(cat "$out/tensor"))
for name in "${NAMES[@]}"; do
  awk -v n="$name" -v a="$(median $(cat "$out/$name"))" -v one="$one" -v t="$tensor" -v m="$(median $(cat "$out/$name.memory"))" \
    'BEGIN { printf "| %s | %d | %.2f | %.2fx | %s |\n", n, a, one / a, a / t, m }'
done
