#!/usr/bin/env bash
# Greedy text of a Llama of GPT-2 124M's size on one rank and on two tensor ranks of one thread each, beside Hugging Face's tp_plan
# over Gloo: prompts one by one and eight at once, and the first token after a prompt of nearly 1,000. Runs alternate, medians are
# compared. It needs two idle cores; ./dev data text fetches the tokenizer.
#   benchmarks/tensor_generate_speed.sh PYTHON [ROUNDS]     PYTHON has torch, transformers and accelerate
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/tensor_generate_speed.sh PYTHON [ROUNDS]} ROUNDS=${2:-3}
source benchmarks/common.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

text=data/tokenizers/texts/source.txt
$convoy train --family llama --hidden_size 768 --intermediate_size 3072 --num_hidden_layers 12 --num_attention_heads 12 \
  --num_key_value_heads 12 --max_position_embeddings 1024 --data.train $text --data.tokenizer data/tokenizers/gpt2 --block_size 128 \
  --max_steps 1 --validation_split_percentage 0 --save_strategy no --output_dir "$folder/llama" --quiet
write_prompts $text "$folder"

ours() { # OPTIONS
  $convoy generate "$folder/llama" --file "$folder/$prompts" --max-new-tokens "$new" --batch-size "$batch" --threads 1 "$@" 2>&1 >/dev/null | token_rate
}
theirs() { # PYTHON'S WORDS
  "$PYTHON" "$@" benchmarks/baselines/torch_generate.py "$folder/llama" "$folder/$prompts" "$batch" "$new" 2>/dev/null | token_rate
}

printf '| prompts | new tokens | batch | one rank | two tensor ranks | | Hugging Face, one | tp_plan, two | tensor ranks beside tp_plan |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n'
for row in short:64:1 short:64:8 long:1:1; do
  IFS=: read -r prompts new batch <<<"$row"
  one=() two=() hf=() plan=()
  for ((round = 0; round < ROUNDS; ++round)); do
    one+=("$(ours)")
    two+=("$(ours --nproc 2 --tensor_parallel_size 2)")
    hf+=("$(theirs)")
    plan+=("$(theirs -m torch.distributed.run --nproc_per_node 2)")
  done
  awk -v p="$prompts" -v n="$new" -v s="$batch" -v a="$(median "${one[@]}")" -v b="$(median "${two[@]}")" -v c="$(median "${hf[@]}")" \
    -v d="$(median "${plan[@]}")" \
    'BEGIN { printf "| %s | %d | %d | %.2f tokens/s | %.2f | %.2fx | %.2f | %.2f | %.2fx |\n", p, n, s, a, b, b / a, c, d, b / d }'
done
