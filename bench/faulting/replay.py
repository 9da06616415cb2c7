# SPDX-License-Identifier: Apache-2.0
"""The same run by script, without faults, must end with the same bytes."""
import functools
import hashlib
import pathlib
import shutil
import subprocess

LIMIT = 600  # seconds


@functools.cache
def is_there(daso: pathlib.Path) -> bool:
    done = subprocess.run([daso, "train", "--help"], capture_output=True, text=True, timeout=60)
    return "--replay" in done.stdout


def newest_checkpoint(out: pathlib.Path) -> pathlib.Path | None:
    return max((out / "checkpoints").glob("step_*"), default=None)


def digests(folder: pathlib.Path) -> dict[str, str]:
    """Of the tensors of a checkpoint; the manifest has times in it."""
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "manifest.json"}


def verdict(options, place, job, kept: pathlib.Path) -> dict:
    if not is_there(options.daso):
        return {"verdict": "not available"}
    if newest_checkpoint(job.out) is None:
        return {"verdict": "the run has left no checkpoint"}
    again = job.out.with_name("replayed")
    shutil.rmtree(again, ignore_errors=True)
    words = [options.daso, "train", "--replay", job.out, "--out", again]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"verdict": f"no end within {LIMIT} s", "equal": False}
    (kept / "replay.log").write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:] or [""]
        return {"verdict": f"exit code {done.returncode}: {last[0]}", "equal": False}
    before, after = (newest_checkpoint(out) for out in (job.out, again))
    if after is None or before.name != after.name:
        return {"verdict": f"ends with {after and after.name}, not {before.name}", "equal": False}
    first, second = digests(before), digests(after)
    differing = sorted(name for name in first.keys() | second.keys()
                       if first.get(name) != second.get(name))
    return {"verdict": f"differs in {', '.join(differing)}" if differing else "equal",
            "equal": not differing}
