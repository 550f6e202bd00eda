"""Settings of torch that hold for a whole job."""

import torch


def set_up(device: torch.device, threads: int) -> None:
    """Prepare the process for a job: its CPU threads, and cuDNN's choice of algorithms.

    Every batch but the last of an epoch has the same shape, so that the algorithms tried out in the
    first steps are the fastest for all.
    """
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = device.type == "cuda"
