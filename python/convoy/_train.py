"""Training, by the program, watched from here."""

import contextlib
import copy
import dataclasses
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from convoy import _command, _errors

_EVENTS_WAITING = 10_000


class Callback:
    """Watches a training. Override what you need; each gets one event, a dictionary."""

    def on_begin(self, event: dict[str, Any]) -> None:
        """Before the first step: output_dir, step (above 0 when resuming), max_steps, num_examples, num_parameters, total_batch."""

    def on_step(self, event: dict[str, Any]) -> None:
        """After a step: step, loss (None: it had no target), seconds, data_wait, comm_wait, samples."""

    def on_log(self, event: dict[str, Any]) -> None:
        """A log line: step, epoch, loss, grad_norm, learning_rate, samples_per_second, memory by kind."""

    def on_evaluate(self, event: dict[str, Any]) -> None:
        """An evaluation: step, metrics."""

    def on_save(self, event: dict[str, Any]) -> None:
        """A checkpoint is complete: folder."""

    def on_message(self, event: dict[str, Any]) -> None:
        """What the user should know: text."""

    def on_dropped(self, event: dict[str, Any]) -> None:
        """This callback was too slow to hear of so many events: lines."""

    def on_end(self, event: dict[str, Any]) -> None:
        """Training is over: metrics."""


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a training left."""

    output_dir: Path | None
    """None where nothing was to be kept."""
    metrics: dict[str, float]
    """Of training and of the last evaluation, by the names of all_results.json."""
    log: list[dict[str, Any]]
    """The lines of log.jsonl, without one that a host left in parts when it died."""


class _Events(threading.Thread):
    """Reads events from the pipe as they come, and hands them on through a queue of its own size. The last is None."""

    def __init__(self, pipe: int) -> None:
        super().__init__(daemon=True)
        self.queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.failed: Exception | None = None
        self._pipe = pipe
        self._writer_gone = threading.Event()

    def run(self) -> None:
        try:
            self._read()
        except Exception as error:  # else nobody would ever hear of an end
            self.failed = error
        finally:
            self.queue.put(None)

    def _read(self) -> None:
        rest, dropped = b"", 0
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while True:
            stopping = self._writer_gone.is_set()
            ready = poll.poll(0 if stopping else 100)
            part = b""
            if ready:
                with contextlib.suppress(BlockingIOError):
                    part = os.read(self._pipe, 1 << 16)
            if not part:
                if stopping:
                    break
                if ready:  # the writer has not come yet, or has gone
                    self._writer_gone.wait(0.02)
                continue
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if self.queue.qsize() >= _EVENTS_WAITING and event["event"] in ("step", "log", "message"):
                    dropped += 1
                    continue
                if dropped:
                    self.queue.put({"event": "dropped", "lines": dropped})
                    dropped = 0
                self.queue.put(event)

    def end(self) -> None:
        self._writer_gone.set()


def _notify(callbacks: Sequence[Callback | Callable[[dict[str, Any]], None]], event: dict[str, Any]) -> None:
    for callback in callbacks:
        own = copy.deepcopy(event)
        if isinstance(callback, Callback):
            getattr(callback, "on_" + event["event"], lambda _: None)(own)
        else:
            callback(own)


def _checked(callbacks: Iterable[Any]) -> list[Any]:
    out = list(callbacks)
    for callback in out:
        if isinstance(callback, type) or not (isinstance(callback, Callback) or callable(callback)):
            raise TypeError(f"callbacks holds {callback!r}; expected functions of one event, or objects of convoy.Callback")
    return out


def train(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    nproc: int = 1,
    callbacks: Sequence[Callback | Callable[[dict[str, Any]], None]] = (),
    verbose: bool = False,
    **options: Any,
) -> TrainingResult:
    """Trains, in processes of the program, and returns when the model is saved.

    config: a TOML file, or a mapping of options; options: more of them, by the names of the command line
    (`learning_rate=1e-3`, `output_dir="runs/a"`, `zero=2`). nproc: ranks on this host. A callback is a `Callback` or a function
    of one event. It runs in this thread; training does not wait for it. verbose: the program prints as it does on a terminal.

    Ctrl-C stops after the current step, saves (unless save_strategy is "no"), and raises KeyboardInterrupt; a second one stops at
    once. What a callback raises does the same. Raises an exception of `convoy` for what fails. When this process dies, so do the ranks.
    """
    callbacks, here = _checked(callbacks), Path.cwd()
    arguments = []
    if isinstance(config, Mapping):
        options = {**config, **options}
    elif config is not None:
        arguments.append(_command.place(config))
    if taken := {"events", "output.events", "nproc", "help", "print_config", "print-config"} & options.keys():
        raise TypeError(f"{sorted(taken)[0]} is no option of convoy.train")
    arguments += _command.flags(options)
    with tempfile.TemporaryDirectory(prefix="convoy-") as folder:
        pipe, logs = os.path.join(folder, "events"), os.path.join(folder, "logs")
        os.mkfifo(pipe, 0o600)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            begin, end = _run(arguments, nproc, callbacks, verbose, pipe, logs, reader)
        finally:
            os.close(reader)
    if not begin.get("output_dir"):
        return TrainingResult(None, end.get("metrics", {}), [])
    output_dir = here / begin["output_dir"]
    log = (output_dir / "log.jsonl").read_text(encoding="utf-8", errors="replace")
    results = output_dir / "all_results.json"
    return TrainingResult(
        output_dir,
        json.loads(results.read_text(encoding="utf-8")) if results.exists() else end.get("metrics", {}),
        list(_objects(log)),
    )


def _objects(log: str) -> Iterator[dict[str, Any]]:
    """What the lines hold that make sense: a host that died has left one in parts."""
    for line in log.split("\n"):  # and at no other character that ends a line somewhere
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _run(arguments, nproc, callbacks, verbose, pipe, logs, reader):
    quiet = [] if verbose else ["--quiet"]
    process = _command.start(
        ["launch", "-n", str(nproc), "--log-dir", logs, "train", *arguments, f"--events={pipe}", *quiet],
        stdin=subprocess.DEVNULL,
        stdout=None if verbose else subprocess.DEVNULL,
        stderr=None if verbose else subprocess.PIPE,
    )
    words: list[bytes] = []
    listeners = [_Events(reader)]
    if process.stderr is not None:
        listeners.append(threading.Thread(target=lambda: words.append(process.stderr.read()), daemon=True))
    for listener in listeners:
        listener.start()
    events = listeners[0]
    waiter = threading.Thread(target=lambda: (process.wait(), events.end()), daemon=True)
    waiter.start()
    raised, begin, end = None, {}, {}
    while True:
        try:
            event = events.queue.get()
            if event is None:
                break
            if event["event"] == "begin":
                begin = event
            if event["event"] == "end":
                end = event
            if raised is None:
                _notify(callbacks, event)
        except BaseException as error:  # Ctrl-C, or what a callback raised: save, and stop
            process.send_signal(signal.SIGINT)
            raised = raised or error
    waiter.join()
    for listener in listeners:
        listener.join()
    if process.stderr is not None:
        process.stderr.close()
    if raised is not None:
        raise raised
    if process.returncode != 0:
        report = _errors.read_report(logs)
        text = b"".join(words).decode(errors="replace")
        raise _errors.from_report(report) if report else _errors.from_text(text, process.returncode)
    if events.failed is not None:
        raise events.failed
    if words and words[0]:
        sys.stderr.write(words[0].decode(errors="replace"))  # warnings
    return begin, end
