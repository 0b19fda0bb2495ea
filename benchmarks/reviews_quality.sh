#!/usr/bin/env bash
# Accuracy of examples/bert_classify over five seeds beside Hugging Face's Trainer on the same split, 32 sentences a step; about ten
# minutes a run on a slow core.
#   benchmarks/reviews_quality.sh PYTHON [SEEDS]     PYTHON has torch, transformers and accelerate
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/reviews_quality.sh PYTHON [SEEDS]} SEEDS=${2:-5}
source benchmarks/common.sh
./dev data reviews >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

ours=() theirs=()
printf '| seed | convoy | Hugging Face |\n|--:|--:|--:|\n'
for ((seed = 1; seed <= SEEDS; ++seed)); do
  $convoy train examples/bert_classify/reviews.toml --seed "$seed" --nproc 2 --bf16 --output_dir "$folder/$seed" --quiet
  ours+=("$(sed -n 's/.*"eval_accuracy": \([0-9.]*\).*/\1/p' "$folder/$seed/eval_results.json")")
  theirs+=("$("$PYTHON" benchmarks/baselines/hf_reviews.py "$seed" 2>/dev/null | sed -n 's/.*accuracy=//p')")
  printf '| %d | %s | %s |\n' "$seed" "${ours[-1]}" "${theirs[-1]}"
done
printf '| mean | %s | %s |\n' "$(mean "${ours[@]}")" "$(mean "${theirs[@]}")"
