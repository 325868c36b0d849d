"""What goes into a support bundle, and what never does."""

import hashlib
import json
import tarfile
import time
from pathlib import Path

import pytest
from middlewatch_agent import bundle
from middlewatch_agent.config import AgentConfig
from middlewatch_agent.context import Command

from tests.agent.launcher.stage import StandInContext

TOKEN = "mwn_0123456789abcdef"


@pytest.fixture
def context(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    for folder in ("ranks", "logs"):
        (tmp_path / folder).mkdir()
    for rank in (0, 1):
        rank_of(tmp_path, "demo", 1, rank, log=f"step {rank}\nAuthorization: Bearer abcdef123456\n{TOKEN}\n")
    rank_of(tmp_path, "other", 4, 0, log="secret of another run")
    (tmp_path / "kmsg").write_text("6,1,5,-;NVRM: Xid 79")
    return StandInContext(tmp_path, AgentConfig(kmsg_path=str(tmp_path / "kmsg"), gpu="none"))


def rank_of(folder: Path, run: str, attempt: int, rank: int, *, log: str) -> Path:
    name = f"{run}.{attempt}.{rank}"
    path = folder / "logs" / f"{name}.log"
    path.write_text(log)
    told = {"run": run, "attempt": attempt, "rank": rank, "pid": 7, "log": str(path)}
    (folder / "ranks" / f"{name}.json").write_text(json.dumps(told))
    return path


def make(context, command_id: str = "c1", **args: object):
    return bundle.Bundler(context)(Command(command_id=command_id, kind="support.bundle", args=args))


def inside(outcome) -> dict[str, str]:
    with tarfile.open(outcome.data["file"]) as found:
        return {name: found.extractfile(name).read().decode() for name in found.getnames()}


def test_it_holds_what_a_person_looks_for_and_its_digest_is_right(context):
    outcome = make(context, run="demo", attempt=1)
    content, raw = inside(outcome), Path(outcome.data["file"]).read_bytes()
    assert {"doctor.txt", "spool.txt", "kernel.txt", "contents.txt"} < content.keys()
    assert {"ranks/demo.1.0.json", "logs/demo.1.1.log"} < content.keys()
    assert not any("other" in name for name in content)
    assert "hook socket" in content["doctor.txt"]
    assert "Xid 79" in content["kernel.txt"]
    assert outcome.data["sha256"] == hashlib.sha256(raw).hexdigest()
    assert outcome.data["bytes"] == len(raw)
    assert Path(outcome.data["file"]).stat().st_mode & 0o077 == 0


def test_no_token_and_no_password_is_ever_inside(context):
    text = "\n".join(inside(make(context)).values())
    assert TOKEN not in text
    assert "abcdef123456" not in text
    assert "step 0" in text


@pytest.mark.parametrize(
    "line",
    ["HF_TOKEN=hf_abcdefgh", 'password: "abcdefgh"', "postgres://me:abcdefgh@db/x", "aws_secret_access_key = abcdefgh"],
)
def test_what_looks_like_a_secret_is_blackened(line):
    assert b"abcdefgh" not in bundle.blackened(line.encode(), b"")


@pytest.mark.parametrize("hostile", [b"a", b"://", b"token ", b"authorization: ", b"bearer  "])
def test_a_long_line_of_a_stranger_does_not_hold_the_agent_up(hostile):
    line, began = hostile * (20_000 // len(hostile)), time.thread_time()
    assert b"abcdefgh" not in bundle.blackened(line + b" token=abcdefgh", b"")
    assert time.thread_time() - began < 1.0


def test_a_full_bundle_and_an_unreadable_file_are_named(context, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_BYTES", 3000)
    (context.state_dir / "logs" / "demo.1.0.log").write_text("x" * 5000)
    log = context.state_dir / "logs" / "demo.1.1.log"
    log.unlink()
    log.symlink_to(context.state_dir / "token")
    outcome = make(context, run="demo")
    assert any(line.startswith("logs/demo.1.0.log: the bundle is full") for line in outcome.data["left_out"])
    assert any(line.startswith("logs/demo.1.1.log:") for line in outcome.data["left_out"])
    assert "Left out:" in inside(outcome)["contents.txt"]


def test_the_newest_five_are_kept(context, monkeypatch):
    monkeypatch.setattr(bundle.Bundler, "_doctor", lambda _: b"")
    made = [Path(make(context, command_id=f"c{number}").data["file"]) for number in range(7)]
    assert len(list((context.state_dir / "bundles").iterdir())) == bundle.KEPT
    assert made[-1].exists()
