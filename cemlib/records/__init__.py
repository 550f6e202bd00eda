"""Files of results: their paths, checksums, checkpoints, provenance and scores."""
