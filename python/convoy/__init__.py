"""convoy trains transformers on one device or many. This package drives the program `convoy`, which it brings.

    import convoy

    result = convoy.train("run.toml", nproc=2, learning_rate=1e-3, callbacks=[print])
    with convoy.Model(result.output_dir) as model:
        model.recommend(["1196", "260"], top_k=5)
"""

from convoy._built_with import VERSION as __version__
from convoy._errors import (
    CommunicationError,
    ConvoyError,
    FileError,
    NumericError,
    OutOfMemoryError,
    RankDied,
    UsageError,
)
from convoy._model import Model
from convoy._plans import estimate, plan
from convoy._program import InstallationError
from convoy._train import Callback, TrainingResult, train

__all__ = [
    "Callback",
    "CommunicationError",
    "ConvoyError",
    "FileError",
    "InstallationError",
    "Model",
    "NumericError",
    "OutOfMemoryError",
    "RankDied",
    "TrainingResult",
    "UsageError",
    "__version__",
    "estimate",
    "plan",
    "train",
]
