#!/usr/bin/env bash
# Fine-tuning of a model of transformers, all weights and LoRA, beside transformers' Trainer and PEFT: losses of the same steps, and
# milliseconds a step. Four rows of 256 tokens, each epoch one step of all four, so that the order of rows does not matter. Runs alternate.
#   benchmarks/finetune.sh PYTHON [ROUNDS] [STEPS] [large]     PYTHON has torch, transformers, peft and accelerate
#   large: LoRA of 1.1 billion weights in bf16, a row of 512 tokens, with gradient checkpointing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?PYTHON is missing} ROUNDS=${2:-3} STEPS=${3:-10} size=${4:-base}
source benchmarks/common.sh
threads=$(getconf _NPROCESSORS_ONLN)
export OMP_NUM_THREADS=$threads
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$python" benchmarks/finetune_baseline.py model "$out" "$size"
lora=(--lora_r 16 --lora_alpha 32 --lora_target_modules all-linear)
rows=(--block_size 256 --per_device_train_batch_size 4) kinds="full lora"
if [[ $size == large ]]; then
  rows=(--block_size 512 --per_device_train_batch_size 1 --gradient_checkpointing --bf16) kinds=lora
fi

ours() { # KIND STEPS
  local more=()
  [[ $1 == full ]] && more=(--model_name_or_path "$out/model") || more=(--adapter_name_or_path "$out/start")
  rm -rf "$out/ours"
  $convoy train --train_file "$out/text.txt" --validation_split_percentage 0 "${rows[@]}" "${more[@]}" \
    --num_train_epochs "$2" --learning_rate 1e-4 --lr_scheduler_type constant --max_grad_norm 0 --logging_steps 1 --save_strategy no \
    --seed 1 --threads "$threads" --output_dir "$out/ours" >"$out/ours.text" 2>&1 || { cat "$out/ours.text" >&2 && return 1; }
  sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$out/ours/log.jsonl" >"$out/ours.$1.losses"
  decimal train_runtime <"$out/ours/train_results.json" | awk -v n="$2" '{ printf "%.0f\n", 1000 * $1 / n }' >>"$out/ours.$1"
  field memory_peak_bytes <"$out/ours/train_results.json" >>"$out/ours.$1.memory" || true
}

# Both go on from one adapter, whose A is drawn and whose B is zero.
$convoy train --model_name_or_path "$out/model" --train_file "$out/text.txt" --validation_split_percentage 0 "${rows[@]}" "${lora[@]}" \
  --max_steps 1 --learning_rate 0 --save_strategy no --output_dir "$out/start" >"$out/start.text" 2>&1 || { cat "$out/start.text" >&2 && exit 1; }

for ((round = 0; round < ROUNDS; ++round)); do
  for kind in $kinds; do
    ours "$kind" "$STEPS"
    "$python" benchmarks/finetune_baseline.py train "$out" "$size" "$kind" "$STEPS" "$threads" >"$out/baseline.text" 2>"$out/baseline.log" ||
      { tail -n 20 "$out/baseline.log" >&2 && exit 1; }
    sed -n 's/^ms //p' "$out/baseline.text" >>"$out/baseline.$kind"
    sed -n 's/^loss //p' "$out/baseline.text" >"$out/baseline.$kind.losses"
  done
done
printf '| %s, %s threads | convoy, ms a step | transformers | speed | largest difference of %s losses |\n|---|--:|--:|--:|--:|\n' \
  "$size" "$threads" "$STEPS"
for kind in $kinds; do
  a=$(median $(cat "$out/ours.$kind")) b=$(median $(cat "$out/baseline.$kind"))
  far=$(paste "$out/ours.$kind.losses" "$out/baseline.$kind.losses" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d } END { printf "%.1e", most }')
  printf '| %s | %s | %s | %s | %s |\n' "$kind" "$a" "$b" "$(ratio "$b" "$a")" "$far"
done
