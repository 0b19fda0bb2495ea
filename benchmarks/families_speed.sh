#!/usr/bin/env bash
# Time of a training step of BERT-base (hidden words; labels of texts) and T5-small (hidden spans), 4 x 128 tokens, AdamW, no
# dropout, beside Hugging Face and PyTorch, one thread; runs alternate, medians are compared.
#   benchmarks/families_speed.sh PYTHON [ROUNDS]     PYTHON has torch and transformers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/families_speed.sh PYTHON [ROUNDS]} ROUNDS=${2:-3}
source benchmarks/common.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/train.toml" <<'END'
[train]
per_device_train_batch_size = 4
max_grad_norm = 0.0
lr_scheduler_type = "constant"
END
random='[data]\nrandom_tokens = 200000\nblock_size = 128\n'
bert='hidden_dropout_prob = 0.0\nattention_probs_dropout_prob = 0.0\n'
printf "[model]\nfamily = \"bert\"\n$bert$random" | cat - "$folder/train.toml" >"$folder/bert.toml"
printf "[model]\nfamily = \"t5\"\ndropout_rate = 0.0\n$random" | cat - "$folder/train.toml" >"$folder/t5.toml"
printf "[model]\ntask = \"classification\"\n$bert[data]\ntrain = \"$folder/texts.csv\"\ntokenizer = \"$folder/words\"\nmax_length = 128\n" |
  cat - "$folder/train.toml" >"$folder/classify.toml"
mkdir "$folder/words"
{
  printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
  for ((i = 5; i < 30522; ++i)); do echo "w$i"; done
} >"$folder/words/vocab.txt"
awk 'BEGIN { srand(1); print "text,label"
  for (row = 0; row < 200; ++row) {
    for (i = 0; i < 126; ++i) printf "w%d ", 5 + int(rand() * 30517)
    print "," row % 2 } }' >"$folder/texts.csv"

printf '| model | precision | convoy | PyTorch | ratio |\n|---|---|--:|--:|--:|\n'
for row in bert:fp32: classify:fp32: t5:fp32: bert:bf16:--bf16 classify:bf16:--bf16 t5:bf16:--bf16; do
  IFS=: read -r model precision flag <<<"$row"
  ours=() theirs=()
  for ((round = 0; round < ROUNDS; ++round)); do
    ours+=("$($convoy bench step "$folder/$model.toml" --threads 1 --steps 6 --warmup 2 $flag --json | field step_ms_median)")
    theirs+=("$("$PYTHON" benchmarks/baselines/torch_families.py "$model" $flag 2>/dev/null | sed -n 's/.*step=\([0-9]*\)ms.*/\1/p')")
  done
  a=$(median "${ours[@]}") b=$(median "${theirs[@]}")
  awk -v m="$model" -v p="$precision" -v a="$a" -v b="$b" \
    'BEGIN { printf "| %s | %s | %d ms | %d ms | %.2fx |\n", m, p, a, b, b / a }'
done
