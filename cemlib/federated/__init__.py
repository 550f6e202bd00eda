"""Federated learning with two perturbations: pseudo images in the data, a mask on the gradients."""
