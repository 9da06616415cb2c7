# SPDX-License-Identifier: Apache-2.0
"""A small disk of its own for a run's folder, so that it can be filled and made to hang without harm
to others. All nodes of a cluster that is made after it see it."""
import contextlib
import errno
import os
import pathlib
import subprocess

from faulting.system import run

BYTES = 256 << 20


class Disk:
    def __init__(self, folder: pathlib.Path):
        self.image = folder / "disk.img"
        self.path = folder / "disk"
        self.remove()  # of a campaign that was killed
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.image, "wb") as file:
            file.truncate(BYTES)
        run(["mkfs.ext4", "-q", "-F", self.image], "make a disk")
        run(["mount", "-o", "loop", self.image, self.path], "use a disk in a file")

    @contextlib.contextmanager
    def full(self):
        filling = self.path / "filling"
        try:
            with open(filling, "wb") as file:
                for size in (1 << 20, 1 << 12):
                    fill(file, size)
            yield
        finally:
            filling.unlink()

    @contextlib.contextmanager
    def hung(self):
        """What has been written stays readable; a write waits until the block ends."""
        try:
            run(["fsfreeze", "-f", self.path], "make the disk hang")
            yield
        finally:
            run(["fsfreeze", "-u", self.path], "let the disk go on")

    def remove(self) -> None:
        if os.path.ismount(self.path):
            subprocess.run(["fsfreeze", "-u", self.path], capture_output=True, timeout=60)
            run(["umount", self.path], "put the disk away")
        self.image.unlink(missing_ok=True)


def fill(file, size: int) -> None:
    """By pieces of this size, until none fits any more."""
    while True:
        try:
            os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
            file.seek(0, os.SEEK_END)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return
