"""The runner's own parts: python3 -m unittest discover -s conformance/tests"""

import json
import pathlib
import struct
import sys
import tempfile
import unittest
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import clients, compare, corpus, proxy, records, streams, text
from lib.checks import stock
from lib.dump import Found
from lib.records import Record


class Records(unittest.TestCase):
    def test_a_record_file_keeps_every_record_of_the_corpus(self) -> None:
        sent = [case.record for case in corpus.cases("seed")]
        with tempfile.NamedTemporaryFile() as file:
            self.assertEqual(records.write(file.name, sent), len(sent))
            self.assertEqual(list(records.read(file.name)), sent)

    def test_null_and_empty_are_different_fields(self) -> None:
        self.assertEqual((records.field(None), records.field(b"")), ("-", "+"))
        self.assertIsNone(records.parse_field("-"))
        self.assertEqual(records.parse_field("+"), b"")


class StreamsOutput(unittest.TestCase):
    expected = streams.expectation(50)

    def found(self, topic: str) -> list[Found]:
        values = [(key, value) for key, values in self.expected[topic].items() for value in values]
        return [Found(0, at, Record(0, key.encode(), value.encode())) for at, (key, value) in enumerate(values)]

    def test_what_the_input_says_is_right(self) -> None:
        for topic in streams.OUTPUTS:
            self.assertEqual(streams.compare(topic, self.expected[topic], self.found(topic)), [])

    def test_a_record_twice_and_one_too_few_are_wrong(self) -> None:
        for topic in streams.OUTPUTS:
            found = self.found(topic)
            self.assertEqual(len(streams.compare(topic, self.expected[topic], [*found, found[-1]])), 1)
            self.assertEqual(len(streams.compare(topic, self.expected[topic], found[:-1])), 1)


class Compare(unittest.TestCase):
    good = Record(5, b"key", b"value", (("a", b"1"), ("b", None), ("a", b"2")))

    def test_equal_records_have_no_difference(self) -> None:
        self.assertIsNone(compare.difference([self.good], [self.good]))

    def test_every_kind_of_change_is_a_difference(self) -> None:
        changes = [
            replace(self.good, timestamp=6),
            replace(self.good, key=b""),
            replace(self.good, key=None),
            replace(self.good, value=b"valuE"),
            replace(self.good, value=None),
            replace(self.good, headers=()),
            replace(self.good, headers=(("a", b"1"), ("b", b""), ("a", b"2"))),
            replace(self.good, headers=(("a", b"1"), ("a", b"2"), ("b", None))),
        ]
        for changed in changes:
            self.assertIsNotNone(compare.difference([self.good], [changed]), changed)

    def test_a_missing_and_a_further_record_are_differences(self) -> None:
        self.assertIsNotNone(compare.difference([self.good], []))
        self.assertIsNotNone(compare.difference([self.good], [self.good, self.good]))

    def test_grouped_headers_may_only_change_places_among_names(self) -> None:
        moved = replace(self.good, headers=(("a", b"1"), ("a", b"2"), ("b", None)))
        swapped = replace(self.good, headers=(("a", b"2"), ("a", b"1"), ("b", None)))
        self.assertIsNone(compare.difference([self.good], [moved], groups_headers=True))
        self.assertIsNotNone(compare.difference([self.good], [swapped], groups_headers=True))

    def test_an_unset_timestamp_becomes_any_real_one(self) -> None:
        unset = replace(self.good, timestamp=-1)
        self.assertIsNone(compare.difference([unset], [self.good]))
        self.assertIsNotNone(compare.difference([unset], [replace(self.good, timestamp=0)]))


class Corpus(unittest.TestCase):
    def test_what_a_client_cannot_write_is_left_out(self) -> None:
        everything = corpus.writable("seed", [])
        without = corpus.writable("seed", ["null-header"])
        self.assertTrue(any(value is None for record in everything for _, value in record.headers))
        self.assertFalse(any(value is None for record in without for _, value in record.headers))

    def test_the_tags_of_all_clients_exist(self) -> None:
        tags = {tag for case in corpus.cases("seed") for tag in case.tags} | {"timestamps"}
        for client in clients.known():
            self.assertLessEqual(set(client.cannot_write), tags, client.name)


class Text(unittest.TestCase):
    def test_chunks_and_lines_put_together_are_the_text(self) -> None:
        content = text.make(200_000)
        self.assertGreaterEqual(len(content), 200_000)
        self.assertEqual(b"".join(record.value for record in text.chunks(content)), content)
        self.assertEqual(b"".join(record.value + b"\n" for record in text.lines(content)), content)


class FetchRequest(unittest.TestCase):
    def test_the_session_is_found_at_every_version(self) -> None:
        for version in range(7, 17):
            frame = struct.pack(">hhih", 1, version, 42, 3) + b"abc"
            frame += b"\0" if version >= 12 else b""
            frame += struct.pack(">i", -1) if version < 15 else b""
            frame += struct.pack(">iiibii", 500, 1, 1 << 20, 0, 77, 3)
            self.assertEqual(proxy.parse_fetch(frame), proxy.Fetch(version, 500, 77, 3))


class Stock(unittest.TestCase):
    step = stock.Step("step", "kafka-topics", ())

    def test_what_differs_between_runs_is_gone(self) -> None:
        output = (
            "[2026-01-02 03:04:05,678] ERROR x\n\tat a.B.c(D.java:1)\n\t... 3 more\n"
            "Topic: t\tTopicId: kaJv1KhCQH-3vZk5oPz1aQ\tLeader: 7\n127.0.0.1:9092\n"
        )
        wanted = "ERROR x\nTopic: t\tTopicId: ID\tLeader: N\nHOST:PORT\n"
        self.assertEqual(stock.normalised(self.step, output), wanted)

    def test_only_the_named_lines_are_kept(self) -> None:
        step = stock.Step("step", "kafka-topics", (), only=(r"^b", r"^a"))
        self.assertEqual(stock.normalised(step, "exit code 0\nb1\nc\na1\n"), "exit code 0\na1\nb1\n")

    def test_every_known_difference_belongs_to_a_step_and_has_a_reason(self) -> None:
        names = {step.name for step in stock.STEPS}
        for difference in json.loads(stock.DIFFERENCES.read_text()):
            self.assertIn(difference["step"], names)
            self.assertTrue(difference["reason"])


if __name__ == "__main__":
    unittest.main()
