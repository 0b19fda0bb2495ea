"""What a training will take, and how to split it, before it runs."""

import json
import os
from collections.abc import Mapping
from typing import Any

from convoy import _command


def _asked(command: str, config: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Any:
    given = [] if config is None else [_command.place(config)]
    return json.loads(_command.run(command, *given, "--json", *_command.flags(options)))


def estimate(config: str | os.PathLike[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    """What each way to train would take of memory: `convoy estimate --json`. config: a run's file, or a model's folder."""
    return _asked("estimate", config, options)


def plan(config: str | os.PathLike[str] | None = None, **options: Any) -> dict[str, Any]:
    """The fastest ways to split a training over ranks that fit: `convoy plan --json`. options: ranks, cluster, profile, verify."""
    return _asked("plan", config, options)
