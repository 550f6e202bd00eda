"""The course of the clusters, against loops."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from reading_figures import labelled, lines, texts
from synthetic_study import DEFENCES, Study, fitted_clusters

from cemlib.records.files import save_tensors
from cemlib.report.build import Results
from cemlib.report.clusters import cluster_course, read_course
from cemlib.report.courses import LINE


def test_course_of_the_clusters_equals_a_loop(tmp_path: Path) -> None:
    found = fitted_clusters(seed=3, epochs=4)
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


def test_cluster_course_uses_the_finished_runs_that_left_clusters(full_study: Study) -> None:
    results = Results(*full_study.frames(), DEFENCES)
    folder = full_study.root / "runs/clustering"
    files = [folder / f"seed{seed}/clusters.safetensors" for seed in range(3)]
    assert results.clusters == {"clustering": files}
    figure = cluster_course(results.clusters)
    (mean,) = lines(figure.axes[0], LINE)
    every = [read_course(path).groupby("epoch")["variance"].mean() for path in files]
    np.testing.assert_allclose(mean, np.mean(every, axis=0))
    assert labelled(figure)


def test_cluster_course_without_clusters_says_so() -> None:
    (panel,) = cluster_course({}).axes
    assert texts(panel) == ["no surrogate of this study fits clusters"]
