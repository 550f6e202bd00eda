"""Carry out the same rounds across processes, with Flower (see docs/federated.md).

Each SuperNode trains the client `partition-id` as `Federation` would train it; the server asks,
averages and scores as `Federation` does, with answers from other processes. Every process reads the
study's configuration, its prepared data and, if the variant mixes, the generators written by
`cemlib run --only gans`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from cemlib.config.federated import Federated
from cemlib.config.load import load_as
from cemlib.federated.job import read_data, read_pseudo, variant_of
from cemlib.federated.network import Weights, stack
from cemlib.federated.rounds import Federation
from cemlib.records.files import save_tensors, write_jsonl
from cemlib.study.federated import train_job
from cemlib.study.plan import Plan, chosen

TIMEOUT = 600.0  # seconds for all answers of a round
WAIT = 0.5  # seconds between two searches for clients

client = ClientApp()
server = ServerApp()


@dataclass(kw_only=True)
class RemoteFederation(Federation):
    """A federation whose clients are other processes, at the addresses `nodes`, by client."""

    grid: Grid
    nodes: dict[int, int]

    def answers(self, members: Sequence[int], number: int) -> tuple[Weights, Tensor]:
        """Return the answers of the members' processes, and their losses.

        The answer of a process that fails, or whose tensors do not match the weights, is NaN,
        without a loss.
        """
        weights = ArrayRecord(torch_state_dict=dict(self.weights))
        content = RecordDict({"weights": weights, "round": ConfigRecord({"number": number})})
        replies = _replies(self.grid, content, [self.nodes[member] for member in members], "train")
        nothing = {name: torch.full_like(w, torch.nan) for name, w in self.weights.items()}
        answers, losses = [], []
        for member in members:
            reply = replies.get(self.nodes[member])
            update = {} if reply is None else dict(reply.content["update"].to_torch_state_dict())
            if reply is None or _shapes(update) != _shapes(self.weights):
                answers.append(nothing)
            else:
                answers.append(update)
                losses.append(reply.content["metrics"]["loss"])
        return stack(answers), torch.tensor(losses)[:, None]


@client.query()
def who(message: Message, context: Context) -> Message:
    """Reply with the number of this process's client."""
    known = MetricRecord({"client": _client(context)})
    return Message(RecordDict({"metrics": known}), reply_to=message)


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train this process's client for one round."""
    federation = _federation(context)
    federation.weights = dict(message.content["weights"].to_torch_state_dict())
    number = int(message.content["round"]["number"])
    changes, losses = federation.answers([_client(context)], number)
    update = ArrayRecord(torch_state_dict={name: tensor[0] for name, tensor in changes.items()})
    metrics = MetricRecord({"loss": float(losses.mean())})
    return Message(RecordDict({"update": update, "metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out all rounds; write history and weights to the folder `flower` of the results."""
    found = _federation(context)
    nodes = _nodes(grid, found.study.clients.number)
    federation = RemoteFederation(
        found.study, found.variant, found.data, found.pseudo, found.seed, grid=grid, nodes=nodes
    )
    folder = Plan(found.study).layout.root / "flower" / str(context.run_config["variant"])
    for number in range(1, found.study.train.rounds + 1):
        federation.epoch(number)
        write_jsonl(folder / f"seed{found.seed}.jsonl", federation.history)
    save_tensors(folder / f"seed{found.seed}.safetensors", federation.weights)


def _federation(context: Context) -> Federation:
    """Return the federation of the run's configuration, with its initial weights."""
    named = context.run_config
    plan = Plan(load_as(Federated, Path(str(named["config"]))), device="cpu")
    (variant,) = chosen("variant", plan.study.variants, str(named["variant"]))
    (seed,) = chosen("seed", plan.study.seeds, int(named["seed"]))
    job = train_job(plan, variant, seed)
    data, settings = read_data(job), variant_of(job)
    pseudo = read_pseudo(job, data) if settings.mixing is not None else None
    return Federation(plan.study, settings, data, pseudo, seed)


def _nodes(grid: Grid, clients: int) -> dict[int, int]:
    """Wait until all clients are connected, and return the address of each.

    Raises:
        ValueError: if they are not numbered from 0 on, each number once.
    """
    while True:
        nodes = list(grid.get_node_ids())
        replies = _replies(grid, RecordDict(), nodes, "query") if len(nodes) >= clients else {}
        if len(replies) >= clients:
            break
        time.sleep(WAIT)
    numbers = {node: int(reply.content["metrics"]["client"]) for node, reply in replies.items()}
    if sorted(numbers.values()) != list(range(clients)):
        raise ValueError(
            f"--node-config: expected partition-id=0 to {clients - 1}, each once, found"
            f" {sorted(numbers.values())}; start the SuperNodes again"
        )
    return {number: node for node, number in numbers.items()}


def _replies(
    grid: Grid, content: RecordDict, nodes: Sequence[int], kind: str
) -> dict[int, Message]:
    """Send a message to some nodes; return the replies without an error, by node."""
    asked = [Message(content, dst_node_id=node, message_type=kind) for node in nodes]
    replies = grid.send_and_receive(asked, timeout=TIMEOUT)
    return {reply.metadata.src_node_id: reply for reply in replies if not reply.has_error()}


def _shapes(tensors: Weights) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def _client(context: Context) -> int:
    return int(context.node_config.get("partition-id", -1))  # -1 is refused by `_nodes`
