#!/usr/bin/env python3
"""Fetches the chat templates that tests/jinja compares with.

  fetch_chat_templates.py      -> data/chat_templates/{trl,llama_cpp}/*.jinja

Both come from the Python package index by pinned version and hash (77 MB together); nothing is
committed. Ends with 3 when the index cannot be reached. Needs a Python with pip.
"""
import pathlib

from fetch_data import ROOT, download, members

FOLDER = ROOT / "data" / "chat_templates"
# folder: (package, kind, sha256)
PACKAGES = {
    "trl": ("trl==1.16.0", "--only-binary=:all:",
            "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396"),
    "llama_cpp": ("llama-cpp-python==0.3.36", "--no-binary=:all:",
                  "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"),
}


def main():
    done = FOLDER / "complete"
    if done.exists() and done.read_text() == str(pathlib.Path(__file__).stat().st_size):
        return
    for name, package in PACKAGES.items():
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for member, read in members(download(*package)):
            if member.endswith(".jinja"):
                (folder / member.split("/")[-1]).write_bytes(read())
    done.write_text(str(pathlib.Path(__file__).stat().st_size))
    print("data/chat_templates/: templates for tests/jinja; licences are their packages'")


if __name__ == "__main__":
    main()
