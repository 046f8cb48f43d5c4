import assert from "node:assert/strict";
import test from "node:test";
import { cpuMs } from "../../test/kit/process/cpu_time.ts";
import { ProxyError } from "../base/mod.ts";
import { formatPem, parsePem } from "./pem.ts";

const BYTES = Uint8Array.from({ length: 100 }, (_, index) => index * 7 & 0xff);
const ONE = formatPem("CERTIFICATE", BYTES);
const TWO = formatPem("EC PRIVATE KEY", BYTES.subarray(0, 1));

for (
  const [name, text, want] of [
    ["reads what formatPem() writes", ONE, ["CERTIFICATE"]],
    ["reads several blocks in order", ONE + TWO, ["CERTIFICATE", "EC PRIVATE KEY"]],
    ["skips text between blocks", `Subject: x\n${ONE}\n# key\n${TWO}bye`, [
      "CERTIFICATE",
      "EC PRIVATE KEY",
    ]],
    ["accepts carriage returns", ONE.replaceAll("\n", "\r\n"), ["CERTIFICATE"]],
    ["finds nothing in an empty text", "", []],
    ["ignores BEGIN inside a line", "x -----BEGIN CERTIFICATE-----", []],
  ] as const
) {
  test(`parsePem() ${name}`, () => {
    const blocks = parsePem(text, { what: "test" });
    assert.deepEqual(blocks.map((block) => block.label), want);
    if (blocks[0]) assert.deepEqual(blocks[0].der, BYTES);
  });
}

for (
  const [name, text, message] of [
    ["a missing END line", ONE.replace(/-----END.*/, ""), /no END line/],
    ["an END line with another label", ONE.replace("END CERT", "END XERT"), /no END line/],
    ["a block without bytes", "-----BEGIN A-----\n-----END A-----\n", /not base64/],
    ["bytes that are not base64", "-----BEGIN A-----\n!!!!\n-----END A-----\n", /not base64/],
    ["incomplete base64", "-----BEGIN A-----\nAAA\n-----END A-----\n", /not base64/],
    ["a broken label", "-----BEGIN a-----\nAAAA\n-----END a-----\n", /broken BEGIN/],
    ["an endless label", `-----BEGIN ${"A".repeat(99)}-----`, /broken BEGIN/],
    [
      "an encrypted key",
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
      /encrypted/,
    ],
    ["more characters than the limit", ONE + " ".repeat(1 << 20), /longer than/],
    ["more blocks than the limit", TWO.repeat(101), /more than 100 blocks/],
  ] as const
) {
  test(`parsePem() refuses ${name}`, () => {
    assert.throws(() => parsePem(text, { what: "leaf certificate" }), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, /^Cannot read leaf certificate: /);
      assert.match(error.message, message);
      return true;
    });
  });
}

test("parsePem() takes linear time on many false BEGIN lines", () => {
  const startMs = cpuMs();
  assert.deepEqual(parsePem("x-----BEGIN ".repeat(80_000), { what: "test" }), []);
  assert.ok(cpuMs() - startMs < 1000);
});
