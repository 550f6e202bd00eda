"""Mask the update of any Flower client: a mod for its `ClientApp`.

    client = ClientApp(mods=[masking(network, "classifier", images)])

A mod sees what a client receives and sends, and not the batches of its training. So the mask covers
the change of the layer's weight over the whole round, where `cemlib.federated.client` masks the
gradient of every step by the images of that step. The mixing with pseudo images changes the images
of the training, which no mod can do: there, call `cemlib.federated.gan_training.Pseudo.mixed`.
"""

from collections.abc import Callable

import torch
from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod
from torch import Tensor, nn

from cemlib.federated.mask import mask, scores


def masking(
    network: nn.Module, layer: str, images: Callable[[Context], Tensor], alpha: float = 0.5
) -> Mod:
    """Return a mod that masks what the weight of a linear layer shows of its input.

    The features that enter the layer are scored at the weights that the server sent. For the share
    `alpha` with the smallest scores (see `cemlib.federated.mask.scores`), the client answers with
    the weights that it received, so that the server sees no change. The client must answer with
    its weights: if it answers with their change, weights would take the place of changes.

    Args:
        network: A network of the client's architecture; its parameters have the names of the
            messages' arrays. It is overwritten and set to evaluation mode.
        layer: Name of the `nn.Linear` in it.
        images: Maps the client's context to some of its images (B, C, H, W); four are enough.
        alpha: Share of the features that are masked.

    Raises:
        AttributeError: if the network has no such layer.
        ValueError: in a round, if the message or the answer does not have exactly one record of
            arrays.
    """
    name, linear = f"{layer}.weight", network.get_submodule(layer)

    def features(x: Tensor) -> Tensor:
        entered: list[Tensor] = []
        handle = linear.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
        try:
            network(x)
        finally:
            handle.remove()
        return entered[0]

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if message.metadata.message_type.partition(".")[0] != MessageType.TRAIN:
            return call_next(message, context)
        _, received = _arrays("message", message.content)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        network.load_state_dict(received)
        network.eval()
        kept = mask(scores(features, images(context)), alpha).bool().cpu()
        record, sent = _arrays("answer", reply.content)
        sent[name] = torch.where(kept, sent[name], received[name])
        reply.content[record] = ArrayRecord(torch_state_dict=sent)
        return reply

    return mod


def _arrays(what: str, content: RecordDict) -> tuple[str, dict[str, Tensor]]:
    """Return the only record of arrays in a message, with its name."""
    records = content.array_records
    if len(records) != 1:
        raise ValueError(f"masking: the {what} has {len(records)} records of arrays, not one")
    ((name, record),) = records.items()
    return name, dict(record.to_torch_state_dict())
