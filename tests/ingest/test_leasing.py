"""Polls that are served together: who left meanwhile takes nothing from who came after."""

import asyncio

from controlplane.ingest.leasing import Handed, Leases


class Asked:
    """Notes which lives were asked for, and gives each what its incarnation says."""

    def __init__(self):
        self.lives = []

    async def django(self, call):
        (lives,) = call.args
        self.lives.append(list(lives))
        return [Handed(commands=[incarnation]) for _, incarnation in lives]


def test_a_poll_that_was_given_up_before_its_turn_gets_nothing_of_what_the_next_one_waits_for():
    asked = Asked()

    async def polls():
        leases = Leases(asked)
        gone = asyncio.ensure_future(leases.take("n01", "old"))
        await asyncio.sleep(0)
        gone.cancel()
        return await leases.take("n01", "new")

    handed = asyncio.run(polls())
    assert handed.commands == ["new"]
    assert asked.lives == [[("n01", "new")]]
