"""Networks as users write them."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Residual(nn.Module):
    """A functional forward: flatten, ReLU in place, residual adds, dropout by the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(8)
        self.scale = nn.Parameter(torch.full((8, 1, 1), 1.5))
        self.register_buffer("shift", torch.full((8, 1, 1), 0.25))
        self.last = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: Tensor, temperature: float = 2.0) -> Tensor:
        x = F.relu(self.stem(x * torch.tensor([[[0.5]]])), inplace=True)
        for layer in self.body:
            x = x + F.relu(layer(x))
        x = F.max_pool2d(self.norm(x), 4)
        x = F.relu_(x) * self.scale + self.shift
        x = F.dropout(x, 0.5, training=self.training)
        return self.last(x.view(x.size(0), -1)) / temperature


class Around(nn.Module):
    """The input goes around the cut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 3, 1), nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).sigmoid() * x)


class TwoLayers(nn.Module):
    """A client and a server of one layer each, for batches of vectors (B, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)


class Deciding(TwoLayers):
    """What it does depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.flatten(1)[:, :4])
        return self.last(x if x.mean() > 0 else -x)


class Shared(nn.Module):
    """One layer's weights on both sides of the cut: it is called twice, or its weight is used."""

    def __init__(self, called: bool) -> None:
        super().__init__()
        self.called = called
        self.first, self.middle = nn.Linear(4, 4, bias=False), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        z = self.middle(self.first(x))
        return self.first(z) if self.called else F.linear(z, self.first.weight)


class Dropping(TwoLayers):
    """Acts in place and drops the result."""

    def __init__(self, act: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        self.act(x)
        return self.last(x)


class Aside(TwoLayers):
    """One of its submodules sees no image."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.ones(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x + self.first(self.place))


class Folding(TwoLayers):
    """Two rows of features for every image, joined behind the cut."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x.view(-1, 4)).view(-1, 2, 4).sum(1))


class Pair(nn.Module):
    """Takes two batches."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Bilinear(4, 4, 2)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return self.first(x, other)


class Several(TwoLayers):
    """Returns more than logits."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        return self.last(x), x


class Wrapped(nn.Module):
    """All of it is one submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(2 * 14 * 14, 3))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


class Modes(TwoLayers):
    """Computes something without gradients, or in bfloat16."""

    def __init__(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self.context = context

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        with self.context():
            y = x @ x.T
        return self.last(y @ x)
