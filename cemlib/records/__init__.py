"""What every system writes and reads: files, their places, checksums, checkpoints and scores."""
