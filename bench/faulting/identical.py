# SPDX-License-Identifier: Apache-2.0
"""Short cuts and stops change nothing: a run in which they happened ends with the same bytes as one
without them."""
from faulting import campaign, replay, verdicts
from faulting.kinds import KINDS

HARMLESS = ("pause", "pause-node", "cut", "loss", "slow")  # nobody is lost, no connection ends


def kinds_of(options) -> list[str]:
    return [name for name in options.kinds if name in HARMLESS and KINDS[name].means == "nothing"]


def ends_of(options, place, disk, name: str, plan: list) -> tuple[dict, dict]:
    """What a run told, and the digests of its last checkpoint."""
    run = campaign.Run(options, place, disk, name)
    result = run.go(plan)
    newest = replay.newest_checkpoint(run.out)
    return result, replay.digests(newest) if newest else {}


def compare(options, place, disk, number: int) -> dict:
    """The two runs of a pair, one after the other."""
    _, quiet = ends_of(options, place, disk, f"-quiet{number}", [])
    plan = campaign.plan_of(options.seed, number, kinds_of(options), options.faults,
                            list(range(place.nodes)), place.ranks)
    result, disturbed = ends_of(options, place, disk, f"-disturbed{number}", plan)
    result["identical"] = bool(quiet) and quiet == disturbed and verdicts.good(result)
    return result
