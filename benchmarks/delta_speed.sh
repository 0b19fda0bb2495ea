#!/usr/bin/env bash
# Time of a training step of four layers of Qwen3.5 with the gated delta rule, beside the same layers with attention of the same
# width, by length of the row; AdamW, one row a step. Runs alternate, medians are compared.
#   benchmarks/delta_speed.sh [ROUNDS] [LENGTHS] [OPTIONS...]     LENGTHS "2048 8192 32768"; OPTIONS for both, such as --bf16
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3} LENGTHS=${2:-"2048 8192 32768"}
source benchmarks/common.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

config() { # TYPE LENGTH
  cat <<END
[model]
family = "qwen3_5_text"
vocab_size = 512
hidden_size = 512
intermediate_size = 512
num_hidden_layers = 4
num_attention_heads = 4
num_key_value_heads = 4
head_dim = 128
linear_num_key_heads = 4
linear_num_value_heads = 4
layer_types = '["$1", "$1", "$1", "$1"]'
max_position_embeddings = $2
[data]
random_tokens = $((6 * $2))
block_size = $2
[train]
per_device_train_batch_size = 1
END
}

printf '| positions | gated delta rule | attention | ratio | a position |\n|--:|--:|--:|--:|--:|\n'
for length in $LENGTHS; do
  config linear_attention "$length" >"$folder/delta.toml"
  config full_attention "$length" >"$folder/attention.toml"
  delta=() attention=()
  for ((round = 0; round < ROUNDS; ++round)); do
    for name in delta attention; do
      declare -n times=$name
      times+=("$($convoy bench step "$folder/$name.toml" --threads 1 --steps 3 --warmup 1 "${@:3}" --json | field step_ms_median)")
    done
  done
  a=$(median "${delta[@]}") b=$(median "${attention[@]}")
  awk -v n="$length" -v a="$a" -v b="$b" \
    'BEGIN { printf "| %d | %d ms | %d ms | %.2fx | %.1f us |\n", n, a, b, a / b, 1000 * a / n }'
done
