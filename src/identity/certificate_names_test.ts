import assert from "node:assert/strict";
import test from "node:test";
import { type AltNames, nameText, shownNames } from "./certificate_names.ts";
import { Buffer } from "node:buffer";

const NONE: AltNames = { dns: [], uris: [], emails: [], ips: [], others: [] };

for (
  const [name, names, wanted] of [
    ["no name", NONE, "it has none"],
    ["names of every type", { ...NONE, dns: ["a.example"], ips: ["::1"] }, "a.example, ::1"],
    [
      "other names by their values",
      { ...NONE, emails: ["a@b"], others: [{ oid: "1.2.3", value: "x" }] },
      "a@b, x",
    ],
    ["three of many", { ...NONE, dns: [..."abcde"], uris: ["u:1"] }, "u:1, a, b and 3 more"],
    ["the whole of one that is not too long", { ...NONE, dns: ["a".repeat(200)] }, "a".repeat(200)],
    ["the beginning of a long one", { ...NONE, dns: ["a".repeat(999)] }, `${"a".repeat(200)}...`],
  ] as const
) {
  test(`shownNames() shows ${name}`, () => assert.equal(shownNames(names), wanted));
}

// DER of names, and the output of `openssl x509 -subject -nameopt RFC2253` for them.
for (
  const [der, want] of [
    [
      "3034310b300906035504061302444531173015060355040a0c0e45782c20226d706c6522203c783e310c300a06035504030c03776562",
      'CN=web,O=Ex\\, \\"mple\\" \\<x\\>,C=DE',
    ],
    [
      "3020310e300c060355040a0c052361206220310e300c06035504030c05636166c3a9",
      "CN=caf\\C3\\A9,O=\\#a b\\ ",
    ],
    [
      "305731133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916076578616d706c653114300806035504030c01623008060355040b0c01613111300f060a0992268993f22c6401010c0137",
      "UID=7,OU=a+CN=b,DC=example,DC=org",
    ],
    // Types without a short name, and values other than ASCII or UTF-8, are shown as hex.
    ["300e310c300a06035504630c03776562", "2.5.4.99=#0C03776562"],
    ["300d310b300906035504031e020041", "CN=#1E020041"],
    // The first and last printable characters, and their neighbours.
    ["3010310e300c06035504030c051f20417e7f", "CN=\\1F A~\\7F"],
    ["3000", ""],
    ["", ""],
    ["300c310a300806035504030c03776562", ""],
  ] as const
) {
  test(`nameText() ${want || JSON.stringify(der)}`, () => {
    assert.equal(nameText(new Uint8Array(Buffer.from(der, "hex"))), want);
  });
}
