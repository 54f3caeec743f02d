"""Run with python3 -m unittest checkpoint_test, or go test ./docs."""

import os
import subprocess
import sys
import tempfile
import unittest

import checkpoint


def write(content):
    return lambda file: file.write(content)


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "run")

    def test_first_attempt_starts_at_step_0(self):
        self.assertEqual(checkpoint.newest(self.path), (0, None))

    def test_newest_is_by_number(self):
        for step in (9, 10):
            checkpoint.save(self.path, step, write(b"%d" % step))
        step, path = checkpoint.newest(self.path)
        with open(path, "rb") as file:
            self.assertEqual((step, file.read()), (10, b"10"))

    def test_failed_write_keeps_the_last_checkpoint(self):
        checkpoint.save(self.path, 10, write(b"good"))

        def fail(file):
            file.write(b"half of")
            raise OSError("No space left on device")

        with self.assertRaises(OSError):
            checkpoint.save(self.path, 20, fail)
        self.assertEqual(checkpoint.newest(self.path)[0], 10)

    def test_killed_process_keeps_the_last_checkpoint(self):
        checkpoint.save(self.path, 10, write(b"good"))
        program = (
            "import checkpoint, os, signal, sys\n"
            "def write(file):\n"
            "    file.write(b'half of'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
            "checkpoint.save(sys.argv[1], 20, write)\n"
        )
        here = os.path.dirname(os.path.abspath(__file__))
        code = subprocess.call([sys.executable, "-c", program, self.path], cwd=here)
        self.assertEqual(code, -9)
        self.assertEqual(checkpoint.newest(self.path)[0], 10)
        checkpoint.save(self.path, 20, write(b"second attempt"))  # over the remains of the first
        self.assertEqual(checkpoint.newest(self.path)[0], 20)

    def test_only_the_newest_are_kept(self):
        for step in range(0, 50, 10):
            checkpoint.save(self.path, step, write(b""), keep=2)
        self.assertEqual(checkpoint.list_steps(self.path), [30, 40])

    def test_other_files_are_ignored(self):
        checkpoint.save(self.path, 10, write(b""))
        for name in ("step-99.pt.partial", "step-x.pt", "latest"):
            with open(os.path.join(self.path, name), "wb"):
                pass
        self.assertEqual(checkpoint.newest(self.path)[0], 10)


if __name__ == "__main__":
    unittest.main()
