import assert from "node:assert/strict";
import test from "node:test";
import { cpuMs } from "../../../test/kit/process/cpu_time.ts";
import { ProxyError } from "../../base/mod.ts";
import { parseSecretFile, SECRET_FILE_LIMIT_BYTES } from "./secret_file.ts";

const TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
const file = (path: string) => ({ kind: "file", path });
const PAIR = { type: "certificate", chain: file("/certs/cert.pem"), key: file("/certs/key.pem") };
const YAML = `# rotated by hand
version_info: "7"
resources:
  - "@type": "${TYPE}"
    name: server_cert
    tls_certificate:
      certificate_chain: { filename: /certs/cert.pem }
      private_key:
        filename: /certs/key.pem
`;
const RESPONSE = {
  resources: [{
    "@type": TYPE,
    name: "server_cert",
    tlsCertificate: {
      certificateChain: { filename: "/certs/cert.pem" },
      privateKey: { filename: "/certs/key.pem" },
    },
  }],
};
const [RESOURCE] = RESPONSE.resources;

for (
  const [behaviour, path, text, spec, version] of [
    ["a response in YAML", "a.yaml", YAML, PAIR, "7"],
    ["a response in JSON", "a.JSON", JSON.stringify(RESPONSE), PAIR, ""],
    ["a bare secret", "a.json", JSON.stringify({ ...RESOURCE, "@type": undefined }), PAIR, ""],
    ["a bare secret with its type", "a.json", JSON.stringify(RESOURCE), PAIR, ""],
    ["a secret without a name", "a.yml", YAML.replace("    name: server_cert\n", ""), PAIR, "7"],
    ["a byte order mark", "a.yaml", `\ufeff${YAML}`, PAIR, "7"],
    [
      "PEM as a block, by an alias",
      "dir.with.dots/a.yaml",
      "tls_certificate:\n  certificate_chain: &both\n    inline_string: |\n      pem\n  private_key: *both\n",
      {
        type: "certificate",
        chain: { kind: "inline", bytes: new TextEncoder().encode("pem\n") },
        key: { kind: "inline", bytes: new TextEncoder().encode("pem\n") },
      },
      "",
    ],
  ] as const
) {
  test(`parseSecretFile() reads ${behaviour}`, async () => {
    assert.deepEqual(await parseSecretFile(text, { path, wantedName: "server_cert" }), {
      spec,
      version,
    });
  });
}

test("parseSecretFile() accepts any name if none is wanted", async () => {
  const { spec } = await parseSecretFile(YAML, { path: "a.yaml", wantedName: "" });
  assert.deepEqual(spec, PAIR);
});

for (
  const [behaviour, path, text, wanted] of [
    [
      "another name",
      "a.yaml",
      YAML.replace("server_cert", "x"),
      /it has "x", and "server_cert" is/,
    ],
    [
      "another type",
      "a.yaml",
      "validation_context: {}",
      /has a validation context, and a certific/,
    ],
    ["no extension", "dir.yaml/a", YAML, /its name must end in \.yaml, \.yml or \.json/],
    ["protocol buffers", "a.pb", YAML, /protocol buffers in binary and text form are not read/],
    ["nothing", "a.yaml", "", /it must be an object/],
    [
      "two resources",
      "a.json",
      JSON.stringify({ resources: [RESOURCE, RESOURCE] }),
      /resources has more than one entry/,
    ],
    ["no resource", "a.json", '{"resources": []}', /resources must have one secret/],
    [
      "a resource without a type",
      "a.json",
      JSON.stringify({ resources: [{ ...RESOURCE, "@type": undefined }] }),
      /resources\[0\]\["@type"\] is missing; it must be type\.googleapis\.com/,
    ],
    [
      "a cluster",
      "a.yaml",
      YAML.replace(/envoy\.ext.*Secret/, "envoy.config.cluster.v3.Cluster"),
      /resources\[0\]\["@type"\] must be type\.googleapis\.com\/envoy\.extensions/,
    ],
    [
      "a field that is not known",
      "a.yaml",
      `${YAML}foo: 1\n`,
      /foo is not known here; known are ver/,
    ],
    [
      "a field of a secret that is not known",
      "a.yaml",
      YAML.replace("private_key:", "private_keys:"),
      /resources\[0\]\.tls_certificate\.private_keys is not known/,
    ],
    ["broken JSON", "a.json", '{"a": 1,\n}', /it is not JSON: line 2, column 1: expected a key/],
    [
      "a key twice in JSON",
      "a.json",
      '{"name": "a", "name": "b"}',
      /line 1, column 15: the key is given twice/,
    ],
    [
      "a key twice in YAML",
      "a.yaml",
      "name: a\nname: b",
      /line 2, column 1: the key is given twice/,
    ],
    ["a tab", "a.yaml", "a:\n\t- b", /line 2, column 1: a tab cannot indent/],
    ["a tag", "a.yaml", "name: !!binary YQ==", /line 1, column 7: tags are not taken/],
    ["a second document", "a.yaml", `${YAML}---\na: 1\n`, /it has more than one document/],
    ["an alias without an anchor", "a.yaml", "a: *b", /line 1, column 4: an alias has no anchor/],
    ["a key that is a list", "a.yaml", "[a]: b", /line 1, column 1: a key must be a text/],
    ["a text that is too deep", "a.yaml", "[".repeat(100_000), /nested too deeply|call stack/],
    [
      "a complete text that is too deep",
      "a.yaml",
      `a: ${"[".repeat(1_000)}${"]".repeat(1_000)}`,
      /line 1, column \d+: it is nested too deeply/,
    ],
    [
      "maps that are too deep",
      "a.yaml",
      `${"{a: ".repeat(1_000)}0${"}".repeat(1_000)}`,
      /nested too deeply/,
    ],
    [
      "aliases that expand too far",
      "a.yaml",
      [..."bcdefgh"].reduce(
        (text, key, index) =>
          `${text}${key}: &${key} [${Array(9).fill(`*${"abcdefgh"[index]}`).join(", ")}]\n`,
        "a: &a [x, x, x, x, x, x, x, x, x]\n",
      ),
      /it has aliases of more than 100 values/,
    ],
    ["many aliases", "a.yaml", `a: &a x\nb: [${"*a, ".repeat(101)}]`, /more than 100 aliases/],
    [
      "an alias of its own anchor",
      "a.yaml",
      "name: &a [*a]",
      /column 11: an alias is inside its own anchor/,
    ],
    [
      "a text that is too long",
      "a.yaml",
      "#".repeat(SECRET_FILE_LIMIT_BYTES + 1),
      /it is longer than/,
    ],
  ] as const
) {
  test(`parseSecretFile() refuses ${behaviour}`, async () => {
    const options = { path, wantedName: "server_cert", wantedType: "certificate" } as const;
    await assert.rejects(parseSecretFile(text, options), (error) => {
      assert.ok(error instanceof ProxyError && error.code === "credentials_invalid");
      assert.ok(error.message.startsWith(`Cannot use the secret in ${path}: `), error.message);
      assert.match(error.message, wanted);
      return true;
    });
  });
}

test("parseSecretFile() shows no content of a refused file", async () => {
  const secret = "MIGHAgEAMBMGByqGSM49";
  for (
    const [path, text] of [
      ["a.yaml", `tls_certificate:\n  private_key:\n\t- inline_bytes: ${secret}\n`],
      ["a.yaml", `tls_certificate: { private_key: "${secret}`],
      ["a.yaml", `tls_certificate: { private_key: ${secret} }`],
      ["a.yaml", `- *${secret}`],
      ["a.json", `{"tls_certificate": {"private_key": {"inline_bytes": "${secret}" `],
      ["a.json", `{"tls_certificate": {"private_key": {"inline_bytes": ["${secret}"] }}}`],
    ] as const
  ) {
    await assert.rejects(
      parseSecretFile(text, { path, wantedName: "" }),
      (error) => error instanceof ProxyError && !error.message.includes(secret),
    );
  }
});

test("parseSecretFile() parses in time linear to the size of the file", async () => {
  const costMs = async (length: number) => {
    const keys = Array.from({ length }, (_, index) => `k${index}: 1`).join("\n");
    const startMs = cpuMs();
    await assert.rejects(parseSecretFile(keys, { path: "a.yaml", wantedName: "" }), /is not known/);
    return cpuMs() - startMs;
  };
  await costMs(5_000);
  const [few, many] = [await costMs(5_000), await costMs(40_000)];
  // Eight times the size takes eight times as long; quadratic time would be 64 times.
  assert.ok(many < 30 * few, `${few} ms, ${many} ms`);
});

test("parseSecretFile() reads no entry of a list that is too long", async () => {
  for (
    const text of [
      `{"validation_context":{"match_typed_subject_alt_names":[${"1,".repeat(300_000)}1]}}`,
      `{"resources":[${"1,".repeat(300_000)}1]}`,
    ]
  ) {
    const startMs = cpuMs();
    await assert.rejects(
      parseSecretFile(text, { path: "a.json", wantedName: "" }),
      /has more than (?:one entry|1000 entries)$/,
    );
    assert.ok(cpuMs() - startMs < 3_000);
  }
});
