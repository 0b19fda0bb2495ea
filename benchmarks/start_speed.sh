#!/usr/bin/env bash
# Start and loader: seconds from the shell and back of a training of one step with its evaluation, and rows/s as padded
# batches, from memory and streamed from Parquet; medians.
#   benchmarks/start_speed.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3}
source benchmarks/common.sh
sessions ml-100k
config=examples/session_rec/ml-100k.toml

start=() memory=() streamed=()
for ((round = 0; round < ROUNDS; ++round)); do
  before=${EPOCHREALTIME//[^0-9]/}
  $convoy train $config --max_steps 1 --save_strategy no --output_dir '' >/dev/null
  start+=("$(((${EPOCHREALTIME//[^0-9]/} - before) / 1000))")
  memory+=("$($convoy bench loader $config --json | field rows_per_second)")
  streamed+=("$($convoy bench loader $config --json --data.memory_budget_mb 1 | field rows_per_second)")
done
printf '| what | median of %d |\n|---|--:|\n' "$ROUNDS"
printf '| a training of one step, from the shell and back | %d ms |\n' "$(median "${start[@]}")"
printf '| batches from memory | %d rows/s |\n| batches streamed from Parquet | %d rows/s |\n' "$(median "${memory[@]}")" \
  "$(median "${streamed[@]}")"
