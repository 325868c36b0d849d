import asyncio

import pytest
from django.db import connections

from controlplane.ingest.board import Board
from controlplane.ingest.database import Database

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("uses", [None, 3])]


@pytest.fixture
def address(uses, monkeypatch):
    """An address whose pooler may know no prepared statements."""
    monkeypatch.setitem(connections["default"].settings_dict["OPTIONS"], "prepare_threshold", uses)


def test_the_pool_prepares_statements_as_the_address_says(address, uses):
    async def story():
        database = Database()
        await database.open()
        try:
            async with database.transaction() as connection:
                return connection.prepare_threshold
        finally:
            await database.close()

    assert asyncio.run(story()) == uses


def test_who_listens_for_commands_does_too(address, uses):
    class Once(Board):
        async def _look(self, connection):
            raise TimeoutError(connection.prepare_threshold)

    with pytest.raises(TimeoutError) as seen:
        asyncio.run(Once(lambda _: None, lambda: None)._listen())
    assert seen.value.args == (uses,)
