"""Runs the cases that the SDKs of all languages have in common."""

import asyncio
import json
import pathlib
import socket
import threading
import unittest
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import unloop

CASES = json.loads((pathlib.Path(__file__).parent.parent / "conformance.json").read_text())
CLASSES = {
    "loop": unloop.LoopDetectedError,
    "unchecked": unloop.UncheckedError,
    "killed": unloop.KilledError,
    "limited": unloop.LimitedError,
    "check": unloop.CheckError,
}


def text(body):
    return body if isinstance(body, str) else json.dumps(body)


class Gateway:
    """Answers in turn, and keeps what was sent."""

    def __init__(self, answers):
        sent = self.sent = []
        rest = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                sent.append(SimpleNamespace(path=self.path, headers=self.headers, body=json.loads(body)))
                answer = rest.pop(0)
                reply = text(answer["body"]).encode()
                self.send_response(answer["status"])
                for name, value in answer.get("headers", {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        if answers:
            threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        else:
            self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.sent:
            self.server.shutdown()
            self.server.server_close()


class Conformance(unittest.TestCase):
    def wants(self, error, want):
        want = dict(want)
        self.assertIsInstance(error, CLASSES[want.pop("class", "loop")])
        message = want.pop("message", None)
        if message is not None:
            self.assertEqual(str(error), message)
        self.assertEqual({name: getattr(error, name) for name in want}, want)

    def test_answers(self):
        for case in CASES["answers"]:
            headers = {name.lower(): value for name, value in case["headers"].items()}
            openai = Exception("x")
            openai.body = case["body"].get("error") if isinstance(case["body"], dict) else case["body"]
            openai.response = SimpleNamespace(headers=headers, text=text(case["body"]))
            boto = Exception("x")
            boto.response = {**(case["body"] if isinstance(case["body"], dict) else {}), "ResponseMetadata": {"HTTPHeaders": headers}}
            outer = Exception("outer")
            outer.__cause__ = openai
            with Gateway([case]) as gateway:
                try:
                    urllib.request.urlopen(urllib.request.Request(gateway.url, b"{}"))
                except urllib.error.HTTPError as err:
                    errors = {"sdk": openai, "boto": boto, "cause": outer, "urllib": err}
                for kind, err in errors.items():
                    with self.subTest(case["name"], kind=kind):
                        found = unloop.loop_error(err)
                        if case["error"] is None:
                            self.assertIsNone(found)
                        else:
                            self.wants(found, case["error"])

    def test_checks(self):
        for case in CASES["checks"]:
            with self.subTest(case["name"]), Gateway([case["answer"]]) as gateway:
                client = unloop.Client(gateway.url + "/v1/", api_key="sk-one", headers={"X-Team": "red", "X-Own": "no"})
                ask = getattr(client, case["call"])
                if case["error"] and case["error"]["class"] == "check":
                    with self.assertRaises(unloop.CheckError) as caught:
                        ask(**case["with"], headers={"X-Own": "yes"})
                    self.wants(caught.exception, case["error"])
                else:
                    decision = ask(**case["with"], headers={"X-Own": "yes"})
                    self.assertEqual(decision.allowed, case["allowed"])
                    if case["allowed"]:
                        self.assertIsNone(decision.error)
                        self.assertEqual(decision.headers, {"X-Unloop-Check": case["tag"]})
                    else:
                        self.wants(decision.error, case["error"])
                        self.assertRaises(type(decision.error), decision.raise_if_stopped)
                (sent,) = gateway.sent
                self.assertEqual((sent.path, sent.body), ("/unloop/v1/check", case["sent"]))
                headers = [sent.headers[name] for name in ("Authorization", "X-Team", "X-Own", "Content-Type")]
                self.assertEqual(headers, ["Bearer sk-one", "red", "yes", "application/json"])

    def test_leases(self):
        for case in CASES["leases"]:
            with self.subTest(case["name"]), Gateway(case["answers"]) as gateway:
                problems, error = [], ""
                run = unloop.Client(gateway.url).run("s", project="demo", on_error=problems.append)
                try:
                    lease = run.lease("weather", {"city": "Oslo"})
                    for how, *what in case["settle"]:
                        getattr(lease, how)(*(map(LookupError, what) if how == "fail" else what))
                except unloop.StoppedError as err:
                    error = str(err)
                self.assertEqual((error, len(problems)), (case["error"], case.get("problems", 0)))
                self.assertEqual([s.body for s in gateway.sent], case["sent"])

    def test_guards(self):
        for case in CASES["guards"]:
            for kind in ("function", "coroutine"):
                with self.subTest(case["name"], kind=kind), Gateway(case["answers"]) as gateway:
                    self.guard(case, gateway, kind)

    def guard(self, case, gateway, kind):
        problems, called = [], []
        run = unloop.Client(gateway.url).run("s", project="demo", on_error=problems.append)

        @run.guard
        def weather(city):
            called.append(city)
            if "fails" in case:
                raise LookupError(case["fails"])
            return case["result"]

        if kind == "coroutine":
            plain = weather.__wrapped__

            async def weather(city):
                return plain(city)

            guarded = run.guard(weather)
            weather = lambda city: asyncio.run(guarded(city))  # noqa: E731
        error = ""
        try:
            self.assertEqual(weather("Oslo"), case["result"])
        except (unloop.StoppedError, LookupError) as err:
            error = str(err)
        self.assertEqual(error, case["error"])
        self.assertEqual((bool(called), len(problems)), (case["called"], case.get("problems", 0)))
        self.assertEqual([s.body for s in gateway.sent], case["sent"])
        self.assertEqual(run.headers, {"X-Session-ID": "s", "X-Project-ID": "demo"})

    def test_a_stopped_call_can_return_words_for_the_model(self):
        with Gateway([{"status": 200, "body": {"action": "block", "message": "try another city"}}]) as gateway:
            run = unloop.Client(gateway.url).run("s")
            guarded = run.guard(lambda city: self.fail(), name="weather", stopped=lambda d: d.message)
            self.assertEqual(guarded("Oslo"), "try another city")

    def test_the_runs_of_a_client_know_that_the_gateway_is_away(self):
        answer = {"status": 200, "body": {"action": "allow"}}
        with Gateway([answer, {"status": 503, "body": {}}, answer]) as gateway:
            client = unloop.Client(gateway.url)
            nested = current = []
            for _ in range(100_000):
                current.append([])
                current = current[0]
            with self.assertLogs("unloop", "WARNING") as log:
                for run, arguments in (("a", nested), ("b", {}), ("c", {}), ("d", {})):
                    self.assertEqual(client.run(run).call("weather", arguments, lambda: "sunny"), "sunny")
            self.assertEqual(([s.body["session"] for s in gateway.sent], len(log.records)), (["b", "b"], 1))

    def test_what_is_no_answer_of_http_stops_no_tool(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(b"SSH-2.0-OpenSSH\r\n")
            thread = threading.Thread(target=answer)
            thread.start()
            client = unloop.Client(f"http://127.0.0.1:{server.getsockname()[1]}")
            with self.assertLogs("unloop", "WARNING"):
                self.assertEqual(client.run("s").call("weather", {}, lambda: "sunny"), "sunny")
            thread.join()

    def test_the_url_of_a_gateway(self):
        for url in ("", "127.0.0.1:8080", "ftp://host", "http://"):
            with self.subTest(url):
                self.assertRaises(ValueError, unloop.Client, url)


if __name__ == "__main__":
    unittest.main()
