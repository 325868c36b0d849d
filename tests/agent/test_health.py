import threading
import time
from pathlib import Path

import msgspec
import pytest
from middlewatch_agent import disks, identity
from middlewatch_agent.disks import Disk
from middlewatch_agent.gpu.base import GpuError, NoGpus
from middlewatch_agent.gpu.choose import choose
from middlewatch_agent.gpu.nvml import NvmlGpus
from middlewatch_agent.gpu.recorded import RecordedGpus
from middlewatch_agent.health import Health
from middlewatch_wire import KINDS

EIGHT = Path(__file__).parent / "fixtures/eight-gpus.json"


def health(gpu=f"recorded:{EIGHT}", folder=".", events=None):
    return Health(gpu=gpu, disks=[folder], period_s=15.0, emit=(events if events is not None else []).append)


def run_once(measured):
    measured.stop()
    measured.run()


def strictly(kind, data):
    """Check that every field told is one that the wire format knows."""
    known = msgspec.to_builtins(msgspec.convert(data, KINDS[kind]))
    assert msgspec.convert(data, KINDS[kind]) is not None
    return known


def keys(value, path=""):
    if isinstance(value, dict):
        return {f"{path}.{key}" for key in value} | {
            deep for key, inner in value.items() for deep in keys(inner, f"{path}.{key}")
        }
    return {deep for inner in value for deep in keys(inner, f"{path}[]")} if isinstance(value, list) else set()


def test_a_gpu_node_tells_its_health_as_the_wire_format_says(tmp_path):
    events = []
    run_once(health(folder=str(tmp_path), events=events))
    data = events[0]["data"]
    assert keys(data) == keys(strictly("node.health", data))
    assert len(data["gpus"]) == 8
    first = data["gpus"][0]
    assert {
        "uuid",
        "util_pct",
        "temp_c",
        "power_w",
        "memory_used_bytes",
        "sm_clock_mhz",
        "throttle",
        "ecc",
        "remap",
    } <= set(first)
    assert data["disks"][0]["path"] == str(tmp_path)
    assert data["disks"][0]["write_probe_ms"] > 0
    assert data["host"]["memory_available_bytes"] > 0
    assert all(nic["state"] for nic in data["nics"])


def test_a_recording_plays_its_frames_and_stays_at_the_last():
    source = RecordedGpus(EIGHT)
    frames = [source.read()[3] for _ in range(5)]
    assert [frame["ecc"]["volatile_uncorrected"] for frame in frames] == [0, 0, 1, 1, 1]
    assert frames[2]["throttle"] == ["hw_thermal"]


def test_hello_tells_the_hardware_as_the_wire_format_says():
    gpus = RecordedGpus(EIGHT).identify()
    data = identity.hello(labels={"rack": "r7"}, capabilities={"watch", "launcher"}, gpus=gpus)
    assert keys(data) - {".labels.rack"} == keys(strictly("node.hello", data)) - {".labels.rack"}
    assert data["capabilities"] == ["launcher", "watch"]
    assert data["hardware"]["gpus"][7]["uuid"] == gpus[7].uuid
    assert data["boot_id"]


def test_a_placeholder_is_no_serial_number(tmp_path):
    (tmp_path / "board_serial").write_text("To be filled by O.E.M.\n")
    (tmp_path / "product_serial").write_text("CZ1234\n")
    told = identity.hello(labels={}, capabilities=(), gpus=(), dmi=tmp_path)
    assert told["hardware"]["board_serial"] == "CZ1234"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"gpus": 5, "frames": []}'])
def test_a_bad_recording_names_its_file(tmp_path, content):
    path = tmp_path / "gpus.json"
    path.write_text(content)
    with pytest.raises(GpuError, match=r"gpus\.json"):
        RecordedGpus(path)


def test_gpus_are_chosen_by_the_settings(monkeypatch, tmp_path):
    monkeypatch.setattr("middlewatch_agent.gpu.choose.NVIDIA_DEVICE", tmp_path / "missing")
    assert isinstance(choose("auto"), NoGpus)
    assert isinstance(choose("none"), NoGpus)
    with pytest.raises(GpuError, match="none of auto"):
        choose("cuda")


def test_a_library_that_does_not_start_is_a_reader_that_is_not_ok():
    events = []
    measured = health(gpu="recorded:/missing.json", events=events)
    run_once(measured)
    assert measured.reader()["ok"] is False
    assert events[0]["data"]["gpus"] == []


def test_a_measurement_that_hangs_shows_in_the_age_and_not_in_the_heartbeat_thread(monkeypatch):
    measured = health(gpu="none")
    monkeypatch.setattr(measured, "_read_at", time.monotonic() - 100.0)
    assert measured.reader() == {"ok": False, "last_read_age_s": pytest.approx(100.0, abs=1.0)}


def test_a_disk_that_hangs_is_reported_as_hanging(tmp_path, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(disks, "_write", lambda _path: gate.wait(10))
    disk = Disk(str(tmp_path))
    first = disk.read(patience_s=0.05)
    time.sleep(0.1)
    second = disk.read(patience_s=0.05)
    gate.set()
    assert 50 <= first["write_probe_ms"] < second["write_probe_ms"]
    assert second["write_probe_ms"] >= 150


def test_a_disk_that_refuses_a_write_says_why(tmp_path):
    told = Disk(str(tmp_path / "missing")).read()
    assert "No such file" in told["error"]
    assert "write_probe_ms" not in told


class FakeNvmlError(Exception):
    def __init__(self, value):
        super().__init__(f"code {value}")
        self.value = value


class FakeNvml:  # names as the library spells them
    """Two GPUs of which the second has fallen off the bus."""

    NVMLError = FakeNvmlError

    def __getattr__(self, name):
        def unsupported(*_args):
            raise FakeNvmlError(3)

        return unsupported

    def nvmlInit(self): ...  # noqa: N802

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetTemperature(self, handle, _sensor):  # noqa: N802
        if handle == 1:
            raise FakeNvmlError(15)
        return 61

    def nvmlDeviceGetPowerUsage(self, _handle):  # noqa: N802
        return 431_500

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle):  # noqa: N802
        return 0x4 | 0x40

    def nvmlDeviceGetRemappedRows(self, _handle):  # noqa: N802
        return (0, 1, 1, 0)


def test_nvml_tells_what_it_can_and_names_the_gpu_that_is_lost(monkeypatch):
    monkeypatch.setattr("importlib.import_module", lambda _name: FakeNvml())
    source = NvmlGpus()
    assert [gpu.uuid for gpu in source.identify()] == ["GPU-0", "GPU-1"]
    good, lost = source.read()
    assert good == {
        "index": 0, "uuid": "GPU-0", "temp_c": 61, "power_w": 431.5, "throttle": ["sw_power_cap", "hw_thermal"],
        "remap": {"correctable": 0, "uncorrectable": 1, "pending": True, "failed": False},
    }  # fmt: skip
    assert lost == {"index": 1, "uuid": "GPU-1", "error": "code 15"}
    strictly("node.health", {"gpus": [good, lost]})
