"""Train federatedly, doubly perturbed: pseudo images in the data, a mask in the gradients."""
