# SPDX-License-Identifier: Apache-2.0
"""DASO: hierarchical, asynchronous data parallelism for PyTorch.

    import daso

    world = daso.init()
    run = daso.Run(model, optimizer, epochs=10, steps_per_epoch=len(loader))
    for epoch in run.epochs():
        for x, y in run.batches(loader):
            run.step(F.cross_entropy(model(x), y))

docs/python.md tells the rest.
"""

import torch as _torch  # loads LibTorch, which the module below is linked to

from daso._version import TORCH as _TORCH
from daso._version import __version__

if _torch.__version__.split("+")[0] != _TORCH:
    raise ImportError(
        f"daso {__version__} was built for PyTorch {_TORCH} and works with no other; "
        f"this is {_torch.__version__}: pip install torch=={_TORCH}"
    )

from daso._core import ConfigError, Error, PeerError
from daso.program import compare, schedule
from daso.run import Run, resume
from daso.sampler import Sampler
from daso.world import World, init

for _kind in (Error, ConfigError, PeerError):
    _kind.__module__ = "daso"  # as users know them

__all__ = [
    "ConfigError",
    "Error",
    "PeerError",
    "Run",
    "Sampler",
    "World",
    "__version__",
    "compare",
    "init",
    "resume",
    "schedule",
]
