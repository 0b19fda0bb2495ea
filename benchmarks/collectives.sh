#!/usr/bin/env bash
# Collectives of convoy's engines beside Open MPI's, two ranks in turns on the same machine; bf16 and four ranks after that.
#   benchmarks/collectives.sh [ROUNDS]     Open MPI's columns want mpicxx and mpirun (Debian: openmpi-bin libopenmpi-dev)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3}
source benchmarks/common.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mpi=$(command -v mpicxx) || true
[[ ! $mpi ]] || mpicxx -O2 -std=c++17 -o "$folder/mpi" benchmarks/baselines/mpi_collectives.cpp
[[ $(id -u) == 0 ]] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for ((round = 0; round < ROUNDS; ++round)); do
  $convoy bench collectives --engines shm,gloo --output "$folder/$round" >/dev/null 2>&1
  python3 - "$folder/$round/collectives.json" >>"$folder/ours" <<'END'
import json, sys
for row in json.load(open(sys.argv[1])):
    print(row["engine"], row["collective"], row["bytes"], row["microseconds"])
END
  [[ ! $mpi ]] || mpirun -n 2 "$folder/mpi" | sed 's/^/mpi /' >>"$folder/ours"
done
$convoy bench collectives --engines shm --collectives all_reduce --dtypes bf16 --output "$folder/bf16" >/dev/null 2>&1
$convoy bench collectives --engines shm --collectives all_reduce --ranks 4 --output "$folder/four" >/dev/null 2>&1
python3 - "$folder" <<'END'
import collections, json, statistics, sys
times = collections.defaultdict(list)
for line in open(sys.argv[1] + "/ours"):
    engine, collective, size, microseconds = line.split()
    times[engine, collective, int(size)].append(float(microseconds))
best = {key: statistics.median(values) for key, values in times.items()}
def show(value):
    return "-" if value is None else f"{value:.1f} us" if value < 1000 else f"{value / 1000:.2f} ms"
print("| collective | size | shm | Gloo | Open MPI | x Gloo | x Open MPI |\n|---|--:|--:|--:|--:|--:|--:|")
for engine, collective, size in sorted(best):
    if engine != "shm":
        continue
    ours = best[engine, collective, size]
    gloo, mpi = best.get(("gloo", collective, size)), best.get(("mpi", collective, size))
    ratios = [f"{other / ours:.1f}" if other else "-" for other in (gloo, mpi)]
    print(f"| {collective} | {size >> 10} KiB | {show(ours)} | {show(gloo)} | {show(mpi)} | {ratios[0]} | {ratios[1]} |")
copy, large = best["memcpy", "copy", 64 << 20], best["shm", "all_reduce", 64 << 20]
print(f"\none rank alone copies 64 MiB in {copy / 1000:.2f} ms; all_reduce takes {large / copy:.2f} times that")
for name, title in (("bf16", "bf16, 2 ranks"), ("four", "fp32, 4 ranks")):
    for row in json.load(open(f"{sys.argv[1]}/{name}/collectives.json")):
        if row["collective"] == "all_reduce":
            ratio = row["microseconds"] / best["shm", "all_reduce", row["bytes"]]
            print(f"{title}, {row['bytes'] >> 10} KiB: {show(row['microseconds'])}, {ratio:.2f} times fp32 with 2 ranks")
END
