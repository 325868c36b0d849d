"""`middlewatch-agent run | enrol | doctor | spool`."""

import argparse
import logging
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from middlewatch_agent import __version__
from middlewatch_agent.config import AgentConfig, ConfigError, default_state_dir, load
from middlewatch_agent.files import private_folder

USAGE = 2
OVERRIDES = ("url", "node", "ca_file", "gpu", "kernel_log", "launcher", "heartbeat_s", "health_s")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit status: 0 well, 1 trouble, 2 wrong use or settings."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    options.state = options.state or default_state_dir()
    try:
        return int(options.act(options))
    except ConfigError as error:
        return _refuse(str(error))


def run(options: argparse.Namespace) -> int:
    """Run the agent until SIGTERM or SIGINT."""
    from middlewatch_agent.agent import Agent  # noqa: PLC0415 - the other commands need none of it
    from middlewatch_agent.lock import LockedError, lock  # noqa: PLC0415

    config = _load(options)
    if not config.url:
        return _refuse("url: missing; enrol this node first, or give --url")
    agents: list[Agent] = []
    _on_signals(lambda: agents[0].stop() if agents else sys.exit(0))
    try:
        private_folder(options.state)
        lock(options.state)
        agents.append(Agent(options.state, config))
        _attach(agents[0], config)
    except LockedError as error:
        return _refuse(str(error))
    except (OSError, ValueError, re.error) as error:
        return _refuse(f"cannot start in {options.state}: {error}")
    agents[0].run()
    return 0


def _on_signals(call: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: call())


def _attach(agent: Any, config: AgentConfig) -> None:
    from middlewatch_agent import bundle, checks, collect, freezing, stopping, switching  # noqa: PLC0415

    for part in (collect, stopping, freezing, switching, checks, bundle):
        part.attach(agent)
    if config.launcher:
        from middlewatch_agent.launcher import service  # noqa: PLC0415 - on head nodes only
        from middlewatch_agent.launcher.config import ConfigError as LauncherConfigError  # noqa: PLC0415

        try:
            service.attach(agent)
        except LauncherConfigError as error:
            raise ConfigError(str(error)) from error


def enrol(options: argparse.Namespace) -> int:
    """Buy a token for this node."""
    from middlewatch_agent.enrol import EnrolError, buy_token  # noqa: PLC0415

    try:
        buy_token(options.state, url=options.url, enrolment=options.token, node=options.name, ca_file=options.ca_file)
    except EnrolError as error:
        sys.stderr.write(f"middlewatch-agent: {error}\n")
        return 1
    sys.stdout.write(
        f"{options.name} is enrolled at {options.url}.\nNow run: middlewatch-agent run --state {options.state}\n"
    )
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Say in plain words what works and what does not."""
    from middlewatch_agent.doctor import examine  # noqa: PLC0415

    worst = 0
    for verdict in examine(options.state, _load(options)):
        sys.stdout.write(f"{verdict.mark}  {verdict.topic}: {verdict.text}\n")
        worst = max(worst, verdict.status)
    return worst


def spool(options: argparse.Namespace) -> int:
    """Show what waits."""
    from middlewatch_agent.spool.report import describe  # noqa: PLC0415

    sys.stdout.write(describe(options.state / "spool.db"))
    return 0


def _load(options: argparse.Namespace) -> AgentConfig:
    return load(options.state, {name: getattr(options, name, None) for name in OVERRIDES})


def _refuse(why: str) -> int:
    sys.stderr.write(f"middlewatch-agent: {why}\n")
    return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="middlewatch-agent", description="Node agent of Middlewatch")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command")
    _run_options(_command(commands, "run", run))
    buy = _command(commands, "enrol", enrol)
    buy.add_argument("--url", required=True, help="address of the control plane")
    buy.add_argument("--token", required=True, help="enrolment token")
    buy.add_argument("--name", required=True, help="name of this node")
    buy.add_argument("--ca-file", help="certificates to trust")
    _run_options(_command(commands, "doctor", doctor))
    _command(commands, "spool", spool)
    return parser


def _command(commands: Any, name: str, act: Any) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=act.__doc__, description=act.__doc__)
    command.set_defaults(act=act)
    command.add_argument("--state", type=Path, help="state folder (default: MIDDLEWATCH_STATE or the system's place)")
    command.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    return command


def _run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--url", help="address of the control plane")
    command.add_argument("--name", dest="node", help="name of this node")
    command.add_argument("--ca-file", help="certificates to trust")
    command.add_argument("--gpu", help="auto, none, nvml or recorded:<file>")
    command.add_argument("--kernel-log", choices=["auto", "kmsg", "journal", "none"])
    command.add_argument("--launcher", help="launcher.toml of a head node")
    command.add_argument("--heartbeat-s", type=float, help="seconds between heartbeats")
    command.add_argument("--health-s", type=float, help="seconds between health measurements")


if __name__ == "__main__":
    sys.exit(main())
