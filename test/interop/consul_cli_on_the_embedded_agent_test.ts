/** The Consul CLI on the agent in memory, which `postern dev` tells its users to point it at. */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { systemClock, systemRandom } from "../../src/base/mod.ts";
import { startDevAgent } from "../../src/dev/mod.ts";
import { runToEnd } from "../kit/process/process.ts";

const SERVICE = `service {
  name = "web"
  port = 8080
  connect {
    sidecar_service {
      proxy { upstreams = [{ destination_name = "db" local_bind_port = 9191 }] }
    }
  }
}`;

const ENTRIES = [
  `Kind = "service-defaults"
   Name = "db"
   Protocol = "http"
   UpstreamConfig { Defaults { Limits { MaxConnections = 3 } } }`,
  `Kind = "service-router"
   Name = "db"
   Routes = [{
     Match { HTTP { PathPrefix = "/a" Header = [{ Name = "x" Exact = "y" }] } }
     Destination { RequestTimeout = "5s" NumRetries = 2 }
   }]`,
  `Kind = "service-resolver"
   Name = "db"
   ConnectTimeout = "3s"
   Subsets = { v1 = { Filter = "Service.Meta.version == v1" } }
   Failover = { "*" = { Datacenters = ["dc2"] } }`,
  `Kind = "service-splitter"
   Name = "db"
   Splits = [{ Weight = 50 }, { Weight = 50 ServiceSubset = "v1" }]`,
  `Kind = "service-intentions"
   Name = "db"
   Sources = [{
     Name = "web"
     Permissions = [{ Action = "allow" HTTP { PathPrefix = "/" Methods = ["GET"] } }]
   }]`,
  `Kind = "proxy-defaults"
   Name = "global"
   AccessLogs { Enabled = true }`,
  `Kind = "mesh"
   TLS { Incoming { TLSMinVersion = "TLSv1_3" } }`,
  `Kind = "jwt-provider"
   Name = "okta"
   Issuer = "x"
   JSONWebKeySet { Local { JWKS = "eyJrZXlzIjogW119" } }`,
];

test("the Consul CLI registers, writes config entries and intentions, and reads them again", async () => {
  await using agent = await startDevAgent({ clock: systemClock, random: systemRandom });
  const directory = await mkdtemp(join(tmpdir(), "postern-cli-"));
  const file = join(directory, "input.hcl");
  const consul = (...words: readonly string[]) =>
    runToEnd(peer("consul"), [...words], {
      timeoutMs: 30_000,
      env: { CONSUL_HTTP_ADDR: agent.address },
    });
  const consulOn = async (text: string, ...words: readonly string[]) => {
    await writeFile(file, text);
    return await consul(...words, file);
  };
  try {
    assert.match(await consulOn(SERVICE, "services", "register"), /Registered service: web/);
    assert.match(await consul("catalog", "services"), /^web-sidecar-proxy$/m);
    assert.match(await consul("catalog", "nodes"), /^dev /m);
    for (const entry of ENTRIES) await consulOn(entry, "config", "write");
    const read = await consul("config", "read", "-kind", "service-resolver", "-name", "db");
    assert.equal((JSON.parse(read) as { ConnectTimeout: string }).ConnectTimeout, "3s");
    assert.match(await consulOn(read, "config", "write"), /Config entry written/);

    await consul("intention", "create", "-deny", "web", "api");
    await consul("intention", "create", "-replace", "-allow", "web", "api");
    assert.match(await consul("intention", "get", "web", "api"), /Action: +allow/);
    assert.match(await consul("intention", "check", "web", "api"), /Allowed/);
    assert.match(await consul("intention", "list"), /web +allow +api/);
    await consul("intention", "delete", "web", "api");
    assert.match(await consul("connect", "ca", "get-config"), /"Provider": "consul"/);
    await consul("services", "deregister", "-id", "web");
    assert.doesNotMatch(await consul("catalog", "services"), /web/);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
