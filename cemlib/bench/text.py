"""The figures of the benchmark as Markdown: a table for every part that was measured."""

from collections.abc import Iterable
from typing import Any

Row = Iterable[str]
Figures = dict[str, Any]
ABSENT = "–"
COMPARED = ("ours [ms]", "reference [ms]", "times faster", "floor [ms]", "floor / ours")


def table(figures: Figures) -> str:
    """The figures of `run.bench` as Markdown; times are medians with fastest and slowest."""
    shown = [_machine(figures)]
    shown += [_SECTIONS[name](figures[name]) for name in _SECTIONS if name in figures]
    return "\n\n".join(shown)


def _machine(figures: Figures) -> str:
    scale, machine = figures["scale"], figures["machine"]
    rates = (f"{rate / 1e9:,.0f} GFLOP/s {name}" for name, rate in figures["matrix_rates"].items())
    return (
        f"{scale['network']}, images of {scale['image_size']}x{scale['image_size']}, batch"
        f" {scale['batch']}, D {scale['dim']}; {machine['processor']},"
        f" {machine['device']}, {machine['threads']} threads;"
        f" matrix products {', '.join(rates)}. Times are medians (fastest to slowest); the floor is"
        " what convolutions and matrix products alone would take at that rate."
    )


def _training(found: Figures) -> str:
    steps = {f"step, {name}": each for name, each in found["steps"].items()}
    rows = [
        (label, _images(each["ours"]), _images(each["reference"]), *_compared(each))
        for label, each in steps.items()
    ]
    epoch = found["epoch"]
    sides = (epoch["ours"], epoch["reference"])
    rows.append(("epoch, clustering, per image", *map(_images, sides), *_compared(epoch)))
    heads = ("training", "ours [img/s]", "reference [img/s]", *COMPARED)
    text = (
        f"Ours in {found['precision']}. Reference: {epoch['against']}, with"
        f" {found['workers_of_the_reference']} loader processes. A whole epoch: ours"
        f" {sides[0]['epoch_seconds']:.0f} s, reference {sides[1]['epoch_seconds']:.0f} s."
    )
    return _section("Training", text, heads, rows) + "\n\n" + _concurrent(found["concurrent"])


def _concurrent(found: Figures) -> str:
    ours, reference = (_images(found[side]) for side in ("ours", "reference"))
    return (
        f"{found['processes']} processes of one thread at once, {found['defence']}: {ours} img/s"
        f" together; {found['against']} ({found['cores']}): {reference} img/s;"
        f" {found['times_faster']:.2f} times faster; floor / ours {found['floor_share']:.0%}."
    )


def _surrogates(found: Figures) -> str:
    heads = ("surrogate", "of the step", "memory [MiB]", *COMPARED)
    rows = [
        (label, f"{each['share_of_step']:.1%}", _memory(each["ours"]), *_compared(each))
        for label, each in found["penalties"].items()
    ]
    against = found["penalties"]["clustering"]["against"]
    text = f"Our step without one: {found['step_milliseconds']:.0f} ms. Reference: {against}."
    return _section("Surrogates, forward and backward", text, heads, rows)


def _fits(found: Figures) -> str:
    heads = ("fit", "of the epoch", "memory [MiB]", "next fit [ms]", *COMPARED)
    rows = [
        (
            label,
            f"{each['share_of_epoch']:.2%}",
            _memory(each["ours"]),
            _timing(each["warm"]),
            *_compared(each),
        )
        for label, each in found["fits"].items()
    ]
    text = f"{found['samples']:,} samples. Reference: {_reference(found['fits'])}."
    return _section("Epoch-end fits", text, heads, rows)


def _client(found: Figures) -> str:
    heads = ("client", "parameters", "MFLOP an image", "batch [ms]", "floor / ours")
    rows = [
        (
            label,
            f"{each['parameters']:,.0f}",
            f"{each['flops'] / 1e6:.1f}",
            _timing(each["ours"]),
            f"{each['floor_share']:.0%}",
        )
        for label, each in found.items()
    ]
    return _section("Client", "Forward pass in float32.", heads, rows)


def _attack(found: Figures) -> str:
    step = found["step"]
    text = f"Ours in {found['precision']}. Reference: {step['against']}."
    sides = map(_images, (step["ours"], step["reference"]))
    heads = ("attack", "ours [img/s]", "reference [img/s]", *COMPARED)
    return _section("Attack", text, heads, [("step, decoder", *sides, *_compared(step))])


def _metrics(found: Figures) -> str:
    text = f"{found['images']:,} images. Reference: {found['ssim']['against']}."
    return _section("Metrics", text, ("metric", *COMPARED), [("ssim", *_compared(found["ssim"]))])


def _preparation(found: Figures) -> str:
    text = f"{found['images']:,} PNG files. Reference: {found['prepare']['against']}."
    rows = [("image folder", *_compared(found["prepare"]))]
    return _section("Preparation", text, ("source", *COMPARED), rows)


def _start_up(found: Figures) -> str:
    rows = [
        (label, *(_compared(each)[:3] if each else [ABSENT] * 3))
        for label, each in found["commands"].items()
    ]
    measured = {label: each for label, each in found["commands"].items() if each}
    text = f"Reference: {_reference(measured)}."
    return _section("Start-up", text, ("process", *COMPARED[:3]), rows)


def _scaling(found: Figures) -> str:
    rows = [
        (quantity, label, _span(line["points"]), _ends(line["points"]), _slope(line["slope"]))
        for quantity, lines in found.items()
        for label, line in lines.items()
    ]
    text = "Cost grows as the quantity to the power of the slope."
    heads = ("quantity", "what", "from – to", "first – last [ms]", "slope")
    return _section("Cost as work grows", text, heads, rows)


_SECTIONS = {
    "training": _training,
    "surrogates": _surrogates,
    "fits": _fits,
    "client": _client,
    "attack": _attack,
    "metrics": _metrics,
    "preparation": _preparation,
    "start_up": _start_up,
    "scaling": _scaling,
}


def _section(title: str, text: str, heads: Row, rows: Iterable[Row]) -> str:
    heads = list(heads)
    rule = ["---", *["---:"] * (len(heads) - 1)]
    lines = [f"| {' | '.join(row)} |" for row in (heads, rule, *rows)]
    return "\n".join([f"### {title}", "", text, "", *lines])


def _compared(each: Figures) -> list[str]:
    """The columns `COMPARED`."""
    floor, share, ratio = each["floor_milliseconds"], each["floor_share"], each["times_faster"]
    return [
        _timing(each["ours"]),
        _timing(each["reference"]),
        ABSENT if ratio is None else f"{ratio:.2f}",
        ABSENT if floor is None else _number(floor),
        ABSENT if share is None else f"{share:.0%}",
    ]


def _reference(lines: Figures) -> str:
    against: str = next(iter(lines.values()))["against"]
    return against


def _timing(timing: Figures | None) -> str:
    if timing is None:
        return ABSENT
    middle, low, high = (_number(timing[n]) for n in ("milliseconds", "fastest", "slowest"))
    return f"{middle} ({low} to {high})"


def _number(milliseconds: float) -> str:
    """Three digits, or all before the point."""
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def _images(side: Figures | None) -> str:
    return ABSENT if side is None else _number(side["images_per_second"])


def _memory(timing: Figures) -> str:
    memory = timing["peak_memory_mib"]
    return ABSENT if memory is None else f"{memory:.0f}"


def _span(points: list[Figures]) -> str:
    return f"{points[0]['value']:,} – {points[-1]['value']:,}"


def _ends(points: list[Figures]) -> str:
    return f"{_number(points[0]['milliseconds'])} – {_number(points[-1]['milliseconds'])}"


def _slope(slope: float | None) -> str:
    return ABSENT if slope is None else f"{slope:.2f}"
