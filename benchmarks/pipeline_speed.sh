#!/usr/bin/env bash
# Time and memory of a training step (8 micro-batches of 4 x 128 random tokens, AdamW, no dropout, no clipping) on two stages, one thread
# each. GPT-2 124M with a head of its own: beside the same stages in torch.distributed.pipelining, two ranks of DistributedDataParallel
# that share out the micro-batches, and one rank. BERT-base and T5-small: 1f1b beside auto. Runs alternate, medians are compared.
#   benchmarks/pipeline_speed.sh PYTHON [ROUNDS] [FLAG] [MODEL]     PYTHON has torch and transformers, for gpt2; FLAG is --bf16 or "";
#                                                                  MODEL is gpt2 (default), bert or t5
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/pipeline_speed.sh PYTHON [ROUNDS] [FLAG] [MODEL]} ROUNDS=${2:-3} FLAG=${3:-} MODEL=${4:-gpt2}
source benchmarks/common.sh
export GLOO_SOCKET_IFNAME=lo
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
NAMES=("convoy 1f1b" "convoy auto")
case $MODEL in
  gpt2)
    run=(examples/gpt2_clm/bench.toml --tie_word_embeddings false)
    NAMES=("convoy one rank" "convoy ddp" "convoy gpipe" "convoy 1f1b" "convoy interleaved" "convoy zero_bubble" "convoy auto"
      "PyTorch gpipe" "PyTorch 1f1b")
    ;;
  bert | t5)
    no_dropout=(--dropout_rate 0)
    [[ $MODEL == bert ]] && no_dropout=(--hidden_dropout_prob 0 --attention_probs_dropout_prob 0)
    touch "$out/$MODEL.toml"
    run=("$out/$MODEL.toml" --family "$MODEL" "${no_dropout[@]}" --random_tokens 200000 --block_size 128 --per_device_train_batch_size 4
      --max_grad_norm 0 --lr_scheduler_type constant)
    ;;
  *)
    echo "MODEL = $MODEL; expected gpt2, bert or t5" >&2
    exit 2
    ;;
esac

for ((round = 0; round < ROUNDS; ++round)); do
  for name in "${NAMES[@]}"; do
    kind=${name#* }
    if [[ $name == PyTorch* ]]; then
      "$PYTHON" benchmarks/baselines/torch_causal.py "$kind" 2 $FLAG 2>/dev/null >"$out/text" || continue
      sed -n 's/.*step=\([0-9]*\)ms.*/\1/p' "$out/text" >>"$out/$name"
      sed -n 's/.*rss=\([0-9.]*\)GB.*/\1/p' "$out/text" >>"$out/$name.memory"
      continue
    fi
    case $kind in
      "one rank") how="--gradient_accumulation_steps 8" ;;
      ddp) how="--nproc 2 --gradient_accumulation_steps 4" ;;
      *) how="--nproc 2 --gradient_accumulation_steps 8 --pipeline_parallel_size 2 --pipeline_schedule $kind" ;;
    esac
    bench_step "$name" "${run[@]}" --threads 1 --steps 3 --warmup 1 $how $FLAG
  done
done

printf '| %s, 8 micro-batches%s | ms/step | beside convoy 1f1b | peak GB per rank |\n|---|--:|--:|--:|\n' "$MODEL" "${FLAG:+, ${FLAG#--}}"
base=$(median $(cat "$out/convoy 1f1b"))
for name in "${NAMES[@]}"; do
  [[ -s $out/$name ]] || continue
  awk -v n="$name" -v a="$(median $(cat "$out/$name"))" -v b="$base" -v m="$(median $(cat "$out/$name.memory"))" \
    'BEGIN { printf "| %s | %d | %.2fx | %s |\n", n, a, a / b, m }'
done
