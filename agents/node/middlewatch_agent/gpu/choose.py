"""Find the GPU source that the settings name."""

from pathlib import Path

from middlewatch_agent.gpu.base import GpuError, GpuSource, NoGpus

NVIDIA_DEVICE = Path("/dev/nvidiactl")
RECORDED = "recorded:"


def choose(setting: str) -> GpuSource:
    """Give the source for `auto`, `none`, `nvml` or `recorded:<file>`; raises GpuError.

    `auto` means NVML where the driver's device exists, and no GPUs elsewhere.
    """
    if setting.startswith(RECORDED):
        from middlewatch_agent.gpu.recorded import RecordedGpus  # noqa: PLC0415 - only where wanted

        return RecordedGpus(Path(setting.removeprefix(RECORDED)))
    if setting == "nvml" or (setting == "auto" and NVIDIA_DEVICE.exists()):
        from middlewatch_agent.gpu.nvml import NvmlGpus  # noqa: PLC0415 - only where wanted

        return NvmlGpus()
    if setting in {"auto", "none"}:
        return NoGpus()
    raise GpuError(f"gpu: {setting!r} is none of auto, none, nvml, recorded:<file>")
