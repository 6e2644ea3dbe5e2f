"""How often a program is claimed to be faster or slower than itself, and how often a real gain is found, under made-up noise.

    python benchmarks/self_claims.py --times 5000

Uses the noises of tests/pure/gpu_validate/test_statistics.py and every look that the latency gate could take.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    sys.path.insert(0, str(ROOT))
    from stitchcuda.gpu_validate.statistics import LOOKS, Claim, rank_claim

    from tests.pure.gpu_validate.test_statistics import NOISES, runs

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1000)
    times = parser.parse_args().times
    gains = (1.0, 1.05, 1.1, 1.25)
    print(f"claims in {times} comparisons of {2 * LOOKS[-1]} runs a version, by the true gain")
    print(f"{'noise':<18}" + "".join(f"{gain:>8}" for gain in gains))
    for noise in NOISES:
        counts = []
        for gain in gains:
            blocks = (runs(noise, seed, gain) for seed in range(times))
            counts.append(sum(any(rank_claim(b[:n]) is not Claim.OPEN for n in LOOKS) for b in blocks))
        print(f"{noise.__name__:<18}" + "".join(f"{count:>8}" for count in counts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
