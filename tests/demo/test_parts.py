"""The small parts of the demonstration, without its processes."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from controlplane.demo import faults, report, slurm_lab
from controlplane.demo.cluster import PIDS, Cluster
from controlplane.demo.narrator import Narrator
from controlplane.demo.report import FaultReport
from controlplane.demo.site import LOCAL, SLURM
from controlplane.domain.errors import Invalid
from controlplane.embedded.errors import CannotStart


def row(**changes):
    known = {
        "kind": "crash", "klass": "crash", "detected_s": 0.3, "decided_s": 0.4, "resumed_s": 9.1, "steps_lost": 7,
        "unattended": True,
    }  # fmt: skip
    return FaultReport(**{**known, **changes})


def test_an_unknown_fault_is_named_beside_those_that_are_known():
    with pytest.raises(Invalid, match="--faults: “flood” is not one of crash, hang, node-loss"):
        faults.parse("crash,flood")


def test_faults_keep_the_order_in_which_they_were_asked_for():
    assert [fault.kind for fault in faults.parse("hang, crash")] == ["hang", "crash"]


def test_each_scheduler_has_faults_of_its_own_and_refuses_those_of_another():
    assert [fault.kind for fault in LOCAL.parse("")] == ["crash", "hang", "node-loss"]
    assert [fault.kind for fault in SLURM.parse("")] == ["crash", "hang", "frozen"]
    assert (bool(LOCAL.preload), SLURM.preload) == (True, ())
    with pytest.raises(Invalid, match="--faults: “frozen” needs --scheduler slurm"):
        LOCAL.parse("crash,frozen")


def test_without_slurm_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_lab, "missing", lambda: ["slurmctld"])
    with (
        pytest.raises(CannotStart, match=r"Slurm is not installed .*apt-get install slurmctld"),
        SLURM.opened(tmp_path),
    ):
        raise AssertionError("it began all the same")


def test_a_recovery_that_a_person_helped_does_not_count():
    assert row().recovered
    assert not row(unattended=False).recovered
    assert not row(resumed_s=None).recovered


def test_the_report_of_a_drill_says_who_was_told(tmp_path):
    path = tmp_path / "report.json"
    report.write(path, [row()], goodput=0.5, chronicle="", told=["ops by email (delivered)"])
    assert json.loads(path.read_text())["told"] == ["ops by email (delivered)"]


def test_the_report_spells_class_as_the_wire_does(tmp_path):
    path = tmp_path / "report.json"
    report.write(path, [row(klass="node_lost")], goodput=0.5, chronicle="# told")
    written = json.loads(path.read_text())
    assert written["faults"][0]["class"] == "node_lost"
    assert "klass" not in written["faults"][0]
    assert (written["goodput"], written["chronicle"]) == (0.5, "# told")


def test_the_table_names_a_trouble_as_the_pages_do():
    assert "lost node" in report.table([row(klass="node_lost")])


def test_the_table_says_never_where_nothing_was_found():
    text = report.table([row(klass="", detected_s=None, steps_lost=None, unattended=False)])
    assert "nothing" in text
    assert "never" in text
    assert text.splitlines()[-1].rstrip().endswith("no")


def test_outside_a_terminal_no_status_line_is_printed():
    out = io.StringIO()
    narrator = Narrator(out)
    narrator.status("waiting")
    narrator.say("done")
    assert "waiting" not in out.getvalue()
    assert out.getvalue().endswith("done\n")


def test_a_folder_without_a_demonstration_is_refused(tmp_path):
    with pytest.raises(Invalid, match="home: no demonstration runs in"):
        Cluster.load(tmp_path)


def test_hurting_where_no_demonstration_runs_says_so_in_one_line(tmp_path):
    with pytest.raises(CommandError, match="home: no demonstration runs in"):
        call_command("hurt", "crash", str(tmp_path))


def test_a_fault_of_slurm_is_not_done_where_no_slurm_runs(tmp_path):
    (tmp_path / PIDS).write_text("{}")
    with pytest.raises(CommandError, match="“frozen” needs a demonstration under --scheduler slurm"):
        call_command("hurt", "frozen", str(tmp_path))
