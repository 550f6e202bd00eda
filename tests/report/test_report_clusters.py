"""The course of the clusters against loops, and damaged cluster files."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from reading_figures import labelled, lines, texts
from synthetic_study import DEFENCES, Study, cluster_course

from cemlib.records.files import FileError, save_tensors
from cemlib.report import clusters as clusters_module
from cemlib.report.build import read, write_figures
from cemlib.report.clusters import read_course


def test_course_of_the_clusters_equals_a_loop(tmp_path: Path) -> None:
    found = cluster_course(seed=3, epochs=4)
    save_tensors(tmp_path / "clusters.safetensors", found)
    course = read_course(tmp_path / "clusters.safetensors")
    means, weights, variances = (found[name].double() for name in ("means", "weights", "variances"))
    for epoch in range(4):
        for label in range(10):
            w = weights[epoch, label].tolist()
            entropy = -sum(p * math.log(p) for p in w)
            assert course.effective[epoch, label].item() == pytest.approx(math.exp(entropy))
            variance = sum(p * v for p, v in zip(w, variances[epoch, label].tolist(), strict=True))
            assert course.variance[epoch, label].item() == pytest.approx(variance)
            if epoch:
                steps = means[epoch, label] - means[epoch - 1, label]
                moved = sum(p * s.pow(2).sum().sqrt() for p, s in zip(w, steps, strict=True))
                assert course.movement[epoch, label].item() == pytest.approx(float(moved))
    assert np.isnan(course.movement[0]).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("means", torch.zeros(30, 10, 5), "means should have 4 dimensions"),
        ("weights", torch.zeros(30, 10, 4), "do not agree on their shape"),
        ("epochs", torch.zeros(29), "do not agree on their shape"),
        ("variances", None, "variances should have 3 dimensions, found nothing"),
    ],
)
def test_damaged_cluster_files_are_named(
    tmp_path: Path, name: str, value: torch.Tensor | None, message: str
) -> None:
    found = dict(cluster_course(seed=0))
    del found[name]
    save_tensors(tmp_path / "c.safetensors", found | ({} if value is None else {name: value}))
    with pytest.raises(FileError, match=rf"c\.safetensors: .*{message}"):
        read_course(tmp_path / "c.safetensors")


def test_cluster_course_uses_the_finished_runs_that_left_clusters(
    full_study: Study, tmp_path: Path
) -> None:
    results = read(full_study.runs, (), DEFENCES)
    paths = write_figures(results, tmp_path, "training_figures")
    assert {"cluster_course.png", "cluster_course.pdf"} < {path.name for path in paths}
    files = [
        full_study.root / f"runs/clustering/seed{seed}/clusters.safetensors" for seed in range(3)
    ]
    figure = clusters_module.cluster_course({"clustering": files})
    mean = lines(figure.axes[0], "black")[0]
    expected = np.mean([read_course(path).variance.mean(1) for path in files], axis=0)
    np.testing.assert_allclose(mean, expected)
    assert labelled(figure)


def test_cluster_course_refuses_seeds_of_different_length(tmp_path: Path) -> None:
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for path, epochs in zip(files, (4, 5), strict=True):
        save_tensors(path, cluster_course(seed=0, epochs=epochs))
    with pytest.raises(FileError, match=r"b\.safetensors: clusters of other epochs"):
        clusters_module.cluster_course({"clustering": files})


def test_cluster_course_without_clusters_says_so() -> None:
    (panel,) = clusters_module.cluster_course({}).axes
    assert texts(panel) == ["no surrogate of this study fits clusters"]
