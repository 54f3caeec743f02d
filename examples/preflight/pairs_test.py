"""Run with python3 -m unittest pairs_test in an image with PyTorch, or go test ./docs."""

import sys
import types
import unittest

for name in ("torch", "torch.distributed"):
    sys.modules.setdefault(name, types.ModuleType(name))
import pairs


class PairsTest(unittest.TestCase):
    def test_each_rank_has_two_partners(self):
        for size in range(3, 12):
            met = {rank: set() for rank in range(size)}
            for round_ in range(pairs.ROUNDS):
                partners = pairs.partners(size, round_)
                for rank, partner in partners.items():
                    if partner is not None:
                        self.assertEqual(partners[partner], rank)
                        met[rank].add(partner)
            for rank, others in met.items():
                self.assertGreaterEqual(len(others), 2, f"rank {rank} of {size} met {others}")

    def test_only_the_rank_on_the_slow_node_is_slow(self):
        for size in range(3, 12):
            for slow in range(size):
                speeds = [[0.0] * pairs.ROUNDS for _ in range(size)]
                for round_ in range(pairs.ROUNDS):
                    for rank, partner in pairs.partners(size, round_).items():
                        if partner is not None:
                            speeds[rank][round_] = 1.0 if slow in (rank, partner) else 100.0
                self.assertEqual(pairs.slow_ranks(speeds), [slow])

    def test_no_rank_is_slow_in_a_slow_network(self):
        self.assertEqual(pairs.slow_ranks([[1.0], [1.1], [0.9]]), [])


if __name__ == "__main__":
    unittest.main()
