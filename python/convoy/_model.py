"""A trained model that stays loaded in a process of the program and answers requests."""

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, Self

from convoy import _command, _errors


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
        self._command = ""

    def recommend(
        self,
        items: Sequence[str | int],
        *,
        top_k: int = 10,
        exclude_seen: bool = False,
        candidates: Sequence[str | int] = (),
        features: dict[str, Sequence[float]] | None = None,
    ) -> dict[str, Any]:
        """The next items after a session, oldest first, in the ids of the events: {"items": [{"item", "name", "score"}], ...}."""
        request: dict[str, Any] = {"items": list(items), "top_k": top_k, "exclude_seen": exclude_seen}
        if candidates:
            request["candidates"] = list(candidates)
        if features:
            request["features"] = {name: list(values) for name, values in features.items()}
        return self._ask("predict", request)

    def generate(self, prompt: str, *, max_new_tokens: int = 100, **options: Any) -> str:
        """Text that goes on from `prompt`. options: temperature, top_k, top_p, seed, as `convoy generate --help` has them."""
        request = {"prompt": prompt, "max_new_tokens": max_new_tokens, **options}
        return self._ask("generate", request)["text"]

    def close(self) -> None:
        """Ends the process."""
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
        with self._lock:
            if self._command != command:
                self._end()
            if self._worker is None:
                self._worker = _command.start(
                    [command, self.folder, "--requests", *self._options],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                self._command = command
            worker = self._worker
            try:
                worker.stdin.write(json.dumps(request) + "\n")
                worker.stdin.flush()
                line = worker.stdout.readline()
            except BrokenPipeError:
                line = ""
            if not line:
                _, text = worker.communicate()
                self._worker = None
                raise self._error(text, worker.returncode)
        answer = json.loads(line)
        if "error" in answer:
            raise _errors.UsageError(answer["error"])
        return answer

    @staticmethod
    def _error(text: str, exit_code: int) -> _errors.ConvoyError:
        if exit_code < 0:
            return _errors.RankDied(f"the process that holds the model was ended by signal {-exit_code}")
        return _errors.from_text(text, exit_code)

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.stdin.close()
        worker.wait()
        worker.stdout.close()
        worker.stderr.close()
