"""Environment variables of the processes that carry out jobs; most are read when one starts."""

import os

OF_JOBS = {
    # Two busy processes whose idle threads spin would slow each other to a fraction.
    "OMP_WAIT_POLICY": "passive",
    # Large tensors come and go in every step: keep their memory instead of mapping it anew.
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def set_for_jobs(threads: int | None = None) -> None:
    """Set them for this process and those it starts; what the user has set stays.

    Args:
        threads: threads of every library in the processes that this one starts, set in any case:
            they are part of what decides a result. None where the caller's caller sets them.
    """
    for name, value in OF_JOBS.items():
        os.environ.setdefault(name, value)
    if threads is not None:
        os.environ.update(dict.fromkeys(_THREADS, str(threads)))
