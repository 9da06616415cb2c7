# SPDX-License-Identifier: Apache-2.0
"""podman: a container on each machine, of the image that the Containerfile describes.

No registry is needed: the base is made of this machine's shell and C library, and what the first
stage would compile is what was built here.
"""
import pathlib
import shutil
import subprocess
import tarfile

from launchers import PORT, Launcher, without
from machines import COUNT, ROOT
from training import RANKS_PER_NODE

BUILD_LIMIT = 300  # seconds


class Podman(Launcher):
    title = "podman"

    def missing(self):
        return without("podman", "crun")

    def up(self):
        folder = self.machines.folder / "podman"
        if not folder.exists():
            folder.mkdir()
            self.make_image(folder)

    def make_image(self, folder: pathlib.Path) -> None:
        self.import_base(folder)
        context = folder / "build"
        build = pathlib.Path(self.daso).parents[1]
        call(["cmake", "--install", build, "--prefix", context / "opt/daso"],
             path=f"{pathlib.Path(self.python).parent}:/usr/bin:/bin")
        call(["bash", "-euc", 'source "$0/tools/build.sh" && bundle "$1"', ROOT,
              context / "opt/daso"])
        call(self.podman(None, "build", "--isolation", "chroot", "--build-context",
                         f"build={context}", "--build-arg", "BASE=localhost/base", "-t", "daso",
                         "-f", ROOT / "Containerfile", ROOT))

    def import_base(self, folder: pathlib.Path) -> None:
        """/bin/sh, its libraries and those of the C library, at their own places."""
        libraries = pathlib.Path(shutil.which("sh")).resolve(), *c_library()
        with tarfile.open(folder / "base.tar", "w") as tar:
            for link in ("bin", "lib", "lib64"):
                entry = tarfile.TarInfo(link)
                entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{link}"
                tar.addfile(entry)
            for path in libraries:
                tar.add(path.resolve(), arcname=f"usr/{str(path).removeprefix('/usr/')}".replace(
                    "usr//", "usr/"))
            sh = tarfile.TarInfo("usr/bin/sh")
            sh.type, sh.linkname = tarfile.SYMTYPE, libraries[0].name
            tar.addfile(sh)
            tmp = tarfile.TarInfo("tmp")
            tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(tmp)
        call(self.podman(None, "import", folder / "base.tar", "localhost/base"))

    def podman(self, node: int | None, *words) -> list:
        """Each machine keeps its containers by itself, and takes images from a store for all."""
        folder = self.machines.folder / "podman"
        own = folder / ("images" if node is None else f"node{node}")
        shared = [] if node is None else ["--storage-opt", f"overlay.imagestore={folder}/images"]
        return ["podman", "--root", own, "--runroot", f"{own}-run", "--tmpdir", f"{own}-tmp",
                "--storage-driver", "overlay", *shared, "--cgroup-manager", "cgroupfs", *words]

    def start(self, training, words, log):
        home = self.machines.folder
        flags = ["--nodes", COUNT, "--ranks-per-node", RANKS_PER_NODE, "--job-token", "try",
                 "--rendezvous", f"{self.machines.hosts[0]}:{PORT}"]
        return [self.machines.start(node, self.podman(
            node, "run", "--rm", "--replace", "--name", "daso", "--network", "host", "--cgroups",
            "disabled", "--runtime", "crun", "--shm-size", "256m", "-v", f"{home}:{home}",
            "daso", *words, *flags, "--node-index", node), log) for node in range(COUNT)]

    def stop(self, started):
        done = self.machines.run(0, self.podman(0, "stop", "--time", "60", "daso"))
        assert done.returncode == 0, done.stderr


def c_library() -> list[pathlib.Path]:
    shown = subprocess.run(["ldd", shutil.which("bash")], text=True, capture_output=True,
                           check=True).stdout
    folder = next(pathlib.Path(line.split()[2]).parent for line in shown.splitlines()
                  if "libc.so" in line)
    names = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
             "libutil.so.1")
    loader = next(pathlib.Path(line.split()[0]) for line in shown.splitlines() if "ld-linux" in line)
    return [*(folder / name for name in names), loader]


def call(words: list, path: str | None = None) -> None:
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True,
                          timeout=BUILD_LIMIT, env=path and {"PATH": path})
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
