#!/usr/bin/env bash
# scripts/gpu_run.sh to its end on a simulated GPU: nothing fails, nothing is left out for lack of time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CONVOY_FAKE_GPU=$FAKE_GPU_FOLDER:1 GPU_SECONDS=1700 "$(dirname "$0")/../../scripts/gpu_run.sh" "$folder" "$FAKE_GPU_FOLDER/.."
((!$(grep -c 'FAILED\|left out\|cut short' "$folder/summary.txt")))
for name in bench_gpt2_fp32 bench_gpt2_bf16 bench_llama_bf16; do
  for key in mfu_percent tokens_per_second peak_device_memory_bytes launches_per_step waits_per_step; do
    grep -q "\"$key\": [0-9]" "$folder/$name.txt" || { echo "$name has no $key"; exit 1; }
  done
done
