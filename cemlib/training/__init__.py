"""Training of defended split classifiers."""
