"""Defences other than surrogates: release channels, training penalties and pruning."""
