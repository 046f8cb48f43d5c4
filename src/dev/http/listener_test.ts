/** The API refuses web pages of other origins in a developer's browser. @module */

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { systemClock } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { ApiListener, refusePages } from "./listener.ts";

/** The status of a request with these fields. */
async function ask(port: number, fields: readonly string[]): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write(
    `GET /v1/agent/self HTTP/1.1\r\n${fields.join("\r\n")}\r\nConnection: close\r\n\r\n`,
  );
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return text.slice(9, 12);
}

for (
  const [bound, what, fields, status] of [
    ["127.0.0.1", "a program", ["Host: 127.0.0.1:8500"], "200"],
    ["127.0.0.1", "a program by name", ["Host: localhost:8500"], "200"],
    ["127.0.0.1", "a request without a host", ["Accept: */*"], "400"],
    [
      "127.0.0.1",
      "a request typed into a browser",
      ["Host: [::1]:8500", "Sec-Fetch-Site: none"],
      "200",
    ],
    ["127.0.0.1", "a page of its own", ["Host: localhost:1", "Origin: http://localhost:1"], "200"],
    ["127.0.0.1", "another host name", ["Host: evil.example:8500"], "403"],
    [
      "127.0.0.1",
      "a host name that begins with the address",
      ["Host: 127.0.0.1.evil.example"],
      "403",
    ],
    ["127.0.0.1", "a name without a dot", ["Host: evil"], "403"],
    ["127.0.0.1", "two hosts in one", ["Host: localhost@evil.example"], "400"],
    ["127.0.0.1", "another origin", ["Host: 127.0.0.1:1", "Origin: http://evil.example"], "403"],
    ["127.0.0.1", "another port", ["Host: 127.0.0.1:1", "Origin: http://127.0.0.1:2"], "403"],
    ["127.0.0.1", "a sandbox", ["Host: 127.0.0.1:1", "Origin: null"], "403"],
    ["127.0.0.1", "a picture", ["Host: 127.0.0.1:1", "Sec-Fetch-Site: cross-site"], "403"],
    ["0.0.0.0", "an address of the machine's", ["Host: 10.0.0.7:8500"], "200"],
    ["0.0.0.0", "a container by its name", ["Host: consul-dev:8500"], "200"],
    ["0.0.0.0", "the host of a container", ["Host: host.docker.internal:8500"], "200"],
    ["0.0.0.0", "another host name", ["Host: evil.example:8500"], "403"],
  ] as const
) {
  test(`ApiListener on ${bound} answers ${what} with ${status}`, async () => {
    const server = new ApiListener({
      acceptor: runtimeEngine(),
      clock: systemClock,
      host: bound,
      fetch: () => new Response("keys"),
      whyRefused: refusePages(bound, { isSecure: false }),
      onError: assert.fail,
    });
    await server.start(0);
    try {
      assert.equal(await ask(server.port, fields), status);
    } finally {
      server.stop();
    }
  });
}
