# What the benchmark scripts share; sourced from the root of the repository.
export OMP_NUM_THREADS=1
convoy=${CONVOY:-build/bin/convoy}

median() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# A whole number from JSON on stdin.
field() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p"; }

# The same with what stands behind the point.
decimal() { sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p"; }

mean() { [[ $# == 0 ]] || printf '%s\n' "$@" | awk '{ sum += $1 } END { printf "%.4f", sum / NR }'; }

# The mean, and in brackets each.
mean_of_each() {
  [[ $# == 0 ]] || printf '%s\n' "$@" | awk '{ s += $1; each = each (NR > 1 ? ", " : "") sprintf("%.4f", $1) }
    END { printf "%.4f (%s)", s / NR, each }'
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2fx", a / b }'; }

# Times steps of a training; adds the milliseconds of one to $out/NAME, and a rank's peak in GB to $out/NAME.memory.
bench_step() { # NAME CONFIG OPTIONS...
  # Its caller says where $out is.
  # shellcheck disable=SC2154
  $convoy bench step "${@:2}" --json >"$out/json"
  field step_ms_median <"$out/json" >>"$out/$1"
  field peak_memory_bytes <"$out/json" | awk '{ printf "%.2f\n", $1 / 1e9 }' >>"$out/$1.memory"
}

milliseconds() { # COMMAND...
  local before=${EPOCHREALTIME//[^0-9]/}
  "$@" >/dev/null || return
  echo $(((${EPOCHREALTIME//[^0-9]/} - before) / 1000))
}

# Trains as COMMAND says, in processes that end where the first backward would begin.
first_forward() { # COMMAND...
  local code=0
  CONVOY_FAULT=exit@0:backward:1 "$@" || code=$?
  ((code == 9))
}

# Writes what is generated from: 8 lines, FOLDER/short, and one of nearly 1,000 tokens, FOLDER/long.
write_prompts() { # TEXT FOLDER
  grep -E '^[ -~]{30,60}$' "$1" | awk 'NR >= 100 && (NR - 100) % 97 == 0 && n++ < 8' >"$2/short"
  tr -s ' \n' '  ' <"$1" | cut -c 1-2400 | tr -cd ' -~' >"$2/long"
  echo >>"$2/long"
}

# Tokens a second, from what a generation says on stdin.
token_rate() { sed -n 's/.* \([0-9.]*\) tokens\/s.*/\1/p; s/^\([0-9.]*\) tokens\/s.*/\1/p'; }

# Makes data/SET/sessions unless it is there.
sessions() { # ml-100k or flights
  [[ -e data/$1/sessions/schema.json ]] && return 0
  ./dev data "$1" >/dev/null
  case $1 in
    ml-100k) $convoy data sessions data/ml-100k/ml-100k.inter --output data/ml-100k/sessions ;;
    flights)
      $convoy data sessions data/flights/flights.csv --output data/flights/sessions --user tailnum --item dest \
        --time time_hour,dep_time --features dep_delay:/60,distance:/1000
      ;;
  esac >/dev/null
}

# Makes data/NAME, 20,000 sessions of 20, unless it is there.
synthetic() { # NAME ITEMS
  [[ -e data/$1/schema.json ]] ||
    $convoy data synthetic --output "data/$1" --items "$2" --rows 20000 --min-length 20 >/dev/null
}
