"""The threads and the precision of a job: float32, or bfloat16 where that is faster.

In training, convolutions, matrix products and the element-wise layers between them use bfloat16;
weights, their updates, losses, surrogates, statistics and scores are float32 or better.
"""

import torch


def set_up(device: torch.device, threads: int) -> None:
    """Set the CPU threads, the precision of float32 products and the options of cuDNN.

    Nearly all batches have the same shape, so cuDNN's benchmark of algorithms pays off. By default
    cuDNN would compute float32 convolutions in TF32, with ten bits.
    """
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False


def resolve(setting: str, device: torch.device) -> str:
    """Return `float32` or `bfloat16`; `auto` is the latter if the hardware supports it."""
    if setting != "auto":
        return setting
    return "bfloat16" if multiplies_bfloat16(device) else "float32"


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return whether the hardware has bfloat16 products; emulated, they are slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Return the context of forward passes for a result of `resolve`."""
    low = precision == "bfloat16"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=low)
