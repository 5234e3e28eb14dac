"""Do the numbers deserve belief? Worlds whose answer is known, measured again and again.

`make calibrate` writes `docs/calibration.md` with its plots; the tests run the same functions with fewer
repetitions and the bands that hold at that size.
"""
