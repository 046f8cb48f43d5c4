/**
 * A caller's `x-forwarded-client-cert`: whatever it is, our element is the last one for every reader of
 * quotes, and the part passed on before it parses again as the same.
 *
 * @module
 */

import assert from "node:assert/strict";
import { fieldOf, type Fields, forwardClientCert } from "../../src/http/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

const NAME = "x-forwarded-client-cert";
const OWN = 'By=spiffe://td/ns/default/dc/dc1/svc/db;Hash=ab;Subject="";URI=spiffe://td/own';

const encode = (text: string) => new TextEncoder().encode(text);

/** Elements for a reader that takes `\"` for an escaped quote, or for one that does not. */
function elementsOf(value: string, { escapes }: { readonly escapes: boolean }): string[] {
  const elements = [""];
  let isQuoted = false;
  for (let at = 0; at < value.length; at++) {
    const character = value[at] ?? "";
    if (escapes && isQuoted && character === "\\") {
      elements.push(`${elements.pop()}${character}${value[++at] ?? ""}`);
      continue;
    }
    if (character === '"') isQuoted = !isQuoted;
    if (character === "," && !isQuoted) elements.push("");
    else elements.push(`${elements.pop()}${character}`);
  }
  return elements;
}

/** Without blanks, which are not kept where elements are put together anew. */
function plain(value: string): string {
  return value.replace(/[ \t]+/g, "");
}

function forwarded(given: readonly string[], element: string): string | undefined {
  const fields: Fields = given.flatMap((value) => [NAME, value, NAME]);
  forwardClientCert(fields, element);
  return fieldOf(fields, NAME);
}

export const target: FuzzTarget = {
  name: "client_cert",
  corpus: [
    "By=spiffe://a;Hash=00;URI=spiffe://b",
    'Subject="CN=a,O=b";URI=spiffe://b,By=c',
    'Subject="CN=\\"a\\"";DNS=x , Hash=1',
    'Cert="-----BEGIN%20";Chain="',
  ].map(encode),
  dictionary: ['"', '\\"', "\\\\", ",", ";", "=", "URI=", 'Subject="', " ", "\t"],
  limitBytes: 2_000,
  run(input) {
    const text = Array.from(input, (octet) => String.fromCharCode(octet)).join("");
    const value = forwarded(text.split("\n"), OWN) ?? "";
    for (const escapes of [false, true]) {
      assert.equal(elementsOf(value, { escapes }).at(-1), OWN, `${JSON.stringify(text)}`);
    }
    const before = value.slice(0, Math.max(0, value.length - OWN.length - 1));
    if (before !== "") assert.equal(plain(forwarded([before], OWN) ?? ""), plain(value));
    assert.equal(forwarded([text], ""), undefined);
  },
};
