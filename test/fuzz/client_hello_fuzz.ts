/**
 * ClientHellos: nothing is thrown, limits hold, and more bytes never change the fields read. @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { CLIENT_HELLO_LIMIT_BYTES, readClientHello } from "../../src/wire/mod.ts";
import { clientHello } from "../conformance/net/client_hello.ts";
import type { FuzzTarget } from "./fuzz.ts";

export const target: FuzzTarget = {
  name: "client_hello",
  corpus: [
    clientHello(),
    clientHello({ names: ["db.example.com"], alpn: ["h2", "http/1.1"] }),
    clientHello({ names: ["Db."], schemes: [0x0403, 0x0804, 0x0807], recordBytes: 40 }),
    clientHello({ names: ["db"], recordBytes: 1 }),
    clientHello({ extensions: [[21, new Uint8Array(4_000)]], recordBytes: 512 }),
  ],
  dictionary: ["\x16\x03\x01", "\x16\x03\x03\x00\x01", "\x00\x00", "\x00\x0d", "\x00\x10", "db."],
  limitBytes: CLIENT_HELLO_LIMIT_BYTES + 1024,
  limitMs: 100,
  run(input, random) {
    const reading = readClientHello(input);
    const length = Math.floor(random() * (input.length + 1));
    const before = readClientHello(input.subarray(0, length));
    if (before.kind !== "partial") assert.deepEqual(reading, before);
    switch (reading.kind) {
      case "partial":
        assert.ok(input.length < CLIENT_HELLO_LIMIT_BYTES);
        break;
      case "invalid":
        // One line of words of ours: nothing of the peer's goes to a log.
        assert.match(reading.reason, /^[A-Za-z0-9 .']+$/);
        break;
      case "complete": {
        const { serverName, signatureAlgorithms, alpn } = reading.hello;
        if (serverName !== undefined) assert.match(serverName, /^[a-z0-9._-]{1,253}$/);
        for (const scheme of signatureAlgorithms) assert.ok(scheme >= 0 && scheme <= 0xffff);
        for (const name of alpn) assert.ok(name.length >= 1 && name.length <= 255);
        const again = readClientHello(Buffer.concat([input, Buffer.alloc(9, 0x16)]));
        assert.deepEqual(again, reading);
      }
    }
  },
};
