#!/usr/bin/env bash
# A training step of GPT-2 124M (4 x 128 random tokens, AdamW) with AdamW's moments on a disk (1 GB, read and written once per step),
# beside the larger of the step without and what the disk itself needs for these bytes: read and written at once by dd, past the
# page cache where the folder allows that. One thread per rank; runs alternate, medians are compared.
#   benchmarks/offload_speed.sh FOLDER [ROUNDS] [RANKS]     FOLDER is on the disk to measure
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
FOLDER=${1:?usage: benchmarks/offload_speed.sh FOLDER [ROUNDS] [RANKS]} ROUNDS=${2:-3} RANKS=${3:-1}
source benchmarks/common.sh
out=$(mktemp -d)
place=$(mktemp -d "$FOLDER/offload-speed-XXXXXX")
trap 'rm -rf "$out" "$place"' EXIT

run=(examples/gpt2_clm/bench.toml --threads 1)
((RANKS > 1)) && run+=(--nproc "$RANKS" --zero 1)
offload=(--offload_optimizer disk --offload_dir "$place")

# What a step moves in each direction, of all ranks.
$convoy train "${run[@]}" "${offload[@]}" --max_steps 1 --save_strategy no --output_dir "$out/run" >/dev/null
bytes=$(($(field memory_offloaded_bytes_per_rank <"$out/run/train_results.json") * RANKS))
pieces=$((bytes >> 20))

flags() { # FLAG: direct where the folder allows that
  dd if=/dev/zero of="$place/try" bs=1M count=1 oflag=direct 2>/dev/null && echo "$1=direct" || true
}
milliseconds() { # COMMAND...
  local begin
  begin=$(date +%s%N)
  "$@"
  echo $(($(date +%s%N) - begin)) | awk '{ printf "%.0f\n", $1 / 1e6 }'
}
read_and_write() {
  # shellcheck disable=SC2046
  dd if="$place/old" of=/dev/null bs=1M $(flags iflag) 2>/dev/null &
  # shellcheck disable=SC2046
  dd if=/dev/zero of="$place/new" bs=1M count="$pieces" conv=fdatasync $(flags oflag) 2>/dev/null
  wait
}
dd if=/dev/zero of="$place/old" bs=1M count="$pieces" conv=fdatasync 2>/dev/null

step() { $convoy bench step "${run[@]}" --steps 6 --warmup 2 --json "$@" | field step_ms_median; }
for ((round = 0; round < ROUNDS; ++round)); do
  step >>"$out/memory"
  step "${offload[@]}" >>"$out/disk"
  milliseconds read_and_write >>"$out/plain"
done

printf '| %s | ms |\n|---|--:|\n' "$RANKS rank(s), $((bytes / 1000000)) MB each way per step"
row() { printf '| %s | %d |\n' "$1" "$2"; }
memory=$(median $(cat "$out/memory")) disk=$(median $(cat "$out/disk")) plain=$(median $(cat "$out/plain"))
row 'step, all in memory' "$memory"
row 'the disk alone' "$plain"
row "step, \`offload_optimizer = disk\`" "$disk"
awk -v a="$disk" -v m="$memory" -v p="$plain" \
  'BEGIN { printf "\n%.2f times the larger of the two (expected: at most 1.3)\n", a / (m > p ? m : p) }'
