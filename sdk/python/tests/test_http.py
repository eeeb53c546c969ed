"""Requests as they leave, and answers as they are read."""

import unittest

from toolhost import BadBody, BadRequest, NetworkError, Refused, declarations, fetch, runtime, testing, tool
from toolhost.tools import Context


class Http(unittest.TestCase):
    def sent(self, *arguments, **named):
        with testing.responding(testing.response(200)) as sent:
            fetch(*arguments, **named)
        return sent[0]

    def test_a_request_leaves_as_it_was_built(self):
        sent = self.sent("https://a.example/x?y=1#z", "post", query={"q": "a b&", "n": [1, 2], "no": None},
                         headers={"X-Kind": "test"}, json=["é"])
        self.assertEqual((sent.method, sent.url), ("POST", "https://a.example/x?y=1&q=a%20b%26&n=1&n=2"))
        self.assertEqual(sent.headers, [("x-kind", "test"), ("content-type", "application/json"), ("content-length", "6")])
        self.assertEqual(sent.json(), ["é"])
        self.assertEqual(self.sent("http://a.example").headers, [])
        self.assertEqual(self.sent("http://a.example", "PUT").headers, [("content-length", "0")])
        self.assertEqual(self.sent("https://a.example/é ü%20|?q=a\"b").url, "https://a.example/%C3%A9%20%C3%BC%20%7C?q=a%22b")

    def test_an_answer_is_read(self):
        answer = testing.response(301, "é".encode("latin-1"), {"Content-Type": "text/plain; charset=latin-1", "Location": "/y"})
        with testing.responding(answer):
            found = fetch("https://a.example")
        self.assertEqual((found.status, found.ok, found.text, found.header("LOCATION")), (301, False, "é", "/y"))
        with testing.responding({"https://a.example/x": testing.response(200, {"a": 1})}):
            self.assertEqual(fetch("https://a.example/x", query={"q": 1}).json(), {"a": 1})
            self.assertEqual(fetch("https://a.example/other").status, 404)
            with self.assertRaises(BadBody):
                fetch("https://a.example/other").json()

    def test_what_cannot_be_sent_says_why(self):
        for timeout in (0, -1, "30", float("nan"), 1e30):
            with self.assertRaisesRegex(BadRequest, "`timeout` is .*; it takes seconds, more than 0"):
                fetch("https://a.example", timeout=timeout)
        for url, text in [
            ("a.example", "it has no scheme"), ("ftp://a.example", "neither https nor http"), ("https://", "ASCII letters"),
            ("https://u:p@a.example", "user name"), ("https://ä.example", "ASCII letters"), ("https://a.example/\n", "control character"),
        ]:
            with self.assertRaisesRegex(BadRequest, text):
                self.sent(url)
        with self.assertRaisesRegex(BadRequest, "no method"):
            self.sent("https://a.example", "BREW")
        with self.assertRaisesRegex(BadRequest, "not both"):
            self.sent("https://a.example", "POST", body="x", json=1)
        with self.assertRaisesRegex(BadRequest, "cannot be written as JSON"):
            self.sent("https://a.example", "POST", json=object())
        with self.assertRaisesRegex(Refused, "testing.responding"):
            fetch("https://a.example")

    def test_a_refusal_stays_as_the_host_wrote_it(self):
        declarations.current = declarations.Plugin()

        @tool
        def ask() -> str:
            """Asks."""
            return fetch("https://a.example").text

        def answer(error):
            def respond(request):
                raise error

            with testing.fresh(), testing.responding(respond), self.assertRaises(runtime.Failure) as caught:
                runtime.call(declarations.current, "ask", "{}", Context())
            return caught.exception.message

        self.assertEqual(answer(Refused("run `toolhost grant x`")), "run `toolhost grant x`")
        self.assertRegex(answer(NetworkError("no route")), r"^NetworkError: no route \(test_http\.py:\d+\)$")


if __name__ == "__main__":
    unittest.main()
