/** The page about life without an agent, run on real servers with ACLs and TLS. */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { type Cluster, startCluster } from "../kit/mesh/cluster.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { type Postern, ready, startPostern } from "../kit/process/postern.ts";

const PAGE = await readFile(
  fileURLToPath(new URL("../../docs/without-an-agent.md", import.meta.url)),
  "utf8",
);

/** The first command line below a heading, without the program's name. */
function command(heading: string): string {
  const [, part = ""] = PAGE.split(new RegExp(`^#+ ${heading}$`, "m"));
  const [, line] = /```sh\npostern (.*)\n/.exec(part) ?? [];
  return line ?? assert.fail(`no command line below ${heading}`);
}

/** Replaces the page's addresses by this machine's. */
function placed(line: string, places: Readonly<Record<string, string>>): readonly string[] {
  let text = line;
  for (const [from, to] of Object.entries(places)) {
    assert.ok(text.includes(from), `${from} is not in ${line}`);
    text = text.replace(from, to);
  }
  return text.split(" ");
}

async function run(cluster: Cluster, words: readonly string[]): Promise<Postern> {
  const ports = ["-grpc-port", `${cluster.grpcPort}`, "-http-port", `${cluster.httpPort}`];
  return await ready(startPostern([...words, ...ports, "-admin-bind", "127.0.0.1:0"]));
}

test("a virtual machine and its neighbour run as the page says", async () => {
  await using own = new AsyncDisposableStack();
  const cluster = own.use(await startCluster({ servers: 3, acl: true, tls: true }));
  const directory = await mkdtemp(join(tmpdir(), "postern-page-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const [, rules = ""] = /<!-- example: policy -->\n+```hcl\n([^]*?)```/.exec(PAGE) ?? [];
  const tokenFile = join(directory, "token");
  await writeFile(tokenFile, `${await cluster.tokenWithRules(rules)}\n`, { mode: 0o600 });
  const places = {
    "consul.example": cluster.members.map(({ host }) => host).join(","),
    "/etc/postern/consul-ca.pem": cluster.tls.caFile,
    "/etc/postern/token": tokenFile,
  };

  const app = own.use(await cluster.echo());
  const [listen, upstream] = [await cluster.place(), await cluster.place()];
  await cluster.intention("web", "db", "allow");
  await cluster.register({ name: "db", port: app.port });
  own.use(await cluster.sidecar("db-1", await cluster.ownToken("db")));
  const web = own.use(
    await run(
      cluster,
      placed(command("A virtual machine"), {
        ...places,
        "127.0.0.1:8080": `${app.host}:${app.port}`,
        "10.0.0.7:20000": `${listen.host}:${listen.port}`,
        "db:5432": `db:${upstream.host}:${upstream.port}`,
      }),
    ),
  );
  await waitForEcho(upstream);
  assert.equal((await web.stop()).code, 0);

  // Another node registers it.
  const again = await cluster.place();
  await cluster.put("/v1/catalog/register", { Node: "web-vm-1", Address: cluster.host });
  await cluster.put("/v1/catalog/register", {
    Node: "web-vm-1",
    Address: cluster.host,
    SkipNodeUpdate: true,
    Service: {
      Kind: "connect-proxy",
      ID: "web-1-sidecar-proxy",
      Service: "web-sidecar-proxy",
      Address: listen.host,
      Port: listen.port,
      Proxy: {
        DestinationServiceName: "web",
        DestinationServiceID: "web-1",
        LocalServiceAddress: app.host,
        LocalServicePort: app.port,
        Upstreams: [{
          DestinationName: "db",
          LocalBindAddress: again.host,
          LocalBindPort: again.port,
        }],
      },
    },
  });
  own.use(await run(cluster, placed(command("Without an agent"), places)));
  await waitForEcho(again);
});
