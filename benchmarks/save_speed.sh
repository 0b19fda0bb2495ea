#!/usr/bin/env bash
# Checkpoints of GPT-2 124M (weights and moments, 1.5 GB) on two ranks, one thread each: convoy's beside plain files of as many bytes,
# and beside PyTorch's torch.distributed.checkpoint under FSDP2, side by side.
#   benchmarks/save_speed.sh PYTHON [FOLDER] [ROUNDS]     PYTHON has torch and transformers; FOLDER is on the disk to measure
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/save_speed.sh PYTHON [FOLDER] [ROUNDS]} FOLDER=${2:-.} ROUNDS=${3:-3}
source benchmarks/common.sh
export GLOO_SOCKET_IFNAME=lo
out=$(mktemp -d)
place=$(mktemp -d "$FOLDER/save-speed-XXXXXX")
trap 'rm -rf "$out" "$place"' EXIT

for zero in 0 2; do
  $convoy bench save examples/gpt2_clm/bench.toml --threads 1 --nproc 2 --zero $zero --folder "$place" --rounds "$ROUNDS" \
    --json >"$out/convoy-$zero"
done
"$PYTHON" benchmarks/baselines/dcp_save.py "$place" --rounds "$ROUNDS" 2>"$out/errors" >"$out/dcp" || cat "$out/errors" >&2

row() { # TITLE FILE WRITE-SECONDS READ-SECONDS COPY-SECONDS, of as many bytes as the first file's
  awk -v n="$1" -v b="$(decimal bytes <"$2")" -v s="$(decimal save_seconds <"$2")" -v l="$(decimal load_seconds <"$2")" \
    -v h="$(decimal held_up_seconds <"$2")" -v r="$(decimal during_ratio <"$2")" -v w="$3" -v d="$4" -v c="$5" \
    'BEGIN { printf "| %s | %.2f s, %.0f MB/s | %.0f %% | %.2f s, %.0f MB/s | %.0f %% | %.0f ms | %.2fx | %.2fx |\n",
             n, s, b / s / 1e6, 100 * w / s, l, b / l / 1e6, 100 * d / l, h * 1e3, h / c, r }'
}
printf '| two ranks | save, synced | of plain writes | cold load | of plain reads | held up | of a copy | steps meanwhile |\n'
printf -- '|---|--:|--:|--:|--:|--:|--:|--:|\n'
for zero in 0 2; do
  file=$out/convoy-$zero
  row "convoy zero $zero" "$file" "$(decimal plain_write_seconds <"$file")" "$(decimal plain_read_seconds <"$file")" \
    "$(decimal copy_seconds <"$file")"
done
file=$out/convoy-2
[[ -s $out/dcp ]] && row "PyTorch dcp, FSDP2" "$out/dcp" "$(decimal plain_write_seconds <"$file")" \
  "$(decimal plain_read_seconds <"$file")" "$(decimal copy_seconds <"$file")"
