/**
 * Callers from outside a Consul mesh and the intentions of a configuration file: a SPIFFE id, all ids
 * below one, and who has none.
 *
 * @module
 */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { type Place, startEcho } from "../kit/wire/echo.ts";
import { freePort, loopbackHost } from "../kit/process/ports.ts";
import { type Postern, ready, runPostern } from "../kit/process/postern.ts";
import { probeTls } from "../kit/wire/tls_probe.ts";

const CA = createAuthority({ trustDomain: "example.org" });
const MESH = createAuthority({ trustDomain: "mesh.test" });
const OTHER = createAuthority({ trustDomain: "example.org" });

interface Story extends AsyncDisposable {
  readonly place: Place;
  readonly postern: Postern;
}

async function start(config: Readonly<Record<string, unknown>>, tls: object): Promise<Story> {
  const directory = await mkdtemp(join(tmpdir(), "postern-intentions-"));
  const host = loopbackHost();
  const echo = await startEcho({ host });
  const place = { host, port: await freePort(host) };
  const leaf = CA.issueLeaf({ service: "x", uri: "spiffe://example.org/db" });
  const write = (name: string, text: string) =>
    writeFile(join(directory, name), text, { mode: 0o600 });
  await write("db.pem", leaf.certPem);
  await write("db.key", leaf.keyPem);
  await write("roots.pem", CA.rootPem + MESH.rootPem);
  await write(
    "db.json",
    JSON.stringify({
      service: "db",
      ...config,
      inbound: {
        bind: `${host}:${place.port}`,
        local: `${host}:${echo.port}`,
        tls: { source: "file", cert: "db.pem", key: "db.key", ca: "roots.pem", ...tls },
      },
    }),
  );
  const words = ["proxy", "-config", join(directory, "db.json"), "-admin-bind", "127.0.0.1:0"];
  const postern = await ready(runPostern(words));
  return {
    place,
    postern,
    async [Symbol.asyncDispose]() {
      await postern[Symbol.asyncDispose]();
      await echo.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

const issuers = { CA, MESH, OTHER };

async function isLetIn(
  { place }: Story,
  caller: readonly [issuer: keyof typeof issuers, uri: string] | undefined,
): Promise<boolean> {
  if (!caller) return (await probeTls(place)).accepted;
  const leaf = issuers[caller[0]].issueLeaf({ service: "x", uri: caller[1] });
  return (await probeTls(place, { cert: leaf.certPem, key: leaf.keyPem })).accepted;
}

const DEFAULT_DENY = {
  trustDomain: "mesh.test",
  intentions: [
    { source: "web", action: "allow" },
    { source: "spiffe://example.org/web", action: "allow" },
    { source: "spiffe://example.org/jobs/*", action: "allow" },
    { source: "spiffe://example.org/jobs/bad/*", action: "deny" },
  ],
};
const EVERYBODY_DENIED = {
  trustDomain: "mesh.test",
  defaultAction: "allow",
  intentions: [
    { source: "*", action: "deny" },
    { source: "spiffe://example.org/web", action: "allow" },
  ],
};
const SERVICE = "spiffe://mesh.test/ns/default/dc/dc1/svc";
/** Callers, and whether they are let in. */
type Callers = readonly (readonly [
  string,
  readonly [keyof typeof issuers, string] | undefined,
  boolean,
])[];
const STORIES: readonly (readonly [string, Readonly<Record<string, unknown>>, object, Callers])[] =
  [
    ["where no caller is allowed by default", DEFAULT_DENY, {}, [
      ["the id that a rule names", ["CA", "spiffe://example.org/web"], true],
      ["an id below one", ["CA", "spiffe://example.org/jobs/nightly/1"], true],
      ["an id below a longer one that denies", ["CA", "spiffe://example.org/jobs/bad/1"], false],
      ["an id that no rule names", ["CA", "spiffe://example.org/web2"], false],
      ["a service of the trust domain", ["MESH", `${SERVICE}/web`], true],
      ["another service of it", ["MESH", `${SERVICE}/shop`], false],
      ["a service's id in another trust domain", [
        "CA",
        "spiffe://example.org/ns/default/dc/dc1/svc/web",
      ], false],
      ["a stranger with the right id", ["OTHER", "spiffe://example.org/web"], false],
      ["a client without a certificate", undefined, false],
    ]],
    ["where everybody is denied but one", EVERYBODY_DENIED, { requireClientCertificate: false }, [
      ["the one", ["CA", "spiffe://example.org/web"], true],
      ["another id", ["CA", "spiffe://example.org/jobs"], false],
      ["a service", ["MESH", `${SERVICE}/web`], false],
      ["a client without a certificate", undefined, false],
    ]],
    ["where anybody is allowed by default", { defaultAction: "allow" }, {
      requireClientCertificate: false,
    }, [
      ["any id", ["CA", "spiffe://example.org/jobs"], true],
      ["a client without a certificate", undefined, true],
      ["a stranger, whose CA is not trusted", ["OTHER", "spiffe://example.org/web"], false],
    ]],
    [
      "where claims are let through",
      {
        intentions: [{ source: "spiffe://example.org/web", action: "allow" }],
      },
      { acceptUntrusted: true },
      [
        ["one that is vouched for", ["CA", "spiffe://example.org/web"], true],
        ["a mere claim of the same id", ["OTHER", "spiffe://example.org/web"], false],
      ],
    ],
  ];

for (const [name, config, tls, callers] of STORIES) {
  test(`intentions ${name} decide about every caller`, { timeout: 180_000 }, async () => {
    await using story = await start(config, tls);
    const found: [string, boolean][] = [];
    for (const [caller, shown] of callers) found.push([caller, await isLetIn(story, shown)]);
    assert.deepEqual(found, callers.map(([caller, , want]) => [caller, want]));
  });
}
