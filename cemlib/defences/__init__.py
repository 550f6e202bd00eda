"""Defences beside the surrogates: release channels, training penalties and pruning."""
