import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../test/kit/clock/clock.ts";
import { http2ClientRig } from "../../test/kit/wire/http2_client_rig.ts";
import { http1ClientRig, serveRaw } from "../../test/kit/wire/http1.ts";
import { isNoRequest, isNoResponse, spokenInBytes } from "./first_bytes.ts";

const octets = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));

const CLIENT_HELLO = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
const ALERT = "\x15\x03\x03\x00\x02\x02\x46";
const SETTINGS = "\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
const MYSQL = "\x4a\0\0\0\x0a8.0.36\0";

/** First bytes of other protocols, and the names reported for them. */
const OTHERS: readonly (readonly [greeting: string, spoken: string])[] = [
  [CLIENT_HELLO, "TLS"],
  [ALERT, "a TLS alert"],
  ["SSH-2.0-OpenSSH_9.6\r\n", "SSH"],
  ["220 mail.example ESMTP\r\n", "SMTP or FTP"],
  [MYSQL, "MySQL"],
  ["-ERR unknown command\r\n", "Redis or POP3"],
  ["\x00\x01\x02", "no HTTP"],
  ["hello\r\n", "no HTTP"],
];

for (const [greeting, spoken] of [...OTHERS, [SETTINGS, "HTTP/2"] as const]) {
  const shown = JSON.stringify(greeting);
  test(`a caller that begins with ${shown} is refused at once`, async () => {
    const { client, invalid, ends } = serveRaw();
    await client.send(greeting);
    assert.deepEqual(invalid, [`400 the caller speaks ${spoken} where HTTP is spoken`]);
    assert.notEqual(client.over, "no");
    client.connection.end();
    await settle();
    assert.deepEqual(ends.map(({ kind }) => kind), ["protocol"]);
  });

  test(`an HTTP/1.1 client breaks at once with a server that answers ${shown}`, async () => {
    for (const bytewise of [false, true]) {
      const { server, request, ends } = http1ClientRig();
      const reply = request();
      await server.send(greeting, { bytewise });
      assert.equal(reply.state, "reset protocol");
      assert.equal(server.over, "reset");
      assert.match(ends[0]?.detail ?? "", /^answers .+ where Protocol says http$/);
      if (!bytewise) assert.ok(ends[0]?.detail.includes(spoken), spoken);
    }
  });
}

for (const [greeting, spoken] of [...OTHERS, ["HTTP/1.1 400 Bad", "HTTP/1.1"] as const]) {
  // Bytes that look like a frame are judged with the whole frame header.
  if (greeting.startsWith("\0")) continue;
  test(`an HTTP/2 client breaks at once with a server that answers ${JSON.stringify(greeting)}`, async () => {
    const { peer, request, ends } = await http2ClientRig(null);
    const { recorded } = request();
    await peer.send(octets(greeting));
    const detail = `answers ${spoken} where Protocol says http2`;
    assert.deepEqual(ends, [{ by: "peer", kind: "protocol", detail }]);
    assert.deepEqual(recorded.reset, { reason: "protocol", detail });
  });
}

for (
  const text of [
    "",
    "\r",
    "\r\n",
    "G",
    "GET",
    "GET ",
    "GET /a",
    "GET /a HTTP/1.1\r",
    "PRI * HTTP/2.0",
  ]
) {
  test(`isNoRequest() is not sure of ${JSON.stringify(text)}`, () => {
    assert.equal(isNoRequest(octets(text)), false);
  });
}

for (
  const text of [
    "GET /a\r\n",
    "EHLO me\r\n",
    "\0",
    "\n",
    "a\tb",
    "GET /a FTP/1\r\n",
    "\r\nSSH-2\r\n",
  ]
) {
  test(`isNoRequest() is sure of ${JSON.stringify(text)}`, () => {
    assert.equal(isNoRequest(octets(text)), true);
  });
}

test("isNoResponse() accepts any beginning of HTTP/1", () => {
  for (const text of ["", "H", "HTTP", "HTTP/1.", "HTTP/1.1 2"]) {
    assert.equal(isNoResponse(octets(text)), false);
  }
  for (const text of ["h", "HTTP/2", "\r\n", " HTTP/1.1"]) {
    assert.equal(isNoResponse(octets(text)), true);
  }
  assert.equal(spokenInBytes(octets("PRI * HTTP/2.0\r\n")), "HTTP/2");
});
