"""The saboteur and the stuck folder do what the demonstration says they do, and nothing else."""

import importlib.util
import json
import os
import threading

import pytest

from controlplane.demo import stuck
from controlplane.demo.cluster import REQUEST, SABOTAGE, Cluster, RankProcess
from controlplane.demo.faults import FAULTS, block_storage, free_storage, parse
from controlplane.domain.errors import Invalid

spec = importlib.util.spec_from_file_location("sabotage", SABOTAGE)
sabotage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sabotage)
Saboteur = sabotage.Saboteur


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(home=tmp_path, names=("n01",))
    made.faults.mkdir()
    (made.checkpoints / "demo" / "step-30").mkdir(parents=True)
    return made


def victim(attempt=3, rank=1):
    return RankProcess(node="n01", rank=rank, attempt=attempt, pid=1)


def test_without_a_request_nothing_is_done_wrong(tmp_path):
    rank = Saboteur(tmp_path, attempt=3, rank=1)
    rank.after_step()
    rank.linger()
    assert rank.spoil(2.5) == 2.5


def test_a_spoilt_loss_is_no_number_in_the_attempt_that_was_named_and_in_no_other(cluster):
    FAULTS["nan"].hurt(cluster, victim(attempt=3))
    assert Saboteur(cluster.faults, attempt=3, rank=0).spoil(2.5) != 2.5
    assert Saboteur(cluster.faults, attempt=4, rank=0).spoil(2.5) == 2.5


def test_only_the_named_rank_becomes_slow(cluster, monkeypatch):
    FAULTS["slow"].hurt(cluster, victim(rank=1))
    slept = []
    monkeypatch.setattr(sabotage.time, "sleep", slept.append)
    for rank in (0, 1):
        Saboteur(cluster.faults, attempt=3, rank=rank).after_step()
    assert slept == [0.05]


def test_a_later_request_takes_the_place_of_an_earlier_one(cluster):
    rank = Saboteur(cluster.faults, attempt=3, rank=0)
    FAULTS["nan"].hurt(cluster, victim())
    assert rank.spoil(1.0) != 1.0
    os.utime(cluster.faults / REQUEST, (1, 1))
    FAULTS["slow"].hurt(cluster, victim())
    assert json.loads((cluster.faults / REQUEST).read_text())["kind"] == "slow"
    assert rank.spoil(1.0) == 1.0


def test_whoever_writes_into_a_blocked_folder_waits_until_it_is_free(cluster, monkeypatch):
    monkeypatch.setattr(Cluster, "ranks", lambda _: [victim()] * 2)
    block_storage(cluster, victim())
    shard = cluster.checkpoints / "demo" / "step-45" / "__1_0.distcp"
    done = threading.Event()

    def save():
        with shard.open("wb") as file:
            file.write(b"x" * 100_000)
        done.set()

    writer = threading.Thread(target=save, daemon=True)
    writer.start()
    assert not done.wait(0.3)
    free_storage(cluster)
    assert done.wait(10)
    assert not shard.exists()
    assert not (cluster.checkpoints / stuck.PROBE).exists()


def test_what_was_saved_before_is_left_alone_by_both(cluster, monkeypatch):
    monkeypatch.setattr(Cluster, "ranks", lambda _: [victim()])
    kept = cluster.checkpoints / "demo" / "step-30" / "__0_0.distcp"
    kept.write_bytes(b"weights")
    block_storage(cluster, victim())
    free_storage(cluster)
    assert kept.read_bytes() == b"weights"


def test_a_fault_that_nobody_knows_is_refused_with_those_that_exist():
    with pytest.raises(
        Invalid, match="“flood” is not one of crash, hang, node-loss, frozen, slow, nan, limbo, storage"
    ):
        parse("crash,flood")
