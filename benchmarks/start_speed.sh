#!/usr/bin/env bash
# Start and loader: the time from the shell and back of a training of one step with its evaluation, the time from the shell until
# GPT-2 124M has done its first forward (of 8 tokens; its folder was just written, so no disk is read), and rows/s as padded batches,
# from memory and streamed from Parquet; medians.
#   benchmarks/start_speed.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3}
source benchmarks/common.sh
sessions ml-100k
config=examples/session_rec/ml-100k.toml

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
gpt2="$convoy train examples/gpt2_clm/bench.toml --random_tokens 4000 --block_size 8 --per_device_train_batch_size 1 --save_strategy no"
$gpt2 --max_steps 1 --output_dir "$folder/gpt2" --quiet

start=() scratch=() read=() memory=() streamed=()
for ((round = 0; round < ROUNDS; ++round)); do
  start+=("$(milliseconds $convoy train $config --max_steps 1 --save_strategy no --eval_strategy no --output_dir '')")
  scratch+=("$(milliseconds first_forward $gpt2 --output_dir '')")
  read+=("$(milliseconds first_forward $gpt2 --output_dir '' --model_name_or_path "$folder/gpt2")")
  memory+=("$($convoy bench loader $config --json | field rows_per_second)")
  streamed+=("$($convoy bench loader $config --json --data.memory_budget_mb 1 --data.shuffle_window 1024 | field rows_per_second)")
done
printf '| what | median of %d |\n|---|--:|\n' "$ROUNDS"
printf '| a training of one step, from the shell and back | %d ms |\n' "$(median "${start[@]}")"
printf '| GPT-2 124M from scratch, until its first forward is done | %d ms |\n' "$(median "${scratch[@]}")"
printf '| GPT-2 124M from a folder, until its first forward is done | %d ms |\n' "$(median "${read[@]}")"
printf '| batches from memory | %d rows/s |\n| batches streamed from Parquet | %d rows/s |\n' "$(median "${memory[@]}")" \
  "$(median "${streamed[@]}")"
