#!/usr/bin/env bash
# Time and memory of a training step of GPT-2 124M (4 x 128 random tokens, AdamW, no dropout, no clipping) on two tensor ranks of one
# thread each, with and without sequence parallelism, beside one rank and two ranks of DistributedDataParallel with half of the rows.
# Runs alternate, medians are compared. It needs two idle cores.
#   benchmarks/tensor_speed.sh [ROUNDS] [FLAG] [PYTHON]     FLAG is --bf16 or ""; with a PYTHON that has torch and transformers a Llama
#                                                          of that width is timed too, beside DTensor's tensor ranks
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-5} FLAG=${2:-}
source benchmarks/common.sh
PYTHON=${3:-}
NAMES=("one rank" ddp tensor sequence)
[[ $PYTHON ]] && NAMES+=("Llama, tensor" "Llama, PyTorch DTensor")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for ((round = 0; round < ROUNDS; ++round)); do
  for name in "${NAMES[@]}"; do
    config=examples/gpt2_clm/bench.toml
    case $name in
      "Llama, PyTorch DTensor")
        "$PYTHON" benchmarks/baselines/torch_causal.py tensor 2 --family llama --vocab 32000 --steps 8 $FLAG 2>/dev/null >"$out/text"
        sed -n 's/.*step=\([0-9]*\)ms.*/\1/p' "$out/text" >>"$out/$name"
        sed -n 's/.*rss=\([0-9.]*\)GB.*/\1/p' "$out/text" >>"$out/$name.memory"
        continue
        ;;
      "one rank") how="--per_device_train_batch_size 4" ;;
      ddp) how="--nproc 2 --per_device_train_batch_size 2" ;;
      "Llama, tensor")
        config=examples/llama_tiny/bench.toml
        how="--nproc 2 --per_device_train_batch_size 4 --block_size 128 --tensor_parallel_size 2"
        ;;
      tensor) how="--nproc 2 --per_device_train_batch_size 4 --tensor_parallel_size 2" ;;
      sequence) how="--nproc 2 --per_device_train_batch_size 4 --tensor_parallel_size 2 --sequence_parallel" ;;
    esac
    # Options are words.
    # shellcheck disable=SC2086
    bench_step "$name" $config --threads 1 --steps 8 --warmup 2 $how $FLAG
  done
done

printf '| 4 x 128 tokens%s | ms/step | times one rank | beside tensor | peak GB per rank |\n|---|--:|--:|--:|--:|\n' "${FLAG:+, ${FLAG#--}}"
one=$(median $(cat "$out/one rank")) tensor=$(median $(cat "$out/tensor"))
for name in "${NAMES[@]}"; do
  awk -v n="$name" -v a="$(median $(cat "$out/$name"))" -v one="$one" -v t="$tensor" -v m="$(median $(cat "$out/$name.memory"))" \
    'BEGIN { printf "| %s | %d | %.2f | %.2fx | %s |\n", n, a, one / a, a / t, m }'
done
