"""Carry out the same rounds across processes, by Flower (see docs/federated.md).

Client `partition-id` of a SuperNode's configuration trains as `Federation` would train it; the
server asks, averages and scores as `Federation` does, but for where the answers come from. Every
process reads the study's configuration and its prepared data, and with `--only pseudo` made
generators where the variant mixes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from cemlib.config.federated import Federated
from cemlib.config.load import load_as
from cemlib.data.prepared import load
from cemlib.federated.client import stack
from cemlib.federated.network import Weights
from cemlib.federated.rounds import Federation
from cemlib.federated.training import read_pseudo
from cemlib.numerics.precision import set_up
from cemlib.records.files import save_tensors, write_jsonl
from cemlib.study.federated import train_job
from cemlib.study.plan import Plan, chosen

TIMEOUT = 600.0  # seconds for all answers of a round
WAIT = 0.5  # seconds between two looks for clients

client = ClientApp()
server = ServerApp()


@dataclass
class Spread(Federation):
    """Ask clients that are other processes.

    Attributes:
        grid: Sends messages to them.
        nodes: Their addresses by client.
    """

    grid: Grid | None = None
    nodes: dict[int, int] = field(default_factory=dict)

    def answers(self, members: Sequence[int], number: int) -> tuple[Weights, Tensor]:
        """Ask the members' processes; one that fails has an answer without numbers, and no loss."""
        assert self.grid is not None
        content = RecordDict(
            {
                "weights": ArrayRecord(torch_state_dict=dict(self.weights)),
                "round": ConfigRecord({"number": number}),
            }
        )
        asked = [_message(content, self.nodes[member], "train") for member in members]
        found = _by_client(self.grid.send_and_receive(asked, timeout=TIMEOUT))
        nothing = {name: torch.full_like(w, torch.nan) for name, w in self.weights.items()}
        answers = [_update(found.get(member), nothing) for member in members]
        losses = [found[member]["metrics"]["loss"] for member in members if member in found]
        return stack(answers), torch.tensor(losses)[:, None]


@client.query()
def who(message: Message, context: Context) -> Message:
    """Answer which client this process is."""
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
    metrics = MetricRecord({"client": _client(context), "loss": float(losses.mean())})
    return Message(RecordDict({"update": update, "metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out all rounds; write history and weights into the folder `flower` of the results."""
    found = _federation(context)
    nodes = _nodes(grid, found.study.clients.number)
    federation = Spread(
        found.study, found.variant, found.data, found.pseudo, found.seed, grid=grid, nodes=nodes
    )
    folder = Plan(found.study).layout.root / "flower" / str(context.run_config["variant"])
    for _ in federation.remaining():
        write_jsonl(folder / f"seed{found.seed}.jsonl", federation.history)
    save_tensors(folder / f"seed{found.seed}.safetensors", federation.weights)


def _federation(context: Context) -> Federation:
    """Build what the run's configuration says, with the weights of the first round."""
    settings = context.run_config
    plan = Plan(load_as(Federated, Path(str(settings["config"]))))
    (variant,) = chosen("variant", tuple(plan.study.variants), str(settings["variant"]))
    (seed,) = chosen("seed", plan.study.seeds, int(settings["seed"]))
    job = train_job(plan, variant, seed, "cpu")
    set_up(job.processor(), plan.study.threads)
    data, mixing = load(plan.layout.data), plan.study.variants[variant].mixing
    pseudo = read_pseudo(job, data) if mixing is not None else None
    return Federation(plan.study, plan.study.variants[variant], data, pseudo, seed)


def _nodes(grid: Grid, clients: int) -> dict[int, int]:
    """Return the address of every client, when all are there."""
    found: dict[int, int] = {}
    while len(found) < clients:
        nodes = list(grid.get_node_ids())
        if len(nodes) < clients:
            time.sleep(WAIT)
            continue
        asked = [_message(RecordDict(), node, "query") for node in nodes]
        replies = _replies(grid.send_and_receive(asked, timeout=TIMEOUT))
        found = {int(r.content["metrics"]["client"]): r.metadata.src_node_id for r in replies}
    return found


def _message(content: RecordDict, node: int, kind: str) -> Message:
    return Message(content, dst_node_id=node, message_type=kind)


def _replies(messages: Any) -> list[Message]:
    return [message for message in messages if not message.has_error()]


def _by_client(messages: Any) -> dict[int, RecordDict]:
    return {int(r.content["metrics"]["client"]): r.content for r in _replies(messages)}


def _update(content: RecordDict | None, nothing: Weights) -> Weights:
    return nothing if content is None else dict(content["update"].to_torch_state_dict())


def _client(context: Context) -> int:
    return int(context.node_config["partition-id"])
