import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { createLog, type LogRecord, systemClock } from "../../base/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import type { TlsFiles } from "../http/files.ts";
import { createServersTls } from "./servers_tls.ts";
import type { ServerAddresses } from "./types.ts";

const ca = createAuthority();
const stranger = createAuthority();
const FILES: TlsFiles = {
  caFile: "",
  caPath: "",
  certFile: "",
  keyFile: "",
  serverName: "",
  verify: true,
};
const NAME: ServerAddresses = { kind: "names", names: ["consul.example"] };

const leafOf = (authority: typeof ca, dnsNames: string[]) =>
  parsePem(authority.issueLeaf({ service: "x", overrides: { dnsNames } }).certPem, { what: "leaf" })
    .map(({ der }) => der);

class Files implements AsyncDisposable {
  readonly lines: LogRecord[] = [];
  readonly deps = {
    clock: systemClock,
    log: createLog({
      clock: new FakeClock(),
      holder: { level: "trace" },
      write: (line) => void this.lines.push(line),
    }),
  };
  readonly caFile: string;
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.caFile = join(directory, "ca.pem");
  }

  static async create(...pems: string[]): Promise<Files> {
    const files = new Files(await mkdtemp(join(tmpdir(), "postern-servers-tls-")));
    await writeFile(files.caFile, pems.join(""));
    return files;
  }

  make(tls: Partial<TlsFiles> = {}, places = NAME, datacenter = "") {
    const options = { places, tls: { ...FILES, caFile: this.caFile, ...tls }, datacenter };
    return createServersTls(options, this.deps);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.#directory, { recursive: true, force: true });
  }
}

test("createServersTls() judges a server's certificate by chain and name", async () => {
  await using files = await Files.create(stranger.rootPem, ca.rootPem);
  const tls = files.make();
  assert.equal(tls?.serverName, "consul.example");
  const { judge, peerCheck, rootPems } = await tls.material();
  assert.deepEqual([peerCheck, rootPems.length], ["checked", 2]);
  assert.equal(judge(leafOf(ca, ["server.dc1.consul", "Consul.Example"])), undefined);
  assert.match(
    judge(leafOf(ca, ["server.dc1.consul"])) ?? "",
    /none of its alternative names.*\(.*server\.dc1\.consul.*\); -tls-server-name says consul\.example$/,
  );
  assert.match(judge(leafOf(ca, ["*.other.example"])) ?? "", /none of its alternative names/);
  assert.match(judge([]) ?? "", /showed no certificate/);
  const other = createAuthority();
  assert.match(
    judge(leafOf(other, ["consul.example"])) ?? "",
    /is not trusted: no root .*; CAs are taken from -ca-file \(CONSUL_CACERT\) ".*ca\.pem"$/,
  );
});

test("createServersTls() relies on our own check alone where the files have no root", async () => {
  const below = ca.intermediate();
  await using files = await Files.create(
    formatPem("CERTIFICATE", below.chainDer[0] ?? assert.fail()),
  );
  const { judge, peerCheck } = await files.make()?.material() ?? assert.fail();
  assert.equal(peerCheck, "shown");
  assert.equal(judge(leafOf(below, ["consul.example"])), undefined);
  assert.match(judge(leafOf(stranger, ["consul.example"])) ?? "", /is not trusted/);
});

test("createServersTls() uses the given server name, which may be an address", async () => {
  await using files = await Files.create(ca.rootPem);
  assert.equal(files.make({ serverName: "server.dc1.consul" })?.serverName, "server.dc1.consul");
  const byAddress = files.make({ serverName: "10.0.0.1" });
  const { judge } = await byAddress?.material() ?? assert.fail();
  assert.match(judge(leafOf(ca, ["10.0.0.1"])) ?? "", /none of its alternative names/);
});

for (
  const places of [
    { kind: "names", names: ["10.0.0.1"] },
    { kind: "names", names: ["::1"] },
    { kind: "names", names: ["a.example", "b.example"] },
    { kind: "exec", command: ["discover"] },
  ] as readonly ServerAddresses[]
) {
  test(`createServersTls() requires a server name for ${JSON.stringify(places)}`, async () => {
    await using files = await Files.create(ca.rootPem);
    assert.throws(() => files.make({}, places, "dc7"), {
      code: "config_invalid",
      message:
        /-tls-server-name \(CONSUL_TLS_SERVER_NAME\), in most clusters server\.dc7\.consul, or give -tls-disabled/,
    });
    assert.equal(files.make({ verify: false }, places)?.serverName, "");
  });
}

test("createServersTls() accepts any server where verification is disabled", async () => {
  await using files = await Files.create(ca.rootPem);
  const { judge, peerCheck } = await files.make({ verify: false })?.material() ?? assert.fail();
  assert.deepEqual([judge(leafOf(stranger, [])), peerCheck], [undefined, "shown"]);
});

test("createServersTls() reads files before each connection, and keeps the last good ones", async () => {
  await using files = await Files.create(ca.rootPem);
  const tls = files.make() ?? assert.fail();
  await writeFile(files.caFile, stranger.rootPem);
  const leaf = leafOf(stranger, ["consul.example"]);
  assert.equal((await tls.material()).judge(leaf), undefined);
  await writeFile(files.caFile, "");
  assert.equal((await tls.material()).judge(leaf), undefined);
  await writeFile(files.caFile, ca.rootPem);
  assert.match(
    (await tls.material()).judge(leaf) ?? "",
    /is not trusted/,
    "the first CAs are used again",
  );
  assert.deepEqual(files.lines.map(({ message }) => message), [
    "files for TLS to Consul's servers cannot be used, the last ones stay in use",
  ]);
});

test("createServersTls() refuses files that cannot be used at the start", async () => {
  await using files = await Files.create();
  assert.throws(() => files.make(), { code: "config_invalid", message: /-ca-file/ });
});

test("createServersTls() uses the system's CAs without files", async () => {
  await using files = await Files.create(ca.rootPem);
  const tls = files.make({ caFile: "" });
  const material = await tls?.material();
  assert.equal(await tls?.material(), material, "unchanged files give the same material");
  assert.match(
    material?.judge(leafOf(ca, ["consul.example"])) ?? "",
    /; CAs are taken from what this system trusts: give -ca-file or -ca-path$/,
  );
});

test("createServersTls() is null without TLS", async () => {
  await using files = await Files.create();
  assert.equal(createServersTls({ places: NAME, tls: null, datacenter: "" }, files.deps), null);
});
