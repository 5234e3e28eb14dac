"""Tensors in, results out. Knows no model, no file, no hook."""
