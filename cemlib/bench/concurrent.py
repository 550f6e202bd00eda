"""Several trainings at once, as a study runs them: one-threaded processes side by side.

The reference is one process of the field's loop on all cores: that is how it is run. Both are
measured in turns, round by round; a round of ours ends when the last process is done.
"""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from threading import Barrier, BrokenBarrierError
from typing import Any

import torch

from cemlib.bench.floor import floor_ms
from cemlib.bench.ours import step_flops, warm_steps, with_images
from cemlib.bench.scale import Scale
from cemlib.bench.timing import Timing, Work, alternately, compared, wait
from cemlib.precision import resolve

DEFENCE = "clustering"
AGAINST = "one process of the plain loop on all cores"
PATIENCE = 600  # seconds that a process waits for the others


def concurrent(scale: Scale, plain: Callable[[int], Work]) -> dict[str, Any]:
    """Steps of all processes together and of the reference, as `timing.compared` has them.

    Args:
        scale: what each process trains, on one thread.
        plain: a pass of the reference on so many threads, warm.

    Raises:
        Exception: whatever a process raised.
    """
    cores = len(os.sched_getaffinity(0))
    processes = scale.processes or cores
    ours, reference = _measured(replace(scale, threads=1), processes, plain(cores))
    precision = resolve("auto", torch.device(scale.device))
    floor = floor_ms(step_flops(scale), scale.device, cores, precision)
    facts = {"defence": DEFENCE, "processes": processes, "cores": cores}
    return compared(ours, reference, AGAINST, floor) | facts


def _measured(scale: Scale, processes: int, plain: Work) -> list[Timing]:
    context = get_context("spawn")  # a fork would inherit torch's threads half alive
    with context.Manager() as manager, ProcessPoolExecutor(processes, context) as pool:
        gate = manager.Barrier(processes + 1, timeout=PATIENCE)
        started = [pool.submit(_train, scale, gate) for _ in range(processes)]
        works = [Work(lambda: _round(gate), processes * scale.steps), plain]
        try:
            gate.wait()
            found = alternately(works, scale.passes, scale.device)
        except BrokenBarrierError:
            for process in started:
                process.result()
            raise
    return [with_images(timing, scale.batch) for timing in found]


def _round(gate: Barrier) -> None:
    """Let all processes make a pass, and wait for the last."""
    gate.wait()
    gate.wait()


def _train(scale: Scale, gate: Barrier) -> None:
    """One of the processes: warm up, then as many passes as the other side times."""
    try:
        work = warm_steps(scale, DEFENCE)
        gate.wait()
        for _ in range(scale.passes + 1):
            gate.wait()
            work.run()
            wait(scale.device)
            gate.wait()
    except Exception:
        gate.abort()
        raise
