"""The parts of ingest, started and stopped together; one set per event loop."""

from controlplane.ingest.aftermath import Aftermath
from controlplane.ingest.auth import Tokens
from controlplane.ingest.board import Board
from controlplane.ingest.database import Database
from controlplane.ingest.leasing import Leases
from controlplane.ingest.lives import Lives
from controlplane.ingest.rate import RateLimit
from controlplane.ingest.writer import Writer


class Service:
    """Everything that a request may need."""

    def __init__(self) -> None:
        """Put the parts together."""
        self.database = Database()
        self.tokens = Tokens(self.database)
        self.board = Board(self.tokens.forget_node, self.tokens.forget_all)
        self.aftermath = Aftermath()
        self.writer = Writer(self.database, self.aftermath.committed)
        self.rate = RateLimit()
        self.leases = Leases(self.database)
        self.lives = Lives()
        self.strangers = RateLimit(rate_per_s=20.0, burst=200.0)
        """Requests of those who have no token yet, all together."""

    async def start(self) -> None:
        """Start the background tasks; PostgreSQL and Redis may come later."""
        await self.database.open()
        self.writer.start()
        self.board.start()
        self.aftermath.start()

    async def stop(self) -> None:
        """Stop in the reverse order."""
        await self.aftermath.stop()
        await self.board.stop()
        await self.writer.stop()
        await self.database.close()
