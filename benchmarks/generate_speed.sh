#!/usr/bin/env bash
# Greedy text of GPT-2 124M beside Hugging Face, one thread: 8 prompts and 64 tokens each, one by one and all at once, and the first
# token after a prompt of nearly 1,000; runs alternate, medians are compared. ./dev data text fetches the tokenizer.
#   benchmarks/generate_speed.sh PYTHON [ROUNDS]     PYTHON has torch and transformers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/generate_speed.sh PYTHON [ROUNDS]} ROUNDS=${2:-3}
source benchmarks/common.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

text=data/tokenizers/texts/source.txt
$convoy train --family gpt2 --data.train $text --data.tokenizer data/tokenizers/gpt2 --block_size 128 --max_steps 1 \
  --validation_split_percentage 0 --save_strategy no --output_dir "$folder/gpt2" --quiet
write_prompts $text "$folder"

printf '| prompts | new tokens | batch | convoy | Hugging Face | ratio |\n|---|--:|--:|--:|--:|--:|\n'
for row in short:64:1 short:64:8 long:1:1; do
  IFS=: read -r prompts new batch <<<"$row"
  ours=() theirs=()
  for ((round = 0; round < ROUNDS; ++round)); do
    ours+=("$($convoy generate "$folder/gpt2" --file "$folder/$prompts" --max-new-tokens "$new" --batch-size "$batch" --threads 1 2>&1 >/dev/null | token_rate)")
    theirs+=("$("$PYTHON" benchmarks/baselines/torch_generate.py "$folder/gpt2" "$folder/$prompts" "$batch" "$new" 2>/dev/null | token_rate)")
  done
  a=$(median "${ours[@]}") b=$(median "${theirs[@]}")
  awk -v p="$prompts" -v n="$new" -v s="$batch" -v a="$a" -v b="$b" \
    'BEGIN { printf "| %s | %d | %d | %.2f tokens/s | %.2f tokens/s | %.2fx |\n", p, n, s, a, b, a / b }'
done
