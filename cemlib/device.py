"""Settings of torch that hold for a whole job."""

import torch


def set_up(device: torch.device, threads: int) -> None:
    """Prepare the process for a job: its CPU threads, and what cuDNN does.

    Every batch but the last of an epoch has the same shape, so that the algorithms tried out in the
    first steps are the fastest for all. Float32 means float32: by default cuDNN convolves in TF32,
    with ten bits.
    """
    torch.set_num_threads(threads)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.conv.fp32_precision = "ieee"  # type: ignore[attr-defined]
