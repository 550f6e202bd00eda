"""Measure what this package costs, beside a reference and the arithmetic floor."""
