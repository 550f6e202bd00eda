"""The course of the clusters, against loops."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from reading_figures import labelled, lines, texts
from synthetic_study import DEFENCES, Study, cluster_course

from cemlib.records.files import save_tensors
from cemlib.report import clusters as clusters_module
from cemlib.report.build import Results, write_figures
from cemlib.report.clusters import read_course
from cemlib.report.courses import LINE


def test_course_of_the_clusters_equals_a_loop(tmp_path: Path) -> None:
    found = cluster_course(seed=3, epochs=4)
    save_tensors(tmp_path / "clusters.safetensors", found)
    course = read_course(tmp_path / "clusters.safetensors").set_index(["epoch", "class"])
    means, weights, variances = (found[name].double() for name in ("means", "weights", "variances"))
    for epoch, label in itertools.product(range(4), range(10)):
        row, w = course.loc[(epoch + 1, label)], weights[epoch, label].tolist()
        entropy = -sum(p * math.log(p) for p in w)
        assert row["effective"] == pytest.approx(math.exp(entropy))
        variance = sum(p * v for p, v in zip(w, variances[epoch, label].tolist(), strict=True))
        assert row["variance"] == pytest.approx(variance)
        if epoch:
            steps = means[epoch, label] - means[epoch - 1, label]
            moved = sum(p * s.pow(2).sum().sqrt() for p, s in zip(w, steps, strict=True))
            assert row["movement"] == pytest.approx(float(moved))
    assert course.loc[1, "movement"].isna().all()


def test_cluster_course_uses_the_finished_runs_that_left_clusters(
    full_study: Study, tmp_path: Path
) -> None:
    results = Results(*full_study.frames(), DEFENCES)
    paths = write_figures(results, tmp_path, "training_figures")
    assert {"cluster_course.png", "cluster_course.pdf"} < {path.name for path in paths}
    files = [
        full_study.root / f"runs/clustering/seed{seed}/clusters.safetensors" for seed in range(3)
    ]
    figure = clusters_module.cluster_course({"clustering": files})
    (mean,) = lines(figure.axes[0], LINE)
    every = [read_course(path).groupby("epoch")["variance"].mean() for path in files]
    expected = np.mean(every, axis=0)
    np.testing.assert_allclose(mean, expected)
    assert labelled(figure)


def test_cluster_course_without_clusters_says_so() -> None:
    (panel,) = clusters_module.cluster_course({}).axes
    assert texts(panel) == ["no surrogate of this study fits clusters"]
