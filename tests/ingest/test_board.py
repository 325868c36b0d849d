import asyncio

import psycopg

from controlplane.ingest import board
from controlplane.ingest.board import Board


def test_listening_is_taken_up_again_after_any_failure_of_the_database(monkeypatch):
    monkeypatch.setattr(board, "RECONNECT_S", 0.0)
    failures = [psycopg.OperationalError("gone"), psycopg.errors.UndefinedTable("not migrated yet"), TimeoutError()]
    listening = asyncio.Event()

    class Flaky(Board):
        async def _listen(self):
            if failures:
                raise failures.pop()
            listening.set()
            await asyncio.Event().wait()

    async def story():
        subject = Flaky(lambda _: None, lambda: None)
        subject.start()
        await asyncio.wait_for(listening.wait(), 5)
        await subject.stop()

    asyncio.run(story())
    assert failures == []


def test_only_the_node_concerned_is_woken():
    async def story():
        subject = Board(lambda _: None, lambda: None)
        waits = {node: asyncio.ensure_future(subject.wait(node, 0.3)) for node in ("a", "b")}
        await asyncio.sleep(0)
        subject.post("a")
        done, _ = await asyncio.wait(waits.values(), return_when=asyncio.FIRST_COMPLETED)
        assert done == {waits["a"]}
        assert subject.take("a")
        assert not subject.take("a")
        await waits["b"]
        assert not subject.take("b")
        assert subject._pollers == {}

    asyncio.run(story())


def test_a_command_that_came_before_the_poll_is_not_waited_for():
    async def story():
        subject = Board(lambda _: None, lambda: None)
        subject.post("a")
        await asyncio.wait_for(subject.wait("a", 60), 1)

    asyncio.run(story())
