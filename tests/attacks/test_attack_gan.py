"""The critic, its penalty, and the decoder trained on against it."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from easy_tasks import easy_task, killed, same, share_off, trained_decoder
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.gan import Critic, gan, gradient_penalty
from cemlib.attacks.task import Task
from cemlib.config.attacks import Gan
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.seeds import derive, generator

SMALL = {"epochs": 6, "batch_size": 32, "critic_steps": 2, "critic_width": 8}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> nn.Module:
    return trained_decoder(tmp_path_factory.mktemp("start"))


def gan_task(place: Path, start: nn.Module, **given: Any) -> tuple[Task, Tensor]:
    return easy_task(place, Gan, std=0.05, start=start, **(SMALL | given))


def before_norms(decoder: nn.Module) -> set[str]:
    """The biases that a normalisation removes; the decoder does not train them."""
    doublings = (n for n, m in decoder.named_modules() if isinstance(m, nn.ConvTranspose2d))
    return {f"{name}.bias" for name in doublings}


def test_the_critic_is_the_published_one() -> None:
    """Parameters by hand at 32x32 in colour: 64, 128 and 256 channels, then 4x4 positions."""
    critic = Critic((3, 32, 32), 64)
    kernels = (3 * 64 + 64 * 128 + 128 * 256) * 25
    biases, norms, linear = 64 + 128 + 256, 2 * (64 + 128 + 256), 256 * 16 + 1
    count = sum(weights.numel() for weights in critic.parameters())
    assert count == kernels + biases + norms + linear


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 24, 24), (3, 128, 128), (1, 8, 16), (1, 8, 8)])
def test_scores_are_of_single_images(shape: tuple[int, int, int]) -> None:
    critic = Critic(shape, 2)
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    scores = critic(images)
    assert scores.shape == (3,)
    assert torch.allclose(scores[:1], critic(images[:1]), atol=1e-5)
    assert scores.std() > 0


def test_the_penalty_of_the_critic_by_finite_differences() -> None:
    """Slopes from differences of the scores, pixel by pixel."""
    critic = Critic((1, 8, 16), 2).double()
    draws = torch.Generator().manual_seed(0)
    real, fake = (torch.rand(2, 1, 8, 16, dtype=torch.float64, generator=draws) for _ in range(2))
    share = torch.tensor([0.3, 0.8], dtype=torch.float64).view(2, 1, 1, 1)
    h, lengths = 1e-5, []
    for image in share * real + (1 - share) * fake:
        steps = h * torch.eye(image.numel(), dtype=torch.float64).view(-1, *image.shape)
        lengths.append(((critic(image + steps) - critic(image - steps)) / (2 * h)).norm())
    expected = (torch.stack(lengths) - 1).square().mean().item()
    assert gradient_penalty(critic, real, fake, share).item() == pytest.approx(expected, rel=1e-6)


def penalty_by_images(critic: Critic, mixed: Tensor) -> Tensor:
    slopes = [torch.autograd.grad(critic(m[None])[0], m, create_graph=True)[0] for m in mixed]
    return (torch.stack([slope.norm() for slope in slopes]) - 1).pow(2).mean()


def test_the_training_is_the_published_algorithm(tmp_path: Path, start: nn.Module) -> None:
    """Two epochs of two batches by hand, with torch.optim.Adam; G steps at batch 2 and 4."""
    options = {"epochs": 2, "mse_weight": 3.0, "gradient_penalty": 7.0, "lr": 1e-3}
    task, _ = gan_task(tmp_path, start, train=64, **options)
    found = gan(task)
    fake_of = copy.deepcopy(start).train()
    for name, weights in fake_of.named_parameters():
        weights.requires_grad_(name not in before_norms(start))
    torch.manual_seed(derive(0, "critic"))
    critic = Critic((1, 16, 16), 8)
    optimisers = [
        torch.optim.Adam(module.parameters(), lr=lr, betas=(0.5, 0.999))
        for module, lr in ((critic, 5e-3), (fake_of, 1e-3))
    ]
    for epoch in (1, 2):
        numbers = []
        noise, mixtures = (generator(0, f"attack_{n}", epoch) for n in ("noise", "mixtures"))
        order = torch.randperm(64, generator=generator(0, "attack_order", epoch))
        for count in (2 * epoch - 1, 2 * epoch):
            part = order[:32] if count % 2 else order[32:]
            real = task.own.images[part].float() / 255
            z = task.own.features[part] + 0.05 * torch.randn((32, 1, 4, 4), generator=noise)
            fake = fake_of(z)
            share = torch.rand((32, 1, 1, 1), generator=mixtures)
            mixed = (share * real + (1 - share) * fake.detach()).requires_grad_()
            gap, mse = critic(real).mean() - critic(fake.detach()).mean(), F.mse_loss(fake, real)
            loss = 7.0 * penalty_by_images(critic, mixed) - gap
            numbers.append((loss.item(), gap.item(), mse.item()))
            optimisers[0].zero_grad()
            loss.backward()
            optimisers[0].step()
            if count % 2 == 0:
                optimisers[1].zero_grad()
                (-critic(fake).mean() + 3.0 * mse).backward()
                optimisers[1].step()
        row, keys = found.history[epoch - 1], ("critic_loss", "wasserstein", "train_mse")
        assert {*row} == {"epoch", "lr", *keys, "val_mse", "val_recon_top1", "seconds"}
        expected = torch.tensor(numbers).mean(0).tolist()
        assert [row[key] for key in keys] == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert share_off(found.state, fake_of.named_parameters()) < 0.02
    answers = fake_of.eval()(task.released).detach()
    torch.testing.assert_close(found.reconstructions, answers, rtol=0, atol=2e-3)


def test_steps_are_counted_across_epochs(tmp_path: Path, start: nn.Module) -> None:
    """With one batch an epoch and a step of G at every third, the third epoch moves it."""
    options = {"critic_steps": 3, "train": 32}
    state = gan(gan_task(tmp_path / "moved", start, epochs=3, **options)[0]).state
    still = {n for n, weights in start.named_parameters() if torch.equal(state[n], weights)}
    assert still == before_norms(start) != set()
    with pytest.raises(DivergedError, match="2 batches in all are fewer than critic_steps"):
        gan(gan_task(tmp_path / "idle", start, epochs=2, **options)[0])
    alone = {"critic_steps": 3, "train": 17, "batch_size": 8}  # the last image is in no batch
    with pytest.raises(DivergedError, match="2 batches in all"):
        gan(gan_task(tmp_path / "alone", start, epochs=1, **alone)[0])


def test_a_strong_budget_is_three_times_the_epochs_at_one_rate(
    tmp_path: Path, start: nn.Module
) -> None:
    task, _ = gan_task(tmp_path, start, epochs=1, budget="strong")
    assert [row["lr"] for row in gan(task).history] == [5e-4] * 3


def test_an_interrupted_attack_ends_with_the_same_bits(tmp_path: Path, start: nn.Module) -> None:
    """In an epoch of three batches and with a step of G at every second."""
    task, _ = gan_task(tmp_path / "alone", start, epochs=4)
    again = killed(gan, task, tmp_path / "killed", writes=1)
    assert again.checkpoint.load() is not None
    assert same(gan(again), gan(task))


def test_a_gan_that_diverges_says_where(tmp_path: Path, start: nn.Module) -> None:
    task, _ = gan_task(tmp_path, start, critic_lr=1e30)
    with pytest.raises(DivergedError, match=r"epoch \d+: (critic_loss|wasserstein|\w+_mse) is"):
        gan(task)
