"""The control process is killed the hard way, after each operation and inside of them: the next run finishes the job."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.conftest import Node
from tests.rehearsal.deploying import GPU_NODE, fleet
from tests.rehearsal.interruption import Moment, Undisturbed, finish, killed, together

pytestmark = pytest.mark.rehearsal

Boots = Callable[..., AbstractContextManager[Node]]
ALL = os.environ.get("REHEARSAL_INTERRUPTION") == "all"
SEED = int(os.environ.get("REHEARSAL_SEED") or random.SystemRandom().randrange(1_000_000))
AT_ONCE = 5  # nodes that are killed beside each other


def interrupt(folder: Path, node: Node, moment: Moment) -> str | None:
    folder.mkdir(exist_ok=True)
    return killed(folder, fleet(folder / "fleet.yaml", node), GPU_NODE, moment)


def chain(folder: Path, node: Node, boundaries: int) -> int:
    """One node, killed at the first boundary, then at the second, and so on: how many were hit."""
    return sum(
        interrupt(folder, node, Moment(after=number)) is not None for number in range(1, boundaries + 1)
    )


def test_interruption_at_every_boundary_in_turn_and_inside(
    rehearsal: Boots, undisturbed: Undisturbed, tmp_path: Path, record_property: Any
) -> None:
    chance, count = random.Random(SEED), len(undisturbed.converge.steps)
    moments = [undisturbed.converge.somewhere(chance) for _ in range(3)]
    with rehearsal("chain", nodes=1 + len(moments)) as booted:
        nodes = [Node(booted.state, name) for name in booted.names]
        jobs = [
            partial(interrupt, tmp_path / node.name, node, m)
            for node, m in zip(nodes[1:], moments, strict=True)
        ]
        boundaries, *hit = together(partial(chain, tmp_path / "chain", nodes[0], count), *jobs)
        problems = finish(tmp_path / "finish", nodes, GPU_NODE, undisturbed.converge.looks)
    tell = (
        f"converge killed at {boundaries} of {count} boundaries one after the other and at {len(hit)} moments"
    )
    record_property(
        "interruption", f"{tell} ({', '.join(map(str, hit))}; seed {SEED}): finished by the next run"
    )
    assert boundaries == count
    assert not any(problems.values()), (SEED, moments, hit, problems)


@pytest.mark.skipif(not ALL, reason="takes 7 minutes: set REHEARSAL_INTERRUPTION=all")
@pytest.mark.timeout(2400)
def test_interruption_once_at_each_boundary_and_at_twenty_moments(
    rehearsal: Boots, undisturbed: Undisturbed, tmp_path: Path, record_property: Any
) -> None:
    """A bare node each: one kill, one run, and one more that changes nothing."""
    chance, count = random.Random(SEED), len(undisturbed.converge.steps)
    boundaries = [Moment(after=number) for number in range(1, count + 1)]
    survived, bad = {"boundaries": 0, "moments": 0}, []
    waiting, moments, tries = list(boundaries), 20, 0
    while waiting or survived["moments"] + len([one for one in bad if one[0].inside]) < moments:
        now, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
        missing = moments - survived["moments"] - len([one for one in bad if one[0].inside])
        now += [undisturbed.converge.somewhere(chance) for _ in range(min(AT_ONCE - len(now), missing))]
        tries += 1
        assert tries < 20, "kills come too late again and again"
        folder = tmp_path / str(tries)
        folder.mkdir()
        with rehearsal(f"all{tries}", nodes=len(now)) as booted:
            nodes = [Node(booted.state, name) for name in booted.names]
            pairs = list(zip(nodes, now, strict=True))
            hit = together(*(partial(interrupt, folder / node.name, node, moment) for node, moment in pairs))
            problems = finish(folder / "finish", nodes, GPU_NODE, undisturbed.converge.looks)
        for (node, moment), operation in zip(pairs, hit, strict=True):
            print(moment, operation, problems[node.name] or "finished by the next run", flush=True)
            if problems[node.name]:
                bad.append((moment, operation, problems[node.name]))
            elif operation is not None:  # else it was done before the kill came: another one is drawn
                survived["moments" if moment.inside else "boundaries"] += 1
    record_property(
        "interruption",
        f"converge killed once on a bare node: survived {survived['boundaries']} of {count} boundaries, "
        f"{survived['moments']} of {moments} moments (seed {SEED})",
    )
    assert not bad, (SEED, bad)
