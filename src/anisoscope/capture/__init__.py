"""From a model, or from anybody's arrays, to a `Look`: hidden states and gradients of the same positions."""
