/**
 * First bytes of a peer: bytes that are judged to be no HTTP are judged so however they go on, a sound
 * beginning is never judged so at any length of it, and the verdict always names the likely protocol.
 *
 * @module
 */

import assert from "node:assert/strict";
import { isNoRequest, isNoResponse, spokenInBytes } from "../../src/http/first_bytes.ts";
import type { FuzzTarget } from "./fuzz.ts";

const encode = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const REQUEST = /^(?:\r\n)?[A-Za-z0-9-]+ [!-~]+ HTTP\/1\.[01]\r\n/;
const RESPONSE = /^HTTP\/1\.[01] [0-9]{3}/;

export const target: FuzzTarget = {
  name: "first_bytes",
  corpus: [
    "GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
    "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    "SSH-2.0-OpenSSH_9.6\r\n",
    "220 mail ESMTP\r\n",
    "\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64",
  ].map(encode),
  dictionary: ["\r\n", "\r", " HTTP/1.1", "HTTP/", "PRI * HTTP/2.0", "\x15\x03", "AMQP", "+OK"],
  limitBytes: 600,
  run(input) {
    const text = Array.from(input, (octet) => String.fromCharCode(octet)).join("");
    for (const [isNone, sound] of [[isNoRequest, REQUEST], [isNoResponse, RESPONSE]] as const) {
      let wasNone = false;
      for (let length = 0; length <= Math.min(input.length, 300); length++) {
        const begun = input.subarray(0, length);
        const isNow = isNone(begun);
        // Beyond the bytes that are looked at nothing changes, and before that no verdict is taken
        // back.
        assert.ok(isNow || !wasNone || length > 256, `${length} of ${JSON.stringify(text)}`);
        wasNone = isNow;
        assert.ok(spokenInBytes(begun).length > 0);
      }
      const [begins] = sound.exec(text) ?? [];
      if (begins !== undefined && begins.length <= 256) {
        assert.equal(isNone(input.subarray(0, begins.length)), false, JSON.stringify(text));
      }
    }
  },
};
