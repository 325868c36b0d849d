"""Print a new bearer token for the REST API, or end one."""  # noqa: N999 - what people type

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.access import actions, queries
from controlplane.access.models import User
from controlplane.domain.errors import MiddlewatchError, NotFound


class Command(BaseCommand):
    help = "Print a new API token of a person, which is shown this once; or end those of a name with --revoke."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("person")
        parser.add_argument("name", help="what the token is for")
        parser.add_argument("--revoke", action="store_true", help="end every token of this name")

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            user, now = queries.person(options["person"]), datetime.now(UTC)
            told = _revoke if options["revoke"] else actions.make_api_token
            self.stdout.write(told(user, options["name"], now))
        except MiddlewatchError as error:
            raise CommandError(str(error)) from error


def _revoke(user: User, name: str, now: datetime) -> str:
    """End every token of this name; raises `NotFound`, naming those that there are."""
    tokens = list(queries.tokens_of(user))
    named = [token.pk for token in tokens if token.name == name]
    if not named:
        known = ", ".join(sorted({token.name for token in tokens})) or "none"
        raise NotFound(f"{user.username} has no token named {name}; there are: {known}")
    for number in named:
        actions.revoke_api_token(user, number, now)
    return f"ended {len(named)}"
