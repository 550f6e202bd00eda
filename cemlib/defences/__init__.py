"""What a defence does to the features: the release channel (and, later, penalties and pruning)."""
