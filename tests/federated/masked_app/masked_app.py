"""A Flower app as a user would write it: a network, one step of training, and the mask."""

from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.federated.mods import masking


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(32, 3)]
    return nn.Sequential(*layers)


def images(_: Context | None = None) -> Tensor:
    return torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(1))


client = ClientApp(mods=[masking(network(), "4", images, alpha=0.25)])
server = ServerApp()


@client.train()
def train(message: Message, _: Context) -> Message:
    net = network()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    descent = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        descent.zero_grad()
        F.cross_entropy(net(images()), torch.tensor([0, 1, 2, 0])).backward()
        descent.step()
    answer = ArrayRecord(torch_state_dict=net.state_dict())
    return Message(RecordDict({"arrays": answer}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    while not (nodes := list(grid.get_node_ids())):
        pass
    sent = RecordDict({"arrays": ArrayRecord(torch_state_dict=network().state_dict())})
    replies = grid.send_and_receive(
        [Message(sent, dst_node_id=nodes[0], message_type="train")], timeout=120
    )
    (reply,) = replies
    assert not reply.has_error(), reply.error
    out = Path(str(context.run_config["out"]))
    save_file(reply.content["arrays"].to_torch_state_dict(), out.with_suffix(".part"))
    out.with_suffix(".part").rename(out)
