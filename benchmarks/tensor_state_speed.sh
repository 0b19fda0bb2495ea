#!/usr/bin/env bash
# What surrounds the steps of GPT-2 124M on two tensor ranks of one thread, beside two ranks of DistributedDataParallel: the time from
# the shell until the first forward is done, a checkpoint's save and load. Runs alternate, medians are compared.
#   benchmarks/tensor_state_speed.sh [ROUNDS] [FOLDER]     FOLDER is on the disk to measure
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3} FOLDER=${2:-.}
source benchmarks/common.sh
out=$(mktemp -d)
place=$(mktemp -d "$FOLDER/tensor-state-XXXXXX")
trap 'rm -rf "$out" "$place"' EXIT
NAMES=(ddp tensor)
run=(examples/gpt2_clm/bench.toml --threads 1 --nproc 2 --random_tokens 4000 --block_size 8 --per_device_train_batch_size 2)

for ((round = 0; round < ROUNDS; ++round)); do
  for name in "${NAMES[@]}"; do
    how=()
    [[ $name == ddp ]] || how=(--tensor_parallel_size 2)
    milliseconds first_forward $convoy train "${run[@]}" --save_strategy no --output_dir '' "${how[@]}" 2>/dev/null >>"$out/$name.start"
    $convoy bench save "${run[@]}" --folder "$place" --rounds 1 "${how[@]}" --json >"$out/json"
    decimal save_seconds <"$out/json" >>"$out/$name.save"
    decimal load_seconds <"$out/json" >>"$out/$name.load"
  done
done

printf '| two ranks | start, ms | save, s | load, s |\n|---|--:|--:|--:|\n'
for name in "${NAMES[@]}"; do
  printf '| %s | %d | %.2f | %.2f |\n' "$name" "$(median $(cat "$out/$name.start"))" "$(median $(cat "$out/$name.save"))" \
    "$(median $(cat "$out/$name.load"))"
done
