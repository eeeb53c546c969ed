"""What a plugin asks of its host, answered by the one in memory."""

import unittest

from toolhost import host, kv, log, progress, secrets, testing


class Host(unittest.TestCase):
    def test_kv_in_memory_is_like_the_hosts(self):
        with testing.fresh(kv={"b": "1"}) as memory:
            kv.set("a", "x")
            self.assertEqual((kv.get("a"), kv.get_text("a"), kv.get("none"), kv.get_json("b")), (b"x", "x", None, 1))
            self.assertEqual((kv.swap("a", "y", None), kv.swap("a", "x", None), kv.delete("a")), (False, True, False))
            self.assertEqual(kv.update("n", lambda n: n + 1, 0), 1)
            self.assertEqual(kv.update("n", lambda n: n + 1, 0), 2)
            for number in range(2_500):
                kv.set(f"k{number:04}", "")
            self.assertEqual(len(list(kv.keys("k"))), 2_500)
            self.assertEqual(len(memory.store), 2_502)
            with self.assertRaisesRegex(kv.Invalid, "key of 0 bytes; allowed are 1 to 512"):
                kv.set("", "")
            with self.assertRaises(kv.Invalid):
                kv.set("x", b"x" * (2 << 20))
            kv.set("t", b"\xff")
            with self.assertRaisesRegex(TypeError, "given 5; for other values there is `kv.set_json`"):
                kv.set("x", 5)
            with self.assertRaises(kv.Malformed):
                kv.get_text("t")
            with self.assertRaises(kv.Malformed):
                kv.get_json("t")

    def test_logs_progress_and_secrets(self):
        with testing.fresh(secrets=["KEY"]) as memory:
            log.info("a")
            log.error(3)
            progress(1, 2, "half")
            self.assertEqual(memory.logged, [("info", "a"), ("error", "3")])
            self.assertEqual(memory.progress_reports, [(1.0, 2.0, "half")])
            self.assertEqual((secrets.present("KEY"), secrets.present("X")), (True, False))
            self.assertEqual((secrets.placeholder("KEY"), secrets.placeholder("X")), ("{{secret:KEY}}", None))
        self.assertIsNot(host.current, memory)


if __name__ == "__main__":
    unittest.main()
