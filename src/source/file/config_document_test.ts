import assert from "node:assert/strict";
import { test } from "node:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type FileConfig, readFileConfig } from "./file_config.ts";

/** Reads a directory, or its one file where there is one. */
async function read(files: Readonly<Record<string, string>>): Promise<FileConfig> {
  const directory = await mkdtemp(join(tmpdir(), "postern-config-"));
  try {
    for (const [name, text] of Object.entries(files)) {
      if (name.endsWith("/")) await mkdir(join(directory, name));
      else await writeFile(join(directory, name), text);
    }
    const [only = "", second] = Object.keys(files);
    const path = second === undefined ? join(directory, only) : directory;
    return await readFileConfig(path, { env: {} });
  } finally {
    await rm(directory, { recursive: true });
  }
}

const YAML = `# The sidecar of web
$schema: ./postern.schema.json
service: web
trustDomain: mesh.example
credentials: { certFile: a, keyFile: b, rootsFile: c }
upstreams:
  - name: db
    bind: 127.0.0.1:9191 # for the application
    addresses: [10.0.0.7:20000]
    identity: &db { service: db }
  - name: db2
    bind: 127.0.0.1:9192
    addresses:
      - host: 10.0.0.8
        port: 20000
    identity: *db
`;
const JSON_WITH_COMMENTS = `// The sidecar of web
{
  "$schema": "https://example/postern.schema.json",
  "service": "web", /* as
  registered */ "trustDomain": "mesh.example",
  "credentials": { "certFile": "a//b", "keyFile": "/*b*", "rootsFile": "c" },
  "upstreams": [{ "name": "db", "bind": "127.0.0.1:9191", // for the application
    "addresses": ["10.0.0.7:20000"], "identity": { "service": "db" } }]
}
`;
const BASE = `{ "service": "web", "trustDomain": "mesh.example",
  "credentials": { "certFile": "a", "keyFile": "b", "rootsFile": "c" } }`;
const upstream = (name: string, port: number) =>
  `upstreams: [{ name: ${name}, bind: ":${port}", addresses: [], identity: { service: ${name} } }]`;

test("readFileConfig() reads YAML with anchors", async () => {
  const { service, upstreams } = await read({ "web.yaml": YAML });
  assert.equal(service, "web");
  assert.deepEqual(upstreams.map(({ name, identity }) => [name, identity?.service]), [
    ["db", "db"],
    ["db2", "db"],
  ]);
});

test("readFileConfig() reads JSON with comments, and leaves those in texts alone", async () => {
  const { credentials, upstreams } = await read({ "web.json": JSON_WITH_COMMENTS });
  assert.equal(upstreams.length, 1);
  assert.match(JSON.stringify(credentials.plans), /"a\/\/b".*"\/\*b\*"/);
});

test("readFileConfig() joins the files of a directory in the order of their names", async () => {
  const { upstreams, inbound, defaultAction, credentials } = await read({
    "20-db.yml": upstream("db", 2),
    "10-base.json": BASE,
    "30-http.yaml": "inbound: { http: { showDenials: true }, protocol: http }\n$schema: x",
    "15-inbound.json": '{ "$schema": "x", "inbound": { "bind": ":1", "local": "127.0.0.1:80" } }',
    "40-cache.yaml": `${upstream("cache", 3)}\ndefaultAction: allow`,
    ".hidden.json": "{",
    "README": "",
    "old.json.bak": "",
  });
  assert.deepEqual(upstreams.map(({ name }) => name), ["db", "cache"]);
  assert.equal(inbound?.http?.showDenials, true);
  assert.equal(defaultAction, "allow");
  const [first = "", second = ""] = credentials.plans.warnings;
  assert.match(first, /^README in .* is ignored: its name does not end in .json, .yaml or .yml$/);
  assert.match(second, /^old\.json\.bak in /);
});

for (
  const [name, files, want] of [
    ["JSON with an open comment", { "a.json": `${BASE} /* x` }, /line 2, column 74: .* the end/],
    ["an unknown key of YAML", { "a.yaml": YAML.replace("bind:", "bnd:") }, [
      /line 8, column 5: upstreams\[0\]\.bnd is not known here; did you mean "bind"\?/,
    ]],
    ["a missing key of YAML", { "a.yaml": YAML.replace("service: web\n", "") }, [
      /line 2, column 1: service is missing/,
    ]],
    ["a fault behind an alias", { "a.yaml": YAML.replace("{ service: db }", "{ service: 1 }") }, [
      /line 10, column 21: upstreams\[0\]\.identity\.service must be a text, not 1/,
      /line 16, column 5: upstreams\[1\]\.identity\.service must be a text/,
    ]],
    ["a key twice", { "a.yaml": `${YAML}service: web\n` }, /line 17, column 1: .* given twice/],
    ["YAML that is a text", { "a.yaml": "web" }, /line 1, column 1: the file must be an object/],
    ["empty YAML", { "a.yaml": "" }, /line 1, column 1: the file must be an object, not null/],
    ["a tab in YAML", { "a.yaml": "a:\n\t- b" }, /line 2, column 1: the file is not YAML .* tab/],
    ["merge keys", { "a.yaml": `${YAML}<<: { datacenter: x }\n` }, /line 17, .* is not known here/],
    ["a key set in two files", { "1.json": BASE, "2.yaml": "\nservice: db\n" }, [
      /^ {2}2\.yaml, line 2, column 1: service is given twice, in 1\.json and 2\.yaml$/m,
    ]],
    ["a nested key set in two files", { "1.json": BASE, "2.yaml": "credentials: { keyFile: d }" }, [
      /2\.yaml, line 1, column 16: credentials\.keyFile is given twice, in 1\.json and 2\.yaml/,
    ]],
    [
      "an entry of a later file",
      { "1.json": BASE, "2.yaml": upstream("db", 2), "3.yaml": upstream("db", 3) },
      /3\.yaml, line 1, column 15: upstreams\[1\]\.name "db" is used by an earlier upstream/,
    ],
    ["a fault of syntax in a file", { "1.json": BASE, "2.json": "{" }, [
      /2\.json, line 1, column 2: the file is not JSON: expected a key/,
    ]],
    ["a list in a directory", { "1.json": BASE, "2.json": "[]" }, /2\.json, .* must be an object/],
    ["__proto__ of a file", { "1.json": BASE, "2.json": '{"__proto__": {"service": 1}}' }, [
      /2\.json, line 1, column 2: __proto__ is not known here/,
    ]],
    ["a directory without configuration", { "a.txt": "", "b": "" }, /it has no file that ends in/],
    ["a directory among the files", { "a.json/": "", "1.json": BASE }, /a\.json": .*director/i],
  ] as const
) {
  test(`readFileConfig() refuses ${name}`, async () => {
    await assert.rejects(read(files), (error: Error) => {
      for (const one of want instanceof RegExp ? [want] : want) assert.match(error.message, one);
      return true;
    });
  });
}
