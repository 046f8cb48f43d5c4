/**
 * The admin server's guard: whatever Host and Origin say, only a name of this machine gets through, and
 * only for a page of its own; what changes something comes from this machine.
 *
 * @module
 */

import assert from "node:assert/strict";
import { refuseRequest } from "../../src/admin/server/guard.ts";
import type { FuzzTarget } from "./fuzz.ts";

const REQUESTS = [
  ["127.0.0.1:19000", "http://127.0.0.1:19000"],
  ["localhost:19000", "http://evil.example"],
  ["[::1]:19000", "http://[::1]:19000"],
  ["evil.example", "null"],
  ["127.0.0.1.evil.example:80", ""],
  ["localhost:19000", "", "::ffff:127.0.0.1"],
];
const OURS = /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]|10\.1\.2\.3)(?::\d{1,5})?$/i;

export const target: FuzzTarget = {
  name: "admin_guard",
  corpus: REQUESTS.map((parts) => new TextEncoder().encode(parts.join("\n"))),
  dictionary: [
    "localhost",
    "127.0.0.1",
    "[::1]",
    "10.1.2.3",
    ":",
    "@",
    ".",
    "\n",
    "http://",
    "null",
  ],
  limitBytes: 2_048,
  run(input) {
    const [host, origin, peer = "127.0.0.1"] = new TextDecoder().decode(input).split("\n");
    const reason = refuseRequest({
      method: "POST",
      host,
      origin: origin || undefined,
      peer,
      fetchSite: undefined,
      authorization: undefined,
    }, { boundHost: "10.1.2.3" });
    if (reason !== undefined) return;
    assert.match(peer, /^(?:::1|(?:::ffff:)?127(?:\.\d{1,3}){3})$/i);
    assert.match(host ?? "", OURS);
    if (origin) assert.equal(origin.toLowerCase(), `http://${host?.toLowerCase()}`);
  },
};
