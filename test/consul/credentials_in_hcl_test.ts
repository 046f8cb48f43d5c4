/**
 * `postern_tls` as operators write it for Consul's own command line: HCL's blocks, and lists of one,
 * arrive in other shapes than they were written; central configuration is merged into the registration.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { writeFile } from "node:fs/promises";
import { peer } from "../../scripts/peers.ts";
import { readRegistration } from "../../src/consul/replies/registration.ts";
import type { CredentialsPlan } from "../../src/secrets/mod.ts";
import { NO_PLANS } from "../../src/source/parts/credential_plans.ts";
import { planRegistration } from "../../src/source/consul/plan_registration.ts";
import { type Consul, startConsul } from "../kit/mesh/consul.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually, runToEnd } from "../kit/process/process.ts";
import { CredentialsStory } from "../kit/mesh/sidecar_credentials.ts";

async function consul(server: Consul, ...words: readonly string[]): Promise<void> {
  const [command, action, file = ""] = words;
  const args = [`${command}`, `${action}`, "-http-addr", server.address, file];
  await runToEnd(peer("consul"), args, { timeoutMs: 60_000 });
}

/** The plan that our own code makes of the registration of `web`'s sidecar. */
async function plansOf(server: Consul) {
  const id = "web-1-sidecar-proxy";
  const registration = readRegistration(await server.get(`/v1/agent/service/${id}`), id);
  return planRegistration(registration, NO_PLANS, {});
}

function matchersOf(plan: CredentialsPlan | undefined) {
  const source = plan?.validation?.secret.source;
  const rules = plan?.validation?.defaults?.rules ??
    (source?.kind === "spec" && source.spec.type === "validation" ? source.spec.rules : undefined);
  return [rules?.matchers.length, rules?.spkiPins.length];
}

const PIN = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=";
const REGISTRATION = `
service {
  name = "web"
  id   = "web-1"
  port = 8080
  connect { sidecar_service { proxy {
    config {
      postern_tls {
        certificates = [{ source = "file", cert = "/tls/web.pem", key = "/tls/web.key" }]
        validation {
          source      = "sds"
          cluster     = "sds_cluster"
          name        = "roots"
          sanMatchers = [{ type = "dns", exact = "caller.example" }]
          spkiPins    = ["${PIN}"]
        }
        minVersion = "1.3"
        sds_clusters {
          sds_cluster { address = "unix:///run/sds.sock" }
        }
      }
    }
    upstreams = [{
      destination_name = "db"
      local_bind_port  = 9191
      config {
        postern_tls {
          source = "file"
          ca     = "/tls/db-roots.pem"
          sanMatchers {
            type  = "dns"
            exact = "db.example"
          }
        }
        postern_listener_tls = {
          common_tls_context = {
            tls_certificates = [{
              certificate_chain = { filename = "/tls/l.pem" }
              private_key       = { filename = "/tls/l.key" }
            }]
          }
        }
      }
    }]
  } } }
}
`;

test("a registration in HCL is understood as it was written", async () => {
  await using server = await startConsul();
  await using story = await CredentialsStory.start(server);
  await writeFile(story.path("web.hcl"), REGISTRATION);
  await consul(server, "services", "register", story.path("web.hcl"));
  const { plans, refused, inbound, upstreams, listeners } = await plansOf(server);
  assert.deepEqual(refused, []);
  assert.equal(inbound, "inbound");
  assert.deepEqual(plans.inbound?.certificates.map(({ name }) => name), ["/tls/web.pem"]);
  assert.equal(plans.inbound?.tls?.minVersion, "TLSv1.3");
  assert.equal(plans.inbound?.validation?.secret.source.kind, "sds");
  assert.deepEqual(matchersOf(plans.inbound), [1, 1]);
  const [id = ""] = upstreams.keys();
  assert.deepEqual(matchersOf(plans[id]), [1, 0]);
  assert.equal(plans[id]?.certificates[0]?.source.kind, "consul");
  assert.deepEqual([...listeners.keys()], [id]);
  assert.equal(plans[`${id} listener`]?.certificates[0]?.name, "/tls/l.pem");
});

test("a sidecar runs from a registration in HCL and central configuration in HCL", async () => {
  await using server = await startConsul();
  await using story = await CredentialsStory.start(server);
  const serial = await story.writePair("db");
  await writeFile(
    story.path("global.hcl"),
    `
Kind = "proxy-defaults"
Name = "global"
Config {
  postern_tls { certificate { source = "file" key = "${story.path("db.key")}" } }
}
`,
  );
  await consul(server, "config", "write", story.path("global.hcl"));
  const { agent: { host }, app, place } = story;
  await writeFile(
    story.path("db.hcl"),
    `
service {
  name    = "db"
  id      = "db-1"
  address = "${host}"
  port    = ${app.port}
  connect { sidecar_service {
    port = ${place.port}
    checks = [{ name = "alias", alias_service = "db-1", status = "passing" }]
    proxy {
      local_service_address = "${host}"
      config { postern_tls { certificate { cert = "${story.path("db.pem")}" } } }
    }
  } }
}
`,
  );
  await consul(server, "services", "register", story.path("db.hcl"));
  const db = story.run();
  await db.waitReady();
  await story.shows(serial);
});

test("central configuration is merged key by key; a service's own is refused", async () => {
  await using server = await startConsul();
  await server.configEntry({
    Kind: "proxy-defaults",
    Name: "global",
    Config: {
      postern_tls: {
        sds_clusters: { global: { address: "unix:///run/global.sock" } },
        minVersion: "1.3",
      },
    },
  });
  await server.put("/v1/agent/service/register", {
    Name: "web",
    ID: "web-1",
    Port: await freePort(server.host),
    Connect: {
      SidecarService: {
        Proxy: {
          Config: {
            postern_tls: {
              certificate: { source: "sds", cluster: "global", name: "web" },
              minVersion: "1.2",
            },
          },
          Upstreams: [{ DestinationName: "db", LocalBindPort: 9_191 }],
        },
      },
    },
  });
  const plans = await eventually("central configuration has arrived", async () => {
    const found = await plansOf(server);
    return found.refused.length === 0 && found;
  });
  assert.equal(plans.plans.inbound?.certificates[0]?.source.kind, "sds");
  assert.equal(plans.plans.inbound?.tls?.minVersion, "TLSv1.2", "what is registered wins");
  // Upstreams get nothing of it; their section of the proxy's does that.
  assert.equal(plans.upstreams.size, 0);
  const refused = await server.call("PUT", "/v1/config", {
    body: { Kind: "service-defaults", Name: "web", postern_tls: {} },
  });
  assert.equal(refused.status, 400);
});
