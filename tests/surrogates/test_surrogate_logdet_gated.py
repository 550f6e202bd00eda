"""The sum of two surrogates against the two alone."""

import pytest
import torch
from surrogate_batches import batch, built, value_and_gradient

OF_LOGDET = {"momentum": 0.5, "refresh": 2, "shrinkage": 0.1}
OF_GATED = {"moments": "raw", "variance": "trace", "scale": 0.3, "hidden": 5}


def parts(weight):
    """The sum, and its parts alone with the same parameters."""
    together = built("logdet_gated", 6, 12, gated_weight=weight, **OF_LOGDET, **OF_GATED)
    gated = built("gated", 6, 12, **OF_GATED)
    gated.load_state_dict(together.gated.state_dict())
    return together.double(), built("logdet", 6, 12, **OF_LOGDET).double(), gated.double()


def batches():
    for seed in range(4):
        z, y, _ = batch("unequal", seed)
        yield z.double(), y


@pytest.mark.parametrize("weight", [0.0, 1.0, 7.5])
def test_features_are_pulled_by_both_and_the_attention_by_its_own_alone(weight):
    together, logdet, gated = parts(weight)
    for z, y in batches():
        value, (pull, *own) = value_and_gradient(
            lambda z, y=y: together(z, y), z, *together.parameters()
        )
        bound, (first,) = value_and_gradient(lambda z, y=y: logdet(z, y), z)
        spread, (second, *alone) = value_and_gradient(
            lambda z, y=y: gated(z, y), z, *gated.parameters()
        )
        tolerance = {"rtol": 1e-12 if weight else 0}  # without weight it is logdet to the bit
        torch.testing.assert_close(value, bound + weight * spread, **tolerance, atol=0)
        torch.testing.assert_close(
            pull, first + weight * second, **tolerance, atol=1e-18 if weight else 0
        )
        assert len(own) == len(alone) == 3
        assert all(torch.equal(a, b) for a, b in zip(own, alone, strict=True))
        assert alone[0].abs().max() > 0


def test_it_logs_both_parts():
    together, logdet, gated = parts(2.0)
    z, y = next(batches())
    for surrogate in (together, logdet, gated):
        surrogate(z, y)
    log, bound, spread = together.log(), logdet.log(), gated.log()
    assert log["logdet_value"] == bound["value"]
    assert log["gated_value"] == spread["value"]
    assert log["value"] == pytest.approx(bound["value"] + 2 * spread["value"])
    assert log["active"] == spread["active"]
    assert (log["classes"], log["stale"]) == (bound["classes"], bound["stale"])
    assert log["effective_sample_size"] == spread["effective_sample_size"]


def test_factorisations_come_in_their_turn():
    together, _, _ = parts(1.0)
    turns = []
    for z, y in list(batches())[:3]:
        turns.append(together.replayable)
        together(z, y)
    together.replayed()
    turns.append(together.replayable)
    together.replayed()
    turns.append(together.replayable)
    together.reseed(3)
    assert [*turns, together.replayable] == [False, True, False, False, True, False]
