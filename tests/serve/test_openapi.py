"""test_openapi.py: the description of the interface against the server that serves it."""
import json
import os
import re
import subprocess
import sys
import unittest

from client import LONG, PROGRAM, Server, read_file

WRONG = {"string": 5, "number": "x", "integer": "x", "boolean": "yes", "object": 5, "array": "x"}
GOOD = {"boolean": False, "integer": 1, "number": 1, "object": {}, "array": []}


def validate(value, schema, root, place="answer"):
    """Raises where `value` is not what `schema` says: the part of JSON Schema that the description uses."""
    if "$ref" in schema:
        at = root
        for key in schema["$ref"].lstrip("#/").split("/"):
            at = at[key]
        return validate(value, at, root, place)
    for way in ("anyOf", "oneOf"):
        if way in schema:
            found = []
            for one in schema[way]:
                try:
                    validate(value, one, root, place)
                    found.append(one)
                except AssertionError as e:
                    why = e
            if not found or (way == "oneOf" and len(found) > 1):
                raise AssertionError("%s: none of %s: %s" % (place, way, why if not found else "several"))
    if "enum" in schema and value not in schema["enum"]:
        raise AssertionError("%s: %r is none of %r" % (place, value, schema["enum"]))
    if "const" in schema and value != schema["const"]:
        raise AssertionError("%s: %r is not %r" % (place, value, schema["const"]))
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        is_a = {"string": isinstance(value, str), "boolean": isinstance(value, bool), "null": value is None,
                "number": isinstance(value, (int, float)) and not isinstance(value, bool),
                "integer": isinstance(value, int) and not isinstance(value, bool),
                "object": isinstance(value, dict), "array": isinstance(value, list)}
        if not any(is_a[kind] for kind in kinds):
            raise AssertionError("%s: %r is no %s" % (place, value, kinds))
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                raise AssertionError("%s: %s is missing" % (place, key))
        for key, member in value.items():
            if key in schema.get("properties", {}):
                validate(member, schema["properties"][key], root, place + "." + key)
            elif schema.get("additionalProperties", True) is False:
                raise AssertionError("%s: %s is not described" % (place, key))
            elif isinstance(schema.get("additionalProperties"), dict):
                validate(member, schema["additionalProperties"], root, place + "." + key)
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            validate(item, schema["items"], root, "%s[%d]" % (place, i))


class Description(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--seconds", str(LONG))
        cls.doc = cls.server.json("GET", "/api/v1/openapi.json", token=False)[1]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def responses(self, path, method):
        return self.doc["paths"][path][method]["responses"]

    def check(self, path, method, status, document):
        described = self.responses(path, method)
        self.assertIn(str(status), described, (path, method, document))
        content = described[str(status)].get("content")
        if content:
            validate(document, content["application/json"]["schema"], self.doc, path)
        else:
            self.assertIsNone(document)

    def test_it_is_what_the_tables_say(self):
        ran = subprocess.run([sys.executable, "tools/openapi.py", os.path.abspath(PROGRAM), "--check"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.doc, json.loads(read_file("data/web/openapi.json")))

    def test_the_validator_refuses(self):
        schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}, "additionalProperties": False}
        validate({"a": 1}, schema, {})
        for wrong in ({}, {"a": "1"}, {"a": True}, {"a": 1, "b": 1}, [], None):
            with self.assertRaises(AssertionError):
                validate(wrong, schema, {})

    def test_references_lead_somewhere(self):
        text = json.dumps(self.doc)
        for name in set(re.findall(r'"#/components/schemas/(\w+)"', text)):
            self.assertIn(name, self.doc["components"]["schemas"])

    def test_paths_are_those_of_the_server(self):
        table = read_file("src/serve/http_routes.c").decode()
        routes = {(path, method.lower()) for method, path in re.findall(r'\{"(\w+)", "/api/v1(/[^"]*)", \w+, LK_BODY', table)}
        described = {(path.replace("{id}", ""), method) for path, item in self.doc["paths"].items() for method in item if method != "parameters"}
        self.assertEqual(described, routes)

    def test_get_paths(self):
        for path, item in self.doc["paths"].items():
            if "get" not in item or "{" in path:
                continue
            status, document = self.server.json("GET", "/api/v1" + path)
            self.assertEqual(status, 200)
            self.check(path, "get", status, document)
            public = item["get"].get("security") == []
            status, document = self.server.json("GET", "/api/v1" + path, token=False)
            self.assertEqual(status, 200 if public else 401)
            self.check(path, "get", status, document)
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                status, document = self.server.json("GET", "/api/v1" + path, headers=headers)
                self.assertIn(status, (403, 421))
                self.check(path, "get", status, document)

    def test_examples(self):
        for path in ("/predict", "/plan", "/sweep", "/rent", "/shard"):
            example = self.doc["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
            for form in ("result", "report"):
                status, document = self.server.json("POST", "/api/v1%s?form=%s" % (path, form), example)
                self.assertIn(status, (200, 202), document)
                self.check(path, "post", status, document)
                if path != "/predict":
                    job = self.server.job((status, document))
                    self.assertEqual(job["state"], "done")
                    self.check("/jobs/{id}", "get", 200, job)
                    status, document = self.server.json("DELETE", "/api/v1/jobs/" + job["id"])
                    self.check("/jobs/{id}", "delete", status, document)
        job = {"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": 8, "gbs": 64, "seq": 4096}
        for form in ("timeline", "graph"):
            status, document = self.server.json("POST", "/api/v1/predict?form=" + form, job)
            self.assertEqual(status, 200, document)
            self.check("/predict", "post", status, document)
        before, after = (("t.json", read_file("tests/data/trace_%s.json" % name)) for name in ("before", "after"))
        graph = [("step.json", json.dumps(document).encode())]
        darshan = [("d.txt", b"# darshan log version: 3.41\nPOSIX\t0\t7\tPOSIX_READS\t20\t/data/a\t/\text4\n"
                    b"POSIX\t0\t7\tPOSIX_F_READ_TIME\t1.5\t/data/a\t/\text4\n")]
        for path, files, options in (("/explain", [before], "{}"), ("/diff", [before, after], "{}"), ("/stalls", darshan, "{}"),
                                     ("/stalls", [], '{"model": "resnet18", "machine": "p3.8xlarge"}'),
                                     ("/whatif", graph, '{"set": "nic=2x\\nlink=2x", "gpu": "h100-sxm"}')):
            for form in ("result", "report"):
                status, document = self.server.upload(files, options, path="/api/v1%s?form=%s" % (path, form))
                self.check(path, "post", status, document)
                job = self.server.job((status, document))
                self.assertEqual(job["state"], "done", job)
                self.check("/jobs/{id}", "get", 200, job)
                if path == "/diff" and form == "result":
                    self.assertGreater(job["answer"]["ratio"], 1, "the first file is the run before")

    def test_timelines_that_are_too_long(self):
        job = {"model": "llama3.1-70b", "gpu": "h100-sxm", "gpus": 64, "gbs": 512, "seq": 8192, "tp": 4, "pp": 4, "vp": 5, "cp": 2}
        status, document = self.server.json("POST", "/api/v1/predict?form=timeline", job)
        self.assertGreaterEqual(status, 400)
        self.assertIn("too large", document["error"]["what"])
        self.assertIn("--gbs", document["error"]["remedy"])

    def test_what_is_refused(self):
        for path, files, what in (("/diff", 1, "is missing"), ("/stalls", 0, "no file"), ("/whatif", 0, "no file")):
            sent = [("t.json", read_file("tests/data/trace_small.json"))] * files
            status, document = self.server.upload(sent, "{}", path="/api/v1" + path)
            error = self.server.job((status, document))["error"] if status == 202 else document["error"]
            self.assertIn(what, error["what"])
        self.assertEqual(self.server.json("POST", "/api/v1/plan?form=timeline", {})[0], 400)
        self.assertIn("combinations", self.error_of("/predict", {"model": "llama3.1-8b", "gpu": "h100-sxm", "gpus": "8,16"})["what"])
        self.assertIn("combinations", self.error_of("/sweep", {"gpus": ",".join(map(str, range(1, 200))),
                                                               "gbs": ",".join(map(str, range(1, 100)))})["what"])

    def test_a_prediction_that_does_not_fit(self):
        status, document = self.server.json("POST", "/api/v1/predict", {"model": "llama3.1-70b", "gpu": "h100-sxm", "gpus": 64, "tp": 4,
                                                                        "pp": 4, "gbs": 128, "seq": 8192, "tokens": "1T", "mtbf": 24})
        self.assertEqual((status, document["fits"]), (200, False))
        self.check("/predict", "post", status, document)

    def test_refusals(self):
        for path in ("/predict", "/plan", "/explain"):
            for body, headers in ((b"{}", {"Content-Type": "text/plain"}), (b"{", {"Content-Type": "application/json"}),
                                  (b" " * (2 << 20), {"Content-Type": "application/json"})):
                try:
                    status, document = self.server.json("POST", "/api/v1" + path, body, headers=headers)
                except ConnectionError:
                    continue
                self.check(path, "post", status, document)
        for method in ("get", "delete"):
            status, document = self.server.json(method.upper(), "/api/v1/jobs/999999")
            self.assertEqual(status, 404)
            self.check("/jobs/{id}", method, status, document)

    def test_every_field(self):
        """Each field is known, a value of a wrong type is refused, one of the right type is not refused for its type."""
        for path, name in (("/predict", "PredictRequest"), ("/plan", "PlanRequest")):
            fields = self.doc["components"]["schemas"][name]["properties"]
            self.assertGreater(len(fields), 30)
            for field, schema in fields.items():
                kinds = [kind for kind in schema["type"] if kind != "null"]
                wrong = next(v for v in (5, "x", True, [1]) if not any(self.fits(v, kind) for kind in kinds))
                error = self.error_of(path, {field: wrong})
                self.assertIn(field, error["where"])
                self.assertIn("JSON", error["what"], (field, error))
                right = GOOD.get(kinds[0], "x")
                if "enum" in schema:
                    right = schema["enum"][0]
                error = self.error_of(path, {field: right})
                self.assertNotIn("in JSON", error["what"], (field, error))
                self.assertNotEqual(error["what"], "unknown option", (field, error))

    def test_limits_of_numbers(self):
        fields = self.doc["components"]["schemas"]["PredictRequest"]["properties"]
        limited = {name: schema for name, schema in fields.items() if "minimum" in schema}
        self.assertGreater(len(limited), 15)
        for name, schema in limited.items():
            for value in (schema["minimum"] - 1, schema["maximum"] * 2):
                self.assertEqual(self.error_of("/predict", {name: value})["where"], "--" + name, value)

    @staticmethod
    def fits(value, kind):
        return {"string": isinstance(value, str), "boolean": isinstance(value, bool), "object": False,
                "array": isinstance(value, list), "number": type(value) is int, "integer": type(value) is int}[kind]

    def error_of(self, path, body):
        status, document = self.server.json("POST", "/api/v1" + path, body)
        if status == 202:
            job = self.server.job((status, document))
            self.assertEqual((job["state"], job["status"]), ("failed", 400), body)
            return job["error"]
        self.assertEqual(status, 400, (body, document))
        self.check(path, "post", status, document)
        return document["error"]


if __name__ == "__main__":
    unittest.main()
