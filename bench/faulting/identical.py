# SPDX-License-Identifier: Apache-2.0
"""Short cuts and stops change nothing: a run in which they happened ends with the same bytes as one
without them."""
from faulting import campaign, replay, verdicts
from faulting.kinds import KINDS

HARMLESS = ("pause", "pause-node", "cut", "loss", "slow")  # nobody is lost, no connection ends


def kinds_of(options) -> list[str]:
    return [name for name in options.kinds if name in HARMLESS and KINDS[name].means == "nothing"]


def digests_after(run) -> dict[str, str]:
    newest = replay.newest_checkpoint(run.out)
    return replay.digests(newest) if newest else {}


def quiet(options, place, disk) -> dict[str, str]:
    """Of what the run without short cuts and stops ends with; it is the same for all."""
    run = campaign.Run(options, place, disk, "-quiet")
    run.go([])
    return digests_after(run)


def disturbed(options, place, disk, number: int, expected: dict[str, str]) -> dict:
    plan = campaign.plan_of(options.seed, number, kinds_of(options), options.faults,
                            list(range(place.nodes)), place.ranks)
    run = campaign.Run(options, place, disk, f"-disturbed{number}")
    result = run.go(plan, stops=False)
    found = digests_after(run)
    result["identical"] = bool(expected) and found == expected and verdicts.good(result)
    return result
