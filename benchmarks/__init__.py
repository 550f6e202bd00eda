"""What this package costs, beside a reference in the same run and the arithmetic floor."""
