#!/usr/bin/env bash
# Time and memory of a training step of GPT-2 124M (4 x 128 random tokens per rank, AdamW, no dropout, no clipping) on two
# ranks, one thread each: stages of ZeRO beside convoy's own DistributedDataParallel and PyTorch's DDP, ZeroRedundancyOptimizer
# and FSDP2, and DeepSpeed's stages where it is installed. Runs alternate, medians are compared.
#   benchmarks/zero_speed.sh PYTHON [ROUNDS] [FLAG]     PYTHON has torch and transformers; FLAG is --bf16 or nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/zero_speed.sh PYTHON [ROUNDS] [FLAG]} ROUNDS=${2:-3} FLAG=${3:-}
source benchmarks/common.sh
export GLOO_SOCKET_IFNAME=lo
OURS=(0 1 2 3) THEIRS=(PyTorch-ddp PyTorch-zero1 PyTorch-fsdp2)
export DS_ACCELERATOR=cpu
! "$PYTHON" -c "import deepspeed" >/dev/null 2>&1 || THEIRS+=(DeepSpeed-1 DeepSpeed-2 DeepSpeed-3)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for ((round = 0; round < ROUNDS; ++round)); do
  for stage in "${OURS[@]}"; do
    bench_step "convoy-$stage" examples/gpt2_clm/bench.toml --threads 1 --steps 6 --warmup 2 --nproc 2 --zero "$stage" $FLAG
  done
  for baseline in "${THEIRS[@]}"; do
    case $baseline in
      PyTorch-*) command=(benchmarks/baselines/torch_causal.py "${baseline#*-}" 2) ;;
      DeepSpeed-*) command=(-m torch.distributed.run --nproc-per-node 2 benchmarks/baselines/deepspeed_causal.py "${baseline#*-}") ;;
    esac
    "$PYTHON" "${command[@]}" $FLAG 2>/dev/null >"$out/text" || continue
    sed -n 's/.*step=\([0-9]*\)ms.*/\1/p' "$out/text" >>"$out/$baseline"
    sed -n 's/.*rss=\([0-9.]*\)GB.*/\1/p' "$out/text" >>"$out/$baseline.memory"
  done
done

printf '| two ranks%s | ms/step | beside convoy ddp | peak GB per rank |\n|---|--:|--:|--:|\n' "${FLAG:+, ${FLAG#--}}"
base=$(median $(cat "$out/convoy-0"))
for name in "${OURS[@]/#/convoy-}" "${THEIRS[@]}"; do
  [[ -s $out/$name ]] || continue
  awk -v n="$name" -v a="$(median $(cat "$out/$name"))" -v b="$base" -v m="$(median $(cat "$out/$name.memory"))" \
    'BEGIN { sub("convoy-0", "convoy ddp", n); sub("convoy-", "convoy zero ", n); sub("-", " ", n)
             printf "| %s | %d | %.2fx | %s |\n", n, a, a / b, m }'
done
