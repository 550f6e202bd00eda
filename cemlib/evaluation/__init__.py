"""Attacks carried out on finished runs, and scored."""
