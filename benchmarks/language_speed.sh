#!/usr/bin/env bash
# Time of a training step and peak memory of GPT-2 124M and of a Llama of that width (4 x 128 random tokens per rank, AdamW)
# beside Hugging Face and PyTorch, one thread per rank, and what the machine could do; runs alternate, medians are compared.
#   benchmarks/language_speed.sh PYTHON [ROUNDS] [ROW...]     PYTHON has torch and transformers; ROWs as in `rows` below
# A row's last part is the length of a block: gpt2:1:fp32:dropout:1024 shows what 4 x 1024 tokens with dropout take (a quarter of
# an hour a round, so it is not among those that run by themselves).
# "Tuned" is the same script as an expert would run it on a processor that is not Intel's: compiled, with the kernels that MKL
# takes on Intel's (baselines/mkl_any_cpu.c) and with jemalloc, which keeps freed pages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/language_speed.sh PYTHON [ROUNDS] [ROW...]} ROUNDS=${2:-3}
rows=(gpt2:1:fp32 gpt2:1:bf16 gpt2:1:fp32:dropout gpt2:1:bf16:dropout gpt2:2:fp32 gpt2:2:bf16 llama:1:fp32 llama:1:bf16)
(($# < 3)) || rows=("${@:3}")
source benchmarks/common.sh
export GLOO_SOCKET_IFNAME=lo
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
gcc -shared -fPIC -o "$out/mkl_any_cpu.so" benchmarks/baselines/mkl_any_cpu.c
tuned="$out/mkl_any_cpu.so $(ldconfig -p | sed -n 's/.*libjemalloc\.so\.2.*=> //p' | head -n 1)"

# Adds one run of the baseline to the lists NAME.ms and NAME.gb.
baseline() { # NAME ARGUMENTS...
  "$PYTHON" benchmarks/baselines/torch_causal.py "${@:2}" 2>/dev/null >"$out/text" || return 0
  sed -n 's/.*step=\([0-9]*\)ms.*/\1/p' "$out/text" >>"$out/$1.ms"
  sed -n 's/.*rss=\([0-9.]*\)GB.*/\1/p' "$out/text" >>"$out/$1.gb"
}

printf '| model | ranks | precision | convoy | HF | ratio | HF, tuned | ratio | convoy | HF | of it | tuned | of the peak | the floor |\n'
printf '|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n'
for row in "${rows[@]}"; do
  IFS=: read -r family ranks precision dropout block <<<"$row"
  config=examples/gpt2_clm/bench.toml positions=n_positions mode=single ours=() theirs=(--family "$family")
  [[ $family == gpt2 ]] || config=examples/llama_tiny/bench.toml positions=max_position_embeddings theirs+=(--vocab 32000)
  [[ $ranks == 1 ]] || mode=ddp
  [[ $precision == fp32 ]] || ours+=(--bf16) theirs+=(--bf16)
  [[ ! $dropout ]] || ours+=(--embd_pdrop 0.1 --attn_pdrop 0.1 --resid_pdrop 0.1) theirs+=(--dropout 0.1)
  [[ ! $block ]] || ours+=(--$positions "$block" --block_size "$block") theirs+=(--block "$block")
  rm -f "$out"/*.{ms,gb,peak,floor}
  for ((round = 0; round < ROUNDS; ++round)); do
    $convoy bench step $config --threads 1 --steps 6 --warmup 2 --nproc "$ranks" "${ours[@]}" --json >"$out/json"
    field step_ms_median <"$out/json" >>"$out/ours.ms"
    field peak_memory_bytes <"$out/json" | awk '{ printf "%.2f\n", $1 / 1e9 }' >>"$out/ours.gb"
    decimal peak_percent <"$out/json" >>"$out/ours.peak"
    decimal floor_times <"$out/json" >>"$out/ours.floor"
    baseline plain $mode "$ranks" "${theirs[@]}"
    LD_PRELOAD=$tuned MALLOC_CONF=background_thread:true,dirty_decay_ms:-1,muzzy_decay_ms:-1 \
      baseline tuned $mode "$ranks" "${theirs[@]}" --compile
  done
  of() { [[ ! -s $out/$1 ]] || median $(cat "$out/$1"); }
  awk -v f="$family" -v r="$ranks" -v p="$precision${dropout:+, dropout 0.1}${block:+, 4 x $block}" -v a="$(of ours.ms)" -v b="$(of plain.ms)" \
    -v c="$(of tuned.ms)" -v am="$(of ours.gb)" -v bm="$(of plain.gb)" -v cm="$(of tuned.gb)" -v peak="$(of ours.peak)" \
    -v floor="$(of ours.floor)" 'BEGIN {
      printf "| %s | %d | %s | %d ms | %s | %s | %s | %s | %s GB | %s | %s | %s | %.0f %% | %.2fx |\n", f, r, p, a,
        b ? b " ms" : "-", b ? sprintf("%.2fx", b / a) : "-", c ? c " ms" : "-", c ? sprintf("%.2fx", c / a) : "-", am,
        bm ? bm " GB" : "-", bm ? sprintf("%.2f", am / bm) : "-", cm ? cm " GB" : "-", peak, floor }'
done
