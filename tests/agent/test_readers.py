import errno
import os
import time

import pytest
from middlewatch_agent.readers import kmsg, prefilter
from middlewatch_agent.readers.base import Bucket, Outlet
from middlewatch_agent.readers.kmsg import KmsgReader
from middlewatch_agent.readers.tail import TailReader, tail

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "line",
    [
        XID,
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=1234,uid=0",
        "Out of memory: Killed process 1234 (python3) total-vm:1kB",
        "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1455: inode #2: reading directory lblock 0",
        "XFS (nvme1n1): Metadata I/O Error (0x1) detected at xfs_trans_read_buf_map",
        "nvme nvme0: I/O 12 QID 3 timeout, aborting",
        "blk_update_request: I/O error, dev sda, sector 1953523008",
        "mlx5_core 0000:5e:00.0: poll_health:800: Fatal error 1 detected",
        "INFO: task python3:4242 blocked for more than 120 seconds.",
        "mce: [Hardware Error]: Machine check events logged",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
        "CPU12: Core temperature above threshold, cpu clock throttled",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
        "pcieport 0000:16:01.0: AER: Uncorrected (Fatal) error received",
        "python3[99]: segfault at 0 ip 00007f rsp 00007f error 4 in libc.so.6",
        "nfs: server storage01 not responding, still trying",
    ],
)
def test_lines_about_faults_pass_the_kernels_prefilter(line):
    assert prefilter.kernel(line)


@pytest.mark.parametrize(
    "line",
    [
        "Linux version 6.18.44 (builder@host) (gcc 15) #1 SMP PREEMPT_DYNAMIC",
        "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        'audit: type=1400 audit(1.1:2): apparmor="STATUS"',
        "thermal_sys: Registered thermal governor 'step_wise'",
        "mce: CPU0: Thermal monitoring enabled (TM1)",
        "mce: CPU supports 32 MCE banks",
        "EDAC MC: Ver: 3.0.0",
        "pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
        "GHES: APEI firmware first mode is enabled by APEI bit.",
        "EXT4-fs (vda1): mounted filesystem with ordered data mode",
    ],
)
def test_ordinary_lines_do_not(line):
    assert not prefilter.kernel(line)


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "n01:123:456 [0] NCCL WARN Call to ibv_reg_mr failed",
        "[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81400)",
        "step 81400 loss=nan grad_norm=inf",
    ],
)
def test_lines_about_trouble_pass_the_ranks_prefilter(line):
    assert prefilter.rank(line)


@pytest.mark.parametrize("hostile", ["nan ", "loss ", "XFS ", "[", "a."])
def test_a_long_line_of_a_stranger_does_not_hold_the_agent_up(hostile):
    began, judges = time.thread_time(), (prefilter.kernel, prefilter.service, prefilter.rank)
    for judge in judges:
        Outlet("rank", judge, lambda _: None).offer(hostile * (64_000 // len(hostile)), 1, "1")
    assert time.thread_time() - began < 1.0


def test_a_flood_is_cut_to_a_few_lines_a_second():
    bucket = Bucket(per_s=2.0, burst=10.0)
    assert sum(bucket.admit(100.0) for _ in range(50)) == 10
    assert sum(bucket.admit(103.0) for _ in range(50)) == 6
    assert bucket.suppressed == 84


def test_a_line_after_a_cut_flood_says_that_lines_are_missing():
    lines = []
    outlet = Outlet("kernel", prefilter.kernel, lines.append, Bucket(per_s=1000.0, burst=1.0))
    outlet.offer(XID, 1, "a")
    outlet.offer(XID, 1, "b")
    time.sleep(0.01)
    outlet.offer(XID, 1, "c")
    assert [(line.cursor, line.gap) for line in lines] == [("a", False), ("c", True)]


class Ring:
    """A kernel ring buffer in place of /dev/kmsg: one record per read."""

    def __init__(self, monkeypatch, *records):
        self.records = list(records)
        monkeypatch.setattr(kmsg.os, "read", self.read)

    def read(self, _descriptor, _size):
        if not self.records:
            raise BlockingIOError
        record = self.records.pop(0)
        if isinstance(record, OSError):
            raise record
        return record


def record(number, text, priority=4):
    return f"{priority},{number},{number * 1000},-;{text}\n SUBSYSTEM=pci\n".encode()


def kernel(path="/dev/null", cursor=None, boot_id="b1"):
    lines = []
    outlet = Outlet("kernel", prefilter.kernel, lines.append)
    return KmsgReader(path, outlet, boot_id=boot_id, cursor=cursor), lines


def test_the_kernels_log_is_read_from_the_first_line_of_the_boot(monkeypatch):
    Ring(monkeypatch, record(0, "Linux version"), record(1, XID))
    reader, lines = kernel()
    reader.read()
    assert [(line.text, line.cursor, line.gap) for line in lines] == [(XID, "b1:1", False)]


def test_a_restarted_agent_goes_on_behind_the_last_line_it_told(monkeypatch):
    Ring(monkeypatch, record(0, XID), record(1, XID), record(2, XID + " again"))
    reader, lines = kernel(cursor="b1:1")
    reader.read()
    assert [line.cursor for line in lines] == ["b1:2"]


def test_a_new_boot_starts_at_its_first_line(monkeypatch):
    Ring(monkeypatch, record(0, XID))
    reader, lines = kernel(cursor="b0:500")
    reader.read()
    assert [(line.cursor, line.gap) for line in lines] == [("b1:0", False)]


def test_lines_that_were_overwritten_before_we_came_are_a_gap(monkeypatch):
    Ring(monkeypatch, record(90, XID))
    reader, lines = kernel(cursor="b1:17")
    reader.read()
    assert lines[0].gap


def test_being_overtaken_by_the_ring_is_a_gap(monkeypatch):
    Ring(monkeypatch, record(0, XID), OSError(errno.EPIPE, "overtaken"), record(1, XID))
    reader, lines = kernel()
    reader.read()
    assert [line.gap for line in lines] == [False, True]


def test_what_user_space_writes_to_the_kernels_log_is_not_believed(monkeypatch):
    Ring(monkeypatch, record(0, XID, priority=12))
    reader, lines = kernel()
    reader.read()
    assert lines == []


def test_a_quiet_kernel_is_alive_and_an_unreadable_one_is_not(monkeypatch):
    ring = Ring(monkeypatch)
    reader, _ = kernel()
    reader.read()
    assert reader.liveness()["ok"]
    ring.records.append(OSError(errno.EIO, "gone"))
    reader.read()
    assert not reader.liveness()["ok"]


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="needs to read /dev/kmsg")
def test_the_real_kernel_log_can_be_read():
    reader, _ = kernel("/dev/kmsg")
    reader.read()
    reader.read()
    assert reader.liveness()["ok"]
    assert int(reader.cursor.partition(":")[2]) >= 0
    reader.close()


def follow(path, cursor=None, **more):
    lines = []
    return TailReader("slurmd", path, Outlet("slurmd", prefilter.service, lines.append), cursor=cursor, **more), lines


def texts(lines):
    return [line.text for line in lines]


def test_a_log_file_is_followed_from_its_end(tmp_path):
    path = tmp_path / "slurmd.log"
    path.write_text("error: old\n")
    reader, lines = follow(path)
    reader.read()
    with path.open("a") as log:
        log.write("info: fine\nerror: new\nerror: half")
    reader.read()
    assert texts(lines) == ["error: new"]
    with path.open("a") as log:
        log.write(" and half\n")
    reader.read()
    assert texts(lines) == ["error: new", "error: half and half"]


def test_a_restart_goes_on_at_the_cursor_and_repeats_nothing(tmp_path):
    path = tmp_path / "log"
    path.write_text("")
    reader, lines = follow(path)
    reader.read()
    path.write_text("error: one\nerror: t")
    reader.read()
    with path.open("a") as log:
        log.write("wo\n")
    again, later = follow(path, cursor=lines[-1].cursor)
    again.read()
    assert texts(later) == ["error: two"]


def test_a_rotated_and_a_truncated_file_are_read_from_their_beginning(tmp_path):
    path = tmp_path / "log"
    path.write_text("x" * 100)
    reader, lines = follow(path)
    reader.read()
    path.rename(tmp_path / "log.1")
    path.write_text("error: after rotation\n")
    reader.read()
    path.write_text("error: cut\n")
    reader.read()
    assert texts(lines) == ["error: after rotation", "error: cut"]


def test_a_line_without_end_is_given_up_and_leaves_a_gap(tmp_path):
    path = tmp_path / "log"
    reader, lines = follow(path)
    reader.read()
    path.write_text("x" * 200_000 + "\nerror: sane\n")
    for _ in range(5):
        reader.read()
    assert texts(lines)[-1] == "error: sane"
    assert any(line.gap for line in lines)


def test_the_tail_of_a_log_is_its_last_bytes(tmp_path):
    path = tmp_path / "rank0.log"
    path.write_text("a" * 10_000 + "the end")
    assert tail(path).endswith("the end")
    assert len(tail(path)) == 4096
    assert tail(tmp_path / "missing") == ""


@pytest.mark.parametrize("make", [os.mkfifo, lambda p: p.symlink_to("/etc/passwd"), lambda p: p.mkdir()])
def test_only_plain_files_are_read(tmp_path, make):
    path = tmp_path / "odd"
    make(path)
    assert tail(path) == ""
