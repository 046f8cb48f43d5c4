import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { MemoryEngine } from "../../../test/kit/engine/memory_engine.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import {
  certificateSecret,
  credentialsPlan,
  FakeProviders,
  secretRef,
} from "../../../test/kit/secrets/secret_peers.ts";
import { silentLog, Stats, systemClock, systemRandom } from "../../base/mod.ts";
import { LoadingProvider } from "./providers.ts";
import {
  createProviders,
  type SecretEvents,
  type SecretProvider,
  type SecretSource,
  SecretStore,
} from "../mod.ts";

function recordEvents() {
  const reported: string[] = [];
  const events: SecretEvents = {
    onSecret: () => void reported.push("secret"),
    onRejected: (reason) => void reported.push(reason),
    onRecovered: () => void reported.push("recovered"),
    onUnreachable: (reason) => void reported.push(reason),
    onReached: () => void reported.push("reached"),
    onDenied: (reason) => void reported.push(reason),
    onRemoved: () => void reported.push("removed"),
  };
  return { reported, events };
}

function setUp() {
  const peers = new FakeProviders();
  const source = secretRef("x").source as Exclude<SecretSource, { kind: "consul" }>;
  const { promise, resolve, reject } = Promise.withResolvers<SecretProvider>();
  const provider = new LoadingProvider(() => promise);
  return { peers, provider, reject, load: () => resolve(peers.factory(source)) };
}

test("LoadingProvider follows the secrets that were watched while it loaded, and later ones", async () => {
  const { peers, provider, load } = setUp();
  const { reported, events } = recordEvents();
  const web = provider.watch(secretRef("web"), events);
  provider.watch(secretRef("gone"), events).close();
  web.refresh();
  load();
  await settle();
  const later = provider.watch(secretRef("later"), events);
  await settle();
  assert.deepEqual(peers.names, ["web", "later"]);
  web.refresh();
  assert.equal(peers.of("web").refreshes, 1);
  peers.of("web").events.onSecret(certificateSecret("01"), "1");
  assert.deepEqual(reported, ["secret"]);
  web.close();
  later.close();
  assert.deepEqual(peers.names, []);
  await provider.close();
  assert.equal(peers.closed, 1);
});

test("LoadingProvider.close() closes a provider that is loaded later, and follows nothing", async () => {
  const { peers, provider, load } = setUp();
  const { reported, events } = recordEvents();
  provider.watch(secretRef("web"), events);
  const closed = provider.close();
  load();
  await closed;
  assert.deepEqual([peers.begun, peers.closed, reported], [0, 1, []]);
});

test("LoadingProvider reports a failed load to every watch, asynchronously", async () => {
  const { provider, reject } = setUp();
  const { reported, events } = recordEvents();
  provider.watch(secretRef("web"), events);
  reject(new Error("no such module"));
  await settle();
  provider.watch(secretRef("api"), events);
  assert.deepEqual(reported, ['Cannot follow secret "web": no such module']);
  await settle();
  assert.deepEqual(reported.slice(1), ['Cannot follow secret "api": no such module']);
  await provider.close();
});

test("createProviders() follows files, and waits for an absent one", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-"));
  const leaf = createAuthority().issueLeaf({ service: "web" });
  const path = join(directory, "web.pem");
  await writeFile(path, leaf.certPem + leaf.keyPem);
  const store = new SecretStore({
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    stats: new Stats(),
    providers: createProviders({
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      stats: new Stats(),
      version: "1",
      env: {},
      engine: new MemoryEngine(),
    }),
  });
  const file = { kind: "file", path } as const;
  const secretFile = join(directory, "secret.yaml");
  await writeFile(
    secretFile,
    `resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: described
  tls_certificate:
    certificate_chain: { filename: ${JSON.stringify(path)} }
    private_key: { filename: ${JSON.stringify(path)} }
`,
  );
  const gone = { kind: "file", path: join(directory, "gone.pem") } as const;
  const source = (at: typeof file): SecretSource => ({
    kind: "spec",
    watch: true,
    spec: { type: "certificate", chain: at, key: at },
  });
  const opened = new Promise<void>((resolve) => {
    store.onChange = () => {
      const { web, edge } = store.held.credentials;
      if (web?.kind === "open" && edge?.kind === "open") resolve();
    };
  });
  store.follow({
    web: credentialsPlan({ certificates: [secretRef("web", { source: source(file) })] }),
    edge: credentialsPlan({
      certificates: [
        secretRef("described", { source: { kind: "secret_file", path: secretFile } }),
      ],
    }),
    api: credentialsPlan({ certificates: [secretRef("api", { source: source(gone) })] }),
  });
  await opened;
  const held = Object.values(store.held.certificates);
  assert.deepEqual(held.map(({ source }) => source).sort(), [`file ${secretFile}`, `file ${path}`]);
  for (const { value } of held) assert.equal(value.certPem.trim(), leaf.certPem.trim());
  assert.equal(store.held.credentials.api?.kind, "warming");
  await store.close();
  await rm(directory, { recursive: true });
});
