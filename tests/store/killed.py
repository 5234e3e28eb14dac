"""A process that starts writers and kills each at a random instant: `python killed.py FOLDER NUM_KILLS SEED`.

Forked from here, where everything is imported already, a writer is under way at once. It notes each look that it has
committed in `FOLDER/<n>.log`, past any buffer.
"""

import os
import random
import signal
import sys
import time

import numpy as np

from anisoscope.store import Writer

NUM_ROWS = 40


def write_on(path: str, log: int) -> None:
    writer = Writer(path, {"name": "doomed"})
    for step in range(100_000):
        rows = [{"step": step, "layer": f"blocks.{i}", "statistic": "loss", "value": step + i} for i in range(NUM_ROWS)]
        kept = [{"step": step, "statistic": "loss", "replicates": np.full(50, step, np.float32)}]
        writer.commit(step, rows, kept, {"blocks.0|pca|all": np.full((512, 32), step, np.float32)})
        os.write(log, f"{step}\n".encode())


def main(folder: str, num_kills: int, seed: int) -> None:
    rng = random.Random(seed)
    for kill in range(num_kills):
        log = os.open(f"{folder}/{kill}.log", os.O_CREAT | os.O_WRONLY)
        child = os.fork()
        if child == 0:
            write_on(f"{folder}/{kill}", log)
        time.sleep(rng.uniform(0.02, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(log)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
