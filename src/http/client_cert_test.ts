import assert from "node:assert/strict";
import { createHash, X509Certificate } from "node:crypto";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { parseCertificate } from "../identity/mod.ts";
import { clientCertElement, ClientCertElements, forwardClientCert } from "./client_cert.ts";
import type { Fields } from "./head.ts";

const ca = createAuthority();
const web = ca.issueLeaf({ service: "web" });
const other = ca.issueLeaf({ service: "other" });
const leaf = parseCertificate(web.certDer);

/** Keys and values of an element, without quotes. */
function partsOf(element: string): [string, string][] {
  const parts = element.match(/(?:[^;"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
  return parts.map((part) => {
    const [key = "", ...rest] = part.split("=");
    return [key, rest.join("=").replace(/^"(.*)"$/, "$1")];
  });
}

test("clientCertElement() has the parts in Envoy's order", () => {
  const element = clientCertElement({ by: ["spiffe://a/b"], leaf, chain: [other.certDer] });
  const parts = partsOf(element);
  assert.deepEqual(parts.map(([key]) => key), ["By", "Hash", "Cert", "Chain", "Subject", "URI"]);
  const values = new Map(parts);
  assert.equal(values.get("By"), "spiffe://a/b");
  assert.equal(values.get("Hash"), createHash("sha256").update(web.certDer).digest("hex"));
  assert.equal(values.get("Subject"), "");
  assert.equal(values.get("URI"), web.uri);
  assert.match(values.get("Cert") ?? "", /^-----BEGIN%20CERTIFICATE-----%0A[\w%-]+%0A$/);
  const pem = decodeURIComponent(values.get("Cert") ?? "");
  assert.deepEqual(new Uint8Array(new X509Certificate(pem).raw), web.certDer);
  const chain = decodeURIComponent(values.get("Chain") ?? "");
  assert.ok(chain.startsWith(pem));
  assert.deepEqual(new Uint8Array(new X509Certificate(chain.slice(pem.length)).raw), other.certDer);
  assert.ok(element.includes(';Subject="";'));
});

test("clientCertElement() quotes a name that would end its part", () => {
  const odd = ca.issueLeaf({ service: "web", uri: 'spiffe://a/b;URI="spiffe://a/c",By=d' });
  const element = clientCertElement({ by: [], leaf: parseCertificate(odd.certDer), chain: [] });
  assert.ok(element.endsWith(';URI="spiffe://a/b;URI=\\"spiffe://a/c\\",By=d"'), element);
});

test("clientCertElement() leaves out a chain above the size limit", () => {
  const chain = Array.from({ length: 60 }, () => other.certDer);
  const element = clientCertElement({ by: [], leaf, chain });
  assert.ok(element.length < 3000);
  assert.ok(!element.includes("Chain="));
});

for (
  const [name, given, element, left] of [
    ["adds", [], "new", ["new"]],
    ["appends", ["By=a", "By=b;URI=c,By=d"], "new", ["By=a,By=b;URI=c,By=d,new"]],
    ["removes", ["By=a", "By=b"], "", []],
    ["keeps quoted values", ['Subject="CN=a,By=b;"', 'DNS=""'], "new", [
      'Subject="CN=a,By=b;",DNS="",new',
    ]],
    ["keeps escapes that all readers agree on", ['Subject="a\\"b\\"c",URI=d'], "new", [
      'Subject="a\\"b\\"c",URI=d,new',
    ]],
    ["keeps blanks between elements", ["By=a , By=b", ""], "new", ["By=a , By=b,new"]],
    ["drops an unclosed quote", ['By=a,URI=evil;Subject="'], "new", ["By=a,new"]],
    ["drops an unclosed quote of one of several", ['By="', "By=b"], "new", ["By=b,new"]],
    ["drops quotes across fields", ['By="a', 'b";URI=evil'], "new", ["new"]],
    ["drops a quote that is escaped for some readers", ['By="a\\"'], "new", ["new"]],
    ["drops a quote that closes for some readers", ['By="a\\"b"'], "new", ["new"]],
    ["drops an escape at the end", ['By="a\\'], "new", ["new"]],
    ["drops a backslash outside quotes", ["By=a\\"], "new", ["new"]],
    ["drops a quote within a value", ['By=a"b'], "new", ["new"]],
    ["drops text after a quote", ['By="a"b,URI=c'], "new", ["new"]],
    ["drops an element without a key", ["evil,By=b", "=a", "By"], "new", ["new"]],
    ["drops a part without a key", ["By=a;;URI=b", "By=a;"], "new", ["new"]],
    ["removes nothing from nothing", [], "", []],
  ] as const
) {
  test(`forwardClientCert() ${name}`, () => {
    const field = "x-forwarded-client-cert";
    const fields: Fields = ["x", "1", "X"];
    for (const value of given) fields.push(field, value, "X-Forwarded-Client-Cert");
    forwardClientCert(fields, element);
    assert.deepEqual(fields.slice(0, 3), ["x", "1", "X"]);
    assert.deepEqual(fields.filter((_, at) => fields[at - 1] === field && at % 3 === 1), left);
  });
}

test("forwardClientCert() parses long fields in linear time", () => {
  const since = performance.now();
  for (const part of [" ", "a", "By=a ", "By=a,", "By=;", '\\\\"', '""']) {
    for (const start of ["", "By=", 'By="']) {
      const fields = ["x-forwarded-client-cert", start + part.repeat(10_000), ""];
      forwardClientCert(fields, "new");
      assert.ok(fields[1]?.endsWith("new"));
    }
  }
  assert.ok(performance.now() - since < 2_000);
});

test("ClientCertElements makes one element for all connections of a caller", () => {
  const elements = new ClientCertElements();
  let asked = 0;
  const chain = () => {
    asked++;
    return [];
  };
  const of = (der: Uint8Array, serial: string, by = "spiffe://a/b") =>
    elements.of(der, { by: [by], serial, chain });
  const first = of(web.certDer, "01");
  assert.equal(first, clientCertElement({ by: ["spiffe://a/b"], leaf, chain: [] }));
  assert.equal(of(new Uint8Array(web.certDer), "01"), first);
  assert.equal(asked, 1);
  // A serial number proves nothing, and our own URI names may change.
  assert.ok(of(other.certDer, "01").includes(other.uri));
  assert.ok(of(other.certDer, "01", "spiffe://a/c").startsWith("By=spiffe://a/c;"));
  assert.equal(asked, 3);
  for (let serial = 0; serial < 300; serial++) of(web.certDer, `x${serial}`);
  assert.equal(asked, 303);
  of(web.certDer, "x299");
  assert.equal(asked, 303);
  of(web.certDer, "x0");
  assert.equal(asked, 304);
});
