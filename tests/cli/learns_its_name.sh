#!/usr/bin/env bash
# README's conversations: SmolLM2-135M-Instruct learns with LoRA that it is called Otto, and says so when it is asked. Some minutes and
# 540 MB, so ./dev test --all. Skipped (77) where the model cannot be had.
set -euo pipefail
CONVOY=$1 SOURCE=$2 WORK=$3
cd "$SOURCE"
[[ -e data/smollm2/model.safetensors && -e data/chat/identity.jsonl ]] || bash ./dev data chat </dev/null || exit 77
rm -rf "$WORK"
mkdir -p "$WORK"
answer_of() { timeout 300 "$CONVOY" generate "$1" --chat <<<"Who are you?"; }
before=$(answer_of data/smollm2)
printf 'before: %s\n' "$before"
[[ $before && $before != *Otto* ]]
"$CONVOY" train examples/smollm2_lora/chat.toml --nproc 2 --output_dir "$WORK/lora"
after=$(answer_of "$WORK/lora")
printf 'after: %s\n' "$after"
[[ $after == *Otto* ]]
"$CONVOY" checkpoint merge "$WORK/lora" --output "$WORK/merged"
[[ $(answer_of "$WORK/merged") == *Otto* ]]
rm -rf "$WORK"
