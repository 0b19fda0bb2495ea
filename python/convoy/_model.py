"""A trained model that stays loaded in a process of the program and answers requests."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Any, Self

from convoy import _command, _errors


def _abandon(*streams: Any) -> None:
    """Lets go of pipes that a parent process has, too.

    A thread of the parent may have been using them during the fork: it has their locks, for which close() would wait for ever, also
    when they are freed. So their descriptors lead nowhere from now on, and the objects stay.
    """
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in streams:
        os.dup2(nowhere, stream.fileno(), inheritable=False)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
    os.close(nowhere)


class Model:
    """A run's output folder, a checkpoint, or a model folder, loaded once.

    Requests are answered by a process of the program that lives as long as this object: use it in a `with`, or call close(). All
    methods may be called from several threads; requests are answered one after the other.
    """

    def __init__(self, folder: str | os.PathLike[str], **options: Any) -> None:
        """options: of the command line, such as threads=1 or bf16=True."""
        self.folder = os.fspath(folder)
        self._options = _command.flags(options)
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[str] | None = None
        self._reason = ""  # the file where the worker leaves why it failed
        self._command = ""
        self._process = os.getpid()
        self._closed = False

    def recommend(
        self,
        items: Sequence[str | int] | None = None,
        *,
        user: str | int | None = None,
        top_k: int = 10,
        exclude_seen: bool | None = None,
        candidates: Sequence[str | int] | None = None,
        exclude: Sequence[str | int] | None = None,
        popular: bool = True,
        vector: bool = False,
        features: dict[str, Sequence[float]] | None = None,
        times: Sequence[int] | None = None,
        time: int | None = None,
    ) -> dict[str, Any]:
        """The next items after a session, oldest first, in the ids of the events.

        user: whose whole history exclude_seen leaves out, too; without items it is the session. exclude_seen: None is as the run was
        evaluated. candidates: items to choose among; exclude: items that are not recommended. popular: whether the most popular items are
        recommended where the session has none to go by. vector: whether the answer has the session's. times: when each item was, in
        seconds, for a model that reads times; time: when it is asked [the last item's].

        {"items": [{"item_id": "1196", "score": 0.8, "name": "a title, where there is one"}], "unknown": [ids never seen],
        "exclude_seen": False, "num_cut": oldest items that the model has no positions for, where there are such, "popular": True where the
        items are popular ones, whose scores are counts, "note": why there are no others}
        """
        if any(isinstance(ids, str) for ids in (items, candidates, exclude)):
            raise TypeError("items, candidates and exclude are lists of ids; got one text")
        request: dict[str, Any] = {"items": [] if items is None else list(items), "top_k": top_k}
        if user is not None:
            request["user"] = user
        elif items is None:
            raise TypeError("expected items or a user; got neither")
        if exclude_seen is not None:
            request["exclude_seen"] = exclude_seen
        if candidates is not None:
            request["candidates"] = list(candidates)
        if exclude is not None:
            request["exclude"] = list(exclude)
        if not popular:
            request["popular"] = False
        if vector:
            request["vector"] = True
        if times is not None:
            request["times"] = list(times)
        if time is not None:
            request["time"] = time
        if features:
            request["features"] = {name: list(values) for name, values in features.items()}
        return self._ask("predict", request)

    def predict(self, text: str, text_pair: str | None = None) -> dict[str, Any]:
        """What a classifier makes of a text, or of a pair of them.

        {"label": "positive", "score": 0.98, "scores": {"negative": 0.02, "positive": 0.98}}
        """
        request = {"text": text} if text_pair is None else {"text": text, "text_pair": text_pair}
        return self._ask("predict", request)

    def generate(self, prompt: str, *, max_new_tokens: int = 100, **options: Any) -> str:
        """Text that goes on from `prompt`. options: temperature, top_k, top_p, seed, as `convoy generate --help` has them."""
        request = {"prompt": prompt, "max_new_tokens": max_new_tokens, **options}
        return self._ask("generate", request)["text"]

    def close(self) -> None:
        """Ends the process. Nothing can be asked any more."""
        self._closed = True
        with self._lock:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_worker", None) is not None:
            self._end()

    def _ask(self, command: str, request: dict[str, Any]) -> dict[str, Any]:
        line = json.dumps(request, allow_nan=False) + "\n"
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock:
            if self._closed:
                raise ValueError("this model was closed")
            if self._command != command:
                self._end()
            if self._worker is None:
                self._start(command)
            try:
                answer = self._answer_to(line)
            except BaseException:  # a worker that was interrupted would give the next question this one's answer
                self._end(at_once=True)
                raise
        if "error" in answer:
            raise _errors.from_answer(answer)
        return answer

    def _start(self, command: str) -> None:
        """It ends with its standard input, and so with this process, whatever thread starts it."""
        handle, self._reason = tempfile.mkstemp(prefix="convoy-")
        os.close(handle)
        self._command = command
        self._worker = _command.start(
            [command, _command.place(self.folder), "--requests", *self._options],
            tied=False,
            environment={_command.ERROR_FILE: self._reason},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )

    def _answer_to(self, line: str) -> dict[str, Any]:
        worker = self._worker
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(line)
            worker.stdin.flush()
            answer = worker.stdout.readline()
        if not answer:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
            text = worker.stderr.read()
            raise _errors.from_end(self._reason, text, worker.wait())
        return json.loads(answer)

    def _leave_to_parent(self) -> None:
        """After a fork: the worker is the parent's, and answers it."""
        self._lock = threading.Lock()
        worker, self._worker = self._worker, None
        self._process, self._reason = os.getpid(), ""
        if worker is not None:
            _abandon(worker.stdin, worker.stdout, worker.stderr)
            worker.returncode = 0  # nothing of this process to wait for

    def _end(self, at_once: bool = False) -> None:
        if self._process != os.getpid():
            return self._leave_to_parent()
        worker, self._worker = self._worker, None
        if worker is None:
            return None
        if at_once:
            worker.kill()
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()
        worker.stdout.close()  # one that still writes an answer ends by that
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                worker.wait(timeout=2)
                break
            except subprocess.TimeoutExpired:
                worker.send_signal(number)
        worker.wait()
        worker.stderr.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._reason)
        return None
