/**
 * A listener or upstream that changes over to credentials of its own, or back to the mesh's, judges the
 * connections that are open by the new ones: who may stay does not notice, who may not is closed.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { openClient, type TestClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { caValidation, inboundBy, upstreamsBy, withOwn } from "../kit/secrets/own_credentials.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { deadline } from "../kit/process/process.ts";

const OTHER = createAuthority({ trustDomain: "other.test" });
const exact = (value: string) => [
  { type: "uri" as const, matcher: { kind: "exact" as const, value, ignoreCase: false } },
];

async function exchange(client: TestClient): Promise<void> {
  client.send("hello");
  assert.equal(String(await client.read(5)), "hello");
}

/** One that stays open must fail, not hang. */
function goneSoon(client: TestClient): Promise<boolean | undefined> {
  return deadline(client.gone.then(() => true), 20_000);
}

async function openThrough(pair: PathPair): Promise<TestClient> {
  const client = await openClient(pair.port);
  await exchange(client);
  return client;
}

for (
  const [name, own, stays] of [
    ["the same roots", (pair: PathPair) => ({ validation: caValidation([pair.ca]) }), true],
    ["the mesh's rules under another name", () => ({}), true],
    ["roots of strangers", () => ({ validation: caValidation([OTHER]) }), false],
    ["a name that it has not", (pair: PathPair) => ({
      validation: caValidation([pair.ca], { matchers: exact("spiffe://other.test/x") }),
    }), false],
    ["secrets that have not come", () => ({ own: { missing: ["roots"] } }), false],
  ] as const
) {
  const outcome = stays ? "stays open" : "is closed";
  test(`a client ${outcome} when the public listener goes over to ${name}`, async () => {
    await using echo = await startEcho();
    await using pair = await startPathPair({ localPort: echo.port });
    await using client = await openThrough(pair);
    const changed = withOwn(pair.dbSnapshot, "inbound", {
      // A peer of the mesh is still that service to the intentions.
      own: { trustDomains: [pair.ca.trustDomain] },
      ...own(pair),
    });
    await pair.db.set(inboundBy(changed, "inbound"));
    if (stays) await exchange(client);
    else assert.equal(await goneSoon(client), true);
  });

  test(`a server's connection ${outcome} when its upstream goes over to ${name}`, async () => {
    await using echo = await startEcho();
    await using pair = await startPathPair({ localPort: echo.port });
    await using client = await openThrough(pair);
    await pair.web.set(
      upstreamsBy(
        withOwn(pair.webSnapshot, "service:default/default/db", own(pair)),
        "service:default/default/db",
      ),
    );
    if (stays) await exchange(client);
    else assert.equal(await goneSoon(client), true);
  });
}

test("open connections stay when their listener and upstream go back to the mesh's own", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  const own = { own: { trustDomains: [pair.ca.trustDomain] }, validation: caValidation([pair.ca]) };
  await pair.db.set(inboundBy(withOwn(pair.dbSnapshot, "inbound", own), "inbound"));
  await pair.web.set(upstreamsBy(withOwn(pair.webSnapshot, "db", own), "db"));
  await using client = await openThrough(pair);
  await pair.db.set(inboundBy(pair.dbSnapshot, null));
  await pair.web.set(upstreamsBy(pair.webSnapshot, null));
  await exchange(client);
  await using second = await openThrough(pair);
  await exchange(second);
});

test("a plain-text caller is closed when its upstream's listener requires TLS", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openThrough(pair);
  const own = withOwn(pair.webSnapshot, "db listener", { validation: caValidation([pair.ca]) });
  const upstreams = Object.values(own.upstreams).map((part) =>
    [part.id, {
      ...part,
      version: own.version,
      listener: { credentials: "db listener", handshakeTimeoutMs: 10_000 },
    }] as const
  );
  await pair.web.set({ ...own, upstreams: Object.fromEntries(upstreams) });
  assert.equal(await goneSoon(client), true);
});

test("a client without a certificate is closed when its listener goes back to the mesh's", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  const own = withOwn(pair.dbSnapshot, "inbound", {
    validation: null,
    own: { requireClientCertificate: false },
  });
  await pair.db.set(
    inboundBy(
      { ...own, policy: { version: 5_000, intentions: [], defaultAction: "allow" } },
      "inbound",
    ),
  );
  await using client = await openThrough(pair);
  await pair.db.set(
    inboundBy({
      ...pair.dbSnapshot,
      policy: { version: 5_000, intentions: [], defaultAction: "allow" },
    }, null),
  );
  assert.equal(await goneSoon(client), true);
});
