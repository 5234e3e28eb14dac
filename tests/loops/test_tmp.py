import numpy as np, anisoscope as an
def test_x():
    rng = np.random.default_rng(0)
    an.measure(an.Look.from_arrays(rng.normal(size=(400, 16)), rng.normal(size=(400, 16)), step=0), ranks=(4,))
