"""The configuration of a labelling study: what is refused, and which job depends on what."""

from pathlib import Path
from typing import Any

import pytest
from labelling_study import changed, tiny

from cemlib.config.errors import ConfigError
from cemlib.config.load import load_any as load
from cemlib.config.load import parse_any as parse

ROOT = Path(__file__).parents[2]


def test_the_committed_studies_have_the_published_numbers() -> None:
    names = ("pctc", "pctc_mnist", "pctc_published")
    digits, mnist, published = (load(ROOT / f"config/{name}.yaml") for name in names)
    for study in (mnist, published):
        assert study.images == (200, 400, 600)
        assert (study.encryption.key_bits, study.encryption.insecure_for_testing) == (2048, False)
    for study in (digits, mnist, published):
        assert (study.participants, study.queries) == (15, 200)
        assert (study.privacy.epsilon, study.privacy.delta) == (1.2, 1e-5)
        assert study.epsilons()[0] == 1.2
    assert [network.kind for network in published.networks] == ["vgg11", "vgg16", "resnet18"]
    assert published.train.optimiser == "sgd"


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (changed(images=[20, 20]), ["images: [20] are listed twice"]),
        (changed(privacy__sweep=[1.2]), ["privacy.sweep", "always used; remove it"]),
        (
            changed(encryption={"key_bits": 1024}),
            ["encryption.key_bits: 1024 is below 2048", "insecure_for_testing: true"],
        ),
        (changed(encryption__key_bits=257), ["encryption.key_bits", "multiple of 2, found 257"]),
        (
            changed(queries=99, privacy__delta=0.01),
            ["privacy.delta: 0.01 over 99 queries", "promises nothing; take less than 0.01"],
        ),
        (changed(networks=[{"kind": "mlp"}]), ["networks.0: width is missing"]),
        (changed(networks=[{"kind": "vgg11", "width": 3}]), ["networks.0: vgg11 takes no width"]),
        (changed(networks=[{"kind": "vgg11"}]), ["networks: vgg11 needs data.image_size: 32 and"]),
        (
            changed(
                networks=[{"kind": "resnet18"}],
                data__image_size=32,
                data__channels=3,
                train__batch_size=1,
            ),
            ["train.batch_size: resnet18 needs at least 2 images per step"],
        ),
    ],
)
def test_a_fault_is_told_by_its_key(raw: Any, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(raw)
    assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize(
    ("paths", "same"),
    [
        ({"experiment": "other", "results": "elsewhere"}, [True, True, True, True]),
        ({"repeats": 5}, [True, True, True, False]),
        ({"cost__images": 3}, [True, True, False, True]),
        ({"train__steps": 30}, [True, False, True, False]),
        ({"data__root": "/somewhere"}, [True, True, True, True]),
    ],
)
def test_a_job_depends_on_its_own_settings_alone(paths: dict[str, Any], same: list[bool]) -> None:
    slices = ("data_slice", "repeat_slice", "cost_slice", "report_slice")
    assert [getattr(tiny(**paths), of)() == getattr(tiny(), of)() for of in slices] == same
