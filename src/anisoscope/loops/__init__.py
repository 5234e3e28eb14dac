"""Ways to sit beside a training loop. The user keeps the loop."""
