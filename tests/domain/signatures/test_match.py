import pytest

from controlplane.domain.signatures import match as reader
from controlplane.domain.signatures.match import channel_of, cut, lines, match_line, matches, pci
from controlplane.domain.signatures.table import MACHINE, RANK, SCHEDULER

FALLEN = "NVRM: Xid (PCI:0000:4c:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def one(channel, line):
    found = match_line(channel, line)
    assert found is not None
    assert found.signature is not None
    return found


def test_a_code_comes_with_the_slot_and_the_process_that_the_driver_names():
    found = one(MACHINE, "NVRM: Xid (PCI:0000:48:00): 13, pid=4102, name=python3, Exception on (GPC 2, TPC 1, SM 0)")
    assert (found.signature.id, found.place, found.pid, found.unit) == ("xid-13", "0000:48:00", 4102, "2/1")
    assert one(MACHINE, FALLEN).pid is None


@pytest.mark.parametrize("address", ["0000:07:00.0", "00000000:07:00.0", "PCI:0000:07:00", "07:00.0"])
def test_one_slot_has_many_spellings(address):
    assert pci(address) == "0000:07:00"


def test_a_switch_is_not_a_gpu():
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 28 LTSSM Fault Up"
    assert one(MACHINE, line).signature.id == "sxid-20034"


def test_a_line_that_calls_itself_not_fatal_is_mild():
    line = "NVRM: Xid (PCI:0000:4c:00): 149, NETIR Nonfatal XC0 i0 Link 04 (0x4 0x0)"
    assert one(MACHINE, line).mild
    assert not one(MACHINE, line.replace("Nonfatal", "Fatal")).mild


def test_a_code_in_no_row_is_unknown_by_its_number():
    found = match_line(MACHINE, FALLEN.replace(" 79,", " 999,"))
    assert found.signature is None
    assert found.unknown == "xid 999"


def test_a_line_that_looks_like_trouble_is_unknown_and_an_ordinary_one_is_nothing():
    assert match_line(MACHINE, "frobnicator: fatal error 7").unknown == "machine line: frobnicator: fatal error #"
    assert match_line(MACHINE, "usb 1-1: new high-speed device") is None
    assert match_line(MACHINE, "Kernel command line: quiet panic=1 panic_on_warn=1 psi=1") is None
    assert match_line(MACHINE, "Kernel panic - not syncing: VFS") is not None


def test_a_program_cannot_speak_for_the_driver():
    found = match_line(RANK, FALLEN)
    assert found is None or found.signature is None


@pytest.mark.parametrize(
    ("line", "pid", "process"),
    [
        ("Out of memory: Killed process 4102 (python3) total-vm:41kB", 4102, "python3"),
        ("Out of memory: Kill process 4102 (python3) score 900 or sacrifice child", 4102, "python3"),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,cpuset=j,task=mmfsd,pid=77,uid=0", 77, "mmfsd"),
        ("INFO: task python3:4102 blocked for more than 120 seconds.", 4102, "python3"),
    ],
)
def test_the_victim_is_named(line, pid, process):
    found = one(MACHINE, line)
    assert (found.pid, found.process) == (pid, process)


@pytest.mark.parametrize(
    ("line", "port", "row"),
    [
        ("mlx5_core 0000:ca:00.0 ib0: Link down", "ib0", "net-down"),
        ("mlx5_2: port down", "mlx5_2", "net-down"),
        ("mlx5_core 0000:ca:00.0: Link down", "0000:ca:00", "net-down-bus"),
        ("IPv6: ADDRCONF(NETDEV_CHANGE): ib3: link becomes ready", "ib3", "net-up"),
    ],
)
def test_a_port_is_named(line, port, row):
    assert (one(MACHINE, line).place, one(MACHINE, line).signature.id) == (port, row)


def test_the_tail_of_a_log_gives_each_of_its_lines():
    text = "Traceback (most recent call last):\n  File 'a.py'\nRuntimeError: CUDA error: unspecified launch failure\n"
    text += "broken pipe\n"
    assert [found.signature.id for found in matches(RANK, text) if found.signature] == ["cuda-other", "peer-closed"]


def test_who_speaks_is_known_by_the_event():
    assert channel_of("node.log", "kernel") == MACHINE
    assert channel_of("node.log", "slurmd") == SCHEDULER
    assert channel_of("rank.exited", "") == RANK
    assert channel_of("node.heartbeat", "") == ""


def test_a_text_of_a_million_characters_costs_as_much_as_a_short_one():
    text = "x" * 1_000_000
    assert len(cut(text)) == reader.HEAD_CHARS + reader.TAIL_CHARS + 1
    assert all(len(line) <= reader.LINE_CHARS for line in lines(text))
    assert len(lines("\n".join(["error"] * 100_000))) <= reader.MAX_LINES


class Counting:
    """A pattern that counts the characters that it is asked to search."""

    def __init__(self, pattern):
        self.pattern = pattern
        self.characters = 0

    def search(self, text):
        self.characters += len(text)
        return self.pattern.search(text)


def test_a_line_built_to_keep_patterns_busy_is_read_only_so_far(monkeypatch):
    counting = Counting(reader._TROUBLE)
    monkeypatch.setattr(reader, "_TROUBLE", counting)
    hostile = "xid (" * 200_000 + "edac mlx5 link down link up nvswitch topology " * 20_000
    list(matches(MACHINE, hostile))
    assert counting.characters <= reader.MAX_LINES * reader.LINE_CHARS


def test_the_words_that_follow_an_odd_byte_are_still_read():
    assert one(MACHINE, "\ufffd\ufffd " + FALLEN).signature.id == "xid-79"
