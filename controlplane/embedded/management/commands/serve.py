"""The control plane alone, for real use on one machine: `make serve`."""

import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.domain.errors import MiddlewatchError
from controlplane.embedded.interrupts import interruptible
from controlplane.embedded.management.commands.welcome import ENROLMENT_USES
from controlplane.embedded.plane import ControlPlane
from controlplane.embedded.ports import LOOPBACK
from controlplane.settings.env import environment

MOST_PORT = 65535


class Command(BaseCommand):
    help = "Run the control plane on this machine: servers, pages, worker and beat."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=LOOPBACK, help="address to listen on (default: this machine alone)")
        parser.add_argument("--port", type=int, help="default: the port of the last start, or a free one")

    def handle(self, *_args: object, **options: Any) -> None:
        port = options["port"]
        if port is not None and not 0 < port <= MOST_PORT:
            raise CommandError(f"--port: {port} is not between 1 and {MOST_PORT}")
        try:
            with interruptible():
                self._serve(options["host"], port)
        except KeyboardInterrupt:
            self._print("Stopped.")
        except MiddlewatchError as error:
            raise CommandError(str(error)) from None

    def _serve(self, host: str, port: int | None) -> None:
        self._print("Middlewatch is starting…")
        with ControlPlane(environment().middlewatch_home, host=host, port=port, say=self._say) as plane:
            self._tell(plane, plane.welcome())
            try:
                while True:
                    signal.pause()
            except KeyboardInterrupt:
                self._print("\nStopping…")
                raise

    def _tell(self, plane: ControlPlane, told: dict[str, str]) -> None:
        rows, nobody = [("Pages", plane.public_url)], told.get("nobody")
        if "password" in told:
            rows += [
                ("Sign in", f"{told['name']} with the one-time password {told['password']} (shown this once)"),
                ("or open", f"{told['link']} (works once, for 15 minutes)"),
            ]
        rows += [
            ("Enrol a node", _enrol(plane.public_url, told["token"])),
            ("", f"(the token is good for {ENROLMENT_USES} nodes within an hour)"),
            *([("Paging", f"{nobody} Open {plane.public_url}/settings/notifications/")] if nobody else []),
            ("Data and logs", str(plane.home.path)),
            ("Stop", "Ctrl-C"),
        ]
        for title, text in rows:
            self._print(f"  {title:14} {text}")

    def _print(self, text: str) -> None:
        """Print at once, also into a pipe."""
        self.stdout.write(text)
        self.stdout.flush()

    def _say(self, sentence: str) -> None:
        self.stderr.write(sentence)


def _enrol(url: str, token: str) -> str:
    return (
        f"middlewatch-agent enrol --url {url} --token {token} --name NAME --state DIR "
        "&& middlewatch-agent run --state DIR"
    )
