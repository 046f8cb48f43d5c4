import assert from "node:assert/strict";
import test from "node:test";
import { parseEndpointSocket } from "./sources.ts";

for (
  const [text, want] of [
    ["unix:///run/agent.sock", { kind: "unix", path: "/run/agent.sock" }],
    ["unix:///run/a%20b.sock", { kind: "unix", path: "/run/a b.sock" }],
    ["tcp://127.0.0.1:8081", { kind: "tcp", host: "127.0.0.1", port: 8081 }],
    ["tcp://[::1]:8081", { kind: "tcp", host: "::1", port: 8081 }],
  ] as const
) {
  test(`parseEndpointSocket() reads ${text}`, () => {
    assert.deepEqual(parseEndpointSocket(text), want);
  });
}

for (
  const [text, why] of [
    ["", /neither unix:\/\/ nor tcp:\/\//],
    ["/run/agent.sock", /neither/],
    ["http://127.0.0.1:80", /neither/],
    ["UNIX:///run/agent.sock", /neither/],
    ["unix:/run/agent.sock", /unix:\/\/\/run\/agent\.sock/],
    ["unix:run/agent.sock", /unix:\/\/\/run\/agent\.sock/],
    ["unix://run/agent.sock", /names a host/],
    ["unix:///", /not one of a socket/],
    ["unix:///run/dir/", /not one of a socket/],
    [`unix:///${"x".repeat(107)}`, /107 bytes/],
    ["unix:///run/agent.sock?x=1", /nothing else/],
    ["unix:///run/agent.sock#x", /nothing else/],
    ["unix:///run/%zz", /badly escaped/],
    ["unix:///run/%00x", /not one of a socket/],
    ["tcp://localhost:8081", /"localhost" is not an IP address/],
    ["tcp://127.0.0.256:80", /is not an IP address/],
    ["tcp://127.1:80", /is not an IP address/],
    ["tcp://[1:2]:80", /is not an IP address/],
    ["tcp://127.0.0.1", /IP address and a port/],
    ["tcp://127.0.0.1:", /IP address and a port/],
    ["tcp://127.0.0.1:0", /from 1 to 65535/],
    ["tcp://127.0.0.1:70000", /from 1 to 65535/],
    ["tcp://127.0.0.1:80/", /nothing may follow/],
    ["tcp://127.0.0.1:80/foo", /nothing may follow/],
    ["tcp://127.0.0.1:80?x", /nothing may follow/],
    ["tcp://me@127.0.0.1:80", /IP address and a port/],
    ["tcp://[127.0.0.1]:80", /is not an IP address/],
    ["tcp://[::1%25lo]:80", /IP address and a port/],
    ["tcp://::1:80", /IP address and a port/],
  ] as const
) {
  test(`parseEndpointSocket() refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
    assert.match(String(parseEndpointSocket(text)), why);
  });
}
