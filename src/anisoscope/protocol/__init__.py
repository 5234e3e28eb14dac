"""Looks in, rows out: proxies, gradients, controls, measurements."""
