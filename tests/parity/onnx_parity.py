#!/usr/bin/env python3
"""Compares onnxruntime's scores of graphs that `convoy export onnx` writes with those of `convoy predict --requests`.

    PYTHON tests/parity/onnx_parity.py build/bin/convoy

Trains a small model of each body on synthetic sessions and compares all scores, at three lengths and batch sizes. Needs numpy, onnx,
onnxruntime and pyarrow.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
import pyarrow.parquet

BODIES = ("gpt2", "gpt2 --item_embedding_dim 8", "gpt2 --weight_tying false --temperature 0.5", "sasrec", "ligr", "bert", "bert --item_embedding_dim 8")
BATCHES = ((1, 1), (3, 7), (8, 19))  # rows, and items of the longest
NEAR = 1e-5


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *words: subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run("data", "synthetic", "--output", "syn", "--items", "100", "--rows", "400")
        for number, body in enumerate(BODIES):
            out = f"out{number}"
            run("train", "--data.path", "syn", "--d_model", "32", "--n_layer", "2", "--n_head", "2", "--max_steps", "30", "--learning_rate", "0.01",
                "--output_dir", out, "--threads", "1", "--exclude_seen", "false", "--model.body", *body.split())
            run("export", "onnx", out, "--output", f"{out}.onnx")
            onnx.checker.check_model(onnx.load(f"{folder}/{out}.onnx"), full_check=True)
            print(f"{body:45} largest difference {largest(program, folder, out):.2e}")


def largest(program, folder, out):
    graph = onnxruntime.InferenceSession(f"{folder}/{out}.onnx", providers=["CPUExecutionProvider"])
    names = pyarrow.parquet.read_table(f"{folder}/{out}/items.parquet")["raw_id"].to_pylist()
    draw, difference = random.Random(3), 0
    for rows, longest in BATCHES:
        sessions = [draw.choices(range(1, 101), k=longest if i == 0 else draw.randint(1, longest)) for i in range(rows)]
        ids = numpy.zeros((rows, longest), "int64")
        for row, session in enumerate(sessions):
            ids[row, :len(session)] = session
        scores = graph.run(["scores"], {"item_ids": ids})[0]
        lines = "".join(json.dumps({"items": [names[i - 1] for i in session], "top_k": 100}) + "\n" for session in sessions)
        answers = subprocess.run([program, "predict", out, "--requests"], cwd=folder, input=lines, capture_output=True, text=True, check=True)
        for row, line in enumerate(answers.stdout.splitlines()):
            told = {item["item_id"]: item["score"] for item in json.loads(line)["items"]}
            assert told, line
            for item, name in enumerate(names, 1):
                assert (name in told) == bool(numpy.isfinite(scores[row, item])), name
                if name in told:
                    difference = max(difference, abs(told[name] - float(scores[row, item])))
            assert scores[row, 0] == -numpy.inf
    if difference > NEAR:
        sys.exit(f"{out}: scores differ by {difference}; expected at most {NEAR}")
    return difference


if __name__ == "__main__":
    main()
