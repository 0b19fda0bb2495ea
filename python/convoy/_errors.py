"""What ends a command, as exceptions."""

import json
import re
import signal
from pathlib import Path


class ConvoyError(RuntimeError):
    """A command of convoy failed. What is not known is None.

    `rank`, `host`, `step`, `operation`: who failed first, and in what; `exit_code`, or `signal` ("SIGKILL"); `report`: all that
    is known, as `convoy launch --log-dir` writes it to failure.json.
    """

    def __init__(self, message, report=None):
        super().__init__(message)
        self.report = report or {}
        first = {}
        for rank in self.report.get("ranks", []):
            if rank["rank"] == self.report["first_rank"]:
                first = rank
        self.rank = first.get("rank")
        self.host = first.get("host")
        self.step = first.get("step")
        self.operation = first.get("operation") or None
        self.exit_code = first.get("exit_code")
        self.signal = first.get("signal")


class UsageError(ConvoyError, ValueError):
    """An option, or what stands in a file, makes no sense."""


class FileError(ConvoyError, OSError):
    """A file is missing, broken, or cannot be written."""

    __str__ = RuntimeError.__str__


class CommunicationError(ConvoyError):
    """A rank lost the others."""


class NumericError(ConvoyError):
    """A loss or a gradient is not finite."""


class OutOfMemoryError(ConvoyError, MemoryError):
    """Memory was short, on a device or on the host."""


class RankDied(ConvoyError):
    """A rank was ended from outside or crashed: `signal` says by which signal."""


_KINDS = {kind.__name__: kind for kind in (UsageError, FileError, CommunicationError, NumericError)}
_KINDS["OutOfMemory"] = OutOfMemoryError


def from_answer(answer):
    """The exception for what a model answered in place of a result."""
    return _KINDS.get(answer.get("kind"), UsageError)(answer["error"])


def from_report(report):
    """The exception for a failure.json."""
    kind = ConvoyError
    message = report.get("reason") or "convoy failed"
    for rank in report.get("ranks", []):
        if rank["rank"] != report["first_rank"]:
            continue
        if rank.get("out_of_memory"):
            kind = OutOfMemoryError
        elif rank.get("kind") in _KINDS:
            kind = _KINDS[rank["kind"]]
        elif rank.get("signal"):
            kind = RankDied
        message = rank.get("error") or message
        if len(report["ranks"]) > 1 or rank.get("step"):
            message = f"rank {rank['rank']} of {len(report['ranks'])}: {message}"
            if rank.get("operation"):
                message += f", in `{rank['operation']}` of step {rank['step']}"
    return kind(message, report)


def from_end(file, text, exit_code):
    """The exception for a command without ranks, by what it left in a file, or else wrote to its standard error."""
    if exit_code < 0:
        error = RankDied(f"the process was ended by {signal.Signals(-exit_code).name}")
        error.signal = signal.Signals(-exit_code).name
        return error
    try:
        said = json.loads(Path(file).read_text(encoding="utf-8"))
        error = _KINDS.get(said["kind"], ConvoyError)(said["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return from_text(text, exit_code)
    error.exit_code = exit_code
    return error


def from_text(text, exit_code):
    """The exception for what a command wrote to its standard error."""
    lines = [line for line in text.splitlines() if line.strip()]
    message = next((line for line in lines if re.match(r"convoy: error", line)), lines[-1] if lines else "")
    message = re.sub(r"^convoy: error[^:]*: ", "", message) or f"convoy ended with exit code {exit_code}"
    error = (UsageError if exit_code == 2 else ConvoyError)(message)
    error.exit_code = exit_code
    return error


def read_report(folder):
    """failure.json of a folder of logs, or None."""
    try:
        return json.loads((Path(folder) / "failure.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
