#!/usr/bin/env bash
# Checkpoints of a session model whose item table is kept by rows, 64 wide, on two ranks with a thread each: how long the files take
# beside plain files of as many bytes, how long one that is written beside the training holds it up, and the peak memory of a rank
# that trains without checkpoints and with.
#   benchmarks/rows_save_speed.sh [FOLDER] [ITEMS...]     FOLDER is on the disk to measure; ITEMS 10000000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
FOLDER=${1:-.}
shift || true
ITEMS=("$@")
((${#ITEMS[@]})) || ITEMS=(10000000)
source benchmarks/common.sh
out=$(mktemp -d)
place=$(mktemp -d "$FOLDER/rows-save-XXXXXX")
trap 'rm -rf "$out" "$place"' EXIT

printf '| items | bytes | save, synced | plain writes | held up | steps meanwhile | a rank without checkpoints | with |\n'
printf '|--:|--:|--:|--:|--:|--:|--:|--:|\n'
for items in "${ITEMS[@]}"; do
  synthetic "bench_$items" "$items"
  run=(examples/session_rec/bench_50k.toml --data.path "data/bench_$items" --nproc 2 --per_device_train_batch_size 32
    --sampled_softmax true --max_n_samples 1000 --row_tables true)
  $convoy bench save "${run[@]}" --folder "$place" --rounds 1 --saves 1 --save-steps "${STEPS:-300}" --json >"$out/save"
  for strategy in no "steps --save_steps 30"; do
    # shellcheck disable=SC2086
    $convoy train "${run[@]}" --max_steps 60 --save_strategy $strategy --eval_strategy no --quiet \
      --output_dir "$place/run" --overwrite_output_dir >/dev/null 2>&1
    decimal peak_memory_bytes_per_rank <"$place/run/train_results.json" >"$out/${strategy%% *}"
    rm -rf "$place/run"
  done
  awk -v n="$items" -v b="$(decimal bytes <"$out/save")" -v s="$(decimal save_seconds <"$out/save")" \
    -v p="$(decimal plain_write_seconds <"$out/save")" -v h="$(decimal held_up_seconds <"$out/save")" \
    -v r="$(decimal during_ratio <"$out/save")" -v without="$(<"$out/no")" -v with="$(<"$out/steps")" \
    'BEGIN { printf "| %d | %.2f GB | %.1f s | %.1f s | %.2f s | %.2fx | %.2f GB | %.2f GB |\n", n, b / 1e9, s, p, h, r, without / 1e9,
             with / 1e9 }'
done
