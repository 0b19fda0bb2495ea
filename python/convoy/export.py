"""Tells another experiment tracker what a run logged, from outside the run.

    python -m convoy.export runs/first --to mlflow            # into ./mlflow.db, or MLFLOW_TRACKING_URI
    python -m convoy.export runs/first --to wandb --follow    # while it trains; offline unless WANDB_MODE says otherwise

wandb or mlflow are installed by you. Nothing is sent anywhere unless their own settings say so.
"""

import argparse
import json
import math
import os
import re
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_PAUSE = 0.5  # seconds between looks at a log that grows


def lines(folder: Path, follow: bool) -> Iterator[dict[str, Any]]:
    """The objects of log.jsonl; with `follow` as they come, until the run has ended."""
    rest, number = "", 0
    with (folder / "log.jsonl").open(encoding="utf-8", errors="replace") as log:
        while True:
            ended = not follow or not _is_running(folder)
            part = log.read()
            *whole, rest = (rest + part).split("\n")
            for line in whole:
                number += 1
                try:
                    read = json.loads(line) if line.strip() else None
                except ValueError:
                    read = line
                if isinstance(read, dict):
                    yield read
                elif read is not None:
                    print(f"line {number} of {folder / 'log.jsonl'} makes no sense and is left out", file=sys.stderr)
            if not part and ended:
                return
            if not part:
                time.sleep(_PAUSE)


def _is_running(folder: Path) -> bool:
    """Whether a process holds the folder: the kernel takes its lock back, however it ends. Looks, and locks nothing."""
    try:
        lock = (folder / ".lock").stat().st_ino
        device = _device(folder)
        locks = Path("/proc/locks").read_text()
    except OSError:
        return False
    return re.search(rf"FLOCK .* {device}:{lock} ", locks) is not None


def _device(folder: Path) -> str:
    """As /proc/locks names it, a pattern: that of the mount, which is not always what stat() tells."""
    place, found, longest = folder.resolve(), "[0-9a-f]+:[0-9a-f]+", -1
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        _, _, numbers, _, mount, *_ = line.split(" ")
        mount = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), mount))
        if len(mount.parts) >= longest and (mount == place or mount in place.parents):
            major, minor = (int(number) for number in numbers.split(":"))
            found, longest = f"{major:02x}:{minor:02x}", len(mount.parts)
    return found


def metrics_of(line: dict[str, Any]) -> dict[str, float]:
    """By Hugging Face's names: train/loss, eval/accuracy; of the summary at the end run/train_loss."""
    out = {}
    for name, value in line.items():
        if name == "step" or not isinstance(value, (int, float)) or abs(value) > 1e300 or not math.isfinite(value):
            continue
        if "step" not in line:
            out[f"run/{name}"] = float(value)
        elif name.startswith("eval_"):
            out[f"eval/{name[5:]}"] = float(value)
        else:
            out[f"train/{name}"] = float(value)
    return out


def options_of(folder: Path) -> dict[str, Any]:
    """The run's options as "section.name"."""
    file = folder / "run.toml"
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except ValueError as error:
        sys.exit(f"{file} is no TOML: {error}")
    return {f"{section}.{name}": value for section, values in read.items() for name, value in values.items()}


def to_mlflow(folder: Path, follow: bool) -> None:
    import mlflow

    with mlflow.start_run(run_name=folder.name):
        options = list(options_of(folder).items())
        for at in range(0, len(options), 100):  # MLflow takes a hundred at once, of 6,000 letters each
            mlflow.log_params({name: str(value)[:6000] for name, value in options[at : at + 100]})
        _tell(folder, follow, lambda metrics, step: mlflow.log_metrics(metrics, step=step))


def to_wandb(folder: Path, follow: bool) -> None:
    os.environ.setdefault("WANDB_MODE", "offline")
    import wandb

    with wandb.init(project=os.environ.get("WANDB_PROJECT", "convoy"), name=folder.name, config=options_of(folder)) as run:
        run.define_metric("step")
        run.define_metric("*", step_metric="step")
        _tell(folder, follow, lambda metrics, step: run.log({**metrics, "step": step}))


def _tell(folder: Path, follow: bool, tell: Callable[[dict[str, float], int], None]) -> None:
    step = told = 0
    for line in lines(folder, follow):
        if "message" in line:
            continue
        step = line.get("step", step)
        if metrics := metrics_of(line):
            tell(metrics, step)
            told += 1
    print(f"{folder}: {told} lines told, up to step {step}")


# The whole mlflow asks for another pyarrow than the one that convoy is built with.
INSTALLED = {"wandb": "wandb", "mlflow": "mlflow-skinny sqlalchemy alembic"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m convoy.export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="output folder of a run, under way or not")
    parser.add_argument("--to", required=True, choices=["wandb", "mlflow"])
    parser.add_argument("--follow", action="store_true", help="go on until the run has ended")
    given = parser.parse_args()
    if not (given.run / "log.jsonl").exists():
        sys.exit(f"{given.run} is no output folder of a run: it has no log.jsonl")
    try:
        {"wandb": to_wandb, "mlflow": to_mlflow}[given.to](given.run, given.follow)
    except ModuleNotFoundError as error:
        if error.name != given.to:
            raise
        sys.exit(f"there is no {given.to} here; try pip install {INSTALLED[given.to]}")


if __name__ == "__main__":
    main()
