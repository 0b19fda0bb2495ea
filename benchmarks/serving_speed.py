#!/usr/bin/env python3
"""Times requests to `convoy predict RUN --requests` through a pipe, of one or more builds side by side, round by round.

    benchmarks/serving_speed.py RUN BUILD/bin/convoy...

Requests have 20 items and ask for 10 with exclude_seen. Keys that a build does not know are left out of its rows.
"""
import json
import random
import statistics
import subprocess
import sys
import time

ITEMS = 20
ROUNDS = 3
LONE = 100  # requests of a round
BULK = 1000


class Server:
    def __init__(self, program, run):
        self.process = subprocess.Popen([program, "predict", run, "--requests"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1 << 16)

    def ask(self, line):
        self.process.stdin.write(line)
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def request(draw, names, **keys):
    return json.dumps({"items": draw.sample(names, ITEMS), "top_k": 10, "exclude_seen": True, **keys}) + "\n"


def median_ms(server, lines):
    """Median of the time to each line's answer; None where a request is refused."""
    times = []
    for line in lines:
        began = time.perf_counter()
        answer = server.ask(line)
        times.append(1e3 * (time.perf_counter() - began))
        if '"error"' in answer:
            return None
    return statistics.median(times)


def bulk_per_second(program, run, lines):
    """Requests a second where all lines are in the pipe; the start is measured apart."""
    def seconds(text):
        began = time.perf_counter()
        subprocess.run([program, "predict", run, "--requests"], input=text, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, text=True, check=True)
        return time.perf_counter() - began
    first = seconds(lines[0])
    return (len(lines) - 1) / (seconds("".join(lines)) - first)


def main():
    run, programs = sys.argv[1], sys.argv[2:]
    names = [f"item-{i}" for i in range(1, json_items(run) + 1)]
    draw = random.Random(1)
    kinds = {
        "all items": {},
        "100 candidates": {"candidates": draw.sample(names, 100)},
        "10 excluded": {"exclude": draw.sample(names, 10)},
        "no item known": {"items": ["?"]},
    }
    found = {(kind, program): [] for kind in [*kinds, "bulk"] for program in programs}
    for _ in range(ROUNDS):
        for program in programs:
            server = Server(program, run)
            median_ms(server, [request(draw, names) for _ in range(20)])
            for kind, keys in kinds.items():
                found[kind, program].append(median_ms(server, [request(draw, names, **keys) for _ in range(LONE)]))
            server.close()
            found["bulk", program].append(bulk_per_second(program, run, [request(draw, names) for _ in range(BULK)]))
    for kind in [*kinds, "bulk"]:
        cells = []
        for program in programs:
            known = [value for value in found[kind, program] if value is not None]
            unit = "a second" if kind == "bulk" else "ms"
            cells.append(f"{statistics.median(known):.3g} {unit}" if known else "refused")
        print(f"{kind:16}", " | ".join(f"{cell:>16}" for cell in cells))


def json_items(run):
    with open(f"{run}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    return next(f["cardinality"] for f in config["features"] if f["name"] == config["item_feature"]) - 1


if __name__ == "__main__":
    main()
