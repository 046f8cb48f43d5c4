/** An upstream's listener that demands TLS of all its callers: an edge of the mesh. */

import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import type { IssuedLeaf } from "../kit/certs/authority.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { EchoClient, startEcho } from "../kit/wire/echo.ts";
import { type Postern, ready, runPostern } from "../kit/process/postern.ts";
import { freePorts, loopbackHost } from "../kit/process/ports.ts";
import { deadline, eventually } from "../kit/process/process.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";
import { clientPair, TlsSession, TlsTraffic } from "../kit/wire/tls_session.ts";

const HOUR_MS = 3_600_000;
const MESH = createAuthority();
/** Vouches for the edge's certificates, and for some of those who call. */
const WORLD = createAuthority({ trustDomain: "world.test" });

const named = (dnsName: string, authority = WORLD) =>
  authority.issueLeaf({ service: "x", overrides: { uris: [], dnsNames: [dnsName] } });

interface Edge extends AsyncDisposable {
  readonly place: { readonly host: string; readonly port: number };
  readonly postern: Postern;
  /** Puts a pair in the place of another, as `mv` does. */
  write(name: string, leaf: IssuedLeaf): Promise<void>;
}

/** One proxy: its upstream is itself, whose application is an echo. */
async function startEdge(
  listenerTls: (file: (name: string) => string) => object,
  pairs: Readonly<Record<string, IssuedLeaf>>,
  more: { readonly handshakeTimeout?: string } = {},
): Promise<Edge> {
  await using own = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "postern-edge-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const host = loopbackHost();
  const [inbound = 0, port = 0] = await freePorts(host, 2);
  const echo = own.use(await startEcho({ host }));
  const file = (name: string) => join(directory, name);
  const write = async (name: string, { certPem, keyPem }: IssuedLeaf) => {
    await writeFile(file("next.key"), keyPem, { mode: 0o600 });
    await writeFile(file("next.pem"), certPem);
    await rename(file("next.key"), file(`${name}.key`));
    await rename(file("next.pem"), file(`${name}.pem`));
  };
  for (const [name, leaf] of Object.entries(pairs)) await write(name, leaf);
  await write("edge", MESH.issueLeaf({ service: "edge" }));
  await writeFile(file("roots.pem"), MESH.rootPem);
  await writeFile(file("world.pem"), WORLD.rootPem);
  await writeFile(
    file("edge.json"),
    JSON.stringify({
      service: "edge",
      trustDomain: MESH.trustDomain,
      credentials: {
        certFile: file("edge.pem"),
        keyFile: file("edge.key"),
        rootsFile: file("roots.pem"),
      },
      inbound: { bind: `${host}:${inbound}`, local: `${host}:${echo.port}` },
      upstreams: [{
        name: "shop",
        bind: `${host}:${port}`,
        addresses: [`${host}:${inbound}`],
        identity: { service: "edge", datacenter: "dc1" },
        listenerTls: listenerTls(file),
        ...more,
      }],
      // The intentions judge the edge's own identity, for every caller.
      intentions: [{ source: "edge", action: "allow" }],
    }),
  );
  const words = ["proxy", "-config", file("edge.json"), "-admin-bind", "127.0.0.1:0"];
  const postern = own.use(await ready(runPostern(words)));
  const owned = own.move();
  return {
    place: { host, port },
    postern,
    write,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const pairOf = (file: (name: string) => string, name: string) => ({
  source: "file",
  cert: file(`${name}.pem`),
  key: file(`${name}.key`),
});

test("callers without a certificate reach the upstream; SNI picks between two, each rotated", async () => {
  const leaves = { shop: named("shop.example"), pay: named("*.pay.example") };
  await using edge = await startEdge((file) => ({
    certificates: [pairOf(file, "shop"), pairOf(file, "pay")],
    validation: { source: "none" },
  }), leaves);
  const { place } = edge;
  const serial = async (servername: string) => {
    const outcome = await probeTls(place, { servername });
    return outcome.accepted ? outcome.serial : outcome.alert;
  };
  for (
    const [servername, leaf] of [
      ["shop.example", leaves.shop],
      ["eu.pay.example", leaves.pay],
      ["EU.PAY.EXAMPLE", leaves.pay],
      ["a.eu.pay.example", leaves.shop],
      ["pay.example", leaves.shop],
      ["", leaves.shop],
    ] as const
  ) assert.equal(await serial(servername), serialOf(leaf.certPem), servername);

  const traffic = new TlsTraffic(place, { servername: "eu.pay.example" });
  using open = await TlsSession.open(place, { servername: "eu.pay.example" });
  const next = named("*.pay.example");
  await edge.write("pay", next);
  await eventually("the new certificate", async () => {
    return await serial("eu.pay.example") === serialOf(next.certPem);
  });
  assert.equal(await serial("shop.example"), serialOf(leaves.shop.certPem));
  await open.exchange();
  const { errors, handshakes } = await traffic.stop({ atLeast: 3 });
  assert.deepEqual(errors, []);
  assert.ok(handshakes > 2, String(handshakes));

  // A client that speaks plain text gets a TLS alert, and is no caller.
  const clear = await EchoClient.open(place);
  await assert.rejects(clear.exchange(new TextEncoder().encode("hello")));
  assert.ok(await deadline(clear.over, 20_000));
  clear.destroy();
  await edge.postern.process.waitFor(/connection failed[^\n]*code=handshake_failed/, {
    timeoutMs: 20_000,
  });
});

test("a silent caller is dropped at the deadline of the handshake", async () => {
  await using edge = await startEdge(
    (file) => ({ certificate: pairOf(file, "shop"), validation: { source: "none" } }),
    { shop: named("shop.example") },
    { handshakeTimeout: "2s" },
  );
  const silent = await EchoClient.open(edge.place);
  assert.ok(await deadline(silent.over, 20_000));
  silent.destroy();
  await edge.postern.process.waitFor(/connection failed[^\n]*code=handshake_timed_out/, {
    timeoutMs: 20_000,
  });
  await eventually("who speaks is served", async () => {
    using _next = await TlsSession.open(edge.place);
    return true;
  });
});

/** Runtimes differ in whether they end such a handshake or leave the verdict to us. */
const UNTRUSTED = "handshake_failed|chain_untrusted|identity_invalid";

test("callers must present the certificate that the listener requires", async () => {
  await using edge = await startEdge((file) => ({
    certificate: pairOf(file, "shop"),
    validation: {
      source: "file",
      ca: file("world.pem"),
      sanMatchers: [{ type: "dns", exact: "partner.example" }],
    },
  }), { shop: named("shop.example") });
  const { place, postern } = edge;
  const partner = named("partner.example");
  using open = await TlsSession.open(place, { client: clientPair(partner) });

  for (
    const [name, leaf, code] of [
      ["nothing", undefined, UNTRUSTED],
      ["another authority's", named("partner.example", createAuthority()), UNTRUSTED],
      ["one of the mesh", MESH.issueLeaf({ service: "edge" }), UNTRUSTED],
      ["another name's", named("other.example"), "identity_invalid"],
      [
        "an expired one",
        WORLD.issueLeaf({
          service: "x",
          overrides: {
            uris: [],
            dnsNames: ["partner.example"],
            notBeforeMs: Date.now() - 2 * HOUR_MS,
            notAfterMs: Date.now() - HOUR_MS,
          },
        }),
        UNTRUSTED,
      ],
    ] as const
  ) {
    const from = postern.output.length;
    const outcome = await probeTls(place, leaf ? { cert: leaf.certPem, key: leaf.keyPem } : {});
    assert.equal(outcome.accepted, false, name);
    const line = await eventually(`a line about ${name}`, () => {
      return /connections? failed[^\n]*\n/.exec(postern.output.slice(from))?.[0];
    });
    assert.match(line, new RegExp(`listener=[^ ]*shop.*code=(${code})`), name);
  }

  const next = named("shop.example");
  await edge.write("shop", next);
  await eventually("the new certificate", async () => {
    const outcome = await probeTls(place, { cert: partner.certPem, key: partner.keyPem });
    return outcome.accepted && outcome.serial === serialOf(next.certPem);
  });
  await open.exchange();
});
