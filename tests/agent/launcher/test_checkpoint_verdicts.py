"""Judging checkpoint folders, with the metadata of a real save and without torch."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from middlewatch_agent.dcp import metadata, verdict

REAL = (Path(__file__).parent / "fixtures/metadata_pickle.bin").read_bytes()
NEEDED = {"__0_0.distcp": 2_098_729, "__1_0.distcp": 2_102_828}


class Payload:
    """Would make a file when a pickle of it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.fixture
def saved(tmp_path):
    """Make the complete checkpoint of a step, and give its folder."""

    def make(step: int) -> Path:
        folder = tmp_path / f"step-{step}"
        folder.mkdir()
        for name, length in NEEDED.items():
            with (folder / name).open("wb") as file:
                file.truncate(length)
            os.utime(folder / name, ns=(10**18, 10**18))
        (folder / ".metadata").write_bytes(REAL)
        os.utime(folder / ".metadata", ns=(10**18 + 1, 10**18 + 1))
        return folder

    return make


def judge(folder: Path, **how: bool) -> verdict.Verdict:
    return verdict.judge(folder.parent, int(folder.name.removeprefix("step-")), **how)


def test_real_metadata_tells_how_long_each_shard_must_be():
    assert metadata.needed_bytes(REAL) == NEEDED


def test_a_checkpoint_with_its_marker_and_whole_shards_is_complete(saved):
    found = judge(saved(40))
    assert (found.state, found.step, found.files, found.expected_files) == ("complete", 40, 3, 3)
    assert found.bytes == sum(NEEDED.values()) + len(REAL)


def test_without_its_marker_it_is_torn(saved):
    folder = saved(40)
    (folder / ".metadata").unlink()
    assert judge(folder).state == "torn"
    assert "did not end" in judge(folder).why


def test_without_its_marker_it_may_still_be_written_while_an_attempt_lives(saved):
    folder = saved(40)
    (folder / ".metadata").unlink()
    assert judge(folder, live=True).state == "saving"


def test_a_missing_shard_is_named(saved):
    folder = saved(40)
    (folder / "__1_0.distcp").unlink()
    assert (judge(folder).state, judge(folder).why) == ("torn", "__1_0.distcp is missing")


def test_a_truncated_shard_is_named_with_its_lengths(saved):
    folder = saved(40)
    os.truncate(folder / "__1_0.distcp", 100)
    assert judge(folder).state == "torn"
    assert judge(folder).why == "__1_0.distcp has 100 of 2102828 bytes"


def test_a_marker_older_than_a_shard_is_stale(saved):
    folder = saved(40)
    os.utime(folder / "__0_0.distcp")
    assert judge(folder).state == "torn"
    assert "stale marker" in judge(folder).why


def test_a_planted_payload_is_refused_and_does_not_run(saved, tmp_path):
    folder, proof = saved(40), tmp_path / "ran"
    (folder / ".metadata").write_bytes(pickle.dumps(Payload(proof)))
    found = judge(folder)
    assert found.state == "torn"
    assert "names posix.system" in found.why
    assert not proof.exists()


@pytest.mark.parametrize("raw", [b"", b"\x80", REAL[:600], pickle.dumps([1, 2]), pickle.dumps(None), b"cos\nsystem\n."])
def test_metadata_that_is_none_is_refused(raw):
    with pytest.raises(metadata.UnreadableError):
        metadata.needed_bytes(raw)


@pytest.mark.parametrize("name", [b"../../../ab/", b"/etc/passwd1", b"............"])
def test_a_name_outside_the_folder_is_refused(name):
    assert len(name) == len(b"__0_0.distcp")
    hostile = REAL.replace(b"__0_0.distcp", name)
    if b"/" in name:
        with pytest.raises(metadata.UnreadableError, match="outside"):
            metadata.needed_bytes(hostile)
    else:
        assert metadata.needed_bytes(hostile)


def test_metadata_that_is_too_large_is_not_read(monkeypatch, saved):
    monkeypatch.setattr(metadata, "MAX_METADATA_BYTES", 100)
    with pytest.raises(metadata.UnreadableError, match="larger"):
        metadata.needed_bytes(REAL)
    assert "larger" in judge(saved(40)).why


def test_links_are_not_followed(saved, tmp_path):
    folder = saved(40)
    (folder / "__0_0.distcp").rename(tmp_path / "elsewhere")
    (folder / "__0_0.distcp").symlink_to(tmp_path / "elsewhere")
    assert judge(folder).why == "__0_0.distcp is missing"
    (tmp_path / "step-50").symlink_to(folder)
    assert verdict.steps(tmp_path) == [40]


def test_only_folders_of_that_exact_name_are_checkpoints(saved, tmp_path):
    saved(9)
    for name in ("x-step-9-copy", "step-", "step-9x", "step--1", "latest", "step-" + "9" * 40):
        (tmp_path / name).mkdir()
    (tmp_path / "step-77").write_text("no folder")
    assert verdict.steps(tmp_path) == [9]


def test_a_run_without_a_folder_has_no_checkpoints(tmp_path):
    assert verdict.scan(tmp_path / "none", 5) == []


def test_the_scan_runs_in_a_confined_process_and_tells_the_newest_first(cluster, saved, tmp_path):
    for step in (10, 20, 30):
        saved(step)
    (tmp_path / "step-30/.metadata").unlink()
    cluster.toml.write_text(cluster.toml.read_text().replace('"ck"', f'"{tmp_path}"'))
    cluster.open()
    outcome = cluster.command("checkpoints.scan", run="demo", newest=2)
    found = outcome.data["checkpoints"]
    assert [(one["step"], one["state"]) for one in found] == [(30, "torn"), (20, "complete")]
    assert set(found[0]) == {"step", "path", "state", "bytes", "files", "expected_files", "why"}
    assert cluster.command("checkpoints.scan", run="other", newest=2).state == "refused"
    assert cluster.command("checkpoints.scan", run="demo", newest=0).state == "refused"


def test_metadata_made_to_eat_memory_ends_the_scan_alone(tmp_path, saved):
    folder = saved(10)
    billion_zeros = b"\x80\x04" + b"cbuiltins\nbytearray\n" + b"J\x00\x00\x00\x40\x85R."
    (folder / ".metadata").write_bytes(billion_zeros)
    done = subprocess.run(
        [sys.executable, "-m", "middlewatch_agent.dcp.scan", str(tmp_path), "5"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)[0]["state"] == "torn"


def test_the_scan_needs_no_torch():
    look = "import middlewatch_agent.dcp.scan, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, check=True).stdout.strip() == b"False"
