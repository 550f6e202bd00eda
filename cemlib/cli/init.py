"""`cemlib init`: a first study of one's own images, as a file with comments."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

# 32 pixels and short schedules: an hour or two on two cores for some thousand images.
TEMPLATE = """\
# A study of your own images. config/README.md names every key with its default.
#   cemlib doctor --config {name}.yaml                  what is missing
#   cemlib estimate --config {name}.yaml                what it takes
#   snakemake --cores 2 --configfile {name}.yaml        or: cemlib run --config {name}.yaml
experiment: {name}

# Each training and each attack is repeated with every seed. Intervals need two, small effects more.
seeds: [0, 1, 2]

# The defence that the others are compared with.
reference: noise

# Folders train/<class>/* and test/<class>/*, or <class>/* alone, of which a part is held out.
data:
  source: folder
  root: {root}
  image_size: 32

# The client computes the layers before the cut. Deeper cuts hide more by themselves.
model:
  name: vgg11
  cut: 4

# The published schedule has 240 epochs, lr 0.05 and a fifth of it at 60, 120, 180 and 210.
train:
  epochs: 40
  milestones: [10, 20, 30, 35]

# A defence is release noise, and perhaps a surrogate that is added to the training loss. A larger
# lambda costs accuracy: `cemlib match` finds the one that leaves the accuracy that you name.
defences:
  none:
    noise_std: 0.0
  noise:
    noise_std: 0.1
  clustering:
    noise_std: 0.1
    surrogate: {{name: clustering, lambda: 16}}

# Each is carried out twice: by an attacker with the training images, and by one with other images
# of the same kind. A result is marked where the attack was still improving: give it more epochs.
attacks:
  decoder:
    epochs: 20
  linear: {{}}
  mean_image: {{}}
"""


def init(options: argparse.Namespace) -> Iterator[Path]:
    """Write a commented study of an image folder, to be edited.

    Raises:
        ConfigError: if the file is there already.
    """
    from cemlib.config import ConfigError
    from cemlib.records.files import write_text

    path = Path(f"{options.name}.yaml")
    if path.exists():
        raise ConfigError(f"{path}: is there already; choose another name, or delete it")
    root = json.dumps(str(options.images))  # a JSON text is one of YAML, whatever it holds
    write_text(path, TEMPLATE.format(name=options.name, root=root))
    yield path
