#!/usr/bin/env bash
# Recommenders with their own settings, on the same events: NDCG@10 of the last event of each user, the seconds of the training, and its peak
# memory. All train on every event of a user but the last two, one thread, and recommend before the last one. MovieLens: among films that the
# user has not rated; flights: among all airports, and ("new") of those planes alone that have not been there. Runs alternate.
#   benchmarks/recommenders_at_work.sh RECTOOLS_PYTHON RECBOLE_PYTHON [DATA...]     DATA: ml-100k, flights; default both
#   SEEDS="42 43"  ROWS="convoy-sasrec convoy-bert rectools-sasrec rectools-bert recbole-SASRec recbole-GRU4Rec"
#   ML_EPOCHS=30  FLIGHTS_EPOCHS=4  RECBOLE_EPOCHS= (as the others)
# Virtual environments, each with torch:
#   rectools==0.19.0 pytorch-lightning==2.6.6 "numpy<2" "pandas<3"
#   recbole==1.2.1 (--no-deps) "numpy<2" "scipy<1.12" "pandas<3" colorlog tensorboard thop tabulate plotly texttable scikit-learn pyyaml tqdm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage="usage: benchmarks/recommenders_at_work.sh RECTOOLS_PYTHON RECBOLE_PYTHON [DATA...]"
RECTOOLS=${1:?$usage} RECBOLE=${2:?$usage}
shift 2
source benchmarks/common.sh
seeds=${SEEDS:-42 43}
rows=${ROWS:-convoy-sasrec convoy-bert rectools-sasrec rectools-bert recbole-SASRec recbole-GRU4Rec}
work=runs/recommenders_at_work
mkdir -p "$work" && : >"$work/none.toml"

# Writes user,item,at, by user and time, of users with five events or more.
events() { # ml-100k or flights
  [[ -e data/$1 ]] || ./dev data "$1" >/dev/null
  case $1 in
    ml-100k) tail -n +2 data/ml-100k/ml-100k.inter | sort -s -t$'\t' -k1,1 -k4,4n | cut -f 1,2 ;;
    flights)
      awk -F, 'NR > 1 && $4 != "NA" && $12 != "NA" { print $12 "\t" $19 "\t" $4 "\t" $14 }' data/flights/flights.csv |
        sort -s -t$'\t' -k1,1 -k2,2 -k3,3n | cut -f 1,4
      ;;
  esac | awk -F'\t' '{ count[$1]++; user[NR] = $1; item[NR] = $2 }
    END { print "user,item,at"; for (i = 1; i <= NR; i++) if (count[user[i]] >= 5) print user[i] "," item[i] "," i }'
}

# Requests for a list before the last event of each user.
requests() { # EVENTS
  awk -F, 'function ask() { if (user != "") print "{\"id\": \"" user "\", \"top_k\": 10, \"items\": [" had "]}" }
    NR > 1 { if ($1 != user) { ask(); user = $1; had = ""; last = "" }
      if (last != "") had = had (had == "" ? "" : ", ") last
      last = "\"" $2 "\"" }
    END { ask() }' "$1"
}

# Trains, writes lists to $out.csv or $out.jsonl, and says "SECONDS PEAK_MIB".
train() { # ROW SEED
  local -a seen=()
  [[ $data == ml-100k ]] || seen=(--seen)
  case $1 in
    convoy-*)
      local before=${EPOCHREALTIME//[^0-9]/}
      # GNU time tells the peak of the largest process.
      env time -f %M -o "$out.peak" $convoy train "$work/none.toml" --data.path "$work/$data" --data.features item_id-list --body "${1#*-}" \
        --d_model 64 --n_layer 2 --n_head 4 --dropout 0.2 --max_length 100 --learning_rate 3e-3 --per_device_train_batch_size 64 \
        --exclude_seen "$([[ $data == ml-100k ]] && echo true || echo false)" --num_train_epochs "$epochs" --eval_strategy no \
        --save_strategy no --seed "$2" --output_dir "$out" --overwrite_output_dir --strategy single --quiet || return 1
      awk -v us=$((${EPOCHREALTIME//[^0-9]/} - before)) '{ printf "%.1f %.0f\n", us / 1e6, $1 / 1024 }' "$out.peak"
      $convoy predict "$out" --requests <"$work/$data.requests" >"$out.jsonl" 2>/dev/null
      ;;
    rectools-*) "$RECTOOLS" benchmarks/baselines/rectools_lists.py "$log" "$out.csv" --body "${1#*-}" --epochs "$epochs" --seed "$2" \
      ${seen[@]+"${seen[@]}"} 2>"$out.errors" | tail -n 1 ;;
    recbole-*) "$RECBOLE" benchmarks/baselines/recbole_lists.py "$log" "$out.csv" --body "${1#*-}" --epochs "${RECBOLE_EPOCHS:-$epochs}" \
      --seed "$2" ${seen[@]+"${seen[@]}"} 2>"$out.errors" | tail -n 1 ;;
  esac
}

printf '| data | row | epochs | NDCG@10 | each | recall@10 | of new | seconds | memory, MiB |\n|---|---|--:|--:|---|--:|--:|--:|--:|\n'
for set in "${@:-ml-100k flights}"; do for data in $set; do
  log=$work/$data.csv epochs=${ML_EPOCHS:-30}
  [[ $data == ml-100k ]] || epochs=${FLIGHTS_EPOCHS:-4}
  events "$data" >"$log"
  requests "$log" >"$work/$data.requests"
  $convoy data sessions "$log" --output "$work/$data" --user user --item item --time at --validation leave-last-two --max-length 100 >/dev/null
  for seed in $seeds; do for row in $rows; do
    out=$work/$data-$row-$seed
    printf '%s %s seed %s ... ' "$data" "$row" "$seed" >&2
    if ! train "$row" "$seed" >"$out.cost" || [[ ! -s $out.cost ]]; then
      printf 'did not start: %s\n' "$(tail -n 1 "$out.errors" 2>/dev/null)" >&2
      : >"$out.cost"
      continue
    fi
    lists=$out.csv
    [[ $row == convoy-* ]] && lists=$out.jsonl
    python3 benchmarks/baselines/lists_ndcg.py "$log" "$lists" >"$out.ndcg"
    python3 benchmarks/baselines/lists_ndcg.py "$log" "$lists" --new >"$out.new"
    printf '%s s, NDCG@10 %s\n' "$(cut -d' ' -f1 "$out.cost")" "$(cut -d' ' -f1 "$out.ndcg")" >&2
  done; done
  for row in $rows; do
    files=() news=() costs=()
    for seed in $seeds; do
      [[ -s $work/$data-$row-$seed.cost ]] || continue
      files+=("$work/$data-$row-$seed.ndcg") news+=("$work/$data-$row-$seed.new") costs+=("$work/$data-$row-$seed.cost")
    done
    ((${#files[@]})) || { printf '| %s | %s | | does not start | | | | | |\n' "$data" "$row" && continue; }
    own=$epochs
    [[ $row == recbole-* ]] && own=${RECBOLE_EPOCHS:-$epochs}
    printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$data" "$row" "$own" \
      "$(mean $(cut -d' ' -f1 "${files[@]}"))" "$(cut -d' ' -f1 "${files[@]}" | paste -sd' ') (+- $(cut -d' ' -f3 "${files[0]}"))" \
      "$(mean $(cut -d' ' -f2 "${files[@]}"))" "$(mean $(cut -d' ' -f1 "${news[@]}"))" \
      "$(cut -d' ' -f1 "${costs[@]}" | sort -n | head -n 1)" "$(cut -d' ' -f2 "${costs[@]}" | sort -n | tail -n 1)"
  done
done; done
