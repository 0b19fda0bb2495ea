#!/usr/bin/env bash
# Fine-tuning of a random model beside transformers' Trainer, PEFT and TRL: losses of the same steps, milliseconds a step, and the most
# memory of each process. A step has four rows of 256 tokens (dpo: four pairs of twice 160), and each epoch is one step, so that the order of rows does not matter.
#   benchmarks/finetune.sh PYTHON [ROUNDS] [STEPS] [KIND...]     PYTHON has torch, transformers, peft, trl and accelerate; KIND:
#   full: all weights, of 110 million; lora: adapters of rank 16 on all linear layers; sft: answers to prompts;
#   packed: shorter ones, two a row; dpo: preferences;
#   experts: all weights of a mixture of experts, 100 million of them for a token;
#   large: adapters of 1.1 billion weights in bf16, a row of 512 tokens, with gradient checkpointing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?PYTHON is missing} ROUNDS=${2:-3} STEPS=${3:-10}
KINDS=("${@:4}")
((${#KINDS[@]})) || KINDS=(full lora sft packed dpo)
source benchmarks/common.sh
threads=$(getconf _NPROCESSORS_ONLN)
export OMP_NUM_THREADS=$threads
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

common=(--learning_rate 1e-4 --lr_scheduler_type constant --max_grad_norm 0 --logging_steps 1 --save_strategy no --seed 1
  --validation_split_percentage 0 --threads "$threads")

options_of() { # KIND: sets `options`
  local model=$out/base
  options=(--train_file "$out/base.jsonl" --block_size 256 --per_device_train_batch_size 4)
  case $1 in
    sft) options=(--task chat --train_file "$out/sft.jsonl" --max_length 256 --per_device_train_batch_size 4) ;;
    packed) options=(--task chat --train_file "$out/packed.jsonl" --max_length 256 --packing true --per_device_train_batch_size 4) ;;
    dpo) options=(--task preference --train_file "$out/dpo.jsonl" --max_length 256 --per_device_train_batch_size 4) ;;
    experts)
      model=$out/experts
      options=(--train_file "$out/experts.jsonl" --block_size 256 --per_device_train_batch_size 4)
      ;;
    large)
      model=$out/large
      options=(--train_file "$out/large.jsonl" --block_size 512 --per_device_train_batch_size 1 --gradient_checkpointing --bf16)
      ;;
  esac
  if [[ $1 == lora || $1 == large ]]; then
    options+=(--adapter_name_or_path "$out/$1.start")
    [[ -e $out/$1.start ]] || begin "$1" "$model"
  else
    options+=(--model_name_or_path "$model")
  fi
}

begin() { # KIND MODEL: an adapter whose A is drawn and whose B is zero, from which both go on
  local own=("${options[@]}")
  unset 'own[-1]' 'own[-1]'
  quietly "$convoy" train --model_name_or_path "$2" "${own[@]}" --lora_r 16 --lora_alpha 32 --lora_target_modules all-linear \
    "${common[@]}" --max_steps 1 --learning_rate 0 --output_dir "$out/$1.start"
}

# Runs COMMAND; adds the most memory that its process held, in GB, to $out/NAME.memory.
measured() { # NAME COMMAND...
  quietly "$python" - "${@:2}" <<'PYTHON'
import resource
import subprocess
import sys

code = subprocess.call(sys.argv[1:])
print("kib", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
PYTHON
  sed -n 's/^kib //p' "$out/said" | awk '{ printf "%.2f\n", $1 * 1024 / 1e9 }' >>"$out/$1.memory"
}

quietly() { "$@" >"$out/said" 2>&1 || { tail -n 20 "$out/said" >&2 && return 1; }; }

ours() { # KIND
  options_of "$1"
  rm -rf "$out/ours"
  measured "ours.$1" "$convoy" train "${options[@]}" "${common[@]}" --num_train_epochs "$STEPS" --output_dir "$out/ours"
  sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$out/ours/log.jsonl" >"$out/ours.$1.losses"
  decimal train_runtime <"$out/ours/train_results.json" | awk -v n="$STEPS" '{ printf "%.0f\n", 1000 * $1 / n }' >>"$out/ours.$1"
}

for kind in "${KINDS[@]}"; do
  size=base
  [[ $kind != large && $kind != experts ]] || size=$kind
  [[ -e $out/$size ]] || "$python" benchmarks/finetune_baseline.py model "$out" "$size" 2>/dev/null
done
for ((round = 0; round < ROUNDS; ++round)); do
  for kind in "${KINDS[@]}"; do
    ours "$kind"
    measured "baseline.$kind" "$python" benchmarks/finetune_baseline.py train "$out" "$kind" "$STEPS" "$threads"
    sed -n 's/^ms //p' "$out/said" >>"$out/baseline.$kind"
    sed -n 's/^loss //p' "$out/said" >"$out/baseline.$kind.losses"
  done
done
printf '| %s threads | convoy, ms a step | baseline | speed | convoy, GB | baseline, GB | largest difference of %s losses |\n|---|--:|--:|--:|--:|--:|--:|\n' "$threads" "$STEPS"
for kind in "${KINDS[@]}"; do
  a=$(median $(cat "$out/ours.$kind")) b=$(median $(cat "$out/baseline.$kind"))
  far=$(paste "$out/ours.$kind.losses" "$out/baseline.$kind.losses" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d } END { printf "%.1e", most }')
  printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$kind" "$a" "$b" "$(ratio "$b" "$a")" "$(median $(cat "$out/ours.$kind.memory"))" \
    "$(median $(cat "$out/baseline.$kind.memory"))" "$far"
done
