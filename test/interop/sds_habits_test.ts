import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { mkdtemp, rm } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { createServer } from "node:tls";
import { createAuthority } from "../kit/certs/certificates.ts";
import {
  EchoClient,
  type Place,
  startEcho,
  waitForEcho,
  waitForRefusal,
} from "../kit/wire/echo.ts";
import { sdsSecret, type TlsProxy } from "../kit/peers/envoy_tls.ts";
import { eventually, pause } from "../kit/process/process.ts";
import {
  certificateSecret,
  inlineBytes,
  startSdsPeer,
  validationSecret,
} from "../kit/secrets/sds_peer.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";
import { SUBJECTS } from "../kit/peers/tls_subjects.ts";

/** The first try of a proxy that backs off may be half a minute away. */
const RECOVERY = { timeoutMs: 60_000 };

async function shows(proxy: TlsProxy, leaf: { readonly certPem: string }): Promise<boolean> {
  const place = await proxy.place("tls_in");
  if (!place) return false;
  const outcome = await probeTls(place);
  return outcome.accepted && outcome.serial === serialOf(leaf.certPem);
}

interface Call {
  /** `/SpiffeWorkloadAPI/FetchX509SVID`. */
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The one message sent; absent: an empty one. */
  readonly message?: Uint8Array;
}

/** The messages that answer one call, then `status N`; as many as the test wants. */
async function* callGrpc(path: string, call: Call): AsyncGenerator<string, void> {
  const session = connectHttp2("http://localhost", { createConnection: () => connect({ path }) });
  const stream = session.request({
    ":method": "POST",
    ":path": call.method,
    "content-type": "application/grpc",
    te: "trailers",
    ...call.headers,
  });
  let status: string | undefined;
  const note = (fields: Readonly<Record<string, unknown>>) => {
    if (fields["grpc-status"] !== undefined) status = String(fields["grpc-status"]);
  };
  stream.on("response", note);
  stream.on("trailers", note);
  const { message = new Uint8Array() } = call;
  stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]));
  try {
    let held = Buffer.alloc(0);
    for await (const chunk of stream) {
      held = Buffer.concat([held, chunk as Uint8Array]);
      while (held.length >= 5 && held.length >= 5 + held.readUInt32BE(1)) {
        const end = 5 + held.readUInt32BE(1);
        yield held.subarray(5, end).toString("latin1");
        held = held.subarray(end);
      }
    }
    yield `status ${status}`;
  } finally {
    session.destroy();
  }
}

for (const [subject, startProxy] of SUBJECTS) {
  test(`${subject} takes a SPIRE agent's secrets, which it refuses at first`, async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-spire-"));
    try {
      const ca = createAuthority();
      const [first, second] = [ca.issueLeaf({ service: "web" }), ca.issueLeaf({ service: "web" })];
      const stranger = createAuthority().issueLeaf({ service: "api" });
      const trustDomain = `spiffe://${ca.trustDomain}`;
      const bundles = { [trustDomain]: ca.rootPem };
      const state = (leaf: typeof first) => ({
        trustDomain,
        bundles,
        svids: [{ id: leaf.uri, certPem: leaf.certPem, keyPem: leaf.keyPem }],
      });
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using agent = await startSdsPeer({
        listen: `unix:${join(directory, "api.sock")}`,
        habits: "spire",
      });
      await using proxy = await startProxy({
        sds: agent.address,
        inbound: {
          tls: {
            require_client_certificate: true,
            common_tls_context: {
              tls_certificate_sds_secret_configs: [sdsSecret("default")],
              validation_context_sds_secret_config: sdsSecret("ROOTCA"),
            },
          },
          target: echo,
        },
      });
      await eventually("the agent refused both names", async () => {
        const { entries } = await agent.log();
        return entries.filter(({ event, error }) => event === "close" && error?.code === 3)
          .length >= 2;
      });
      assert.equal(await proxy.place("tls_in"), undefined, "a refusal ends no waiting");

      await agent.setWorkload(state(first));
      const place = await eventually("the listener is open", () => proxy.place("tls_in"), RECOVERY);
      const call = (leaf: typeof first) =>
        probeTls(place, { cert: leaf.certPem, key: leaf.keyPem });
      const served = await eventually("it takes a caller", async () => {
        const outcome = await call(second);
        return outcome.accepted && outcome;
      }, RECOVERY);
      assert.equal(served.serial, serialOf(first.certPem));
      assert.equal((await call(stranger)).accepted, false);
      assert.match((await agent.acknowledged("default")).nonce ?? "", /^[0-9a-f]{8}$/);

      await agent.setWorkload(state(second));
      await eventually("it shows the new SVID", async () => {
        const outcome = await call(second);
        return outcome.accepted && outcome.serial === serialOf(second.certPem);
      });
      // Envoy requests one name per stream. Postern requests all on one until the agent refuses that.
      const { entries } = await agent.log();
      const refusal = entries.findIndex(({ event }) => event === "close");
      const requests = entries.slice(refusal).filter(({ event }) => event === "request");
      for (const { names } of requests) assert.equal(names?.length, 1, "one name per stream");
      const [opening] = entries.filter(({ event }) => event === "request");
      assert.equal(opening?.names?.length, subject === "Envoy" ? 1 : 2);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  test(`${subject} reads SDS over mutual TLS and outlives every fault of the server`, async () => {
    const ca = createAuthority();
    const infrastructure = createAuthority();
    const sdsLeaf = infrastructure.issueLeaf({
      service: "sds",
      overrides: { dnsNames: ["sds.example"] },
    });
    const proxyLeaf = infrastructure.issueLeaf({ service: "proxy" });
    const leaves = Array.from({ length: 4 }, () => ca.issueLeaf({ service: "web" }));
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer({
      tls: {
        certPem: sdsLeaf.certPem,
        keyPem: sdsLeaf.keyPem,
        clientCa: infrastructure.rootPem,
      },
    });
    await using proxy = await startProxy({
      sds: sds.address,
      sdsTls: {
        sni: "sds.example",
        common_tls_context: {
          tls_certificates: [{
            certificate_chain: inlineBytes(proxyLeaf.certPem),
            private_key: inlineBytes(proxyLeaf.keyPem),
          }],
          validation_context: {
            trusted_ca: inlineBytes(infrastructure.rootPem),
            match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: "sds.example" } }],
          },
        },
      },
      inbound: {
        tls: {
          common_tls_context: { tls_certificate_sds_secret_configs: [sdsSecret("web")] },
        },
        target: echo,
      },
    });
    let held: (typeof leaves)[number] | undefined;
    for (const [index, fault] of ([undefined, "garbage", "silent", "slow"] as const).entries()) {
      const next = leaves[index];
      assert.ok(next);
      if (fault) await sds.setFault(fault);
      await sds.set({ web: certificateSecret(next) });
      if (fault) {
        await pause(1_000);
        assert.ok(held && await shows(proxy, held), `${fault}: what it held is gone`);
        await sds.setFault(undefined);
      }
      await eventually(`leaf ${index} is shown`, () => shows(proxy, next), RECOVERY);
      held = next;
    }
    await sds.killStreams();
    const last = ca.issueLeaf({ service: "web" });
    await sds.set({ web: certificateSecret(last) });
    await eventually("the last leaf is shown", () => shows(proxy, last), RECOVERY);
  });

  test(`${subject} dials an upstream with leaf and roots from SDS`, async () => {
    const [ca, other] = [createAuthority(), createAuthority()];
    const leaf = ca.issueLeaf({ service: "db", overrides: { dnsNames: ["db.example"] } });
    const callers = [ca.issueLeaf({ service: "web" }), ca.issueLeaf({ service: "web" })];
    const seen: string[] = [];
    const server = createServer({
      cert: leaf.certPem,
      key: leaf.keyPem,
      ca: [ca.rootPem],
      requestCert: true,
    }, (socket) => {
      seen.push(socket.getPeerCertificate().serialNumber);
      socket.on("error", () => socket.destroy());
      socket.pipe(socket);
    });
    const target = await new Promise<Place>((resolve, reject) => {
      server.on("error", reject);
      server.on("tlsClientError", () => {});
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        if (address && typeof address === "object") {
          resolve({ host: "127.0.0.1", port: address.port });
        }
      });
    });
    try {
      await using sds = await startSdsPeer();
      const [first, second] = callers;
      assert.ok(first && second);
      await sds.set({ web: certificateSecret(first), roots: validationSecret(ca.rootPem) });
      await using proxy = await startProxy({
        sds: sds.address,
        outbound: {
          tls: {
            sni: "db.example",
            // Envoy's client stops at 1.2 by default.
            common_tls_context: {
              tls_params: { tls_maximum_protocol_version: "TLSv1_3" },
              tls_certificate_sds_secret_configs: [sdsSecret("web")],
              combined_validation_context: {
                default_validation_context: {
                  match_typed_subject_alt_names: [
                    { san_type: "DNS", matcher: { exact: "db.example" } },
                  ],
                },
                validation_context_sds_secret_config: sdsSecret("roots"),
              },
            },
          },
          target,
        },
      });
      const place = await eventually("the listener is open", () => proxy.place("tls_out"));
      await waitForEcho(place);
      await sds.set({ web: certificateSecret(second) });
      await sds.acknowledged("web");
      await eventually("the second leaf is shown to the upstream", async () => {
        const client = await EchoClient.open(place);
        await client.exchange(new Uint8Array([1]));
        client.destroy();
        return seen.at(-1) !== seen[0];
      });
      await sds.set({ roots: validationSecret(other.rootPem) });
      await sds.acknowledged("roots");
      await waitForRefusal(place);
    } finally {
      server.close();
    }
  });
}

test("the SPIRE peer serves the Workload API and its updates on the same socket", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-spire-"));
  const path = join(directory, "api.sock");
  try {
    const ca = createAuthority();
    const leaf = ca.issueLeaf({ service: "web" });
    const trustDomain = `spiffe://${ca.trustDomain}`;
    await using agent = await startSdsPeer({ listen: `unix:${path}`, habits: "spire" });
    const call = (name: string, headers: Record<string, string>) =>
      callGrpc(path, { method: `/SpiffeWorkloadAPI/${name}`, headers });
    const first = async (name: string, headers: Record<string, string>) =>
      (await call(name, headers).next()).value;
    const allowed = { "workload.spiffe.io": "true" };
    assert.equal(await first("FetchX509SVID", {}), "status 3");
    assert.equal(await first("FetchX509SVID", allowed), "status 7", "no identity yet");

    const state = (hint: string) => ({
      trustDomain,
      svids: [{ id: leaf.uri, certPem: leaf.certPem, keyPem: leaf.keyPem, hint }],
      bundles: { [trustDomain]: ca.rootPem },
    });
    await agent.setWorkload(state("internal"));
    const root = Buffer.from(ca.rootDer).toString("latin1");
    assert.ok((await first("FetchX509Bundles", allowed))?.includes(root));
    const messages = call("FetchX509SVID", allowed);
    const svid = (await messages.next()).value ?? "";
    for (const part of [leaf.uri, Buffer.from(leaf.certDer).toString("latin1"), root, "internal"]) {
      assert.ok(svid.includes(part));
    }
    await agent.setWorkload(state("external"));
    assert.ok((await messages.next()).value?.includes("external"));
    await messages.return(undefined);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("the SPIRE peer refuses the requests that a SPIRE agent refuses", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-spire-"));
  const path = join(directory, "api.sock");
  const ca = createAuthority();
  const leaf = ca.issueLeaf({ service: "web" });
  const domain = `spiffe://${ca.trustDomain}`;
  // DiscoveryRequest.node.user_agent_build_version.version {1, 17}.
  const oldNode = [0x12, 8, 0x42, 6, 0x0a, 4, 0x08, 1, 0x10, 17];
  try {
    await using agent = await startSdsPeer({ listen: `unix:${path}`, habits: "spire" });
    await agent.setWorkload({
      trustDomain: domain,
      svids: [{ id: leaf.uri, certPem: leaf.certPem, keyPem: leaf.keyPem }],
      bundles: { [domain]: ca.rootPem, "spiffe://other": createAuthority().rootPem },
    });
    for (
      const [names, node, want, validator] of [
        [["default", "ROOTCA"], [], "status 0", "validator"],
        [["ALL"], [], "status 0", "validator"],
        [["spiffe://other"], [], "status 0", "validator"],
        [[], [], "status 0", "validator"],
        [["unknown"], [], "status 3", "none"],
        [["default", "unknown"], [], "status 3", "none"],
        [["default", leaf.uri], [], "status 3", "none"],
        [["ROOTCA", domain], [], "status 3", "none"],
        [["ROOTCA"], oldNode, "status 0", "none"],
        [["ALL"], oldNode, "status 13", "none"],
      ] as const
    ) {
      const fields = names.map((name) => [0x1a, name.length, ...Buffer.from(name)]);
      const message = Uint8Array.from([...node, ...fields.flat()]);
      const method = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets";
      const answers = await Array.fromAsync(callGrpc(path, { method, message }));
      assert.equal(answers.at(-1), want, names.join());
      assert.equal(answers.length, want === "status 0" ? 2 : 1, names.join());
      const asks = answers[0]?.includes("envoy.tls.cert_validator.spiffe") ?? false;
      assert.equal(asks ? "validator" : "none", validator, names.join());
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
