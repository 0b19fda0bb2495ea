#!/usr/bin/env bash
# All tables of docs/performance.md and docs/quality.md side by side on one machine, as Markdown; about seven hours, in which nothing else
# should run on the machine.
#   benchmarks/side_by_side.sh PYTHON [ROUNDS] [PART...] > side_by_side.md     PYTHON has torch, transformers and accelerate
#   T4REC_PYTHON=... has transformers4rec, RECTOOLS_PYTHON=... rectools, RECBOLE_PYTHON=... recbole; a table that cannot be made is named at the end
#   PARTs as in `parts` below; all unless some are named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/side_by_side.sh PYTHON [ROUNDS] [PART...]}
export ROUNDS=${2:-3}
parts=(strategies sessions language guide families generate zero offload save transformers4rec collectives ranks threads start quality reviews
  bodies rectools rows recommender at_work pipeline tensor context packing)
(($# < 3)) || parts=("${@:3}")
source benchmarks/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()

# Prints a section when its command succeeds.
section() { # TITLE COMMAND...
  local title=$1 begin=$SECONDS shown
  shift
  shown=${*//$PYTHON/PYTHON}
  shown=${shown//${RECTOOLS_PYTHON:-none}/RECTOOLS_PYTHON}
  printf '%s ...\n' "$title" >&2
  if "$@" >"$work/table" 2>"$work/errors"; then
    printf '\n## %s\n\n`%s`, %s:\n\n' "$title" "${shown//${T4REC_PYTHON:-none}/T4REC_PYTHON}" "$(date +%F\ %R)"
    cat "$work/table"
  else
    failed+=("$title")
    tail -n 3 "$work/errors" >&2
  fi
  printf '%s: %d s\n' "$title" $((SECONDS - begin)) >&2
}

demo() {
  ./dev demo >"$work/demo" 2>&1 || { tail -n 5 "$work/demo" >&2 && return 1; }
  cat runs/demo/strategies.md
}

guide() {
  ./dev data text >/dev/null
  $convoy bench strategies examples/gpt2_clm/small.toml --strategies single,dp,ddp --ranks 2 --per-device --output runs/guide >/dev/null
  cat runs/guide/strategies.md
}

version() { "$PYTHON" -c "import $1; print($1.__version__)" 2>/dev/null || echo missing; }
printf '# Side by side\n\n%s; %s, %d cores, %d GiB; %s; %s.\n' "$(date +%F)" \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc --all)" \
  $(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) >> 20)) \
  "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "$($convoy --version)"
printf 'Baselines: torch %s, transformers %s. One thread per rank; medians of %d rounds in turns.\n' "$(version torch)" \
  "$(version transformers)" "$ROUNDS"
for part in "${parts[@]}"; do
  case $part in
    strategies) section 'Strategies on MovieLens-100K' demo ;;
    sessions) section 'Beside PyTorch and Hugging Face' benchmarks/session_speed.sh "$PYTHON" "$ROUNDS" ;;
    language) section 'Language models beside Hugging Face' benchmarks/language_speed.sh "$PYTHON" "$ROUNDS" ;;
    guide) section "The guide's experiment" guide ;;
    families) section 'BERT and T5 beside Hugging Face' benchmarks/families_speed.sh "$PYTHON" "$ROUNDS" ;;
    generate) section 'Text from GPT-2 124M' benchmarks/generate_speed.sh "$PYTHON" "$ROUNDS" ;;
    offload) section 'Moments on the disk' benchmarks/offload_speed.sh . "$ROUNDS" ;;
    save) section 'Checkpoints' benchmarks/save_speed.sh "$PYTHON" . "$ROUNDS" ;;
    zero) section 'ZeRO beside PyTorch' benchmarks/zero_speed.sh "$PYTHON" "$ROUNDS" ;;
    transformers4rec)
      section "Beside Transformers4Rec's own Trainer" benchmarks/transformers4rec_speed.sh \
        "${T4REC_PYTHON:-no-T4REC_PYTHON}" "$ROUNDS"
      ;;
    collectives) section 'Collectives' benchmarks/collectives.sh "$ROUNDS" ;;
    ranks) section 'DistributedDataParallel over shared memory' benchmarks/ranks_speed.sh "$ROUNDS" ;;
    threads) section 'Threads that spin' benchmarks/threads_speed.sh "$ROUNDS" ;;
    start) section 'Start and loader' benchmarks/start_speed.sh "$ROUNDS" ;;
    quality) section 'Quality' benchmarks/quality.sh ;;
    reviews) section "Film reviews beside Hugging Face's Trainer" benchmarks/reviews_quality.sh "$PYTHON" ;;
    bodies) section "Bodies beside Transformers4Rec's" benchmarks/t4rec_table.sh "${T4REC_PYTHON:-no-T4REC_PYTHON}" ;;
    rectools) section "Bodies beside RecTools'" benchmarks/rectools_table.sh "${RECTOOLS_PYTHON:-no-RECTOOLS_PYTHON}" ;;
    at_work)
      section "Recommenders with their own settings" benchmarks/recommenders_at_work.sh "${RECTOOLS_PYTHON:-no-RECTOOLS_PYTHON}" \
        "${RECBOLE_PYTHON:-no-RECBOLE_PYTHON}"
      ;;
    rows) section 'Millions of items' benchmarks/rows_speed.sh "$ROUNDS" ;;
    recommender) section 'A request to a Recommender' benchmarks/recommender_speed.sh ;;
    pipeline) section 'Pipelines' benchmarks/pipeline_speed.sh "$PYTHON" "$ROUNDS" ;;
    tensor) section 'Tensor parallelism' benchmarks/tensor_speed.sh "$ROUNDS" "" "$PYTHON" ;;
    context) section 'Context parallelism' benchmarks/context_speed.sh "$ROUNDS" ;;
    packing) section 'Packed conversations' benchmarks/packing_speed.sh "$ROUNDS" ;;
    *) failed+=("no such part: $part") ;;
  esac
done
((${#failed[@]} == 0)) || { printf '\nNot measured: %s.\n' "$(IFS=';' && echo "${failed[*]}")" && exit 1; }
