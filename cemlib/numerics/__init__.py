"""Arithmetic of training, surrogates and attacks: optimisers, replayed steps, sums, seeds."""
