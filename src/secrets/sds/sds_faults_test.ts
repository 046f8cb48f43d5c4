import assert from "node:assert/strict";
import test from "node:test";
import { Buffer } from "node:buffer";
import { createHash, X509Certificate } from "node:crypto";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { startTcp, startTrickle } from "../../../test/kit/wire/grpc_server.ts";
import { SdsClient } from "../../../test/kit/secrets/sds_client.ts";
import {
  inlineCertificate,
  type SdsServer,
  type ServerStream,
  startSdsServer,
} from "../../../test/kit/secrets/sds_server.ts";
import { SteadyClock } from "../../../test/kit/clock/steady_clock.ts";
import { createLog, type LogRecord, systemClock } from "../../base/mod.ts";
import { NO_RULES, type PeerRules } from "../../identity/mod.ts";
import type { SecretSpec } from "../model/secret.ts";

const authority = createAuthority();
const leaf = authority.issueLeaf({ service: "web" });
const LIMITS = {
  messageBytes: 100_000,
  connectMs: 300,
  firstMessageMs: 200,
  messageBurst: 20,
  messagesPerSecond: 200,
  floodMs: 100,
};

/** The server's fault on its first streams. */
const MISDEEDS: readonly (readonly [
  name: string,
  wanted: RegExp,
  act: (stream: ServerStream, server: SdsServer) => void,
])[] = [
  ["stays silent", /DEADLINE_EXCEEDED: no whole message came in time/, () => {}],
  ["ends the stream without a message", /Cannot read.*: OK/, (stream) => stream.end()],
  ["fails", /INTERNAL: a defect/, (stream) => stream.fail(13, "a defect")],
  [
    "sends bytes that are no message",
    /INTERNAL: a message cannot be decoded/,
    (stream) => void stream.write(new Uint8Array(64).fill(0xff)),
  ],
  [
    "sends a message that is too large",
    /RESOURCE_EXHAUSTED: a message of 200000 bytes is above the limit of 100000/,
    (stream) => void stream.write(new Uint8Array(200_000)),
  ],
  [
    "sends without a break",
    /RESOURCE_EXHAUSTED: the server sends messages without a break/,
    (stream, server) => {
      const bytes = server.encode("DiscoveryResponse", { nonce: "1" });
      let left = 30_000;
      const timer = setInterval(() => {
        if (server.streams > 2 || left-- === 0) return clearInterval(timer);
        for (let count = 0; count < 20; count++) stream.write(bytes);
      }, 1);
    },
  ],
];

for (const [name, wanted, act] of MISDEEDS) {
  test(`SdsProvider reconnects to a server that ${name}`, async () => {
    await using server: SdsServer = await startSdsServer({
      onStream: (stream) => {
        if (server.streams > 2) return false;
        act(stream, server);
        return true;
      },
    });
    using clock = new SteadyClock();
    const limits = LIMITS;
    await using client = new SdsClient({ address: server.address, api: "sotw", limits, clock });
    server.set(inlineCertificate("web", leaf));
    const web = client.watch("web");
    assert.match((await web.next("unreachable")).reason, wanted);
    await web.next("secret");
    assert.equal(server.streams, 3);
    const unreachable = web.events.filter(({ kind }) => kind === "unreachable");
    // Reported once, unless the server has answered in between.
    assert.equal(unreachable.length, name === "sends without a break" ? 2 : 1);
    assert.match(
      client.metrics(),
      /sds_update_failure_total\{secret="web",source="sds sds_cluster"\} 2/,
    );
  });
}

test("SdsProvider tries the next server if one trickles, stalls or speaks another protocol", async () => {
  await using trickling = await startTrickle();
  await using silent = await startTcp(() => {});
  await using other = await startTcp((socket) => void socket.end("220 mail.test ESMTP\r\n"));
  using clock = new SteadyClock();
  for (const bad of [trickling, silent, other]) {
    await using server = await startSdsServer();
    server.set(inlineCertificate("web", leaf));
    const address = [bad.address, server.address];
    await using client = new SdsClient({ address, limits: LIMITS, clock });
    const web = client.watch("web");
    await web.next("unreachable");
    await web.next("secret");
  }
});

function inline(pem: string): { readonly kind: "inline"; readonly bytes: Uint8Array } {
  return { kind: "inline", bytes: Buffer.from(pem) };
}

function trust(pem: string, rules: Partial<PeerRules> = {}): SecretSpec & { type: "validation" } {
  const anchors = pem === "" ? {} : { trustedCa: inline(pem) };
  return { type: "validation", ...anchors, systemRoots: false, rules: { ...NO_RULES, ...rules } };
}

const address = new Uint8Array([0x87, 4, 127, 0, 0, 1]);
const issued = authority.issueLeaf({
  service: "sds",
  overrides: { dnsNames: ["*.sds.test"], altNames: [address] },
});
const stranger = createAuthority();
const digest = createHash("sha256").update(new X509Certificate(issued.certPem).raw).digest("hex");
const uri = {
  type: "uri",
  matcher: { kind: "suffix", value: "/svc/sds", ignoreCase: false },
} as const;
const wrongUri = { ...uri, matcher: { ...uri.matcher, value: "/svc/other" } };

for (
  const [name, serverName, validation, reached] of [
    ["accepts a server with the right name", "a.sds.test", trust(authority.rootPem), true],
    ["refuses a server with another name", "a.b.sds.test", trust(authority.rootPem), false],
    ["accepts a server with the right address", "127.0.0.1", trust(authority.rootPem), true],
    ["refuses a server with another address", "127.0.0.2", trust(authority.rootPem), false],
    ["refuses a server of another CA", "a.sds.test", trust(stranger.rootPem), false],
    [
      "checks matchers instead of the name",
      "x.test",
      trust(authority.rootPem, { matchers: [uri] }),
      true,
    ],
    [
      "refuses a server that no matcher fits",
      "a.sds.test",
      trust(authority.rootPem, { matchers: [wrongUri] }),
      false,
    ],
    ["checks only a pin", "x.test", trust("", { certificateHashes: [digest] }), true],
    [
      "refuses another certificate than the pinned one",
      "a.sds.test",
      trust("", { certificateHashes: ["00".repeat(32)] }),
      false,
    ],
    [
      "accepts expired anchors where that is allowed",
      "a.sds.test",
      trust(authority.rootPem, { allowExpired: true }),
      true,
    ],
  ] as const
) {
  test(`SdsProvider over mutual TLS ${name}`, async () => {
    await using server = await startSdsServer({
      tcp: { port: 0 },
      tls: {
        certPem: issued.certPem,
        keyPem: issued.keyPem,
        clientCaPem: authority.rootPem,
        requireClient: true,
      },
    });
    server.set(inlineCertificate("web", leaf));
    const certificate = {
      type: "certificate",
      chain: inline(leaf.certPem),
      key: inline(leaf.keyPem),
    } as const;
    await using client = new SdsClient({
      address: server.address,
      server: { tls: { serverName, validation, certificate } },
    });
    const web = client.watch("web");
    if (reached) await web.next("secret");
    else {
      assert.match((await web.next("unreachable")).reason, /UNAVAILABLE: /);
      assert.deepEqual(server.requests, [], "an untrusted server gets no request");
    }
  });
}

test("SdsProvider logs a lost server once, and only after a while", async () => {
  const lines: LogRecord[] = [];
  let offsetMs = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + offsetMs };
  const log = createLog({
    clock,
    write: (line) => void lines.push(line),
    holder: { level: "debug" },
  });
  await using client = new SdsClient({
    address: { kind: "unix", path: "/nonexistent/sds.sock" },
    clock,
    server: { backoffBaseMs: 1, backoffMaxMs: 2 },
    deps: { log },
  });
  client.watch("web");
  const until = async (count: number) => {
    while (lines.length < count) await new Promise((resolve) => setImmediate(resolve));
    return lines.map(({ level }) => level);
  };
  assert.deepEqual(new Set(await until(3)), new Set(["debug"]));
  offsetMs = 31_000;
  const levels = await until(lines.length + 5);
  assert.equal(levels.filter((level) => level === "warn").length, 1);
});

test("SdsProvider follows the files that a server names, or refuses them if it may not name any", async () => {
  await using server = await startSdsServer();
  const spec = {
    name: "web",
    tls_certificate: {
      certificate_chain: { filename: "/etc/web.pem" },
      private_key: { filename: "/etc/web.key" },
    },
  };
  server.set(spec);
  await using strict = new SdsClient({ address: server.address });
  assert.match((await strict.watch("web").next("rejected")).reason, /may not name files/);
  const closed: string[] = [];
  await using client = new SdsClient({
    address: server.address,
    deps: {
      followFiles: (followed, _ref, events) => {
        const path = followed.type === "certificate" && followed.chain?.kind === "file"
          ? followed.chain.path
          : "";
        queueMicrotask(() => {
          events.onRejected(`Cannot read ${path}: there is no such file`);
          events.onSecret({ ...SECRET, dnsNames: [path] }, "");
        });
        return { refresh() {}, close: () => void closed.push(path) };
      },
    },
  });
  const web = client.watch("web");
  assert.match((await web.next("rejected")).reason, /there is no such file/);
  await web.next("secret");
  const named = { ...spec.tls_certificate, certificate_chain: { filename: "/etc/new.pem" } };
  server.set({ ...spec, tls_certificate: named });
  const { secret } = await web.next("secret", 3);
  assert.deepEqual(secret.type === "certificate" && secret.dnsNames, ["/etc/new.pem"]);
  assert.deepEqual(closed, ["/etc/web.pem"]);
  server.set(inlineCertificate("web", leaf));
  await web.next("secret", 4);
  assert.deepEqual(closed, ["/etc/web.pem", "/etc/new.pem"]);
});

const SECRET = {
  type: "certificate",
  certPem: leaf.certPem,
  keyPem: leaf.keyPem,
  keyKind: "ecdsa",
  dnsNames: [],
  uris: [],
  serial: "01",
  notBeforeMs: 0,
  notAfterMs: 1,
} as const;
