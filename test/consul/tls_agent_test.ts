import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/mesh/consul.ts";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { deadline } from "../kit/process/process.ts";

test("an agent that demands client certificates, named by flags", async () => {
  await using server = await startConsul({ acl: true, tls: true });
  const { address, caFile, certFile, keyFile } = server.tls;
  await using pair = await startMeshPair(server, {
    both: {
      args: [
        ...["-http-addr", address, "-ca-file", caFile],
        ...["-client-cert", certFile, "-client-key", keyFile],
      ],
    },
  });
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(new TextEncoder().encode("hello"));
  await server.intention("web", "db", "deny");
  assert.ok(await deadline(open.over, 30_000), "still open 30 s after the deny");
  open.destroy();
});

test("an agent that demands client certificates, named by environment", async () => {
  await using server = await startConsul({ acl: true, tls: true });
  const { address, caFile, certFile, keyFile } = server.tls;
  await using pair = await startMeshPair(server, {
    both: {
      env: {
        CONSUL_HTTP_ADDR: address.replace("https://", ""),
        CONSUL_HTTP_SSL: "true",
        CONSUL_CACERT: caFile,
        CONSUL_CLIENT_CERT: certFile,
        CONSUL_CLIENT_KEY: keyFile,
      },
    },
  });
  await waitForEcho(pair.upstream);
});

test("a proxy without the agent's TLS material does not become ready and logs the reason", async (t) => {
  await using server = await startConsul({ tls: true });
  await using other = await startConsul({ tls: true });
  const { address, caFile, certFile, keyFile } = server.tls;
  await server.register({ name: "web" });
  const client = ["-client-cert", certFile, "-client-key", keyFile];
  for (
    const [title, args, named] of [
      ["no client certificate", ["-ca-file", caFile], /wants a certificate: give -client-cert/],
      [
        "a client certificate of another CA",
        ["-ca-file", caFile, "-client-cert", other.tls.certFile, "-client-key", other.tls.keyFile],
        /does not take -client-cert \(CONSUL_CLIENT_CERT\)/,
      ],
      [
        "another CA",
        ["-ca-file", other.tls.caFile, ...client],
        /names \W*CN=Consul Agent CA \d+\W* as its issuer, but -ca-file .* has \W*CN=Consul Agent CA/,
      ],
      ["no CA at all", client, /as its issuer, which is not in what this system trusts/],
      [
        "another name",
        ["-ca-file", caFile, ...client, "-tls-server-name", "server.dc9.consul"],
        /not for \W*server\.dc9\.consul\W* but for .*server\.dc1\.consul/,
      ],
    ] as const
  ) {
    await t.test(title, async () => {
      await using postern = server.runSidecar("web-1", { args: ["-http-addr", address, ...args] });
      postern.expectEnd();
      await postern.process.waitFor(/\[ERROR\]|\[WARN\]|Cannot/, { timeoutMs: 60_000 });
      await postern.process.waitFor(named, { timeoutMs: 60_000 });
      assert.doesNotMatch(postern.output, /listener ready|proxy ready/);
    });
  }
  await t.test("another CA, where nothing is to be checked", async () => {
    await using web = await server.sidecar("web-1", {
      args: ["-http-addr", address, "-ca-file", other.tls.caFile, ...client],
      env: { CONSUL_HTTP_SSL_VERIFY: "false" },
    });
    assert.match(web.output, /\[WARN\] +the agent's certificate is not checked.*SSL_VERIFY/);
  });
  await using _web = await server.sidecar("web-1", {
    args: ["-http-addr", address, "-ca-file", caFile, ...client],
  });
});
