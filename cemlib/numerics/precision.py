"""Arithmetic of a job: its threads, and float32 or bfloat16 products where they are faster.

Only what autocast covers (convolutions, matrix products) is computed in bfloat16; weights, their
updates, losses, surrogates and statistics stay float32 or better.
"""

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


def resolve(setting: str, device: torch.device) -> str:
    """Return `float32` or `bfloat16`; `auto` is the latter where the hardware multiplies it."""
    if setting != "auto":
        return setting
    return "bfloat16" if multiplies_bfloat16(device) else "float32"


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return whether there are instructions for it: emulated, it is slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Return the context of a network's forward pass, for what `resolve` returned."""
    low = precision == "bfloat16"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=low)
