#!/usr/bin/env bash
# A mixture of experts (8, of which a token is sent to 2; 21 million weights) on one rank of one thread, on two data-parallel ranks and
# on two expert ranks, also with joined rows: the same rows a step, one thread per rank. Runs alternate, medians are compared.
#   benchmarks/experts_speed.sh [ROUNDS] [STEPS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3} STEPS=${2:-6}
source benchmarks/common.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

model=(--model_type mixtral --vocab_size 2000 --hidden_size 256 --num_hidden_layers 4 --num_attention_heads 4 --num_key_value_heads 4
  --intermediate_size 768 --num_local_experts 8 --data.random_tokens 200000 --block_size 256)

train() { # NAME ROWS OPTIONS...
  rm -rf "$out/run"
  $convoy train "${model[@]}" --validation_split_percentage 0 --max_steps "$STEPS" --per_device_train_batch_size "$2" --threads 1 \
    --save_strategy no --logging_steps 1000 --output_dir "$out/run" "${@:3}" >"$out/said" 2>&1 ||
    { tail -n 5 "$out/said" >&2 && return 1; }
  decimal train_steady_samples_per_second <"$out/run/train_results.json" >>"$out/$1"
}

for ((round = 0; round < ROUNDS; ++round)); do
  train one 8
  train data 4 --nproc 2
  train experts 4 --nproc 2 --expert_parallel_size 2
  train joined 4 --nproc 2 --expert_parallel_size 2 --expert_joined true
done
one=$(median $(cat "$out/one"))
printf '| ranks of one thread | rows/s | of one rank |\n|---|--:|--:|\n'
for name in one data experts joined; do
  rate=$(median $(cat "$out/$name"))
  printf '| %s | %.2f | %s |\n' "$name" "$rate" "$(ratio "$rate" "$one")"
done
